//! Refunds of permits.

use crate::fixture::*;

fn four_a_burst_two_a_second(clock: &ManualClock) -> Effects {
    effects(rule([QuotaRule::rate(2, SECOND).burst(4)]), clock)
}

#[test]
fn a_second_refund_gives_nothing_that_the_first_gave_back_already() {
    let clock = ManualClock::new();
    let effects = four_a_burst_two_a_second(&clock);
    let (gate, _) = counted(&effects);
    let first = permit(&gate, 2);
    let second = permit(&gate, 2);
    clock.advance(SECOND / 2);
    assert_eq!(first.refund().tokens, [1]);
    clock.advance(SECOND);
    let _third = permit(&gate, 2);
    assert_eq!(second.refund().tokens, [0]);
    assert_eq!(effects.peek("Search", "alice").unwrap(), [2], "with the third, one burst and no more");
}

#[test]
fn a_refund_at_once_gives_everything_back_and_a_dropped_permit_nothing() {
    let clock = ManualClock::new();
    let effects = four_a_burst_two_a_second(&clock);
    let (gate, _) = counted(&effects);
    assert_eq!(permit(&gate, 3).refund().tokens, [3]);
    assert_eq!(effects.peek("Search", "alice").unwrap(), [4]);
    drop(permit(&gate, 3));
    assert_eq!(effects.peek("Search", "alice").unwrap(), [1]);
}

#[test]
fn a_refund_goes_to_every_quota_by_its_own_clock() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(2, SECOND).burst(4), QuotaRule::max(10, DAY)]), &clock);
    let (gate, _) = counted(&effects);
    let permit = permit(&gate, 4);
    clock.advance(SECOND);
    assert_eq!(
        permit.refund().tokens,
        [2, 4],
        "the rate refilled two of them; the day gives nothing by itself"
    );
    assert_eq!(effects.peek("Search", "alice").unwrap(), [4, 10]);
}

#[test]
fn a_refund_in_a_later_window_gives_nothing() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::max(3, MINUTE)]).ttl(DAY), &clock);
    let (gate, _) = counted(&effects);
    let old = permit(&gate, 2);
    clock.advance(MINUTE);
    let _new = permit(&gate, 3);
    assert_eq!(old.refund().tokens, [0]);
    refused(&gate, 1);
}

#[test]
fn a_refund_frees_the_bucket_for_a_newcomer_at_once() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::max(3, DAY)]).bucket_cap(1), &clock);
    let (gate, _) = counted(&effects);
    let held = permit(&gate, 3);
    assert!(matches!(gate.permit("bob", 1), Err(EffectError::TableFull { .. })));
    held.refund();
    let _bob = gate.permit("bob", 1).unwrap();
    assert!(matches!(gate.permit("alice", 1), Err(EffectError::TableFull { .. })));
}

#[test]
fn refunds_by_many_threads_give_back_what_they_say() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(1_000, DAY), QuotaRule::max(1_000, DAY)]), &clock);
    let (gate, _) = counted(&effects);
    let kept = std::thread::scope(|scope| {
        let work = |seed: u64| {
            let gate = &gate;
            move || {
                let mut kept = [0, 0];
                for turn in 0..100 {
                    let permit = permit(gate, 1 + (turn + seed) % 2);
                    let cost = permit.cost();
                    let back = if turn % 3 == 0 { vec![0, 0] } else { permit.refund().tokens };
                    kept = [kept[0] + cost - back[0], kept[1] + cost - back[1]];
                }
                kept
            }
        };
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(work(seed))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).fold([0, 0], |sum, k| [sum[0] + k[0], sum[1] + k[1]])
    });
    assert_eq!(effects.peek("Search", "alice").unwrap(), [1_000 - kept[0], 1_000 - kept[1]]);
}
