//! Spend budgets, by their behaviour.
#![cfg(feature = "spend")]

mod cases;
mod concurrent;
mod conservation;
mod events;
mod example;
mod failing;
mod families;
mod holds;
mod idempotency;
mod model;
mod panicking;
mod reopening;
mod sums;
mod support;
mod tiers;
mod windows;
