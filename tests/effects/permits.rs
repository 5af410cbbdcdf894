//! Permits and emissions.

use crate::fixture::*;

#[test]
fn three_at_once_a_fourth_after_half_a_second_and_not_earlier() {
    let clock = ManualClock::new();
    let gate = gate(rule([QuotaRule::rate(2, SECOND).burst(3)]), &clock);
    for _ in 0..3 {
        assert_eq!(gate.emit(permit(&gate, 1), &"rust".into()).unwrap(), 4);
    }
    let error = refused(&gate, 1);
    assert_eq!(error.retry_at(), Some(500_000_000));
    assert!(matches!(error, EffectError::EffectQuotaExhausted { ref effect, .. } if effect == "Search"));
    clock.advance(Duration::from_millis(250));
    assert_eq!(refused(&gate, 1).retry_at(), Some(500_000_000));
    clock.advance(Duration::from_millis(250));
    let _fourth = permit(&gate, 1);
    refused(&gate, 1);
}

#[test]
fn of_many_threads_exactly_one_is_granted_the_token_that_came_back() {
    let clock = ManualClock::new();
    let gate = gate(rule([QuotaRule::rate(2, SECOND).burst(3)]), &clock);
    let granted_by_8 = || {
        let barrier = std::sync::Barrier::new(8);
        let one = || {
            barrier.wait();
            gate.permit("alice", 1).is_ok()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|t| usize::from(t.join().unwrap())).sum::<usize>()
        })
    };
    assert_eq!(granted_by_8(), 3);
    clock.advance(Duration::from_millis(250));
    assert_eq!(granted_by_8(), 0);
    clock.advance(Duration::from_millis(250));
    assert_eq!(granted_by_8(), 1);
}

#[test]
fn all_quotas_grant_or_none_is_touched() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(10, SECOND), QuotaRule::max(2, DAY)]), &clock);
    let (gate, _) = counted(&effects);
    let _first = permit(&gate, 2);
    assert_eq!(effects.peek("Search", "alice").unwrap(), [8, 0]);
    for _ in 0..5 {
        assert_eq!(refused(&gate, 1).retry_at(), Some(ns(DAY)));
    }
    assert_eq!(effects.peek("Search", "alice").unwrap(), [8, 0]);
    assert_eq!(effects.peek("Search", "bob").unwrap(), [10, 2], "each key has budgets of its own");
}

#[test]
fn a_max_has_no_refill_inside_its_window_and_two_windows_meet_at_their_boundary() {
    let clock = ManualClock::new();
    let gate = gate(rule([QuotaRule::max(5, MINUTE)]), &clock);
    clock.advance(MINUTE - Duration::from_nanos(1));
    let _five = permit(&gate, 5);
    assert_eq!(refused(&gate, 1).retry_at(), Some(ns(MINUTE)));
    clock.advance(Duration::from_nanos(1));
    let _five_more = permit(&gate, 5);
    clock.advance(MINUTE - Duration::from_nanos(1));
    refused(&gate, 1);
}

#[test]
fn windows_lie_on_a_grid_in_wall_clock_time() {
    let clock = ManualClock::new();
    // The engine starts at 1970-01-01 23:00 UTC; days are counted from 06:00.
    let start = std::time::UNIX_EPOCH + Duration::from_secs(23 * 3_600);
    let quota = QuotaRule::max(1, DAY).anchored_at(Duration::from_secs(6 * 3_600));
    let effects = builder(rule([quota]), &clock).starts_at(start).build().unwrap();
    let (gate, _) = counted(&effects);
    let _one = permit(&gate, 1);
    assert_eq!(refused(&gate, 1).retry_at(), Some(7 * 3_600_000_000_000));
}

#[test]
fn a_cost_above_the_capacity_never_fits_and_one_of_0_pays_for_nothing() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(10, SECOND), QuotaRule::max(3, DAY)]), &clock);
    let (gate, _) = counted(&effects);
    let error = refused(&gate, 4);
    assert!(
        matches!(&error, EffectError::Impossible { quota, cost: 4, .. } if quota.starts_with("max 3")),
        "{error}"
    );
    assert!(matches!(refused(&gate, 0), EffectError::ZeroCost { .. }));
    assert_eq!(effects.peek("Search", "alice").unwrap(), [10, 3]);
}

#[test]
fn the_strictest_answer_of_the_quotas_that_refused_holds_and_the_latest_retry() {
    use OnExhausted::{Block, Defer, Shed};
    let cases = [
        ([Shed, Defer], [1, 1], Some(Defer)),
        ([Shed, Block], [1, 1], Some(Block)),
        ([Defer, Block], [1, 1], Some(Block)),
        ([Shed, Shed], [1, 1], Some(Shed)),
        // Only those that refused have a say.
        ([Shed, Block], [1, 9], Some(Shed)),
        ([Block, Defer], [9, 1], Some(Defer)),
    ];
    for (answers, limits, expected) in cases {
        let clock = ManualClock::new();
        let quotas = [
            QuotaRule::rate(limits[0], MINUTE).on_exhausted(answers[0]),
            QuotaRule::rate(limits[1], SECOND * 90).on_exhausted(answers[1]),
        ];
        let gate = gate(rule(quotas), &clock);
        gate.call(Call::of("alice"), &String::new()).unwrap().done().unwrap();
        let latest = if limits == [1, 9] { ns(MINUTE) } else { ns(SECOND * 90) };
        let answer = gate.call(Call::of("alice"), &"q".to_owned());
        let (kind, retry_at) = match answer {
            Ok(Outcome::Shed(shed)) => (Shed, shed.retry_at),
            Err(EffectError::EffectDeferred { retry_at, .. }) => (Defer, retry_at),
            Err(EffectError::EffectQuotaExhausted { retry_at, .. }) => (Block, retry_at),
            other => panic!("{other:?}"),
        };
        assert_eq!((Some(kind), retry_at), (expected, Some(latest)), "{answers:?} {limits:?}");
    }
}

#[test]
fn a_shed_call_runs_nothing_and_draws_nothing() {
    let clock = ManualClock::new();
    let quota = QuotaRule::rate(1, MINUTE).on_exhausted(OnExhausted::Shed);
    let effects = effects(rule([quota, QuotaRule::rate(5, MINUTE)]), &clock);
    let (gate, runs) = counted(&effects);
    assert_eq!(gate.call(Call::of("alice"), &"abc".into()).unwrap(), Outcome::Done(3));
    assert!(gate.call(Call::of("alice"), &"abc".into()).unwrap().is_shed());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(effects.peek("Search", "alice").unwrap(), [0, 4]);
}

#[test]
fn a_permit_without_a_payload_cannot_be_deferred_and_is_blocked() {
    let clock = ManualClock::new();
    let quota = QuotaRule::rate(1, MINUTE).on_exhausted(OnExhausted::Defer);
    let effects = effects(rule([quota]), &clock);
    let (gate, _) = counted(&effects);
    let _first = permit(&gate, 1);
    assert!(matches!(refused(&gate, 1), EffectError::EffectQuotaExhausted { .. }));
    assert!(effects.deferred().is_empty());
}

#[test]
fn an_expired_permit_is_not_emitted_and_comes_back() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(2, MINUTE)]).ttl(SECOND), &clock);
    let (gate, runs) = counted(&effects);
    let in_time = permit(&gate, 1);
    let late = permit(&gate, 1);
    assert_eq!((late.expires_at(), late.time_left()), (ns(SECOND), SECOND));
    clock.advance(SECOND);
    gate.emit(in_time, &"x".into()).unwrap();
    clock.advance(Duration::from_nanos(1));
    let unsent = gate.emit(late, &"x".into()).unwrap_err();
    assert_eq!(unsent.reason, UnsentReason::Expired { expired_at: ns(SECOND), now: ns(SECOND) + 1 });
    assert_eq!(unsent.permit.refund().tokens, [1]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_permit_of_another_engine_is_not_emitted() {
    let clock = ManualClock::new();
    let one = gate(rule([QuotaRule::rate(2, MINUTE)]), &clock);
    let (other, runs) = counted(&effects(rule([QuotaRule::rate(2, MINUTE)]), &clock));
    let unsent = other.emit(permit(&one, 1), &"x".into()).unwrap_err();
    assert_eq!(unsent.reason, UnsentReason::AnotherEngine);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    one.emit(unsent.permit, &"x".into()).unwrap();
}

#[test]
fn a_newcomer_for_whom_there_is_no_bucket_is_refused_and_nothing_is_drawn() {
    let clock = ManualClock::new();
    let quotas = [QuotaRule::rate(2, MINUTE), QuotaRule::max(5, DAY)];
    let effects = effects(rule(quotas).bucket_cap(1), &clock);
    let (gate, _) = counted(&effects);
    let _held = permit(&gate, 1);
    assert!(matches!(gate.permit("bob", 1), Err(EffectError::TableFull { .. })));
    assert_eq!(effects.peek("Search", "bob").unwrap(), [2, 5]);
    assert_eq!(effects.peek("Search", "alice").unwrap(), [1, 4]);
}

#[test]
fn a_tool_that_panics_leaves_the_gate_usable_and_its_token_spent() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(2, MINUTE)]), &clock);
    let gate = effects
        .gate::<Search>(|query: &String| if query.is_empty() { panic!("empty") } else { query.len() })
        .unwrap();
    let call = || gate.call(Call::of("alice"), &String::new());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    assert_eq!(gate.call(Call::of("alice"), &"ab".into()).unwrap(), Outcome::Done(2));
    assert_eq!(effects.peek("Search", "alice").unwrap(), [0]);
}
