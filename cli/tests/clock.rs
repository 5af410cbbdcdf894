//! Time: clamping, windows in trace time, refill, and the instant at which a retry succeeds.

mod common;

use common::{Case, lines};
use serde_json::json;

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_retry_at_the_hint_succeeds_and_one_tick_earlier_fails() {
    let policy = "[[limit]]\nname = \"x\"\nrate = { tokens = 3, per = \"7s\" }\n";
    let first = lines([json!({"t_ns": 5}), json!({"t_ns": 5}), json!({"t_ns": 5}), json!({"t_ns": 5})]);
    let replay = Case::new(policy, &first).replay().ok();
    let wait = replay.decisions[3]["retry_after_ns"].as_u64().unwrap();
    for (t_ns, verdict) in [(5 + wait - 1, "AAADD"), (5 + wait, "AAADA")] {
        let events = first.clone() + &lines([json!({ "t_ns": t_ns })]);
        assert_eq!(Case::new(policy, &events).replay().ok().verdicts(), verdict);
    }
}

#[test]
fn times_that_run_backwards_are_clamped_once_for_all_and_counted() {
    let policy = "[[limit]]\nname = \"x\"\nkey = [\"k\"]\nrate = { tokens = 1, per = \"10s\" }\n";
    let event = |t_ms: u64, k: &str| json!({"t_ms": t_ms, "k": k});
    // b comes at 5 s after a came at 20 s: it is decided at 20 s, so at 26 s it must wait until 30 s.
    let events = lines([
        event(20_000, "a"),
        event(5_000, "b"),
        event(4_000, "c"),
        event(26_000, "b"),
        event(30_000, "b"),
    ]);
    let replay = Case::new(policy, &events).replay().ok();
    let times: Vec<_> = replay.decisions.iter().map(|d| d["t_ns"].as_u64().unwrap() / SECOND).collect();
    assert_eq!(times, [20, 20, 20, 26, 30]);
    assert_eq!(replay.told()[3], "deny x exhausted 4000000000");
    assert_eq!(replay.verdicts(), "AAADA");
    assert_eq!(replay.summary()["backward_steps"], json!(2));
    assert_eq!(replay.summary()["clamped_events"], json!(2));
}

#[test]
fn windows_are_laid_from_their_anchor_in_trace_time() {
    let policy = "[[limit]]\nname = \"x\"\nwindow = { tokens = 1, per = \"10s\", anchor = \"3s\" }\n";
    // Boundaries at 3, 13, 23 s, although the trace starts at 11.5 s.
    let events = lines([11_500, 12_999, 13_000, 22_999, 23_000].map(|t_ms| json!({"t_ms": t_ms})));
    let replay = Case::new(policy, &events).replay().ok();
    assert_eq!(
        replay.told(),
        ["admit", "deny x exhausted 1000000", "admit", "deny x exhausted 1000000", "admit"]
    );
}

#[test]
fn windows_of_dated_traces_are_laid_from_1970() {
    let policy = "[[limit]]\nname = \"day\"\nwindow = { tokens = 1, per = \"1d\" }\n";
    let times = [
        "2023-11-16T23:59:59.999Z",
        "2023-11-16T23:59:59.9999Z",
        "2023-11-17T00:00:00Z",
        "2023-11-17T23:59:59Z",
    ];
    let replay = Case::new(policy, &lines(times.map(|time| json!({ "time": time })))).replay().ok();
    assert_eq!(
        replay.told(),
        ["admit", "deny day exhausted 100000", "admit", "deny day exhausted 1000000000"]
    );
}

#[test]
fn milli_token_refill_lies_on_the_traces_own_milliseconds() {
    // 1 token a second: the thousandth of it that comes with each millisecond comes on the millisecond.
    let policy = "[velocity]\nmax_invocations_per_window = 60\nburst_factor = 0.02\n"; // capacity 1
    let event = |t_ns: u64| json!({"t_ns": t_ns, "capability": "c"});
    let events = lines([event(7_000_500_000), event(8_000_499_999), event(8_001_000_000)]);
    let replay = Case::new(policy, &events).replay().ok();
    // Drawn within the millisecond that began at 7.000; full again 1,000 ticks later.
    assert_eq!(replay.verdicts(), "AAD");
}

#[test]
fn exact_refill_keeps_the_asked_rate() {
    let calls = |refill: &str, t_ms: u64| {
        let policy = format!(
            "[velocity]\nmax_invocations_per_window = 100\nburst_factor = 1.5\nrefill = \"{refill}\"\n"
        );
        let event = |t_ms: u64| json!({"t_ms": t_ms, "capability": "c"});
        let events = lines((0..151).map(|_| event(0)).chain([event(t_ms)]));
        let verdicts = Case::new(&policy, &events).replay().ok().verdicts();
        assert!(verdicts.starts_with(&("A".repeat(150) + "D")));
        verdicts.chars().last().unwrap()
    };
    assert_eq!((calls("exact", 599), calls("exact", 600)), ('D', 'A'));
    assert_eq!((calls("milli-token", 999), calls("milli-token", 1_000)), ('D', 'A'));
}

#[test]
fn a_trace_longer_than_a_limits_arithmetic_is_refused_not_wrapped() {
    // A huge rate: its counter lasts a little over five years.
    let policy = "[[limit]]\nname = \"x\"\nrate = { tokens = 100000000000, per = \"1s\" }\n";
    let years = 500 * 31_557_600_000_000_000u64;
    let replay = Case::new(policy, &lines([json!({"t_ns": 0}), json!({"t_ns": years})])).replay().ok();
    assert_eq!(replay.told(), ["admit", "error x past-horizon"]);
}
