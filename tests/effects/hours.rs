//! Allowed hours together with quotas.

use crate::fixture::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn office(outside: OnExhausted) -> AllowedHours {
    AllowedHours::new("09:00", "17:00", "UTC").unwrap().outside(outside)
}

#[test]
fn outside_the_hours_nothing_is_granted_and_nothing_drawn() {
    let clock = ManualClock::new(); // midnight
    let effects = effects(rule([QuotaRule::rate(1, MINUTE)]).hours(office(OnExhausted::Block)), &clock);
    let (gate, _) = counted(&effects);
    let error = refused(&gate, 1);
    assert_eq!(error.retry_at(), Some(ns(HOUR * 9)));
    assert!(error.to_string().contains("09:00-17:00 UTC"), "{error}");
    assert_eq!(effects.peek("Search", "alice").unwrap(), [1]);
    clock.advance(HOUR * 9 - Duration::from_nanos(1));
    refused(&gate, 1);
    clock.advance(Duration::from_nanos(1));
    gate.emit(permit(&gate, 1), &"q".into()).unwrap();
}

#[test]
fn a_retry_honours_both_the_quota_and_the_hours() {
    let clock = ManualClock::new();
    let quota = QuotaRule::rate(1, HOUR * 2);
    let gate = gate(rule([quota]).hours(office(OnExhausted::Block)), &clock);
    clock.advance(HOUR * 16);
    let _four_o_clock = permit(&gate, 1);
    // The quota allows the next at 18:00, which is after the hours.
    assert_eq!(refused(&gate, 1).retry_at(), Some(ns(HOUR * (24 + 9))));
    clock.advance(HOUR * 17);
    let _next_morning = permit(&gate, 1);
}

#[test]
fn the_hours_have_an_answer_of_their_own_and_the_strictest_holds() {
    let clock = ManualClock::new();
    let shed = rule([QuotaRule::rate(1, MINUTE)]).hours(office(OnExhausted::Shed));
    assert!(gate(shed, &clock).call(Call::of("alice"), &"q".into()).unwrap().is_shed());

    let effects = effects(rule([QuotaRule::rate(1, DAY)]).hours(office(OnExhausted::Defer)), &clock);
    let (gate, _) = counted(&effects);
    let deferred = gate.call(Call::of("alice"), &"q".into()).unwrap_err();
    assert!(matches!(deferred, EffectError::EffectDeferred { .. }));
    assert_eq!(deferred.retry_at(), Some(ns(HOUR * 9)));
    clock.advance(HOUR * 9);
    assert_eq!(gate.run_due(effects.now()).emitted.len(), 1);
    clock.advance(HOUR * 8);
    // Closed, and the day's token is spent: that quota blocks.
    let blocked = gate.call(Call::of("alice"), &"q".into()).unwrap_err();
    assert!(matches!(blocked, EffectError::EffectQuotaExhausted { .. }), "{blocked}");
    assert_eq!(blocked.retry_at(), Some(ns(HOUR * 33)));
}

#[test]
fn a_permit_is_not_emitted_once_the_hours_are_over() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(2, DAY)]).ttl(DAY).hours(office(OnExhausted::Block)), &clock);
    let (gate, runs) = counted(&effects);
    clock.advance(HOUR * 17 - Duration::from_nanos(1));
    let permit = permit(&gate, 1);
    clock.advance(Duration::from_nanos(1));
    let unsent = gate.emit(permit, &"q".into()).unwrap_err();
    assert_eq!(unsent.reason, UnsentReason::OutsideHours { opens_at: Some(ns(HOUR * 33)) });
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    // It comes back, and is still good in the morning.
    clock.advance(HOUR * 16);
    gate.emit(unsent.permit, &"q".into()).unwrap();
}
