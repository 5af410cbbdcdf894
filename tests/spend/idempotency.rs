//! The same id with the same input gets the same answer.

use crate::support::*;
use std::time::Duration;
use tollgate::spend::*;

#[test]
fn the_same_call_under_an_id_is_one_hold() {
    let spend = open(money(100), &ManualWallClock::at(START));
    let call = Call::new().id("request-1");
    let first = spend.hold(&call, &cost(60)).unwrap();
    let again = spend.hold(&call, &cost(60)).unwrap();
    assert!(!first.is_replayed() && again.is_replayed());
    assert_eq!((first.name(), first.decision()), (again.name(), again.decision()));
    assert_eq!(used(&spend, "all", "", 0), (0, 60));
    drop(again);
    assert_eq!(used(&spend, "all", "", 0), (0, 60), "the first caller still has it");
    drop(first);
    assert_eq!(used(&spend, "all", "", 0), (0, 0));
}

#[test]
fn another_call_under_the_id_is_a_conflict() {
    let policy = SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::cost(100, Window::Lifetime)));
    let spend = open(policy, &ManualWallClock::at(START));
    let call = |user: &str| Call::new().scope("user", user).id("request-1");
    let hold = spend.hold(&call("alice"), &cost(60)).unwrap();
    assert!(matches!(spend.hold(&call("alice"), &cost(61)), Err(SpendError::Conflict { .. })));
    assert!(matches!(spend.hold(&call("bob"), &cost(60)), Err(SpendError::Conflict { .. })));
    let up_to = spend.hold_up_to(&call("alice"), &cost(60), &cost(1));
    assert!(matches!(up_to, Err(SpendError::Conflict { .. })));
    hold.settle(&cost(1)).unwrap();
    assert!(
        matches!(spend.hold(&call("bob"), &cost(60)), Err(SpendError::Conflict { .. })),
        "nor when it is over"
    );
    assert_eq!(used(&spend, "user", "bob", 0), (0, 0));
}

#[test]
fn a_denial_is_an_answer_too_even_when_there_is_room_by_now_and_after_a_restart() {
    let clock = ManualWallClock::at(START);
    let store = MemoryStore::new();
    let spend = open_on(&store, money(100), &clock);
    let blocker = spend.hold(&Call::new(), &cost(100)).unwrap();
    let call = Call::new().id("request-1");
    let first = refusal(spend.hold(&call, &cost(10)));
    drop(blocker);
    assert_eq!(refusal(spend.hold(&call, &cost(10))), first);
    drop(spend);
    let spend = open_on(&store, money(100), &clock);
    assert_eq!(refusal(spend.hold(&call, &cost(10))), first);
    assert!(matches!(spend.hold(&call, &cost(11)), Err(SpendError::Conflict { .. })));
    spend.hold(&Call::new().id("request-2"), &cost(10)).unwrap().release().unwrap();
}

#[test]
fn a_refused_call_without_an_id_leaves_nothing_behind() {
    let store = Fragile::new(MemoryStore::new());
    let spend = open_on(&store, money(10), &ManualWallClock::at(START));
    for _ in 0..100 {
        refusal(spend.hold(&Call::new(), &cost(11)));
    }
    assert_eq!(store.writes.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert_eq!(spend.books().unwrap(), []);
    assert_eq!(spend.open_holds(), 0);
}

#[test]
fn a_settled_call_that_is_asked_for_again_says_so() {
    let clock = ManualWallClock::at(START);
    let store = MemoryStore::new();
    let call = Call::new().id("request-1");
    let settlement = {
        let spend = open_on(&store, money(100), &clock);
        spend.hold(&call, &cost(60)).unwrap().settle(&cost(50)).unwrap()
    };
    let spend = open_on(&store, money(100), &clock);
    let again = spend.hold(&call, &cost(60)).unwrap();
    assert!(again.is_replayed());
    assert_eq!(again.settlement(), Some(settlement));
    assert_eq!(again.settle(&cost(50)).unwrap(), settlement);
    assert!(matches!(again.settle(&cost(51)), Err(SpendError::Conflict { .. })));
    drop(again);
    assert_eq!(used(&spend, "all", "", 0), (50, 0));
}

#[test]
fn a_hold_that_a_dead_process_left_is_found_again_by_its_id() {
    let clock = ManualWallClock::at(START);
    let store = MemoryStore::new();
    let call = Call::new().id("request-1");
    let before = {
        let spend = open_on(&store, money(100), &clock);
        let hold = spend.hold(&call, &cost(60)).unwrap();
        let name = hold.name().clone();
        std::mem::forget(hold);
        name
    };
    store.close(); // as whoever opens a file after the end of its process has it
    let spend = open_on(&store, money(100), &clock);
    assert_eq!(used(&spend, "all", "", 0), (0, 60), "open holds still count");
    let hold = spend.hold(&call, &cost(60)).unwrap();
    assert!(hold.is_replayed());
    assert_eq!(*hold.name(), before);
    hold.settle(&cost(10)).unwrap();
    assert_eq!(used(&spend, "all", "", 0), (10, 0));
}

#[test]
fn steps_under_ids_of_their_own_change_things_once() {
    let clock = ManualWallClock::at(START);
    let store = MemoryStore::new();
    let spend = open_on(&store, money(100), &clock);
    let hold = spend.hold(&Call::new().id("run"), &cost(10)).unwrap();
    let granted = hold.extend_as("step-1", &cost(20)).unwrap();
    hold.charge_as("chunk-1", &cost(5)).unwrap();
    let refused = hold.extend_as("step-2", &cost(71)).unwrap_err();
    let name = hold.detach();
    drop(spend);
    let spend = open_on(&store, money(100), &clock);
    let hold = spend.resume(&name).unwrap();
    assert_eq!(hold.extend_as("step-1", &cost(20)).unwrap(), granted);
    hold.charge_as("chunk-1", &cost(5)).unwrap();
    assert_eq!(hold.extend_as("step-2", &cost(71)).unwrap_err(), refused);
    assert!(matches!(hold.extend_as("step-1", &cost(21)), Err(SpendError::Conflict { .. })));
    assert!(matches!(hold.charge_as("step-1", &cost(20)), Err(SpendError::Conflict { .. })));
    assert_eq!(used(&spend, "all", "", 0), (5, 25));
    assert_eq!(hold.settle(&cost(20)).unwrap().used[Dimension::Cost], 25);
}

#[test]
fn answers_are_forgotten_after_the_time_that_the_policy_states() {
    let clock = ManualWallClock::at(START);
    let spend = open(money(100).answers_for(Duration::from_secs(60)), &clock);
    let call = Call::new().id("request-1");
    spend.hold(&call, &cost(10)).unwrap().settle(&cost(10)).unwrap();
    clock.advance(59_999);
    spend.hold(&Call::new(), &cost(1)).unwrap().settle(&cost(1)).unwrap();
    assert!(spend.hold(&call, &cost(10)).unwrap().is_replayed());
    clock.advance(1);
    spend.hold(&Call::new(), &cost(1)).unwrap().settle(&cost(1)).unwrap();
    assert!(!spend.hold(&call, &cost(10)).unwrap().is_replayed());
}

#[test]
fn a_hold_found_again_was_granted_what_it_was_at_first_whatever_was_added_to_it() {
    let spend = open(money(100), &ManualWallClock::at(START));
    let call = Call::new().id("request-1");
    let first = spend.hold(&call, &cost(10)).unwrap();
    first.extend(&cost(80)).unwrap();
    let again = spend.hold(&call, &cost(10)).unwrap();
    assert_eq!(again.decision(), first.decision());
}

#[test]
fn an_expired_hold_that_cannot_be_settled_takes_no_place_among_the_open_ones() {
    let clock = ManualWallClock::at(START);
    let spend = open(money(100).ttl(Duration::from_secs(60)), &clock);
    let name = spend.hold(&Call::new().id("request-1"), &cost(10)).unwrap().detach();
    clock.advance(60_000);
    spend.expire_due();
    assert_eq!(spend.open_holds(), 0);
    spend.settle(&name, &cost(-1)).unwrap_err();
    assert_eq!(spend.open_holds(), 0);
    drop(spend.resume(&name).unwrap());
    assert_eq!(spend.open_holds(), 0);
    assert!(spend.settle(&name, &cost(10)).unwrap().late);
}

#[test]
fn a_call_that_was_refused_has_no_hold_to_settle_and_stays_refused() {
    let spend = open(money(100), &ManualWallClock::at(START));
    let call = Call::new().id("request-1");
    let first = refusal(spend.hold(&call, &cost(101)));
    spend.settle(&HoldRef::new("request-1", 0), &cost(1)).unwrap_err();
    spend.resume(&HoldRef::new("request-1", 0)).unwrap_err();
    assert_eq!(spend.open_holds(), 0);
    assert_eq!(refusal(spend.hold(&call, &cost(101))), first);
}

#[test]
fn nobody_can_take_the_ids_of_calls_without_one() {
    let spend = open(money(100), &ManualWallClock::at(START));
    let seen = spend.hold(&Call::new(), &cost(1)).unwrap();
    let (prefix, number) = seen.name().id().rsplit_once('-').unwrap();
    let number: u64 = number.parse().unwrap();
    for next in number..number + 9 {
        let call = Call::new().id(format!("{prefix}-{next}"));
        assert!(matches!(spend.hold(&call, &cost(1)), Err(SpendError::Reserved { .. })));
    }
    for _ in 0..9 {
        spend.hold(&Call::new(), &cost(1)).unwrap().release().unwrap();
    }
    assert_eq!(spend.find(seen.name().id()), Ok(Some(seen.name().clone())));
}

#[test]
fn an_answer_that_is_remembered_needs_no_room() {
    let policy = SpendPolicy::new()
        .scope(Scope::keyed("user").limit(Limit::cost(100, Window::Lifetime)))
        .hold_cap(1)
        .account_cap(1);
    let spend = open(policy, &ManualWallClock::at(START));
    let call = |id: &str| Call::new().scope("user", "a").id(id);
    spend.hold(&call("settled"), &cost(10)).unwrap().settle(&cost(10)).unwrap();
    let denied = refusal(spend.hold(&call("denied"), &cost(1_000)));
    let other = Call::new().scope("user", "b");
    let _open = spend.hold(&other, &cost(1)).unwrap();
    assert!(spend.hold(&call("settled"), &cost(10)).unwrap().is_replayed());
    assert_eq!(refusal(spend.hold(&call("denied"), &cost(1_000))), denied);
    assert!(matches!(spend.hold(&call("new"), &cost(1)), Err(SpendError::Full { .. })));
    assert!(matches!(spend.hold(&other, &cost(1)), Err(SpendError::Full { what: "hold", cap: 1 })));
    assert_eq!((spend.open_holds(), spend.accounts_in_memory()), (1, 1));
}

#[test]
fn a_replayed_handle_of_a_detached_hold_gives_nothing_back_when_it_is_dropped() {
    let spend = open(money(100), &ManualWallClock::at(START));
    let call = Call::new().id("a");
    let name = spend.hold(&call, &cost(60)).unwrap().detach();
    drop(spend.hold(&call, &cost(60)).unwrap());
    assert_eq!(used(&spend, "all", "", 0), (0, 60), "who has its name has it");
    drop(spend.resume(&name).unwrap());
    assert_eq!(used(&spend, "all", "", 0), (0, 0));
}

#[test]
fn a_memory_store_makes_room_by_refusals_and_forgets_no_other_answer() {
    let store = MemoryStore::with_caps(1_000, 3);
    let spend = open_on(&store, money(100), &ManualWallClock::at(START));
    let call = |id: &str| Call::new().id(id);
    spend.hold(&call("settled"), &cost(10)).unwrap().settle(&cost(10)).unwrap();
    for id in ["d1", "d2", "d3", "d4"] {
        refusal(spend.hold(&call(id), &cost(1_000)));
    }
    assert_eq!(store.hold("d2").unwrap(), None, "the oldest refusals went");
    let open = [call("o1"), call("o2")].map(|call| spend.hold(&call, &cost(1)).unwrap());
    assert!(spend.hold(&call("settled"), &cost(10)).unwrap().is_replayed());
    let full = spend.hold(&call("o3"), &cost(1));
    assert!(matches!(full, Err(SpendError::Store(StoreError::Full { cap: 3, .. }))));
    for hold in open {
        hold.settle(&cost(1)).unwrap();
    }
    assert_eq!(used(&spend, "all", "", 0), (12, 0));
}
