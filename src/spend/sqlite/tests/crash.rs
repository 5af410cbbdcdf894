//! A child process runs a script and kills itself at the n-th crash point, for every n.

use super::super::crash::armed;
use super::*;
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

/// Does nothing unless it is started by the test below.
#[test]
fn child() {
    let (Ok(folder), Ok(point)) = (std::env::var(FOLDER), std::env::var(POINT)) else { return };
    let folder = PathBuf::from(folder);
    armed::kill_at(point.parse().unwrap());
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
            Action::Open(policy) => drop(store.open(&policy, after.desk.now).unwrap()),
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
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "spend::sqlite::tests::crash::child"])
            .env(FOLDER, folder.path())
            .env(POINT, point.to_string())
            .output()
            .unwrap();
        let done = folder.path().join("done").exists();
        assert_eq!(status.status.success(), done, "{}", String::from_utf8_lossy(&status.stdout));
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
