//! How full every limit of every account is, for people who look at a store from outside.

use super::base::Base;
use super::limits::{Counted, Limits};
use super::queries;
use crate::spend::LimitStatus;
use crate::spend::amount::Quantities;
use crate::spend::policy::SpendPolicy;
use crate::spend::record::{FAMILY, HoldState, Millis};
use rusqlite::{Connection, OptionalExtension, Result};
use std::collections::{BTreeSet, HashMap};

/// The limits of one account, and how full each is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountStatus {
    /// Its scope; [`FAMILY`] for families.
    pub scope: String,
    /// Whose; empty for a scope that everybody shares.
    pub key: String,
    /// Its limits, in the order of the policy; of a family cost and calls.
    pub limits: Vec<LimitStatus>,
}

/// What open holds have set aside in an account: how much, and at which instant.
type Held<'h> = HashMap<(&'h str, &'h str), Vec<(Millis, Quantities)>>;

/// All accounts that the policy has limits for, in the order of its scopes and of keys, families last.
pub(super) fn accounts(connection: &Connection, now: Millis) -> Result<Vec<AccountStatus>> {
    let Some(policy) = queries::policy(connection)? else { return Ok(Vec::new()) };
    let now = now.max(latest(connection)?);
    let limits = Limits::of(&policy);
    let open = queries::open_holds(connection)?;
    let held = held(&open);
    let kept = queries::books(connection, Some(&policy))?;
    let mut keys: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for account in &kept {
        keys.entry(&account.scope).or_default().insert(&account.key);
    }
    // These are there before anybody uses them.
    for scope in policy.scopes().iter().filter(|scope| scope.is_shared()) {
        keys.entry(scope.name()).or_default().insert("");
    }
    for family in policy.families() {
        keys.entry(FAMILY).or_default().insert(family.root());
    }
    let numbers = limits.all.iter().map(|counted| {
        let mut select = connection.prepare_cached("SELECT n FROM counted WHERE id = ?1")?;
        select.query_row([&counted.id], |row| row.get(0))
    });
    let numbers: Vec<i64> = numbers.collect::<Result<_>>()?;
    let mut accounts = Vec::new();
    for scope in policy.scopes().iter().map(|scope| scope.name()).chain([FAMILY]) {
        for &key in keys.get(scope).into_iter().flatten() {
            let parts = held.get(&(scope, key)).map_or(&[][..], Vec::as_slice);
            let of_account = limits.of_scope(scope).iter().enumerate().map(|(at, &index)| {
                let counted = &limits.all[index];
                let used = queries::usage(connection, numbers[index], key, counted.reaches(now))?;
                Ok(counted.status(amount(&policy, counted, at, key), &used, parts, now))
            });
            let (scope, key) = (scope.to_owned(), key.to_owned());
            accounts.push(AccountStatus { scope, key, limits: of_account.collect::<Result<_>>()? });
        }
    }
    Ok(accounts)
}

/// The time of the last record: what the ledger says of policies and grants is no time that budgets have seen.
pub(super) fn latest(connection: &Connection) -> Result<Millis> {
    let sql = "SELECT at FROM ledger WHERE hold IS NOT NULL ORDER BY seq DESC LIMIT 1";
    let last: Option<i64> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    let last = last.and_then(|at| Millis::try_from(at).ok()).unwrap_or(0);
    Ok(Base::latest(connection)?.max(last))
}

fn held(open: &[HoldState]) -> Held<'_> {
    let mut held = Held::new();
    for hold in open {
        for account in hold.path.iter() {
            let parts = held.entry((&account.scope, &account.key)).or_default();
            parts.extend(hold.parts.iter().map(|part| (part.at, part.left)));
        }
    }
    held
}

/// The most of a limit, the `at`-th of its scope; `None` where a family has no such cap. A family that the policy no longer has
/// may use nothing.
fn amount(policy: &SpendPolicy, counted: &Counted, at: usize, key: &str) -> Option<u64> {
    match policy.scopes.iter().find(|scope| scope.name == counted.scope) {
        Some(scope) => scope.limits.get(at).map(|limit| limit.amount),
        None => match policy.families.iter().find(|family| family.root == key) {
            Some(family) => family.total(counted.dimension),
            None => Some(0),
        },
    }
}

impl Counted {
    /// `used` are the slots that count, `parts` what is set aside at any time.
    fn status(
        &self,
        limit: Option<u64>,
        used: &[(u32, u64)],
        parts: &[(Millis, Quantities)],
        now: Millis,
    ) -> LimitStatus {
        let sum = |amounts: &mut dyn Iterator<Item = u64>| amounts.fold(0, u64::saturating_add);
        let total = sum(&mut used.iter().map(|&(_, used)| used));
        let first = self.reaches(now);
        let counts = |at: Millis| self.window.slot(at) >= first;
        let held = parts.iter().filter(|&&(at, _)| counts(at)).map(|(_, left)| left[self.dimension]);
        let held = sum(&mut held.into_iter()).min(total);
        // A window that rolls is freer when the oldest of what was used has lapsed, every other when it ends.
        let frees = match self.window.reach() {
            0 => Some(self.window.slot(now)),
            _ => used.iter().map(|&(slot, _)| slot).min(),
        };
        LimitStatus {
            dimension: self.dimension,
            window: self.window.clone(),
            limit,
            spent: total - held,
            held,
            resets_at: frees.and_then(|slot| self.window.lapses(slot)),
        }
    }
}
