//! The policy's amounts as quotas of the library, and the library's refusals as lines of the policy.

use super::{Amount, LimitRule, Places, Policy, duration};
use crate::failure::Failure;
use std::time::Duration;
use tollgate::ConfigError;
use tollgate::guard::Refill;
use tollgate::quota::Quota;

/// Where the engine's clock starts in trace time: window grids are laid in trace time, the engine counts from
/// its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift(pub u64);

impl LimitRule {
    /// The limit's quota on a clock that starts at `start`.
    pub fn quota(&self, start: Shift) -> Quota {
        match self.amount {
            Amount::Rate { tokens, per, burst } => {
                Quota::tokens_per(tokens, Duration::from_nanos(per)).burst(burst)
            }
            Amount::Window { tokens, per, anchor } => Quota::window(tokens, Duration::from_nanos(per))
                .anchored_at(Duration::from_nanos(anchor_after(anchor, start.0, per))),
        }
    }
}

/// The first grid point at or after `start`, counted from `start`: `(anchor - start) mod per`.
fn anchor_after(anchor: u64, start: u64, per: u64) -> u64 {
    if per == 0 {
        return 0; // refused by the library as a period
    }
    let (anchor, start) = (anchor % per, start % per);
    if anchor >= start { anchor - start } else { per - (start - anchor) }
}

/// A guard's limit: its name, its policy key and its quota.
pub struct GuardLimit {
    pub name: &'static str,
    pub quota: Quota,
}

impl Policy {
    /// The quotas of the agent guard's configured limits.
    pub fn agent_velocity_quotas(&self) -> Result<Vec<GuardLimit>, Failure> {
        let Some(guard) = &self.agent_velocity else { return Ok(Vec::new()) };
        let config = &guard.config;
        let limits = [
            (super::names::AGENT, "max_requests_per_agent", config.max_requests_per_agent.map(u64::from)),
            (
                super::names::SESSION,
                "max_requests_per_session",
                config.max_requests_per_session.map(u64::from),
            ),
        ];
        let shape = (config.window_secs, config.burst_factor);
        self.guard_quotas("agent_velocity", &guard.places, guard.refill, shape, limits)
    }

    /// The quotas of the grant guard's configured limits.
    pub fn velocity_quotas(&self) -> Result<Vec<GuardLimit>, Failure> {
        let Some(guard) = &self.velocity else { return Ok(Vec::new()) };
        let config = &guard.config;
        let limits = [
            (
                super::names::INVOCATIONS,
                "max_invocations_per_window",
                config.max_invocations_per_window.map(u64::from),
            ),
            (super::names::SPEND, "max_spend_per_window", config.max_spend_per_window),
        ];
        let shape = (config.window_secs, config.burst_factor);
        self.guard_quotas("velocity", &guard.places, guard.refill, shape, limits)
    }

    fn guard_quotas(
        &self,
        guard: &str,
        places: &Places,
        refill: Refill,
        (window_secs, burst_factor): (u64, f64),
        limits: [(&'static str, &'static str, Option<u64>); 2],
    ) -> Result<Vec<GuardLimit>, Failure> {
        // A window or factor that is out of range is so without any limit, too.
        refill
            .quota(1, window_secs, burst_factor)
            .map_err(|error| self.guard_mistake(guard, places, error.field, &error))?;
        let mut quotas = Vec::new();
        for (name, key, per_window) in limits {
            let Some(per_window) = per_window else { continue };
            let quota = refill.quota(per_window, window_secs, burst_factor);
            let checked = quota.and_then(|quota| quota.arithmetic(64).map(|_| quota));
            let quota = checked.map_err(|error| match error.field {
                field @ ("window_secs" | "burst_factor") if places.has(field) => {
                    self.guard_mistake(guard, places, field, &error)
                }
                _ => self.guard_mistake(guard, places, key, &error),
            })?;
            quotas.push(GuardLimit { name, quota });
        }
        Ok(quotas)
    }

    fn guard_mistake(&self, guard: &str, places: &Places, key: &str, error: &ConfigError) -> Failure {
        let text = match error.field {
            // The library's word for the number that this key holds.
            field if field == key || field == "per_window" => {
                format!("{guard}.{key} is {}, accepted: {}", error.value, error.accepted)
            }
            _ => format!("{guard}.{key}: {error}"),
        };
        Failure::Mend(format!("{}:{}: {text}", self.file, places.line(key)))
    }

    /// A guard that the library could not build from these figures.
    pub fn guard_refused(&self, guard: &str, places: &Places, error: &ConfigError) -> Failure {
        match error.field {
            "bucket_cap" => self.cap_refused(error),
            field => self.guard_mistake(guard, places, field, error),
        }
    }

    /// The table of the `[[limit]]`s could not be built.
    pub fn limits_refused(&self, error: &ConfigError) -> Failure {
        match error.field {
            "bucket_cap" => self.cap_refused(error),
            _ => Failure::Mend(format!("{}: the limits together: {error}", self.file)),
        }
    }

    fn cap_refused(&self, error: &ConfigError) -> Failure {
        Failure::Mend(format!("{}:{}: {error}", self.file, self.places.line("bucket_cap")))
    }

    /// Builds every quota once, so that a policy that cannot work is refused before any input is read.
    pub(super) fn check_quotas(&self) -> Result<(), Failure> {
        self.agent_velocity_quotas()?;
        self.velocity_quotas()?;
        for limit in &self.limits {
            limit.quota(Shift(0)).arithmetic(64).map_err(|error| self.limit_refused(limit, &error))?;
        }
        Ok(())
    }

    fn limit_refused(&self, limit: &LimitRule, error: &ConfigError) -> Failure {
        let (table, tokens, burst) = match limit.amount {
            Amount::Rate { burst, tokens, .. } => ("rate", tokens, burst != tokens),
            Amount::Window { tokens, .. } => ("window", tokens, false),
        };
        let (key, value) = match error.field {
            "period" => ("per", duration::show(0)),
            "capacity" if burst => ("burst", error.value.clone()),
            // As the policy says it, whatever the library computed from it.
            _ => ("tokens", tokens.to_string()),
        };
        let place = limit.places.line(key);
        let (file, name, accepted) = (&self.file, &limit.name, &error.accepted);
        Failure::Mend(format!(
            "{file}:{place}: limit \"{name}\": {table}.{key} is {value}, accepted: {accepted}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_grid_keeps_its_place_in_trace_time() {
        // Grid ..., 5, 15, 25, ...; the engine starts at 12, so the next point is 3 later.
        assert_eq!(anchor_after(5, 12, 10), 3);
        assert_eq!(anchor_after(5, 15, 10), 0);
        assert_eq!(anchor_after(0, 0, 10), 0);
        assert_eq!(anchor_after(25, 12, 10), 3);
        assert_eq!(anchor_after(7, 3, 0), 0);
    }

    proptest! {
        #[test]
        fn the_shifted_anchor_is_on_the_grid_and_within_one_period(anchor: u64, start: u64, per in 1u64..) {
            let shifted = anchor_after(anchor, start, per);
            prop_assert!(shifted < per);
            let on_grid = (u128::from(start) + u128::from(shifted)) % u128::from(per);
            prop_assert_eq!(on_grid, u128::from(anchor % per));
        }
    }
}
