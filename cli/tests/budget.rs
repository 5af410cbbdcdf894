//! `tollgate budget`, as a user runs it, on stores that the library made.

mod common;

use common::tollgate;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tollgate::spend::record::{Kind, Record};
use tollgate::spend::sqlite::audit;
use tollgate::spend::window::parse_time;
use tollgate::spend::*;

const MINUTE: Millis = 60_000;
const NOTE: &str = "ann: billed, the worker was killed";

/// Long after these tests are run: the latest record then says what time it is, and every answer is known to the millisecond.
fn start() -> Millis {
    parse_time("2100-06-01T12:00:00Z").unwrap()
}

fn policy() -> SpendPolicy {
    let hour = Window::rolling(Duration::from_secs(3_600)).unwrap();
    SpendPolicy::new()
        .scope(Scope::keyed("run").limit(Limit::tokens(10_000, Window::Lifetime)))
        .scope(Scope::keyed("user").limit(Limit::cost(200_000, hour)))
        .scope(
            Scope::shared("global")
                .limit(Limit::cost(1_000_000, Window::day("UTC").unwrap()))
                .limit(Limit::concurrent_runs(2)),
        )
        .family(Family::new("root").cost(500_000).ceiling(100_000))
        .ttl(Duration::from_secs(1_800))
}

/// A folder with a store in it.
struct Case {
    dir: TempDir,
    clock: ManualWallClock,
}

impl Case {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), clock: ManualWallClock::at(start()) }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("budgets.db")
    }

    fn open(&self, policy: SpendPolicy) -> Spend {
        open(&self.db(), policy, &self.clock)
    }

    /// Ann has one call that is settled, and at ten past one that is open and was charged.
    fn usual(&self) -> Spend {
        let spend = self.open(policy());
        let call = |id| Call::new().scope("run", "r-1").scope("user", "ann").id(id);
        let estimate = Amounts::new().cost(40_000).tokens(4_000).runs(1);
        let hold = spend.hold(&call("step-1"), &estimate).unwrap();
        hold.settle(&Amounts::new().cost(31_500).tokens(3_120)).unwrap();
        self.clock.advance(10 * MINUTE);
        let hold = spend.hold(&call("step-2").grant("root"), &estimate).unwrap();
        hold.charge(&Amounts::new().cost(10_000)).unwrap();
        hold.detach();
        spend
    }

    /// Without a writer, so that nobody deals with what is over meanwhile.
    fn pass(&self, time: Millis) {
        self.clock.advance(time);
        let store = SqliteStore::at(self.db()).unwrap();
        let at = self.clock.unix_millis();
        store.open(&store.kept_policy().unwrap().unwrap(), at).unwrap();
        let hold = store.hold("step-1").unwrap().unwrap();
        let again =
            Record { at, kind: Kind::Settle, path: [].into(), moves: Vec::new(), hold, note: String::new() };
        store.write(&[again]).unwrap();
    }

    fn run(&self, args: &[&str]) -> Told {
        run(self.dir.path(), args)
    }

    fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn open(db: &Path, policy: SpendPolicy, clock: &ManualWallClock) -> Spend {
    let store = SqliteStore::at(db).unwrap();
    Spend::builder(policy).store(store).clock(clock.clone()).open().unwrap()
}

/// What the tool said.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Told {
    fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    fn fails(self, code: i32, part: &str) {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{}", self.err);
        assert!(self.err.contains(part), "{:?} does not say {part:?}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// Runs `budget NAME --db budgets.db`, with more.
fn run(dir: &Path, args: &[&str]) -> Told {
    let args = [&["budget", args[0], "--db", "budgets.db"], &args[1..]].concat();
    told(tollgate().current_dir(dir).args(args).output().unwrap())
}

fn told(output: Output) -> Told {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn balances(db: &Path) -> u64 {
    let audit = audit(db).unwrap();
    assert!(audit.findings.is_empty(), "{}", audit.findings[0]);
    audit.counts.rows
}

fn row<'a>(limits: &'a Value, scope: &str, dimension: &str) -> &'a Value {
    let mut rows = limits["limits"].as_array().unwrap().iter();
    rows.find(|row| row["scope"] == scope && row["dimension"] == dimension).unwrap()
}

// ---- status

#[test]
fn status_tells_of_every_account_and_limit_what_is_spent_and_held_and_when_it_resets() {
    let case = Case::new();
    let _writer = case.usual();
    let expected = "\
budgets.db at 2100-06-01T12:10:00Z

  scope   key          dimension  window                  limit       spent      held        left    full  resets at
  run     r-1          tokens     lifetime               10,000       3,120     4,000       2,880  71.2 %  never
  user    ann          cost       rolling 1h           0.20 USD  0.0415 USD  0.03 USD  0.1285 USD  35.7 %  2100-06-01T13:01:00Z
  global  (everybody)  cost       calendar day in UTC  1.00 USD  0.0415 USD  0.03 USD  0.9285 USD   7.1 %  2100-06-02T00:00:00Z
  global  (everybody)  runs       lifetime                    2           0         1           1  50.0 %  never
  family  root         cost       lifetime             0.50 USD    0.01 USD  0.03 USD    0.46 USD   8.0 %  never
  family  root         calls      lifetime                    -           0         0           -       -  never
";
    assert_eq!(case.ok(&["status"]), expected);
}

#[test]
fn status_as_json_has_integers_in_units() {
    let case = Case::new();
    drop(case.usual());
    let told = case.json(&["status"]);
    assert_eq!((&told["currency"], &told["decimals"]), (&json!("USD"), &json!(6)));
    assert_eq!((&told["db"], &told["at"]), (&json!("budgets.db"), &json!("2100-06-01T12:10:00Z")));
    assert_eq!((&told["at_ms"], &told["overdue_holds"]), (&json!(start() + 10 * MINUTE), &json!(0)));
    assert_eq!(told["limits"].as_array().unwrap().len(), 6);
    let expected = json!({
        "scope": "user", "key": "ann", "dimension": "cost", "window": "rolling 1h", "limit": 200_000,
        "spent": 41_500, "held": 30_000, "left": 128_500, "full_millionths": 357_500,
        "resets_at": "2100-06-01T13:01:00Z", "resets_at_ms": start() + 61 * MINUTE,
    });
    assert_eq!(*row(&told, "user", "cost"), expected);
    let calls = row(&told, "family", "calls");
    let absent = ["limit", "left", "full_millionths", "resets_at", "resets_at_ms"];
    assert!(absent.iter().all(|name| calls[name].is_null()), "{calls}");
    assert_eq!(row(&told, "family", "cost")["held"], 30_000);
}

#[test]
fn status_tells_only_of_the_scope_and_the_key_that_are_asked_for() {
    let case = Case::new();
    let spend = case.usual();
    spend
        .hold(&Call::new().scope("run", "r-2").scope("user", "ann"), &Amounts::new())
        .unwrap()
        .release()
        .unwrap();
    let keys = |args: &[&str]| {
        let told = case.json(&[&["status"], args].concat());
        let limits = told["limits"].as_array().unwrap().iter();
        limits.map(|row| row["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&["--scope", "run"]), ["r-1", "r-2"]);
    assert_eq!(keys(&["--scope", "run", "--key", "r-2"]), ["r-2"]);
    assert_eq!(keys(&["--key", "ann"]), ["ann"]);
    assert_eq!(keys(&["--scope", "family"]), ["root", "root"]);
    assert_eq!(keys(&["--key", "nobody"]), [""; 0]);
    assert!(case.ok(&["status", "--key", "nobody"]).contains("no such limit of an account"));
    case.run(&["status", "--scope", "team"])
        .fails(2, "the policy has no scope \"team\", accepted: run, user, global, family");
}

#[test]
fn status_tells_of_debt_and_of_limits_of_nothing() {
    let case = Case::new();
    let policy = SpendPolicy::new().unit("JPY", 0).scope(
        Scope::shared("all")
            .limit(Limit::cost(100, Window::Lifetime))
            .limit(Limit::calls(0, Window::Lifetime)),
    );
    let spend = case.open(policy);
    spend.hold(&Call::new(), &Amounts::new().cost(50)).unwrap().settle(&Amounts::new().cost(160)).unwrap();
    let told = case.ok(&["status"]);
    for part in [
        "100 JPY  160 JPY  0 JPY  -60 JPY  160.0 %  never",
        "(everybody)",
        "0        0      0        0  100.0 %  never",
    ] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    assert_eq!(row(&case.json(&["status"]), "all", "cost")["left"], -60);
}

#[test]
fn what_an_earlier_window_spent_is_not_told_of_the_current_one() {
    let case = Case::new();
    let spend = case.usual();
    spend.set_limit("run", Dimension::Tokens, &Window::Lifetime, 20_000).unwrap();
    drop(spend);
    case.pass(20 * 60 * MINUTE);
    let told = case.json(&["status"]);
    let user = row(&told, "user", "cost");
    assert_eq!((&user["spent"], &user["held"], &user["resets_at"]), (&json!(0), &json!(0), &Value::Null));
    assert_eq!(row(&told, "global", "cost")["resets_at"], "2100-06-03T00:00:00Z");
    let run = row(&told, "run", "tokens");
    assert_eq!((&run["limit"], &run["held"]), (&json!(20_000), &json!(4_000)));
    assert_eq!(told["overdue_holds"], 1);
    assert!(
        case.ok(&["status"]).contains("0.00 USD  0.00 USD  0.20 USD   0.0 %  -\n"),
        "{}",
        case.ok(&["status"])
    );
    assert!(
        case.ok(&["status"])
            .ends_with("\n  1 open hold is overdue and counted as held here: see `tollgate budget holds`\n")
    );
}

// ---- holds

#[test]
fn holds_are_told_oldest_first_with_their_time_and_what_is_overdue() {
    let case = Case::new();
    let spend = case.usual();
    assert!(case.ok(&["holds"]).contains("in 30 min"));
    case.clock.advance(29 * MINUTE);
    let call = Call::new().scope("run", "r-2").scope("user", "").id("step-3");
    spend.hold(&call, &Amounts::new().calls(1_500)).unwrap().detach();
    drop(spend);
    case.pass(4 * MINUTE);
    let expected = "\
budgets.db at 2100-06-01T12:43:00Z

  id      generation  accounts                             held                            charged      age  expires
  step-2           1  run=r-1 user=ann global family=root  0.03 USD, 4,000 tokens, 1 runs  0.01 USD  33 min  overdue by 3 min
  step-3           2  run=r-2 user= global                 1,500 calls                     nothing    4 min  in 26 min
";
    assert_eq!(case.ok(&["holds"]), expected);
    let told = case.json(&["holds"]);
    let expected = json!({
        "id": "step-2", "generation": 1, "overdue": true,
        "accounts": [
            { "scope": "run", "key": "r-1" }, { "scope": "user", "key": "ann" }, { "scope": "global", "key": "" },
            { "scope": "family", "key": "root" },
        ],
        "held": { "cost": 30_000, "tokens": 4_000, "calls": 0, "seconds": 0, "runs": 1 },
        "charged": { "cost": 10_000, "tokens": 0, "calls": 0, "seconds": 0, "runs": 0 },
        "opened_at": "2100-06-01T12:10:00Z", "opened_at_ms": start() + 10 * MINUTE, "age_ms": 33 * MINUTE,
        "expires_at": "2100-06-01T12:40:00Z", "expires_at_ms": start() + 40 * MINUTE, "expires_in_ms": -180_000,
    });
    assert_eq!(told["holds"][0], expected);
    assert_eq!((&told["holds"][1]["id"], &told["currency"]), (&json!("step-3"), &json!("USD")));
}

#[test]
fn where_no_hold_is_open_it_is_said() {
    let case = Case::new();
    drop(case.open(policy()));
    assert!(case.ok(&["holds"]).ends_with("\n  no hold is open\n"));
    assert_eq!(case.json(&["holds"])["holds"], json!([]));
}

// ---- repairs

#[test]
fn a_hold_that_is_settled_by_hand_is_in_the_books_and_its_note_in_the_ledger() {
    let case = Case::new();
    drop(case.usual());
    let rows = balances(&case.db());
    let told = case.ok(&["settle", "step-2", "--cost", "0.05", "--tokens", "1500", "--note", NOTE]);
    let expected = "\
settled step-2 (generation 1) of run=r-1 user=ann global family=root: used 0.06 USD, 1,500 tokens, given back 2,500 tokens, \
1 runs, beyond the hold 0.02 USD
note: ann: billed, the worker was killed
";
    assert_eq!(told, expected);
    assert_eq!(balances(&case.db()), rows + 1, "nothing but the settlement was written");
    assert_eq!(row(&case.json(&["status"]), "user", "cost")["spent"], 91_500);
    assert_eq!(row(&case.json(&["status"]), "user", "cost")["held"], 0);
    let notes = SqliteReader::open(case.db()).unwrap().notes().unwrap();
    assert_eq!((notes.len(), notes[0].1.note.as_str()), (1, NOTE));
    let audit = case.ok(&["audit"]);
    assert!(
        audit.contains(", 1 repairs by hand\n\nrepairs by hand\n") && audit.ends_with(&format!("  {NOTE}\n")),
        "{audit}"
    );
    let repair = &case.json(&["audit"])["repairs"][0];
    assert_eq!(
        (&repair["done"], &repair["id"], &repair["note"]),
        (&json!("settled"), &json!("step-2"), &json!(NOTE))
    );
    assert_eq!((&repair["used"]["cost"], &repair["released"]["tokens"]), (&json!(60_000), &json!(2_500)));
    assert_eq!(repair["at"], "2100-06-01T12:10:00Z");
}

#[test]
fn a_repair_as_json_is_one_object() {
    let case = Case::new();
    drop(case.usual());
    let args =
        ["settle", "step-2", "--cost", "0", "--calls", "0", "--seconds", "7", "--runs", "1", "--note", NOTE];
    let told = case.json(&[&args[..], &["--generation", "1", "--currency", "USD"]].concat());
    let expected = json!({
        "db": "budgets.db", "done": "settled", "id": "step-2", "generation": 1, "late": false, "note": NOTE,
        "accounts": [
            { "scope": "run", "key": "r-1" }, { "scope": "user", "key": "ann" }, { "scope": "global", "key": "" },
            { "scope": "family", "key": "root" },
        ],
        "stated": { "cost": 0, "tokens": 0, "calls": 0, "seconds": 7, "runs": 1 },
        "used": { "cost": 10_000, "tokens": 0, "calls": 0, "seconds": 7, "runs": 0 },
        "released": { "cost": 30_000, "tokens": 4_000, "calls": 0, "seconds": 0, "runs": 1 },
        "overrun": { "cost": 0, "tokens": 0, "calls": 0, "seconds": 7, "runs": 0 },
        "at": "2100-06-01T12:10:00Z", "at_ms": start() + 10 * MINUTE, "currency": "USD", "decimals": 6,
    });
    assert_eq!(told, expected);
    balances(&case.db());
}

#[test]
fn a_hold_that_is_released_by_hand_keeps_what_it_was_charged() {
    let case = Case::new();
    drop(case.usual());
    let told = case.ok(&["release", "step-2", "--note", NOTE]);
    assert!(told.contains("used 0.01 USD, given back 0.03 USD, 4,000 tokens, 1 runs\n"), "{told}");
    let user = case.json(&["status", "--scope", "user"]);
    assert_eq!((&user["limits"][0]["spent"], &user["limits"][0]["held"]), (&json!(41_500), &json!(0)));
    assert_eq!(case.json(&["holds"])["holds"], json!([]));
    let audit = case.json(&["audit"]);
    assert_eq!(
        (&audit["repairs"][0]["done"], &audit["repairs"][0]["note"]),
        (&json!("released"), &json!(NOTE))
    );
    balances(&case.db());
}

#[test]
fn a_hold_whose_time_is_over_is_settled_late_at_the_first_attempt() {
    let case = Case::new();
    drop(case.usual());
    case.pass(60 * MINUTE);
    let told = case.ok(&["settle", "step-2", "--cost", "0.01", "--note", NOTE]);
    assert!(told.contains("; its time was over\n"), "{told}");
    assert_eq!(row(&case.json(&["status"]), "global", "cost")["spent"], 51_500);
    balances(&case.db());
    case.run(&["settle", "step-2", "--cost", "0.01", "--note", NOTE])
        .fails(2, "was settled at 2100-06-01T13:10:00Z");
}

#[test]
fn a_repair_that_cannot_be_changes_nothing() {
    let case = Case::new();
    drop(case.usual());
    let rows = balances(&case.db());
    let settle = |args: &[&str]| case.run(&[&["settle"], args, &["--note", NOTE]].concat());
    let cases: [(&[&str], &str); 17] = [
        (&["nobody", "--cost", "1"], "no hold \"nobody\" is known"),
        (&["a\u{1b}[2J", "--cost", "1"], "no hold \"a\\u{1b}[2J\" is known"),
        (
            &["step-1", "--cost", "0.0315"],
            "the hold \"step-1\" of generation 0 was settled at 2100-06-01T12:00:00Z",
        ),
        (&["step-2", "--cost", "1", "--generation", "7"], "is of generation 1: the id has passed to another"),
        (&["step-2", "--cost", "1", "--currency", "EUR"], "the cost is in EUR and the budget in USD"),
        (&["step-2", "--cost", "one"], "--cost: \"one\" is no amount of money"),
        (&["step-2", "--cost", ""], "--cost: \"\" is no amount of money"),
        (&["step-2", "--cost", "-1"], "--cost: \"-1\" is no amount of money"),
        (&["step-2", "--cost", "0.0000001"], "at most 6 decimal places"),
        (&["step-2", "--cost", "99999999999999999999"], "more than can be counted"),
        (&["step-2", "--cost", "18446744073709.551615"], "cost is 18446744073709551615, accepted: 0 to"),
        (&["step-2", "--cost", "9007199254.740993"], "cost is 9007199254740993, accepted: 0 to"),
        (&["step-2", "--cost", "1", "--tokens", "-4"], "tokens is -4, accepted"),
        (&["step-2", "--cost", "1", "--calls", "9007199254740993"], "calls is 9007199254740993, accepted"),
        (&["step-2", "--cost", "1", "--seconds", "1.5"], "invalid value '1.5' for '--seconds <N>'"),
        (&["step-2"], "--cost <AMOUNT>"),
        (&["--cost", "1"], "<ID>"),
    ];
    for (args, part) in cases {
        settle(args).fails(2, part);
    }
    case.run(&["settle", "step-2", "--cost", "1"]).fails(2, "--note <TEXT>");
    case.run(&["settle", "step-2", "--cost", "1", "--note", " \t"]).fails(2, "--note is empty");
    case.run(&["release", "step-2"]).fails(2, "--note <TEXT>");
    case.run(&["release", "step-1", "--note", NOTE]).fails(2, "was settled at");
    assert_eq!(balances(&case.db()), rows);
}

#[test]
fn a_hold_is_repaired_once() {
    let case = Case::new();
    drop(case.usual());
    case.ok(&["release", "step-2", "--note", NOTE]);
    let rows = balances(&case.db());
    case.run(&["release", "step-2", "--note", NOTE])
        .fails(2, "the hold \"step-2\" of generation 1 was released at");
    case.run(&["settle", "step-2", "--cost", "1", "--note", NOTE]).fails(2, "was released at");
    assert_eq!(balances(&case.db()), rows);
}

#[test]
fn a_call_that_was_refused_has_nothing_to_repair() {
    let case = Case::new();
    let spend = case.usual();
    let call = Call::new().scope("run", "r-1").scope("user", "ann").id("step-9");
    spend.hold(&call, &Amounts::new().tokens(1_000_000)).unwrap_err();
    drop(spend);
    case.run(&["release", "step-9", "--note", NOTE])
        .fails(2, "the hold \"step-9\" of generation 2 was refused at");
}

// ---- beside a writer

#[test]
fn beside_a_writer_all_can_be_read_and_nothing_repaired() {
    let case = Case::new();
    let spend = case.usual();
    assert_eq!(row(&case.json(&["status"]), "run", "tokens")["held"], 4_000);
    assert_eq!(case.json(&["holds"])["holds"][0]["id"], "step-2");
    assert_eq!(case.json(&["audit"])["verdict"], "agrees");
    let in_use = format!("in use by another writer (process {})", std::process::id());
    case.run(&["settle", "step-2", "--cost", "1", "--note", NOTE]).fails(1, &in_use);
    case.run(&["release", "step-2", "--note", NOTE]).fails(1, &in_use);
    case.run(&["release", "nobody", "--note", NOTE]).fails(2, "no hold \"nobody\"");
    // The writer goes on as if nobody had been there.
    spend.settle(&spend.find("step-2").unwrap().unwrap(), &Amounts::new().cost(1)).unwrap();
    assert_eq!(case.json(&["holds"])["holds"], json!([]));
}

const FILE: &str = "TOLLGATE_BUDGET_FILE";

/// Does nothing unless it is started by the test below: writes, and waits for its end.
#[test]
fn child() {
    let Ok(path) = std::env::var(FILE) else { return };
    let clock = ManualWallClock::at(start());
    let spend = open(Path::new(&path), policy(), &clock);
    let call = Call::new().scope("run", "r-1").scope("user", "ann").id("of the child");
    spend.hold(&call, &Amounts::new().cost(5_000)).unwrap().detach();
    print!("<held>");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn once_the_writer_was_killed_its_hold_is_settled_by_hand() {
    let case = Case::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(FILE, case.db())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut byte) = (String::new(), [0]);
    while !said.ends_with("<held>") {
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let args = ["settle", "of the child", "--cost", "0.004", "--note", NOTE];
    let (status, holds, audit) = (case.run(&["status"]), case.run(&["holds"]), case.run(&["audit"]));
    let refused = case.run(&args);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(status.ok().contains("  0.005 USD  "));
    assert!(holds.ok().contains("  of the child  "));
    assert!(audit.ok().starts_with("agrees: 2 rows of the ledger (0 archived), 3 accounts, "));
    refused.fails(1, &format!("process {}", child.id()));
    case.ok(&args);
    assert_eq!(row(&case.json(&["status"]), "user", "cost")["spent"], 4_000);
    balances(&case.db());
}

// ---- audit

#[test]
fn an_audit_in_which_all_agrees_ends_with_exit_code_0() {
    let case = Case::new();
    drop(case.usual());
    let expected = "\
agrees: 5 rows of the ledger (0 archived), 4 accounts, 6 rows of use, 1 open holds, 1 remembered, 0 grants, 0 repairs by hand
";
    assert_eq!(case.ok(&["audit"]), expected);
    let expected = json!({
        "db": "budgets.db", "verdict": "agrees", "findings": [], "more": false, "repairs": [], "repairs_error": null,
        "counts": {
            "rows": 5, "archived": 0, "accounts": 4, "usage": 6, "open": 1, "remembered": 1, "grants": 0, "notes": 0,
        },
        "currency": "USD", "decimals": 6,
    });
    assert_eq!(case.json(&["audit"]), expected);
}

/// Changes a byte of a note where the file has it.
fn forge(db: &Path) {
    let mut bytes = std::fs::read(db).unwrap();
    let at = bytes.windows(NOTE.len()).position(|window| window == NOTE.as_bytes()).expect("the note");
    bytes[at] = b'A';
    std::fs::write(db, bytes).unwrap();
}

#[test]
fn an_audit_that_finds_something_names_it_and_ends_with_exit_code_1() {
    let case = Case::new();
    drop(case.usual());
    case.ok(&["release", "step-2", "--note", NOTE]);
    forge(&case.db());
    let told = case.run(&["audit"]);
    assert_eq!((told.code, told.err.as_str()), (Some(1), ""));
    assert!(told.out.starts_with("differs: 1 finding\n  chain  table ledger, "), "{}", told.out);
    assert!(told.out.contains("  Ann: billed"), "{}", told.out);
    let told = case.run(&["audit", "--json"]);
    let document: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.code, &document["verdict"]), (Some(1), &json!("differs")));
    assert_eq!(
        (&document["findings"][0]["check"], &document["findings"][0]["table"]),
        (&json!("chain"), &json!("ledger"))
    );
    let args = ["release", "step-1", "--note", NOTE];
    case.run(&args).fails(2, "was settled at");
    case.ok(&["status"]);
}

#[test]
fn a_store_that_was_altered_is_not_repaired() {
    let case = Case::new();
    let spend = case.usual();
    let other = Call::new().scope("run", "r-2").scope("user", "ann").id("other");
    spend.hold(&other, &Amounts::new().cost(1)).unwrap().detach();
    drop(spend);
    case.ok(&["release", "step-2", "--note", NOTE]);
    forge(&case.db());
    case.run(&["release", "other", "--note", NOTE]).fails(2, "was torn or altered: table ledger");
}

#[test]
fn a_store_with_a_damaged_page_is_told_without_a_panic() {
    let case = Case::new();
    drop(case.usual());
    let whole = std::fs::read(case.db()).unwrap();
    for (page, byte) in [(1, 0xff), (3, 0x00), (5, 0x7f), (9, 0xff)] {
        let mut bytes = whole.clone();
        bytes[page * 4_096..page * 4_096 + 512].fill(byte);
        std::fs::write(case.db(), bytes).unwrap();
        let audit = case.run(&["audit"]);
        assert!(matches!(audit.code, Some(1 | 2)) && !audit.err.contains("panicked"), "{audit:?}");
        for args in [&["status"][..], &["holds"], &["release", "step-2", "--note", NOTE]] {
            let told = case.run(args);
            assert!(told.code.is_some() && !told.err.contains("panicked"), "{told:?}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn findings_that_nobody_reads_are_still_findings() {
    let case = Case::new();
    drop(case.usual());
    case.ok(&["release", "step-2", "--note", NOTE]);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let audit = || {
        let mut tool = tollgate();
        tool.current_dir(case.dir.path()).args(["budget", "audit", "--db", "budgets.db"]);
        tool.stdout(full()).output().unwrap()
    };
    let told = audit();
    assert_eq!(told.status.code(), Some(1));
    assert!(String::from_utf8(told.stderr).unwrap().contains("cannot write standard output"));
    forge(&case.db());
    let told = audit();
    assert_eq!((told.status.code(), told.stderr), (Some(1), Vec::new()));
}

// ---- what is no store, and what is in one

/// Every subcommand, with options that are right.
const EACH: [&[&str]; 5] = [
    &["status"],
    &["holds"],
    &["audit"],
    &["settle", "step-2", "--cost", "1", "--note", NOTE],
    &["release", "step-2", "--note", NOTE],
];

#[test]
fn a_store_that_is_not_there_is_not_created() {
    let case = Case::new();
    for args in EACH {
        case.run(args).fails(2, "cannot open budgets.db: ");
    }
    assert_eq!(case.names(), [""; 0]);
}

#[test]
fn what_is_no_store_is_left_as_it_is() {
    let case = Case::new();
    for (bytes, part) in [
        (&b""[..], "there is no store in it"),
        (&b"a text, and no database at all. ".repeat(99), "is no store"),
    ] {
        std::fs::write(case.db(), bytes).unwrap();
        for args in EACH {
            case.run(args).fails(2, part);
        }
        assert_eq!(std::fs::read(case.db()).unwrap(), bytes);
        assert_eq!(case.names(), ["budgets.db"]);
    }
    std::fs::remove_file(case.db()).unwrap();
    std::fs::create_dir(case.db()).unwrap();
    for args in EACH {
        case.run(args).fails(2, "cannot open budgets.db: it is no plain file");
    }
}

#[test]
fn a_store_that_nobody_used_agrees_and_has_nothing_to_show() {
    let case = Case::new();
    drop(SqliteStore::at(case.db()).unwrap());
    for args in EACH.iter().filter(|args| args[0] != "audit") {
        case.run(args).fails(2, "no policy was ever kept in this store");
    }
    assert!(case.ok(&["audit"]).starts_with("agrees: 0 rows"));
}

#[cfg(unix)]
#[test]
fn a_store_in_a_folder_that_can_only_be_read_is_told_of() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new();
    drop(case.usual());
    for suffix in ["-wal", "-shm", ".lock"] {
        let _ = std::fs::remove_file(case.dir.path().join(format!("budgets.db{suffix}")));
    }
    let allow =
        |mode| std::fs::set_permissions(case.dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::set_permissions(case.db(), std::fs::Permissions::from_mode(0o444)).unwrap();
    allow(0o555);
    let told: Vec<_> = ["status", "holds", "audit"].map(|name| case.run(&[name])).into();
    allow(0o755);
    told.into_iter().for_each(|told| drop(told.ok()));
}

#[test]
fn keys_and_notes_cannot_write_to_the_terminal() {
    let case = Case::new();
    let spend = case.open(policy());
    let hostile = "a\u{1b}]0;x\u{7}\n\u{202e}\u{9b}2J\\";
    let call = Call::new().scope("run", hostile).scope("user", "x".repeat(1_000)).id(hostile);
    spend.hold(&call, &Amounts::new().cost(5)).unwrap().detach();
    drop(spend);
    let escaped = "a\\u{1b}]0;x\\u{7}\\n\\u{202e}\\u{9b}2J\\\\";
    let is_quiet = |text: &str| {
        let unseen = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(unseen), "{text:?}");
        assert!(text.lines().all(|line| line.chars().count() < 700), "{text}");
        assert!(text.contains(escaped), "{text}");
    };
    is_quiet(&case.ok(&["status"]));
    is_quiet(&case.ok(&["holds"]));
    assert_eq!(case.json(&["holds"])["holds"][0]["id"], hostile);
    assert_eq!(case.json(&["status", "--key", hostile])["limits"][0]["key"], hostile);
    is_quiet(&case.ok(&["release", hostile, "--note", "see\u{1b}[31m"]));
    is_quiet(&case.ok(&["audit"]));
    let again = case.run(&["release", hostile, "--note", NOTE]);
    assert_eq!(again.code, Some(2));
    assert!(!again.err.trim_end().contains(char::is_control), "{:?}", again.err);
}

// ---- archive

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
