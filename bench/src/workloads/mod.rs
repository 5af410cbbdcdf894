//! The workloads, each with its contenders.

pub mod churn;
pub mod durable;
pub mod floor;
pub mod full;
pub mod hit;
pub mod memory;

use crate::error::BenchError;
use crate::options::Sizes;
use crate::rounds::Contender;
use crate::workload::Workload;

/// The contenders of a workload, ready for rounds of up to `threads` threads.
///
/// # Errors
/// If one cannot be built, or fills its table with a wrong count.
pub fn contenders(
    workload: Workload,
    sizes: &Sizes,
    threads: usize,
) -> Result<Vec<Box<dyn Contender>>, BenchError> {
    Ok(match workload {
        Workload::Pair => hit::pair(sizes, threads),
        Workload::Single => hit::single(sizes, threads),
        Workload::Hot => hit::hot(sizes, threads),
        Workload::Agent => hit::agent(sizes, threads),
        Workload::Series => hit::series(sizes, threads),
        Workload::Atomic => hit::atomic(sizes, threads),
        Workload::Effect => hit::effect(sizes, threads),
        Workload::Budget => hit::budget(sizes, threads),
        Workload::Durable => durable::contenders(threads),
        Workload::Full => full::contenders(sizes, threads)?,
        Workload::Churn => churn::contenders(sizes, threads),
        Workload::Floor => floor::contenders(sizes),
        Workload::Memory => vec![Box::new(memory::Filled::new(sizes))],
    })
}
