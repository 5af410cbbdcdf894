//! Penalties: keys that may draw nothing until a set time.
//!
//! A penalty is a bucket of a second table, whose limit releases one unit a nanosecond: so its mark *is* the end of the
//! penalty, and the table's own rules do the rest. A bucket is reclaimed exactly when the penalty is over, and one in
//! force is never forgotten to make room for another. The table is made at the first penalty.

use super::{Limiter, Shared};
use crate::key::{Key, KeyBytes, encoded};
use crate::once::OnceBox;
use crate::quota::Quota;
use crate::refusal::{Reason, Refusal};
use crate::table::Table;
use crate::table::cell::PackedKey;
use crate::table::limits::Limits;
use crate::time::{EngineClock, nanos};
use crate::word::LONE_MARK;
use std::time::Duration;

/// The longest penalty in nanoseconds, some 146 years: a quarter of what a mark can tell, so that the other three are
/// left for the clock.
const LONGEST: u64 = 1 << (LONE_MARK - 2);

/// The penalties of one limiter.
#[derive(Debug)]
pub(crate) struct Penalties {
    table: OnceBox<Box<Table>>,
    /// What the table is made with.
    with: Shared,
}

impl Penalties {
    pub(super) fn new(clock: EngineClock, bucket_cap: usize) -> Self {
        Self { table: OnceBox::new(), with: Shared { clock, bucket_cap } }
    }

    /// The end of the penalty on the key with these bytes, if one is in force.
    #[inline]
    pub(crate) fn until(&self, bytes: &[u8]) -> Option<u64> {
        // All that a limiter without penalties pays.
        self.table.get().and_then(|table| in_force(table, bytes))
    }

    /// Bytes reserved, if there ever was a penalty.
    pub(super) fn memory_bytes(&self) -> usize {
        self.table.get().map_or(0, |table| table.memory_bytes())
    }

    /// Lets the key with these bytes draw nothing until that time, or later if it may draw nothing then already.
    pub(super) fn raise(&self, bytes: &[u8], until: u64) -> Result<(), Reason> {
        let now = self.with.clock.now();
        if until <= now {
            return Ok(());
        }
        let table = self.table.get_or_make(|| {
            let line = Quota::tokens_per(1, Duration::from_nanos(1)).burst(LONGEST);
            let limits = Limits::lone(vec![("penalty".into(), line)]).expect("a line that a mark can hold");
            let table = Table::new(limits, self.with.clock.clone(), self.with.bucket_cap);
            table.expect("a cap that the limiter's own table has")
        });
        table.raise(&table.pack(0, bytes), 0, until.min(now.saturating_add(LONGEST)))
    }
}

/// Kept apart: a limiter without penalties never comes here.
#[inline(never)]
fn in_force(table: &Table, bytes: &[u8]) -> Option<u64> {
    let (penalty, now) = table.peek(&table.pack(0, bytes), 0);
    Some(penalty.mark(0)).filter(|&until| until > now)
}

impl<K: Key + ?Sized> Limiter<K> {
    /// Lets `key` draw nothing before the clock shows `until` nanoseconds: what a server that says when to come back
    /// asks for. Until then every draw of a cost above 0 is refused as [penalized](Reason::Penalized), whatever the
    /// bucket holds, and calls that wait ([`acquire`](Self::acquire)) wait for that time too. Peeks go on, and the
    /// bucket refills meanwhile.
    ///
    /// Never shortens a penalty: of several, the latest end counts. A time that is past, or now, changes nothing. A
    /// penalty lasts at most 2^62 ns (146 years) from now.
    ///
    /// Penalties in force are as many as the `bucket_cap` at most, and none is dropped to make room for another. The
    /// first one makes a table for them; a limiter that never sees one pays nothing.
    ///
    /// # Errors
    /// [`Refusal`] with [`Reason::TableFull`] when that many other keys are penalized, and with
    /// [`Reason::PastHorizon`] when the clock is past 438 years: the key is *not* penalized then. The refusal asks for
    /// no tokens: `needed` and `available` are 0.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Reason, quota::Quota, time::ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder(Quota::per_second(10)).clock(clock.clone()).build()?;
    /// limiter.penalize_until("api.example", 3_000_000_000).unwrap();
    /// let refusal = limiter.check("api.example").unwrap_err();
    /// assert_eq!((refusal.reason, refusal.retry_after), (Reason::Penalized, Some(Duration::from_secs(3))));
    /// assert_eq!(limiter.peek("api.example"), 10);
    /// clock.advance(Duration::from_secs(3));
    /// limiter.check("api.example").unwrap();
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn penalize_until(&self, key: &K, until: u64) -> Result<(), Refusal> {
        let mut buffer = KeyBytes::default();
        self.penalties.raise(encoded(key, &mut buffer), until).map_err(|reason| Refusal {
            limit: self.table.limits.name(0, 0),
            reason,
            needed: 0,
            available: 0,
            retry_after: None,
        })
    }

    /// Lets `key` draw nothing for `wait` from now: [`penalize_until`](Self::penalize_until) the clock's time plus
    /// `wait` (plus the clock's [granularity](crate::time::Clock::granularity), so that it is never shorter).
    ///
    /// # Errors
    /// As [`penalize_until`](Self::penalize_until).
    pub fn penalize_for(&self, key: &K, wait: Duration) -> Result<(), Refusal> {
        if wait.is_zero() {
            return Ok(());
        }
        let clock = &self.table.clock;
        let until = clock.now().saturating_add(clock.granularity()).saturating_add(nanos(wait));
        self.penalize_until(key, until)
    }

    /// The nanosecond of the clock at which the penalty on `key` is over; `None` if none is in force.
    pub fn penalized_until(&self, key: &K) -> Option<u64> {
        let mut buffer = KeyBytes::default();
        self.penalties.until(encoded(key, &mut buffer))
    }

    /// Draws on a key under a penalty that ends at `until`: refused, also once more if it ends meanwhile.
    #[cold]
    pub(crate) fn penalized(&self, key: &PackedKey<'_>, cost: u64, until: u64) -> Refusal {
        let table = &*self.table;
        if let Some(impossible) = table.impossible(0, [cost, 0]) {
            return impossible;
        }
        let (mut buckets, now) = table.peek(key, 0);
        let available = buckets.available(0, now);
        let rest = Duration::from_nanos(until.saturating_sub(now).saturating_add(table.clock.granularity()));
        let own = match buckets.draw(0, cost, now) {
            Ok(_) => Some(Duration::ZERO),
            Err(decision) => {
                let refusal = table.explain(decision, 0, 0, cost, now);
                if refusal.reason == Reason::PastHorizon {
                    return refusal;
                }
                refusal.retry_after
            }
        };
        Refusal {
            limit: table.limits.name(0, 0),
            reason: Reason::Penalized,
            needed: cost,
            available,
            retry_after: own.map(|own| own.max(rest)),
        }
    }
}
