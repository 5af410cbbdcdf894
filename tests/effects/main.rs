//! Effects that cannot be emitted unpaid: rules, permits, emissions, deferral, refunds, restarts.
#![cfg(feature = "effects")]

#[path = "../support/cases.rs"]
mod cases;
#[path = "../support/oracle.rs"]
mod oracle;
#[path = "../support/table_model.rs"]
mod table_model;

mod deferred;
mod fixture;
mod histories;
mod hours;
mod kernel;
mod loading;
mod permits;
mod recorded;
mod refunds;
mod reported;
mod restarts;
