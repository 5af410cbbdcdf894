//! The shipped policies on the shipped traces, by the commands that their comments give.

mod common;

use common::{root, tollgate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Runs `replay` in the repository's root and returns the summary.
fn replay(args: &[&str]) -> Value {
    let output =
        tollgate().current_dir(root()).arg("replay").args(args).args(["--summary", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Refusals by limit.
fn refused(summary: &Value) -> BTreeMap<String, u64> {
    let mut refused = BTreeMap::new();
    for by in summary["refused_by"].as_array().unwrap() {
        *refused.entry(by["limit"].as_str().unwrap().to_owned()).or_default() +=
            by["count"].as_u64().unwrap();
    }
    assert_eq!(refused.values().sum::<u64>(), summary["refused"].as_u64().unwrap());
    refused
}

#[test]
fn each_of_the_four_guard_limits_refuses_some_agent_calls_and_most_are_admitted() {
    let args = ["--policy", "examples/policies/agents.toml", "--input", "examples/traces/agent-calls.jsonl"];
    let summary = replay(&args);
    assert_eq!(summary["events"], json!(12_031));
    assert_eq!(summary["backward_steps"], json!(0));
    let limits: Vec<_> = refused(&summary).into_keys().collect();
    let four = ["agent_velocity.agent", "agent_velocity.session", "velocity.invocations", "velocity.spend"];
    assert_eq!(limits, four);
    assert!(summary["admitted"].as_u64().unwrap() > 10_000, "{summary}");
}

#[test]
fn tokens_per_minute_are_metered_on_the_llm_trace() {
    let trace = "examples/traces/azure-llm-conv-2023.csv";
    let summary = replay(&[
        "--policy",
        "examples/policies/llm-tokens.toml",
        "--input",
        trace,
        "--map",
        "time=TIMESTAMP",
    ]);
    assert_eq!(summary["events"], json!(19_366));
    let limits: Vec<_> = refused(&summary).into_keys().collect();
    assert_eq!(limits, ["completion-tokens", "prompt-tokens", "requests"]);
    assert_eq!(summary["live_buckets"], json!(3));
}

#[test]
fn clients_of_the_web_log_are_limited_although_it_runs_backwards() {
    let summary =
        replay(&["--policy", "examples/policies/web.toml", "--input", "examples/traces/web-access.log"]);
    assert_eq!(summary["events"], json!(10_000));
    assert_eq!(summary["backward_steps"], json!(4_915));
    assert_eq!(summary["bad_lines"], json!(0));
    let limits: Vec<_> = refused(&summary).into_keys().collect();
    assert_eq!(limits, ["missing-pages", "per-client"]);
    assert!(summary["live_buckets"].as_u64().unwrap() <= 4_096);
}

#[test]
fn the_shipped_policies_are_explained_without_a_warning() {
    for policy in ["agents", "llm-tokens", "web"] {
        let file = format!("examples/policies/{policy}.toml");
        let output = tollgate().current_dir(root()).args(["explain", "--policy", &file]).output().unwrap();
        assert!(output.status.success());
        assert!(!String::from_utf8(output.stdout).unwrap().contains("warning"), "{policy}");
    }
}
