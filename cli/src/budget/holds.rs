//! `tollgate budget holds`: what is set aside, since when, and until when.

use super::amounts::{length, path, path_json, signed, units};
use super::print;
use super::store::{self, Seen, unread};
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::table::Align::{Left, Right};
use crate::table::{printable, write_rows};
use serde_json::{Value, json};
use std::path::Path;
use tollgate::spend::record::HoldState;
use tollgate::spend::window::show_time;

pub fn run(args: &StoreArgs) -> Result<(), Failure> {
    let seen = store::read(&args.db)?;
    let open = seen.reader.open_holds().map_err(unread)?;
    print(&match args.json {
        true => format!("{}\n", document(&args.db, &seen, &open)),
        false => table(&args.db, &seen, &open),
    })
}

fn table(file: &Path, seen: &Seen, open: &[HoldState]) -> String {
    let mut text = format!("{} at {}\n\n", file.display(), show_time(seen.now));
    if open.is_empty() {
        text.push_str("  no hold is open\n");
        return text;
    }
    let titles = ["id", "generation", "accounts", "held", "charged", "age", "expires"];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(open.iter().map(|hold| {
        let expires = match hold.deadline.checked_sub(seen.now) {
            None | Some(0) => format!("overdue by {}", length(seen.now - hold.deadline)),
            Some(left) => format!("in {}", length(left)),
        };
        [
            printable(&hold.id),
            hold.generation.to_string(),
            path(&hold.path, &seen.policy),
            seen.purse.list(&hold.left()),
            seen.purse.list(&hold.used),
            length(seen.now.saturating_sub(hold.at)),
            expires,
        ]
    }));
    // Writing to a String cannot fail.
    let _ = write_rows(&mut text, &[Left, Right, Left, Left, Left, Right, Left], &rows);
    text
}

fn document(file: &Path, seen: &Seen, open: &[HoldState]) -> Value {
    let holds = open.iter().map(|hold| {
        json!({
            "id": hold.id,
            "generation": hold.generation,
            "accounts": path_json(&hold.path),
            "held": units(&hold.left()),
            "charged": units(&hold.used),
            "opened_at": show_time(hold.at),
            "opened_at_ms": hold.at,
            "age_ms": seen.now.saturating_sub(hold.at),
            "expires_at": show_time(hold.deadline),
            "expires_at_ms": hold.deadline,
            "expires_in_ms": signed(i128::from(hold.deadline) - i128::from(seen.now)),
            "overdue": hold.deadline <= seen.now,
        })
    });
    seen.purse.with_unit(json!({
        "db": file.display().to_string(),
        "at": show_time(seen.now),
        "at_ms": seen.now,
        "holds": holds.collect::<Vec<_>>(),
    }))
}
