//! Why a call was refused, and what its caller can do next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The name of a limit: fixed by a guard, or given by whoever configured it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LimitName(Name);

#[derive(Clone)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for Name {}
impl std::hash::Hash for Name {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
impl Name {
    fn as_str(&self) -> &str {
        match self {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }
}

impl LimitName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}
impl From<&'static str> for LimitName {
    fn from(name: &'static str) -> Self {
        Self(Name::Static(name))
    }
}
impl From<String> for LimitName {
    fn from(name: String) -> Self {
        Self(Name::Shared(name.into()))
    }
}
impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl fmt::Debug for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// What kind of refusal it is: "never" differs from "not now".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The bucket holds too little now; it will hold enough after [`Refusal::retry_after`].
    Exhausted,
    /// The cost is above the capacity: no wait helps. Nothing was drained and no bucket was made.
    Impossible,
    /// The key has no bucket and the table has neither a free nor a refilled one for it.
    TableFull,
    /// The clock is past the last instant that the limit's arithmetic can represent (years after its
    /// start; [`Arithmetic::horizon`](crate::quota::Arithmetic::horizon) says when). Build the limit anew.
    PastHorizon,
    /// The key may draw nothing until a set time
    /// ([`Limiter::penalize_until`](crate::Limiter::penalize_until)), whatever its bucket holds.
    Penalized,
}

impl Reason {
    /// The reason as a stable lower-case word, for logs and decision records.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::Impossible => "impossible",
            Reason::TableFull => "table-full",
            Reason::PastHorizon => "past-horizon",
            Reason::Penalized => "penalized",
        }
    }
}
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused draw: which limit refused, why, what was needed and what there was, and when to try again.
///
/// A refused call changes nothing: no token is drained and no bucket is left behind.
///
/// ```
/// use tollgate::{Limiter, Reason, quota::Quota, time::ManualClock};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(Quota::per_minute(60).burst(1)).clock(clock.clone()).build()?;
/// limiter.check("alice").unwrap();
/// let refusal = limiter.check("alice").unwrap_err();
/// assert_eq!(refusal.reason, Reason::Exhausted);
/// assert_eq!((refusal.needed, refusal.available), (1, 0));
/// clock.advance(refusal.retry_after.unwrap());
/// limiter.check("alice").unwrap();
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Refusal {
    /// The limit that refused; of several exhausted ones, the one with the longest wait.
    pub limit: LimitName,
    /// Why.
    pub reason: Reason,
    /// What the call asked of this limit, in whole tokens.
    pub needed: u64,
    /// What the bucket held, in whole tokens, rounded down. For an impossible cost and for a key without
    /// a bucket this is the capacity. (A penalized key may draw none of them.)
    pub available: u64,
    /// The wait until the same call can be admitted, if nobody else draws meanwhile; rounded up to the
    /// limit's tick. For a penalized key: until its penalty is over and its bucket holds enough. `None` where waiting does not help (no refill, a cost above the capacity, a wait that would
    /// end past the limit's horizon) or cannot be foretold (a full table).
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, needed, available, .. } = self;
        match self.reason {
            Reason::Exhausted => {
                write!(f, "{limit} exhausted: needs {needed}, has {available}")?;
                match self.retry_after {
                    Some(wait) => write!(f, ", retry after {wait:?}"),
                    None => Ok(()),
                }
            }
            Reason::Impossible => {
                write!(f, "{limit} impossible: needs {needed}, capacity is {available}; no wait helps")
            }
            Reason::TableFull => {
                write!(
                    f,
                    "{limit} table full: no bucket is free for this key; raise bucket_cap or retry later"
                )
            }
            Reason::PastHorizon => {
                write!(f, "{limit} is past its horizon: the clock cannot be represented; rebuild the limit")
            }
            Reason::Penalized => {
                write!(f, "{limit} penalized: this key may draw nothing yet")?;
                match self.retry_after {
                    Some(wait) => write!(f, ", retry after {wait:?}"),
                    None => Ok(()),
                }
            }
        }
    }
}
