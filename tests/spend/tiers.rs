//! Tiers: budgets that degrade before they block.

use crate::support::*;
use tollgate::spend::*;

fn profile() -> ReducedProfile {
    ReducedProfile {
        max_steps: Some(5),
        subagents: Some(false),
        model: Some("small".into()),
        banner: Some("Reduced until {reset}.".into()),
    }
}

#[test]
fn the_tier_is_that_of_the_fullest_limit_before_the_call() {
    let spend = open(
        shared([Limit::cost(1_000, Window::Lifetime), Limit::tokens(100, Window::Lifetime)]),
        &ManualWallClock::at(START),
    );
    let step = |amounts: &Amounts| {
        let hold = spend.hold(&Call::new(), amounts)?;
        let decision = hold.decision().clone();
        hold.settle(amounts)?;
        Ok::<_, SpendError>(decision)
    };
    let full = step(&cost(699).tokens(10)).unwrap();
    assert_eq!((full.tier, full.set_by), (Tier::Full, None));
    assert_eq!(step(&cost(1)).unwrap().tier, Tier::Full, "699 of 1,000 before it");
    let reduced = step(&cost(1)).unwrap();
    assert_eq!(reduced.tier, Tier::Reduced, "700 of 1,000 before it");
    let cause = reduced.set_by.unwrap();
    assert_eq!(
        (cause.dimension, cause.used, cause.limit, cause.scope.as_str()),
        (Dimension::Cost, 700, 1_000, "all")
    );
    step(&tokens(89)).unwrap();
    assert_eq!(step(&cost(1)).unwrap().set_by.unwrap().dimension, Dimension::Tokens, "99 of 100");
}

#[test]
fn what_is_held_counts_as_what_is_spent() {
    let spend = open(money(1_000), &ManualWallClock::at(START));
    let hold = spend.hold(&Call::new(), &cost(500)).unwrap();
    assert_eq!(hold.extend(&cost(200)).unwrap().tier, Tier::Full);
    assert_eq!(hold.extend(&cost(10)).unwrap().tier, Tier::Reduced);
    assert_eq!(spend.hold(&Call::new(), &cost(0)).unwrap().decision().tier, Tier::Reduced);
}

#[test]
fn blocked_refuses_what_costs_and_passes_what_does_not() {
    let policy = shared([Limit::cost(1_000, rolling(HOUR)), Limit::tokens(100, rolling(HOUR))]);
    let clock = ManualWallClock::at(START);
    let spend = open(policy.tiers(Tiers::new().blocked_at(900_000)), &clock);
    spend.hold(&Call::new(), &tokens(90)).unwrap().settle(&tokens(90)).unwrap();
    let refused = refusal(spend.hold(&Call::new(), &cost(1)));
    assert_eq!((refused.reason, refused.dimension, refused.spent), (Reason::Blocked, Dimension::Tokens, 90));
    assert_eq!(refused.resets_at, Some(START + 61 * MINUTE));
    let free = spend.hold(&Call::new(), &tokens(10)).unwrap();
    assert_eq!(free.decision().tier, Tier::Blocked);
    free.release().unwrap();
    clock.advance(refused.retry_after.unwrap() - 1);
    refusal(spend.hold(&Call::new(), &cost(1)));
    clock.advance(1);
    spend.hold(&Call::new(), &cost(1)).unwrap().release().unwrap();
}

#[test]
fn a_refusal_is_by_the_limit_that_lasts_longest_whether_it_has_no_room_or_blocks() {
    let limits = [Limit::cost(1_000, rolling(MINUTE)), Limit::tokens(100, rolling(HOUR))];
    let clock = ManualWallClock::at(START);
    let spend = open(shared(limits), &clock);
    // The limit of cost is the fuller one, and without room; that of tokens has room for a call without any, and blocks for longer.
    spend.hold(&Call::new(), &cost(1_000).tokens(100)).unwrap().settle(&cost(1_200).tokens(100)).unwrap();
    let refused = refusal(spend.hold(&Call::new(), &cost(1)));
    assert_eq!((refused.reason, refused.dimension), (Reason::Blocked, Dimension::Tokens));
    clock.advance(refused.retry_after.unwrap());
    spend.hold(&Call::new(), &cost(1)).unwrap().release().unwrap();
}

#[test]
fn in_the_blocked_tier_a_caller_who_can_shrink_gets_the_part_that_is_free() {
    let policy = shared([Limit::cost(1_000, Window::Lifetime), Limit::tokens(100, Window::Lifetime)]);
    let spend = open(policy.tiers(Tiers::new().blocked_at(900_000)), &ManualWallClock::at(START));
    spend.hold(&Call::new(), &cost(900)).unwrap().settle(&cost(900)).unwrap();
    let refused = refusal(spend.hold_up_to(&Call::new(), &cost(50).tokens(50), &Amounts::new()));
    assert_eq!(refused.reason, Reason::Blocked, "a part of its cost is asked for too");
}

#[test]
fn runs_seconds_and_calls_set_no_tier_unless_the_policy_says_so() {
    let limits = || {
        shared([
            Limit::concurrent_runs(1),
            Limit::seconds(10, Window::Lifetime),
            Limit::calls(10, Window::Lifetime),
        ])
    };
    let all = Amounts::new().runs(1).seconds(9).calls(8);
    let spend = open(limits(), &ManualWallClock::at(START));
    let _hold = spend.hold(&Call::new(), &all).unwrap();
    assert_eq!(spend.hold(&Call::new(), &cost(1)).unwrap().decision().tier, Tier::Full);
    let spend = open(limits().tiers(Tiers::new().counting([Dimension::Calls])), &ManualWallClock::at(START));
    let _hold = spend.hold(&Call::new(), &all).unwrap();
    let decision = spend.hold(&Call::new(), &cost(1)).unwrap().decision().clone();
    assert_eq!((decision.tier, decision.set_by.unwrap().dimension), (Tier::Reduced, Dimension::Calls));
}

#[test]
fn the_decision_carries_the_reduced_profile_and_a_banner_with_the_time_of_the_reset() {
    let clock = ManualWallClock::at(START);
    let spend = open(shared([Limit::cost(1_000, rolling(HOUR))]).reduced(profile()), &clock);
    let first = spend.hold(&Call::new(), &cost(700)).unwrap();
    assert!(first.decision().reduced.is_none());
    first.settle(&cost(700)).unwrap();
    let hold = spend.hold(&Call::new(), &cost(10)).unwrap();
    let reduced = hold.decision().reduced.as_deref().unwrap();
    assert_eq!(
        (reduced.max_steps, reduced.subagents, reduced.model.as_deref()),
        (Some(5), Some(false), Some("small"))
    );
    assert_eq!(hold.decision().set_by.as_ref().unwrap().resets_at, Some(START + 61 * MINUTE));
    assert_eq!(reduced.banner.as_deref(), Some("Reduced until 2026-06-01T01:01:00Z."));
}

#[test]
fn thresholds_are_exact_to_the_unit() {
    for (used, tier) in [(699_999, Tier::Full), (700_000, Tier::Reduced), (999_999, Tier::Reduced)] {
        let spend = open(money(1_000_000), &ManualWallClock::at(START));
        spend.hold(&Call::new(), &cost(used)).unwrap().settle(&cost(used)).unwrap();
        assert_eq!(spend.hold(&Call::new(), &cost(1)).unwrap().decision().tier, tier, "{used}");
    }
}
