//! A child process runs a script and kills itself at the n-th crash point, for every n.

use super::super::crash::armed;
use super::*;
use crate::spend::{Amounts, Call, ManualWallClock, Spend};
use std::io::Write;
use std::process::Command;

enum Action {
    Write(Vec<Record>),
    Delegate(Grant),
    Archive,
    Open(SpendPolicy),
}

/// What the store must hold after an action: so many rows, archived or not, which say what the desk says.
struct After {
    rows: u64,
    desk: Desk,
    policy: SpendPolicy,
}

fn script() -> (Vec<Action>, Vec<After>) {
    let (mut desk, mut rows, mut policy) = (Desk::new(), 1, usual());
    let (mut actions, mut states) = (Vec::new(), Vec::new());
    let mut add = |action: Action, desk: &Desk| {
        match &action {
            Action::Write(records) => rows += records.len() as u64,
            Action::Delegate(_) => rows += 1,
            Action::Archive => {}
            Action::Open(other) => {
                rows += 1;
                policy = other.clone();
            }
        }
        actions.push(action);
        states.push(After { rows, desk: desk.clone(), policy: policy.clone() });
    };
    let first = vec![
        desk.hold("a", true, path("t", "ann"), cost(9)),
        desk.hold("b", false, path("t", "bob"), cost(9)),
    ];
    add(Action::Write(first), &desk);
    add(Action::Write(vec![desk.settle("a", cost(20)), desk.release("b")]), &desk);
    add(Action::Delegate(Grant { id: "child".into(), parent: "root".into(), ceiling: Some(1) }), &desk);
    desk.now += 3 * DAY;
    add(Action::Write(vec![desk.hold("c", true, path("t", "ann"), cost(9))]), &desk);
    add(Action::Archive, &desk);
    let other = policy_after();
    add(Action::Open(other), &desk);
    add(Action::Write(vec![desk.charge("c", cost(3)), desk.expire("c"), desk.deny("d")]), &desk);
    (actions, states)
}

fn policy_after() -> SpendPolicy {
    policy(vec![scope("user", &[(Dimension::Cost, Window::Lifetime), (Dimension::Cost, rolling(HOUR))])])
}

const FOLDER: &str = "TOLLGATE_CRASH_FOLDER";
const POINT: &str = "TOLLGATE_CRASH_POINT";

/// What a child process is told: its folder. From here on it is killed at its point.
fn told() -> Option<PathBuf> {
    let (Ok(folder), Ok(point)) = (std::env::var(FOLDER), std::env::var(POINT)) else { return None };
    armed::kill_at(point.parse().unwrap());
    Some(PathBuf::from(folder))
}

/// Runs a test of this module in a child process that is killed at a point. Did it get to its end?
fn survives(test: &str, folder: &Path, point: u64) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("spend::sqlite::tests::crash::{test}")])
        .env(FOLDER, folder)
        .env(POINT, point.to_string())
        .output()
        .unwrap();
    let done = folder.join("done").exists();
    assert_eq!(output.status.success(), done, "{}", String::from_utf8_lossy(&output.stdout));
    done
}

/// Does nothing unless it is started by the test below.
#[test]
fn child() {
    let Some(folder) = told() else { return };
    let mut acknowledged = std::fs::File::create(folder.join("acknowledged")).unwrap();
    let mut acknowledge = || acknowledged.write_all(b".").and_then(|()| acknowledged.sync_all()).unwrap();
    let store = SqliteStore::at(folder.join("budgets.db")).unwrap();
    store.open(&usual(), START).unwrap();
    acknowledge();
    let (actions, states) = script();
    for (action, after) in actions.into_iter().zip(states) {
        match action {
            Action::Write(records) => store.write(&records).unwrap(),
            Action::Delegate(grant) => store.delegate(&grant).unwrap(),
            Action::Archive => drop(store.archive(u64::MAX, folder.join("old.jsonl")).unwrap()),
            Action::Open(policy) => {
                store.close();
                store.open(&policy, after.desk.now).unwrap();
            }
        }
        acknowledge();
    }
    std::fs::write(folder.join("done"), "").unwrap();
}

#[test]
fn a_process_killed_at_any_point_leaves_what_it_acknowledged_and_at_most_one_write_more() {
    let (_, states) = script();
    let mut archived_twice = false;
    for point in 1.. {
        assert!(point < 500, "the script does not end");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("budgets.db");
        let done = survives("child", folder.path(), point);
        let acknowledged = std::fs::read(folder.path().join("acknowledged")).unwrap().len();

        let store = SqliteStore::at(&path).unwrap();
        let counts = whole(&path).counts;
        let rows = counts.rows + counts.archived;
        let first = After { rows: 1, desk: Desk::new(), policy: usual() };
        let possible: Vec<&After> = std::iter::once(&first).chain(&states).collect();
        let after = match acknowledged {
            0 if rows == 0 => &first,
            acknowledged => {
                let last = acknowledged.saturating_sub(1);
                let known = possible[last..possible.len().min(acknowledged + 1)].iter().rev();
                known
                    .copied()
                    .find(|after| after.rows == rows)
                    .unwrap_or_else(|| panic!("{rows} rows at {point}"))
            }
        };
        store.open(&after.policy, after.desk.now).unwrap();
        after.desk.agrees(&store, &after.policy);
        if acknowledged >= 4 {
            assert!(store.grant("child").unwrap().is_some(), "at {point}");
        }
        // Archived again, every row is in the file, once or twice.
        if rows > 0 {
            let through = store.archive(u64::MAX, folder.path().join("old.jsonl")).unwrap().through;
            after.desk.agrees(&store, &after.policy);
            if through > 0 {
                let text = std::fs::read_to_string(folder.path().join("old.jsonl")).unwrap();
                let seqs: Vec<u64> = text
                    .lines()
                    .map(|line| {
                        serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap()
                    })
                    .collect();
                for seq in 1..=through {
                    let times = seqs.iter().filter(|&&found| found == seq).count();
                    assert!((1..=2).contains(&times), "row {seq} {times} times at {point}");
                    archived_twice |= times == 2;
                }
            }
        }
        drop(store);
        whole(&path);
        if done {
            assert!(point > 40, "only {point} points");
            break;
        }
    }
    assert!(archived_twice, "no point lies between an archive's file and its transaction");
}

/// Calls of a run, each under an id of its own and noted once it was answered: done again, they change nothing.
fn calls(spend: &Spend, clock: &ManualWallClock, mut answered: impl FnMut(&str, String)) {
    let amounts = |cost: i64| Amounts::new().cost(cost).calls(1);
    let call = |id: &str| Call::new().scope("tenant", "t").scope("user", "ann").id(id);
    let hold = |id: &str, cost: i64| spend.hold(&call(id), &amounts(cost));
    let a = hold("a", 300_000).unwrap();
    answered("a is held", format!("{:?}", a.decision()));
    answered("a is extended", format!("{:?}", a.extend_as("more", &amounts(200_000))));
    answered("a is charged", format!("{:?}", a.charge_as("part", &amounts(100_000))));
    answered("b is refused", format!("{:?}", hold("b", 600_000).map(|_| ())));
    answered("a is settled", format!("{:?}", a.settle(&amounts(450_000)).map(|settled| settled.overrun)));
    let c = hold("c", 100).unwrap();
    answered("c is held", format!("{:?}", c.decision()));
    answered("c is released", format!("{:?}", c.release().map(|settled| settled.released)));
    let d = hold("d", 7_000).unwrap().detach();
    answered("d is held", format!("{d:?}"));
    clock.advance(HOUR);
    spend.expire_due();
    answered("d is expired", String::new());
    answered("d is settled", format!("{:?}", spend.settle(&d, &amounts(5_000)).map(|settled| settled.late)));
}

fn engine(store: SqliteStore) -> (Spend, ManualWallClock) {
    let clock = ManualWallClock::at(START);
    (Spend::builder(usual()).store(store).clock(clock.clone()).open().unwrap(), clock)
}

/// Does nothing unless it is started by the test below.
#[test]
fn child_with_an_engine() {
    let Some(folder) = told() else { return };
    let (spend, clock) = engine(SqliteStore::at(folder.join("budgets.db")).unwrap());
    let mut answers = std::fs::File::create(folder.join("answers")).unwrap();
    calls(&spend, &clock, |what, answer| {
        writeln!(answers, "{what}: {answer}").and_then(|()| answers.sync_all()).unwrap();
    });
    std::fs::write(folder.join("done"), "").unwrap();
}

#[test]
fn an_engine_killed_at_any_point_goes_on_with_the_same_calls_to_the_same_end() {
    let (_folder, path) = place();
    let (undisturbed, clock) = engine(SqliteStore::at(&path).unwrap());
    let mut expected = Vec::new();
    calls(&undisturbed, &clock, |what, answer| expected.push(format!("{what}: {answer}")));
    for point in 1.. {
        assert!(point < 1_000, "the calls do not end");
        let (folder, path) = place();
        let done = survives("child_with_an_engine", folder.path(), point);
        let answers = std::fs::read_to_string(folder.path().join("answers")).unwrap_or_default();
        let answers: Vec<&str> = answers.lines().collect();
        assert_eq!(answers, expected[..answers.len()], "at {point}");
        let (spend, clock) = engine(SqliteStore::at(&path).unwrap());
        whole(&path);
        let mut again = Vec::new();
        calls(&spend, &clock, |what, answer| again.push(format!("{what}: {answer}")));
        assert_eq!(again, expected, "at {point}");
        assert_eq!(spend.books(), undisturbed.books(), "at {point}");
        for user in [("tenant", "t"), ("user", "ann")] {
            assert_eq!(spend.status(user.0, user.1), undisturbed.status(user.0, user.1), "at {point}");
        }
        drop(spend);
        whole(&path);
        if done {
            assert!(point > 100, "only {point} points");
            break;
        }
    }
}
