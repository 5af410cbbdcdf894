//! Files that were torn or altered: refused by name, or what they were.

use super::*;
use crate::spend::store::Opened;
use std::collections::BTreeMap;

/// Everything that a store loads.
#[derive(Debug, PartialEq)]
struct Loaded {
    opened: Opened,
    policy: Option<SpendPolicy>,
    books: Vec<AccountBooks>,
    usage: Vec<UsageRow>,
    holds: Vec<Option<HoldState>>,
    grants: Vec<Option<Grant>>,
    ledger: Vec<LedgerRow>,
}

fn load(path: &Path, policy: &SpendPolicy, now: Millis, desk: &Desk) -> Result<Loaded, StoreError> {
    let store = SqliteStore::at(path)?;
    let opened = store.open(policy, now)?;
    let reader = SqliteReader::open(path)?;
    let holds = desk.holds.keys().map(|id| store.hold(id)).collect::<Result<_, _>>()?;
    let grants = ["child", "other"].map(|id| store.grant(id)).into_iter().collect::<Result<_, _>>()?;
    Ok(Loaded {
        opened,
        policy: reader.policy()?,
        books: store.books()?,
        usage: reader.usage()?,
        holds,
        grants,
        ledger: reader.ledger().collect::<Result<_, _>>()?,
    })
}

/// A store with something in every table, folded into one file.
fn full(path: &Path, policy: &SpendPolicy) -> Desk {
    let mut desk = Desk::new();
    let store = opened(path, policy);
    store.delegate(&Grant { id: "child".into(), parent: "root".into(), ceiling: Some(7) }).unwrap();
    for n in 0..8 {
        let id = format!("early {n}");
        store
            .write(&[desk.hold(&id, true, super::path("t", "ann"), cost(9)), desk.settle(&id, cost(4))])
            .unwrap();
    }
    desk.now += DAY / 2 + DAY / 3;
    for n in 0..6 {
        let id = format!("late {n}");
        store.write(&[desk.hold(&id, true, super::path("t", ["bob", "ann"][n % 2]), cost(9))]).unwrap();
        desk.now += 1000;
    }
    store.archive(u64::MAX, path.with_file_name("old.jsonl")).unwrap();
    store.delegate(&Grant { id: "other".into(), parent: "root".into(), ceiling: None }).unwrap();
    store
        .write(&[desk.settle("late 0", cost(99)), desk.charge("late 1", cost(2)), desk.expire("late 2")])
        .unwrap();
    desk
}

#[test]
fn a_byte_changed_anywhere_in_the_file_is_found_or_makes_no_difference() {
    let (folder, path) = place();
    let policy = usual();
    let desk = full(&path, &policy);
    whole(&path);
    let original = std::fs::read(&path).unwrap();
    let copy = folder.path().join("copy.db");
    let fresh = |bytes: &[u8]| {
        ["-wal", "-shm"].iter().for_each(|suffix| drop(std::fs::remove_file(beside(&copy, suffix))));
        std::fs::write(&copy, bytes).unwrap();
    };
    fresh(&original);
    let expected = load(&copy, &policy, desk.now, &desk).unwrap();
    assert!(expected.ledger.len() < 12 && expected.holds.iter().all(Option::is_some));
    let (mut refused, mut names) = (0, BTreeMap::<String, u32>::new());
    // Every byte would take long: an odd stride meets all of their kinds.
    let stride = std::env::var("TOLLGATE_FLIP_STRIDE").map_or(61, |stride| stride.parse().unwrap());
    let places: Vec<usize> = (0..100).chain((100..original.len()).step_by(stride)).collect();
    for (count, &place) in places.iter().enumerate() {
        if original[place..].iter().take(stride).all(|&byte| byte == 0) && count % 8 != 0 {
            continue;
        }
        let mut bytes = original.clone();
        bytes[place] ^= 1 << (count % 8);
        fresh(&bytes);
        match load(&copy, &policy, desk.now, &desk) {
            Ok(loaded) => assert_eq!(loaded, expected, "byte {place}"),
            Err(error) => {
                refused += 1;
                let named = matches!(
                    error,
                    StoreError::Corrupt { .. }
                        | StoreError::Schema { .. }
                        | StoreError::Io { .. }
                        | StoreError::Unit { .. }
                );
                assert!(named, "byte {place}: {error:?}");
                *names.entry(format!("{error:?}").split(' ').next().unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    assert!(refused > 20, "{refused} of {} were refused: {names:?}", places.len());
}

#[test]
fn a_row_changed_by_hand_is_named_with_what_it_should_say() {
    let (folder, path) = place();
    let policy = usual();
    let desk = full(&path, &policy);
    let copy = folder.path().join("copy.db");
    for (change, check, text) in [
        ("UPDATE usage SET used = used + 1 WHERE rowid_ = 1", None, ""),
        ("UPDATE usage SET used = 5 WHERE key = 'bob'", Some(Check::Usage), "user/cost/rolling 1h \"bob\" slot"),
        ("DELETE FROM usage WHERE key = 'bob'", Some(Check::Usage), "found no row"),
        ("UPDATE account SET cost_settled = 1 WHERE key = 'bob'", Some(Check::Account), "user \"bob\" cost settled"),
        ("DELETE FROM account WHERE key = 'bob'", Some(Check::Account), "expected books, found no row"),
        ("INSERT INTO account SELECT scope, 'eve', cost_reserved, cost_overrun, cost_settled, cost_released,
            cost_expired, tokens_reserved, tokens_overrun, tokens_settled, tokens_released, tokens_expired,
            calls_reserved, calls_overrun, calls_settled, calls_released, calls_expired, seconds_reserved,
            seconds_overrun, seconds_settled, seconds_released, seconds_expired, runs_reserved, runs_overrun,
            runs_settled, runs_released, runs_expired FROM account WHERE key = 'bob'", Some(Check::Account), "\"eve\""),
        ("DELETE FROM hold WHERE id = 'late 1'", Some(Check::Hold), "\"late 1\": expected the hold of row"),
        ("DELETE FROM hold WHERE id = 'late 0'", Some(Check::Hold), "\"late 0\": expected the hold of row"),
        ("UPDATE hold SET phase = 'settled' WHERE id = 'late 1'", Some(Check::Hold), "expected open, found settled"),
        ("UPDATE hold SET deadline = 0 WHERE id = 'late 1'", Some(Check::Hold), "\"late 1\" deadline"),
        ("UPDATE hold SET state = replace(state, 'input', 'Input') WHERE id = 'late 1'", Some(Check::Hold), "late 1"),
        ("UPDATE hold SET state = replace(state, 'input of', 'Input of') WHERE id = 'early 1'", Some(Check::Hold), "sum"),
        ("UPDATE base SET through = through - 1", Some(Check::Base), "table base, digest"),
        ("UPDATE base_account SET cost_reserved = 0", Some(Check::Base), "table base, digest"),
        ("DELETE FROM base_grant", Some(Check::Base), "table base, digest"),
        ("DELETE FROM grants WHERE id = 'other'", Some(Check::Grant), "\"other\""),
        ("UPDATE grants SET state = '{}' WHERE id = 'child'", Some(Check::Grant), "\"child\""),
        ("UPDATE meta SET value = 'EUR/6' WHERE key = 'unit'", Some(Check::Policy), "expected USD/6, found EUR/6"),
        ("UPDATE meta SET value = replace(value, '1000000', '2000000') WHERE key = 'policy'", Some(Check::Policy), "meta"),
        ("DROP TRIGGER ledger_keeps; UPDATE ledger SET at = at + 1 WHERE seq = 20", Some(Check::Schema), "ledger_keeps"),
        ("DROP INDEX hold_open", Some(Check::Schema), "hold_open"),
        ("CREATE TABLE mine (x)", Some(Check::Schema), "mine: expected nothing"),
    ] {
        std::fs::copy(&path, &copy).unwrap();
        let by_hand = Connection::open(&copy).unwrap();
        let changed = by_hand.execute_batch(change);
        drop(by_hand);
        let Some(check) = check else { continue };
        changed.unwrap();
        let audit = audit(&copy).unwrap();
        let found: Vec<String> = audit.findings.iter().map(ToString::to_string).collect();
        let named = audit.findings.iter().zip(&found).any(|(f, said)| f.check == check && said.contains(text));
        assert!(named, "{change}: {found:#?}");
        let error = load(&copy, &policy, desk.now, &desk).unwrap_err();
        let first = StoreError::Corrupt { path: copy.canonicalize().unwrap().display().to_string(), what: found[0].clone() };
        assert_eq!(error, first, "{change}");
    }
}

#[test]
fn a_row_of_the_ledger_that_was_changed_removed_or_put_in_breaks_the_chain() {
    let (folder, path) = place();
    let policy = usual();
    let desk = full(&path, &policy);
    let copy = folder.path().join("copy.db");
    for change in [
        "UPDATE ledger SET at = at + 1 WHERE seq = 20",
        "UPDATE ledger SET body = replace(body, 'cost', 'calls') WHERE seq = 20",
        "UPDATE ledger SET kind = 'charge' WHERE seq = 20",
        "UPDATE ledger SET hold = hold || ' ' WHERE seq = 20",
        "UPDATE ledger SET chain = zeroblob(32) WHERE seq = 20",
        "UPDATE ledger SET chain = x'00' WHERE seq = 20",
        "DELETE FROM ledger WHERE seq = 20",
        "UPDATE ledger SET seq = 99 WHERE seq = 20",
        "INSERT INTO ledger SELECT 99, at, kind, body, hold, chain FROM ledger WHERE seq = 20",
    ] {
        std::fs::copy(&path, &copy).unwrap();
        let by_hand = Connection::open(&copy).unwrap();
        let triggers: Vec<String> = {
            let mut select = by_hand.prepare("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").unwrap();
            select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        by_hand.execute_batch("DROP TRIGGER ledger_keeps; DROP TRIGGER ledger_stays").unwrap();
        by_hand.execute_batch(change).unwrap();
        triggers.iter().for_each(|sql| by_hand.execute_batch(sql).unwrap());
        drop(by_hand);
        let error = load(&copy, &policy, desk.now, &desk).unwrap_err();
        assert!(error.to_string().contains("table ledger, row"), "{change}: {error}");
    }
}

#[test]
fn a_log_that_is_cut_or_damaged_is_a_store_as_it_was_earlier() {
    let (folder, path) = place();
    let policy = usual();
    let store = opened(&path, &policy);
    let mut desk = Desk::new();
    let mut history = vec![desk.clone()];
    // What was there before is in the file and not in its log.
    store.writer().connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    for n in 0..12u32 {
        let batch = [desk.any(n.wrapping_mul(0x1234_5671)), desk.any((!n).wrapping_mul(0x0765_4321))];
        store.write(&batch).unwrap();
        history.push(desk.clone());
    }
    let copy = folder.path().join("copy.db");
    let check = |damage: &dyn Fn(&mut Vec<u8>)| {
        copied(&path, &copy);
        let log = beside(&copy, "-wal");
        let mut bytes = std::fs::read(&log).unwrap();
        damage(&mut bytes);
        std::fs::write(&log, bytes).unwrap();
        match load(&copy, &policy, desk.now, &desk) {
            Err(error) => {
                assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. }), "{error:?}")
            }
            Ok(loaded) => {
                let records = loaded.ledger.len() - 1;
                let was = history.iter().find(|was| was.records.len() == records).expect("half a batch");
                let store = SqliteStore::at(&copy).unwrap();
                store.open(&policy, desk.now).unwrap();
                let mut was = was.clone();
                was.now = was.now.max(START);
                was.agrees(&store, &policy);
            }
        }
        audit(&copy)
    };
    let length = std::fs::metadata(beside(&path, "-wal")).unwrap().len() as usize;
    assert!(length > 40_000);
    for part in 0..=40 {
        let _ = check(&|log| log.truncate(length * part / 40));
        let _ = check(&|log| {
            let place = (length * part / 41 + part * 7) % log.len();
            log[place] ^= 0x10;
        });
    }
}
