//! What the figures should be, and whether they are.

use crate::goals::{Goal, SIDE_BY_SIDE, goals};
use crate::options::Sizes;
use crate::rounds::Series;
use crate::stats::Spread;
use crate::workload::Workload;
use serde::Serialize;

/// Which side of a target is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// How many times as fast as another.
    AtLeast,
    /// How many times as slow, as large, as long.
    AtMost,
}

/// A target and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// What was measured.
    pub workload: &'static str,
    /// With how many threads.
    pub threads: usize,
    /// Whose figure it is.
    pub contender: String,
    /// Against whom, or of what.
    pub versus: String,
    /// The median of the rounds' ratios, or the worst of them for what must never happen.
    pub ratio: f64,
    /// The spread of the rounds' ratios.
    pub spread: Spread,
    /// What the ratio should be.
    pub target: f64,
    /// At least or at most.
    pub bound: Bound,
    /// Is it?
    pub met: bool,
    /// What a check holds the ratio to: the target, or what was reached where that is short of it.
    pub held: f64,
    /// Did other work take the processors of threads that were meant to run side by side? Then a check cannot judge.
    pub crowded: bool,
}

/// More than this share of threads' time spent waiting for a processor is a crowd.
const CROWD: f64 = 0.05;

/// Had several threads too little of their processors to meet each other as they would on a quiet machine?
fn crowded(series: &[&Series]) -> bool {
    let waits =
        |it: &&Series| it.threads > 1 && it.samples.iter().any(|sample| sample.share_waited() > CROWD);
    series.iter().any(waits)
}

impl Target {
    /// Judges the values of all rounds by their median; `None` of no values.
    pub fn judged(
        (workload, threads): (Workload, usize),
        (contender, versus): (&str, impl Into<String>),
        (bound, target): (Bound, f64),
        values: impl IntoIterator<Item = f64>,
    ) -> Option<Self> {
        let spread = Spread::of(values)?;
        let (workload, contender, versus) = (workload.name(), contender.to_owned(), versus.into());
        let ratio = spread.median;
        let unjudged = Self {
            workload,
            threads,
            contender,
            versus,
            ratio,
            spread,
            target,
            bound,
            met: false,
            held: target,
            crowded: false,
        };
        Some(unjudged.of(ratio))
    }

    /// The same by the worst round, for what must never happen.
    #[must_use]
    pub fn by_worst(self) -> Self {
        let worst = match self.bound {
            Bound::AtLeast => self.spread.min,
            Bound::AtMost => self.spread.max,
        };
        self.of(worst)
    }

    fn of(self, ratio: f64) -> Self {
        let met = match self.bound {
            Bound::AtLeast => ratio >= self.target,
            Bound::AtMost => ratio <= self.target,
        };
        Self { ratio, met, ..self }
    }

    /// Held to less than the target in a check.
    #[must_use]
    pub fn held_to(self, reached: Option<f64>) -> Self {
        Self { held: reached.unwrap_or(self.target), ..self }
    }

    /// Is it worse by more than a factor of two? What a busy machine does to a short run stays within that.
    pub fn fell_by_half(&self) -> bool {
        let worse = match self.bound {
            Bound::AtLeast => self.ratio < self.held / 2.0,
            Bound::AtMost => self.ratio > self.held * 2.0,
        };
        worse && !self.crowded
    }
}

/// Two contenders side by side, without a target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What was measured.
    pub workload: &'static str,
    /// With how many threads.
    pub threads: usize,
    /// Who.
    pub contender: String,
    /// Against whom.
    pub versus: String,
    /// How many times as fast: the median of the rounds' ratios.
    pub ratio: f64,
    /// The spread of the rounds' ratios.
    pub spread: Spread,
}

fn find<'s>(series: &'s [Series], threads: usize, contender: &str) -> Option<&'s Series> {
    series.iter().find(|series| series.threads == threads && series.contender == contender)
}

/// For each round: how long `slow` takes together, in times of what `fast` takes together.
fn ratios<'s>(slow: &'s [&'s Series], fast: &'s [&'s Series]) -> impl Iterator<Item = f64> + 's {
    let rounds = slow.iter().chain(fast).map(|series| series.samples.len()).min().unwrap_or(0);
    let sum = |all: &[&Series], round: usize| -> f64 {
        all.iter().map(|series| series.samples[round].ns_per_op()).sum()
    };
    (0..rounds).map(move |round| sum(slow, round) / sum(fast, round))
}

/// Judges what can be judged of one workload's series.
pub fn judge(workload: Workload, series: &[Series], sizes: &Sizes) -> Vec<Target> {
    let judged = |goal: Goal| {
        let ours = [find(series, goal.threads, &goal.contender)?];
        let theirs: Option<Vec<_>> =
            goal.versus.iter().map(|name| find(series, goal.threads, name)).collect();
        let theirs = theirs?;
        let values: Vec<f64> = match goal.bound {
            Bound::AtLeast => ratios(&theirs, &ours).collect(),
            Bound::AtMost => ratios(&ours, &theirs).collect(),
        };
        let names = (goal.contender.as_str(), goal.versus.join("+"));
        let judged = Target::judged((workload, goal.threads), names, (goal.bound, goal.target), values)?;
        let crowded = crowded(&ours) || crowded(&theirs);
        Some(Target { crowded, ..judged.held_to(goal.reached) })
    };
    goals(sizes).into_iter().filter(|goal| goal.workload == workload).filter_map(judged).collect()
}

/// Compares pairs, at every thread count.
pub fn compare(workload: Workload, series: &[Series], threads: &[usize]) -> Vec<Comparison> {
    let compared = |threads: usize, (contender, versus): (&str, &str)| {
        let (ours, theirs) = (find(series, threads, contender)?, find(series, threads, versus)?);
        let spread = Spread::of(ratios(&[theirs], &[ours]))?;
        Some(Comparison {
            workload: workload.name(),
            threads,
            contender: contender.into(),
            versus: versus.into(),
            ratio: spread.median,
            spread,
        })
    };
    let pairs = |&threads: &usize| SIDE_BY_SIDE.into_iter().filter_map(move |pair| compared(threads, pair));
    threads.iter().flat_map(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Sample;
    use std::time::Duration;

    fn series(workload: Workload, threads: usize, contender: &str, nanos: [u64; 3]) -> Series {
        let sample = |ns| Sample {
            threads,
            elapsed: Duration::from_nanos(ns * 10),
            calls: 10 * threads as u64,
            admitted: 0,
            waited: Duration::ZERO,
        };
        Series { workload, threads, contender: contender.into(), samples: nanos.map(sample).into() }
    }

    #[test]
    fn a_ratio_is_taken_within_each_round_so_that_a_slow_round_cancels_out() {
        let ours = series(Workload::Pair, 1, "tollgate-coarse", [100, 100, 1_000]);
        let theirs = series(Workload::Pair, 1, "baseline-std", [900, 1_000, 9_000]);
        let targets = judge(Workload::Pair, &[ours, theirs], &Sizes::default());
        assert_eq!(targets.len(), 1, "nobody ran two threads");
        let target = &targets[0];
        assert_eq!((target.ratio, target.spread.min, target.spread.max), (9.0, 9.0, 10.0));
        assert_eq!((target.target, target.met, target.versus.as_str()), (8.0, true, "baseline-std"));
    }

    #[test]
    fn a_floor_is_the_sum_of_its_parts() {
        let part = |name, ns| series(Workload::Floor, 1, name, [ns; 3]);
        let all = [part("hash", 10), part("clock", 5), part("cas", 25), part("guard-coarse", 80)];
        let targets = judge(Workload::Floor, &all, &Sizes::default());
        assert_eq!(targets.len(), 1, "the limiter did not run");
        assert_eq!((targets[0].ratio, targets[0].met, targets[0].fell_by_half()), (2.0, false, false));
        assert_eq!(targets[0].versus, "hash+clock+cas");
        let some = judge(Workload::Floor, &all[1..], &Sizes::default());
        assert!(some.is_empty(), "a sum without one of its parts is no floor");
    }

    #[test]
    fn a_target_is_met_at_its_value_and_fell_by_half_beyond_twice() {
        let judged = |bound, ratio| {
            let key = (Workload::Full, 1);
            Target::judged(key, ("ours", "theirs"), (bound, 10.0), [ratio]).unwrap()
        };
        let cases = [
            (Bound::AtLeast, 10.0, true, false),
            (Bound::AtLeast, 9.99, false, false),
            (Bound::AtLeast, 5.0, false, false),
            (Bound::AtLeast, 4.99, false, true),
            (Bound::AtMost, 10.0, true, false),
            (Bound::AtMost, 10.01, false, false),
            (Bound::AtMost, 20.0, false, false),
            (Bound::AtMost, 20.01, false, true),
        ];
        for (bound, ratio, met, by_half) in cases {
            let target = judged(bound, ratio);
            assert_eq!((target.met, target.fell_by_half()), (met, by_half), "{bound:?} {ratio}");
        }
    }

    #[test]
    fn a_check_holds_a_figure_that_is_short_of_its_target_to_what_was_reached() {
        let fell = |ratio| {
            let target =
                Target::judged((Workload::Pair, 1), ("ours", "theirs"), (Bound::AtLeast, 8.0), [ratio]);
            target.unwrap().held_to(Some(2.5)).fell_by_half()
        };
        assert_eq!((fell(1.25), fell(1.24)), (false, true));
    }

    #[test]
    fn a_check_does_not_judge_threads_that_other_work_kept_apart() {
        let fell = |threads, waited| {
            let mut ours = series(Workload::Pair, threads, "tollgate-coarse", [100; 3]);
            let theirs = series(Workload::Pair, threads, "baseline-std", [100; 3]);
            ours.samples[1].waited = Duration::from_nanos(waited);
            judge(Workload::Pair, &[ours, theirs], &Sizes::default())[0].fell_by_half()
        };
        assert!(fell(2, 0), "as fast as the mutex is a tenth of what was reached");
        assert!(fell(2, 90) && !fell(2, 110), "a twentieth of two threads' 1,000 ns is 100");
        assert!(fell(1, 1_000), "one thread's ratio stands on a busy machine too");
    }

    #[test]
    fn what_must_never_happen_is_judged_by_its_worst_round() {
        let judged = |bound, target| {
            let key = (Workload::Churn, 1);
            Target::judged(key, ("ours", "pause"), (bound, target), [1.0, 2.0, 9.0]).unwrap()
        };
        let (most, least) = (judged(Bound::AtMost, 3.0), judged(Bound::AtLeast, 1.5));
        assert!(most.met && least.met);
        let (most, least) = (most.by_worst(), least.by_worst());
        assert_eq!((most.ratio, most.met, least.ratio, least.met), (9.0, false, 1.0, false));
    }

    #[test]
    fn every_clock_is_compared_with_itself() {
        let all = [
            series(Workload::Single, 2, "tollgate-std", [100; 3]),
            series(Workload::Single, 2, "governor-std", [250; 3]),
            series(Workload::Single, 2, "governor-quanta", [200; 3]),
        ];
        let compared = compare(Workload::Single, &all, &[1, 2]);
        assert_eq!(compared.len(), 1);
        assert_eq!(
            (compared[0].versus.as_str(), compared[0].threads, compared[0].ratio),
            ("governor-std", 2, 2.5)
        );
    }
}
