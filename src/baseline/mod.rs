//! The same guards and limiters behind one lock: a `Mutex<HashMap>`.
//!
//! Everything here answers exactly as its namesake elsewhere in the crate does when calls come one after
//! another, by the plainest means: one lock, one map of owned keys, a scan of the whole map when it is full.
//! That makes it two things: the sequential model that tests compare the lock-free engine with, and the
//! opponent that benchmarks compare it with. For production use there is no reason to prefer it.
//!
//! It shares with the engine only the arithmetic of one bucket ([`crate::quota::Arithmetic`]). Keys, capacity
//! accounting, pruning and the order of reasons are written separately.
//!
//! # Rules
//!
//! - A call is decided under the lock, at one reading of the clock.
//! - `bucket_cap` counts buckets. A key that has a bucket for each of two limits counts as two, and both must
//!   fit.
//! - A key without a bucket has a full one. A new key takes room; when there is none, every refilled bucket
//!   is forgotten, and when that does not make enough, the call is refused. A bucket that is not refilled is
//!   never evicted.
//! - A refused call changes no bucket, and makes none.
//! - Reasons come in this order: error, impossible, past the horizon, exhausted, table full. Of several
//!   exhausted limits the one with the longest wait is named, and of equal waits the first.
//!
//! ```
//! use tollgate::guard::{Guard, Verdict, VelocityConfig};
//! use tollgate::{baseline, guard};
//! # use tollgate::guard::{GuardContext, Scope, ToolCallRequest, ToolGrant};
//! # let scope = Scope { grants: vec![ToolGrant::new("srv", "search")] };
//! # let request = ToolCallRequest::default();
//! # let context = GuardContext { request: &request, scope: &scope, agent_id: "a", server_id: "srv", matched_grant_index: Some(0) };
//!
//! let config = VelocityConfig { max_invocations_per_window: Some(1), ..VelocityConfig::default() };
//! let plain = baseline::VelocityGuard::new(config);
//! assert_eq!(plain.evaluate(&context).unwrap(), Verdict::Allow);
//! assert_eq!(plain.evaluate(&context).unwrap(), Verdict::Deny);
//! assert_eq!(plain.bucket_count(), 1);
//! ```

mod agent_velocity;
mod limiter;
mod table;
mod velocity;

pub use agent_velocity::{AgentVelocityGuard, AgentVelocityGuardBuilder};
pub use limiter::{LimitSet, LimitSetBuilder, Limiter, LimiterBuilder};
pub use velocity::{VelocityGuard, VelocityGuardBuilder};

/// Buckets, unless a builder says otherwise.
const DEFAULT_BUCKET_CAP: usize = 65_536;
