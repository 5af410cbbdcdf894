//! Failures that others have reported of their limiters, as traces with the right answers (`cases/rates.json`).

mod common;

use common::Case;
use serde_json::{Value, json};
use std::fmt::Write;

/// `{"window"|"capacity", "refill", "per_ns"}` as a `[[limit]]`.
fn limit(number: usize, limit: &Value) -> String {
    let per = limit["per_ns"].as_u64().unwrap();
    let amount = match limit.get("window") {
        Some(tokens) => format!("window = {{ tokens = {tokens}, per = \"{per}ns\" }}"),
        None => {
            let (refill, capacity) = (&limit["refill"], &limit["capacity"]);
            format!("rate = {{ tokens = {refill}, per = \"{per}ns\", burst = {capacity} }}")
        }
    };
    format!("[[limit]]\nname = \"limit-{number}\"\ncost = \"cost\"\n{amount}\n")
}

/// `99D1A` as 99 times D and one A.
fn unpacked(text: &str) -> String {
    let mut out = String::new();
    let mut count = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            count.push(c);
        } else {
            out.extend(std::iter::repeat_n(c, count.parse().unwrap()));
            count.clear();
        }
    }
    out
}

#[test]
fn every_reported_rate_case_gets_its_right_answers() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases/rates.json")).unwrap();
    assert_eq!(cases.len(), 20);
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let limits = case["limits"].as_array().unwrap();
        let policy: String = limits.iter().enumerate().map(|(number, of)| limit(number, of)).collect();
        let mut events = String::new();
        for calls in case["calls"].as_array().unwrap() {
            let number = |field: &str| calls[field].as_u64().unwrap();
            for call in 0..number("count") {
                let t_ns = number("at") + call * number("step");
                writeln!(events, "{{\"t_ns\":{t_ns},\"cost\":{}}}", number("cost")).unwrap();
            }
        }
        let replay = Case::new(&policy, &events).replay();
        if id == "C03-huge" && replay.code == 2 {
            // 2^63 tokens a second may be refused, if the error says what is too big.
            assert!(replay.stderr.contains("tokens is"), "{}", replay.stderr);
            continue;
        }
        let replay = replay.ok();
        assert_eq!(replay.verdicts(), unpacked(case["expect"].as_str().unwrap()), "{id}");
        if let Some(left) = case.get("left") {
            let last = replay.decisions.last().unwrap();
            assert_eq!(&last["remaining"]["limit-0"], left, "{id}");
        }
    }
}

#[test]
fn a_huge_cost_never_wraps_around() {
    let policy = "[[limit]]\nname = \"x\"\ncost = \"c\"\nwindow = { tokens = 10, per = \"60s\" }\n";
    let events =
        common::lines([json!({"t_ns": 0, "c": 5}), json!({"t_ns": 0, "c": 18_446_744_073_709_551_613u64})]);
    assert_eq!(Case::new(policy, &events).replay().ok().verdicts(), "AN");
}

#[test]
fn factors_that_are_no_numbers_are_refused() {
    for factor in ["nan", "inf", "-inf", "0", "-1.5"] {
        let policy = format!("[velocity]\nmax_invocations_per_window = 5\nburst_factor = {factor}\n");
        let replay = Case::new(&policy, "").replay();
        assert_eq!(replay.code, 2, "{factor}");
        assert!(replay.stderr.contains("burst_factor is"), "{}", replay.stderr);
    }
}
