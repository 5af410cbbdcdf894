//! Limiters decide as one big lock would: random traces, one call after another, against the table model.
//!
//! Every verdict, reason, wait and remainder must be the model's, and every admission must own exactly the units
//! that the model gives it. A table forgets refilled buckets when it needs room, so that its length lies between
//! the model's live buckets and those ever drawn on, and never above the cap.

#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/table_model.rs"]
mod table_model;
#[path = "support/traces.rs"]
mod traces;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use table_model::{Draw, Layout, TableModel};
use tollgate::time::{Clock, ManualClock};
use tollgate::{Admission, LimitSet, Limiter, Plan, Refusal, baseline};
use traces::{Limit, Step, assert_same_refusal, bucket_cap, limit, steps};

const NAMES: [&str; 3] = ["first", "second", "third"];

/// What takes draws on keyed limits, all or nothing.
trait Subject {
    /// One admission for each draw that costs something.
    fn draw(&self, draws: &[Draw<usize>]) -> Result<Vec<Admission>, Refusal>;
    fn peek(&self, limit: usize, key: usize) -> u64;
    fn len(&self) -> usize;
    /// Forgets refilled buckets, and says how many.
    fn prune(&self) -> usize;
    /// The names of its limits as refusals spell them.
    fn names(&self) -> Vec<String>;
}

/// Short keys, and keys that do not fit in a cell.
fn name(key: usize) -> String {
    if key % 3 == 0 {
        format!("a-key-that-is-longer-than-a-cell-can-hold-inside-itself-{key}")
    } else {
        key.to_string()
    }
}

impl Subject for Limiter<str> {
    fn draw(&self, draws: &[Draw<usize>]) -> Result<Vec<Admission>, Refusal> {
        let [Draw { key, cost, .. }] = draws else { panic!("a limiter takes one draw at a time") };
        let admission = self.check_n(&name(*key), *cost)?;
        Ok(if *cost > 0 { vec![admission] } else { Vec::new() })
    }

    fn peek(&self, _limit: usize, key: usize) -> u64 {
        Limiter::peek(self, &name(key))
    }

    fn len(&self) -> usize {
        Limiter::len(self)
    }

    fn prune(&self) -> usize {
        self.prune_refilled()
    }

    fn names(&self) -> Vec<String> {
        vec!["limit".into()]
    }
}

impl Subject for LimitSet {
    fn draw(&self, draws: &[Draw<usize>]) -> Result<Vec<Admission>, Refusal> {
        let mut plan = Plan::new();
        for Draw { limit, key, cost } in draws {
            self.plan(*limit, name(*key).as_str(), *cost, &mut plan);
        }
        plan.commit().map(|admissions| admissions.to_vec()).map_err(|refused| refused.refusal)
    }

    fn peek(&self, limit: usize, key: usize) -> u64 {
        LimitSet::peek(self, limit, name(key).as_str())
    }

    fn len(&self) -> usize {
        LimitSet::len(self)
    }

    fn prune(&self) -> usize {
        self.prune_refilled()
    }

    fn names(&self) -> Vec<String> {
        NAMES.map(str::to_owned).to_vec()
    }
}

/// Runs the trace on the subject and the model, and compares after every step. Returns how many calls were
/// admitted and refused.
fn assert_same_decisions(
    subject: &impl Subject,
    limits: &[Limit],
    cap: usize,
    clock: &ManualClock,
    trace: &[Step],
) -> (usize, usize) {
    let mut model =
        TableModel::new(limits.iter().map(|limit| limit.line.clone()).collect(), Layout::Apart, cap);
    let names = subject.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut admitted, mut refused) = (0, 0);
    for (number, Step { pause, draws }) in trace.iter().enumerate() {
        clock.advance(*pause);
        let now = clock.now();
        let draws: Vec<_> = draws
            .iter()
            .map(|&(limit, key, cost)| Draw { limit: limit % limits.len(), key: key % (cap + 3), cost })
            .collect();
        let place = format!("step {number} at {now}: {draws:?}");
        match (subject.draw(&draws), model.call(now, &draws)) {
            (Ok(admissions), Ok(())) => {
                admitted += 1;
                assert_same_admissions(&admissions, &draws, &model, now, &place);
            }
            (Err(ours), Err(exact)) => {
                refused += 1;
                assert_same_refusal(&ours, &exact, &names, &place);
            }
            (ours, exact) => panic!("{place}: {ours:?}, the model says {exact:?}"),
        }
        for Draw { limit, key, .. } in &draws {
            assert_eq!(subject.peek(*limit, *key), model.available(*limit, key, now), "{place}");
        }
        assert_len(subject.len(), &model, cap, now, &place);
    }
    let before = subject.len();
    assert_eq!(subject.prune() + subject.len(), before, "what was pruned is what is gone");
    assert_eq!(
        subject.len(),
        model.live_buckets(clock.now()),
        "only refilled buckets are forgotten, and all"
    );
    for limit in 0..limits.len() {
        for key in 0..cap + 3 {
            assert_eq!(
                subject.peek(limit, key),
                model.available(limit, &key, clock.now()),
                "key {key} at the end"
            );
        }
    }
    (admitted, refused)
}

fn assert_len(len: usize, model: &TableModel<usize>, cap: usize, now: u64, place: &str) {
    let (live, touched) = (model.live_buckets(now), model.touched_buckets());
    assert!(
        live <= len && len <= touched.min(cap),
        "{place}: {len} buckets of {live} to {touched}, cap {cap}"
    );
}

/// One admission a draw, in order; those of one bucket follow on each other and end at the model's mark.
fn assert_same_admissions(
    admissions: &[Admission],
    draws: &[Draw<usize>],
    model: &TableModel<usize>,
    now: u64,
    place: &str,
) {
    let costly: Vec<_> = draws.iter().filter(|draw| draw.cost > 0).collect();
    assert_eq!(admissions.len(), costly.len(), "{place}");
    let mut ends: BTreeMap<(usize, usize), &Admission> = BTreeMap::new();
    for (admission, draw) in admissions.iter().zip(costly) {
        let line = model.line(draw.limit);
        assert_eq!(admission.at, now, "{place}");
        assert_eq!(u128::from(admission.to - admission.from), line.units(draw.cost), "{place}");
        if let Some(before) = ends.insert((draw.limit, draw.key), admission) {
            assert_eq!(admission.from, before.to, "{place}: two draws on one bucket follow on each other");
        }
    }
    for ((limit, key), last) in ends {
        let line = model.line(limit);
        assert_eq!(line.tokens_of(last.to), model.mark(limit, &key), "{place}: the mark");
        assert_eq!(last.remaining, model.available(limit, &key, now), "{place}: what remains");
    }
}

impl Subject for baseline::Limiter<str> {
    fn draw(&self, draws: &[Draw<usize>]) -> Result<Vec<Admission>, Refusal> {
        let [Draw { key, cost, .. }] = draws else { panic!("a limiter takes one draw at a time") };
        let admission = self.check_n(&name(*key), *cost)?;
        Ok(if *cost > 0 { vec![admission] } else { Vec::new() })
    }

    fn peek(&self, _limit: usize, key: usize) -> u64 {
        baseline::Limiter::peek(self, &name(key))
    }

    fn len(&self) -> usize {
        baseline::Limiter::len(self)
    }

    fn prune(&self) -> usize {
        self.prune_refilled()
    }

    fn names(&self) -> Vec<String> {
        vec!["limit".into()]
    }
}

impl Subject for baseline::LimitSet {
    fn draw(&self, draws: &[Draw<usize>]) -> Result<Vec<Admission>, Refusal> {
        let names: Vec<String> = draws.iter().map(|draw| name(draw.key)).collect();
        let draws = draws.iter().zip(&names).map(|(draw, name)| (draw.limit, name.as_str(), draw.cost));
        baseline::LimitSet::draw(self, &draws.collect::<Vec<_>>())
    }

    fn peek(&self, limit: usize, key: usize) -> u64 {
        baseline::LimitSet::peek(self, limit, name(key).as_str())
    }

    fn len(&self) -> usize {
        baseline::LimitSet::len(self)
    }

    fn prune(&self) -> usize {
        self.prune_refilled()
    }

    fn names(&self) -> Vec<String> {
        NAMES.map(str::to_owned).to_vec()
    }
}

fn limiter(limit: &Limit, cap: usize, clock: &ManualClock) -> Limiter<str> {
    Limiter::builder(limit.quota).bucket_cap(cap).clock(clock.clone()).build().unwrap()
}

fn limit_set(limits: &[Limit], cap: usize, clock: &ManualClock) -> LimitSet {
    let named = limits.iter().zip(NAMES);
    named
        .fold(LimitSet::builder(), |builder, (limit, name)| builder.limit(name, limit.quota))
        .bucket_cap(cap)
        .clock(clock.clone())
        .build()
        .unwrap()
}

fn baseline_limit_set(limits: &[Limit], cap: usize, clock: &ManualClock) -> baseline::LimitSet {
    let named = limits.iter().zip(NAMES);
    named
        .fold(baseline::LimitSet::builder(), |builder, (limit, name)| builder.limit(name, limit.quota))
        .bucket_cap(cap)
        .clock(clock.clone())
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_limiter_decides_as_the_model_does(limit in limit(), cap in bucket_cap(), trace in steps(1, 120)) {
        let clock = ManualClock::new();
        let limiter = limiter(&limit, cap, &clock);
        assert_same_decisions(&limiter, &[limit], cap, &clock, &trace);
    }

    #[test]
    fn the_limiter_behind_one_lock_decides_as_the_model_does(
        limit in limit(), cap in bucket_cap(), trace in steps(1, 120),
    ) {
        let clock = ManualClock::new();
        let builder = baseline::Limiter::builder(limit.quota).bucket_cap(cap).clock(clock.clone());
        assert_same_decisions(&builder.build().unwrap(), &[limit], cap, &clock, &trace);
    }

    #[test]
    fn the_limit_set_behind_one_lock_decides_as_the_model_does(
        limits in prop::collection::vec(limit(), 1..=3), cap in bucket_cap(), trace in steps(4, 90),
    ) {
        let clock = ManualClock::new();
        let set = baseline_limit_set(&limits, cap, &clock);
        assert_same_decisions(&set, &limits, cap, &clock, &trace);
    }

    #[test]
    fn plans_over_several_limits_decide_as_the_model_does(
        limits in prop::collection::vec(limit(), 1..=3), cap in bucket_cap(), trace in steps(4, 90),
    ) {
        let clock = ManualClock::new();
        let set = limit_set(&limits, cap, &clock);
        assert_same_decisions(&set, &limits, cap, &clock, &trace);
    }
}

#[test]
fn the_traces_admit_and_refuse_a_fair_share() {
    let mut runner = TestRunner::deterministic();
    let (mut admitted, mut refused) = (0, 0);
    for _ in 0..40 {
        let strategy = (prop::collection::vec(limit(), 1..=3), bucket_cap(), steps(4, 90));
        let (limits, cap, trace) = strategy.new_tree(&mut runner).unwrap().current();
        let clock = ManualClock::new();
        let set = limit_set(&limits, cap, &clock);
        let (a, r) = assert_same_decisions(&set, &limits, cap, &clock, &trace);
        admitted += a;
        refused += r;
    }
    assert!(admitted > 100 && refused > 100, "{admitted} admitted, {refused} refused");
}
