//! Grants that were delegated from one root share its cap.

use crate::support::*;
use tollgate::spend::*;

fn family() -> SpendPolicy {
    money(1_000_000)
        .family(Family::new("root").cost(1_000).calls(10).ceiling(100))
        .grant(Grant::new("child", "root"))
        .grant(Grant::new("grandchild", "child").ceiling(40))
}

fn call(grant: &str) -> Call {
    Call::new().grant(grant)
}

fn one(amount: i64) -> Amounts {
    cost(amount).calls(1)
}

#[test]
fn all_grants_of_a_family_share_one_cap_in_money() {
    let spend = open(family(), &ManualWallClock::at(START));
    for grant in ["root", "child", "grandchild", "root", "child", "root", "child"] {
        let amount = if grant == "grandchild" { 40 } else { 100 };
        spend.hold(&call(grant), &cost(amount)).unwrap().settle(&cost(amount)).unwrap();
    }
    for _ in 0..9 {
        spend.hold(&call("grandchild"), &cost(40)).unwrap().settle(&cost(40)).unwrap();
    }
    assert_eq!(used(&spend, "family", "root", 0), (1_000, 0));
    for grant in ["root", "child", "grandchild"] {
        let refused = refusal(spend.hold(&call(grant), &cost(1)));
        assert_eq!((refused.scope.as_str(), refused.key.as_str()), ("family", "root"));
    }
}

#[test]
fn all_grants_of_a_family_share_one_cap_in_calls() {
    let spend = open(family(), &ManualWallClock::at(START));
    for number in 0..10 {
        let grant = ["root", "child", "grandchild"][number % 3];
        spend.hold(&call(grant), &one(1)).unwrap().settle(&one(1)).unwrap();
    }
    let refused = refusal(spend.hold(&call("child"), &one(1)));
    assert_eq!(refused.dimension, Dimension::Calls);
}

#[test]
fn a_call_without_a_stated_cost_is_held_at_the_ceiling_and_a_free_one_is_not() {
    let spend = open(family(), &ManualWallClock::at(START));
    let hold = |grant: &str, amounts: &Amounts| {
        spend.hold(&call(grant), amounts).unwrap().decision().granted[Dimension::Cost]
    };
    assert_eq!(hold("root", &Amounts::new().calls(1)), 100);
    assert_eq!(hold("child", &Amounts::new().calls(1)), 100, "its parent's");
    assert_eq!(hold("grandchild", &Amounts::new().calls(1)), 40);
    assert_eq!(hold("root", &one(0)), 0);
}

#[test]
fn a_call_above_the_ceiling_is_refused_for_good() {
    let spend = open(family(), &ManualWallClock::at(START));
    let refused = refusal(spend.hold(&call("grandchild"), &one(41)));
    assert_eq!(
        (refused.reason, refused.limit, refused.needed, refused.retry_after),
        (Reason::Ceiling, 40, 41, None)
    );
    let hold = spend.hold_up_to(&call("grandchild"), &one(41), &Amounts::new()).unwrap();
    assert_eq!(hold.decision().granted[Dimension::Cost], 40, "who can shrink gets the ceiling");
}

#[test]
fn a_refused_call_of_a_family_leaves_no_row() {
    let store = MemoryStore::new();
    let spend = open_on(&store, family(), &ManualWallClock::at(START));
    refusal(spend.hold(&call("root"), &one(101)));
    refusal(spend.hold(&call("root"), &cost(1).calls(11)));
    assert!(matches!(spend.hold(&call("stranger"), &one(1)), Err(SpendError::UnknownGrant { .. })));
    assert_eq!(store.books().unwrap(), []);
    assert_eq!(store.open_holds().unwrap(), []);
}

#[test]
fn a_parent_with_many_children_is_never_overspent() {
    let store = MemoryStore::new();
    let clock = ManualWallClock::at(START);
    let spend = open_on(&store, family(), &clock);
    for child in 0..200 {
        let parent = if child < 50 { "root".to_owned() } else { format!("g{}", child - 50) };
        spend.delegate(&Grant::new(format!("g{child}"), parent)).unwrap();
    }
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let spend = &spend;
                scope.spawn(move || {
                    let mine = (0..200).filter(|child| child % 8 == thread);
                    mine.filter(|child| {
                        let Ok(hold) = spend.hold(&call(&format!("g{child}")), &cost(7)) else {
                            return false;
                        };
                        hold.settle(&cost(7)).unwrap();
                        true
                    })
                    .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 142, "7 goes into 1,000 142 times");
    assert_eq!(used(&spend, "family", "root", 0), (994, 0));
    drop(spend);
    let spend = open_on(&store, family(), &clock);
    assert_eq!(used(&spend, "family", "root", 0), (994, 0));
    spend.hold(&call("g199"), &cost(6)).unwrap().release().unwrap();
    balances(&store);
}

#[test]
fn a_child_cannot_raise_what_it_was_given() {
    let spend = open(family(), &ManualWallClock::at(START));
    let raised = spend.delegate(&Grant::new("greedy", "grandchild").ceiling(41));
    assert!(matches!(raised, Err(SpendError::Delegation { .. })), "{raised:?}");
    assert!(matches!(spend.delegate(&Grant::new("orphan", "nobody")), Err(SpendError::UnknownGrant { .. })));
    spend.delegate(&Grant::new("modest", "grandchild").ceiling(10)).unwrap();
    spend.delegate(&Grant::new("modest", "grandchild").ceiling(10)).unwrap();
    for other in [
        Grant::new("modest", "root").ceiling(10),
        Grant::new("modest", "grandchild"),
        Grant::new("child", "child"),
    ] {
        assert!(matches!(spend.delegate(&other), Err(SpendError::Delegation { .. })), "{other:?}");
    }
    assert_eq!(refusal(spend.hold(&call("modest"), &one(11))).reason, Reason::Ceiling);
    assert_eq!(
        refusal(spend.hold(&call("greedy-not"), &one(1)).or_else(|_| spend.hold(&call("modest"), &one(40))))
            .limit,
        10
    );
}

#[test]
fn a_total_of_money_without_a_ceiling_is_refused_at_load() {
    let policy = money(1_000).family(Family::new("root").cost(100));
    let error = Spend::open(policy).unwrap_err();
    assert!(error.to_string().contains("nothing could be held"), "{error}");
    Spend::open(money(1_000).family(Family::new("root").calls(100))).unwrap();
}

#[test]
fn the_least_that_a_caller_takes_is_no_way_around_the_ceiling() {
    let policy =
        shared([Limit::calls(1_000, Window::Lifetime)]).family(Family::new("root").cost(1_000).ceiling(10));
    let spend = open(policy, &ManualWallClock::at(START));
    let refused = refusal(spend.hold_up_to(&Call::new().grant("root"), &cost(100), &cost(900)));
    assert_eq!((refused.reason, refused.limit), (Reason::Ceiling, 10));
}

#[test]
fn an_extension_keeps_to_the_ceiling_of_the_call_after_a_restart_too() {
    let store = MemoryStore::new();
    let clock = ManualWallClock::at(START);
    let spend = open_on(&store, family(), &clock);
    let hold = spend.hold(&call("grandchild"), &one(10)).unwrap();
    hold.extend(&cost(20)).unwrap();
    hold.charge(&cost(15)).unwrap();
    let name = hold.detach();
    drop(spend);
    let spend = open_on(&store, family(), &clock);
    let hold = spend.resume(&name).unwrap();
    let Err(SpendError::Refused(refused)) = hold.extend_as("step", &cost(11)) else { panic!("above it") };
    assert_eq!((refused.reason, refused.limit, refused.needed), (Reason::Ceiling, 40, 41));
    assert_eq!(hold.extend_as("step", &cost(11)), Err(SpendError::Refused(refused)), "the same answer");
    hold.extend(&cost(10)).unwrap();
    hold.extend(&cost(0).calls(1)).unwrap();
    hold.settle(&cost(50)).unwrap();
    assert_eq!(used(&spend, "family", "root", 0), (65, 0), "what was used counts, ceiling or not");
}

#[test]
fn delegations_under_changing_policies_never_go_round() {
    let store = MemoryStore::new();
    let clock = ManualWallClock::at(START);
    let base = || money(1_000).family(Family::new("root").calls(10));
    let spend = open_on(&store, base().grant(Grant::new("a", "root")), &clock);
    spend.delegate(&Grant::new("b", "a")).unwrap();
    spend.delegate(&Grant::new("c", "b")).unwrap();
    drop(spend);
    let spend = open_on(&store, base().grant(Grant::new("c", "root")), &clock);
    assert!(matches!(spend.delegate(&Grant::new("a", "c")), Err(SpendError::Delegation { .. })));
    drop(spend);
    let spend = open_on(&store, base(), &clock);
    assert!(matches!(spend.hold(&call("a"), &cost(1)), Err(SpendError::UnknownGrant { .. })));
    assert!(matches!(spend.hold(&call("c"), &cost(1)), Err(SpendError::UnknownGrant { .. })));
}

#[test]
fn grants_that_go_round_in_a_store_are_refused() {
    let store = MemoryStore::new();
    let spend = open_on(&store, money(1_000), &ManualWallClock::at(START));
    store.delegate(&Grant::new("a", "b")).unwrap();
    store.delegate(&Grant::new("b", "a")).unwrap();
    assert!(matches!(spend.hold(&call("a"), &cost(1)), Err(SpendError::TooDeep { most: 64, .. })));
    assert!(matches!(spend.delegate(&Grant::new("c", "a")), Err(SpendError::TooDeep { .. })));
}

#[test]
fn a_grant_is_delegated_up_to_64_times_below_the_policy() {
    let store = MemoryStore::new();
    let clock = ManualWallClock::at(START);
    let policy = || money(1_000).family(Family::new("g0").calls(10));
    let spend = open_on(&store, policy(), &clock);
    for depth in 1..=64 {
        spend.delegate(&Grant::new(format!("g{depth}"), format!("g{}", depth - 1))).unwrap();
    }
    let deeper = spend.delegate(&Grant::new("g65", "g64"));
    assert!(matches!(deeper, Err(SpendError::TooDeep { most: 64, .. })));
    drop(spend);
    let spend = open_on(&store, policy(), &clock);
    spend.hold(&call("g64"), &one(1)).unwrap().settle(&one(1)).unwrap();
    assert!(matches!(spend.delegate(&Grant::new("g65", "g64")), Err(SpendError::TooDeep { .. })));
    assert!(matches!(spend.hold(&call("g65"), &one(1)), Err(SpendError::UnknownGrant { .. })));
}

#[test]
fn a_chain_stays_usable_when_the_policy_no_longer_names_a_grant_of_it() {
    let (store, clock) = (MemoryStore::new(), ManualWallClock::at(START));
    let base = || money(1_000).family(Family::new("root").calls(10));
    let spend = open_on(&store, base(), &clock);
    spend.delegate(&Grant::new("g0", "root")).unwrap();
    drop(spend);
    let spend = open_on(&store, base().grant(Grant::new("g0", "root")), &clock);
    let next = |n: u32| spend.delegate(&Grant::new(format!("g{n}"), format!("g{}", n - 1)));
    let deepest = (1..=99).take_while(|&n| next(n).is_ok()).last().unwrap();
    assert_eq!(deepest, 63, "64 with the one that the policy names too");
    drop(spend);
    let spend = open_on(&store, base(), &clock);
    spend.hold(&call(&format!("g{deepest}")), &one(1)).unwrap().release().unwrap();
}

#[test]
fn as_many_grants_as_there_may_be_are_delegated() {
    for place in Place::all() {
        let policy = || family().grant_cap(2);
        let clock = ManualWallClock::at(START);
        let spend = place.open(policy(), &clock);
        spend.delegate(&Grant::new("a", "root")).unwrap();
        spend.delegate(&Grant::new("b", "root")).unwrap();
        drop(spend);
        let spend = place.open(policy(), &clock);
        let full = spend.delegate(&Grant::new("c", "root"));
        assert!(matches!(full, Err(SpendError::Store(StoreError::Full { cap: 2, .. }))), "{full:?}");
        spend.delegate(&Grant::new("b", "root")).unwrap();
        assert!(matches!(spend.hold(&call("c"), &one(1)), Err(SpendError::UnknownGrant { .. })));
    }
}

#[test]
fn of_two_delegations_of_one_grant_at_once_one_is_told_that_it_does_not_count() {
    for round in 0..50 {
        let store = Fragile::new(MemoryStore::new());
        let spend = open_on(&store, family(), &ManualWallClock::at(START));
        let start = std::sync::Barrier::new(2);
        let delegate = |ceiling: u64| {
            let grant = Grant::new("g", "root").ceiling(ceiling);
            start.wait();
            spend.delegate(&grant).is_ok().then_some(grant)
        };
        let told = std::thread::scope(|scope| {
            let delegate = &delegate;
            let both = [50, 1].map(|ceiling| scope.spawn(move || delegate(ceiling)));
            both.map(|thread| thread.join().unwrap())
        });
        let kept = store.grant("g").unwrap();
        assert_eq!(told.iter().flatten().count(), 1, "round {round}");
        assert!(told.contains(&kept), "round {round}");
    }
}
