//! Sequences of operations on a `Limiter` or a `LimitSet` against the exact table model.
//!
//! Every verdict, reason, wait and remainder must be the model's, every admission must own exactly the model's
//! units, and the table's length lies between the live buckets and those ever drawn on, never above the cap.

mod input;
mod subject;

pub use input::Input;

use crate::oracle::{Line, five_years};
use crate::table_model::{Draw, Layout, Refused, TableModel};
use input::{Op, Stated};
use num_bigint::BigInt;
use num_rational::BigRational;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use subject::Subject;
use tollgate::limiter::Keep;
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{Admission, Refusal};

/// # Panics
/// When the library and the model disagree.
pub fn check(input: &Input) {
    let Some(mut run) = Run::new(input) else { return };
    let most = if run.cap > 64 { 24 } else { 160 };
    for op in input.ops.iter().take(most) {
        run.step(op);
        if BigInt::from(run.clock.now()) > five_years() {
            return; // past some line's horizon, where the quota target goes
        }
        run.assert_len();
    }
    run.finish();
}

/// The subject and the model, side by side.
struct Run {
    clock: ManualClock,
    quotas: Vec<Quota>,
    cap: usize,
    subject: Subject,
    model: TableModel<usize>,
    /// The last wait that a refusal asked for.
    hint: Duration,
}

impl Run {
    /// `None` where a limit cannot be counted, on which both must agree.
    fn new(input: &Input) -> Option<Self> {
        let clock = ManualClock::new();
        let stated: Vec<Stated> = input.limits().collect();
        let quotas: Vec<Quota> = stated.iter().map(Stated::quota).collect();
        let lines: Option<Vec<Line>> = stated.iter().map(Stated::line).collect();
        let cap = input.cap.get();
        let built = match input.single {
            true => Subject::single(quotas[0], cap, &clock),
            false => Subject::set(&quotas, cap, &clock),
        };
        assert_eq!(built.is_ok(), lines.is_some(), "{stated:?}: {:?}", built.err());
        Some(Self {
            model: TableModel::new(lines?, Layout::Apart, cap),
            subject: built.ok()?,
            clock,
            quotas,
            cap,
            hint: Duration::ZERO,
        })
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Advance(by) => self.clock.advance(by.get()),
            Op::AwaitHint => self.clock.advance(self.hint),
            Op::AlmostAwaitHint => self.clock.advance(self.hint.saturating_sub(Duration::from_nanos(1))),
            Op::Draw(draw) => self.draw(&[*draw]),
            Op::Plan(draws) => self.draw(draws),
            Op::LongPlan(draws) => self.draw(draws),
            Op::Flood { from, count, cost } => self.flood((*from).into(), (*count).into(), cost.get()),
            Op::Peek(limit, key) => {
                let (limit, key) = (self.limit(*limit), self.key(*key));
                self.assert_peek(limit, key);
            }
            Op::Prune => self.prune(),
            Op::Reload(limit, stated, keep) => self.reload(self.limit(*limit), stated, keep.get()),
        }
    }

    fn limit(&self, limit: u8) -> usize {
        usize::from(limit) % self.quotas.len()
    }

    fn key(&self, key: u16) -> usize {
        usize::from(key) % (self.cap + 3)
    }

    fn draw(&mut self, draws: &[input::Draw]) {
        let draws: Vec<_> = draws
            .iter()
            .map(|draw| Draw {
                limit: self.limit(draw.limit),
                key: self.key(draw.key.into()),
                cost: draw.cost.get(),
            })
            .take(if self.subject.takes_one() { 1 } else { usize::MAX })
            .collect();
        let now = self.clock.now();
        match (self.subject.draw(&draws), self.model.call(now, &draws)) {
            (Ok(admissions), Ok(())) => self.assert_admissions(&admissions, &draws),
            (Err(ours), Err(exact)) => {
                self.assert_refusal(&ours, &exact);
                self.hint = ours.retry_after.unwrap_or(self.hint);
            }
            (ours, exact) => panic!("{draws:?} at {now}: {ours:?}, the model says {exact:?}"),
        }
        for Draw { limit, key, .. } in draws {
            self.assert_peek(limit, key);
        }
    }

    /// One draw for each of many keys in turn. The model takes them in bulk: it scans its table for each call.
    fn flood(&mut self, from: usize, count: usize, cost: u64) {
        let now = self.clock.now();
        let keys: BTreeSet<usize> =
            (from..from + count.min(self.cap + 2)).map(|key| key % (self.cap + 3)).collect();
        let refilled = |key| self.model.line(0).refilled(&self.model.mark(0, key), now);
        let live: BTreeSet<usize> = keys.iter().filter(|key| !refilled(key)).copied().collect();
        let mut room = self.cap - self.model.live_buckets(now);
        let (mut admitted, mut full) = (Vec::new(), 0);
        for key in keys {
            let draw = Draw { limit: 0, key, cost };
            let ours = self.subject.draw(std::slice::from_ref(&draw));
            let fits = cost <= self.model.available(0, &key, now);
            match (ours, fits && (cost == 0 || live.contains(&key) || room > 0)) {
                (Ok(_), true) => {
                    room -= usize::from(cost > 0 && !live.contains(&key));
                    admitted.push(draw);
                }
                (Err(_), false) => full += usize::from(fits),
                (ours, exact) => panic!("{draw:?} at {now}: {ours:?}, the model says {exact}"),
            }
        }
        assert!(full == 0 || room == 0, "{full} newcomers were refused although there is room for {room}");
        for draws in admitted.chunks(128) {
            self.model.apply(now, draws);
        }
    }

    fn reload(&mut self, limit: usize, stated: &Stated, keep: Keep) {
        let now = self.clock.now();
        let done = self.subject.reconfigure(limit, stated.quota(), keep);
        let Some(line) = stated.line() else {
            assert!(done.is_err(), "{stated:?} cannot be counted");
            return;
        };
        done.unwrap_or_else(|error| panic!("{stated:?}: {error}"));
        if stated.quota() == self.quotas[limit] {
            return; // the present quota again changes nothing
        }
        self.quotas[limit] = stated.quota();
        self.model.reload(limit, line, |mark, old, new| converted(mark, old, new, keep, now));
    }

    fn prune(&mut self) {
        let (now, before) = (self.clock.now(), self.subject.len());
        let pruned = self.subject.prune();
        assert_eq!(pruned + self.subject.len(), before, "what was pruned is what is gone");
        assert_eq!(
            self.subject.len(),
            self.model.live_buckets(now),
            "refilled buckets are forgotten, and all"
        );
        self.model.forget_refilled(now);
    }

    fn assert_peek(&self, limit: usize, key: usize) {
        let now = self.clock.now();
        let exact = self.model.available(limit, &key, now);
        assert_eq!(self.subject.peek(limit, key), exact, "limit {limit}, key {key} at {now}");
    }

    fn assert_len(&self) {
        let now = self.clock.now();
        let (live, touched) = (self.model.live_buckets(now), self.model.touched_buckets());
        let len = self.subject.len();
        assert!(
            live <= len && len <= touched.min(self.cap),
            "{len} of {live} to {touched}, cap {}",
            self.cap
        );
    }

    fn assert_refusal(&self, ours: &Refusal, exact: &Refused) {
        assert_eq!(ours.reason, exact.reason, "{ours:?}, the model says {exact:?}");
        assert_eq!(ours.retry_after, exact.retry_after.map(Duration::from_nanos), "{ours:?}, {exact:?}");
        assert_eq!(ours.limit.as_str(), self.subject.name(exact.limit), "{ours:?}, {exact:?}");
        assert_eq!((ours.needed, ours.available), (exact.needed, exact.available), "{ours:?}, {exact:?}");
    }

    /// One admission a draw, in order; those of one bucket follow on each other and end at the model's mark.
    fn assert_admissions(&self, admissions: &[Admission], draws: &[Draw<usize>]) {
        let now = self.clock.now();
        let costly: Vec<_> = draws.iter().filter(|draw| draw.cost > 0).collect();
        assert_eq!(admissions.len(), costly.len());
        let mut ends: BTreeMap<(usize, usize), &Admission> = BTreeMap::new();
        for (admission, draw) in admissions.iter().zip(costly) {
            let line = self.model.line(draw.limit);
            assert_eq!(admission.at, now);
            assert_eq!(u128::from(admission.to - admission.from), line.units(draw.cost), "{draw:?}");
            if let Some(before) = ends.insert((draw.limit, draw.key), admission) {
                assert_eq!(
                    admission.from, before.to,
                    "{draw:?}: two draws on one bucket follow on each other"
                );
            }
        }
        for ((limit, key), last) in ends {
            let line = self.model.line(limit);
            assert_eq!(line.tokens_of(last.to), self.model.mark(limit, &key), "the mark of {key}");
            assert_eq!(last.remaining, self.model.available(limit, &key, now), "what {key} has left");
        }
    }

    /// After the last operation: only and all live buckets are kept, and iteration shows them.
    fn finish(mut self) {
        self.prune();
        let now = self.clock.now();
        let mut seen = BTreeSet::new();
        for (limit, key, available) in self.subject.buckets(self.cap + 3) {
            assert!(seen.insert((limit, key)), "limit {limit}, key {key} twice");
            assert_eq!(available, self.model.available(limit, &key, now), "limit {limit}, key {key}");
        }
        assert_eq!(seen.len(), self.model.live_buckets(now));
        let keys = if self.cap > 64 { 8 } else { self.cap + 3 };
        for limit in 0..self.quotas.len() {
            (0..keys).for_each(|key| self.assert_peek(limit, key));
        }
    }
}

/// The mark on `new` of a bucket whose mark on `old` is `mark`, at `t`. What is owed is rounded up to whole units.
fn converted(mark: &BigRational, old: &Line, new: &Line, keep: Keep, t: u64) -> BigRational {
    let whole = |n: u64| BigRational::from_integer(n.into());
    let debt = (mark - old.released(t)).max(whole(0));
    let owed = match keep {
        Keep::AsIs => debt,
        Keep::Reset => whole(0),
        Keep::Proportional if debt == whole(0) => debt,
        Keep::Proportional if debt >= whole(old.capacity) => whole(new.capacity),
        Keep::Proportional => debt / whole(old.capacity) * whole(new.capacity),
    };
    let unit = BigRational::new(BigInt::from(1), new.units_per_token.clone());
    new.released(t) + (owed / &unit).ceil() * unit
}
