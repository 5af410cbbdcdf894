//! The state of budgets across a restart, by stable identity.
//!
//! ```text
//! {"format":1,"saved":1764547200000000000,"effects":[{"effect":"Search","quotas":[{"quota":"rate ...","owed":0,"units_per_token":600000}]}]}
//! {"effect":"Search","key":"616c696365","quota":"rate 100 per 60000000000ns burst 100","owed":120000,"units_per_token":600000}
//! 9f86d081884c7d65...                        SHA-256 of what is before it
//! ```
//! A line a bucket that is not full, with what it owes. The first line says what the state covers, and what a key of each quota
//! owes that has no line: nothing, unless the quota had itself begun empty not long before. A quota that is not covered begins
//! empty for every key.

use super::budget::{Budget, Quota};
use super::error::EffectsError;
use super::journal::Entry;
use crate::key::KeyBytes;
use crate::quota::Arithmetic;
use crate::table::limits::State;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    format: u32,
    saved: u64,
    effects: Vec<Covered>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Covered {
    effect: String,
    quotas: Vec<CoveredQuota>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoveredQuota {
    quota: String,
    /// By each key without a line.
    owed: u64,
    units_per_token: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bucket {
    effect: String,
    #[serde(with = "super::hex")]
    key: Vec<u8>,
    quota: String,
    owed: u64,
    units_per_token: u64,
}

/// What became of a state that was to be restored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Buckets that are as they were, refilled for the time since.
    pub buckets: usize,
    /// Quotas whose every bucket begins empty instead, and why.
    pub begun_empty: Vec<BegunEmpty>,
    /// Buckets of the state whose quota is not in the policy any more.
    pub left_out: usize,
}

/// A quota that begins empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunEmpty {
    /// The effect.
    pub effect: String,
    /// The quota's definition.
    pub quota: String,
    /// Why its buckets are not as they were.
    pub why: String,
}

/// A state that was read, or what is wrong with it.
pub(super) struct Saved(Result<(First, Vec<Bucket>), String>);

/// The state of all budgets at `now`.
pub(super) fn save(budgets: &[Budget], epoch: u64, now: u64) -> Vec<u8> {
    let covered_quota = |quota: &Quota| {
        let line = quota.table.limits.arithmetic(0, 0);
        CoveredQuota {
            quota: quota.definition.clone(),
            owed: quota.table.limits.floor().saturating_sub(line.accrued(now)),
            units_per_token: line.units_per_token(),
        }
    };
    let covered = |budget: &Budget| Covered {
        effect: budget.tool.clone(),
        quotas: budget.quotas.iter().map(covered_quota).collect(),
    };
    let first =
        First { format: 1, saved: epoch.saturating_add(now), effects: budgets.iter().map(covered).collect() };
    let mut state = Vec::new();
    line(&mut state, &first);
    for budget in budgets {
        for quota in &budget.quotas {
            let arithmetic = quota.table.limits.arithmetic(0, 0);
            quota.table.for_each_live(|_, key, word| {
                let mark = quota.table.limits.read(word).mark(0);
                let owed = mark.saturating_sub(arithmetic.accrued(now));
                if owed > 0 {
                    let bucket = Bucket {
                        effect: budget.tool.clone(),
                        key,
                        quota: quota.definition.clone(),
                        owed,
                        units_per_token: arithmetic.units_per_token(),
                    };
                    line(&mut state, &bucket);
                }
            });
        }
    }
    let sum = super::hex::encode(&Sha256::digest(&state));
    state.extend_from_slice(sum.as_bytes());
    state.push(b'\n');
    state
}

fn line(state: &mut Vec<u8>, object: &impl Serialize) {
    serde_json::to_writer(&mut *state, object).expect("texts and numbers are JSON, and memory takes them");
    state.push(b'\n');
}

impl Saved {
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self(read(bytes))
    }

    /// What the state says about that quota, if anything.
    fn covered(&self, effect: &str, definition: &str) -> Option<(&First, &CoveredQuota)> {
        let (first, _) = self.0.as_ref().ok()?;
        let covered = first.effects.iter().find(|covered| covered.effect == effect)?;
        let quota = covered.quotas.iter().find(|quota| quota.quota == definition)?;
        Some((first, quota))
    }

    /// The mark at which keys of that quota begin that have no bucket: of an empty one, if the state does not say.
    pub(super) fn floor(
        &self,
        effect: &str,
        definition: &str,
        line: &Arithmetic,
        epoch: u64,
        now: u64,
    ) -> u64 {
        let Some((first, quota)) = self.covered(effect, definition) else {
            return line.accrued(now) + line.capacity_units();
        };
        let since = first.since(epoch, now);
        let mark = mark_after(line, quota.owed, quota.units_per_token, since, now);
        if mark > line.accrued(now) { mark } else { 0 }
    }

    /// Gives the buckets of the state to the budgets. Returns what to record of it, too.
    pub(super) fn seed(
        &self,
        budgets: &[Budget],
        epoch: u64,
        now: u64,
    ) -> Result<(Restored, Vec<Entry>), EffectsError> {
        let mut restored = Restored::default();
        let mut entries = Vec::new();
        for budget in budgets {
            for quota in
                budget.quotas.iter().filter(|quota| self.covered(&budget.tool, &quota.definition).is_none())
            {
                let why = match &self.0 {
                    Err(why) => why.clone(),
                    Ok(_) => "the state does not know this quota: it is new, or was changed".to_owned(),
                };
                let (effect, quota) = (budget.tool.clone(), quota.definition.clone());
                restored.begun_empty.push(BegunEmpty { effect, quota, why });
            }
        }
        let Ok((first, buckets)) = &self.0 else { return Ok((restored, entries)) };
        let since = first.since(epoch, now);
        for bucket in buckets {
            let found = budgets.iter().enumerate().find_map(|(effect, budget)| {
                let quota = budget.quotas.iter().position(|quota| quota.definition == bucket.quota)?;
                (budget.tool == bucket.effect).then_some((effect, quota))
            });
            let Some((effect, number)) = found else {
                restored.left_out += 1;
                continue;
            };
            let quota = &budgets[effect].quotas[number];
            let line = quota.table.limits.arithmetic(0, 0);
            let mark = mark_after(line, bucket.owed, bucket.units_per_token, since, now);
            if mark <= line.accrued(now) {
                restored.buckets += 1;
                continue;
            }
            if !quota.table.seed(&quota.table.pack(0, &bucket.key), mark) {
                return Err(EffectsError::StateTooLarge {
                    tool: budgets[effect].tool.clone(),
                    quota: quota.definition.clone(),
                });
            }
            restored.buckets += 1;
            let mut bytes = KeyBytes::default();
            bytes.raw(&bucket.key);
            let state = State { mark, refunded: 0 };
            entries.push(Entry::Restore { at: now, effect, key: bytes, quota: number, state });
        }
        Ok((restored, entries))
    }
}

impl First {
    /// Nanoseconds since the state was saved. A wall clock that was set back gives nothing for them.
    fn since(&self, epoch: u64, now: u64) -> u64 {
        epoch.saturating_add(now).saturating_sub(self.saved)
    }
}

/// Where the mark of a bucket lies that owed so many units when it was saved, `since` nanoseconds ago.
fn mark_after(line: &Arithmetic, owed: u64, units_per_token: u64, since: u64, now: u64) -> u64 {
    // In this engine's units, rounded up: what is owed is never forgotten.
    let owed = u128::from(owed) * u128::from(line.units_per_token());
    let owed = owed.div_ceil(u128::from(units_per_token.max(1))).min(u128::from(line.capacity_units()));
    let owed = owed as u64; // at most the capacity
    line.accrued(now).saturating_add(owed.saturating_sub(line.released_before(now, since)))
}

fn read(bytes: &[u8]) -> Result<(First, Vec<Bucket>), String> {
    let damaged = |what: &str| format!("the saved state cannot be read: {what}");
    // The last line, of 64 digits, is the checksum of what is before it.
    let at = bytes.len().checked_sub(65).ok_or_else(|| damaged("it is too short"))?;
    let (content, sum) = bytes.split_at(at);
    if sum != format!("{}\n", super::hex::encode(&Sha256::digest(content))).as_bytes() {
        return Err(damaged("its checksum is another"));
    }
    let mut lines = content.split_inclusive(|&byte| byte == b'\n');
    let first: First = serde_json::from_slice(lines.next().unwrap_or_default())
        .map_err(|error| damaged(&error.to_string()))?;
    if first.format != 1 {
        return Err(damaged(&format!("its format is {}, accepted: 1", first.format)));
    }
    let buckets: Vec<Bucket> = lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| damaged(&error.to_string()))?;
    Ok((first, buckets))
}
