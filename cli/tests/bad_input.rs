//! What is wrong is said with its place and what is accepted; exit codes tell whose turn it is. Nothing panics.

mod common;

use common::{Case, tollgate};
use serde_json::json;
use std::process::Stdio;

const PER_IP: &str = "[[limit]]\nname = \"per-ip\"\nkey = [\"ip\"]\nrate = { tokens = 9, per = \"60s\" }\n";

/// The message of a policy that is refused.
#[track_caller]
fn refused(policy: &str) -> String {
    let case = Case::new(policy, "");
    let replay = case.replay();
    assert_eq!(replay.code, 2, "{policy}: {}", replay.stderr);
    assert!(replay.stdout.is_empty());
    let explained = case.explain();
    assert_eq!(explained.status.code(), Some(2));
    assert_eq!(String::from_utf8(explained.stderr).unwrap(), replay.stderr, "both commands say the same");
    replay.stderr
}

#[test]
fn a_broken_policy_says_where_and_what_is_accepted() {
    let limit = |rest: &str| format!("[[limit]]\nname = \"x\"\n{rest}\n");
    let rate = "rate = { tokens = 1, per = \"1s\" }";
    let cases = [
        ("bukcet_cap = 5".to_owned(), "policy.toml:1: unknown key `bukcet_cap`: did you mean `bucket_cap`?"),
        (
            "\n\n[velocity]\nmax_invocation_per_window = 5".to_owned(),
            "policy.toml:4: unknown key `velocity.max_invocation_per_window`: did you mean `max_invocations_per_window`?",
        ),
        (
            "[agent_velocity]\nmax_requests_per_sesion = 5".to_owned(),
            "did you mean `max_requests_per_session`?",
        ),
        ("[limits]\nname = 1".to_owned(), "did you mean `limit`?"),
        (
            limit(&format!("{rate}\nkeys = [\"a\"]")),
            "policy.toml:4: unknown key `limit 1: keys`: did you mean `key`?",
        ),
        (limit("rate = { token = 1, per = \"1s\" }"), "did you mean `tokens`?"),
        (limit("window = { tokens = 1, per = \"1s\", burst = 2 }"), "accepted: tokens, per, anchor"),
        (
            "pipeline = \"serial\"".to_owned(),
            "policy.toml:1: pipeline is \"serial\", accepted: \"series\" or \"atomic\"",
        ),
        ("pipeline = 1".to_owned(), "accepted: \"series\" or \"atomic\""),
        (
            "[velocity]\nrefill = \"exactly\"".to_owned(),
            "policy.toml:2: velocity.refill is \"exactly\", accepted: \"milli-token\" or \"exact\"",
        ),
        (
            "bucket_cap = 0".to_owned(),
            "policy.toml:1: bucket_cap is 0, accepted: a whole number, 1 to 16777216",
        ),
        ("bucket_cap = 99999999999".to_owned(), "bucket_cap is 99999999999, accepted"),
        (
            "bucket_cap = 1\n[velocity]\nmax_invocations_per_window = 1\nmax_spend_per_window = 1".to_owned(),
            "policy.toml:1: bucket_cap is 1, accepted: 2",
        ),
        (
            "[velocity]\nwindow_secs = 0".to_owned(),
            "policy.toml:2: velocity.window_secs is 0, accepted: 1 to",
        ),
        (
            "[velocity]\nwindow_secs = \"60s\"".to_owned(),
            "velocity.window_secs is \"60s\", accepted: a whole number",
        ),
        (
            "[velocity]\nmax_invocations_per_window = 4294967296".to_owned(),
            "accepted: a whole number, 0 to 4294967295",
        ),
        (
            "[velocity]\nmax_invocations_per_window = -1".to_owned(),
            "velocity.max_invocations_per_window is -1",
        ),
        (
            "[velocity]\n\nburst_factor = 0.0".to_owned(),
            "policy.toml:3: velocity.burst_factor is 0, accepted: a finite number above 0",
        ),
        (
            "[agent_velocity]\nburst_factor = inf".to_owned(),
            "policy.toml:2: agent_velocity.burst_factor is inf",
        ),
        (
            "[velocity]\nmax_spend_per_window = 18446744073709551615\nburst_factor = 2.0".to_owned(),
            "policy.toml:3: velocity.burst_factor is 2",
        ),
        (
            "[velocity]\nmax_spend_per_window = 18446744073709551615\nwindow_secs = 1".to_owned(),
            "policy.toml:2: velocity.max_spend_per_window",
        ),
        ("[velocity]\nburst_factor = \"big\"".to_owned(), "velocity.burst_factor is \"big\", accepted"),
        (limit(""), "policy.toml:1: limit \"x\" has neither `rate` nor `window`"),
        (limit(&format!("{rate}\nwindow = {{ tokens = 1, per = \"1s\" }}")), "has both `rate` and `window`"),
        (limit("rate = 5"), "policy.toml:3: limit \"x\": rate is 5, accepted: a table"),
        (
            limit("rate = { tokens = 5 }"),
            "policy.toml:3: limit \"x\": rate.per is missing, accepted: a table",
        ),
        (limit("window = { per = \"1s\" }"), "limit \"x\": window.tokens is missing, accepted: a table"),
        (
            limit("rate = { tokens = 5, per = \"0s\" }"),
            "policy.toml:3: limit \"x\": rate.per is 0s, accepted: 1 ns to",
        ),
        (
            limit("rate = { tokens = 5, per = \"60\" }"),
            "limit \"x\": rate.per is \"60\", accepted: a whole number and a unit",
        ),
        (limit("rate = { tokens = 5, per = 60 }"), "rate.per is 60, accepted: a whole number and a unit"),
        (limit("rate = { tokens = 5, per = \"700000d\" }"), "rate.per is \"700000d\""),
        (limit("rate = { tokens = -5, per = \"1s\" }"), "rate.tokens is -5"),
        (limit("rate = { tokens = 1.5, per = \"1s\" }"), "rate.tokens is 1.5"),
        (limit("window = { tokens = 5, per = \"1d\", anchor = \"-1s\" }"), "window.anchor is \"-1s\""),
        (limit(&format!("{rate}\nkey = \"ip\"")), "key is \"ip\", accepted: a list of event fields"),
        (limit(&format!("{rate}\nkey = [1]")), "key is 1, accepted: a list of event fields"),
        (limit(&format!("{rate}\nkey = [\"\"]")), "key is \"\", accepted"),
        (
            limit(&format!("{rate}\ncost = -1")),
            "cost is -1, accepted: a whole number, 0 to 18446744073709551615, or the name",
        ),
        (limit(&format!("{rate}\ncost = 1.5")), "cost is 1.5, accepted"),
        (limit(&format!("{rate}\ncost = \"\"")), "cost is \"\", accepted"),
        (limit(&format!("{rate}\nwhen = \"x\"")), "when is \"x\", accepted: a table of fields"),
        (limit(&format!("{rate}\nwhen = {{ a = [1] }}")), "limit \"x\": when.a is [1], accepted: a text"),
        (limit(&format!("{rate}\nwhen = {{ a = 1979-05-27 }}")), "when.a is 1979-05-27"),
        (format!("[[limit]]\n{rate}"), "policy.toml:1: limit 1 has no `name`"),
        (format!("[[limit]]\nname = \"\"\n{rate}"), "policy.toml:2: limit 1: name is \"\", accepted"),
        (format!("[[limit]]\nname = 5\n{rate}"), "name is 5"),
        (
            format!("[[limit]]\nname = \"velocity.spend\"\n{rate}"),
            "accepted: any name but those of the guards",
        ),
        (
            format!("{0}\n{0}", limit(rate)),
            "policy.toml:6: name is \"x\", accepted: a name of its own (line 2 has this one)",
        ),
        ("limit = 5".to_owned(), "limit is 5, accepted: tables headed [[limit]]"),
        ("velocity = 5".to_owned(), "velocity is 5, accepted: a table headed [velocity]"),
        ("a = ".to_owned(), "policy.toml:1: not valid TOML"),
        ("bucket_cap = 1\nbucket_cap = 2".to_owned(), "policy.toml:2: not valid TOML: duplicate key"),
    ];
    for (policy, expected) in cases {
        let message = refused(&policy);
        assert!(message.contains(expected), "{policy}\n  said     {message}  expected {expected}");
        assert!(message.starts_with("policy.toml:"), "{message}");
    }
}

#[test]
fn a_policy_that_is_not_text_is_refused() {
    let case = Case::new("", "");
    std::fs::write(case.dir.path().join("policy.toml"), b"a = 1\n\xff").unwrap();
    let replay = case.replay();
    assert_eq!(replay.code, 2);
    assert!(replay.stderr.starts_with("policy.toml:2: not UTF-8"), "{}", replay.stderr);
}

#[test]
fn a_malformed_line_stops_with_its_place_and_what_was_expected() {
    let events = "{\"t_ms\":0,\"ip\":\"a\"}\n\n{\"t_ms\":oops}\n{\"t_ms\":1,\"ip\":\"a\"}\n";
    let replay = Case::new(PER_IP, events).replay();
    assert_eq!(replay.code, 2);
    assert!(replay.stderr.starts_with("trace.jsonl:3: "), "{}", replay.stderr);
    assert!(replay.stderr.contains("expected one JSON object a line"), "{}", replay.stderr);
    assert!(replay.stdout.is_empty(), "no summary of half a trace");
    assert_eq!(replay.verdicts(), "A", "what was decided is on record");
}

#[test]
fn malformed_lines_are_skipped_and_counted_on_request() {
    let bad = "nonsense\n{\"ip\":\"a\"}\n{\"t_ms\":-1,\"ip\":\"a\"}\n[]\n{\"t_ms\":1}}\n\"x\"\nnull\n";
    let events = format!("{bad}{{\"t_ms\":0,\"ip\":\"a\"}}\n{{\"t_ms\":5");
    let replay = Case::new(PER_IP, &events).args(&["--on-bad-line", "skip"]).replay().ok();
    let summary = replay.summary();
    assert_eq!((&summary["events"], &summary["bad_lines"]), (&json!(1), &json!(8)));
    assert_eq!(replay.decisions[0]["seq"], json!(0), "numbers count events, not lines");
    assert!(replay.stderr.contains("skipped trace.jsonl:1: "), "{}", replay.stderr);
    assert!(replay.stderr.lines().count() < 8, "not a line of noise for each: {}", replay.stderr);
}

#[test]
fn csv_and_log_lines_are_checked_too() {
    let csv = "t_ms,ip\n0,a\n1\n2,b\n";
    let replay = Case::named(PER_IP, "t.csv", csv.as_bytes()).replay();
    assert_eq!(replay.code, 2);
    assert_eq!(replay.stderr, "t.csv:3: the row has 1 fields, expected 2, as many as the header\n");
    let skipped = Case::named(PER_IP, "t.csv", csv.as_bytes()).args(&["--on-bad-line", "skip"]).replay().ok();
    assert_eq!((skipped.verdicts().as_str(), &skipped.summary()["bad_lines"]), ("AA", &json!(1)));

    let replay = Case::named(PER_IP, "t.log", b"hello\n").replay();
    assert_eq!(replay.code, 2);
    assert!(replay.stderr.starts_with("t.log:1: the line has no"), "{}", replay.stderr);
    assert!(replay.stderr.contains("expected ip - - [17/May/2015"), "{}", replay.stderr);

    let replay = Case::named(PER_IP, "t.csv", b"when,ip\n1,a\n").replay();
    assert_eq!(replay.code, 2);
    assert!(replay.stderr.starts_with("t.csv:1: no column holds the time"), "{}", replay.stderr);
}

#[test]
fn an_event_without_its_mapped_time_is_told_which_field_it_lacks() {
    let replay = Case::new(PER_IP, "{\"t_ms\":0,\"ip\":\"a\"}\n").args(&["--map", "time=when"]).replay();
    assert_eq!(replay.code, 2);
    let message =
        "trace.jsonl:1: the event has no time, expected a field `when`, which --map takes for the time\n";
    assert_eq!(replay.stderr, message);
}

#[test]
fn standard_input_is_named_in_messages() {
    let replay = Case::new(PER_IP, "nonsense\n").piped();
    assert_eq!(replay.code, 2);
    assert!(replay.stderr.starts_with("<stdin>:1: "), "{}", replay.stderr);
}

#[test]
fn files_that_are_not_there_are_the_users_to_mend() {
    let run = |args: &[&str]| {
        let output = tollgate().args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = run(&["replay", "--policy", "/nonexistent/p.toml", "--input", "-"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("/nonexistent/p.toml"), "{message}");
    let case = Case::new(PER_IP, "");
    let policy = case.dir.path().join("policy.toml");
    let policy = policy.to_str().unwrap();
    for input in ["/nonexistent/x.jsonl", "/"] {
        let (code, message) = run(&["replay", "--policy", policy, "--input", input]);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(input), "{message}");
    }
}

#[test]
fn a_wrong_command_line_is_the_users_to_mend() {
    for args in [
        &["replay"][..],
        &["repaly"],
        &["replay", "--policy", "p", "--input", "i", "--format", "xml"],
        &["replay", "--policy", "p", "--input", "i", "--map", "time"],
        &["replay", "--policy", "p", "--input", "i", "--summary", "yaml"],
        &["explain"],
    ] {
        assert_eq!(tollgate().args(args).output().unwrap().status.code(), Some(2), "{args:?}");
    }
    let twice = Case::new(PER_IP, "").args(&["--map", "ip=a", "--map", "ip=b"]).replay();
    assert_eq!(twice.code, 2);
    assert!(twice.stderr.contains("--map gives `ip` twice"), "{}", twice.stderr);
}

#[test]
fn gzip_that_ends_too_early_failed_at_run_time() {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    for number in 0..10_000 {
        writeln!(out, "{{\"t_ms\":{number},\"ip\":\"{}\"}}", number * 7_919 % 10_007).unwrap();
    }
    let mut bytes = out.finish().unwrap();
    bytes.truncate(bytes.len() / 2);
    let replay = Case::named(PER_IP, "t.jsonl.gz", &bytes).replay();
    assert_eq!(replay.code, 1);
    assert!(replay.stderr.contains("cannot read t.jsonl.gz"), "{}", replay.stderr);
    assert!(!replay.decisions.is_empty() && replay.decisions.len() < 10_000);
}

#[test]
fn a_line_without_end_takes_bounded_memory_and_is_malformed() {
    let mut bytes = vec![b'x'; 17 << 20];
    bytes.extend_from_slice(b"\n{\"t_ms\":0,\"ip\":\"a\"}\n");
    let case = Case::named(PER_IP, "t.jsonl", &bytes);
    let replay = case.replay();
    assert_eq!(replay.code, 2);
    assert!(
        replay.stderr.starts_with("t.jsonl:1: the line is too long, expected at most 16 MiB"),
        "{}",
        replay.stderr
    );
    let skipped = case.args(&["--on-bad-line", "skip"]).replay().ok();
    assert_eq!((skipped.verdicts().as_str(), &skipped.summary()["bad_lines"]), ("A", &json!(1)));
}

#[test]
fn decisions_never_overwrite_what_is_being_read() {
    let case = Case::new(PER_IP, "{\"t_ms\":0,\"ip\":\"a\"}\n");
    let refused = |input: &str, target: &str| {
        let stdin = std::fs::File::open(case.dir.path().join("trace.jsonl")).unwrap();
        let mut command = case.command("replay");
        let output = command.args(["--input", input, "--decisions", target]).stdin(stdin).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{input} to {target}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("would overwrite"));
    };
    for target in ["trace.jsonl", "./policy.toml"] {
        refused("trace.jsonl", target);
    }
    if cfg!(unix) {
        let [trace, link] = ["trace.jsonl", "link.jsonl"].map(|name| case.dir.path().join(name));
        std::fs::hard_link(trace, link).unwrap();
        refused("trace.jsonl", "link.jsonl");
        refused("-", "trace.jsonl");
    }
    assert_eq!(case.replay().ok().verdicts(), "A", "nothing was harmed");
}

#[cfg(unix)]
#[test]
fn a_device_may_be_read_and_written_at_once() {
    let case = Case::new(PER_IP, "");
    let mut command = case.command("replay");
    let output = command.args(["--input", "/dev/null", "--decisions", "/dev/null"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn decisions_whose_path_is_wrong_are_to_mend() {
    let case = Case::new(PER_IP, "{\"t_ms\":0,\"ip\":\"a\"}\n");
    for target in ["no/such/folder/d.jsonl", "."] {
        let mut command = case.command("replay");
        let output = command.args(["--input", "trace.jsonl", "--decisions", target]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(&format!("cannot create {target}: ")), "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn decisions_that_cannot_be_written_failed_at_run_time() {
    let case = Case::new(PER_IP, &"{\"t_ms\":0,\"ip\":\"a\"}\n".repeat(10));
    let mut command = case.command("replay");
    let output = command.args(["--input", "trace.jsonl", "--decisions", "/dev/full"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cannot write /dev/full: "), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_summary_that_cannot_be_written_failed_at_run_time() {
    let case = Case::new(PER_IP, "");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = case.command("replay");
    let output =
        command.args(["--input", "trace.jsonl"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write standard output"));
}

#[cfg(target_os = "linux")]
#[test]
fn messages_that_cannot_be_written_change_no_outcome() {
    let deaf = |case: &Case, args: &[&str]| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        case.command("replay").args(["--input", "trace.jsonl"]).args(args).stderr(full).output().unwrap()
    };
    let refused = deaf(&Case::new("bukcet_cap = 5", ""), &[]);
    assert_eq!(refused.status.code(), Some(2));

    // Warnings about the policy's rate and the mapping, and notes about skipped lines.
    let policy = "[velocity]\nmax_invocations_per_window = 100\n";
    let events = format!("{}{{\"t_ms\":0,\"capability\":\"c\"}}\n", "nonsense\n".repeat(9));
    let case = Case::new(policy, &events).args(&["--on-bad-line", "skip", "--map", "x=y"]);
    let replayed = deaf(&case, &["--summary", "json"]);
    assert_eq!(replayed.status.code(), Some(0));
    let summary: serde_json::Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!((&summary["events"], &summary["bad_lines"]), (&json!(1), &json!(9)));

    let unsummed = deaf(&case, &["--decisions", "-"]);
    assert_eq!(unsummed.status.code(), Some(1), "the summary itself was lost");
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let case = Case::new(PER_IP, &"{\"t_ms\":0,\"ip\":\"a\"}\n".repeat(100_000));
    let mut command = case.command("replay");
    command.args(["--input", "trace.jsonl", "--decisions", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_policy_with_effects_is_not_replayed_as_if_it_had_none() {
    let policy = "[[limit]]\nname = \"x\"\nrate = { tokens = 1, per = \"1s\" }\n\n[[effect]]\ntool = \"Email\"\nmax = \"50/day\"\n";
    let case = Case::new(policy, "");
    let replay = case.replay();
    assert_eq!(replay.code, 2);
    let text = "policy.toml:5: effects are not replayed from traces, accepted: a policy without [[effect]]";
    assert!(replay.stderr.contains(text), "{}", replay.stderr);
    assert_eq!(case.explain().status.code(), Some(0));
}

#[test]
fn a_mistake_in_an_effect_is_told_as_any_other() {
    let told = refused("bucket_cap = 9\n[[effect]]\ntool = \"Email\"\nmax = \"50/dya\"\n");
    assert!(
        told.contains(
            "policy.toml:4: effect \"Email\": max is \"50/dya\", accepted: a period after the slash"
        ),
        "{told}"
    );
}

#[test]
fn a_policy_with_budgets_is_not_replayed_with_limits_beside_them() {
    let policy =
        "[[limit]]\nname = \"x\"\nrate = { tokens = 1, per = \"1s\" }\n\n[[spend.scope]]\nname = \"user\"\n";
    let case = Case::new(policy, "");
    let replay = case.replay();
    assert_eq!(replay.code, 2);
    let text =
        "policy.toml:1: `limit` is not replayed beside [spend], accepted: a policy file for each of them";
    assert!(replay.stderr.contains(text), "{}", replay.stderr);
    assert_eq!(case.explain().status.code(), Some(0));
}

#[test]
fn a_mistake_in_a_budget_is_told_as_any_other() {
    let told =
        refused("bucket_cap = 9\n[[spend.scope]]\nname = \"user\"\n[[spend.scope.limit]]\ncost = 3.00\n");
    let text = "policy.toml:5: spend.scope \"user\": limit 1: cost is 3.00, accepted: the amount as text, cost = \"3.00\": ";
    assert!(told.contains(text), "{told}");
    let told = refused("[spand]\n");
    assert!(told.contains("policy.toml:1: unknown key `spand`: did you mean `spend`?"), "{told}");
}
