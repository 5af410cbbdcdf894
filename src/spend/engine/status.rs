//! How full limits are, and what they may be from now on.

use super::gauges::slots;
use super::judge::Gauged;
use super::limits::UNLIMITED;
use super::{Engine, short};
use crate::gauge::{Seen, post};
use crate::spend::amount::{AmountError, Dimension, MOST};
use crate::spend::error::SpendError;
use crate::spend::record::Millis;
use crate::spend::window::Window;
use std::sync::PoisonError;

/// How full one limit of one account is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitStatus {
    /// What it counts.
    pub dimension: Dimension,
    /// Over which time.
    pub window: Window,
    /// The most; `None` where a family has no such cap.
    pub limit: Option<u64>,
    /// Used and settled.
    pub spent: u64,
    /// Set aside by open holds.
    pub held: u64,
    /// When the current window ends, or the oldest part of a rolling one lapses; `None` for a lifetime.
    pub resets_at: Option<Millis>,
}

impl LimitStatus {
    /// What is left; below 0 for debt. `None` without a limit.
    pub fn remaining(&self) -> Option<i128> {
        self.limit.map(|limit| i128::from(limit) - i128::from(self.spent) - i128::from(self.held))
    }
}

impl Engine {
    pub(crate) fn set_limit(
        &self,
        scope: &str,
        dimension: Dimension,
        window: &Window,
        amount: u64,
    ) -> Result<(), SpendError> {
        let policy = self.limits.policy();
        let place = policy.scopes.iter().position(|known| known.name == scope);
        let limit = place.and_then(|place| {
            policy.scopes[place]
                .limits
                .iter()
                .position(|limit| limit.dimension == dimension && limit.window == *window)
        });
        let (Some(place), Some(limit)) = (place, limit) else {
            let known =
                policy.scopes.iter().flat_map(|scope| scope.limits.iter().map(|limit| limit.id(&scope.name)));
            let known: Vec<_> = known.collect();
            return Err(SpendError::UnknownScope {
                scope: format!("{scope}/{dimension}/{window}"),
                known: known.join(", "),
            });
        };
        if amount > MOST {
            return Err(AmountError::TooLarge { dimension, amount }.into());
        }
        let _settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = self.limits.current_policy();
        changed.scopes[place].limits[limit].amount = amount;
        self.group.redefine(&changed, self.now())?;
        self.limits.set(place, limit, amount);
        Ok(())
    }

    pub(crate) fn status(&self, scope: &str, key: &str) -> Result<Vec<LimitStatus>, SpendError> {
        short("a key", key)?;
        let account = self.account(scope, key, false)?;
        let accounts = [account];
        let gauged = Gauged::new(&self.limits, &accounts);
        let postings = self.postings(&gauged, &[]);
        let held = accounts[0].held();
        let (_, seen) = post(
            &postings,
            || self.now(),
            slots(&gauged),
            |_, seen| {
                let takes = seen.iter().map(|_| 0).collect();
                // A window that rolls is freer when the oldest of what was used has lapsed, every other when it ends.
                let first = |number: usize, seen: &Seen<'_>| match gauged.line(number).window {
                    Window::Rolling(_) => seen.frees(1),
                    _ => Some(seen.slot),
                };
                let status = seen.iter().enumerate().map(|(number, seen)| (first(number, seen), seen.used));
                Ok::<_, (usize, ())>((takes, status.collect::<Vec<_>>()))
            },
        );
        let seen = seen.unwrap_or_default(); // nothing refuses
        Ok(seen
            .into_iter()
            .enumerate()
            .map(|(number, (slot, used))| {
                let line = gauged.line(number);
                let held = held[line.dimension].min(used);
                LimitStatus {
                    dimension: line.dimension,
                    window: line.window.clone(),
                    limit: (line.amount != UNLIMITED).then_some(line.amount),
                    spent: used - held,
                    held,
                    resets_at: slot.and_then(|slot| line.window.lapses(slot)),
                }
            })
            .collect())
    }
}
