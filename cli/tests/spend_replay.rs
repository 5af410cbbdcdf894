//! `tollgate replay` of budgets.

mod common;

use common::{Case, lines, root, tollgate};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const HOUR: u64 = 3_600_000;

/// Two dollars a day for each user, and as much as it likes for everybody.
const POLICY: &str = r#"
[spend]
[[spend.scope]]
name = "user"
[[spend.scope.limit]]
cost = "2.00"
window = "calendar day"
zone = "UTC"
[[spend.scope]]
name = "all"
shared = true

[meter]
cost = [{ field = "in", per_million = "2.50" }, { field = "out", per_million = "10.00" }]
tokens = ["in", "out"]
"#;

/// An event with its time in milliseconds.
fn event(t_ms: u64, user: &str, tokens_in: u64, tokens_out: u64) -> Value {
    json!({ "t_ms": t_ms, "user": user, "in": tokens_in, "out": tokens_out })
}

#[test]
fn each_hour_says_how_many_were_full_reduced_and_blocked() {
    // 100,000 out are 1.00; 40,000 in and 30,000 out are 0.40.
    let trace = lines([
        event(22 * HOUR, "ann", 0, 100_000),         // 0 of 2.00 used before: full
        event(22 * HOUR + 1, "ann", 40_000, 30_000), // 1.00: half, full
        event(22 * HOUR + 2, "bob", 0, 100_000),     // full
        event(23 * HOUR, "ann", 40_000, 30_000),     // 1.40: 0.7, reduced
        event(23 * HOUR + 1, "ann", 0, 30_000),      // 1.80, and 0.30 are needed: blocked
        event(23 * HOUR + 2, "ann", 0, 20_000),      // 1.80: reduced, and 2.00 used
        event(23 * HOUR + 3, "ann", 1, 0),           // 2.00: blocked, and 3 millionths are what it costs
        event(23 * HOUR + 4, "ann", 0, 0),           // costs nothing, and passes
        event(24 * HOUR, "ann", 1, 0),               // another day: full
    ]);
    let replay = Case::new(POLICY, &trace).replay().ok();
    assert_eq!(replay.verdicts(), "AAAADADAA");
    let tiers: Vec<_> = replay.decisions.iter().map(|line| line.get("tier").cloned()).collect();
    let tier = |name: &str| Some(Value::from(name));
    let (full, reduced) = (|| tier("full"), || tier("reduced"));
    assert_eq!(tiers, [full(), full(), full(), reduced(), None, reduced(), None, tier("blocked"), full()]);
    assert_eq!(replay.decisions[4]["reason"], "exhausted");
    assert_eq!(replay.decisions[4]["needed"], 300_000);
    assert_eq!(replay.decisions[4]["retry_after_ns"], (HOUR - 1) * 1_000_000);
    assert_eq!(replay.decisions[6]["needed"], 3, "2.5 units are rounded up");
    let summary = replay.summary();
    let hour = |events: u64,
                full: u64,
                reduced: u64,
                free: u64,
                blocked: u64,
                cost: u64,
                tokens: u64,
                at: &str,
                ms: u64| {
        json!({
            "hour": at, "hour_ms": ms, "events": events, "full": full, "reduced": reduced, "free": free,
            "blocked": blocked, "unjudged": 0, "cost": cost, "tokens": tokens,
        })
    };
    assert_eq!(
        summary["hours"],
        json!([
            hour(3, 3, 0, 0, 0, 2_400_000, 270_000, "1970-01-01T22:00:00Z", 22 * HOUR),
            hour(5, 0, 2, 1, 2, 600_000, 90_000, "1970-01-01T23:00:00Z", 23 * HOUR),
            hour(1, 1, 0, 0, 0, 3, 1, "1970-01-02T00:00:00Z", 24 * HOUR),
        ])
    );
    assert_eq!(summary["total"]["events"], 9);
    assert_eq!(summary["top_reduced"], json!([{ "scope": "user", "key": "ann", "count": 2, "error": 0 }]));
    assert_eq!(summary["top_blocked"], json!([{ "scope": "user", "key": "ann", "count": 2, "error": 0 }]));
    let limits = summary["limits"].as_array().unwrap();
    assert_eq!(limits.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>(), 4);
    assert!(limits.iter().all(|row| row["window"] == "calendar day in UTC" && row["dimension"] == "cost"));
}

#[test]
fn the_table_has_the_hours_and_keys_that_cannot_write_to_the_terminal() {
    let trace = lines((0..4).map(|n| event(n * HOUR, "eve\u{1b}[2J", 0, 90_000)));
    let output = Case::new(POLICY, &trace).plain();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "hour by hour",
        "1970-01-01T02:00:00Z",
        "0.90 USD",
        "blocked, exhausted",
        "blocked most often",
        "eve\\u{1b}[2J",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn what_cannot_be_judged_is_refused_and_counted_by_its_reason() {
    let trace = lines([
        json!({ "t_ms": 0, "in": 1, "out": 1 }),
        json!({ "t_ms": 1, "user": "ann", "in": 1 }),
        json!({ "t_ms": 2, "user": "ann", "in": -1, "out": 1 }),
        json!({ "t_ms": 3, "user": "ann", "in": u64::MAX, "out": u64::MAX }),
        event(4, "ann", 1, 1),
        event(5, "bob", 1, 1),
    ]);
    let policy = POLICY.replace("[spend]\n", "[spend]\naccount_cap = 2\n");
    let replay = Case::new(&policy, &trace).replay().ok();
    // One account is everybody's, the other ann's; hers goes when bob comes.
    assert_eq!(replay.verdicts(), "EEEEAA");
    let reasons: Vec<_> = replay.decisions[..4].iter().map(|line| line["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["missing-field", "missing-field", "bad-amount", "bad-amount"]);
    assert_eq!(replay.summary()["unjudged"], json!({ "missing-field": 2, "bad-amount": 2 }));
}

#[test]
fn without_a_meter_every_event_is_a_call_and_uses_the_fields_of_its_dimensions() {
    let policy = "[spend]\n[[spend.scope]]\nname = \"all\"\nshared = true\n\
                  [[spend.scope.limit]]\ncalls = 2\n[[spend.scope.limit]]\ncost = 100\n[[spend.scope.limit]]\nruns = 1\n";
    let trace = lines([json!({ "t_ms": 0, "cost": 99 }), json!({ "t_ms": 1 }), json!({ "t_ms": 2 })]);
    let replay = Case::new(policy, &trace).replay().ok();
    assert_eq!(replay.verdicts(), "AAN");
    assert_eq!(replay.decisions[1]["tier"], "reduced");
    assert_eq!(replay.decisions[2]["dimension"], "calls");
    assert!(replay.stderr.contains("limit of runs of all is not replayed"), "{}", replay.stderr);
}

#[test]
fn grants_of_families_are_read_from_the_trace() {
    let policy = "[spend]\n[[spend.scope]]\nname = \"all\"\nshared = true\n\
                  [[spend.family]]\nroot = \"root\"\ncost = 100\nceiling = 40\n\
                  [[spend.grant]]\nid = \"child\"\nparent = \"root\"\n";
    let grant = |t_ms: u64, grant: &str, cost: u64| json!({ "t_ms": t_ms, "grant": grant, "cost": cost });
    let trace = lines([
        grant(0, "root", 40),
        grant(1, "child", 40),
        grant(2, "child", 41),
        grant(3, "root", 30),
        grant(4, "no", 1),
    ]);
    let replay = Case::new(policy, &trace).replay().ok();
    assert_eq!(replay.verdicts(), "AANNE");
    let reasons: Vec<_> = replay.decisions[2..].iter().map(|line| line["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["ceiling", "exhausted", "unknown-grant"]);
}

#[test]
fn a_mistake_in_the_meter_is_told_with_its_line() {
    let head = "[spend]\n[[spend.scope]]\nname = \"all\"\nshared = true\n";
    let cases = [
        ("[meter]\ntoken = 1\n", 6, "tokens"),
        ("[meter]\nruns = 1\n", 6, "cost, tokens, calls, seconds"),
        ("[meter]\ntokens = 1.5\n", 6, "a whole number"),
        ("[meter]\ntokens = []\n", 6, "a list of fields"),
        ("[meter]\ntokens = \"\"\n", 6, "a field's name"),
        ("[meter]\ncalls = -1\n", 6, "a whole number"),
        ("[meter]\ncost = 0.5\n", 6, "an amount such as"),
        ("[meter]\ncost = \"1.0000001\"\n", 6, "decimal places"),
        ("[meter]\ncost = [{ field = \"in\" }]\n", 6, "per_million"),
        ("[meter]\ncost = [{ per_million = \"1\" }]\n", 6, "field"),
        ("[meter]\ncost = [{ field = \"in\", per_million = 2.5 }]\n", 6, "as text"),
        ("[meter]\ncost = [\n  { field = \"in\", per_milion = \"1\" },\n]\n", 7, "per_million"),
        ("[velocity]\nmax_invocations_per_window = 1\n", 5, "a policy file for each"),
        ("[[limit]]\nname = \"x\"\nrate = { tokens = 1, per = \"1s\" }\n", 5, "a policy file for each"),
        ("[[effect]]\ntool = \"x\"\nmax = \"1/day\"\n", 5, "without [[effect]]"),
    ];
    for (tail, line, part) in cases {
        let output = Case::new(&format!("{head}{tail}"), "").plain();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{tail}: {text}");
        assert!(text.contains(&format!("policy.toml:{line}: ")), "{tail}: {text}");
        assert!(text.contains(part), "{tail}: {text}");
    }
    let alone = String::from_utf8(Case::new("[meter]\ncalls = 1\n", "").plain().stderr).unwrap();
    assert!(alone.contains("policy.toml:1: ") && alone.contains("[spend]"), "{alone}");
}

#[test]
fn an_hour_of_real_requests_is_reduced_and_blocked_within_its_limits() {
    let output = tollgate()
        .current_dir(root())
        .args(["replay", "--policy", "examples/policies/llm-spend.toml", "--summary", "json"])
        .args(["--input", "examples/traces/azure-llm-conv-2023.csv", "--map", "time=TIMESTAMP"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap();
    let total = &summary["total"];
    assert_eq!(count(total, "events"), 19_366);
    assert_eq!(
        (count(total, "full"), count(total, "reduced"), count(total, "blocked")),
        (4_851, 13_901, 614)
    );
    assert_eq!(count(total, "cost"), 93_620_275);
    for name in ["events", "full", "reduced", "blocked", "cost", "tokens"] {
        let hours: u64 = summary["hours"].as_array().unwrap().iter().map(|hour| count(hour, name)).sum();
        assert_eq!(hours, count(total, name), "{name}");
    }
}

/// What a user has spent on which day, simply added up.
type Spent = BTreeMap<(String, u64), u128>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decisions_are_those_of_sums_by_user_and_day(
        events in proptest::collection::vec((0..9 * HOUR, 0..3usize, 0..90_000u64, 0..40_000u64), 1..120),
    ) {
        let mut now = 0;
        let events: Vec<(u64, String, u64, u64)> = events
            .into_iter()
            .map(|(after, user, tokens_in, tokens_out)| {
                now += after;
                (now, format!("u{user}"), tokens_in, tokens_out)
            })
            .collect();
        let trace = lines(events.iter().map(|(at, user, tokens_in, out)| event(*at, user, *tokens_in, *out)));
        let replay = Case::new(POLICY, &trace).replay().ok();
        let mut spent = Spent::new();
        for ((at, user, tokens_in, tokens_out), decision) in events.into_iter().zip(&replay.decisions) {
            let cost = (u128::from(tokens_in) * 2_500_000 + u128::from(tokens_out) * 10_000_000).div_ceil(1_000_000);
            let used = spent.entry((user, at / (24 * HOUR))).or_default();
            let fits = cost == 0 || *used + cost <= 2_000_000;
            prop_assert_eq!(decision["verdict"] == "admit", fits, "{:?}", decision);
            if fits {
                let tier = match *used {
                    0..1_400_000 => "full",
                    1_400_000..2_000_000 => "reduced",
                    _ => "blocked",
                };
                prop_assert_eq!(&decision["tier"], tier);
                *used += cost;
            }
        }
    }
}
