//! Rate limits that went wrong elsewhere, as reported in public, as quotas of effects.

use crate::cases::{Answer, Case, Limit};
use crate::fixture::*;
use crate::table_model::{Draw, Layout, TableModel};
use tollgate::time::Clock;

fn quota(limit: Limit) -> QuotaRule {
    match limit {
        Limit::Bucket { capacity, refill, period_ns } => {
            QuotaRule::rate(refill, Duration::from_nanos(period_ns)).burst(capacity)
        }
        Limit::Window { limit, period_ns } => QuotaRule::max(limit, Duration::from_nanos(period_ns)),
    }
}

fn run(case: &Case) {
    let clock = ManualClock::new();
    let effects = effects(rule(case.limits.iter().copied().map(quota)), &clock);
    let (gate, _) = counted(&effects);
    let lines = case.limits.iter().map(|limit| limit.line().expect("a line that fits")).collect();
    let mut model = TableModel::new(lines, Layout::Apart, 4);
    for ((at, cost), right) in case.each_call().into_iter().zip(case.each_answer()) {
        clock.set(at);
        let draws: Vec<_> = (0..case.limits.len()).map(|limit| Draw { limit, key: "alice", cost }).collect();
        let exact = model.call(clock.now(), &draws);
        let place = format!("{} at {at}, cost {cost} ({})", case.id, case.source);
        let asked = gate.permit("alice", cost);
        match (right, asked) {
            (Answer::A, Err(EffectError::ZeroCost { .. })) => assert_eq!(cost, 0, "{place}"),
            (Answer::A, Ok(Outcome::Done(permit))) => drop(permit),
            (Answer::D, Err(error @ EffectError::EffectQuotaExhausted { .. })) => {
                let wait = exact.expect_err(&place).retry_after.expect("a wait helps");
                // An effect's ticks may be coarser than the oracle's: a microsecond.
                let (told, exact) = (error.retry_at().expect(&place), clock.now() + wait);
                assert!(told.abs_diff(exact) < 1_000, "{place}: {told}, exactly {exact}");
            }
            (Answer::N, Err(EffectError::Impossible { .. })) => {}
            (_, answer) => panic!("{place}: {answer:?}, right: {right:?}"),
        }
    }
}

#[test]
fn every_reported_case_has_its_right_answers() {
    let mut run_through = 0;
    // One of them is too large for any counter: it is refused when it is built.
    for case in Case::all().iter().filter(|case| case.id != "C03-huge") {
        run(case);
        run_through += 1;
    }
    assert_eq!(run_through, 19);
    let huge = Case::named("C03-huge");
    let built = builder(rule([quota(huge.limits[0])]), &ManualClock::new()).build();
    assert!(matches!(built, Err(EffectsError::Quota { .. })), "{built:?}");
}
