//! Taking a file into use: is it whole, and does it fit the policy?

use super::crash;
use super::fault::Named;
use super::finding::{Findings, Stop};
use super::limits::Limits;
use super::queries;
use super::row::{CONFIGURED, Row, configured};
use super::tally::Tally;
use super::verify::{self, Verified, clamped};
use super::wide::Sum;
use super::writer::{InUse, State, Writer, insert, load_tip, next, not_open};
use crate::spend::policy::SpendPolicy;
use crate::spend::record::Millis;
use crate::spend::store::{Opened, StoreError};
use crate::spend::window::Window;
use rusqlite::{Connection, TransactionBehavior, params};
use std::sync::Arc;

impl Writer {
    /// The file is checked as a whole, and only then changed: all of the policy, or nothing.
    pub(super) fn open(&mut self, policy: &SpendPolicy, now: Millis) -> Result<Opened, StoreError> {
        let Self { connection, file, state, .. } = self;
        let text = serde_json::to_string(policy).map_err(|error| file.io("write to", error))?;
        let asked = Limits::of(policy);
        let sql = file.sql("open");
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;

        let mut findings = Findings::at_most(1);
        verify::pages(&transaction, &mut findings).map_err(|stop| refused(file, &findings, stop))?;
        let kept_policy = queries::policy(&transaction).map_err(&sql)?;
        let kept = kept_policy.as_ref().map(Limits::of).unwrap_or_default();
        let all = kept.with(&asked);
        let verified = verify::content(&transaction, kept_policy.as_ref(), &kept, &all, &mut findings);
        let verified = verified.map_err(|stop| refused(file, &findings, stop))?;
        let Verified { tally, open, next_generation, latest, base, mut tip, counts } = verified;
        crash::point("verified");

        if let Some(kept_policy) = &kept_policy {
            let (kept, asked) = (kept_policy.unit.to_string(), policy.unit.to_string());
            if kept != asked {
                return Err(StoreError::Unit { kept, asked });
            }
        }
        if queries::meta(&transaction, "policy").map_err(&sql)?.as_deref() != Some(&text) {
            let (since, now) = (base.state.since, now.max(latest));
            for counted in all.all.iter().skip(kept.all.len()) {
                if counted.window != Window::Lifetime && counted.first_slot(since) > counted.reaches(now) {
                    return Err(StoreError::NoHistory { limit: counted.id.clone(), since });
                }
            }
            recount(&transaction, &kept, &asked, &all, &tally).map_err(&sql)?;
            queries::set_meta(&transaction, "policy", &text).map_err(&sql)?;
            queries::set_meta(&transaction, "unit", &policy.unit.to_string()).map_err(&sql)?;
            let (seq, body) = (next(file, tip.0)?, configured(&text));
            let row = Row { seq, at: clamped(now), kind: CONFIGURED, body: &body, hold: None };
            tip = insert(&transaction, tip, &row).map_err(&sql)?;
        }
        let numbers = numbers(&transaction, &asked).map_err(&sql)?;
        let numbers = numbers.ok_or_else(|| file.corrupt("a limit of the policy has no number"))?;
        crash::point("before commit");
        transaction.commit().map_err(&sql)?;
        crash::point("committed");

        let in_use = Arc::new(InUse { policy: policy.clone(), limits: asked, numbers });
        *state =
            Some(State { in_use, since: base.state.since, latest, tip: Some(tip), grants: counts.grants });
        Ok(Opened { holds: open, next_generation, latest })
    }
}

impl Writer {
    /// The same limits with other amounts, and whatever else is no limit.
    pub(super) fn redefine(&mut self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError> {
        let Self { connection, file, state, .. } = self;
        let state = state.as_mut().ok_or_else(not_open)?;
        let text = serde_json::to_string(policy).map_err(|error| file.io("write to", error))?;
        let (kept, asked) = (state.in_use.policy.unit.to_string(), policy.unit.to_string());
        if kept != asked {
            return Err(StoreError::Unit { kept, asked });
        }
        let limits = Limits::of(policy);
        let sql = file.sql("write to");
        let tip = state.tip.take();
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
        let tip = tip.map_or_else(|| load_tip(&transaction), Ok).map_err(&sql)?;
        let numbers = numbers(&transaction, &limits).map_err(&sql)?;
        let numbers =
            numbers.filter(|numbers| numbers.len() == state.in_use.numbers.len()).ok_or_else(|| {
                StoreError::Other(
                    "the policy has other limits: open the store under it to add them up".to_owned(),
                )
            })?;
        queries::set_meta(&transaction, "policy", &text).map_err(&sql)?;
        crash::point("redefined");
        let (seq, body) = (next(file, tip.0)?, configured(&text));
        let row = Row { seq, at: clamped(now.max(state.latest)), kind: CONFIGURED, body: &body, hold: None };
        let tip = insert(&transaction, tip, &row).map_err(&sql)?;
        transaction.commit().map_err(&sql)?;
        state.in_use = Arc::new(InUse { policy: policy.clone(), limits, numbers });
        state.tip = Some(tip);
        Ok(())
    }
}

fn refused(file: &Named, findings: &Findings, stop: Stop) -> StoreError {
    match (findings.list.first(), stop) {
        (Some(finding), _) => file.corrupt(finding),
        (None, Stop::Sql(error)) => file.sql("open")(error),
        (None, Stop::Enough) => file.corrupt("it is not whole"),
    }
}

/// Forgets what limits that are gone had, and stores what those that are new come to.
fn recount(
    connection: &Connection,
    kept: &Limits,
    asked: &Limits,
    all: &Limits,
    tally: &Tally<'_>,
) -> rusqlite::Result<()> {
    for gone in kept.all.iter().filter(|counted| asked.position(&counted.id).is_none()) {
        connection
            .execute("DELETE FROM usage WHERE counted = (SELECT n FROM counted WHERE id = ?1)", [&gone.id])?;
        connection.execute("DELETE FROM counted WHERE id = ?1", [&gone.id])?;
    }
    let mut new = Vec::new();
    for counted in all.all.iter().skip(kept.all.len()) {
        connection.execute("INSERT INTO counted (id) VALUES (?1)", [&counted.id])?;
        new.push(connection.last_insert_rowid());
        crash::point("counted");
    }
    let mut put =
        connection.prepare("INSERT INTO usage (counted, key, slot, used) VALUES (?1, ?2, ?3, ?4)")?;
    for (_, key, tab) in tally.iter() {
        for (&(index, slot), &used) in tab.used.iter().filter(|(_, used)| **used != 0) {
            let new = index.checked_sub(kept.all.len()).and_then(|index| new.get(index));
            if let Some(number) = new {
                put.execute(params![number, key, slot, Sum(used)])?;
            }
        }
    }
    Ok(())
}

/// The row in `counted` of every limit.
fn numbers(connection: &Connection, limits: &Limits) -> rusqlite::Result<Option<Vec<i64>>> {
    let mut numbers = vec![None; limits.all.len()];
    let mut select = connection.prepare("SELECT n, id FROM counted")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(index) = limits.position(row.get_ref(1)?.as_str()?) {
            numbers[index] = Some(row.get(0)?);
        }
    }
    Ok(numbers.into_iter().collect())
}
