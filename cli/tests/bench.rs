//! `tollgate bench` as a user runs it. Nothing here looks at how fast anything was.

mod common;

use common::tollgate;
use serde_json::Value;
use std::process::Output;
use tempfile::TempDir;

fn bench(args: &[&str]) -> Output {
    tollgate().arg("bench").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_run_prints_its_tables_and_writes_its_report() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("bench.json");
    let output =
        bench(&["--workload", "floor", "--rounds", "2", "--calls", "1000", "--json", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for part in ["floor, 1 thread\n", "guard-coarse", "hash+clock+cas", "targets", "at most 1.8"] {
        assert!(table.contains(part), "no {part} in {table}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 5);
    assert_eq!(report["targets"][0]["target"], 1.8);
    assert!(report["targets"][0]["ratio"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_tool_counts_what_its_allocator_hands_out() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("bench.json");
    let output = bench(&["--workload", "memory", "--json", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let allocated = report["memory"]["allocated"].as_u64().expect("the counting allocator is installed");
    assert!(allocated >= report["memory"]["reserved"].as_u64().unwrap(), "{report}");
    let target =
        report["targets"].as_array().unwrap().iter().find(|it| it["versus"] == "allocated bytes a pair");
    assert_eq!(target.unwrap()["met"], true, "{report}");
}

#[test]
fn a_report_that_cannot_be_written_is_found_out_before_anything_is_measured() {
    let output = bench(&["--json", "/no/such/directory/bench.json"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.starts_with("cannot create /no/such/directory/bench.json"), "{told}");
    assert_eq!((told.lines().count(), output.stdout.len()), (1, 0), "{told}");
}

#[test]
fn options_that_ask_for_nothing_are_named() {
    for (args, named) in [
        (["--rounds", "0"], "--rounds must be 1 to 1000"),
        (["--threads", "0"], "--threads must be 1 to 256"),
        (["--calls", "0"], "--calls must be"),
        (["--workload", "pairs"], "pair"),
    ] {
        let output = bench(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(named), "{}", text(&output.stderr));
    }
}
