//! From one schema to the next: each step in one transaction, so that a file has either version whole.

use super::base::Base;
use super::crash;
use super::fault::Named;
use super::schema::{APPLICATION, Identity, VERSION, VERSION_2, version_1, version_3};
use crate::spend::store::StoreError;
use rusqlite::{Connection, Transaction, TransactionBehavior};

/// A step from the version before.
type Step = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// Step `n` makes version `n + 1`.
const STEPS: [Step; VERSION as usize] = [create, add_grants, widen_sums];

/// Refuses a file that is not a store, or a later one, before anything is changed in it. Returns its version: 0 for an empty file.
pub(super) fn identify(connection: &Connection, file: &Named) -> Result<u32, StoreError> {
    let identity = Identity::of(connection).map_err(file.sql("read"))?;
    match identity {
        identity if identity.is_new() => Ok(0),
        Identity { application: APPLICATION, version: found, .. } if found > VERSION => {
            Err(StoreError::Schema { path: file.text(), found, known: VERSION })
        }
        Identity { application: APPLICATION, version: 1.., .. } => Ok(identity.version),
        Identity { application: APPLICATION, .. } => Err(file.corrupt("its schema has no version")),
        Identity { application, version, .. } => Err(file.corrupt(format_args!(
            "it is a database of another application (application_id {application:#x}, found with version {version}; \
             expected {APPLICATION:#x})"
        ))),
    }
}

/// Brings a file of version `from` to the latest.
pub(super) fn migrate(connection: &mut Connection, file: &Named, from: u32) -> Result<(), StoreError> {
    steps(connection, from, &STEPS).map_err(file.sql("migrate"))
}

fn steps(connection: &mut Connection, from: u32, steps: &[Step]) -> rusqlite::Result<()> {
    for (version, step) in (1u32..).zip(steps).skip(from as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        step(&transaction)?;
        transaction.pragma_update(None, "user_version", version)?;
        crash::point("migrated");
        transaction.commit()?;
    }
    Ok(())
}

fn create(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.execute_batch(&version_1())?;
    crash::point("created");
    Base::default().store_first(transaction)
}

fn add_grants(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(VERSION_2)
}

fn widen_sums(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(&version_3())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_that_fails_leaves_the_version_before_it_whole() {
        let mut connection = Connection::open_in_memory().unwrap();
        steps(&mut connection, 0, &[create]).unwrap();
        let before = super::super::schema::objects(&connection).unwrap();
        let half: Step = |transaction| {
            add_grants(transaction)?;
            transaction.execute_batch("INSERT INTO nowhere VALUES (1)")
        };
        steps(&mut connection, 1, &[create, half]).unwrap_err();
        assert_eq!(super::super::schema::objects(&connection).unwrap(), before);
        assert_eq!(Identity::of(&connection).unwrap().version, 1);
        steps(&mut connection, 1, &[create, add_grants]).unwrap();
        assert_eq!(Identity::of(&connection).unwrap().version, 2);
    }
}
