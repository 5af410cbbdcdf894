use super::*;
use Dimension::*;
use proptest::prelude::*;

/// Policies with some limits in common.
fn policies() -> [SpendPolicy; 3] {
    [
        usual(),
        policy(vec![
            scope("user", &[(Cost, rolling(HOUR)), (Cost, Window::Lifetime), (Calls, fixed(HOUR))]),
            scope("tenant", &[(Tokens, rolling(HOUR / 2)), (Calls, rolling(HOUR))]),
        ]),
        policy(vec![scope("tenant", &[(Cost, Window::Lifetime), (Cost, fixed(DAY / 4))])]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_answers_as_its_records_say_whatever_happens_in_between(
        steps in prop::collection::vec((any::<u32>(), 0u8..24, 1usize..6), 1..60)
    ) {
        let (folder, path) = place();
        let to = folder.path().join("old.jsonl");
        let (mut desk, policies) = (Desk::new(), policies());
        let mut policy = policies[0].clone();
        let mut store = Some(opened(&path, &policy));
        for (dice, what, size) in steps {
            let open = store.as_ref().unwrap();
            match what {
                0 | 1 => {
                    drop(store.take());
                    let again = SqliteStore::at(&path).unwrap();
                    let found = again.open(&policy, desk.now).unwrap();
                    prop_assert_eq!(found.holds, desk.open());
                    store = Some(again);
                }
                2 => {
                    let other = &policies[dice as usize % policies.len()];
                    open.close();
                    match open.open(other, desk.now) {
                        Ok(_) => policy = other.clone(),
                        Err(StoreError::NoHistory { .. }) => {}
                        Err(error) => return Err(TestCaseError::fail(error.to_string())),
                    }
                }
                3 => drop(open.archive(desk.now - u64::from(dice % 7) * HOUR, &to).unwrap()),
                4 => desk.now += u64::from(dice % 5) * HOUR * 12,
                _ => {
                    let batch: Vec<_> =
                        (0..size).map(|n| desk.any(dice.rotate_left(7 * n as u32).wrapping_add(n as u32))).collect();
                    open.write(&batch).unwrap();
                }
            }
            desk.agrees(store.as_ref().unwrap(), &policy);
        }
        let audit = audit(&path).unwrap();
        prop_assert!(audit.findings.is_empty(), "{}", audit.findings[0]);
    }
}

/// A record of anything, as a broken engine may write it.
fn anything() -> impl Strategy<Value = Record> {
    let number = || {
        let edges = [0, 1, -1, i64::MAX.into(), i64::MIN.into(), i128::MAX, i128::MIN];
        prop_oneof![prop::sample::select(edges.to_vec()), any::<i128>()]
    };
    let time = || prop_oneof![Just(START), Just(0u64), Just(u64::MAX), any::<u64>()];
    let name = || {
        prop_oneof![Just("tenant".to_owned()), Just("user".into()), Just("family".into()), any::<String>()]
    };
    let amount = || prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()];
    let books = prop::collection::vec((0usize..5, number(), number(), number()), 0..3);
    let moves = prop::collection::vec((time(), books), 0..3);
    let path = prop::collection::vec((name(), name()), 0..3);
    (time(), time(), any::<String>(), any::<bool>(), amount(), moves, path, 0u32..6).prop_map(
        |(at, deadline, id, named, amount, moves, path, kind)| {
            let path: Vec<_> = path.into_iter().map(|(scope, key)| Account { scope, key }).collect();
            let mut desk = Desk::new();
            let mut record = desk.hold(&id, named, path, Quantities::only(Cost, amount.min(1 << 60)));
            record.moves = moves
                .into_iter()
                .map(|(at, entries)| {
                    let mut books = crate::spend::books::Books::default();
                    for (dimension, reserved, overrun, released) in entries {
                        let entry = books.entry_mut(crate::spend::amount::DIMENSIONS[dimension]);
                        (entry.reserved, entry.overrun, entry.released) = (reserved, overrun, released);
                    }
                    crate::spend::record::Move { at, books }
                })
                .collect();
            (record.at, record.hold.deadline, record.hold.generation) = (at, deadline, amount);
            if kind > 3 {
                record.hold.phase = crate::spend::record::Phase::Expired;
            }
            record
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_is_kept_whole_or_refused_whole(
        batches in prop::collection::vec(prop::collection::vec(anything(), 1..4), 1..6)
    ) {
        let (folder, path) = place();
        let store = opened(&path, &usual());
        for batch in &batches {
            let rows = whole_or_unbalanced(&path);
            let (before, holds) = (store.books().unwrap(), store.open_holds().unwrap());
            match store.write(batch) {
                Ok(()) => prop_assert_eq!(whole_or_unbalanced(&path), rows + batch.len() as u64),
                Err(_) => {
                    prop_assert_eq!(whole_or_unbalanced(&path), rows);
                    prop_assert_eq!((store.books().unwrap(), store.open_holds().unwrap()), (before, holds));
                }
            }
            for record in batch {
                store.usage("user", &record.hold.id, record.at).unwrap();
                store.hold(&record.hold.id).unwrap();
            }
        }
        let _ = store.archive(u64::MAX, folder.path().join("old.jsonl"));
        let _ = store.open(&usual(), u64::MAX);
        whole_or_unbalanced(&path);
    }
}

/// Rows of the ledger. What the records themselves say wrong is all that may be found.
fn whole_or_unbalanced(path: &Path) -> u64 {
    let audit = audit(path).unwrap();
    for finding in &audit.findings {
        assert!(matches!(finding.check, Check::Balance | Check::Generation | Check::Path), "{finding}");
    }
    audit.counts.rows + audit.counts.archived
}
