//! Stores that fail: nothing goes ahead that is not recorded, and nothing is lost.

use crate::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

#[test]
fn memory_and_store_agree_after_any_number_of_failed_writes() {
    for round in 0..20_usize {
        let clock = ManualWallClock::at(START);
        let kept = MemoryStore::new();
        let store = Fragile::new(kept.clone());
        let (down, count) = (Arc::clone(&store.down), AtomicUsize::new(round));
        let store = store.before_write(move |_| {
            let count = count.fetch_add(1, Ordering::Relaxed);
            down.store(count % 7 % 3 == 1, Ordering::SeqCst);
        });
        let policy = SpendPolicy::new()
            .scope(Scope::keyed("user").limit(Limit::cost(3_000, rolling(HOUR))))
            .scope(
                Scope::shared("all")
                    .limit(Limit::cost(9_000, Window::Lifetime))
                    .limit(Limit::concurrent_runs(9)),
            )
            .ttl(Duration::from_secs(60))
            .on_expiry(if round % 2 == 0 { OnExpiry::Spent } else { OnExpiry::Released });
        let spend = open_on(&store, policy.clone(), &clock);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (spend, clock) = (&spend, &clock);
                scope.spawn(move || {
                    for step in 0..200_usize {
                        clock.advance(700);
                        let dice = (step * 7 + thread * 13 + round * 5) % 60;
                        let mut call = Call::new().scope("user", format!("u{}", dice % 3));
                        if dice % 2 == 0 {
                            call = call.id(format!("{thread} {}", step / 3));
                        }
                        let amount = cost(1 + dice as i64).runs(1);
                        // Whatever fails is tried again, or left: it must come to the same for both.
                        let Ok(hold) = spend.hold(&call, &amount) else { continue };
                        let _ = hold.extend(&cost(dice as i64));
                        let _ = hold.charge(&cost(dice as i64 / 2));
                        match dice % 5 {
                            0 => drop(hold),
                            1 => drop(hold.detach()),
                            2 => drop(hold.release()),
                            _ => drop(hold.settle(&cost(dice as i64 * 2))),
                        }
                    }
                });
            }
        });
        store.set_down(false);
        balances(&kept);
        let status = |spend: &Spend| {
            let accounts = [("user", "u0"), ("user", "u1"), ("user", "u2"), ("all", "")];
            accounts.map(|(scope, key)| {
                let limits = spend.status(scope, key).unwrap();
                limits.into_iter().map(|limit| (limit.spent + limit.held, limit.held)).collect::<Vec<_>>()
            })
        };
        let open = spend.open_holds();
        let before = status(&spend);
        drop(spend);
        let spend = Spend::builder(policy).store(kept.clone()).clock(clock).open().unwrap();
        assert_eq!(status(&spend), before, "round {round}, {open} holds open");
        assert_eq!(spend.open_holds(), kept.open_holds().unwrap().len());
    }
}

/// Of this user nothing can be kept.
fn is_of_evil(record: &record::Record) -> bool {
    record.path.iter().any(|account| account.key == "evil")
}

#[test]
fn a_record_that_cannot_be_kept_fails_alone_in_its_batch() {
    let policy =
        SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::calls(1_000_000, Window::Lifetime)));
    let batches = Arc::new(AtomicUsize::new(0));
    let mixed = Arc::clone(&batches);
    // A device that is slow enough for callers to share writes.
    let slow =
        Fragile::new(MemoryStore::new()).before_write(|_| (0..30).for_each(|_| std::thread::yield_now()));
    let store = Fragile::new(slow).refusing_batches(move |records| {
        let evil = records.iter().filter(|record| is_of_evil(record)).count();
        mixed.fetch_add(usize::from(0 < evil && evil < records.len()), Ordering::SeqCst);
        evil > 0
    });
    let spend = open_on(&store, policy, &ManualWallClock::at(START));
    let hold = |user: &str| spend.hold(&Call::new().scope("user", user), &Amounts::new().calls(1));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    assert!(matches!(hold("evil"), Err(SpendError::Store(_))));
                }
            });
        }
        let mut calls = 0;
        while batches.load(Ordering::SeqCst) < 20 {
            let good = hold("good").and_then(|hold| hold.settle(&Amounts::new().calls(1)));
            over.store(good.is_err(), Ordering::SeqCst);
            good.unwrap();
            calls += 1;
        }
        over.store(true, Ordering::SeqCst);
        assert_eq!(used(&spend, "user", "good", 0), (calls, 0));
    });
    assert_eq!((used(&spend, "user", "evil", 0), spend.open_holds()), ((0, 0), 0));
}

#[test]
fn a_hold_that_cannot_expire_keeps_no_other_from_it() {
    let clock = ManualWallClock::at(START);
    let store = Fragile::new(MemoryStore::new())
        .refusing(|record| record.kind == record::Kind::Expire && is_of_evil(record));
    let policy = SpendPolicy::new()
        .scope(Scope::keyed("user").limit(Limit::cost(10, Window::Lifetime)))
        .ttl(Duration::from_secs(60))
        .on_expiry(OnExpiry::Released);
    let spend = open_on(&store, policy, &clock);
    for user in ["a", "evil", "b"] {
        let _ = spend.hold(&Call::new().scope("user", user), &cost(10)).unwrap().detach();
    }
    clock.advance(MINUTE);
    spend.expire_due();
    assert_eq!(spend.open_holds(), 1);
    for (user, held) in [("a", 0), ("evil", 10), ("b", 0)] {
        assert_eq!(used(&spend, "user", user, 0), (0, held), "{user}");
    }
}

#[test]
fn limits_that_are_set_at_once_are_all_kept() {
    let policy = || shared([Limit::cost(100, Window::Lifetime), Limit::calls(100, Window::Lifetime)]);
    let store = Fragile::new(MemoryStore::new());
    let spend = open_on(&store, policy(), &ManualWallClock::at(START));
    for round in 0..100 {
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for dimension in [Dimension::Cost, Dimension::Calls] {
                let (spend, start) = (&spend, &start);
                scope.spawn(move || {
                    start.wait();
                    spend.set_limit("all", dimension, &Window::Lifetime, round).unwrap();
                });
            }
        });
        let kept = store.policy.lock().unwrap().clone().unwrap();
        assert_eq!(kept, spend.policy(), "round {round}");
        assert!(kept.scopes()[0].limits().iter().all(|limit| limit.amount() == round), "round {round}");
    }
}

#[test]
fn two_callers_of_one_new_account_take_one_place() {
    // Reading is slow enough for both to be at it.
    let reading = Arc::new(std::sync::Barrier::new(2));
    let both = Arc::clone(&reading);
    let store = Fragile::new(MemoryStore::new()).before_read(move |_| {
        both.wait();
    });
    let spend = open_on(&store, money(100).account_cap(1), &ManualWallClock::at(START));
    std::thread::scope(|scope| {
        let both =
            [0, 1].map(|_| scope.spawn(|| spend.hold(&Call::new(), &cost(1)).map(|hold| hold.detach())));
        for thread in both {
            thread.join().unwrap().unwrap();
        }
    });
    assert_eq!((spend.accounts_in_memory(), used(&spend, "all", "", 0)), (1, (0, 2)));
}
