//! Stores that fail: nothing goes ahead that is not recorded, and nothing is lost.

use crate::support::*;
use std::time::Duration;
use tollgate::spend::*;

#[test]
fn a_hold_that_cannot_be_recorded_is_refused_and_takes_nothing() {
    let store = Fragile::new(MemoryStore::new());
    let spend = open_on(&store, four_scopes(), &ManualWallClock::at(START));
    let call = Call::new().scope("run", "r").scope("user", "u").scope("team", "t");
    spend.hold(&call, &cost(1)).unwrap().release().unwrap();
    store.set_down(true);
    let error = spend.hold(&call, &cost(500_000).runs(1)).unwrap_err();
    assert!(matches!(error, SpendError::Store(_)), "{error}");
    assert!(error.to_string().contains("cannot be recorded"));
    store.set_down(false);
    assert_eq!(spend.open_holds(), 0);
    for (scope, key, limits) in [("run", "r", 4), ("user", "u", 2), ("team", "t", 1), ("global", "", 2)] {
        for limit in 0..limits {
            assert_eq!(used(&spend, scope, key, limit), (0, 0), "{scope} {limit}");
        }
    }
    spend.hold(&call, &cost(500_000).runs(1)).unwrap().release().unwrap();
    balances(&store);
}

#[test]
fn a_hold_under_an_id_that_could_not_be_recorded_can_be_asked_for_again() {
    let store = Fragile::new(MemoryStore::new());
    let spend = open_on(&store, money(100), &ManualWallClock::at(START));
    let call = Call::new().id("request-1");
    store.set_down(true);
    assert!(matches!(spend.hold(&call, &cost(100)), Err(SpendError::Store(_))));
    store.set_down(false);
    let hold = spend.hold(&call, &cost(100)).unwrap();
    assert!(!hold.is_replayed());
    store.set_down(true);
    assert!(matches!(hold.extend(&cost(0)), Err(SpendError::Store(_))));
    assert!(matches!(hold.charge(&cost(150)), Err(SpendError::Store(_))));
    assert!(matches!(hold.settle(&cost(150)), Err(SpendError::Store(_))));
    store.set_down(false);
    assert_eq!(used(&spend, "all", "", 0), (0, 100), "nothing of it happened");
    hold.settle(&cost(150)).unwrap();
    assert_eq!(used(&spend, "all", "", 0), (150, 0));
    balances(&store);
}

#[test]
fn a_dropped_hold_that_cannot_be_recorded_stays_until_it_expires() {
    let store = Fragile::new(MemoryStore::new());
    let clock = ManualWallClock::at(START);
    let spend =
        open_on(&store, money(100).ttl(Duration::from_secs(60)).on_expiry(OnExpiry::Released), &clock);
    let hold = spend.hold(&Call::new(), &cost(100)).unwrap();
    store.set_down(true);
    drop(hold);
    store.set_down(false);
    assert_eq!(used(&spend, "all", "", 0), (0, 100));
    clock.advance(60_000);
    store.set_down(true);
    spend.expire_due();
    store.set_down(false);
    assert_eq!(spend.open_holds(), 1);
    assert_eq!(used(&spend, "all", "", 0), (0, 0), "it is given back once that can be recorded");
    assert_eq!(spend.open_holds(), 0);
    balances(&store);
}

#[test]
fn a_limit_that_cannot_be_recorded_is_not_changed() {
    let store = Fragile::new(MemoryStore::new());
    let spend = open_on(&store, money(100), &ManualWallClock::at(START));
    store.set_down(true);
    assert!(spend.set_limit("all", Dimension::Cost, &Window::Lifetime, 200).is_err());
    store.set_down(false);
    assert_eq!(spend.status("all", "").unwrap()[0].limit, Some(100));
    assert!(
        spend.set_limit("all", Dimension::Tokens, &Window::Lifetime, 200).is_err(),
        "there is no such limit"
    );
    assert!(spend.set_limit("all", Dimension::Cost, &Window::Lifetime, u64::MAX).is_err());
}

#[test]
fn an_account_that_cannot_be_read_is_refused() {
    let store = Fragile::new(MemoryStore::new());
    let spend = open_on(&store, money(100), &ManualWallClock::at(START));
    store.set_down(true);
    assert!(matches!(spend.hold(&Call::new(), &cost(1)), Err(SpendError::Store(_))));
    store.set_down(false);
    spend.hold(&Call::new(), &cost(1)).unwrap().release().unwrap();
}

#[test]
fn a_memory_store_that_is_full_refuses_newcomers() {
    let policy = SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::cost(10, Window::Lifetime)));
    let spend = open_on(&MemoryStore::with_account_cap(2), policy, &ManualWallClock::at(START));
    let hold = |user: &str| spend.hold(&Call::new().scope("user", user), &cost(1));
    hold("a").unwrap().settle(&cost(1)).unwrap();
    hold("b").unwrap().settle(&cost(1)).unwrap();
    assert!(matches!(hold("c"), Err(SpendError::Store(StoreError::Full { what: "account", cap: 2 }))));
    hold("a").unwrap().settle(&cost(1)).unwrap();
}

#[test]
fn a_store_in_another_unit_is_not_opened() {
    let store = MemoryStore::new();
    open_on(&store, money(100), &ManualWallClock::at(START));
    let euros = money(100).unit("EUR", 6);
    let error = Spend::builder(euros).store(store.clone()).open().unwrap_err();
    assert!(matches!(error, OpenError::Store(StoreError::Unit { .. })), "{error}");
}

#[test]
fn a_changed_policy_keeps_what_was_spent() {
    let clock = ManualWallClock::at(START);
    let store = MemoryStore::new();
    let spend = open_on(&store, shared([Limit::cost(100, rolling(HOUR))]), &clock);
    spend.hold(&Call::new(), &cost(70)).unwrap().settle(&cost(70)).unwrap();
    drop(spend);
    let raised = shared([
        Limit::calls(5, Window::Lifetime),
        Limit::cost(50, rolling(HOUR)),
        Limit::cost(80, Window::Lifetime),
    ]);
    let spend = open_on(&store, raised, &clock);
    assert_eq!(used(&spend, "all", "", 0), (0, 0));
    assert_eq!(used(&spend, "all", "", 1), (70, 0));
    assert_eq!(used(&spend, "all", "", 2), (70, 0));
    refusal(spend.hold(&Call::new(), &cost(1)));
    drop(spend);
    let unknown = shared([Limit::cost(50, rolling(DAY))]);
    let error = Spend::builder(unknown).store(store.clone()).clock(clock).open().unwrap_err();
    assert!(matches!(error, OpenError::Store(StoreError::NoHistory { .. })), "{error}");
}
