//! Money: spend budgets in several scopes, held before dispatch and settled after it.

pub mod amount;
pub mod books;
mod call;
mod clock;
mod engine;
mod error;
mod event;
#[cfg(feature = "policy")]
pub mod file;
mod hold;
mod memory;
pub mod policy;
pub mod record;
pub mod refusal;
#[allow(clippy::module_inception, reason = "the type of that name is the module's front door")]
mod spend;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;
mod unit;
pub mod window;

#[cfg(feature = "policy")]
pub use crate::file::PolicyFileError;
pub use amount::{AmountError, Amounts, DIMENSIONS, Dimension, Quantities};
pub use books::{Books, Entry};
pub use call::Call;
pub use clock::{ManualWallClock, SystemClock, WallClock};
pub use engine::LimitStatus;
pub use error::{OpenError, SpendError};
pub use event::SpendEvent;
pub use hold::{Hold, HoldRef};
pub use memory::MemoryStore;
pub use policy::{
    Family, Grant, Limit, OnExpiry, ReducedProfile, Scope, SpendPolicy, SpendPolicyError, Tiers,
};
pub use record::{Account, Millis, Settlement};
pub use refusal::{Decision, Reason, Refusal, Tier, TierCause};
pub use spend::{Spend, SpendBuilder};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteReader, SqliteStore};
pub use store::{AccountBooks, Store, StoreError};
pub use unit::{MoneyError, MoneyUnit};
pub use window::{Window, WindowError};
