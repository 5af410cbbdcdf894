//! From one schema to the next: each step in one transaction, so that a file has either version whole.

use super::base::Base;
use super::crash;
use super::fault::Named;
use super::schema::{APPLICATION, Identity, VERSION, versions};
use crate::spend::store::StoreError;
use rusqlite::{Connection, TransactionBehavior};

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
    change(connection, from, &versions()).map_err(file.sql("migrate"))
}

fn change(connection: &mut Connection, from: u32, versions: &[String]) -> rusqlite::Result<()> {
    for (version, changes) in (1u32..).zip(versions).skip(from as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(changes)?;
        if version == 1 {
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            crash::point("created");
            Base::default().store_first(&transaction)?;
        }
        transaction.pragma_update(None, "user_version", version)?;
        crash::point("migrated");
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema::objects;
    use super::*;

    #[test]
    fn a_migration_that_fails_leaves_the_version_before_it_whole() {
        let [first, second, _] = versions();
        let fails = format!("{second} INSERT INTO nowhere VALUES (1)");
        let mut connection = Connection::open_in_memory().unwrap();
        change(&mut connection, 0, std::slice::from_ref(&first)).unwrap();
        let before = objects(&connection).unwrap();

        change(&mut connection, 1, &[first.clone(), fails]).unwrap_err();

        assert_eq!(objects(&connection).unwrap(), before);
        assert_eq!(Identity::of(&connection).unwrap().version, 1);
        change(&mut connection, 1, &[first, second]).unwrap();
        assert_eq!(Identity::of(&connection).unwrap().version, 2);
    }
}
