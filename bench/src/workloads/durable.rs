//! Holds that are durable before their calls may go ahead, by one caller and by many: what sharing a sync is worth.

use super::hit::listed;
use crate::call::Calls;
use crate::contenders::budgets::{self, After, Kept};
use crate::rounds::{Contender, Series};
use crate::targets::{Bound, Target};
use crate::workload::Workload;
use std::time::Duration;

/// Callers at once, beside one alone.
pub const CALLERS: usize = 64;
/// Runs that each caller goes round.
const RUNS: u64 = 16;
/// A sync of a disk that is neither fast nor slow, injected so that the figure is the same on every machine.
const SYNC: Duration = Duration::from_millis(1);
/// How many times as many holds a second all callers should have as one alone, where a sync takes [`SYNC`].
const SHARED: f64 = 10.0;

/// The contender with an injected sync.
const INJECTED: &str = "sync-1ms";

/// The engine on a file and with an injected sync, and a transaction for each call.
pub fn contenders(threads: usize) -> Vec<Box<dyn Contender>> {
    listed(
        Workload::Durable,
        Calls::random(threads, RUNS, RUNS / 4),
        vec![
            ("file", budgets::engine(Kept::InFile, After::Held)),
            (INJECTED, budgets::engine(Kept::Slowly(SYNC), After::Held)),
            ("immediate", budgets::immediate::transactions()),
        ],
    )
}

/// What sharing a sync is worth: holds a second of all callers, in times of those of one alone, round by round.
pub fn shared(series: &[Series]) -> Option<Target> {
    let of = |threads: usize| series.iter().find(|it| it.threads == threads && it.contender == INJECTED);
    let (one, all) = (of(1)?, of(CALLERS)?);
    let ratios = one.ns_per_op().zip(all.ns_per_op()).map(|(one, all)| one * CALLERS as f64 / all);
    let names = (INJECTED, "one caller");
    Target::judged((Workload::Durable, CALLERS), names, (Bound::AtLeast, SHARED), ratios)
}
