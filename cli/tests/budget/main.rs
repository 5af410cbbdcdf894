//! `tollgate budget`, as a user runs it, on stores that the library made.

mod archive;
mod audit;
mod beside;
#[path = "../common/mod.rs"]
mod common;
mod holds;
mod repairs;
mod status;
mod stores;

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
