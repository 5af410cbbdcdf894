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

#[cfg(test)]
mod tests {
    use super::super::permits::{End, Grant};
    use super::super::record::State;
    use super::super::release::Release;
    use super::*;
    use tollgate::effect::OnExhausted;

    const SECOND: u64 = 1_000_000_000;

    /// 1 a second, bursts of 2; or 2 in each 10 s from 3 s on.
    fn quota(grid: Option<(u64, u64)>) -> Quota {
        let line = match grid {
            None => Release {
                step: 1,
                phase: 0,
                units_per_step: 1,
                units_per_token: SECOND,
                capacity: 2 * SECOND,
            },
            Some((period, anchor)) => {
                let phase = period - anchor;
                Release { step: period, phase, units_per_step: 2, units_per_token: 1, capacity: 2 }
            }
        };
        let on_exhausted = OnExhausted::Block;
        Quota { definition: "q".into(), on_exhausted, line, floor: 0, most_refunded: u64::MAX, grid }
    }

    /// Grants (cost above 0) and refunds (below), at times in seconds, whose marks say nothing.
    fn bucket(moves: &[(u64, i64)], quota: &Quota) -> (Bucket, Permits) {
        let (mut bucket, mut permits) = (Bucket::default(), Permits::default());
        for (number, &(t, cost)) in (0..).zip(moves) {
            let t = t * SECOND;
            let back = cost.min(0).unsigned_abs() * quota.line.units_per_token;
            let (before, after) = (State { mark: back, refunded: 0 }, State { mark: 0, refunded: back });
            let (line, cost) = (number as u32 + 2, cost.max(0).unsigned_abs());
            let grant = Grant { t, cost, owner: 0, draws: 0, ticket: None, end: End::Held };
            let grant = permits.add(number, grant).unwrap();
            let kind = if cost > 0 { Kind::Grant } else { Kind::Refund };
            bucket.changes.push(Change { t, before, after, line, grant, kind });
        }
        (bucket, permits)
    }

    fn too_much(moves: &[(u64, i64)], grid: Option<(u64, u64)>) -> Option<u32> {
        let quota = quota(grid.map(|(period, anchor)| (period * SECOND, anchor * SECOND)));
        let (bucket, permits) = bucket(moves, &quota);
        grants(&bucket, &quota, 0, &permits).err().map(|violation| violation.line)
    }

    #[test]
    fn a_rate_grants_its_burst_and_its_refill_in_any_span() {
        assert_eq!(too_much(&[(0, 2), (1, 1), (2, 1), (9, 2)], None), None);
        assert_eq!(too_much(&[(0, 2), (1, 1), (1, 1)], None), Some(4));
        assert_eq!(too_much(&[(7, 2), (8, 2)], None), Some(3));
        assert_eq!(too_much(&[(7, 2), (7, -1), (8, 2)], None), None);
        assert_eq!(
            too_much(&[(7, 2), (9, -2), (9, 2), (9, 1)], None),
            Some(5),
            "a full bucket has no room for more"
        );
    }

    #[test]
    fn a_cap_grants_its_limit_in_each_window_of_its_grid() {
        let grid = Some((10, 3));
        assert_eq!(too_much(&[(0, 2), (3, 2), (13, 2)], grid), None);
        assert_eq!(too_much(&[(3, 1), (4, 1), (12, 1)], grid), Some(4));
        assert_eq!(too_much(&[(3, 2), (4, -1), (12, 1)], grid), None);
        assert_eq!(too_much(&[(3, 2), (13, -2), (13, 2), (13, 1)], grid), Some(5));
    }

    #[test]
    fn emissions_are_bounded_by_what_is_released_in_the_span_and_a_permits_life() {
        let at = |moves: &[(u64, u64)], grid, ttl: u64| {
            let quota = quota(grid);
            let list: Vec<Emission> =
                (2..).zip(moves).map(|(line, &(t, cost))| Emission { t: t * SECOND, cost, line }).collect();
            emissions(&list, &quota, ttl * SECOND).err().map(|violation| violation.line)
        };
        // In no time: the burst, and the refill of 3 s of life before.
        assert_eq!(at(&[(9, 2), (9, 3)], None, 3), None);
        assert_eq!(at(&[(9, 2), (9, 3), (9, 1)], None, 3), Some(4));
        assert_eq!(at(&[(9, 2), (9, 3), (10, 1), (10, 1)], None, 3), Some(5));
        // From the clock's start on there was nothing before.
        assert_eq!(at(&[(0, 3)], None, 3), Some(2));
        let grid = Some((10 * SECOND, 3 * SECOND));
        assert_eq!(at(&[(4, 2), (4, 2)], grid, 2), None);
        assert_eq!(at(&[(6, 2), (6, 2)], grid, 2), Some(3));
    }
}
