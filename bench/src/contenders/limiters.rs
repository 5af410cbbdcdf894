//! Limiters of one quota, of the engine and of the baseline.

use super::{Clock, built};
use crate::call::Call;
use crate::contenders::guards::Whose;
use crate::subject::{Bounded, Build};
use std::sync::Arc;
use tollgate::quota::Quota;
use tollgate::{ConfigError, Limiter, baseline};

/// One token a second for each capability.
pub fn single(whose: Whose, clock: Clock, cap: usize) -> Build {
    Box::new(move |capacity| {
        let quota = Quota::per_second(1).burst(capacity.key);
        Ok(bounded(whose, clock, cap, quota)?.subject)
    })
}

/// A limiter of `quota` with at most `cap` buckets.
pub fn bounded(whose: Whose, clock: Clock, cap: usize, quota: Quota) -> Result<Bounded, ConfigError> {
    Ok(match whose {
        Whose::Engine => {
            let limiter = Arc::new(built!(Limiter::<str>::builder(quota).bucket_cap(cap), clock));
            let counted = Arc::clone(&limiter);
            Bounded {
                subject: Box::new(move |call: &Call| limiter.check(call.id()).is_ok()),
                live: Box::new(move || counted.len()),
            }
        }
        Whose::Baseline => {
            let limiter = Arc::new(built!(baseline::Limiter::<str>::builder(quota).bucket_cap(cap), clock));
            let counted = Arc::clone(&limiter);
            Bounded {
                subject: Box::new(move |call: &Call| limiter.check(call.id()).is_ok()),
                live: Box::new(move || counted.len()),
            }
        }
    })
}
