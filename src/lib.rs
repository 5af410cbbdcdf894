//! Decides whether an agent's call may go ahead: how often, and for how much money.

pub mod baseline;
pub mod guard;
pub mod kernel;
pub mod key;
pub mod limiter;
pub mod plan;
pub mod quota;
pub mod time;

mod append;
mod commit;
mod error;
#[cfg(tollgate_loom)]
#[doc(hidden)]
pub mod model;
mod refusal;
mod sync;
mod table;
mod word;

pub use error::ConfigError;
pub use key::Key;
pub use limiter::{LimitSet, Limiter};
pub use plan::{Committed, Plan, PlanRefused};
pub use refusal::{LimitName, Reason, Refusal};
pub use table::draw::Admission;
