//! Effects that cannot be emitted unpaid: rules, permits, emissions, deferral, refunds, restarts.
#![cfg(feature = "effects")]

mod deferred;
mod fixture;
mod histories;
mod hours;
mod kernel;
mod loading;
mod permits;
mod recorded;
mod refunds;
mod restarts;
