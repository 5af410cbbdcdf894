//! Whose budgets a call draws on: its accounts, and the family of its grant.

use super::accounts::{Front, NoAccount};
use super::{Engine, Resolved, short};
use crate::spend::call::Call;
use crate::spend::error::SpendError;
use crate::spend::policy::Grant;
use crate::spend::record::{Account, FAMILY};
use std::sync::{Arc, PoisonError};

/// How many grants are remembered besides those of the policy; the store has them all.
const GRANTS_KEPT: usize = 65_536;

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
            path.push(Account { scope: scope.name.clone(), key });
        }
        let grant = call.grant.as_deref().map(|grant| self.resolve(grant)).transpose()?;
        if let Some(grant) = &grant {
            path.push(Account { scope: FAMILY.to_owned(), key: grant.root.clone() });
        }
        Ok((path.into(), grant.and_then(|grant| grant.ceiling)))
    }

    pub(crate) fn accounts(&self, path: &[Account]) -> Result<Vec<Arc<Front>>, SpendError> {
        path.iter().map(|account| self.account(&account.scope, &account.key)).collect()
    }

    pub(crate) fn account(&self, scope: &str, key: &str) -> Result<Arc<Front>, SpendError> {
        short("a key", key)?;
        let scopes = &self.limits.policy().scopes;
        let place = match scopes.iter().position(|known| known.name == scope) {
            Some(place) => place,
            None if scope == FAMILY => self.limits.family(),
            None => {
                let known: Vec<_> = scopes.iter().map(|scope| scope.name.as_str()).collect();
                return Err(SpendError::UnknownScope { scope: scope.to_owned(), known: known.join(", ") });
            }
        };
        let load = || self.limits.load(place, key, &**self.group.store(), self.now());
        self.accounts.get(place, key, load).map_err(|none| match none {
            NoAccount::Full(cap) => SpendError::Full { what: "account", cap },
            NoAccount::Store(error) => SpendError::Store(error),
        })
    }

    fn resolve(&self, grant: &str) -> Result<Arc<Resolved>, SpendError> {
        let kept = self.grants.read().unwrap_or_else(PoisonError::into_inner).get(grant).cloned();
        if let Some(resolved) = kept {
            return Ok(resolved);
        }
        let resolved = if let Some((family, ceiling)) = self.limits.policy().resolve(grant) {
            Resolved { root: family.root.clone(), ceiling }
        } else {
            // Each delegation was checked when it was made: its parent was known then, so there are no rings.
            let unknown = || SpendError::UnknownGrant { grant: grant.to_owned() };
            let kept = self.group.store().grant(grant)?.ok_or_else(unknown)?;
            let mut ceiling = kept.ceiling;
            let mut parent = kept.parent;
            loop {
                if let Some((family, above)) = self.limits.policy().resolve(&parent) {
                    let ceiling = [ceiling, above].into_iter().flatten().min();
                    break Resolved { root: family.root.clone(), ceiling };
                }
                let above = self.group.store().grant(&parent)?.ok_or_else(unknown)?;
                ceiling = [ceiling, above.ceiling].into_iter().flatten().min();
                parent = above.parent;
            }
        };
        let resolved = Arc::new(resolved);
        let mut grants = self.grants.write().unwrap_or_else(PoisonError::into_inner);
        if grants.len() >= GRANTS_KEPT {
            grants.clear();
        }
        grants.insert(grant.to_owned(), Arc::clone(&resolved));
        Ok(resolved)
    }

    pub(crate) fn delegate(&self, grant: &Grant) -> Result<(), SpendError> {
        short("a grant", &grant.id)?;
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
            None => Ok(self.group.store().delegate(grant)?),
        }
    }
}
