use super::*;
use crate::spend::books::Books;
use crate::spend::record::Move;

#[test]
fn what_was_written_is_answered_before_and_after_it_is_opened_again() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    store.write(&[desk.hold("a", true, super::path("t", "ann"), cost(100))]).unwrap();
    store
        .write(&[desk.hold("b", false, super::path("t", "bob"), cost(50)), desk.charge("a", cost(30))])
        .unwrap();
    desk.now += HOUR / 2;
    store.write(&[desk.settle("a", cost(200)), desk.extend("b", cost(5)), desk.deny("c")]).unwrap();
    desk.agrees(&store, &policy);
    drop(store);
    let store = SqliteStore::at(&path).unwrap();
    assert_eq!(store.kept_policy().unwrap().as_ref(), Some(&policy));
    let again = store.open(&policy, desk.now).unwrap();
    assert_eq!(again, Opened { holds: desk.open(), next_generation: 4, latest: desk.now });
    desk.agrees(&store, &policy);
    whole(&path);
}

#[test]
fn a_hold_without_a_name_is_forgotten_when_it_is_over_and_one_with_a_name_is_remembered_for_a_while() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    for (id, named) in [("named", true), ("unnamed", false), ("expired", false)] {
        store.write(&[desk.hold(id, named, super::path("t", "ann"), cost(1))]).unwrap();
    }
    store.write(&[desk.settle("named", cost(1)), desk.release("unnamed"), desk.expire("expired")]).unwrap();
    assert_eq!(store.hold("unnamed").unwrap(), None);
    assert_eq!(store.hold("named").unwrap().as_ref(), desk.holds.get("named"));
    assert_eq!(store.hold("expired").unwrap().as_ref(), desk.holds.get("expired"));
    desk.now += DAY - 1;
    store.write(&[desk.hold("other", true, super::path("t", "ann"), cost(1))]).unwrap();
    assert!(store.hold("named").unwrap().is_some());
    desk.now += 1;
    store.write(&[desk.settle("other", cost(1))]).unwrap();
    assert_eq!(store.hold("named").unwrap(), None);
    assert_eq!(store.hold("expired").unwrap(), None);
    desk.agrees(&store, &policy);
    whole(&path);
}

#[test]
fn sums_that_do_not_fit_are_an_error_and_change_nothing() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    let whole_number = |desk: &mut Desk, id: &str, amount: i128| {
        let mut record = desk.hold(id, true, super::path("t", "ann"), Quantities::NONE);
        let mut books = Books::default();
        books.entry_mut(Dimension::Cost).reserved = amount;
        record.moves = vec![Move { at: desk.now, books }];
        record
    };
    store.write(&[whole_number(&mut desk, "a", i128::MAX - 1)]).unwrap();
    let before = store.books().unwrap();
    for amounts in [&[2][..], &[i128::MAX], &[1, 1], &[i128::MAX, i128::MAX]] {
        let records: Vec<_> = amounts.iter().map(|&amount| whole_number(&mut desk, "b", amount)).collect();
        let error = store.write(&records).unwrap_err();
        assert!(error.to_string().contains("more than can be counted"), "{error}");
        assert_eq!(store.books().unwrap(), before);
        assert_eq!(store.hold("b").unwrap(), None);
    }
    let error = store.write(&[whole_number(&mut desk, "b", -i128::MAX)]).unwrap_err();
    assert!(error.to_string().contains("more than was used"), "{error}");
    let mut late = whole_number(&mut desk, "b", 1);
    late.at = u64::MAX;
    store.write(&[late]).unwrap_err();
    store.write(&[whole_number(&mut desk, "b", 1)]).unwrap();
}

#[test]
fn sums_of_more_than_64_bits_are_kept_archived_and_checked() {
    let (folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    let most = Quantities::only(Dimension::Cost, 1 << 62);
    let round = |desk: &mut Desk, ids: std::ops::Range<u32>| {
        for n in ids {
            let id = n.to_string();
            let records = [desk.hold(&id, true, super::path("t", "ann"), most), desk.settle(&id, most)];
            store.write(&records).unwrap();
        }
    };
    round(&mut desk, 0..5);
    desk.now += 40 * DAY;
    round(&mut desk, 5..10);
    assert_eq!(store.archive(desk.now, folder.path().join("archive")).unwrap().rows, 11);
    let books = store.books().unwrap();
    assert_eq!(books[0].books.entry(Dimension::Cost).used(), 10 << 62);
    let usage = store.usage("tenant", "t", desk.now).unwrap();
    assert!(usage.iter().any(|usage| usage.limit == 0 && usage.used == u64::MAX), "{usage:?}");
    whole(&path);
    drop(store);
    let store = opened(&path, &policy);
    assert_eq!(store.books().unwrap(), books);
    drop(store);
    // A digit of such a sum is seen as any other alteration is.
    let by_hand = Connection::open(&path).unwrap();
    let altered =
        by_hand.execute("UPDATE account SET cost_settled = '46116860184273879041' WHERE scope = 'user'", []);
    assert_eq!(altered.unwrap(), 1);
    drop(by_hand);
    assert_eq!(audit(&path).unwrap().findings.len(), 1);
}

#[test]
fn a_full_disk_is_an_error_and_with_space_the_store_works_on() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    let cap = |pages: u32| {
        let writer = store.writer();
        writer.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    };
    cap(40);
    let mut written = desk.clone();
    let error = loop {
        let batch: Vec<_> = (0..20)
            .map(|n| {
                desk.hold(&format!("{}.{n}", desk.records.len()), true, super::path("t", "ann"), cost(1))
            })
            .collect();
        match store.write(&batch) {
            Ok(()) => written = desk.clone(),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, StoreError::Io { cause, .. } if cause.contains("full")), "{error}");
    written.agrees(&store, &policy);
    whole(&path);
    cap(100_000);
    store.write(&[written.hold("more", true, super::path("t", "ann"), cost(1))]).unwrap();
    written.agrees(&store, &policy);
    drop(store);
    written.agrees(&opened(&path, &policy), &policy);
}

#[test]
fn a_store_that_can_only_be_read_says_so_and_writes_again_when_it_can() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    let only_read = |on: bool| store.writer().connection.pragma_update(None, "query_only", on).unwrap();
    let batch = [desk.hold("a", true, super::path("t", "ann"), cost(1))];
    only_read(true);
    let error = store.write(&batch).unwrap_err();
    assert!(matches!(&error, StoreError::Io { cause, .. } if cause.contains("readonly")), "{error}");
    assert!(store.books().unwrap().is_empty());
    only_read(false);
    store.write(&batch).unwrap();
    desk.agrees(&store, &policy);
}

#[test]
fn a_second_writer_is_told_who_the_first_is_and_a_reader_is_let_in() {
    let (_folder, path) = place();
    let store = opened(&path, &usual());
    let error = SqliteStore::at(&path).unwrap_err();
    assert_eq!(
        error,
        StoreError::InUse {
            path: path.canonicalize().unwrap().display().to_string(),
            holder: Some(std::process::id())
        }
    );
    #[cfg(unix)]
    {
        let link = path.with_file_name("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(SqliteStore::at(&link), Err(StoreError::InUse { .. })));
    }
    SqliteReader::open(&path).unwrap();
    drop(store);
    SqliteStore::at(&path).unwrap();
}

#[test]
fn a_reader_reads_beside_a_writer_and_without_one_and_changes_nothing() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    let reader = SqliteReader::open(&path).unwrap();
    let mut repaired = desk.hold("a", true, super::path("t", "ann"), cost(10));
    repaired.note = "ann: counted twice".into();
    store.write(&[repaired.clone(), desk.deny("b")]).unwrap();
    let check = |reader: &SqliteReader| {
        assert_eq!(reader.policy().unwrap().as_ref(), Some(&policy));
        assert_eq!(reader.open_holds().unwrap(), desk.open());
        assert_eq!(reader.hold("b").unwrap().as_ref(), desk.holds.get("b"));
        assert_eq!(reader.notes().unwrap(), [(2, repaired.clone())]);
        let rows: Vec<_> = reader.ledger().map(Result::unwrap).collect();
        assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(rows[0].entry, LedgerEntry::Configured(policy.clone()));
        let names: Vec<_> = reader.books().unwrap().into_iter().map(|b| (b.scope, b.key)).collect();
        assert_eq!(names, [("tenant".into(), "t".into()), ("user".into(), "ann".to_owned())]);
        let usage = reader.usage().unwrap();
        let cost = UsageRow {
            scope: "tenant".into(),
            key: "t".into(),
            limit: "tenant/cost/lifetime".into(),
            slot: 0,
            used: 10,
        };
        assert_eq!(usage[0], cost);
        assert_eq!(usage.len(), 5);
    };
    check(&reader);
    drop(store);
    check(&reader);
    drop(reader);
    let before = std::fs::read(&path).unwrap();
    check(&SqliteReader::open(&path).unwrap());
    whole(&path);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A log that a killed writer left is read too.
    let store = opened(&path, &policy);
    store.write(&[desk.hold("c", true, super::path("t", "ann"), cost(10))]).unwrap();
    let copy = path.with_file_name("copy.db");
    copied(&path, &copy);
    assert_eq!(SqliteReader::open(&copy).unwrap().open_holds().unwrap(), desk.open());
}

#[test]
fn what_is_no_store_is_refused_by_name_and_left_alone() {
    let (folder, path) = place();
    let at = |name: &str| folder.path().join(name);
    let missing = SqliteStore::at(at("nowhere/budgets.db")).unwrap_err();
    assert!(matches!(missing, StoreError::Io { .. }), "{missing}");
    let directory = SqliteStore::at(folder.path()).unwrap_err();
    assert!(matches!(directory, StoreError::Io { .. }), "{directory}");
    assert!(matches!(SqliteStore::at(""), Err(StoreError::Io { .. })));
    #[cfg(unix)]
    if std::process::Command::new("mkfifo").arg(at("pipe")).status().is_ok_and(|made| made.success()) {
        assert!(matches!(SqliteStore::at(at("pipe")), Err(StoreError::Io { .. })));
        assert!(matches!(audit(at("pipe")), Err(StoreError::Io { .. })));
    }
    #[cfg(target_os = "linux")]
    assert!(matches!(SqliteStore::at("/proc/version"), Err(StoreError::Io { .. })));
    for name in ["missing.db", ""] {
        assert!(matches!(SqliteReader::open(at(name)), Err(StoreError::Io { .. })));
    }
    std::fs::write(at("text"), "not a database, but long enough to be looked at by SQLite ".repeat(40))
        .unwrap();
    let text = std::fs::read(at("text")).unwrap();
    assert!(matches!(SqliteStore::at(at("text")), Err(StoreError::Corrupt { .. })));
    assert!(matches!(SqliteReader::open(at("text")), Err(StoreError::Corrupt { .. })));
    assert_eq!(std::fs::read(at("text")).unwrap(), text);

    let other = Connection::open(at("other.db")).unwrap();
    other.execute_batch("PRAGMA application_id = 7; CREATE TABLE mine (x)").unwrap();
    drop(other);
    let before = std::fs::read(at("other.db")).unwrap();
    let error = SqliteStore::at(at("other.db")).unwrap_err();
    assert!(error.to_string().contains("another application"), "{error}");
    assert_eq!(std::fs::read(at("other.db")).unwrap(), before);

    drop(opened(&path, &usual()));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let later = SqliteStore::at(&path).unwrap_err();
    assert!(matches!(later, StoreError::Schema { found: 9, known: schema::VERSION, .. }), "{later}");
    assert!(matches!(SqliteReader::open(&path), Err(StoreError::Schema { .. })));
    std::fs::write(at("empty.db"), "").unwrap();
    assert!(matches!(SqliteReader::open(at("empty.db")), Err(StoreError::Corrupt { .. })));
    opened(&at("empty.db"), &usual());
}

#[test]
fn names_that_mean_something_to_sqlite_are_files_like_others() {
    let folder = tempfile::tempdir().unwrap();
    for name in [":memory:", "file:x?mode=memory", "a b%20ü?.db"] {
        let path = folder.path().join(name);
        drop(opened(&path, &usual()));
        assert!(path.is_file(), "{name}");
        assert!(SqliteReader::open(&path).unwrap().policy().unwrap().is_some());
    }
}

#[test]
fn nothing_is_written_before_it_is_opened() {
    let (_folder, path) = place();
    let store = SqliteStore::at(&path).unwrap();
    let record = Desk::new().hold("a", true, super::path("t", "ann"), cost(1));
    store.write(&[record]).unwrap_err();
    assert_eq!(store.kept_policy().unwrap(), None);
    store.books().unwrap_err();
    whole(&path);
}

#[test]
fn rows_of_the_ledger_are_neither_changed_nor_removed_by_hand() {
    let (_folder, path) = place();
    let store = opened(&path, &usual());
    let by_hand = Connection::open(&path).unwrap();
    by_hand.execute("UPDATE ledger SET at = 0", []).unwrap_err();
    by_hand.execute("DELETE FROM ledger", []).unwrap_err();
    drop(store);
}

#[test]
fn a_grant_that_is_delegated_stays_as_it_was_first() {
    let (_folder, path) = place();
    let store = opened(&path, &usual());
    let grant = |ceiling| Grant { id: "child".into(), parent: "root".into(), ceiling };
    store.delegate(&grant(Some(5))).unwrap();
    store.delegate(&grant(Some(9))).unwrap();
    assert_eq!(store.grant("child").unwrap(), Some(grant(Some(5))));
    assert_eq!(store.grant("root").unwrap(), None);
    drop(store);
    let store = opened(&path, &usual());
    assert_eq!(store.grant("child").unwrap(), Some(grant(Some(5))));
    assert_eq!(whole(&path).counts.grants, 1);
}

#[test]
fn readers_do_not_wait_for_a_writer() {
    let (_folder, path) = place();
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    store.write(&[desk.hold("a", true, super::path("t", "ann"), cost(1))]).unwrap();
    let writer = store.writer();
    writer.connection.execute_batch("BEGIN IMMEDIATE; DELETE FROM hold;").unwrap();
    assert_eq!(store.open_holds().unwrap(), desk.open());
    whole(&path);
    writer.connection.execute_batch("ROLLBACK").unwrap();
}
