//! `tollgate budget settle` and `release`: by hand, with a note of who and why.

use super::amounts::{Purse, path, path_json, units};
use super::print;
use super::store::{self, no_policy, unopened, unread};
use crate::args::{ReleaseArgs, RepairArgs, SettleArgs};
use crate::failure::Failure;
use crate::table::{printable, quiet};
use serde_json::{Value, json};
use std::sync::Arc;
use tollgate::spend::record::{HoldState, Phase};
use tollgate::spend::window::show_time;
use tollgate::spend::{
    AmountError, Amounts, Dimension, HoldRef, OpenError, Settlement, Spend, SpendError, SpendPolicy,
    SqliteStore, Store,
};

pub fn settle(args: &SettleArgs) -> Result<(), Failure> {
    repair(&args.repair, "settled", |purse| amounts(args, purse).map(Some))
}

pub fn release(args: &ReleaseArgs) -> Result<(), Failure> {
    repair(&args.repair, "released", |_| Ok(None))
}

/// Settles with what `stated` says, or releases.
fn repair(
    args: &RepairArgs,
    done: &str,
    stated: impl FnOnce(&Purse) -> Result<Option<Amounts>, Failure>,
) -> Result<(), Failure> {
    if args.note.trim().is_empty() {
        return Err(Failure::Mend("--note is empty, accepted: who repairs what, and why".into()));
    }
    let path = &args.store.db;
    // Read first: what cannot be repaired is told beside a writer too, and a file that is no store is left as it is.
    let stated = {
        let seen = store::read(path)?;
        repairable(args, seen.reader.hold(&args.id).map_err(unread)?)?;
        stated(&seen.purse)?
    };
    let store = Arc::new(SqliteStore::at(path).map_err(unopened)?);
    let policy = store.kept_policy().map_err(unread)?.ok_or_else(|| no_policy(path))?;
    let purse = Purse::new(policy.money());
    let spend =
        Spend::builder(policy.clone()).shared_store(store.clone()).open().map_err(|error| match error {
            OpenError::Store(error) => unread(error),
            error => Failure::Mend(quiet(&error.to_string())),
        })?;
    // Again: a writer may have been there until the store was ours.
    let hold = repairable(args, store.hold(&args.id).map_err(unread)?)?;
    let name = HoldRef::new(hold.id.clone(), hold.generation);
    let repaired = match &stated {
        Some(stated) => spend.repair_settle(&name, stated, &args.note),
        None => spend.repair_release(&name, &args.note),
    };
    let settlement = repaired.map_err(|error| match error {
        SpendError::Store(error) => unread(error),
        error => Failure::Mend(quiet(&error.to_string())),
    })?;
    let repaired = Repaired { args, done, purse, policy, hold, settlement };
    print(&match args.store.json {
        true => format!("{}\n", repaired.document()),
        false => repaired.text(),
    })
}

/// The hold, if there is one under that id and generation that is not over.
fn repairable(args: &RepairArgs, found: Option<HoldState>) -> Result<HoldState, Failure> {
    let id = &args.id;
    let mend = |text: String| Err(Failure::Mend(quiet(&text)));
    let Some(hold) = found else {
        return mend(format!("no hold {id:?} is known: it never was, or is over and was forgotten"));
    };
    let generation = hold.generation;
    if args.generation.is_some_and(|asked| asked != generation) {
        return mend(format!("the hold {id:?} is of generation {generation}: the id has passed to another"));
    }
    let over = |how: &str, at: u64| {
        let at = show_time(at);
        mend(format!(
            "the hold {id:?} of generation {generation} was {how} at {at}: nothing of it is left to repair"
        ))
    };
    match &hold.phase {
        Phase::Open | Phase::Expired => Ok(hold),
        Phase::Settled(settlement) => over("settled", settlement.at),
        Phase::Released(settlement) => over("released", settlement.at),
        Phase::Denied(_) => over("refused", hold.at),
    }
}

/// What the options state, checked against the store's unit.
fn amounts(args: &SettleArgs, purse: &Purse) -> Result<Amounts, Failure> {
    let mend = |error: &dyn std::fmt::Display| Failure::Mend(quiet(&error.to_string()));
    let unit = purse.unit();
    let cost = unit.parse(&args.cost).map_err(|error| mend(&format_args!("--cost: {error}")))?;
    let too_large = |_| mend(&AmountError::TooLarge { dimension: Dimension::Cost, amount: cost });
    let cost = i64::try_from(cost).map_err(too_large)?;
    let currency = args.currency.as_deref().unwrap_or(unit.currency());
    let others = [
        (Dimension::Tokens, args.tokens),
        (Dimension::Calls, args.calls),
        (Dimension::Seconds, args.seconds),
        (Dimension::Runs, args.runs),
    ];
    let stated = others
        .into_iter()
        .filter_map(|(dimension, amount)| Some((dimension, amount?)))
        .fold(Amounts::new().cost_in(currency, cost), |stated, (dimension, amount)| {
            stated.of(dimension, amount)
        });
    stated.checked(unit.currency()).map_err(|error| mend(&error))?;
    Ok(stated)
}

/// What was done, to be told.
struct Repaired<'a> {
    args: &'a RepairArgs,
    done: &'a str,
    purse: Purse,
    policy: SpendPolicy,
    /// As it was before.
    hold: HoldState,
    settlement: Settlement,
}

impl Repaired<'_> {
    fn text(&self) -> String {
        let Self { args, done, purse, policy, hold, settlement } = self;
        let Settlement { stated: _, used, released, overrun, late, at: _ } = settlement;
        let (id, path) = (printable(&hold.id), path(&hold.path, policy));
        let (used, released) = (purse.list(used), purse.list(released));
        let beyond = match overrun.is_none() {
            true => String::new(),
            false => format!(", beyond the hold {}", purse.list(overrun)),
        };
        let late = if *late { "; its time was over" } else { "" };
        let (generation, note) = (hold.generation, quiet(&args.note));
        format!(
            "{done} {id} (generation {generation}) of {path}: used {used}, given back {released}{beyond}{late}\n\
             note: {note}\n"
        )
    }

    fn document(&self) -> Value {
        let Self { args, done, purse, policy: _, hold, settlement } = self;
        purse.with_unit(json!({
            "db": args.store.db.display().to_string(),
            "done": done,
            "id": hold.id,
            "generation": hold.generation,
            "accounts": path_json(&hold.path),
            "stated": units(&settlement.stated),
            "used": units(&settlement.used),
            "released": units(&settlement.released),
            "overrun": units(&settlement.overrun),
            "late": settlement.late,
            "at": show_time(settlement.at),
            "at_ms": settlement.at,
            "note": args.note,
        }))
    }
}
