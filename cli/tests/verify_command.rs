//! `tollgate verify`, as a user runs it.

mod common;
mod journal;

use common::tollgate;
use journal::*;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;

fn case(journal: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("effects.toml"), POLICY).unwrap();
    std::fs::write(dir.path().join("effects.jsonl"), journal).unwrap();
    dir
}

fn run(dir: &Path, args: &[&str]) -> Output {
    tollgate().current_dir(dir).arg("verify").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn journal() -> Journal {
    let mut model = Model::new(effects());
    let grant = model.call(SEARCH, 0, "aa", 1).unwrap();
    model.emit(1, grant);
    model.journal
}

#[test]
fn an_accepted_journal_ends_with_exit_code_0() {
    let dir = case(&journal().sealed());
    let output = run(dir.path(), &["effects.jsonl", "--policy", "effects.toml"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let told = text(&output.stdout);
    let start = "accepted: 2 records, 1 grants (1 emitted, 0 refunded, 0 forfeited, 0 still held), 0 denied, 0 deferred, 0 shed; sealed with ";
    assert!(told.starts_with(start) && told.ends_with('\n'), "{told}");
}

#[test]
fn a_refused_journal_ends_with_exit_code_1_and_its_first_violation() {
    let forged = journal().with("\"kind\":\"emit\",\"t\":1", "\"kind\":\"emit\",\"t\":10000000001");
    let dir = case(&forged.sealed());
    let output = run(dir.path(), &["--policy", "effects.toml", "effects.jsonl"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()));
    let told = "refused: line 3: emitted 10000000001 ns after its grant, which is more than its ttl of 10000000000 ns\n";
    assert_eq!(text(&output.stdout), told);
}

#[test]
fn the_verdict_is_one_json_object_if_asked_for() {
    let dir = case(&journal().open());
    let args = ["effects.jsonl", "--policy", "effects.toml", "--json"];
    let output = run(dir.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["verdict"], &told["line"]), (&"refused".into(), &4.into()));
    let open = run(dir.path(), &[&args[..], &["--open"]].concat());
    assert_eq!(open.status.code(), Some(0));
    let told: serde_json::Value = serde_json::from_slice(&open.stdout).unwrap();
    assert_eq!(
        (&told["verdict"], &told["grants"], &told["sealed"]),
        (&"accepted".into(), &1.into(), &false.into())
    );
    assert_eq!((&told["unnamed"], &told["torn_bytes"]), (&0.into(), &0.into()));
}

#[test]
fn a_dash_is_standard_input() {
    let dir = case("");
    let mut tool = tollgate();
    tool.current_dir(dir.path()).args(["verify", "-", "--policy", "effects.toml"]);
    let mut child = tool.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(journal().sealed().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && text(&output.stdout).starts_with("accepted: 2 records"));
}

#[test]
fn budgets_beside_the_effects_make_no_difference() {
    let dir = case(&journal().sealed());
    let policy = std::fs::read_to_string(dir.path().join("effects.toml")).unwrap();
    std::fs::write(dir.path().join("both.toml"), policy + "\n[[spend.scope]]\nname = \"user\"\n").unwrap();
    let alone = run(dir.path(), &["effects.jsonl", "--policy", "effects.toml"]);
    let beside = run(dir.path(), &["effects.jsonl", "--policy", "both.toml"]);
    assert_eq!((beside.status.code(), &beside.stdout), (Some(0), &alone.stdout), "{}", text(&beside.stderr));
}

#[test]
fn what_cannot_be_checked_ends_with_exit_code_2() {
    let dir = case(&journal().sealed());
    std::fs::write(dir.path().join("none.toml"), "bucket_cap = 9\n").unwrap();
    std::fs::write(dir.path().join("bad.toml"), "[[effect]]\ntool = \"Search\"\n").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["effects.jsonl"], "--policy <FILE>"),
        (&["effects.jsonl", "--policy", "nowhere.toml"], "cannot open nowhere.toml: "),
        (&["nowhere.jsonl", "--policy", "effects.toml"], "cannot open nowhere.jsonl: "),
        (&[".", "--policy", "effects.toml"], "cannot read .: "),
        (
            &["effects.jsonl", "--policy", "none.toml"],
            "none.toml: no effects, accepted: a policy with at least one [[effect]]",
        ),
        (
            &["effects.jsonl", "--policy", "bad.toml"],
            "bad.toml:1: effect \"Search\" has no quota, accepted: ",
        ),
    ];
    for (args, part) in cases {
        let output = run(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(part) && output.stdout.is_empty(), "{}", text(&output.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_refusal_that_nobody_reads_is_still_a_refusal() {
    let dir = case(&journal().open());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut tool = tollgate();
    tool.current_dir(dir.path()).args(["verify", "effects.jsonl", "--policy", "effects.toml"]);
    let status = tool.stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn the_policy_of_the_documentation_is_one() {
    let text = std::fs::read_to_string(common::root().join("docs/effects.md")).unwrap();
    let toml = text.split("```toml\n").nth(1).expect("an example").split("```").next().unwrap();
    let policy = tollgate::effect::EffectPolicy::from_toml(toml).unwrap();
    assert_eq!((policy.rules()[0].tool(), policy.rules()[0].quotas().len()), ("Search", 2));
}

#[test]
fn the_shipped_policy_of_effects_explains() {
    let mut tool = tollgate();
    let args = ["explain", "--policy", "examples/policies/effects.toml"];
    let output = tool.current_dir(common::root()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("effect Email"));
}
