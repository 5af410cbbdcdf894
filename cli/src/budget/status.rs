//! `tollgate budget status`: who spent what against which limit until when.

use super::amounts::{Purse, is_shared, signed};
use super::print;
use super::store::{self, Seen, unread};
use crate::args::BudgetStatusArgs;
use crate::failure::Failure;
use crate::table::Align::{Left, Right};
use crate::table::{printable, write_rows};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use tollgate::spend::record::FAMILY;
use tollgate::spend::sqlite::AccountStatus;
use tollgate::spend::window::show_time;
use tollgate::spend::{LimitStatus, SpendPolicy, Window};

pub fn run(args: &BudgetStatusArgs) -> Result<(), Failure> {
    let path = &args.store.db;
    let seen = store::read(path)?;
    if let Some(scope) = &args.scope {
        is_known(scope, &seen.policy)?;
    }
    let mut accounts = seen.reader.status(seen.now).map_err(unread)?;
    let asked = |asked: &Option<String>, found: &str| asked.as_deref().is_none_or(|asked| asked == found);
    accounts.retain(|account| asked(&args.scope, &account.scope) && asked(&args.key, &account.key));
    let open = seen.reader.open_holds().map_err(unread)?;
    let overdue = open.iter().filter(|hold| hold.deadline <= seen.now).count();
    print(&match args.store.json {
        true => format!("{}\n", document(path, &seen, &accounts, overdue)),
        false => table(path, &seen, &accounts, overdue),
    })
}

fn is_known(scope: &str, policy: &SpendPolicy) -> Result<(), Failure> {
    let mut known = policy.scopes().iter().map(|scope| scope.name()).chain([FAMILY]);
    if known.clone().any(|known| known == scope) {
        return Ok(());
    }
    let accepted = known.by_ref().map(printable).collect::<Vec<_>>().join(", ");
    Err(Failure::Mend(format!("the policy has no scope {scope:?}, accepted: {accepted}")))
}

fn table(path: &Path, seen: &Seen, accounts: &[AccountStatus], overdue: usize) -> String {
    let titles =
        ["scope", "key", "dimension", "window", "limit", "spent", "held", "left", "full", "resets at"];
    let mut rows = vec![titles.map(str::to_owned)];
    for account in accounts {
        let key = match account.key.as_str() {
            _ if is_shared(&account.scope, &seen.policy) => "(everybody)".to_owned(),
            "" => "\"\"".to_owned(),
            key => printable(key),
        };
        rows.extend(account.limits.iter().map(|limit| row(&seen.purse, &account.scope, &key, limit)));
    }
    // Writing to a String cannot fail.
    let mut text = format!("{} at {}\n\n", path.display(), show_time(seen.now));
    let align = [Left, Left, Left, Left, Right, Right, Right, Right, Right, Left];
    if rows.len() == 1 {
        text.push_str("  no such limit of an account\n");
    } else {
        let _ = write_rows(&mut text, &align, &rows);
    }
    if overdue > 0 {
        let holds = if overdue == 1 { "hold is" } else { "holds are" };
        let _ = writeln!(
            text,
            "\n  {overdue} open {holds} overdue and counted as held here: see `tollgate budget holds`"
        );
    }
    text
}

fn row(purse: &Purse, scope: &str, key: &str, limit: &LimitStatus) -> [String; 10] {
    let of = |amount: u64| purse.show(limit.dimension, amount);
    let full = |millionths: u64| format!("{}.{} %", millionths / 10_000, millionths / 1_000 % 10);
    let none = || "-".to_owned();
    [
        printable(scope),
        key.to_owned(),
        limit.dimension.to_string(),
        limit.window.to_string(),
        limit.limit.map_or_else(none, of),
        of(limit.spent),
        of(limit.held),
        limit.remaining().map_or_else(none, |left| purse.show_signed(limit.dimension, left)),
        millionths(limit).map_or_else(none, full),
        match (limit.resets_at, &limit.window) {
            (Some(at), _) => show_time(at),
            (None, Window::Lifetime) => "never".to_owned(),
            // Nothing of a window that rolls was used.
            (None, _) => none(),
        },
    ]
}

/// How full a limit is, rounded down, so that 100 % is not said before it is reached. A limit of 0 is full.
fn millionths(limit: &LimitStatus) -> Option<u64> {
    let used = u128::from(limit.spent) + u128::from(limit.held);
    let level = (used * 1_000_000).checked_div(u128::from(limit.limit?)).unwrap_or(1_000_000);
    Some(u64::try_from(level).unwrap_or(u64::MAX))
}

fn document(path: &Path, seen: &Seen, accounts: &[AccountStatus], overdue: usize) -> Value {
    let limits = accounts.iter().flat_map(|account| {
        account.limits.iter().map(|limit| {
            json!({
                "scope": account.scope,
                "key": account.key,
                "dimension": limit.dimension.name(),
                "window": limit.window.to_string(),
                "limit": limit.limit,
                "spent": limit.spent,
                "held": limit.held,
                "left": limit.remaining().map(signed),
                "full_millionths": millionths(limit),
                "resets_at": limit.resets_at.map(show_time),
                "resets_at_ms": limit.resets_at,
            })
        })
    });
    seen.purse.with_unit(json!({
        "db": path.display().to_string(),
        "at": show_time(seen.now),
        "at_ms": seen.now,
        "limits": limits.collect::<Vec<_>>(),
        "overdue_holds": overdue,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::spend::Dimension;

    #[test]
    fn a_limit_is_full_when_it_is_reached_and_not_before() {
        let level = |limit, spent, held| {
            let window = Window::Lifetime;
            millionths(&LimitStatus {
                dimension: Dimension::Calls,
                window,
                limit,
                spent,
                held,
                resets_at: None,
            })
        };
        assert_eq!(level(Some(3), 1, 1), Some(666_666));
        assert_eq!(level(Some(1 << 53), (1 << 53) - 1, 0), Some(999_999));
        assert_eq!(level(Some(10), 10, 5), Some(1_500_000));
        assert_eq!((level(Some(0), 0, 0), level(None, 5, 5)), (Some(1_000_000), None));
        assert_eq!(level(Some(1), u64::MAX, u64::MAX), Some(u64::MAX));
    }
}
