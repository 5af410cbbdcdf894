use super::*;
use Dimension::*;

#[test]
fn another_unit_is_refused() {
    let (_folder, path) = place();
    let store = opened(&path, &usual());
    let mut other = usual();
    other = other.unit("EUR", 6);
    store.close();
    let error = store.open(&other, START).unwrap_err();
    assert_eq!(error, StoreError::Unit { kept: "USD/6".into(), asked: "EUR/6".into() });
    assert_eq!(store.kept_policy().unwrap(), Some(usual()));
}

#[test]
fn limits_that_stay_keep_their_use_and_new_ones_are_added_up_from_the_ledger() {
    let (_folder, path) = place();
    let (mut desk, first) = (Desk::new(), usual());
    let store = opened(&path, &first);
    for n in 0..20 {
        desk.now += HOUR / 7;
        let id = format!("{n}");
        store.write(&[desk.hold(&id, true, super::path("t", "ann"), cost(10 + n))]).unwrap();
        if n % 3 == 0 {
            store.write(&[desk.settle(&id, cost(3))]).unwrap();
        }
    }
    let second = policy(vec![
        scope(
            "user",
            &[(Cost, fixed(HOUR)), (Cost, rolling(HOUR)), (Calls, Window::Lifetime), (Cost, rolling(DAY))],
        ),
        scope("project", &[(Cost, Window::Lifetime)]),
    ]);
    store.close();
    store.open(&second, desk.now).unwrap();
    desk.agrees(&store, &second);
    assert!(store.usage("tenant", "t", desk.now).unwrap().is_empty());
    drop(store);
    let store = opened(&path, &second);
    desk.agrees(&store, &second);
    store.close();
    store.open(&first, desk.now).unwrap();
    desk.agrees(&store, &first);
    let rows: Vec<_> = SqliteReader::open(&path).unwrap().ledger().map(Result::unwrap).collect();
    let configured = rows.iter().filter(|row| matches!(row.entry, LedgerEntry::Configured(_))).count();
    assert_eq!(configured, 3);
    whole(&path);
}

#[test]
fn a_limit_that_a_scope_has_twice_is_counted_once() {
    let (_folder, path) = place();
    let mut desk = Desk::new();
    let twice = policy(vec![scope("user", &[(Cost, Window::Lifetime), (Cost, Window::Lifetime)])]);
    let store = opened(&path, &twice);
    store.write(&[desk.hold("a", true, super::path("t", "ann"), cost(7))]).unwrap();
    desk.agrees(&store, &twice);
    whole(&path);
}

#[test]
fn a_window_that_reaches_into_what_was_archived_is_refused_and_a_lifetime_is_not() {
    let (folder, path) = place();
    let (mut desk, first) = (Desk::new(), usual());
    let store = opened(&path, &first);
    for n in 0..10 {
        let id = format!("{n}");
        store
            .write(&[desk.hold(&id, true, super::path("t", "ann"), cost(10)), desk.settle(&id, cost(4))])
            .unwrap();
        desk.now += HOUR;
    }
    desk.now += 3 * DAY;
    store.write(&[desk.hold("last", true, super::path("t", "ann"), cost(10))]).unwrap();
    store.archive(desk.now, folder.path().join("old.jsonl")).unwrap();
    desk.agrees(&store, &first);

    let longer = policy(vec![scope("user", &[(Cost, rolling(10 * DAY))])]);
    store.close();
    let error = store.open(&longer, desk.now).unwrap_err();
    assert!(
        matches!(&error, StoreError::NoHistory { limit, .. } if limit == "user/cost/rolling 10d"),
        "{error}"
    );
    assert_eq!(store.kept_policy().unwrap(), Some(first.clone()));
    desk.agrees(&store, &first);

    let shorter = policy(vec![scope("user", &[(Cost, rolling(2 * DAY)), (Cost, Window::Lifetime)])]);
    store.close();
    store.open(&shorter, desk.now).unwrap();
    desk.agrees(&store, &shorter);
    // Once the window has moved past what was archived, it can be added up.
    desk.now += 11 * DAY;
    store.close();
    store.open(&longer, desk.now).unwrap();
    desk.agrees(&store, &longer);
    whole(&path);
}

#[test]
fn amounts_can_be_redefined_while_it_is_open_and_limits_cannot() {
    let (_folder, path) = place();
    let (mut desk, first) = (Desk::new(), usual());
    let store = opened(&path, &first);
    store.write(&[desk.hold("a", true, super::path("t", "ann"), cost(7))]).unwrap();
    let mut second = first.clone();
    second.scopes[0].limits[0].amount = 5;
    second.scopes.reverse();
    store.redefine(&second, desk.now).unwrap();
    desk.agrees(&store, &second);
    store.write(&[desk.settle("a", cost(3))]).unwrap();
    desk.agrees(&store, &second);
    assert_eq!(store.kept_policy().unwrap().as_ref(), Some(&second));
    let changes: [fn(&mut SpendPolicy); 3] = [
        |policy: &mut SpendPolicy| drop(policy.scopes[0].limits.pop()),
        |policy| policy.scopes[0].limits[0].window = fixed(7_000),
        |policy| policy.unit = crate::spend::MoneyUnit::new("EUR", 6),
    ];
    for change in changes {
        let mut third = second.clone();
        change(&mut third);
        store.redefine(&third, desk.now).unwrap_err();
    }
    drop(store);
    let store = SqliteStore::at(&path).unwrap();
    store.redefine(&first, desk.now).unwrap_err();
    store.close();
    store.open(&second, desk.now).unwrap();
    desk.agrees(&store, &second);
    whole(&path);
}
