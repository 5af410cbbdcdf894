//! Effects that cannot be emitted unpaid.
//!
//! A limiter beside the program is advice. Here the permission is a value: a tool is reached through its [`Gate`] alone, the
//! gate takes a [`Permit`], and a permit is a draw that the engine committed on every quota of the effect. The permit is
//! consumed by the emission, so what was paid for once cannot be sent twice; the compiler sees to it.
//!
//! ```text
//! rules (builder, budget!, policy file) --> Effects --> Gate<E> --permit--> Permit<E> --emit--> the tool
//!                                              |            \--call------------------------------^
//!                                              |             \--deferred--> ledger --run_due-----^
//!                                              +--> journal: every decision, for `tollgate verify`
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `rule`, `hours`, `macros`, `file` | what is declared |
//! | `budget` | the quotas at work: all grant, or none is touched |
//! | `ask`, `permit`, `gate`, `outcome`, `error` | asking, paying, emitting |
//! | `toll`, `tool_budget` | what gates and kernels share; a kernel's tools |
//! | `effects` | what ties them together |
//! | `ledger`, `worker` | calls that were kept until they are due, and a thread that runs them |
//! | `journal` | the record of every decision |
//! | `state` | budgets across a restart |
//!
//! `docs/effects.md` states what holds and what is not claimed.

mod ask;
mod budget;
mod effects;
mod error;
#[cfg(feature = "policy")]
pub mod file;
mod gate;
mod hex;
mod hours;
mod journal;
mod ledger;
mod macros;
mod outcome;
mod payload;
mod permit;
mod rule;
mod state;
mod toll;
mod tool_budget;
mod worker;

pub use effects::{Effects, EffectsBuilder};
pub use error::{EffectError, EffectsError};
#[cfg(feature = "policy")]
pub use file::PolicyFileError;
pub use gate::{Call, Effect, Gate, Unsent};
pub use hours::{AllowedHours, Day, HoursError};
pub use journal::{Journal, JournalError, Seal, WhenFull};
pub use ledger::{Deferred, DeferredLedger, Keeper, LedgerError, Reopened, Ticket};
#[doc(hidden)]
pub use macros::gather as __gather;
pub use outcome::{Outcome, Shed};
pub use payload::{Payload, PayloadError};
pub use permit::{Permit, Refund};
pub use rule::{EffectPolicy, EffectRule, OnExhausted, QuotaRule, UnknownOnExhausted};
pub use state::{BegunEmpty, Restored};
pub use toll::{DueError, DueReport, UnsentReason};
pub use tool_budget::{Payer, ToolBudget};
pub use worker::DueWorker;
