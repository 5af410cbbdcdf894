//! Holding, extending, charging, settling, releasing.

use crate::support::*;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use tollgate::spend::*;

#[test]
fn a_hold_is_taken_from_every_scope_and_dimension_or_from_none() {
    let policy = SpendPolicy::new()
        .scope(
            Scope::keyed("user")
                .limit(Limit::cost(1_000, Window::Lifetime))
                .limit(Limit::calls(10, Window::Lifetime)),
        )
        .scope(Scope::shared("all").limit(Limit::tokens(50, Window::Lifetime)));
    let spend = open(policy, &ManualWallClock::at(START));
    let alice = Call::new().scope("user", "alice");
    let refused = refusal(spend.hold(&alice, &Amounts::new().cost(10).calls(1).tokens(51)));
    assert_eq!(
        (refused.scope.as_str(), refused.dimension, refused.reason),
        ("all", Dimension::Tokens, Reason::Impossible)
    );
    assert_eq!((used(&spend, "user", "alice", 0), used(&spend, "user", "alice", 1)), ((0, 0), (0, 0)));
    let _hold = spend.hold(&alice, &Amounts::new().cost(10).calls(1).tokens(50)).unwrap();
    assert_eq!((used(&spend, "user", "alice", 0), used(&spend, "user", "alice", 1)), ((0, 10), (0, 1)));
    let bob = spend.hold(&Call::new().scope("user", "bob"), &tokens(1));
    let refused = refusal(bob);
    assert_eq!((refused.spent, refused.held, refused.needed, refused.limit), (0, 50, 1, 50));
}

#[test]
fn a_refusal_says_which_limit_and_when_the_same_call_fits() {
    let clock = ManualWallClock::at(START);
    let spend = open(shared([Limit::cost(100, rolling(HOUR))]), &clock);
    spend.hold(&Call::new(), &cost(70)).unwrap().settle(&cost(70)).unwrap();
    clock.advance(10 * MINUTE);
    spend.hold(&Call::new(), &cost(20)).unwrap().settle(&cost(20)).unwrap();
    let refused = refusal(spend.hold(&Call::new(), &cost(40)));
    assert_eq!((refused.spent, refused.held, refused.needed), (90, 0, 40));
    assert_eq!((refused.window.as_str(), refused.scope.as_str()), ("rolling 1h", "all"));
    let wait = refused.retry_after.unwrap();
    assert_eq!(
        refused.resets_at,
        Some(START + 61 * MINUTE),
        "the minute of the 70 has then passed for an hour"
    );
    assert_eq!(wait, 51 * MINUTE);
    clock.advance(wait - 1);
    refusal(spend.hold(&Call::new(), &cost(40)));
    clock.advance(1);
    spend.hold(&Call::new(), &cost(40)).unwrap().settle(&cost(40)).unwrap();
}

#[test]
fn the_refusal_that_lasts_longest_is_the_one_that_is_told() {
    let spend = open(
        shared([
            Limit::cost(10, rolling(MINUTE)),
            Limit::cost(10, rolling(HOUR)),
            Limit::calls(1, rolling(MINUTE)),
        ]),
        &ManualWallClock::at(START),
    );
    let ten = Amounts::new().cost(10).calls(1);
    spend.hold(&Call::new(), &ten).unwrap().settle(&ten).unwrap();
    let refused = refusal(spend.hold(&Call::new(), &ten));
    assert_eq!(refused.window, "rolling 1h");
    assert_eq!(refused.resets_at, Some(START + 61 * MINUTE));
}

#[test]
fn extending_is_checked_again_and_a_refused_extension_leaves_the_hold_as_it_was() {
    let spend = open(money(1_000), &ManualWallClock::at(START));
    let hold = spend.hold(&Call::new(), &cost(600)).unwrap();
    assert_eq!(hold.extend(&cost(300)).unwrap().granted[Dimension::Cost], 300);
    let refused = hold.extend(&cost(101)).unwrap_err();
    assert_eq!(refused.refusal().map(|refusal| (refusal.held, refusal.needed)), Some((900, 101)));
    assert_eq!(used(&spend, "all", "", 0), (0, 900));
    let settlement = hold.settle(&cost(850)).unwrap();
    assert_eq!((settlement.used[Dimension::Cost], settlement.released[Dimension::Cost]), (850, 50));
    assert_eq!(used(&spend, "all", "", 0), (850, 0));
    assert!(matches!(hold.extend(&cost(1)), Err(SpendError::Over { phase: "settled", .. })));
}

#[test]
fn a_caller_who_can_shrink_gets_the_part_that_still_fits() {
    let spend = open(
        shared([Limit::cost(1_000, Window::Lifetime), Limit::tokens(5_000, Window::Lifetime)]),
        &ManualWallClock::at(START),
    );
    let most = Amounts::new().cost(800).tokens(8_000);
    let first = spend.hold_up_to(&Call::new(), &most, &Amounts::new()).unwrap();
    let granted = first.decision().granted;
    assert_eq!((granted[Dimension::Cost], granted[Dimension::Tokens]), (800, 5_000));
    let refused = refusal(spend.hold_up_to(&Call::new(), &most, &Amounts::new()));
    assert_eq!((refused.dimension, refused.needed), (Dimension::Tokens, 1), "not one token is left");
    first.settle(&Amounts::new().cost(500).tokens(1_000)).unwrap();
    let refused = refusal(spend.hold_up_to(&Call::new(), &most, &Amounts::new().cost(501)));
    assert_eq!(
        (refused.dimension, refused.needed),
        (Dimension::Cost, 501),
        "less than 501 is of no use to it"
    );
    let second = spend.hold_up_to(&Call::new(), &most, &cost(500)).unwrap();
    assert_eq!(second.decision().granted[Dimension::Cost], 500);
}

#[test]
fn a_call_that_costs_nothing_passes_exhausted_money_unless_it_turns_out_to_cost() {
    let spend = open(money(100), &ManualWallClock::at(START));
    spend.hold(&Call::new(), &cost(100)).unwrap().settle(&cost(130)).unwrap();
    let free = spend.hold(&Call::new(), &cost(0)).unwrap();
    assert!(free.extend(&cost(1)).is_err(), "it turned out to cost");
    let settlement = free.settle(&cost(7)).unwrap();
    assert_eq!(settlement.overrun[Dimension::Cost], 7, "what was used is recorded, allowed or not");
    assert_eq!(used(&spend, "all", "", 0), (137, 0));
}

#[test]
fn charges_beyond_the_hold_are_debt_at_once() {
    let spend = open(money(1_000), &ManualWallClock::at(START));
    let hold = spend.hold(&Call::new(), &cost(100)).unwrap();
    hold.charge(&cost(60)).unwrap();
    assert_eq!(used(&spend, "all", "", 0), (60, 40));
    hold.charge(&cost(60)).unwrap();
    assert_eq!(used(&spend, "all", "", 0), (120, 0), "20 of it beyond the hold");
    let settlement = hold.settle(&cost(5)).unwrap();
    assert_eq!((settlement.used[Dimension::Cost], settlement.overrun[Dimension::Cost]), (125, 25));
    assert_eq!(settlement.released, Quantities::NONE);
}

#[test]
fn a_released_hold_keeps_what_was_charged() {
    let spend = open(money(1_000), &ManualWallClock::at(START));
    let hold = spend.hold(&Call::new(), &cost(100)).unwrap();
    hold.charge(&cost(30)).unwrap();
    let released = hold.release().unwrap();
    assert_eq!((released.used[Dimension::Cost], released.released[Dimension::Cost]), (30, 70));
    assert_eq!(hold.release().unwrap(), released, "released again, it is the same answer");
    assert!(matches!(hold.settle(&cost(30)), Err(SpendError::Over { phase: "released", .. })));
    assert_eq!(used(&spend, "all", "", 0), (30, 0));
}

#[test]
fn settling_again_gets_the_first_answer_and_another_amount_is_a_conflict() {
    let spend = open(money(1_000), &ManualWallClock::at(START));
    let hold = spend.hold(&Call::new(), &cost(100)).unwrap();
    let first = hold.settle(&cost(80)).unwrap();
    assert_eq!(hold.settle(&cost(80)).unwrap(), first);
    assert!(matches!(hold.settle(&cost(81)), Err(SpendError::Conflict { .. })));
    assert!(matches!(hold.release(), Err(SpendError::Over { phase: "settled", asked: "released", .. })));
    assert!(matches!(hold.charge(&cost(1)), Err(SpendError::Over { .. })));
    assert_eq!(used(&spend, "all", "", 0), (80, 0));
}

#[test]
fn runs_under_way_are_given_back_whatever_the_settlement_says() {
    let spend = open(shared([Limit::concurrent_runs(2)]), &ManualWallClock::at(START));
    let run = Amounts::new().runs(1);
    let first = spend.hold(&Call::new(), &run).unwrap();
    let _second = spend.hold(&Call::new(), &run).unwrap();
    refusal(spend.hold(&Call::new(), &run));
    let settlement = first.settle(&run).unwrap();
    assert_eq!((settlement.released[Dimension::Runs], settlement.used[Dimension::Runs]), (1, 0));
    let _third = spend.hold(&Call::new(), &run).unwrap();
    refusal(spend.hold(&Call::new(), &run));
}

#[test]
fn an_expired_hold_counts_at_its_worst_until_a_late_settlement_corrects_it_once() {
    let clock = ManualWallClock::at(START);
    let spend = open(
        shared([Limit::cost(100, Window::Lifetime), Limit::concurrent_runs(1)]).ttl(Duration::from_secs(60)),
        &clock,
    );
    let hold = spend.hold(&Call::new(), &cost(80).runs(1)).unwrap();
    clock.advance(60_000);
    assert_eq!(used(&spend, "all", "", 0), (80, 0), "it counts as spent");
    assert_eq!(used(&spend, "all", "", 1), (0, 0), "whoever ran is gone");
    assert!(hold.is_expired());
    assert!(matches!(hold.extend(&cost(1)), Err(SpendError::Over { phase: "expired", .. })));
    refusal(spend.hold(&Call::new(), &cost(21)));
    let settlement = hold.settle(&cost(50)).unwrap();
    assert!(settlement.late);
    assert_eq!((settlement.released[Dimension::Cost], settlement.overrun[Dimension::Cost]), (30, 0));
    assert_eq!(used(&spend, "all", "", 0), (50, 0));
    assert_eq!(hold.settle(&cost(50)).unwrap(), settlement);
    assert_eq!(used(&spend, "all", "", 0), (50, 0), "once");
}

#[test]
fn extending_and_charging_renew_the_time_to_live() {
    let clock = ManualWallClock::at(START);
    let spend = open(money(100).ttl(Duration::from_secs(60)).on_expiry(OnExpiry::Released), &clock);
    let hold = spend.hold(&Call::new(), &cost(10)).unwrap();
    for _ in 0..3 {
        clock.advance(59_000);
        hold.extend(&cost(1)).unwrap();
        clock.advance(59_000);
        hold.charge(&cost(1)).unwrap();
    }
    assert_eq!(used(&spend, "all", "", 0), (3, 10));
    clock.advance(60_000);
    assert_eq!(used(&spend, "all", "", 0), (3, 0));
}

#[test]
fn dropping_the_last_handle_gives_back_and_a_detached_hold_stays() {
    let clock = ManualWallClock::at(START);
    let spend = open(money(100), &clock);
    drop(spend.hold(&Call::new(), &cost(40)).unwrap());
    assert_eq!(used(&spend, "all", "", 0), (0, 0));
    let name = spend.hold(&Call::new(), &cost(40)).unwrap().detach();
    assert_eq!(used(&spend, "all", "", 0), (0, 40));
    let resumed = spend.resume(&name).unwrap();
    drop(resumed);
    assert_eq!(used(&spend, "all", "", 0), (0, 0), "somebody had it again, and let it go");
    let name = spend.hold(&Call::new().id("job"), &cost(40)).unwrap().detach();
    assert_eq!(spend.find("job").unwrap(), Some(name.clone()));
    assert_eq!(spend.settle(&name, &cost(25)).unwrap().released[Dimension::Cost], 15);
    assert_eq!(used(&spend, "all", "", 0), (25, 0));
}

#[test]
fn an_old_name_does_not_touch_a_newer_hold_under_the_same_id() {
    let clock = ManualWallClock::at(START);
    let spend = open(money(1_000).answers_for(Duration::from_secs(60)), &clock);
    let old = spend.hold(&Call::new().id("job"), &cost(10)).unwrap();
    let old_name = old.name().clone();
    old.settle(&cost(10)).unwrap();
    drop(old);
    clock.advance(61_000);
    // Its answer is forgotten by now, and the id may be used again.
    spend.hold(&Call::new(), &cost(1)).unwrap().settle(&cost(1)).unwrap();
    let new = spend.hold(&Call::new().id("job"), &cost(20)).unwrap();
    assert!(!new.is_replayed());
    assert!(new.name().generation() > old_name.generation());
    assert!(matches!(spend.settle(&old_name, &cost(3)), Err(SpendError::NoHold { .. })));
    assert!(matches!(spend.release(&old_name), Err(SpendError::NoHold { .. })));
    assert_eq!(used(&spend, "all", "", 0), (11, 20));
}

#[test]
fn amounts_that_cannot_be_change_nothing() {
    let spend = open(money(1_000), &ManualWallClock::at(START));
    let most = i64::try_from(tollgate::spend::amount::MOST).unwrap();
    for bad in [
        cost(-1),
        tokens(-1),
        cost(most + 1),
        cost(i64::MAX),
        cost(i64::MIN),
        Amounts::new().cost_in("EUR", 1),
    ] {
        assert!(matches!(spend.hold(&Call::new(), &bad), Err(SpendError::Amount(_))), "{bad:?}");
    }
    let hold = spend.hold(&Call::new(), &cost(10)).unwrap();
    for bad in [cost(-1), cost(most + 1), Amounts::new().cost_in("EUR", 1)] {
        assert!(matches!(hold.settle(&bad), Err(SpendError::Amount(_))), "{bad:?}");
        assert!(matches!(hold.charge(&bad), Err(SpendError::Amount(_))), "{bad:?}");
        assert!(matches!(hold.extend(&bad), Err(SpendError::Amount(_))), "{bad:?}");
    }
    assert_eq!(used(&spend, "all", "", 0), (0, 10));
    hold.settle(&Amounts::new().cost_in("USD", 10)).unwrap();
}

#[test]
fn sums_that_no_longer_fit_are_an_error_and_change_nothing() {
    let store = MemoryStore::new();
    let spend = open_on(&store, money(1_000), &ManualWallClock::at(START));
    let hold = spend.hold(&Call::new(), &cost(10)).unwrap();
    let most = cost(i64::try_from(tollgate::spend::amount::MOST).unwrap());
    let charged = (0..3_000).take_while(|_| hold.charge(&most).is_ok()).count();
    assert_eq!(charged, 2_047, "2^53 goes into the 64 bits of one hold so often");
    assert!(matches!(
        hold.charge(&most),
        Err(SpendError::Amount(AmountError::Overflow { dimension: Dimension::Cost }))
    ));
    balances(&store);
    hold.settle(&cost(0)).unwrap();
    balances(&store);
}

#[test]
fn a_call_names_every_scope_that_has_keys_and_no_other() {
    let spend = open(four_scopes(), &ManualWallClock::at(START));
    let call = Call::new().scope("run", "r").scope("user", "u");
    assert!(
        matches!(spend.hold(&call, &cost(1)), Err(SpendError::MissingScope { scope }) if scope == "team")
    );
    let call = call.scope("team", "t");
    spend.hold(&call, &cost(1)).unwrap().release().unwrap();
    for unknown in ["tenant", "global"] {
        let error = spend.hold(&call.clone().scope(unknown, "x"), &cost(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no scope {unknown:?} is budgeted with a key of its own, accepted: run, user, team")
        );
    }
}

#[test]
fn keys_of_different_scopes_and_names_of_different_lengths_share_nothing() {
    let policy = SpendPolicy::new()
        .scope(Scope::keyed("a").limit(Limit::cost(10, Window::Lifetime)))
        .scope(Scope::keyed("b").limit(Limit::cost(100, Window::Lifetime)));
    let spend = open(policy, &ManualWallClock::at(START));
    for (a, b) in [("x", "y"), ("y", "x"), ("", "xy"), ("xy", "")] {
        let hold = spend.hold(&Call::new().scope("a", a).scope("b", b), &cost(10)).unwrap();
        hold.settle(&cost(10)).unwrap();
    }
    assert_eq!(used(&spend, "a", "", 0), (10, 0));
    assert_eq!(used(&spend, "b", "", 0), (10, 0));
}

#[test]
fn a_newcomer_beyond_the_cap_is_refused_and_an_idle_account_makes_room() {
    let policy = SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::cost(10, Window::Lifetime)));
    let spend = open(policy.account_cap(3), &ManualWallClock::at(START));
    let hold = |user: &str| spend.hold(&Call::new().scope("user", user), &cost(10));
    let open: Vec<_> = ["a", "b", "c"].into_iter().map(|user| hold(user).unwrap()).collect();
    assert!(matches!(hold("d"), Err(SpendError::Full { what: "account", cap: 3 })));
    open[1].settle(&cost(10)).unwrap();
    drop(open);
    hold("d").unwrap().settle(&cost(10)).unwrap();
    assert!(spend.accounts_in_memory() <= 3);
    for user in ["e", "f", "g", "h"] {
        hold(user).unwrap().settle(&cost(10)).unwrap();
        assert!(spend.accounts_in_memory() <= 3);
    }
    refusal(hold("b"));
    refusal(hold("d"));
    hold("a").unwrap().release().unwrap();
}

#[test]
fn as_many_holds_as_there_may_be_are_open_at_once() {
    let spend = open(money(10).hold_cap(2), &ManualWallClock::at(START));
    let first = spend.hold(&Call::new(), &cost(1)).unwrap();
    let _second = spend.hold(&Call::new(), &cost(1)).unwrap();
    assert!(matches!(spend.hold(&Call::new(), &cost(1)), Err(SpendError::Full { what: "hold", cap: 2 })));
    assert_eq!(used(&spend, "all", "", 0), (0, 2));
    drop(first);
    let _third = spend.hold(&Call::new(), &cost(1)).unwrap();
}

/// A store in which whoever reads this id stops at the first barrier, and goes on at the second.
fn held_up_at(held_up: &'static str) -> (Fragile<MemoryStore>, [Arc<Barrier>; 2]) {
    let barriers = [(); 2].map(|()| Arc::new(Barrier::new(2)));
    let stops = barriers.clone();
    let store = Fragile::new(MemoryStore::new()).before_read(move |id| {
        if id == held_up {
            for stop in &stops {
                stop.wait();
            }
        }
    });
    (store, barriers)
}

#[test]
fn a_caller_that_is_about_to_be_refused_takes_no_room() {
    let (store, [reading, read]) = held_up_at("beyond");
    let spend = open_on(&store, money(10).hold_cap(1), &ManualWallClock::at(START));
    let first = spend.hold(&Call::new(), &cost(1)).unwrap();
    std::thread::scope(|scope| {
        let beyond = scope.spawn(|| spend.hold(&Call::new().id("beyond"), &cost(1)).map(|_| ()));
        reading.wait();
        drop(first);
        let second = spend.hold(&Call::new(), &cost(1));
        read.wait();
        assert!(matches!(beyond.join().unwrap(), Err(SpendError::Full { what: "hold", cap: 1 })));
        assert_eq!((second.is_ok(), spend.open_holds()), (true, 1));
    });
}

#[test]
fn who_looks_for_a_name_takes_no_room() {
    let (store, [reading, read]) = held_up_at("nobody");
    let spend = open_on(&store, money(10).hold_cap(1), &ManualWallClock::at(START));
    std::thread::scope(|scope| {
        let nobody = scope.spawn(|| spend.resume(&HoldRef::new("nobody", 7)).map(|_| ()));
        reading.wait();
        let hold = spend.hold(&Call::new(), &cost(1));
        read.wait();
        assert!(matches!(nobody.join().unwrap(), Err(SpendError::NoHold { .. })));
        assert!(hold.is_ok(), "{hold:?}");
    });
}

#[test]
fn a_handle_of_a_hold_that_is_over_keeps_no_account_in_memory() {
    let policy = SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::cost(10, Window::Lifetime)));
    let spend = open(policy.account_cap(1), &ManualWallClock::at(START));
    let hold = |user: &str| spend.hold(&Call::new().scope("user", user), &cost(1));
    let over = hold("a").unwrap();
    over.settle(&cost(1)).unwrap();
    hold("b").unwrap().settle(&cost(1)).unwrap();
    assert!(over.settlement().is_some());
}

#[test]
fn a_hold_whose_time_is_over_is_settled_by_its_name_at_the_first_attempt() {
    let clock = ManualWallClock::at(START);
    let spend = open(money(100), &clock);
    let settled = spend.hold(&Call::new().id("settled"), &cost(60)).unwrap().detach();
    let released = spend.hold(&Call::new(), &cost(40)).unwrap().detach();
    clock.advance(DAY);
    let settlement = spend.settle(&settled, &cost(10)).unwrap();
    assert!(settlement.late);
    assert_eq!(used(&spend, "all", "", 0), (50, 0), "the other one counts as spent");
    assert!(spend.release(&released).unwrap().late);
    assert_eq!(used(&spend, "all", "", 0), (10, 0));
}

#[test]
fn a_hold_that_is_extended_and_charged_for_long_does_not_grow() {
    let clock = ManualWallClock::at(START);
    let store = MemoryStore::new();
    let spend = open_on(&store, shared([Limit::cost(1_000, rolling(HOUR))]), &clock);
    let hold = spend.hold(&Call::new().id("run"), &cost(0)).unwrap();
    for _ in 0..200 {
        clock.advance(MINUTE);
        hold.extend(&cost(10)).unwrap();
        hold.charge(&cost(10)).unwrap();
    }
    assert!(store.hold("run").unwrap().unwrap().parts.len() <= 1);
    assert_eq!(used(&spend, "all", "", 0), (610, 0), "of the last 61 minutes");
    balances(&store);
}

#[test]
fn texts_that_are_too_long_to_be_kept_are_refused_and_leave_nothing() {
    let store = MemoryStore::new();
    let policy = SpendPolicy::new()
        .scope(Scope::keyed("user").limit(Limit::cost(100, Window::Lifetime)))
        .family(Family::new("root").calls(9));
    let spend = open_on(&store, policy, &ManualWallClock::at(START));
    let long = "x".repeat(1_025);
    let user = || Call::new().scope("user", "u");
    let too_long =
        |error: SpendError| matches!(error, SpendError::TooLong { length: 1_025, most: 1_024, .. });
    assert!(too_long(spend.hold(&Call::new().scope("user", long.as_str()), &cost(1)).unwrap_err()));
    assert!(too_long(spend.hold(&user().id(long.as_str()), &cost(1)).unwrap_err()));
    assert!(too_long(spend.status("user", &long).unwrap_err()));
    assert!(too_long(spend.delegate(&Grant::new(long.as_str(), "root")).unwrap_err()));
    let hold = spend.hold(&user().id(&long[1..]), &cost(1)).unwrap();
    assert!(too_long(hold.extend_as(&long, &cost(1)).unwrap_err()));
    assert!(too_long(hold.charge_as(&long, &cost(1)).unwrap_err()));
    assert!(too_long(spend.repair_settle(hold.name(), &cost(1), &long).unwrap_err()));
    assert_eq!((spend.open_holds(), used(&spend, "user", "u", 0)), (1, (0, 1)));
}
