//! Which ratios are wanted.

use crate::options::Sizes;
use crate::targets::Bound;
use crate::workload::Workload;
use crate::workloads::{floor, full};

/// A ratio that is wanted of a workload.
pub struct Goal {
    /// What is measured.
    pub workload: Workload,
    /// With how many threads.
    pub threads: usize,
    /// Whose figure it is.
    pub contender: String,
    /// Against whom; of several, against their sum.
    pub versus: Vec<String>,
    /// At least or at most.
    pub bound: Bound,
    /// What the ratio should be.
    pub target: f64,
    /// What it was when docs/performance.md was written, where that is short of the target: a check holds the figure
    /// to this then.
    pub reached: Option<f64>,
}

impl Goal {
    fn short(self, reached: f64) -> Self {
        Self { reached: Some(reached), ..self }
    }
}

/// All of them.
pub fn goals(sizes: &Sizes) -> Vec<Goal> {
    use Bound::{AtLeast, AtMost};
    use Workload::{Agent, Atomic, Budget, Churn, Effect, Floor, Full, Hot, Pair, Series, Single};
    let [small, middle, large] = sizes.full;
    let at = |buckets| full::name("tollgate-coarse", buckets);
    let (small, middle, large, swept) =
        (at(small), at(middle), at(large), full::name("baseline-std", middle));
    let goal = |workload, threads, contender: &str, versus: &[&str], bound, target| Goal {
        workload,
        threads,
        contender: contender.to_owned(),
        versus: versus.iter().map(|&name| name.to_owned()).collect(),
        bound,
        target,
        reached: None,
    };
    let ours = "tollgate-coarse";
    vec![
        goal(Pair, 1, ours, &["baseline-std"], AtLeast, 8.0).short(2.5),
        goal(Pair, 2, ours, &["baseline-std"], AtLeast, 25.0).short(9.0),
        goal(Single, 1, ours, &["governor-quanta"], AtLeast, 2.5).short(1.6),
        goal(Single, 2, ours, &["governor-quanta"], AtLeast, 3.0).short(2.6),
        goal(Hot, 2, ours, &["baseline-std"], AtLeast, 9.0).short(5.5),
        goal(Hot, 2, ours, &["governor-quanta"], AtLeast, 3.0),
        goal(Agent, 1, ours, &["baseline-std"], AtLeast, 4.0).short(1.0),
        goal(Agent, 2, ours, &["baseline-std"], AtLeast, 10.0).short(3.4),
        goal(Series, 1, ours, &["baseline-std"], AtLeast, 5.0).short(1.3),
        goal(Atomic, 1, ours, &["baseline-std"], AtLeast, 5.0).short(1.1),
        goal(Atomic, 1, ours, &["series-coarse"], AtMost, 1.3),
        goal(Effect, 1, ours, &["limiter-coarse"], AtMost, 5.0),
        goal(Effect, 1, "journal-coarse", &[ours], AtMost, 10.0),
        goal(Budget, 1, "tollgate", &["mutex"], AtMost, 100.0),
        goal(Full, 1, &middle, &[&swept], AtLeast, 1_000.0),
        goal(Full, 1, &large, &[&small], AtMost, 1.5),
        goal(Churn, 1, ours, &["baseline-std"], AtLeast, 5.0).short(1.2),
        goal(Churn, 2, ours, &["baseline-std"], AtLeast, 5.0).short(2.4),
        goal(Floor, 1, "limiter-coarse", &floor::PARTS, AtMost, 1.8),
        goal(Floor, 1, "guard-coarse", &floor::PARTS, AtMost, 1.8).short(1.9),
    ]
}

/// Pairs that are told wherever both took part: the same clock on both sides, or the same file system.
pub const SIDE_BY_SIDE: [(&str, &str); 7] = [
    ("tollgate-coarse", "baseline-coarse"),
    ("tollgate-std", "baseline-std"),
    ("tollgate-std", "governor-std"),
    ("tollgate-coarse", "dashmap-coarse"),
    ("tollgate-std", "dashmap-std"),
    ("tollgate", "mutex"),
    ("file", "immediate"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_names_contenders_that_its_workload_has() {
        let sizes = crate::run::tests::tiny();
        for goal in goals(&sizes) {
            let contenders = crate::workloads::contenders(goal.workload, &sizes, 1).unwrap();
            for name in goal.versus.iter().chain([&goal.contender]) {
                let known = contenders.iter().any(|contender| contender.name() == name);
                assert!(known, "{} has no contender {name}", goal.workload);
            }
        }
    }
}
