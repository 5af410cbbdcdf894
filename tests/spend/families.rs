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
