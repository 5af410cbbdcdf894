use super::*;
use std::collections::BTreeSet;

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_archive_moves_old_rows_and_changes_no_answer() {
    let (folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let to = folder.path().join("old.jsonl");
    let store = opened(&path, &policy);
    let grant = Grant { id: "child".into(), parent: "root".into(), ceiling: None };
    store.delegate(&grant).unwrap();
    for n in 0..30 {
        let id = format!("{n}");
        store.write(&[desk.hold(&id, n % 2 == 0, super::path("t", "ann"), cost(10))]).unwrap();
        if n != 20 {
            store.write(&[desk.settle(&id, cost(4))]).unwrap();
        }
        desk.now += HOUR;
    }
    let archived = store.archive(u64::MAX, &to).unwrap();
    // Windows of a day reach back into the current one.
    assert!(archived.rows > 5 && archived.rows < 45, "{archived:?}");
    desk.agrees(&store, &policy);
    desk.now += 40 * DAY;
    store.write(&[desk.hold("last", true, super::path("t", "ann"), cost(10))]).unwrap();
    let more = store.archive(u64::MAX, &to).unwrap();
    assert_eq!(SqliteReader::open(&path).unwrap().since().unwrap(), START + 19 * HOUR + 1);
    // The hold of number 20 is still open.
    assert_eq!(more.through, 2 + 2 * 20);
    desk.agrees(&store, &policy);
    assert_eq!(store.archive(u64::MAX, &to).unwrap(), Archived { rows: 0, ..more });
    let rows = lines(&to);
    assert_eq!(rows.len() as u64, archived.rows + more.rows);
    assert!(rows.iter().zip(1..).all(|(row, seq)| row["seq"] == seq));
    drop(store);
    let store = SqliteStore::at(&path).unwrap();
    let again = store.open(&policy, desk.now).unwrap();
    assert_eq!((again.next_generation, again.latest), (32, desk.now));
    assert_eq!(store.grant("child").unwrap(), Some(grant));
    store.write(&[desk.settle("20", cost(4)), desk.settle("last", cost(1))]).unwrap();
    desk.agrees(&store, &policy);
    let audit = whole(&path);
    assert_eq!((audit.counts.archived, audit.counts.grants), (more.through, 1));
}

#[test]
fn rows_before_an_instant_go_and_no_later_ones() {
    let (folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    for n in 0..10 {
        let id = format!("{n}");
        store
            .write(&[desk.hold(&id, true, super::path("t", "ann"), cost(10)), desk.settle(&id, cost(4))])
            .unwrap();
        desk.now += DAY;
    }
    let archived = store.archive(START + 2 * DAY, folder.path().join("old.jsonl")).unwrap();
    assert_eq!(archived, Archived { rows: 5, through: 5 });
    desk.agrees(&store, &policy);
    whole(&path);
}

#[test]
fn an_archive_goes_to_no_file_of_the_store_and_to_nothing_else_than_an_archive() {
    let (folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    store
        .write(&[desk.hold("a", true, super::path("t", "ann"), cost(10)), desk.settle("a", cost(4))])
        .unwrap();
    desk.now += 3 * DAY;
    store.write(&[desk.hold("b", true, super::path("t", "ann"), cost(10))]).unwrap();
    std::fs::write(folder.path().join("letter.txt"), "Dear").unwrap();
    std::fs::hard_link(&path, folder.path().join("linked.jsonl")).unwrap();
    for name in [
        "linked.jsonl",
        "budgets.db",
        "budgets.db-wal",
        "budgets.db-shm",
        "budgets.db.lock",
        "letter.txt",
        "",
        "no/where",
    ] {
        let error = store.archive(u64::MAX, folder.path().join(name)).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }
    assert_eq!(std::fs::read(folder.path().join("letter.txt")).unwrap(), b"Dear");
    desk.agrees(&store, &policy);
    whole(&path);
    // A line that a killed archive tore is cut off, and whole ones stay.
    let to = folder.path().join("old.jsonl");
    std::fs::write(&to, "{\"seq\":0}\n{\"seq\":1,\"a").unwrap();
    let archived = store.archive(u64::MAX, &to).unwrap();
    assert_eq!(lines(&to).len() as u64, archived.rows + 1);
    let seqs: BTreeSet<_> = lines(&to).iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [0, 1, 2, 3].into());
}

#[test]
fn an_archive_that_fails_leaves_the_file_as_it_was() {
    let (folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    store
        .write(&[desk.hold("a", true, super::path("t", "ann"), cost(10)), desk.settle("a", cost(4))])
        .unwrap();
    desk.now += 3 * DAY;
    store.write(&[desk.hold("b", true, super::path("t", "ann"), cost(10))]).unwrap();
    store.writer().connection.pragma_update(None, "query_only", true).unwrap();
    store.archive(u64::MAX, folder.path().join("old.jsonl")).unwrap_err();
    store.writer().connection.pragma_update(None, "query_only", false).unwrap();
    desk.agrees(&store, &policy);
    assert_eq!(store.archive(u64::MAX, folder.path().join("old.jsonl")).unwrap().rows, 3);
    desk.agrees(&store, &policy);
}
