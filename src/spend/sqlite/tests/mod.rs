//! The store against a model in memory, and what it survives.

mod archive;
mod beside;
mod crash;
mod damage;
mod desk;
mod engine;
mod guarantees;
mod migration;
mod policies;
mod property;
mod space;
mod status;

use super::*;
use crate::spend::amount::{Dimension, Quantities};
use crate::spend::policy::{Limit, OnExpiry, Scope, Tiers};
use crate::spend::record::Account;
use crate::spend::window::Window;
use desk::Desk;
use std::time::Duration;

const HOUR: Millis = 3_600_000;
const DAY: Millis = 24 * HOUR;
/// When tests begin: somewhere in 2023.
const START: Millis = 1_700_000_000_000;

fn policy(scopes: Vec<Scope>) -> SpendPolicy {
    SpendPolicy {
        unit: Default::default(),
        scopes,
        families: Vec::new(),
        grants: Vec::new(),
        ttl: HOUR,
        on_expiry: OnExpiry::Spent,
        tiers: Tiers { reduced: 800_000, blocked: 1_000_000, dimensions: Vec::new() },
        reduced: Default::default(),
        account_cap: 1_000,
        hold_cap: 1_000,
        grant_cap: 1_000,
        answers_for: DAY,
    }
}

fn scope(name: &str, limits: &[(Dimension, Window)]) -> Scope {
    let limit = |(dimension, window): &(Dimension, Window)| Limit {
        dimension: *dimension,
        amount: 1_000_000,
        window: window.clone(),
    };
    Scope { name: name.into(), shared: false, limits: limits.iter().map(limit).collect() }
}

fn rolling(length: Millis) -> Window {
    Window::rolling(Duration::from_millis(length)).unwrap()
}

fn fixed(length: Millis) -> Window {
    Window::fixed(Duration::from_millis(length), 0).unwrap()
}

/// Two scopes, with windows of each kind.
fn usual() -> SpendPolicy {
    use Dimension::*;
    policy(vec![
        scope("tenant", &[(Cost, Window::Lifetime), (Cost, fixed(DAY)), (Calls, rolling(HOUR))]),
        scope("user", &[(Cost, rolling(HOUR)), (Tokens, Window::Lifetime), (Runs, Window::Lifetime)]),
    ])
}

fn path(tenant: &str, user: &str) -> Vec<Account> {
    let account = |scope: &str, key: &str| Account { scope: scope.into(), key: key.into() };
    vec![account("tenant", tenant), account("user", user)]
}

fn cost(amount: u64) -> Quantities {
    let mut amounts = Quantities::only(Dimension::Cost, amount);
    amounts[Dimension::Calls] = 1;
    amounts[Dimension::Tokens] = amount / 10;
    amounts
}

/// A folder with a store's path in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("budgets.db");
    (folder, path)
}

fn opened(path: &Path, policy: &SpendPolicy) -> SqliteStore {
    let store = SqliteStore::at(path).unwrap();
    store.open(policy, START).unwrap();
    store
}

/// A copy of a store's files as they are now, without its lock.
fn copied(path: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let (from, to) = (beside(path, suffix), beside(to, suffix));
        let _ = std::fs::remove_file(&to);
        if from.exists() {
            std::fs::copy(from, to).unwrap();
        }
    }
    let _ = std::fs::remove_file(beside(to, "-shm"));
}

fn whole(path: &Path) -> Audit {
    let audit = audit(path).unwrap();
    assert!(audit.findings.is_empty(), "{}", audit.findings[0]);
    audit
}
