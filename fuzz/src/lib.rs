//! What the fuzz targets check, one module for each target: its input, and a `check` that panics on a finding.
//!
//! The models are those of the library's own tests.

pub mod guards;
pub mod keys;
pub mod limiter;
pub mod memory;
pub mod numbers;
pub mod policy;
pub mod quota;
pub mod traces;

#[path = "../../tests/support/guard_model.rs"]
mod guard_model;
#[path = "../../tests/support/oracle.rs"]
mod oracle;
#[path = "../../tests/support/mod.rs"]
mod support;
#[path = "../../tests/support/table_model.rs"]
mod table_model;
