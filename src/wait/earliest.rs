//! When a call's turn comes, given those before it.

use super::queues::Asks;
use crate::Limiter;
use crate::quota::{Arithmetic, Decision};
use crate::refusal::Refusal;
use crate::table::cell::PackedKey;

impl<K: ?Sized> Limiter<K> {
    /// The first nanosecond at which a call of this cost is admitted behind the calls `before` it, if nobody else
    /// draws: each of them is followed to its own first nanosecond, as the bucket and the penalty are now.
    ///
    /// # Errors
    /// The refusal, if that is never.
    pub(super) fn earliest(&self, key: &PackedKey<'_>, before: &[Asks], cost: u64) -> Result<u64, Refusal> {
        let penalty = self.penalties.until(key.bytes()).unwrap_or(0);
        let (bucket, now) = self.table.peek(key, 0);
        let line = bucket.arithmetic(0);
        let (mut mark, mut at) = (bucket.mark(0), now.max(penalty));
        for &Asks { cost, deadline } in before {
            // One that can never be admitted, or not in time any more, is refused when it looks, and takes nothing.
            match admitted(line, mark, at, cost) {
                Ok(next) if deadline.is_none_or(|deadline| next.1 <= deadline) => (mark, at) = next,
                _ => {}
            }
        }
        let explain = |decision| self.table.explain(decision, 0, 0, cost, now);
        admitted(line, mark, at, cost).map(|(_, at)| at).map_err(explain)
    }
}

/// The mark and the time after the next admission from `at` on.
fn admitted(line: &Arithmetic, mark: u64, at: u64, cost: u64) -> Result<(u64, u64), Decision> {
    match line.decide(mark, at, cost) {
        Decision::Admit { mark } => Ok((mark, at)),
        Decision::Exhausted { retry_at: Some(retry_at), .. } => match line.decide(mark, retry_at, cost) {
            Decision::Admit { mark } => Ok((mark, retry_at)),
            refused => Err(refused),
        },
        refused => Err(refused),
    }
}
