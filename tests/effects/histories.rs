//! Random histories: what holds over any span of time, whatever was asked, refunded and emitted.

use crate::fixture::*;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Advance(u64),
    /// Where whole tokens do not matter.
    Crawl(u64),
    Ask(u64),
    /// Which of the held permits, counted around.
    Refund(usize),
    Emit(usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u64..=3).prop_map(|steps| Step::Advance(steps * 200_000_000)),
        1 => (0u64..=1_000_000_000).prop_map(Step::Crawl),
        5 => (1u64..=6).prop_map(Step::Ask),
        2 => any::<usize>().prop_map(Step::Refund),
        2 => any::<usize>().prop_map(Step::Emit),
        1 => any::<usize>().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..200)
}

struct History {
    /// When, and what of the grant was kept.
    grants: Vec<(u64, u64)>,
    emissions: Vec<(u64, u64)>,
}

fn run(rule: EffectRule, steps: &[Step], crawling: bool) -> History {
    let clock = ManualClock::new();
    let gate = gate(rule, &clock);
    let mut history = History { grants: Vec::new(), emissions: Vec::new() };
    let mut held: Vec<(usize, Permit<Search>)> = Vec::new();
    for &step in steps {
        match step {
            Step::Crawl(by) if crawling => clock.advance(Duration::from_nanos(by)),
            Step::Advance(by) => clock.advance(Duration::from_nanos(by)),
            Step::Ask(cost) => match gate.permit("alice", cost) {
                Ok(Outcome::Done(permit)) => {
                    history.grants.push((permit.granted_at(), cost));
                    held.push((history.grants.len() - 1, permit));
                }
                Ok(Outcome::Shed(_)) => unreachable!(),
                Err(error) => assert!(error.retry_at().is_some_and(|at| at > now(&clock))),
            },
            Step::Refund(which) if !held.is_empty() => {
                let (grant, permit) = held.swap_remove(which % held.len());
                history.grants[grant].1 -= permit.refund().tokens[0];
            }
            Step::Emit(which) if !held.is_empty() => {
                let (_, permit) = held.swap_remove(which % held.len());
                let (now, cost) = (now(&clock), permit.cost());
                if gate.emit(permit, &"q".into()).is_ok() {
                    history.emissions.push((now, cost));
                }
            }
            Step::Drop(which) if !held.is_empty() => drop(held.swap_remove(which % held.len())),
            _ => {}
        }
    }
    history
}

fn now(clock: &ManualClock) -> u64 {
    tollgate::time::Clock::now(clock)
}

/// In any span the sum is at most `capacity + limit * (span + slack) / period`.
fn assert_spans(events: &[(u64, u64)], capacity: u64, limit: u64, period: u64, slack: u64) {
    for (first, &(from, _)) in events.iter().enumerate() {
        let mut sum = 0u128;
        for &(to, cost) in &events[first..] {
            sum += u128::from(cost);
            let span = u128::from(to - from) + u128::from(slack);
            let allowed = u128::from(capacity) * u128::from(period) + u128::from(limit) * span;
            assert!(sum * u128::from(period) <= allowed, "{sum} within {span} ns from {from}");
        }
    }
}

proptest! {
    #[test]
    fn grants_less_refunds_fit_capacity_and_refill_in_any_span(
        steps in steps(), burst in 6u64..16
    ) {
        // A token in 200 ms, and time in steps of it: so every refund is of whole tokens, and the sums are exact.
        let history = run(rule([QuotaRule::rate(5, SECOND).burst(burst)]).ttl(DAY), &steps, false);
        assert_spans(&history.grants, burst, 5, ns(SECOND), 0);
    }

    #[test]
    fn emissions_fit_capacity_and_refill_in_any_span_and_the_time_to_live(
        steps in steps(), limit in 1u64..6, burst in 6u64..16, ttl in 1u64..3
    ) {
        let ttl = SECOND * ttl as u32;
        let history = run(rule([QuotaRule::rate(limit, SECOND).burst(burst)]).ttl(ttl), &steps, true);
        let mut emissions = history.emissions;
        emissions.sort_unstable();
        assert_spans(&emissions, burst, limit, ns(SECOND), ns(ttl));
    }

    #[test]
    fn a_window_never_grants_more_than_its_limit_less_refunds(steps in steps(), limit in 6u64..16) {
        let history = run(rule([QuotaRule::max(limit, SECOND * 3)]).ttl(DAY), &steps, true);
        let mut windows = std::collections::HashMap::new();
        for (at, kept) in history.grants {
            *windows.entry(at / ns(SECOND * 3)).or_insert(0) += kept;
        }
        prop_assert!(windows.values().all(|&sum| sum <= limit), "{windows:?}");
    }
}
