//! The first line against the policy: the same effects and quotas, in integers that say what their definitions say.

use super::record::{Declared, DeclaredQuota};
use super::release::Release;
use std::collections::HashMap;
use tollgate::effect::{AllowedHours, EffectPolicy, EffectRule, OnExhausted, QuotaRule};

/// What a journal says about itself, after it was found to be what the policy says.
#[derive(Debug)]
pub struct Header {
    /// When it begins, on the engine's clock.
    pub t: u64,
    /// Where that clock starts, from the start of 1970.
    pub epoch: u64,
    pub effects: Vec<Effect>,
    by_name: HashMap<String, usize>,
}

/// An effect.
#[derive(Debug)]
pub struct Effect {
    pub name: String,
    pub ttl: u64,
    pub hours: Option<AllowedHours>,
    pub quotas: Vec<Quota>,
}

/// A quota.
#[derive(Debug)]
pub struct Quota {
    pub definition: String,
    pub on_exhausted: OnExhausted,
    pub line: Release,
    /// The mark at which a key without a bucket begins, if the line is not there yet.
    pub floor: u64,
    pub most_refunded: u64,
    /// For a hard cap, its grid: period, and anchor in wall-clock time.
    pub grid: Option<(u64, u64)>,
}

impl Quota {
    /// May a bucket begin a life at `mark` at `t`?
    pub fn may_begin(&self, mark: u64, t: u64) -> bool {
        let (accrued, mark) = (self.line.accrued(t), u128::from(mark));
        let floor = u128::from(self.floor);
        if floor > accrued { mark == floor } else { mark <= accrued }
    }
}

impl Header {
    /// Checks the first line's content.
    ///
    /// # Errors
    /// In words, where it differs from the policy or from itself.
    pub fn new(
        policy: &EffectPolicy,
        format: u64,
        t: u64,
        epoch: u64,
        declared: &[Declared],
    ) -> Result<Self, String> {
        if format != 1 {
            return Err(format!("format is {format}, accepted: 1"));
        }
        if epoch.checked_add(t).is_none() {
            return Err("it begins past the end of the calendar".into());
        }
        let mut header = Self { t, epoch, effects: Vec::new(), by_name: HashMap::new() };
        for declared in declared {
            let name = &declared.effect;
            let rule = policy.rule(name).ok_or_else(|| format!("effect {name:?} is not in the policy"))?;
            let effect =
                effect(rule, declared, t, epoch).map_err(|what| format!("effect {name:?}: {what}"))?;
            if header.by_name.insert(name.clone(), header.effects.len()).is_some() {
                return Err(format!("effect {name:?} is there twice"));
            }
            header.effects.push(effect);
        }
        match policy.rules().iter().find(|rule| !header.by_name.contains_key(rule.tool())) {
            Some(rule) => Err(format!("effect {:?} of the policy is missing", rule.tool())),
            None => Ok(header),
        }
    }

    /// The number of the effect with that name.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The first time at or after `t` within an effect's hours, on the engine's clock; `None` if there is none.
    pub fn next_open(&self, effect: &Effect, t: u64) -> Option<u64> {
        match &effect.hours {
            None => Some(t),
            Some(hours) => hours.next_open(self.epoch.checked_add(t)?)?.checked_sub(self.epoch),
        }
    }
}

fn effect(rule: &EffectRule, declared: &Declared, t: u64, epoch: u64) -> Result<Effect, String> {
    let ttl = u64::try_from(rule.permit_ttl().as_nanos()).unwrap_or(u64::MAX);
    if declared.ttl != ttl {
        return Err(format!("ttl is {}, the policy says {ttl}", declared.ttl));
    }
    let hours = rule.allowed_hours().map(|hours| format!("{hours} {}", hours.when_outside()));
    if declared.hours != hours {
        let show = |hours: &Option<String>| hours.clone().unwrap_or("always".into());
        return Err(format!("hours are {}, the policy says {}", show(&declared.hours), show(&hours)));
    }
    let mut quotas: Vec<Quota> = Vec::with_capacity(declared.quotas.len());
    for declared in &declared.quotas {
        let name = &declared.quota;
        let known = rule.quotas().iter().find(|rule| rule.definition() == *name);
        let known = known.ok_or_else(|| format!("quota {name:?} is not in the policy"))?;
        if quotas.iter().any(|quota| quota.definition == *name) {
            return Err(format!("quota {name:?} is there twice"));
        }
        quotas.push(quota(known, declared, t, epoch).map_err(|what| format!("quota {name:?}: {what}"))?);
    }
    let missing = |rule: &&QuotaRule| !quotas.iter().any(|quota| quota.definition == rule.definition());
    match rule.quotas().iter().find(missing) {
        Some(rule) => Err(format!("quota {:?} of the policy is missing", rule.definition())),
        None => {
            Ok(Effect { name: rule.tool().to_owned(), ttl, hours: rule.allowed_hours().cloned(), quotas })
        }
    }
}

fn quota(rule: &QuotaRule, declared: &DeclaredQuota, t: u64, epoch: u64) -> Result<Quota, String> {
    let on_exhausted = rule.when_exhausted();
    if declared.on_exhausted != on_exhausted.as_str() {
        return Err(format!("on_exhausted is {:?}, the policy says {on_exhausted}", declared.on_exhausted));
    }
    let grid = agrees(declared, epoch)?;
    let line = Release {
        step: declared.step,
        phase: declared.phase,
        units_per_step: declared.units_per_step,
        units_per_token: declared.units_per_token,
        capacity: declared.capacity,
    };
    let (full, empty) = (line.accrued(t), line.accrued(t) + u128::from(line.capacity));
    let floor = u128::from(declared.floor);
    if floor != 0 && (floor <= full || floor > empty) {
        return Err(format!(
            "floor is {floor}, accepted: 0, or above {full} and up to {empty} for buckets that do not begin full"
        ));
    }
    // As wide as the engine makes it: room for at least 256 refunds of the whole capacity, in 32 bits or more.
    let most = declared.most_refunded;
    if most & most.wrapping_add(1) != 0 || most < u64::from(u32::MAX) || most >> 8 < declared.capacity {
        return Err(format!(
            "most_refunded is {most}, accepted: 2^n - 1 with n of at least 32, and at least 256 times the capacity"
        ));
    }
    let definition = declared.quota.clone();
    Ok(Quota { definition, on_exhausted, line, floor: declared.floor, most_refunded: most, grid })
}

/// Do the integers say what the definition says? Returns the grid of a hard cap.
fn agrees(declared: &DeclaredQuota, epoch: u64) -> Result<Option<(u64, u64)>, String> {
    let DeclaredQuota { step, phase, units_per_step, units_per_token, capacity, .. } = *declared;
    let wide = u128::from;
    match definition(&declared.quota).ok_or("not a definition")? {
        Definition::Rate { limit, period, burst } => {
            if ![1, 1_000, 1_000_000].contains(&step) {
                return Err(format!("step is {step}, accepted for a rate: 1, 1000 or 1000000"));
            }
            let released =
                wide(limit).checked_mul(wide(step)).and_then(|x| x.checked_mul(wide(units_per_token)));
            if units_per_token == 0 || released != Some(wide(units_per_step) * wide(period)) {
                return Err(format!(
                    "{units_per_step} units in {step} ns, of which {units_per_token} are a token, are not its rate"
                ));
            }
            if phase != 0 {
                return Err(format!("phase is {phase}, accepted for a rate: 0"));
            }
            if wide(capacity) != wide(burst) * wide(units_per_token) {
                return Err(format!("capacity is {capacity} units, which is not its burst"));
            }
            Ok(None)
        }
        Definition::Max { limit, period, anchor } => {
            if step != period || step == 0 || units_per_step != limit || units_per_token != 1 {
                return Err(format!(
                    "{units_per_step} units in {step} ns, of which {units_per_token} are a token, are not its windows"
                ));
            }
            // The line steps where t + phase is a multiple of the period, the grid where epoch + t - anchor is.
            let right = (i128::from(epoch) - i128::from(anchor)).rem_euclid(i128::from(period));
            if i128::from(phase) != right {
                return Err(format!("phase is {phase}, the grid's is {right}"));
            }
            if capacity != limit {
                return Err(format!("capacity is {capacity} units, which is not its limit"));
            }
            Ok(Some((period, anchor)))
        }
    }
}

enum Definition {
    Rate { limit: u64, period: u64, burst: u64 },
    Max { limit: u64, period: u64, anchor: u64 },
}

/// Reads `rate LIMIT per PERIODns burst BURST` or `max LIMIT per PERIODns from ANCHORns`.
fn definition(text: &str) -> Option<Definition> {
    let words: Vec<&str> = text.split(' ').collect();
    let nanos = |word: &str| word.strip_suffix("ns")?.parse::<u64>().ok();
    match words.as_slice() {
        ["rate", limit, "per", period, "burst", burst] => Some(Definition::Rate {
            limit: limit.parse().ok()?,
            period: nanos(period)?,
            burst: burst.parse().ok()?,
        }),
        ["max", limit, "per", period, "from", anchor] => Some(Definition::Max {
            limit: limit.parse().ok()?,
            period: nanos(period)?,
            anchor: nanos(anchor)?,
        }),
        _ => None,
    }
}
