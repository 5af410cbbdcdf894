//! Policy files: what is wrong with one, and where.
//!
//! What may be in them: [`effect::file`](crate::effect::file), [`spend::file`](crate::spend::file).

mod error;
#[doc(hidden)]
pub mod section;

pub use error::{Found, PolicyFileError};
