//! Money: spend budgets in several scopes, held before dispatch and settled after it.

pub mod amount;
pub mod books;
pub mod policy;
pub mod record;
pub mod refusal;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;
pub mod window;

pub use amount::{AmountError, Amounts, Dimension, Quantities};
pub use books::Books;
pub use policy::{Family, Grant, Limit, OnExpiry, ReducedProfile, Scope, SpendPolicy, Tiers};
pub use refusal::{Decision, Reason, Refusal, Tier};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteReader, SqliteStore};
pub use store::{Store, StoreError};
pub use window::Window;
