//! A second bound that does not look at marks: from times, costs and refunds alone.

use super::bucket::{Bucket, Change, Kind, Violation};
use super::header::Quota;
use super::permits::Permits;

/// An emission: when, what it cost, and its line.
#[derive(Debug, Clone, Copy)]
pub struct Emission {
    pub t: u64,
    pub cost: u64,
    pub line: u32,
}

/// What a bucket granted, less what was refunded: for a rate, in any span at most the burst and what the span refills; for a
/// hard cap, in each window of its grid at most the limit. The changes are in their order.
///
/// # Errors
/// The first grant that is too much.
pub fn grants(bucket: &Bucket, quota: &Quota, epoch: u64, permits: &Permits) -> Result<(), Violation> {
    let cost = |change: &Change| {
        let cost = permits.grants.get(change.grant as usize).map_or(0, |grant| grant.cost);
        u128::from(cost) * u128::from(quota.line.units_per_token)
    };
    match quota.grid {
        None => rate(&bucket.changes, quota, cost),
        Some(grid) => windows(&bucket.changes, quota, epoch, grid, cost),
    }
}

/// What a refund gives back, in units.
fn back(change: &Change) -> u128 {
    u128::from(change.before.mark.saturating_sub(change.after.mark))
}

/// A bucket that leaks as fast as the quota refills, and must not overflow.
fn rate(changes: &[Change], quota: &Quota, cost: impl Fn(&Change) -> u128) -> Result<(), Violation> {
    let line = &quota.line;
    let (mut level, mut last) = (0u128, 0u128);
    for change in changes {
        let released = line.accrued(change.t);
        level = level.saturating_sub(released.saturating_sub(last));
        last = released;
        match change.kind {
            Kind::Grant => level += cost(change),
            Kind::Refund => level = level.saturating_sub(back(change)),
            Kind::Restore => {}
        }
        if level > u128::from(line.capacity) {
            let more = level - u128::from(line.capacity);
            let what = format!(
                "quota {:?} granted {more} units more than its burst and its refill in a span that ends here",
                quota.definition
            );
            return Err(Violation { line: change.line, what });
        }
    }
    Ok(())
}

fn windows(
    changes: &[Change],
    quota: &Quota,
    epoch: u64,
    (period, anchor): (u64, u64),
    cost: impl Fn(&Change) -> u128,
) -> Result<(), Violation> {
    let since = |t: u64| i128::from(epoch) + i128::from(t) - i128::from(anchor);
    let (mut granted, mut present) = (0u128, None);
    for change in changes {
        let window = Some(since(change.t).div_euclid(i128::from(period)));
        if present != window {
            (granted, present) = (0, window);
        }
        match change.kind {
            Kind::Grant => granted += cost(change),
            // A refund to a later window than its grant's gives nothing back, so it is no change.
            Kind::Refund => granted = granted.saturating_sub(back(change)),
            Kind::Restore => {}
        }
        if granted > u128::from(quota.line.capacity) {
            let what = format!("quota {:?} granted {granted} in one window", quota.definition);
            return Err(Violation { line: change.line, what });
        }
    }
    Ok(())
}

/// Emissions of one key, sorted by time: in any span at most the capacity and what is refilled in the span and a permit's
/// life before it.
///
/// # Errors
/// The first emission that is too much.
pub fn emissions(emissions: &[Emission], quota: &Quota, ttl: u64) -> Result<(), Violation> {
    let line = &quota.line;
    let released = |t: u64| i128::try_from(line.accrued(t)).unwrap_or(i128::MAX);
    let capacity = i128::from(line.capacity);
    // For the span from s to e: emitted(e) - emitted(before s) <= capacity + released(e) - released(s - ttl). Of all s, the
    // least `emitted(before s) - released(s - ttl)` counts.
    let (mut emitted, mut least) = (0i128, i128::MAX);
    for emission in emissions {
        least = least.min(emitted - released(emission.t.saturating_sub(ttl)));
        let units = i128::from(emission.cost).saturating_mul(i128::from(line.units_per_token));
        emitted = emitted.saturating_add(units);
        if emitted - capacity - released(emission.t) > least {
            let what = format!(
                "quota {:?} let more be emitted than its capacity and its refill in a span that ends here",
                quota.definition
            );
            return Err(Violation { line: emission.line, what });
        }
    }
    Ok(())
}
