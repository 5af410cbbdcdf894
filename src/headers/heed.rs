//! Doing what a response asks for.

use super::Hint;
use crate::key::Key;
use crate::{Limiter, Refusal};

impl<K: Key + ?Sized> Limiter<K> {
    /// Does what a response asks for: lets `key` draw nothing for the hint's
    /// [`retry_after`](Hint::retry_after) from now ([`penalize_for`](Self::penalize_for)). To be called when the
    /// response has come. A hint that asks for no wait changes nothing, and none shortens a penalty.
    ///
    /// The server says how long. Where it is not trusted that far, call `penalize_for` with a shorter time.
    ///
    /// # Errors
    /// As [`penalize_until`](Self::penalize_until): the key is not penalized then.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tollgate::{Limiter, headers::Hint, quota::Quota, time::ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder(Quota::per_second(10)).clock(clock.clone()).build()?;
    /// limiter.heed("api.example", &Hint::from_headers([("retry-after", "3")], SystemTime::now())).unwrap();
    /// assert_eq!(limiter.penalized_until("api.example"), Some(3_000_000_000));
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn heed(&self, key: &K, hint: &Hint) -> Result<(), Refusal> {
        match hint.retry_after {
            Some(wait) => self.penalize_for(key, wait),
            None => Ok(()),
        }
    }
}
