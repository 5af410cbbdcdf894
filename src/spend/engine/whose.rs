//! Whose budgets a call draws on: its accounts, and the family of its grant.

use super::accounts::{Front, NoAccount};
use super::{Engine, Resolved, short};
use crate::spend::call::Call;
use crate::spend::error::SpendError;
use crate::spend::policy::{Grant, least};
use crate::spend::record::{Account, FAMILY, HoldState};
use std::sync::{Arc, PoisonError};

/// How many grants are remembered besides those of the policy; the store has them all.
const GRANTS_KEPT: usize = 65_536;

/// How many delegations may lie between a grant and the policy: each costs a look when the grant is first used.
const DEPTH: usize = 64;

impl Engine {
    /// The accounts of a call, in the order of the policy, and the ceiling of its grant.
    pub(crate) fn path(&self, call: &Call) -> Result<(Arc<[Account]>, Option<u64>), SpendError> {
        let scopes = &self.limits.policy().scopes;
        for (name, _) in &call.scopes {
            if !scopes.iter().any(|scope| scope.name == *name && !scope.shared) {
                let known: Vec<_> =
                    scopes.iter().filter(|scope| !scope.shared).map(|scope| scope.name.as_str()).collect();
                return Err(SpendError::UnknownScope { scope: name.clone(), known: known.join(", ") });
            }
        }
        let mut path = Vec::with_capacity(scopes.len() + 1);
        for scope in scopes {
            let key = if scope.shared {
                String::new()
            } else {
                let named = call.scopes.iter().find(|(name, _)| *name == scope.name);
                let missing = || SpendError::MissingScope { scope: scope.name.clone() };
                named.map(|(_, key)| key.clone()).ok_or_else(missing)?
            };
            short("a key", &key)?;
            path.push(Account { scope: scope.name.clone(), key });
        }
        let grant = call.grant.as_deref().map(|grant| self.resolve(grant)).transpose()?;
        if let Some(grant) = &grant {
            path.push(Account { scope: FAMILY.to_owned(), key: grant.root.clone() });
        }
        Ok((path.into(), grant.and_then(|grant| grant.ceiling)))
    }

    pub(crate) fn accounts(&self, path: &[Account]) -> Result<Vec<Arc<Front>>, SpendError> {
        path.iter().map(|account| self.account(&account.scope, &account.key, false)).collect()
    }

    /// The accounts of a hold that is there already, room or not. Scopes that the policy has no longer have no limits to count
    /// for; their books go by the hold's path.
    pub(crate) fn accounts_of(&self, state: &HoldState) -> Result<Vec<Arc<Front>>, SpendError> {
        let there = state.path.iter().filter(|account| self.scope(&account.scope).is_some());
        there.map(|account| self.account(&account.scope, &account.key, true)).collect()
    }

    /// A scope's place.
    fn scope(&self, name: &str) -> Option<usize> {
        let place = self.limits.policy().scopes.iter().position(|known| known.name == name);
        place.or((name == FAMILY).then(|| self.limits.family()))
    }

    pub(crate) fn account(&self, scope: &str, key: &str, due: bool) -> Result<Arc<Front>, SpendError> {
        let place = self.scope(scope).ok_or_else(|| {
            let known = self.limits.policy().scopes.iter().map(|scope| scope.name.as_str());
            SpendError::UnknownScope { scope: scope.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
        })?;
        let load = || self.limits.load(place, key, &**self.group.store(), self.now());
        self.accounts.get(place, key, due, load).map_err(|none| match none {
            NoAccount::Full(cap) => SpendError::Full { what: "account", cap },
            NoAccount::Store(error) => SpendError::Store(error),
        })
    }

    /// What a grant comes to, by the policy and the delegations since.
    fn resolve(&self, grant: &str) -> Result<Arc<Resolved>, SpendError> {
        if let Some(known) = self.known(grant) {
            return Ok(known);
        }
        let resolved = match self.by_policy(grant) {
            Some(resolved) => resolved,
            None => Arc::new(self.by_delegation(grant)?),
        };
        let mut grants = self.grants.write().unwrap_or_else(PoisonError::into_inner);
        if grants.len() >= GRANTS_KEPT {
            grants.clear();
        }
        grants.insert(grant.to_owned(), Arc::clone(&resolved));
        Ok(resolved)
    }

    /// What it was resolved to before.
    fn known(&self, grant: &str) -> Option<Arc<Resolved>> {
        self.grants.read().unwrap_or_else(PoisonError::into_inner).get(grant).cloned()
    }

    fn by_policy(&self, grant: &str) -> Option<Arc<Resolved>> {
        let (family, ceiling) = self.limits.policy().resolve(grant)?;
        Some(Arc::new(Resolved { root: family.root.clone(), ceiling, depth: 0 }))
    }

    /// By the delegations from it up to the first grant that is known otherwise.
    fn by_delegation(&self, grant: &str) -> Result<Resolved, SpendError> {
        let unknown = || SpendError::UnknownGrant { grant: grant.to_owned() };
        let mut above = grant.to_owned();
        let mut ceiling = None;
        for depth in 1..=DEPTH {
            let delegated = self.group.store().grant(&above)?.ok_or_else(unknown)?;
            (above, ceiling) = (delegated.parent, least(ceiling, delegated.ceiling));
            let Some(known) = self.known(&above).or_else(|| self.by_policy(&above)) else { continue };
            if depth + known.depth > DEPTH {
                break;
            }
            return Ok(Resolved {
                root: known.root.clone(),
                ceiling: least(ceiling, known.ceiling),
                depth: depth + known.depth,
            });
        }
        Err(SpendError::TooDeep { grant: grant.to_owned(), most: DEPTH })
    }

    pub(crate) fn delegate(&self, grant: &Grant) -> Result<(), SpendError> {
        short("a grant", &grant.id)?;
        let _settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = |why: String| SpendError::Delegation { grant: grant.id.clone(), why };
        let parent = self.resolve(&grant.parent)?;
        if let (Some(own), Some(above)) = (grant.ceiling, parent.ceiling) {
            if own > above {
                let why = format!("its ceiling of {own} is above the {above} of {:?}", grant.parent);
                return Err(refused(why));
            }
        }
        if let Some((family, _)) = self.limits.policy().resolve(&grant.id) {
            return match self.limits.policy().grants.iter().any(|known| known == grant) {
                true => Ok(()),
                false => Err(refused(format!("the policy has it in the family of {:?}", family.root))),
            };
        }
        match self.group.store().grant(&grant.id)? {
            Some(known) if known == *grant => Ok(()),
            Some(known) => Err(refused(format!("{:?} delegated it already, with other terms", known.parent))),
            None if parent.depth >= DEPTH => {
                Err(SpendError::TooDeep { grant: grant.id.clone(), most: DEPTH })
            }
            None if self.is_below(&grant.parent, &grant.id)? => {
                let why = format!("an earlier delegation has {:?} below it", grant.parent);
                Err(refused(why))
            }
            None => Ok(self.group.store().delegate(grant)?),
        }
    }

    /// Was `grant` delegated from `ancestor`, at any remove? The policy is not asked: it may be another one next time, and then
    /// the delegations alone must not go round.
    fn is_below(&self, grant: &str, ancestor: &str) -> Result<bool, SpendError> {
        let mut above = grant.to_owned();
        for _ in 0..DEPTH {
            if above == ancestor {
                return Ok(true);
            }
            match self.group.store().grant(&above)? {
                Some(delegated) => above = delegated.parent,
                None => return Ok(false),
            }
        }
        Err(SpendError::TooDeep { grant: grant.to_owned(), most: DEPTH })
    }
}
