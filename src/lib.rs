//! Decides whether an agent's call may go ahead: how often, and for how much money.

pub mod baseline;
pub mod guard;
pub mod kernel;
pub mod key;
pub mod limiter;
pub mod plan;
pub mod quota;
pub mod time;

mod admission;
mod error;
mod refusal;

pub use admission::Admission;
pub use error::ConfigError;
pub use key::Key;
pub use limiter::{LimitSet, Limiter};
pub use plan::Plan;
pub use refusal::{LimitName, Reason, Refusal};
