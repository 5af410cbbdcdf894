//! Lifting a bucket's mark to a given point of its line: never down, and once, however many do it together.

use super::Table;
use super::cell::PackedKey;
use super::draw::Backoff;
use super::lookup::{Find, Hit};
use crate::refusal::Reason;

/// How a bucket was left as it is.
enum Left {
    /// It is there already.
    Beyond,
    /// The clock is past what the line can tell.
    PastHorizon,
}

impl Table {
    /// Sees to it that the mark of `key`'s bucket of a limit of one unit a token is at `to` or beyond it, or at the line.
    /// A bucket is made if there is none and `to` lies beyond the line.
    ///
    /// `to` lies at most the limit's capacity beyond the line.
    ///
    /// # Errors
    /// [`Reason::TableFull`] without room for a bucket, [`Reason::PastHorizon`] past the limit's horizon.
    pub(crate) fn raise(&self, key: &PackedKey<'_>, limit: u32, to: u64) -> Result<(), Reason> {
        if to <= self.limits.absent(limit).arithmetic(0).accrued(self.clock.now()) {
            return Ok(());
        }
        if let Find::Hit(hit) = self.find(key) {
            if let Some(answer) = self.raise_on(hit, limit, to) {
                return settle(Some(answer));
            }
        }
        settle(self.on_bucket(key, limit, |hit| self.raise_on(hit, limit, to)))
    }

    /// `None` when the bucket's life ended: search again.
    fn raise_on(&self, hit: Hit, limit: u32, to: u64) -> Option<Result<(), Left>> {
        let cell = self.cell(hit.cell);
        let mut backoff = Backoff::default();
        loop {
            let word = self.settled(hit.cell);
            if !word.same_life(hit.word, self.limits.layout) {
                return None;
            }
            // After the word, as in a draw.
            let now = self.clock.now();
            let mut buckets = self.limits.read_of(limit, word);
            let base = buckets.mark(0).max(buckets.arithmetic(0).accrued(now));
            let left = match base < to {
                false => Left::Beyond,
                true => match buckets.draw(0, to - base, now) {
                    Ok(_) => {
                        if cell.exchange(word, self.limits.drawn(word, &buckets)).is_ok() {
                            return Some(Ok(()));
                        }
                        backoff.pause();
                        continue;
                    }
                    Err(_) => Left::PastHorizon,
                },
            };
            // The key's bytes count only if the word did not change meanwhile.
            if cell.confirm(word).is_ok() {
                return Some(Err(left));
            }
        }
    }
}

fn settle(answer: Option<Result<(), Left>>) -> Result<(), Reason> {
    match answer {
        None => Err(Reason::TableFull),
        Some(Ok(()) | Err(Left::Beyond)) => Ok(()),
        Some(Err(Left::PastHorizon)) => Err(Reason::PastHorizon),
    }
}
