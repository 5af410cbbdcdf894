//! What the headers of a response say about the server's limits: how long to wait, and what is left.
//!
//! | headers | from | wait |
//! |---|---|---|
//! | `Retry-After` | RFC 9110: seconds, or a date in one of the three forms of HTTP | as long |
//! | `retry-after-ms` | several API servers: milliseconds | as long |
//! | `X-RateLimit-Limit`, `-Remaining`, `-Reset`, with or without a suffix (`-Requests`, `-Tokens`) | many servers | until the reset, if 0 remain |
//! | `anthropic-ratelimit-NAME-limit`, `-remaining`, `-reset` | Anthropic | the same |
//! | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` | draft-ietf-httpapi-ratelimit-headers, up to version 06 | the same |
//! | `RateLimit`, `RateLimit-Policy` | the same draft, later versions; structured fields (RFC 9651) | the same |
//!
//! Names count whatever their case. Of several waits the longest wins; of several values for one budget the stricter
//! (the smaller limit and remainder, the later reset). What cannot be read is [listed](Hint::ignored) with the reason,
//! and the rest is read all the same. Other headers are passed over.
//!
//! # When a reset is
//!
//! Servers write resets in many ways, which can be told apart:
//!
//! | written | means |
//! |---|---|
//! | a number below 10^9 (`30`, `0.5`) | seconds from now (10^9 s are 31 years) |
//! | a number from 10^9 and below 10^12 (`1700000000`) | seconds since 1970: a time after September 2001 |
//! | a number from 10^12 on (`1700000000000`) | milliseconds since 1970 |
//! | numbers with units (`20ms`, `1s`, `6m0s`) | that time from now |
//! | an RFC 3339 time (`2026-01-31T12:00:00Z`) | then |
//! | a date of HTTP | then |
//!
//! Times that are past ask for no wait. `Retry-After` in seconds is never a time since 1970.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use tollgate::headers::Hint;
//! use tollgate::{Limiter, Reason, quota::Quota, time::ManualClock};
//!
//! let response = [
//!     ("Retry-After", "2"),
//!     ("x-ratelimit-limit-tokens", "90000"),
//!     ("x-ratelimit-remaining-tokens", "0"),
//!     ("x-ratelimit-reset-tokens", "6m0s"),
//! ];
//! let hint = Hint::from_headers(response, SystemTime::now());
//! assert_eq!(hint.retry_after, Some(Duration::from_secs(360)), "the longer of the two");
//! assert_eq!((hint.budgets[0].name.as_str(), hint.budgets[0].limit), ("tokens", Some(90_000)));
//!
//! let limiter = Limiter::builder(Quota::per_second(10)).clock(ManualClock::new()).build()?;
//! limiter.heed("api.example", &hint).unwrap();
//! assert_eq!(limiter.check("api.example").unwrap_err().reason, Reason::Penalized);
//! # Ok::<(), tollgate::ConfigError>(())
//! ```

mod budgets;
mod heed;
mod ignored;
mod structured;
mod values;

pub use budgets::{Budget, Family};
pub use ignored::{Expected, Ignored};

use budgets::{Budgets, Part};
use std::time::{Duration, SystemTime};

/// Budgets that one response may name; more are ignored.
pub(crate) const MOST_BUDGETS: usize = 32;
/// Headers of a response that are listed as ignored; more are left out.
const MOST_IGNORED: usize = 64;

/// What a response says about the server's limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hint {
    /// How long to wait from the receipt of the response: the longest of what `Retry-After` and its like ask for, and
    /// the time to the reset of each budget of which nothing remains. `None` if nothing asks for a wait; zero if the
    /// time it asks for is past.
    ///
    /// As long as the server likes, which may be for ever: bound it where that matters.
    pub retry_after: Option<Duration>,
    /// The budgets it names, in the order in which it does; 32 at most.
    pub budgets: Vec<Budget>,
    /// The headers that should have been understood and were not; 64 at most.
    pub ignored: Vec<Ignored>,
}

impl Hint {
    /// Reads the headers of a response that was received at `now` by the wall clock. A header that comes several times
    /// may be given several times. Never fails: what cannot be read is [ignored](Self::ignored), and listed.
    pub fn from_headers<N, V>(headers: impl IntoIterator<Item = (N, V)>, now: SystemTime) -> Self
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let mut reader = Reader { now, hint: Hint::default(), budgets: Budgets::default() };
        for (name, value) in headers {
            let (name, value) = (name.as_ref(), value.as_ref().trim_matches([' ', '\t']));
            // No header that counts is longer, so that a long one need not be copied.
            if name.len() <= 64 {
                if let Err(expected) = reader.read(&name.to_ascii_lowercase(), value) {
                    reader.ignore(name, value, expected);
                }
            }
        }
        reader.finish()
    }
}

/// Reads one response.
struct Reader {
    now: SystemTime,
    hint: Hint,
    budgets: Budgets,
}

impl Reader {
    /// Reads one header, whose name is in lower case.
    fn read(&mut self, name: &str, value: &str) -> Result<(), Expected> {
        match name {
            "retry-after" => {
                let wait = values::retry_after(value, self.now)?;
                self.wait(wait);
                return Ok(());
            }
            "retry-after-ms" => {
                let wait = values::milliseconds(value)?;
                self.wait(wait);
                return Ok(());
            }
            "ratelimit" => return structured::rate_limit(value, &mut self.budgets),
            "ratelimit-policy" => return structured::policy(value, &mut self.budgets),
            _ => {}
        }
        let Some((family, kind, budget)) = budget_of(name) else { return Ok(()) };
        let part = match kind {
            // Some servers write the policies behind it.
            "limit" => Part::Limit(values::count(value).or_else(|_| structured::first_integer(value))?),
            "remaining" => Part::Remaining(values::count(value)?),
            _ => Part::Reset(values::reset(value, self.now)?),
        };
        self.budgets.set(family, budget, part)
    }

    fn wait(&mut self, wait: Duration) {
        self.hint.retry_after = self.hint.retry_after.max(Some(wait));
    }

    fn ignore(&mut self, name: &str, value: &str, expected: Expected) {
        if self.hint.ignored.len() < MOST_IGNORED {
            self.hint.ignored.push(Ignored::new(name, value, expected));
        }
    }

    fn finish(mut self) -> Hint {
        for budget in self.budgets.into_vec() {
            if let (Some(0), Some(reset)) = (budget.remaining, budget.reset) {
                self.hint.retry_after = self.hint.retry_after.max(Some(reset));
            }
            self.hint.budgets.push(budget);
        }
        self.hint
    }
}

/// The family, the kind of value and the budget that a header's name tells.
fn budget_of(name: &str) -> Option<(Family, &str, &str)> {
    let is_kind = |kind: &&str| matches!(*kind, "limit" | "remaining" | "reset");
    if let Some(rest) = name.strip_prefix("x-ratelimit-") {
        // The kind comes first: x-ratelimit-reset-tokens.
        let (kind, budget) = rest.split_once('-').unwrap_or((rest, ""));
        return Some(kind).filter(is_kind).map(|kind| (Family::XRateLimit, kind, budget));
    }
    if let Some(rest) = name.strip_prefix("anthropic-ratelimit-") {
        // The kind comes last: anthropic-ratelimit-input-tokens-reset.
        let (budget, kind) = rest.rsplit_once('-')?;
        return Some(kind).filter(is_kind).map(|kind| (Family::Anthropic, kind, budget));
    }
    let kind = name.strip_prefix("ratelimit-")?;
    Some(kind).filter(is_kind).map(|kind| (Family::Fields, kind, ""))
}
