//! Budgets that are opened again, under the same policy or another, while holds are open.

use crate::support::*;
use std::time::Duration;
use tollgate::spend::*;

fn user() -> Scope {
    Scope::keyed("user").limit(Limit::cost(10, Window::Lifetime))
}

fn all() -> Scope {
    Scope::shared("all").limit(Limit::cost(10, Window::Lifetime))
}

fn of(user: impl Into<String>) -> Call {
    Call::new().scope("user", user)
}

#[test]
fn open_holds_keep_their_accounts_under_a_lower_account_cap() {
    for place in Place::all() {
        let clock = ManualWallClock::at(START);
        let policy = || SpendPolicy::new().scope(user());
        let spend = place.open(policy(), &clock);
        let open: Vec<_> =
            (0..5).map(|n| spend.hold(&of(n.to_string()), &cost(1)).unwrap().detach()).collect();
        drop(spend);
        let spend = place.open(policy().account_cap(2), &clock);
        assert_eq!((spend.open_holds(), spend.accounts_in_memory()), (5, 5));
        assert!(matches!(
            spend.hold(&of("new"), &cost(1)),
            Err(SpendError::Full { what: "account", cap: 2 })
        ));
        for name in &open {
            spend.settle(name, &cost(1)).unwrap();
        }
        spend.hold(&of("new"), &cost(10)).unwrap().settle(&cost(10)).unwrap();
        assert!(spend.accounts_in_memory() <= 2, "who comes when there are too many takes one away");
        assert_eq!(used(&spend, "user", "3", 0), (1, 0));
    }
}

#[test]
fn open_holds_outlive_a_scope_that_is_dropped() {
    for place in Place::all() {
        let clock = ManualWallClock::at(START);
        let spend = place.open(SpendPolicy::new().scope(user()).scope(all()), &clock);
        let name = spend.hold(&of("u"), &cost(4)).unwrap().detach();
        drop(spend);
        let spend = place.open(SpendPolicy::new().scope(all()), &clock);
        assert_eq!(used(&spend, "all", "", 0), (0, 4));
        spend.settle(&name, &cost(3)).unwrap();
        assert_eq!(used(&spend, "all", "", 0), (3, 0));
        drop(spend);
        let spend = place.open(SpendPolicy::new().scope(user()).scope(all()), &clock);
        assert_eq!(used(&spend, "user", "u", 0), (3, 0), "its books went on");
    }
}

#[test]
fn a_hold_that_expired_is_settled_late_when_its_scope_is_gone() {
    for place in Place::all() {
        let clock = ManualWallClock::at(START);
        let policy = |policy: SpendPolicy| policy.ttl(Duration::from_secs(60)).on_expiry(OnExpiry::Spent);
        let spend = place.open(policy(SpendPolicy::new().scope(user()).scope(all())), &clock);
        let name = spend.hold(&of("u"), &cost(4)).unwrap().detach();
        clock.advance(MINUTE);
        spend.expire_due();
        drop(spend);
        let spend = place.open(policy(SpendPolicy::new().scope(all())), &clock);
        assert!(spend.settle(&name, &cost(1)).unwrap().late);
        assert_eq!(used(&spend, "all", "", 0), (1, 0));
    }
}

#[test]
fn a_late_settlement_is_remembered_from_when_it_was_made() {
    for place in Place::all() {
        let clock = ManualWallClock::at(START);
        let policy = money(100).ttl(Duration::from_secs(60)).answers_for(Duration::from_secs(3_600));
        let spend = place.open(policy, &clock);
        let call = Call::new().id("a");
        let name = spend.hold(&call, &cost(10)).unwrap().detach();
        clock.advance(MINUTE);
        spend.expire_due();
        clock.advance(59 * MINUTE);
        let settled = spend.settle(&name, &cost(7)).unwrap();
        clock.advance(59 * MINUTE);
        spend.hold(&Call::new(), &cost(1)).unwrap().release().unwrap();
        assert_eq!(spend.settle(&name, &cost(7)), Ok(settled));
        assert!(spend.hold(&call, &cost(10)).unwrap().is_replayed());
        clock.advance(2 * MINUTE);
        spend.hold(&Call::new(), &cost(1)).unwrap().release().unwrap();
        assert_eq!(spend.find("a"), Ok(None), "and no longer than it should be");
    }
}

#[test]
fn an_answer_is_forgotten_in_the_order_of_last_ends() {
    for place in Place::all() {
        let clock = ManualWallClock::at(START);
        let policy = money(1_000).ttl(Duration::from_secs(60)).answers_for(Duration::from_secs(3_600));
        let spend = place.open(policy, &clock);
        let tick = || spend.hold(&Call::new(), &cost(0)).unwrap().release().unwrap();
        let late = spend.hold(&Call::new().id("late"), &cost(10)).unwrap().detach();
        clock.advance(MINUTE);
        spend.expire_due();
        clock.advance(MINUTE);
        spend.settle(&late, &cost(7)).unwrap(); // at minute 2
        clock.advance(57 * MINUTE);
        spend.hold(&Call::new().id("other"), &cost(1)).unwrap().release().unwrap();
        clock.advance(2 * MINUTE); // its first end is an hour ago
        tick();
        assert!(spend.find("late").unwrap().is_some());
        clock.advance(2 * MINUTE); // and so is its second
        tick();
        assert_eq!((spend.find("late"), spend.find("other").unwrap().is_some()), (Ok(None), true));
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_window_that_is_added_counts_extensions_when_they_were_made() {
    let place = Place::File(tempfile::tempdir().unwrap());
    let clock = ManualWallClock::at(START);
    let life = || Limit::cost(1_000, Window::Lifetime);
    let policy = |policy: SpendPolicy| policy.ttl(Duration::from_secs(86_400));
    let spend = place.open(policy(shared([life()])), &clock);
    let hold = spend.hold(&Call::new(), &cost(1)).unwrap();
    clock.advance(55 * MINUTE);
    hold.extend(&cost(99)).unwrap();
    hold.charge(&cost(100)).unwrap();
    let _ = hold.detach();
    drop(spend);
    clock.advance(15 * MINUTE);
    let spend = place.open(policy(shared([life(), Limit::cost(100, rolling(HOUR))])), &clock);
    assert_eq!(used(&spend, "all", "", 1), (99, 0), "those of 15 minutes ago, and not the one of 70");
}

#[test]
fn the_same_call_is_the_same_hold_whatever_the_policy_makes_of_it_by_now() {
    let more = || Scope::shared("more").limit(Limit::cost(100, Window::Lifetime));
    let two = || SpendPolicy::new().scope(all()).scope(more());
    let family = |ceiling| money(100).family(Family::new("root").cost(50).ceiling(ceiling));
    let unstated = (Call::new().id("a").grant("root"), Amounts::new().calls(1));
    let stated = (Call::new().id("a"), cost(1));
    for (before, after, (call, amounts)) in [
        (SpendPolicy::new().scope(all()), two(), &stated),
        (two(), SpendPolicy::new().scope(all()), &stated),
        (two(), SpendPolicy::new().scope(more()).scope(all()), &stated),
        (family(10), family(9), &unstated),
    ] {
        for place in Place::all() {
            let clock = ManualWallClock::at(START);
            let spend = place.open(before.clone(), &clock);
            let name = spend.hold(call, amounts).unwrap().detach();
            drop(spend);
            let spend = place.open(after.clone(), &clock);
            let again = spend.hold(call, amounts).unwrap();
            assert_eq!((again.is_replayed(), again.name()), (true, &name));
        }
    }
}

#[test]
fn a_store_is_used_by_one_engine_at_a_time_until_its_last_handle_is_gone() {
    for place in Place::all() {
        let (store, clock) = (place.store(), ManualWallClock::at(START));
        let open = || Spend::builder(money(100)).shared_store(store.clone()).clock(clock.clone()).open();
        let one = open().unwrap();
        let hold = one.hold(&Call::new(), &cost(60)).unwrap();
        assert!(matches!(open(), Err(OpenError::Store(StoreError::InUse { .. }))));
        drop(one);
        assert!(
            matches!(open(), Err(OpenError::Store(StoreError::InUse { .. }))),
            "the hold may still be settled"
        );
        let name = hold.detach();
        let two = open().unwrap();
        assert_eq!(two.settle(&name, &cost(10)).unwrap().released[Dimension::Cost], 50);
    }
}

#[test]
fn an_open_hold_that_only_the_store_has_is_no_answer() {
    // A store that keeps what it says it does not.
    let kept = MemoryStore::new();
    let also = kept.clone();
    let store = Fragile::new(kept.clone()).refusing(move |record| {
        also.write(std::slice::from_ref(record)).unwrap();
        true
    });
    let clock = ManualWallClock::at(START);
    let spend = open_on(&store, money(100), &clock);
    let call = Call::new().id("a");
    assert!(matches!(spend.hold(&call, &cost(60)), Err(SpendError::Store(_))));
    assert!(matches!(spend.hold(&call, &cost(60)), Err(SpendError::Store(_))));
    assert!(matches!(spend.settle(&HoldRef::new("a", 0), &cost(1)), Err(SpendError::Store(_))));
    assert_eq!(spend.open_holds(), 0);
    drop(spend);
    let spend = open_on(&kept, money(100), &clock);
    assert_eq!(used(&spend, "all", "", 0), (0, 60));
    assert!(spend.hold(&call, &cost(60)).unwrap().is_replayed());
}
