//! Traces in each format, plain and packed, and how their fields are read.

mod common;

use common::Case;
use serde_json::json;
use std::io::Write;

const PER_IP: &str = "[[limit]]\nname = \"per-ip\"\nkey = [\"ip\"]\nrate = { tokens = 1, per = \"60s\" }\n";

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn times_in_nanoseconds_milliseconds_and_dates_mean_the_same() {
    let events = "{\"t_ns\":1700158546680590000,\"ip\":1}\n\
                  {\"t_ms\":1700158546681,\"ip\":2}\n\
                  {\"time\":\"2023-11-16T19:15:46.682+01:00\",\"ip\":3}\n\
                  {\"time\":\"2023-11-16 18:15:46.6830000\",\"ip\":4}\n";
    let replay = Case::new(PER_IP, events).replay().ok();
    let times: Vec<_> = replay.decisions.iter().map(|d| d["t_ns"].as_u64().unwrap() / 1_000).collect();
    assert_eq!(
        times,
        [1_700_158_546_680_590, 1_700_158_546_681_000, 1_700_158_546_682_000, 1_700_158_546_683_000]
    );
}

#[test]
fn csv_takes_its_names_from_the_header_and_costs_from_text() {
    let policy =
        "[[limit]]\nname = \"x\"\nkey = [\"who\"]\ncost = \"tokens\"\nrate = { tokens = 10, per = \"1h\" }\n";
    let csv = "t_ms,ignored,who,tokens\r\n0,\"a,b\",\"x, y\",6\r\n0,,\"x, y\",5\r\n0,,z,1.5\r\n0,,z,\r\n0,,,1\r\n0,,z,10";
    let replay = Case::named(policy, "trace.csv", csv.as_bytes()).replay().ok();
    assert_eq!(
        replay.told(),
        [
            "admit",
            "deny x exhausted 360000000000",
            "error x bad-cost",
            "error x missing-field",
            "error x missing-field",
            "admit",
        ]
    );
}

#[test]
fn csv_feeds_the_guards_too() {
    let policy = "[velocity]\nmax_spend_per_window = 100\nburst_factor = 1\n[agent_velocity]\nmax_requests_per_agent = 9\n";
    let csv = "t_ms,agent,capability,grant,cost\n0,a,c,0,60\n0,a,c,,60\n0,a,c,1,60\n0,a,c,x,1\n0,a,c,0,\n";
    let replay = Case::named(policy, "trace.csv", csv.as_bytes()).replay().ok();
    assert_eq!(
        replay.told(),
        [
            "admit",
            "deny velocity.spend exhausted 20000000000",
            "admit",
            "error velocity.spend missing-field",
            "error velocity.spend no-declared-cost",
        ]
    );
}

#[test]
fn a_map_renames_fields_for_every_format() {
    let policy = "[[limit]]\nname = \"x\"\nkey = [\"client\"]\nrate = { tokens = 1, per = \"60s\" }\n";
    let jsonl = "{\"at\":5,\"addr\":\"a\",\"t_ms\":\"not a time\"}\n{\"at\":6,\"addr\":\"a\"}\n";
    let replay = Case::new(policy, jsonl).args(&["--map", "t_ms=at", "--map", "client=addr"]).replay().ok();
    assert_eq!(replay.told(), ["admit", "deny x exhausted 59999000000"]);

    let csv = "TIMESTAMP,addr\n2023-11-16 18:15:46.6805900,a\n2023-11-16 18:15:46.6805901,a\n";
    let replay =
        Case::named(policy, "t.csv", csv.as_bytes()).args(&["--map", "time=TIMESTAMP", "--map=client=addr"]);
    assert_eq!(replay.replay().ok().told(), ["admit", "deny x exhausted 59999999900"]);

    let log = "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\"\n";
    let replay =
        Case::named(policy, "t.log", log.repeat(2).as_bytes()).args(&["--map", "client=ip"]).replay().ok();
    assert_eq!(replay.verdicts(), "AD");
}

#[test]
fn a_map_that_nothing_reads_is_warned_about() {
    let replay = Case::new(PER_IP, "{\"t_ms\":0,\"ip\":1}\n").args(&["--map", "tiem=x"]).replay().ok();
    assert!(replay.stderr.contains("--map tiem=x: the policy reads no field `tiem`"), "{}", replay.stderr);
}

#[test]
fn combined_logs_have_their_eight_fields() {
    let policy = "
[[limit]]
name = \"posts\"
key = [\"ip\", \"path\", \"referer\", \"user_agent\"]
rate = { tokens = 100, per = \"1h\" }
cost = \"bytes\"
when = { method = \"POST\", status = 200 }
";
    let line = |method: &str, status: &str, bytes: &str, referer: &str| {
        format!(
            "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"{method} /x HTTP/1.1\" {status} {bytes} \"{referer}\" \"UA \\\"x\\\"\"\n"
        )
    };
    let log = [
        line("POST", "200", "60", "r"),
        line("POST", "200", "60", "r"),
        line("POST", "200", "60", "other"),
        line("GET", "200", "60", "r"),
        line("POST", "404", "60", "r"),
        line("POST", "200", "-", "r"),  // nothing was sent: costs nothing
        line("POST", "200", "60", "-"), // no referer: no key
    ]
    .concat();
    let replay = Case::named(policy, "access.log", log.as_bytes()).replay().ok();
    assert_eq!(replay.verdicts(), "ADAAAAE");
    assert_eq!(replay.decisions[0]["t_ns"], json!(1_431_857_103_000_000_000u64));
}

#[test]
fn the_format_follows_the_files_name_unless_it_is_said() {
    let csv = "t_ms,ip\n0,a\n0,a\n";
    assert_eq!(Case::named(PER_IP, "t.csv", csv.as_bytes()).replay().ok().verdicts(), "AD");
    let told = Case::named(PER_IP, "t.txt", csv.as_bytes()).args(&["--format", "csv"]).replay().ok();
    assert_eq!(told.verdicts(), "AD");
}

#[test]
fn gzip_is_recognised_by_its_bytes_and_members_may_follow_each_other() {
    let events = "{\"t_ms\":0,\"ip\":\"a\"}\n";
    let two = [packed(events.as_bytes()), packed(events.as_bytes())].concat();
    for name in ["t.jsonl.gz", "t.jsonl"] {
        assert_eq!(Case::named(PER_IP, name, &two).replay().ok().verdicts(), "AD");
    }
    let csv = packed(b"t_ms,ip\n0,a\n0,a\n");
    assert_eq!(Case::named(PER_IP, "t.csv.gz", &csv).replay().ok().verdicts(), "AD");
}

#[test]
fn standard_input_is_read_for_a_dash() {
    let replay = Case::new(PER_IP, "{\"t_ms\":0,\"ip\":\"a\"}\n{\"t_ms\":0,\"ip\":\"a\"}").piped().ok();
    assert_eq!(replay.verdicts(), "AD");
    let zipped = packed(b"{\"t_ms\":0,\"ip\":\"a\"}\n");
    assert_eq!(Case::named(PER_IP, "t", &zipped).piped().ok().verdicts(), "A");
}

#[test]
fn marks_blank_lines_carriage_returns_and_a_missing_last_line_end_are_no_obstacle() {
    let events = "\u{feff}{\"t_ms\":0,\"ip\":\"a\"}\r\n\r\n   \n{\"t_ms\":0,\"ip\":\"a\"}";
    let replay = Case::new(PER_IP, events).replay().ok();
    assert_eq!(replay.verdicts(), "AD");
    assert_eq!(replay.summary()["bad_lines"], json!(0));
}

#[test]
fn an_empty_trace_has_a_summary_of_no_events() {
    for name in ["t.jsonl", "t.csv", "t.log"] {
        let replay = Case::named(PER_IP, name, b"").replay().ok();
        let summary = replay.summary();
        assert_eq!(summary["events"], json!(0), "{name}");
        assert_eq!(summary["wait_ns"]["max"], json!(null));
        assert!(replay.decisions.is_empty());
    }
}

#[test]
fn fields_that_no_policy_names_are_ignored_whatever_their_type() {
    let events = "{\"t_ms\":0,\"ip\":\"a\",\"cost\":-5,\"grant\":{},\"x\":[[1],{\"t_ms\":9}],\"agent\":null,\"n\":1e999}\n";
    assert_eq!(Case::new(PER_IP, events).replay().ok().verdicts(), "A");
}
