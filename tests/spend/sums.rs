//! Sums far beyond any limit: they stay exact, and nobody is let in or locked out by them.

use crate::support::*;
use tollgate::spend::*;

/// The most in one place.
const HUGE: i64 = 1 << 53;

#[test]
fn holds_that_are_given_back_never_use_up_the_books() {
    for place in Place::all() {
        let spend = place.open(money(1_000), &ManualWallClock::at(START));
        for _ in 0..1_100 {
            spend.hold(&Call::new(), &tokens(HUGE)).unwrap().release().unwrap();
        }
        spend.hold(&Call::new(), &cost(1).tokens(1)).unwrap().settle(&cost(1).tokens(10)).unwrap();
        let books = spend.books().unwrap();
        let entry = books[0].books.entry(Dimension::Tokens);
        assert_eq!((entry.reserved, entry.used()), (1_100 * i128::from(HUGE) + 1, 10));
    }
}

#[test]
fn overruns_are_settled_however_many_there_were() {
    let spend = open(shared([Limit::tokens(1_000, Window::Lifetime)]), &ManualWallClock::at(START));
    let holds: Vec<_> = (0..300).map(|_| spend.hold(&Call::new(), &tokens(1)).unwrap()).collect();
    for hold in holds {
        hold.settle(&tokens(HUGE)).unwrap();
    }
    let books = spend.books().unwrap();
    assert_eq!(books[0].books.entry(Dimension::Tokens).used(), 300 * i128::from(HUGE));
    refusal(spend.hold(&Call::new(), &tokens(1)));
}

#[test]
fn a_limit_that_is_added_later_counts_all_that_was_used_and_stays_over_when_some_comes_back() {
    for place in Place::all() {
        let clock = ManualWallClock::at(START);
        let spend = place.open(money(1_000), &clock);
        for _ in 0..1_100 {
            spend.hold(&Call::new(), &tokens(HUGE)).unwrap().settle(&tokens(HUGE)).unwrap();
        }
        let open: Vec<_> =
            (0..200).map(|_| spend.hold(&Call::new(), &tokens(HUGE)).unwrap().detach()).collect();
        drop(spend);
        let limits = [Limit::cost(1_000, Window::Lifetime), Limit::tokens(HUGE as u64, Window::Lifetime)];
        let spend = place.open(shared(limits), &clock);
        refusal(spend.hold(&Call::new(), &tokens(1)));
        for name in &open {
            spend.release(name).unwrap();
        }
        refusal(spend.hold(&Call::new(), &tokens(1)));
        let books = spend.books().unwrap();
        let entry = books[0].books.entry(Dimension::Tokens);
        assert_eq!((entry.used(), entry.outstanding()), (1_100 * i128::from(HUGE), 0));
        balances(&*spend_store(&place, spend));
    }
}

/// What is left of a place when the budgets are closed.
fn spend_store(place: &Place, spend: Spend) -> std::sync::Arc<dyn Store> {
    let policy = spend.policy();
    drop(spend);
    let store = place.store();
    store.open(&policy, START).unwrap();
    store
}

#[test]
fn a_family_without_a_cap_in_calls_has_room_for_any_number_of_them() {
    let policy = money(1_000).family(Family::new("root").cost(1_000).ceiling(100));
    let spend = open(policy, &ManualWallClock::at(START));
    for _ in 0..140 {
        let hold = spend.hold(&Call::new().grant("root"), &cost(0).calls(HUGE)).unwrap();
        hold.settle(&cost(0).calls(HUGE)).unwrap();
    }
    let family = spend.books().unwrap().into_iter().find(|account| account.scope == "family").unwrap();
    assert_eq!(family.books.entry(Dimension::Calls).used(), 140 * i128::from(HUGE));
}

#[test]
fn at_the_end_of_time_a_limit_is_granted_once() {
    let clock = ManualWallClock::at(u64::MAX - 5);
    let spend = open(money(100).on_expiry(OnExpiry::Released), &clock);
    let _hold = spend.hold(&Call::new(), &cost(100)).unwrap();
    clock.set(u64::MAX);
    refusal(spend.hold(&Call::new(), &cost(100)));
}
