//! Calls that wait for their turn: [`Limiter::acquire`](crate::Limiter::acquire).
//!
//! | file | idea |
//! |---|---|
//! | [`acquire`] | one call that waits: a future that draws when it is polled, and not otherwise |
//! | [`queues`] | who waits at which key, in which order |
//! | [`earliest`] | when a call's turn comes, given those before it |
//! | [`blocking`] | waiting with a thread instead of a task |
//! | [`error`] | why a call does not wait |
//!
//! # Order
//! Those that wait at one key are admitted in the order in which they came, each only after the one before it. Who
//! asks for a key while others wait there goes behind them, even if there are tokens. Only the first of a queue ever
//! draws, and only while it is polled; so nothing is drawn for a call that is dropped, and there is nothing to give
//! back.
//!
//! # Waking
//! The first of a queue is woken by an alarm on the limiter's clock at the time that its refusal told, by whoever was
//! first before it and left (admitted, refused or dropped), and by a change of the quota. It is registered with the
//! queue *before* it looks at the bucket: a change that its look did not see comes after that, and finds its waker.

pub(crate) mod acquire;
mod blocking;
mod earliest;
mod error;
mod queues;

pub use acquire::Acquire;
pub use error::AcquireError;
pub(crate) use queues::Waiters;

/// The default of `queue_cap`.
pub(crate) const DEFAULT_QUEUE_CAP: usize = 1_024;
/// The default of `waiter_cap`.
pub(crate) const DEFAULT_WAITER_CAP: usize = 65_536;
