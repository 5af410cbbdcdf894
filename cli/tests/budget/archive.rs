//! Old rows of the ledger.

use super::*;

#[test]
fn archived_rows_go_to_a_file_and_no_answer_changes() {
    let case = Case::new();
    let spend = case.open(policy());
    let call = Call::new().scope("run", "r-1").scope("user", "ann");
    let estimate = Amounts::new().cost(40_000).tokens(4_000);
    spend.hold(&call, &estimate).unwrap().settle(&estimate).unwrap();
    case.clock.advance(3 * 24 * 60 * MINUTE);
    spend.hold(&call, &estimate).unwrap().settle(&estimate).unwrap();
    case.run(&["archive", "--to", "old.jsonl"]).fails(1, "in use");
    drop(spend);

    let status = case.json(&["status"]);
    let nothing = case.ok(&["archive", "--to", "old.jsonl", "--before", "2000-01-01T00:00:00Z"]);
    assert!(nothing.starts_with("archived nothing"), "{nothing}");
    // The policy, the first hold and its settlement; the second pair still counts.
    assert_eq!(case.json(&["archive", "--to", "old.jsonl"])["rows"], 3);
    let lines = std::fs::read_to_string(case.dir.path().join("old.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(case.json(&["status"])["limits"], status["limits"]);
    assert!(case.ok(&["audit"]).contains("3 archived"));
}

#[test]
fn an_archive_before_no_time_or_of_no_store_is_refused() {
    let case = Case::new();
    drop(case.usual());
    case.run(&["archive", "--to", "old.jsonl", "--before", "yesterday"]).fails(2, "2026-01-01T00:00:00Z");
    let other = TempDir::new().unwrap();
    run(other.path(), &["archive", "--to", "old.jsonl"]).fails(2, "budgets.db");
    assert!(std::fs::read_dir(other.path()).unwrap().next().is_none(), "nothing is created");
}
