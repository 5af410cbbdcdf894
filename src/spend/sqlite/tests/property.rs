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
                    store = None;
                    let again = SqliteStore::at(&path).unwrap();
                    let found = again.open(&policy, desk.now).unwrap();
                    prop_assert_eq!(found.holds, desk.open());
                    store = Some(again);
                }
                2 => {
                    let other = &policies[dice as usize % policies.len()];
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
