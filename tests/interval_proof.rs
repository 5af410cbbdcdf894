//! The interval proof accepts what a working limit can do, and rejects forged histories of every kind.

#[path = "support/intervals.rs"]
mod intervals;
#[path = "support/oracle.rs"]
mod oracle;

use intervals::{Broken, Proved, Record, left_after, prove};
use oracle::{Answer, Line};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
/// Units of a token of [`line`].
const TOKEN: u64 = 10_000_000;

/// 100 a second, bursts of 10: one token in 10 ms, a unit a nanosecond.
fn line() -> Line {
    let line = Line::bucket(100, SECOND, 10, 64).unwrap();
    assert_eq!(line.units(1), u128::from(TOKEN));
    line
}

/// The records that a sequential limit leaves for draws of `(time, cost)`, and the sum of the admitted costs.
fn honest(line: &Line, draws: &[(u64, u64)]) -> (Vec<Record<u8>>, u64) {
    let (mut mark, mut records, mut sum) = (line.tokens_of(0), Vec::new(), 0);
    for &(at, cost) in draws {
        if let (Answer::Admit(end), true) = (line.decide(&mark, at, cost), cost > 0) {
            let to = u64::try_from(line.units_of(&end)).unwrap();
            records.push(Record { bucket: 0, at, from: to - cost * line.units(1) as u64, to });
            (mark, sum) = (end, sum + cost);
        }
    }
    (records, sum)
}

fn judge(records: Vec<Record<u8>>, told: u64) -> Result<Proved, Broken<u8>> {
    let line = line();
    prove(records, &BTreeMap::from([(0, told)]), |_| &line)
}

/// Ten tokens at once, a pause of a second, three more: a history with one gap that a refill explains.
fn drained_and_refilled() -> (Vec<Record<u8>>, u64) {
    let draws: Vec<(u64, u64)> = (0..10).map(|_| (0, 1)).chain((0..3).map(|_| (SECOND, 1))).collect();
    honest(&line(), &draws)
}

#[test]
fn an_honest_history_is_proved_in_any_order() {
    let (mut records, told) = drained_and_refilled();
    assert_eq!(judge(records.clone(), told), Ok(Proved { buckets: 1, admissions: 13 }));
    records.reverse();
    records.swap(2, 7);
    assert_eq!(judge(records, told), Ok(Proved { buckets: 1, admissions: 13 }));
}

#[test]
fn two_owners_of_one_unit_are_found() {
    let (mut records, told) = drained_and_refilled();
    records[4].from -= 1;
    records[4].to -= 1;
    assert!(matches!(judge(records, told), Err(Broken::Overlap(..))));
}

#[test]
fn an_admission_recorded_twice_is_found() {
    let (mut records, told) = drained_and_refilled();
    records.push(records[5].clone());
    // Even where the caller counted it twice, too.
    assert!(matches!(judge(records, told + 1), Err(Broken::Overlap(one, other)) if one == other));
}

#[test]
fn an_admission_above_the_capacity_is_found_even_when_it_follows_on() {
    let (mut records, told) = drained_and_refilled();
    let last_of_burst = records[9].clone();
    records[10] = Record { from: last_of_burst.to, to: last_of_burst.to + TOKEN, ..last_of_burst };
    assert!(
        matches!(judge(records, told), Err(Broken::OverCapacity { allowed, .. }) if allowed == 10 * u128::from(TOKEN))
    );
}

#[test]
fn an_admission_one_unit_above_the_capacity_is_found() {
    let records = vec![Record { bucket: 0, at: 5, from: 6, to: 6 + 10 * TOKEN }];
    // Begins one above the line as well, which alone would be a gap.
    assert!(matches!(judge(records, 10), Err(Broken::Gap { before: None, .. })));
    let (mut records, told) = honest(&line(), &[(5, 4), (5, 6)]);
    records[1].to += 1;
    assert!(matches!(judge(records, told), Err(Broken::OverCapacity { .. })));
}

#[test]
fn a_lost_debit_is_found_as_a_gap() {
    for lost in 0..9 {
        let (mut records, told) = drained_and_refilled();
        let gone = records.remove(lost);
        match judge(records, told - 1) {
            Err(Broken::Gap { after, .. }) => assert_eq!(after.from, gone.to),
            other => panic!("lost {gone:?}: {other:?}"),
        }
    }
}

#[test]
fn a_debit_lost_at_the_end_is_found_by_the_total_and_by_what_is_left() {
    let (mut records, told) = drained_and_refilled();
    let whole = left_after(&records, &0, &line(), SECOND);
    records.pop();
    assert!(matches!(judge(records.clone(), told), Err(Broken::Total { owned, told, .. }) if owned < told));
    assert_eq!((whole, left_after(&records, &0, &line(), SECOND)), (7, 8));
}

#[test]
fn a_debit_lost_just_before_a_refill_is_found_by_the_total() {
    let (mut records, told) = drained_and_refilled();
    records.remove(9); // the gap after it is explained by the refill
    assert!(matches!(judge(records, told), Err(Broken::Total { .. })));
}

#[test]
fn a_refill_that_did_not_happen_is_no_explanation() {
    let (mut records, told) = drained_and_refilled();
    for record in &mut records[10..] {
        record.at = SECOND / 10; // says it was decided when only this much was released
    }
    assert!(matches!(judge(records, told), Err(Broken::Gap { .. })));
}

#[test]
fn units_that_were_thrown_away_cannot_be_owned() {
    // A full bucket forgets what is released on top; an admission must begin at the line.
    let records = vec![Record { bucket: 0, at: SECOND, from: 0, to: TOKEN }];
    assert!(matches!(judge(records, 1), Err(Broken::BelowTheLine { .. })));
}

#[test]
fn an_interval_without_units_is_found() {
    for to in [7, 3] {
        let records = vec![Record { bucket: 0, at: 0, from: 7, to }];
        assert!(matches!(judge(records, 0), Err(Broken::Empty(_))));
    }
}

#[test]
fn a_bucket_of_which_no_record_tells_is_found() {
    let (records, told) = drained_and_refilled();
    let line = line();
    let all_told = BTreeMap::from([(0, told), (1, 4)]);
    assert!(matches!(prove(records, &all_told, |_| &line), Err(Broken::Total { bucket: 1, owned: 0, .. })));
}

#[test]
fn buckets_are_judged_apart() {
    let (records, told) = drained_and_refilled();
    let other = records.iter().map(|record| Record { bucket: 1, ..record.clone() });
    let both: Vec<_> = records.iter().cloned().chain(other).collect();
    let line = line();
    let all_told = BTreeMap::from([(0, told), (1, told)]);
    assert_eq!(prove(both, &all_told, |_| &line), Ok(Proved { buckets: 2, admissions: 26 }));
}

#[test]
fn a_rejection_prints_the_records_that_show_it() {
    let (mut records, told) = drained_and_refilled();
    records.push(records[5].clone());
    let text = judge(records.clone(), told).unwrap_err().to_string();
    assert!(text.contains(&format!("{:?}", records[5])), "{text}");
}

fn draws() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..60_000_000u64, 0..12u64), 1..60).prop_map(|steps| {
        steps
            .into_iter()
            .scan(0, |now, (step, cost)| {
                *now += step * (step % 3 % 2);
                Some((*now, cost))
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_honest_history_is_proved(draws in draws()) {
        let (records, told) = honest(&line(), &draws);
        prop_assert!(judge(records, told).is_ok());
    }

    /// Shifting, growing or shrinking one interval by any amount breaks a neighbour, the line or the total.
    #[test]
    fn no_forged_interval_is_proved(draws in draws(), which in any::<prop::sample::Index>(), by in 1..30_000_000u64, how in 0..4u8) {
        let (mut records, told) = honest(&line(), &draws);
        prop_assume!(!records.is_empty());
        let record = which.get(&records).clone();
        let at = records.iter().position(|r| *r == record).unwrap();
        match how {
            0 => { records[at].from += by; records[at].to += by; }
            1 => records[at].to += by,
            2 => records[at].from += by,
            _ => { records[at].from = record.from.saturating_sub(by); }
        }
        prop_assume!(records[at] != record);
        let verdict = judge(records, told);
        prop_assert!(verdict.is_err(), "{:?} forged ({}, {}) and proved", record, how, by);
    }
}
