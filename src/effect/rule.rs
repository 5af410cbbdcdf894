//! What is declared about effects: quotas, what happens when one is exhausted, allowed hours.
//!
//! Plain data. A builder, the [`budget!`](crate::budget) macro and a policy file all end here; what can be wrong with
//! it is found when an [`Effects`](super::Effects) is built from it.

use super::hours::AllowedHours;
use crate::ConfigError;
use crate::quota::{Arithmetic, Quota, refundable_arithmetic};
use crate::table::DEFAULT_BUCKET_CAP;
use crate::time::nanos;
use crate::word::REFUNDABLE_BITS;
use std::fmt;
use std::time::Duration;

/// What becomes of a call for which a quota has nothing left.
///
/// Among the quotas that refuse one call the strictest answer holds: block beats defer, and defer beats shed.
///
/// ```
/// use tollgate::effect::OnExhausted;
/// assert!(OnExhausted::Block > OnExhausted::Defer && OnExhausted::Defer > OnExhausted::Shed);
/// assert_eq!("defer".parse::<OnExhausted>(), Ok(OnExhausted::Defer));
/// assert!("drop".parse::<OnExhausted>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum OnExhausted {
    /// The flow goes on without the effect: [`Outcome::Shed`](super::Outcome::Shed).
    Shed,
    /// The call is kept and emitted when the quota allows: [`EffectDeferred`](super::EffectError::EffectDeferred).
    Defer,
    /// The call is refused: [`EffectQuotaExhausted`](super::EffectError::EffectQuotaExhausted). The default.
    #[default]
    Block,
}

impl OnExhausted {
    /// As policy files spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shed => "shed",
            Self::Defer => "defer",
            Self::Block => "block",
        }
    }
}
impl fmt::Display for OnExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`OnExhausted`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("on_exhausted is {0:?}, accepted: \"block\", \"defer\" or \"shed\"")]
pub struct UnknownOnExhausted(pub String);

impl std::str::FromStr for OnExhausted {
    type Err = UnknownOnExhausted;
    fn from_str(word: &str) -> Result<Self, UnknownOnExhausted> {
        [Self::Shed, Self::Defer, Self::Block]
            .into_iter()
            .find(|known| known.as_str() == word)
            .ok_or_else(|| UnknownOnExhausted(word.to_owned()))
    }
}

/// One quota of an effect.
///
/// ```
/// use std::time::Duration;
/// use tollgate::effect::{OnExhausted, QuotaRule};
///
/// const MINUTE: Duration = Duration::from_secs(60);
/// let searches = QuotaRule::rate(100, MINUTE).burst(150).on_exhausted(OnExhausted::Defer);
/// let mails = QuotaRule::max(50, Duration::from_secs(86_400));
/// assert_eq!(searches.definition(), "rate 100 per 60000000000ns burst 150");
/// assert_eq!(mails.definition(), "max 50 per 86400000000000ns from 0ns");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuotaRule {
    amount: Amount,
    on_exhausted: OnExhausted,
}

/// How much a quota allows. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Amount {
    Rate { limit: u64, period: u64, burst: u64 },
    Max { limit: u64, period: u64, anchor: u64 },
}

impl QuotaRule {
    /// Continuous refill of `limit` tokens a `period`, bursts of as many.
    ///
    /// In any span `T` the grants, less refunds, are at most `burst + limit * T / period`.
    pub fn rate(limit: u64, period: Duration) -> Self {
        let amount = Amount::Rate { limit, period: nanos(period), burst: limit };
        Self { amount, on_exhausted: OnExhausted::default() }
    }

    /// A hard cap: at most `limit` tokens in each window of `period`, with no refill inside.
    ///
    /// Windows lie on a fixed grid in wall-clock time, through [the anchor](Self::anchored_at). Two of them meet at their
    /// boundary, so a span of one period that lies across it can see up to `2 * limit`.
    pub fn max(limit: u64, period: Duration) -> Self {
        let amount = Amount::Max { limit, period: nanos(period), anchor: 0 };
        Self { amount, on_exhausted: OnExhausted::default() }
    }

    /// Sets how many tokens of a rate can be taken at once. A `max` has no burst: there this changes nothing.
    #[must_use]
    pub fn burst(mut self, tokens: u64) -> Self {
        if let Amount::Rate { burst, .. } = &mut self.amount {
            *burst = tokens;
        }
        self
    }

    /// Lays the windows' grid through `anchor`, counted from the start of 1970 in UTC; without it a day's windows begin at
    /// midnight UTC. A rate has no grid: there this changes nothing.
    #[must_use]
    pub fn anchored_at(mut self, anchor: Duration) -> Self {
        if let Amount::Max { period, anchor: place, .. } = &mut self.amount {
            *place = (anchor.as_nanos() % u128::from((*period).max(1))) as u64;
        }
        self
    }

    /// Sets what becomes of a call that this quota refuses.
    #[must_use]
    pub fn on_exhausted(mut self, on_exhausted: OnExhausted) -> Self {
        self.on_exhausted = on_exhausted;
        self
    }

    /// What becomes of a call that this quota refuses.
    pub fn when_exhausted(&self) -> OnExhausted {
        self.on_exhausted
    }

    /// The quota in one canonical text: what a journal and a saved state name it by. What becomes of a refused call is
    /// not part of it.
    pub fn definition(&self) -> String {
        match self.amount {
            Amount::Rate { limit, period, burst } => format!("rate {limit} per {period}ns burst {burst}"),
            Amount::Max { limit, period, anchor } => format!("max {limit} per {period}ns from {anchor}ns"),
        }
    }

    pub(crate) fn amount(&self) -> Amount {
        self.amount
    }

    /// The quota on a clock whose time 0 is `epoch` nanoseconds after the start of 1970.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::effect::QuotaRule;
    /// let quota = QuotaRule::rate(100, Duration::from_secs(60)).burst(150).quota(0);
    /// assert_eq!(quota.capacity(), 150);
    /// ```
    pub fn quota(&self, epoch: u64) -> Quota {
        match self.amount {
            Amount::Rate { limit, period, burst } => {
                Quota::tokens_per(limit, Duration::from_nanos(period)).burst(burst)
            }
            Amount::Max { limit, period, anchor } => {
                // The first grid point at or after the clock's start, counted from it.
                let period_or_1 = period.max(1);
                let (anchor, start) = (anchor % period_or_1, epoch % period_or_1);
                let after = if anchor >= start { anchor - start } else { period_or_1 - (start - anchor) };
                Quota::window(limit, Duration::from_nanos(period)).anchored_at(Duration::from_nanos(after))
            }
        }
    }

    /// The integers that the engine counts with, on a clock whose time 0 is `epoch` nanoseconds after the start of 1970. Its
    /// words also count refunds, so the ticks of a fast rate can be coarser than a [`Limiter`](crate::Limiter)'s.
    ///
    /// # Errors
    /// The quota cannot be counted for five years with its refunds: [`ConfigError`] names the number that is too big.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::effect::QuotaRule;
    /// let line = QuotaRule::rate(5, Duration::from_secs(1)).arithmetic(0)?;
    /// assert_eq!((line.capacity(), line.resolution()), (5, 1_000));
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn arithmetic(&self, epoch: u64) -> Result<Arithmetic, ConfigError> {
        refundable_arithmetic(&self.quota(epoch), REFUNDABLE_BITS).map(|(line, _)| line)
    }
}

/// Everything that is declared about one effect.
///
/// ```
/// use std::time::Duration;
/// use tollgate::effect::{EffectRule, QuotaRule};
///
/// let email = EffectRule::new("Email")
///     .quota(QuotaRule::max(50, Duration::from_secs(86_400)))
///     .quota(QuotaRule::rate(5, Duration::from_secs(60)))
///     .ttl(Duration::from_secs(10));
/// assert_eq!((email.tool(), email.quotas().len()), ("Email", 2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRule {
    tool: String,
    quotas: Vec<QuotaRule>,
    hours: Option<AllowedHours>,
    ttl: Duration,
    bucket_cap: usize,
}

impl EffectRule {
    /// An effect of that name without quotas; it needs at least one. Permits live for a minute.
    pub fn new(tool: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            quotas: Vec::new(),
            hours: None,
            ttl: Duration::from_secs(60),
            bucket_cap: DEFAULT_BUCKET_CAP,
        }
    }

    /// Adds a quota. A permit is a draw on all of them, or on none.
    #[must_use]
    pub fn quota(mut self, quota: QuotaRule) -> Self {
        self.quotas.push(quota);
        self
    }

    /// Sets the hours in which the effect may be emitted.
    #[must_use]
    pub fn hours(mut self, hours: AllowedHours) -> Self {
        self.hours = Some(hours);
        self
    }

    /// Sets how long a permit may be held before its emission; a minute if not set.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how many keys each quota has buckets for at most, 1 to 16,777,216; 65,536 if not set.
    #[must_use]
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.bucket_cap = buckets;
        self
    }

    /// The effect's name.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Its quotas, in the order they were added.
    pub fn quotas(&self) -> &[QuotaRule] {
        &self.quotas
    }

    /// Its allowed hours, if it has any.
    pub fn allowed_hours(&self) -> Option<&AllowedHours> {
        self.hours.as_ref()
    }

    /// How long its permits live.
    pub fn permit_ttl(&self) -> Duration {
        self.ttl
    }

    /// How many keys each of its quotas has buckets for.
    pub fn buckets(&self) -> usize {
        self.bucket_cap
    }
}

/// The rules of several effects.
///
/// ```
/// use std::time::Duration;
/// use tollgate::effect::{EffectPolicy, EffectRule, QuotaRule};
///
/// let policy = EffectPolicy::new()
///     .effect(EffectRule::new("Search").quota(QuotaRule::rate(100, Duration::from_secs(60))))
///     .effect(EffectRule::new("Email").quota(QuotaRule::max(50, Duration::from_secs(86_400))));
/// assert_eq!(policy.rules().len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EffectPolicy {
    rules: Vec<EffectRule>,
}

impl EffectPolicy {
    /// No rules yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an effect's rules.
    #[must_use]
    pub fn effect(mut self, rule: EffectRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// The rules, in the order they were added.
    pub fn rules(&self) -> &[EffectRule] {
        &self.rules
    }

    /// The rules of the effect with that name.
    pub fn rule(&self, tool: &str) -> Option<&EffectRule> {
        self.rules.iter().find(|rule| rule.tool == tool)
    }
}
