//! `tollgate budget audit`: does everything follow from the ledger, and who repaired what by hand?

use super::amounts::{Purse, path_json, units};
use super::print;
use super::store::{self, unopened, unread};
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::summary::grouped;
use crate::table::Align::{Left, Right};
use crate::table::{printable, quiet, write_rows};
use serde_json::{Value, json};
use std::path::Path;
use tollgate::spend::record::{Kind, Record};
use tollgate::spend::sqlite::{Audit, audit};
use tollgate::spend::window::show_time;
use tollgate::spend::{MoneyUnit, SqliteReader, StoreError};

/// Repairs by hand, and the unit of their amounts.
struct Repairs {
    purse: Purse,
    records: Vec<(u64, Record)>,
}

pub fn run(args: &StoreArgs) -> Result<(), Failure> {
    let reader = store::reader(&args.db)?;
    // Exit code 1 says that something does not agree: a store that cannot be read is for the user to mend.
    let found = audit(&args.db).map_err(unopened)?;
    let repairs = match repairs(&reader) {
        Ok(repairs) => Ok(repairs),
        // What is damaged was found above, and may be what the notes are in.
        Err(error) if !found.findings.is_empty() => Err(quiet(&error.to_string())),
        Err(error) => return Err(unread(error)),
    };
    let printed = print(&match args.json {
        true => format!("{}\n", document(&args.db, &found, &repairs)),
        false => told(&found, &repairs),
    });
    if !found.findings.is_empty() {
        return Err(Failure::Refused);
    }
    printed
}

fn repairs(reader: &SqliteReader) -> Result<Repairs, StoreError> {
    let policy = reader.policy()?;
    // Without a policy nothing was ever held, and so nothing repaired.
    let unit = policy.as_ref().map_or_else(MoneyUnit::default, |policy| policy.money().clone());
    Ok(Repairs { purse: Purse::new(&unit), records: reader.notes()? })
}

fn told(found: &Audit, repairs: &Result<Repairs, String>) -> String {
    let counts = &found.counts;
    let mut text = match found.findings.len() {
        0 => format!(
            "agrees: {} rows of the ledger ({} archived), {} accounts, {} rows of use, {} open holds, {} remembered, {} grants, {} repairs by hand\n",
            grouped(counts.rows),
            grouped(counts.archived),
            grouped(counts.accounts),
            grouped(counts.usage),
            grouped(counts.open),
            grouped(counts.remembered),
            grouped(counts.grants),
            grouped(counts.notes),
        ),
        1 => "differs: 1 finding\n".to_owned(),
        findings => {
            format!("differs: {findings} findings{}\n", if found.more { ", and maybe more" } else { "" })
        }
    };
    // Writing to a String cannot fail.
    let rows =
        found.findings.iter().map(|finding| [finding.check.name().to_owned(), quiet(&finding.to_string())]);
    let _ = write_rows(&mut text, &[Left, Left], &rows.collect::<Vec<_>>());
    match repairs {
        Err(error) => text.push_str(&format!("\nrepairs by hand cannot be read: {error}\n")),
        Ok(Repairs { records, .. }) if records.is_empty() => {}
        Ok(Repairs { purse, records }) => {
            text.push_str("\nrepairs by hand\n");
            let titles = ["row", "at", "done", "hold", "generation", "used", "given back", "note"];
            let mut rows = vec![titles.map(str::to_owned)];
            rows.extend(records.iter().map(|(seq, record)| row(purse, *seq, record)));
            let _ = write_rows(&mut text, &[Right, Left, Left, Left, Right, Left, Left, Left], &rows);
        }
    }
    text
}

fn row(purse: &Purse, seq: u64, record: &Record) -> [String; 8] {
    let hold = &record.hold;
    let released = hold.settlement().map(|settlement| settlement.released).unwrap_or_default();
    [
        seq.to_string(),
        show_time(record.at),
        done(record.kind).to_owned(),
        printable(&hold.id),
        hold.generation.to_string(),
        purse.list(&hold.used),
        purse.list(&released),
        quiet(&record.note),
    ]
}

fn done(kind: Kind) -> &'static str {
    match kind {
        Kind::Hold => "held",
        Kind::Deny => "refused",
        Kind::Extend => "extended",
        Kind::Charge => "charged",
        Kind::Settle => "settled",
        Kind::Release => "released",
        Kind::Expire => "expired",
    }
}

fn document(file: &Path, found: &Audit, repairs: &Result<Repairs, String>) -> Value {
    let counts = &found.counts;
    let findings = found.findings.iter().map(|finding| {
        json!({
            "check": finding.check.name(),
            "table": finding.table,
            "row": finding.row,
            "expected": finding.expected,
            "found": finding.found,
        })
    });
    let document = json!({
        "db": file.display().to_string(),
        "verdict": if found.findings.is_empty() { "agrees" } else { "differs" },
        "counts": {
            "rows": counts.rows,
            "archived": counts.archived,
            "accounts": counts.accounts,
            "usage": counts.usage,
            "open": counts.open,
            "remembered": counts.remembered,
            "grants": counts.grants,
            "notes": counts.notes,
        },
        "findings": findings.collect::<Vec<_>>(),
        "more": found.more,
        "repairs": null,
        "repairs_error": null,
    });
    match repairs {
        Err(error) => {
            let mut document = document;
            document["repairs_error"] = error.as_str().into();
            document
        }
        Ok(Repairs { purse, records }) => {
            let mut document = purse.with_unit(document);
            document["repairs"] = records.iter().map(|(seq, record)| repair(*seq, record)).collect();
            document
        }
    }
}

fn repair(seq: u64, record: &Record) -> Value {
    let hold = &record.hold;
    let released = hold.settlement().map(|settlement| settlement.released).unwrap_or_default();
    json!({
        "row": seq,
        "at": show_time(record.at),
        "at_ms": record.at,
        "done": done(record.kind),
        "id": hold.id,
        "generation": hold.generation,
        "accounts": path_json(&hold.path),
        "used": units(&hold.used),
        "released": units(&released),
        "overrun": units(&hold.overrun),
        "note": record.note,
    })
}
