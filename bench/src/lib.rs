//! Measures tollgate against its baseline and its peers.
//!
//! | file | idea |
//! |---|---|
//! | [`workload`], `workloads/` | what is measured |
//! | `contenders/` | who is measured, each set up with the same limits |
//! | [`ids`], [`call`], [`subject`] | requests, prepared before timing, and who answers them |
//! | [`timing`], [`rounds`] | threads behind a barrier; contenders interleaved, round after round |
//! | [`expect`], [`error`] | the count that must be admitted; a fast wrong answer is an error |
//! | [`stats`], [`targets`], [`goals`] | medians, ratios within a round, their spread, and what they should be |
//! | [`latency`], [`allocator`] | single calls; bytes |
//! | [`report`], `text` | the result, as JSON and for people |
//!
//! # Method
//!
//! All contenders of a workload run in one process, one after the other, and again in the next round, in an order
//! that is rotated each round. A ratio is taken within each round, so that what slows the machine for a while slows
//! both sides of it; the median of the rounds' ratios is the result, and their range its spread. Before a round each
//! contender is set up freshly, or in a state that it cannot have left; requests are prepared before the clock
//! starts, and threads start behind a barrier and are timed from the first start to the last end.
//!
//! # Contenders
//!
//! | name | what | clock |
//! |---|---|---|
//! | `tollgate-coarse` | the engine | `CoarseClock`: what a kernel would choose, and what the targets are for |
//! | `tollgate-std` | the engine as it comes | `MonotonicClock`, the standard library's |
//! | `baseline-std` | `tollgate::baseline`, one mutex, as it comes | `MonotonicClock` |
//! | `baseline-coarse` | the same | `CoarseClock` |
//! | `governor-quanta` | governor's keyed limiter over DashMap, as it comes | quanta, the processor's counter |
//! | `governor-std` | the same | the standard library's |
//! | `dashmap-std`, `dashmap-coarse` | a DashMap with a mutex and a token bucket for each key | as named |
//! | `tollgate`, `mutex` | budgets held and settled in memory; sums in maps behind one mutex | the wall's; none |
//! | `file`, `sync-1ms` | budgets held in a file in the system's folder for temporary ones; in memory, with a write that takes a millisecond | the wall's |
//! | `immediate` | sums in an SQLite file, a `BEGIN IMMEDIATE` for each call | none |
//!
//! governor has no second limit to draw on together, and neither it nor the DashMap has a bound: they take part where
//! what they do is the same work.

pub mod allocator;
pub mod call;
mod contenders;
pub mod error;
pub mod expect;
pub mod goals;
pub mod ids;
pub mod latency;
pub mod machine;
pub mod options;
pub mod report;
pub mod rounds;
pub mod run;
mod run_queue;
pub mod stats;
pub mod subject;
pub mod targets;
mod text;
pub mod timing;
pub mod workload;
pub mod workloads;

pub use error::BenchError;
pub use options::{Effort, Options, Sizes};
pub use report::Report;
pub use run::run;
pub use workload::Workload;
