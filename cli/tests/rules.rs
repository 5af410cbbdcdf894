//! The rules by which events are judged: stages, reasons, waits, what is left.

mod common;

use common::{Case, lines};
use serde_json::json;

const SECOND: u64 = 1_000_000_000;

const BOTH: &str = "
[velocity]
max_invocations_per_window = 2
max_spend_per_window = 300
window_secs = 1
[agent_velocity]
max_requests_per_agent = 4
max_requests_per_session = 3
window_secs = 1
";

fn call(t_ms: u64, agent: &str, capability: &str, cost: u64) -> serde_json::Value {
    json!({ "t_ms": t_ms, "agent": agent, "capability": capability, "cost": cost })
}

#[test]
fn decisions_come_one_an_event_in_order_with_number_and_time() {
    let events = lines([call(5, "a", "c", 1), call(5, "a", "c", 1), call(7, "a", "c", 1)]);
    let replay = Case::new(BOTH, &events).replay().ok();
    let numbered: Vec<_> = replay.decisions.iter().map(|d| (d["seq"].clone(), d["t_ns"].clone())).collect();
    assert_eq!(
        numbered,
        [(json!(0), json!(5_000_000)), (json!(1), json!(5_000_000)), (json!(2), json!(7_000_000))]
    );
    assert_eq!(replay.verdicts(), "AAD");
    for admitted in &replay.decisions[..2] {
        assert!(["limit", "reason", "retry_after_ns"].iter().all(|field| !admitted.contains_key(*field)));
    }
}

#[test]
fn each_of_the_four_guard_limits_refuses_under_its_own_name() {
    let session = "[agent_velocity]\nmax_requests_per_session = 1\nwindow_secs = 1\n";
    let agent = "[agent_velocity]\nmax_requests_per_agent = 1\nwindow_secs = 1\n";
    let invocations = "[velocity]\nmax_invocations_per_window = 1\nwindow_secs = 1\n";
    let spend = "[velocity]\nmax_spend_per_window = 1000\nwindow_secs = 1\n";
    let cases = [
        (agent, "agent_velocity.agent", SECOND),
        (session, "agent_velocity.session", SECOND),
        (invocations, "velocity.invocations", SECOND),
        (spend, "velocity.spend", 600_000_000),
    ];
    for (policy, name, wait) in cases {
        let events = lines([call(0, "a", "c", 800), call(0, "a", "c", 800)]);
        let told = Case::new(policy, &events).replay().ok().told();
        assert_eq!(told, ["admit".to_owned(), format!("deny {name} exhausted {wait}")]);
    }
}

#[test]
fn in_series_a_stage_that_refuses_ends_it_and_earlier_stages_have_drawn() {
    let events =
        lines([call(0, "a", "c", 200), call(0, "a", "c", 200), call(0, "a", "d", 1), call(0, "a", "e", 1)]);
    let replay = Case::new(BOTH, &events).replay().ok();
    // The second call clears the agent guard (which draws) and is refused by spend; so the fourth is one too many.
    assert_eq!(replay.told(), ["admit", "deny velocity.spend exhausted 334000000", "admit", "admit"]);
    assert_eq!(replay.remaining(1, "agent_velocity.agent"), Some(2));
    assert_eq!(replay.remaining(1, "velocity.invocations"), Some(1), "its sibling is not drained");
    assert_eq!(replay.remaining(3, "agent_velocity.agent"), Some(0));
}

#[test]
fn an_atomic_pipeline_draws_nothing_anywhere_when_any_stage_refuses() {
    let policy = format!("pipeline = \"atomic\"\n{BOTH}");
    let events = lines([
        call(0, "a", "c", 200),
        call(0, "a", "c", 200),
        call(0, "a", "d", 1),
        call(0, "a", "e", 1),
        call(0, "a", "f", 1),
    ]);
    let replay = Case::new(&policy, &events).replay().ok();
    assert_eq!(replay.verdicts(), "ADAAA");
    assert_eq!(replay.remaining(1, "agent_velocity.agent"), Some(3), "the refused call was not drawn");
    assert_eq!(replay.told()[1], "deny velocity.spend exhausted 334000000");
}

#[test]
fn both_pipelines_name_the_first_stage_that_refuses() {
    for pipeline in ["series", "atomic"] {
        let policy = format!(
            "pipeline = \"{pipeline}\"\n[agent_velocity]\nmax_requests_per_agent = 1\nwindow_secs = 1\n\
             [velocity]\nmax_spend_per_window = 10\nwindow_secs = 1\n\
             [[limit]]\nname = \"x\"\nkey = [\"gone\"]\nrate = {{ tokens = 1, per = \"1s\" }}\n"
        );
        let events = lines([
            call(0, "a", "c", 11), // agent admits; spend can never
            call(0, "a", "c", 11), // series: the agent's one call is drawn; atomic: it is not
            call(0, "b", "c", 1),  // both guards admit; the limit's key is missing
        ]);
        let told = Case::new(&policy, &events).replay().ok().told();
        let second = match pipeline {
            "series" => "deny agent_velocity.agent exhausted 1000000000",
            _ => "never velocity.spend impossible",
        };
        assert_eq!(told, ["never velocity.spend impossible", second, "error x missing-field"]);
    }
}

#[test]
fn in_an_atomic_pipeline_an_error_hides_behind_an_earlier_refusal_and_draws_nothing() {
    let policy = "pipeline = \"atomic\"\n[agent_velocity]\nmax_requests_per_agent = 1\nwindow_secs = 1\n\
                  [velocity]\nmax_spend_per_window = 10\nwindow_secs = 1\n";
    let no_cost = json!({"t_ms": 0, "agent": "a", "capability": "c"});
    let events = lines([no_cost.clone(), call(0, "a", "c", 5), no_cost]);
    let replay = Case::new(policy, &events).replay().ok();
    assert_eq!(
        replay.told(),
        ["error velocity.spend no-declared-cost", "admit", "deny agent_velocity.agent exhausted 1000000000",]
    );
    assert_eq!(replay.remaining(0, "agent_velocity.agent"), Some(1), "the error drew nothing");
    assert_eq!(replay.told_remaining(2), ["agent_velocity.agent"], "later stages were not evaluated");
}

#[test]
fn remaining_is_told_for_each_limit_of_every_stage_that_was_evaluated() {
    let policy =
        format!("{BOTH}[[limit]]\nname = \"x\"\nkey = [\"agent\"]\nrate = {{ tokens = 7, per = \"1s\" }}\n");
    let events = lines([call(0, "a", "c", 100), call(0, "a", "c", 301)]);
    let replay = Case::new(&policy, &events).replay().ok();
    let guards = ["agent_velocity.agent", "agent_velocity.session", "velocity.invocations", "velocity.spend"];
    assert_eq!(replay.told_remaining(0), [&guards[..], &["x"]].concat());
    let left: Vec<_> = guards.iter().chain(&["x"]).map(|limit| replay.remaining(0, limit).unwrap()).collect();
    assert_eq!(left, [3, 2, 1, 200, 6]);
    assert_eq!(replay.told_remaining(1), guards, "the limits were not reached");
}

#[test]
fn remaining_is_in_whole_tokens_rounded_down_and_full_without_a_bucket() {
    let policy = "[[limit]]\nname = \"x\"\nkey = [\"k\"]\nrate = { tokens = 2, per = \"1s\", burst = 5 }\ncost = \"c\"\n";
    let events = lines([
        json!({"t_ms": 0, "k": "a", "c": 5}),
        json!({"t_ms": 999, "k": "a", "c": 0}), // 1.998 tokens are back
        json!({"t_ms": 999, "k": "b", "c": 6}), // never; no bucket
    ]);
    let replay = Case::new(policy, &events).replay().ok();
    assert_eq!(replay.verdicts(), "AAN");
    let left: Vec<_> = (0..3).map(|seq| replay.remaining(seq, "x").unwrap()).collect();
    assert_eq!(left, [0, 1, 5]);
}

#[test]
fn limits_that_apply_are_drawn_on_together_or_not_at_all() {
    let policy = "
[[limit]]
name = \"wide\"
rate = { tokens = 5, per = \"1h\" }
[[limit]]
name = \"narrow\"
key = [\"ip\"]
rate = { tokens = 1, per = \"1h\" }
";
    let events = lines(["a", "a", "a", "b", "c"].map(|ip| json!({"t_ms": 0, "ip": ip})));
    let replay = Case::new(policy, &events).replay().ok();
    assert_eq!(replay.verdicts(), "ADDAA");
    assert_eq!(replay.remaining(4, "wide"), Some(2), "what narrow refused was not taken from wide");
}

#[test]
fn a_limit_applies_only_to_events_with_the_values_it_asks_for_compared_as_text() {
    let policy = "
[[limit]]
name = \"x\"
rate = { tokens = 1, per = \"1h\" }
when = { status = 200, cached = false, method = \"POST\" }
";
    let event = |status: serde_json::Value, cached: serde_json::Value, method: &str| json!({"t_ms": 0, "status": status, "cached": cached, "method": method});
    let events = lines([
        event(json!("200"), json!(false), "POST"), // applies and is admitted
        event(json!(200), json!("false"), "POST"), // applies: the same texts
        event(json!(201), json!(false), "POST"),   // another status
        event(json!(200), json!(null), "POST"),    // absent
        json!({"t_ms": 0}),                        // all absent
        event(json!([200]), json!(false), "POST"), // no text
    ]);
    let replay = Case::new(policy, &events).replay().ok();
    assert_eq!(replay.verdicts(), "ADAAAA");
    assert!(replay.told_remaining(2).is_empty(), "a limit that does not apply is not evaluated");
}

#[test]
fn of_several_exhausted_limits_the_longest_wait_is_named_and_ties_go_to_policy_order() {
    let policy = |first: u64, second: u64| {
        format!(
            "[[limit]]\nname = \"first\"\nrate = {{ tokens = 1, per = \"{first}s\" }}\n\
             [[limit]]\nname = \"second\"\nrate = {{ tokens = 1, per = \"{second}s\" }}\n"
        )
    };
    let events = lines([json!({"t_ms": 0}), json!({"t_ms": 0})]);
    for (first, second, named) in [(5, 9, "second 9"), (9, 5, "first 9"), (5, 5, "first 5")] {
        let told = Case::new(&policy(first, second), &events).replay().ok().told();
        let (name, seconds) = named.split_once(' ').unwrap();
        assert_eq!(told[1], format!("deny {name} exhausted {seconds}000000000"));
    }
}

#[test]
fn within_a_stage_an_error_comes_before_never_before_exhausted_before_a_full_table() {
    let limit = |name: &str, key: &str, cost: &str, tokens: u64| {
        format!(
            "[[limit]]\nname = \"{name}\"\nkey = [{key}]\ncost = {cost}\nrate = {{ tokens = {tokens}, per = \"1h\" }}\n"
        )
    };
    let policy = [
        "bucket_cap = 3\n".to_owned(),
        limit("full", "\"k\"", "1", 9),
        limit("exhausted", "", "\"e\"", 1),
        limit("never", "", "\"n\"", 5),
        limit("flawed", "\"f\"", "0", 1),
    ]
    .concat();
    let event = |k: &str, e: u64, n: u64| json!({"t_ms": 0, "k": k, "e": e, "n": n, "f": "here"});
    let mut flawed = event("new", 1, 9);
    flawed.as_object_mut().unwrap().remove("f");
    let events = lines([
        event("old", 1, 1), // fills the table
        flawed,
        event("new", 1, 9),
        event("new", 1, 1),
        event("new", 0, 1),
        event("old", 0, 1),
    ]);
    let told = Case::new(&policy, &events).replay().ok().told();
    assert_eq!(
        told,
        [
            "admit",
            "error flawed missing-field",
            "never never impossible",
            "deny exhausted exhausted 3600000000000",
            "deny full table-full",
            "admit",
        ]
    );
}

#[test]
fn a_full_table_is_a_deny_without_a_wait_and_makes_no_room_by_forgetting() {
    let policy =
        "bucket_cap = 2\n[[limit]]\nname = \"x\"\nkey = [\"k\"]\nrate = { tokens = 1, per = \"1h\" }\n";
    let at = |t_ms: u64, k: &str| json!({"t_ms": t_ms, "k": k});
    let events = lines([at(0, "a"), at(0, "b"), at(0, "c"), at(0, "a"), at(3_600_000, "c")]);
    let replay = Case::new(policy, &events).replay().ok();
    assert_eq!(
        replay.told(),
        ["admit", "admit", "deny x table-full", "deny x exhausted 3600000000000", "admit"]
    );
    assert_eq!(replay.remaining(2, "x"), Some(1), "no bucket: the full capacity");
    assert_eq!(
        replay.summary()["live_buckets"],
        json!(1),
        "a and b were full again when c came, and gave way"
    );
}

#[test]
fn a_limit_that_cannot_be_judged_is_an_error_and_nothing_is_drained() {
    let policy = "
[[limit]]
name = \"first\"
rate = { tokens = 5, per = \"1h\" }
[[limit]]
name = \"second\"
key = [\"k\"]
cost = \"c\"
rate = { tokens = 5, per = \"1h\" }
";
    let cases = [
        (json!({"t_ms": 0, "c": 1}), "missing-field"),
        (json!({"t_ms": 0, "k": null, "c": 1}), "missing-field"),
        (json!({"t_ms": 0, "k": {"x": 1}, "c": 1}), "missing-field"),
        (json!({"t_ms": 0, "k": "a"}), "missing-field"),
        (json!({"t_ms": 0, "k": "a", "c": null}), "missing-field"),
        (json!({"t_ms": 0, "k": "a", "c": -1}), "bad-cost"),
        (json!({"t_ms": 0, "k": "a", "c": 1.5}), "bad-cost"),
        (json!({"t_ms": 0, "k": "a", "c": "1"}), "bad-cost"),
        (json!({"t_ms": 0, "k": "a", "c": [1]}), "bad-cost"),
    ];
    for (event, reason) in cases {
        let events = lines([event.clone(), json!({"t_ms": 0, "k": "a", "c": 1})]);
        let replay = Case::new(policy, &events).replay().ok();
        assert_eq!(replay.told(), [format!("error second {reason}"), "admit".to_owned()], "{event}");
        assert_eq!(replay.remaining(0, "first"), Some(5), "{event}");
        assert_eq!(replay.remaining(1, "first"), Some(4), "{event}");
    }
    let huge = "{\"t_ms\":0,\"k\":\"a\",\"c\":18446744073709551616}\n{\"t_ms\":0,\"k\":\"a\",\"c\":18446744073709551615}\n";
    assert_eq!(
        Case::new(policy, huge).replay().ok().told(),
        ["error second bad-cost", "never second impossible"]
    );
}

#[test]
fn what_the_guards_cannot_judge_is_an_error_that_names_the_limit_concerned() {
    let told = |policy: &str, event: serde_json::Value| {
        let replay = Case::new(policy, &lines([event])).replay().ok();
        replay.told().remove(0)
    };
    let agent = "[agent_velocity]\nmax_requests_per_agent = 1\nmax_requests_per_session = 1\n";
    assert_eq!(
        told(agent, json!({"t_ms": 0, "capability": "c"})),
        "error agent_velocity.agent missing-field"
    );
    assert_eq!(told(agent, json!({"t_ms": 0, "agent": "a"})), "error agent_velocity.session missing-field");
    let session = "[agent_velocity]\nmax_requests_per_session = 1\n";
    assert_eq!(
        told(session, json!({"t_ms": 0, "capability": "c"})),
        "error agent_velocity.session missing-field"
    );
    let only_agent = "[agent_velocity]\nmax_requests_per_agent = 1\n";
    assert_eq!(
        told(only_agent, json!({"t_ms": 0, "agent": "a"})),
        "admit",
        "the agent limit needs no capability"
    );

    let grant = "[velocity]\nmax_invocations_per_window = 1\nmax_spend_per_window = 9\n";
    assert_eq!(told(grant, json!({"t_ms": 0, "cost": 1})), "error velocity.invocations missing-field");
    assert_eq!(told(grant, json!({"t_ms": 0, "capability": "c"})), "error velocity.spend no-declared-cost");
    let bad_cost = [json!(-1), json!(0.5), json!("5"), json!(1e30)];
    for cost in bad_cost {
        let event = json!({"t_ms": 0, "capability": "c", "cost": cost});
        assert_eq!(told(grant, event), "error velocity.spend bad-cost");
    }
    for index in [json!(-1), json!(1.5), json!("0"), json!(70_000)] {
        let event = json!({"t_ms": 0, "capability": "c", "cost": 1, "grant": index});
        assert_eq!(told(grant, event), "error velocity.invocations missing-field");
    }
    let spend = "[velocity]\nmax_spend_per_window = 9\n";
    assert_eq!(told(spend, json!({"t_ms": 0, "cost": 1})), "error velocity.spend missing-field");
    let calls = "[velocity]\nmax_invocations_per_window = 1\n";
    assert_eq!(
        told(calls, json!({"t_ms": 0, "capability": "c"})),
        "admit",
        "without a spend limit no cost is needed"
    );
}

#[test]
fn an_error_in_a_guard_drains_nothing_of_it() {
    let policy = "[velocity]\nmax_invocations_per_window = 1\nmax_spend_per_window = 9\n";
    let events = lines([json!({"t_ms": 0, "capability": "c"}), call(0, "a", "c", 9)]);
    let replay = Case::new(policy, &events).replay().ok();
    assert_eq!(replay.told(), ["error velocity.spend no-declared-cost", "admit"]);
    assert_eq!(replay.remaining(0, "velocity.invocations"), Some(1));
    assert_eq!(replay.remaining(0, "velocity.spend"), Some(9));
}

#[test]
fn grants_and_capabilities_have_their_own_buckets_and_grant_0_is_the_default() {
    let policy = "[velocity]\nmax_invocations_per_window = 1\n";
    let event = |capability: serde_json::Value, grant: serde_json::Value| json!({"t_ms": 0, "capability": capability, "grant": grant});
    let events = lines([
        event(json!("c"), json!(null)),
        event(json!("c"), json!(0)), // the same grant
        event(json!("c"), json!(1)),
        event(json!("d"), json!(0)),
        event(json!(7), json!(0)),
        event(json!("7"), json!(0)), // the same text
        event(json!(""), json!(0)),  // an empty id is an id
    ]);
    assert_eq!(Case::new(policy, &events).replay().ok().verdicts(), "ADAAADA");
}

#[test]
fn keys_of_several_fields_never_collide_by_concatenation() {
    let policy = "[[limit]]\nname = \"x\"\nkey = [\"a\", \"b\"]\nrate = { tokens = 1, per = \"1h\" }\n";
    let event = |a: &str, b: &str| json!({"t_ms": 0, "a": a, "b": b});
    let long = "p".repeat(300);
    let events = lines([
        event("1.2.3.4", "5/x"),
        event("1.2.3.45", "/x"),
        event("", "1.2.3.45/x"),
        event("1.2.3.45/x", ""),
        event(&long, "1"),
        event(&long, "2"),
        event(&long, "1"),
        event("1.2.3.4", "5/x"),
    ]);
    assert_eq!(Case::new(policy, &events).replay().ok().verdicts(), "AAAAAADD");
}

#[test]
fn a_limit_without_key_fields_has_one_bucket_for_everybody() {
    for key in ["key = []\n", ""] {
        let policy = format!("[[limit]]\nname = \"x\"\n{key}rate = {{ tokens = 2, per = \"1h\" }}\n");
        let events = lines(["a", "b", "c"].map(|ip| json!({"t_ms": 0, "ip": ip})));
        assert_eq!(Case::new(&policy, &events).replay().ok().verdicts(), "AAD");
    }
}

#[test]
fn a_cost_of_nothing_is_a_peek_that_is_always_admitted_and_makes_no_bucket() {
    let policy =
        "[[limit]]\nname = \"x\"\nkey = [\"k\"]\ncost = \"c\"\nrate = { tokens = 1, per = \"1h\" }\n";
    let event = |k: &str, c: u64| json!({"t_ms": 0, "k": k, "c": c});
    let replay = Case::new(policy, &lines([event("a", 1), event("a", 0), event("b", 0)])).replay().ok();
    assert_eq!(replay.verdicts(), "AAA");
    assert_eq!(replay.summary()["live_buckets"], json!(1));
}

#[test]
fn a_policy_without_limits_admits_everything_and_says_so() {
    let replay = Case::new("", &lines([json!({"t_ms": 0}), json!({"t_ms": 1})])).replay().ok();
    assert_eq!(replay.verdicts(), "AA");
    assert!(replay.stderr.contains("no limits"), "{}", replay.stderr);
    let guard = Case::new("[velocity]\n", &lines([json!({"t_ms": 0})])).replay().ok();
    assert_eq!(guard.verdicts(), "A", "a guard without limits allows");
}
