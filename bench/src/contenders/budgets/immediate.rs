//! What one writes with a database and without a library: a transaction for each call, which adds to the sums of all scopes.

use super::failed;
use crate::call::{COST, Call};
use crate::subject::{Build, Capacity};
use rusqlite::{Connection, TransactionBehavior, params};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A connection for every thread that is at work, in the mode of the engine's store.
struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    fn take(&self) -> rusqlite::Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.connect(), Ok)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS sums (scope TEXT, key TEXT, used INTEGER NOT NULL, most INTEGER NOT NULL,
             PRIMARY KEY (scope, key)) WITHOUT ROWID;",
        )?;
        Ok(connection)
    }

    fn admit(&self, call: &Call, capacity: Capacity) -> rusqlite::Result<bool> {
        let mut connection = self.take()?;
        let admitted = add(&mut connection, call, capacity);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        admitted
    }
}

fn add(connection: &mut Connection, call: &Call, capacity: Capacity) -> rusqlite::Result<bool> {
    let most = i64::MAX as u64;
    let sums = [
        ("run", call.id().as_str(), capacity.key * COST),
        ("user", call.request.agent_id.as_str(), capacity.agent * COST),
        ("team", "t", most),
        ("global", "", most),
    ];
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (scope, key, most) in sums {
        let insert = "INSERT OR IGNORE INTO sums VALUES (?1, ?2, 0, ?3)";
        transaction.prepare_cached(insert)?.execute(params![scope, key, most as i64])?;
        let update = "UPDATE sums SET used = used + ?3 WHERE scope = ?1 AND key = ?2 AND used + ?3 <= most";
        if transaction.prepare_cached(update)?.execute(params![scope, key, COST as i64])? == 0 {
            transaction.rollback()?;
            return Ok(false);
        }
    }
    transaction.commit()?;
    Ok(true)
}

/// `BEGIN IMMEDIATE` for every call.
pub fn transactions() -> Build {
    Box::new(|capacity| {
        let folder = tempfile::tempdir().map_err(failed)?;
        let pool = Pool { path: folder.path().join("sums.db"), idle: Mutex::default() };
        pool.take().map_err(failed)?;
        Ok(Box::new(move |call: &Call| {
            let _alive = &folder;
            pool.admit(call, capacity).unwrap_or(false)
        }))
    })
}
