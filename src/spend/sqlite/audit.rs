//! Checks a store from outside, while it is in use or not.

use super::connect;
use super::fault::{Named, is_damage};
use super::finding::{Check, Finding, Findings, Stop};
use super::limits::Limits;
use super::queries;
use super::verify::{self, Counts};
use crate::spend::store::StoreError;
use rusqlite::Connection;
use std::path::Path;

/// How many findings an audit lists at most.
const MOST: usize = 1_000;

/// What an audit came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Audit {
    /// How much was checked.
    pub counts: Counts,
    /// Everything that is wrong, up to 1,000.
    pub findings: Vec<Finding>,
    /// There may be more than that.
    pub more: bool,
}

/// Adds up everything again and compares, in one snapshot of the store: whatever is written meanwhile does not matter, and
/// nobody waits. While it runs, the store's log grows.
///
/// # Errors
/// It is no store of this version, or cannot be read.
pub fn audit(path: impl AsRef<Path>) -> Result<Audit, StoreError> {
    let file = Named::new(super::resolved(path.as_ref())?);
    let mut connection = connect::reader(&file)?;
    let snapshot = connection.transaction().map_err(file.sql("read"))?;
    let mut findings = Findings::at_most(MOST);
    let counts = match check(&snapshot, &mut findings) {
        Ok(counts) => counts,
        Err(Stop::Enough) => Counts::default(),
        Err(Stop::Sql(error)) if is_damage(&error) => {
            // Where nothing more can be read.
            let _ = findings.add(Check::Pages, "(file)", "all", "readable rows", error);
            Counts::default()
        }
        Err(Stop::Sql(error)) => return Err(file.sql("read")(error)),
    };
    let more = findings.is_full();
    Ok(Audit { counts, findings: findings.list, more })
}

fn check(connection: &Connection, findings: &mut Findings) -> Result<Counts, Stop> {
    verify::pages(connection, findings)?;
    let policy = queries::policy(connection)?;
    let limits = policy.as_ref().map(Limits::of).unwrap_or_default();
    let verified = verify::content(connection, policy.as_ref(), &limits, &limits, findings)?;
    Ok(verified.counts)
}
