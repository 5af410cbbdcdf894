//! Budgets across a restart.

use crate::fixture::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn quotas() -> [QuotaRule; 2] {
    [QuotaRule::rate(60, HOUR), QuotaRule::max(100, DAY)]
}

/// The state after 50 tokens of alice's, saved at 1 hour of wall-clock time.
fn saved() -> Vec<u8> {
    let clock = ManualClock::at(ns(HOUR));
    let effects = effects(rule(quotas()), &clock);
    let (gate, _) = counted(&effects);
    let _spent = permit(&gate, 50);
    effects.save()
}

fn restored(quotas: impl IntoIterator<Item = QuotaRule>, state: Vec<u8>, start: Duration) -> Effects {
    let start = std::time::UNIX_EPOCH + start;
    builder(rule(quotas), &ManualClock::new()).starts_at(start).restore(state).build().unwrap()
}

fn left(effects: &Effects, key: &str) -> Vec<u64> {
    effects.peek("Search", key).unwrap()
}

#[test]
fn budgets_are_as_they_were_refilled_for_the_time_since() {
    let at_once = restored(quotas(), saved(), HOUR);
    assert_eq!(left(&at_once, "alice"), [10, 50]);
    assert_eq!(left(&at_once, "bob"), [60, 100]);
    assert_eq!((at_once.restored().buckets, at_once.restored().begun_empty.len()), (2, 0));
    let later = restored(quotas(), saved(), HOUR + MINUTE * 20);
    assert_eq!(left(&later, "alice"), [30, 50]);
    let next_day = restored(quotas(), saved(), DAY);
    assert_eq!(left(&next_day, "alice"), [60, 100]);
    let clock_set_back = restored(quotas(), saved(), Duration::ZERO);
    assert_eq!(left(&clock_set_back, "alice"), [10, 50]);
}

#[test]
fn budgets_are_found_by_definition_and_not_by_position() {
    let [rate, max] = quotas();
    let turned = restored([max, rate.on_exhausted(OnExhausted::Shed)], saved(), HOUR);
    assert_eq!(left(&turned, "alice"), [50, 10]);
}

#[test]
fn a_quota_that_was_changed_or_added_begins_empty_and_says_so() {
    let [rate, max] = quotas();
    let effects = restored([rate, QuotaRule::max(200, DAY), max], saved(), HOUR);
    assert_eq!(left(&effects, "alice"), [10, 0, 50]);
    assert_eq!(left(&effects, "bob"), [60, 0, 100]);
    let begun = &effects.restored().begun_empty;
    assert_eq!((begun.len(), begun[0].quota.as_str()), (1, "max 200 per 86400000000000ns from 0ns"));
    let without = restored([rate], saved(), HOUR);
    assert_eq!((without.restored().left_out, left(&without, "alice")), (1, vec![10]));
}

#[test]
fn an_empty_beginning_refills_as_any_bucket_does() {
    let clock = ManualClock::new();
    let effects = builder(rule([QuotaRule::rate(60, HOUR)]), &clock).restore(Vec::new()).build().unwrap();
    let (gate, _) = counted(&effects);
    assert_eq!(refused(&gate, 1).retry_at(), Some(ns(MINUTE)));
    clock.advance(MINUTE * 3);
    let _three = permit(&gate, 3);
    refused(&gate, 1);
    assert_eq!(left(&effects, "bob"), [3]);
    clock.advance(HOUR);
    assert_eq!(left(&effects, "carol"), [60]);
}

#[test]
fn a_state_that_cannot_be_read_begins_empty_whatever_is_wrong_with_it() {
    let good = saved();
    for at in (0..good.len()).step_by(7) {
        let mut altered = good.clone();
        altered[at] ^= 1;
        let effects = restored(quotas(), altered, HOUR);
        assert_eq!(left(&effects, "alice"), [0, 0], "byte {at}");
        assert_eq!(left(&effects, "bob"), [0, 0], "byte {at}");
        assert_eq!(effects.restored().begun_empty.len(), 2);
    }
    for cut in (0..good.len()).step_by(11) {
        assert_eq!(left(&restored(quotas(), good[..cut].to_vec(), HOUR), "bob"), [0, 0]);
    }
}

#[test]
fn more_buckets_than_there_is_room_for_are_an_error_and_not_forgotten() {
    let clock = ManualClock::new();
    let many = effects(rule([QuotaRule::rate(2, HOUR)]), &clock);
    let (gate, _) = counted(&many);
    for key in ["a", "b", "c"] {
        drop(gate.permit(key, 1).unwrap());
    }
    let small = rule([QuotaRule::rate(2, HOUR)]).bucket_cap(2);
    let error = builder(small, &clock).restore(many.save()).build().unwrap_err();
    assert!(matches!(error, EffectsError::StateTooLarge { .. }), "{error}");
}

#[test]
fn a_state_survives_several_restarts() {
    let mut state = saved();
    for _ in 0..5 {
        state = restored(quotas(), state, HOUR).save();
    }
    assert_eq!(left(&restored(quotas(), state, HOUR), "alice"), [10, 50]);
}

#[test]
fn what_begins_empty_is_no_fuller_after_the_next_restart() {
    let wall = |minutes: u32| std::time::UNIX_EPOCH + MINUTE * minutes;
    let begin = |state: Vec<u8>, minutes: u32| {
        let rule = rule([QuotaRule::rate(60, HOUR), QuotaRule::max(5, DAY)]);
        builder(rule, &ManualClock::new()).starts_at(wall(minutes)).restore(state).build().unwrap()
    };
    let damaged = begin(b"garbage".to_vec(), 0);
    assert_eq!(left(&damaged, "alice"), [0, 0]);
    let again = begin(damaged.save(), 10);
    assert_eq!((left(&again, "alice"), left(&again, "bob")), (vec![10, 0], vec![10, 0]));
    assert!(again.restored().begun_empty.is_empty());
    let and_again = begin(again.save(), 30);
    assert_eq!(left(&and_again, "carol"), [30, 0]);
    let next_day = begin(and_again.save(), 24 * 60);
    assert_eq!(left(&next_day, "alice"), [60, 5]);
}

#[test]
fn many_buckets_are_restored_through_a_small_journal() {
    let clock = ManualClock::new();
    let many = effects(rule([QuotaRule::rate(2, HOUR)]), &clock);
    let (gate, _) = counted(&many);
    for number in 0..500u64 {
        drop(gate.permit(&number, 1).unwrap());
    }
    let journal = Journal::to(Vec::new()).capacity(4).when_full(WhenFull::Refuse);
    let again = builder(rule([QuotaRule::rate(2, HOUR)]), &clock).restore(many.save()).journal(journal);
    assert_eq!(again.build().unwrap().restored().buckets, 500);
}
