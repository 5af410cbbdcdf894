//! The summary: what it counts, and where it goes.

mod common;

use common::{Case, lines};
use serde_json::{Value, json};

const PER_IP: &str =
    "[[limit]]\nname = \"per-ip\"\nkey = [\"ip\"]\ncost = \"c\"\nrate = { tokens = 2, per = \"2s\" }\n";

fn event(t_ms: u64, ip: &str, c: u64) -> Value {
    json!({"t_ms": t_ms, "ip": ip, "c": c})
}

fn trace() -> String {
    let mut events: Vec<_> = (0..5).map(|_| event(1_000, "a", 1)).collect(); // 2 admitted, 3 wait 1 s
    events.push(event(1_000, "b", 2));
    events.push(event(900, "b", 2)); // waits 2 s; a step backwards
    events.push(event(1_500, "b", 3)); // never
    events.push(json!({"t_ms": 2_500, "c": 1})); // no key
    lines(events)
}

#[test]
fn the_json_summary_is_one_object_alone_on_standard_output() {
    let replay = Case::new(PER_IP, &trace()).replay().ok();
    let summary = replay.summary();
    let expected = json!({
        "policy": "policy.toml",
        "input": "trace.jsonl",
        "events": 9,
        "admitted": 3,
        "refused": 6,
        "refused_by": [
            {"limit": "per-ip", "reason": "exhausted", "verdict": "deny", "count": 4},
            {"limit": "per-ip", "reason": "impossible", "verdict": "never", "count": 1},
            {"limit": "per-ip", "reason": "missing-field", "verdict": "error", "count": 1},
        ],
        "top_refused": [
            {"limit": "per-ip", "key": "a", "fields": {"ip": "a"}, "count": 3, "error": 0},
            {"limit": "per-ip", "key": "b", "fields": {"ip": "b"}, "count": 2, "error": 0},
        ],
        "top_refused_unlisted_at_most": 0,
        "wait_ns": {"p50": 1_000_000_000, "p90": 2_000_000_000, "p99": 2_000_000_000, "max": 2_000_000_000},
        "backward_steps": 1,
        "clamped_events": 1,
        "bad_lines": 0,
        "trace_ns": 1_500_000_000,
        "live_buckets": 2,
        "live_buckets_by": {"limits": 2},
    });
    for (name, value) in expected.as_object().unwrap() {
        match name.as_str() {
            // The histogram's classes are a thousandth wide.
            "wait_ns" => {
                let p50 = summary["wait_ns"]["p50"].as_u64().unwrap();
                assert!(p50.abs_diff(1_000_000_000) <= 1_000_000, "{p50}");
                assert_eq!(summary["wait_ns"]["max"], value["max"]);
            }
            _ => assert_eq!(&summary[name], value, "{name}"),
        }
    }
    assert!(summary["events_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(summary.as_object().unwrap().len(), expected.as_object().unwrap().len() + 1);
}

#[test]
fn the_table_says_the_same_to_people() {
    let output = Case::new(PER_IP, &trace()).plain();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let has = |words: &[&str]| {
        text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().starts_with(words))
    };
    assert!(has(&["events", "9"]), "{text}");
    assert!(has(&["admitted", "3", "33.3", "%"]), "{text}");
    assert!(has(&["per-ip", "exhausted", "deny", "4"]), "{text}");
    assert!(has(&["backward", "steps", "1"]), "{text}");
    assert!(has(&["per-ip", "a", "3", "exact"]), "{text}");
    assert!(text.contains("max 2 s"), "{text}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn decisions_on_standard_output_send_the_summary_to_standard_error() {
    let case = Case::new(PER_IP, &trace());
    let mut command = case.command("replay");
    let output =
        command.args(["--input", "trace.jsonl", "--summary", "json", "--decisions", "-"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stdout.lines().count(), 9);
    for line in stdout.lines() {
        let decision: Value = serde_json::from_str(line).unwrap();
        assert!(decision["verdict"].is_string());
    }
    let summary: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(summary["events"], json!(9));
}

#[test]
fn a_flood_of_refused_keys_leaves_the_frequent_ones_visible_with_their_error() {
    let policy =
        "bucket_cap = 1\n[[limit]]\nname = \"x\"\nkey = [\"k\"]\nrate = { tokens = 1, per = \"1h\" }\n";
    let key = |k: String| json!({"t_ms": 0, "k": k});
    let events = (0..20_000).map(|number| match number % 10 {
        0 => key("often".into()),
        _ => key(format!("once-{number}")),
    });
    let replay = Case::new(policy, &lines(events)).replay().ok();
    let summary = replay.summary();
    let top = &summary["top_refused"][0];
    assert_eq!(top["key"], json!("often"));
    let (count, error) = (top["count"].as_u64().unwrap(), top["error"].as_u64().unwrap());
    assert!(count - error <= 1_999 && 1_999 <= count, "{top}");
    let unlisted = summary["top_refused_unlisted_at_most"].as_u64().unwrap();
    assert!(0 < unlisted && unlisted <= 20_000 / 1_024, "{unlisted}");
}

#[test]
fn live_buckets_are_told_for_each_table() {
    let policy = "
[velocity]
max_invocations_per_window = 5
max_spend_per_window = 50
window_secs = 1000
[agent_velocity]
max_requests_per_agent = 5
max_requests_per_session = 5
window_secs = 1000
[[limit]]
name = \"x\"
rate = { tokens = 100, per = \"1h\" }
";
    let call = |agent: &str, capability: &str| json!({"t_ms": 0, "agent": agent, "capability": capability, "cost": 1});
    let events = lines([call("a", "c"), call("a", "d"), call("b", "c")]);
    let summary = Case::new(policy, &events).replay().ok().summary();
    // Two agents and three sessions; two capabilities with two limits; one bucket for everybody.
    assert_eq!(summary["live_buckets_by"], json!({"agent_velocity": 5, "velocity": 4, "limits": 1}));
    assert_eq!(summary["live_buckets"], json!(10));
}

#[test]
fn rounded_rates_are_warned_about_on_standard_error_only() {
    let policy = "[velocity]\nmax_invocations_per_window = 100\n";
    let replay = Case::new(policy, &lines([json!({"t_ms": 0, "capability": "c"})])).replay().ok();
    assert!(
        replay
            .stderr
            .contains("velocity.invocations: asked 1.6667 tokens a second, achieved 1 tokens a second"),
        "{}",
        replay.stderr
    );
    assert_eq!(replay.summary()["events"], json!(1));
}
