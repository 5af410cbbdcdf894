//! `tollgate budget archive`: old rows of the ledger go to a file of lines, and no answer changes.

use super::print;
use super::store::{self, no_policy, unopened, unread};
use crate::args::ArchiveArgs;
use crate::failure::Failure;
use serde_json::json;
use tollgate::spend::sqlite::Archived;
use tollgate::spend::window::parse_time;
use tollgate::spend::{Millis, SqliteStore, Store};

pub fn run(args: &ArchiveArgs) -> Result<(), Failure> {
    let before = args.before.as_deref().map_or(Ok(Millis::MAX), instant)?;
    let path = &args.store.db;
    // Read first: a file that is no store is left as it is.
    let (now, purse) = {
        let seen = store::read(path)?;
        (seen.now, seen.purse)
    };
    let store = SqliteStore::at(path).map_err(unopened)?;
    let policy = store.kept_policy().map_err(unread)?.ok_or_else(|| no_policy(path))?;
    store.open(&policy, now).map_err(unread)?;
    let Archived { rows, through } = store.archive(before, &args.to).map_err(unread)?;
    let to = args.to.display();
    print(&match args.store.json {
        true => {
            let db = path.display().to_string();
            let told = json!({ "db": db, "to": to.to_string(), "rows": rows, "through": through });
            format!("{}\n", purse.with_unit(told))
        }
        false if rows == 0 => {
            "archived nothing: every row is still counted by a window, or belongs to a hold that may change\n"
                .to_owned()
        }
        false => format!("archived {rows} rows to {to}; the ledger goes on after row {through}\n"),
    })
}

fn instant(text: &str) -> Result<Millis, Failure> {
    parse_time(text).ok_or_else(|| {
        Failure::Mend(format!("--before {text:?} is no time, accepted: one such as 2026-01-01T00:00:00Z"))
    })
}
