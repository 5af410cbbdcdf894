//! Decides whether an agent's call may go ahead: how often, and for how much money.
//!
//! | to limit | use |
//! |---|---|
//! | anything by a key of your own | [`Limiter`] |
//! | the same, for callers that wait for their turn instead of being refused | [`Limiter::acquire`] |
//! | the same, as a server asks (`Retry-After` and the like) | [`Limiter::penalize_until`], [`headers`] |
//! | several things at once, all or nothing | [`LimitSet`] and [`Plan`] |
//! | how much is under way at once | [`limiter::InFlight`] |
//! | kinds of work that share one provider's quota | [`limiter::Pools`] |
//! | tools, so that an unpaid call cannot be sent | [`effect`] |
//! | money, tokens, calls and time, of runs, users, teams and everybody | [`spend`] |
//! | calls and spend per grant of a capability | [`guard::VelocityGuard`] |
//! | requests per agent and session | [`guard::AgentVelocityGuard`] |
//! | every call of a kernel, by several guards | [`guard::GuardPipeline`] on a [`kernel::Kernel`] |
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limiter, quota::Quota};
//!
//! let limiter = Limiter::<str>::builder(Quota::per_minute(100).burst(150)).build()?;
//! match limiter.check("alice") {
//!     Ok(admission) => assert_eq!(admission.remaining, 149),
//!     Err(refusal) => println!("{refusal}"), // which limit, what it lacks, when to retry
//! }
//! # Ok::<(), tollgate::ConfigError>(())
//! ```
//!
//! # Decisions
//!
//! A limit releases tokens along a *refill line*; a bucket is one integer, its *mark*: the point of that line up to
//! which tokens are spoken for. A draw fits if `max(mark, accrued) + cost <= accrued + capacity` ([`quota`]). All
//! arithmetic after construction is on integers, and exact: a retry at the hint of a [`Refusal`] succeeds if nobody
//! else drew, and fails a nanosecond (or one of the limit's ticks) earlier.
//!
//! A refused draw changes nothing: no token, no bucket, no key. A cost of 0 is a peek. A cost above the capacity is
//! refused as [impossible](Reason::Impossible), since no wait helps.
//!
//! # Bounds
//!
//! A table of buckets has a fixed number of cells. A bucket that is full again may be forgotten, since a key without
//! a bucket has a full one; a drained one is never forgotten to make room. A newcomer for whom there is no room is
//! refused ([table full](Reason::TableFull)), in the same time at any table size.
//!
//! # Threads
//!
//! Everything that decides takes `&self` and no lock, and no thread waits for another that stopped. (Calls that ask to
//! wait, and do wait, take a lock for a moment to queue; and those behind one that is not polled wait for it.) Draws are
//! linearizable, those of one [`Plan`] together. Counts and iteration are weak snapshots: exact when nobody draws.
//!
//! Unwinding out of a caller's code (a clock, a tool, a guard) leaves tables whole: nothing is drawn, and a cell in
//! hand goes back.
//!
//! # Time
//!
//! A [`time::Clock`] counts nanoseconds from its own start. The default is the standard library's monotonic clock;
//! [`time::CoarseClock`] is several times cheaper to read and [`time::ManualClock`] moves by hand. Calls that wait set
//! alarms on it, so that they wait in virtual time too.
//!
//! # Failing closed
//!
//! What cannot be judged is refused: a guard's error, a time past a limit's [horizon](quota::Arithmetic::horizon),
//! a full table. What cannot be built says which field is wrong and what is accepted ([`ConfigError`]).
//!
//! # Features
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `effects` | on | [`effect`]: permits, gates, deferral, journals, allowed hours |
//! | `headers` | on | [`headers`]: what responses say about a server's limits |
//! | `spend` | on | [`spend`]: budgets that are held before a call and settled after it |
//! | `sqlite` | off | `spend::SqliteStore`: budgets in a file, with a ledger |
//! | `policy` | off | `EffectPolicy::from_toml`, `SpendPolicy::from_toml`: rules of effects and budgets from policy files |
//!
//! # Observability
//!
//! Refusals carry their reasons as values. The kernel and the guards also emit `tracing` events under the targets
//! `tollgate::kernel`, `tollgate::guard`, `tollgate::effect` and `tollgate::spend`.

// Of the links above, those to a feature that is off.
#![cfg_attr(
    not(all(feature = "effects", feature = "headers", feature = "spend")),
    allow(rustdoc::broken_intra_doc_links)
)]

pub mod baseline;
#[cfg(feature = "spend")]
pub mod duration;
#[cfg(feature = "effects")]
pub mod effect;
#[cfg(feature = "policy")]
pub mod file;
pub mod guard;
#[cfg(feature = "headers")]
pub mod headers;
pub mod kernel;
pub mod key;
pub mod limiter;
pub mod plan;
pub mod quota;
#[cfg(feature = "spend")]
pub mod spend;
pub mod time;

mod append;
mod commit;
mod error;
#[cfg(any(feature = "spend", tollgate_loom, tollgate_shuttle))]
mod gauge;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
#[doc(hidden)]
pub mod model;
mod once;
mod refund;
mod refusal;
#[cfg(tollgate_stall)]
#[doc(hidden)]
pub mod stall;
mod sync;
mod table;
mod wait;
mod word;

pub use error::ConfigError;
pub use key::Key;
pub use limiter::{LimitSet, Limiter};
pub use plan::{Committed, Plan, PlanRefused};
pub use refusal::{LimitName, Reason, Refusal};
pub use table::draw::Admission;
pub use wait::{Acquire, AcquireError};

/// The examples of docs/effects.md, compiled.
#[cfg(all(doctest, feature = "effects"))]
#[doc = include_str!("../docs/effects.md")]
struct EffectsPage;

/// The examples of docs/spend.md, compiled.
#[cfg(all(doctest, feature = "spend"))]
#[doc = include_str!("../docs/spend.md")]
struct SpendPage;

/// The README's examples, compiled.
#[cfg(all(doctest, feature = "effects", feature = "headers", feature = "spend"))]
#[doc = include_str!("../README.md")]
struct Readme;
