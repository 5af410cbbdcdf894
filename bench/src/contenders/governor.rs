//! governor's keyed limiter, over its default store (DashMap) with its default hasher.

use crate::call::Call;
use crate::subject::{Build, Subject};
use governor::clock::{Clock as GovernorClock, MonotonicClock, QuantaClock};
use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;
use std::time::Duration;
use tollgate::ConfigError;

/// One token a second for each capability, on the processor's counter (governor's default).
pub fn quanta() -> Build {
    Box::new(|capacity| limiter(capacity.key, QuantaClock::default()))
}

/// The same on the standard library's clock.
pub fn std() -> Build {
    Box::new(|capacity| limiter(capacity.key, MonotonicClock))
}

fn limiter<C>(capacity: u64, clock: C) -> Result<Box<dyn Subject>, ConfigError>
where
    C: GovernorClock + Send + Sync + 'static,
    C::Instant: Send + Sync,
{
    let out_of_range = || ConfigError {
        field: "capacity",
        value: capacity.to_string(),
        accepted: format!("1 to {} calls a round", u32::MAX),
    };
    let burst = u32::try_from(capacity).ok().and_then(NonZeroU32::new).ok_or_else(out_of_range)?;
    let quota = Quota::with_period(Duration::from_secs(1)).ok_or_else(out_of_range)?.allow_burst(burst);
    let limiter = RateLimiter::dashmap_with_clock(quota, clock);
    Ok(Box::new(move |call: &Call| limiter.check_key(call.id()).is_ok()))
}
