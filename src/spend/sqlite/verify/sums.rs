//! What follows from moves: use, books, and that they balance with what is out in holds.

use super::super::finding::{Check, Findings, Stop};
use super::super::limits::Limits;
use super::super::row::{PARTS, books_at, parts};
use super::super::schema::book_columns;
use super::super::tally::{Tab, Tally};
use super::super::wide::Sum;
use super::Walk;
use crate::spend::amount::DIMENSIONS;
use crate::spend::record::HoldState;
use ahash::{AHashMap, AHashSet};
use rusqlite::Connection;
use std::collections::BTreeMap;

impl Walk<'_> {
    pub(super) fn usage(
        &mut self,
        connection: &Connection,
        kept: &Limits,
        found: &mut Findings,
    ) -> Result<(), Stop> {
        let mut numbers: BTreeMap<i64, usize> = BTreeMap::new();
        let mut missing: AHashSet<usize> = (0..kept.all.len()).collect();
        if self.policy.is_none() {
            missing.clear();
        }
        let mut select = connection.prepare("SELECT n, id FROM counted ORDER BY n")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (number, id): (i64, String) = (row.get(0)?, row.get(1)?);
            match kept.position(&id) {
                Some(index) if missing.remove(&index) => drop(numbers.insert(number, index)),
                _ => found.add(
                    Check::Usage,
                    "counted",
                    format!("row {number}"),
                    "a limit of the policy",
                    id,
                )?,
            }
        }
        for index in missing {
            found.add(Check::Usage, "counted", &kept.all[index].id, "a row", "none")?;
        }

        let mut seen: AHashSet<(usize, String, u32)> = AHashSet::new();
        let mut select = connection.prepare("SELECT counted, key, slot, used FROM usage")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (number, key, slot): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let Sum(used) = row.get(3)?;
            self.counts.usage += 1;
            let index = numbers.get(&number).copied();
            let name = index.map_or_else(|| number.to_string(), |index| kept.all[index].id.clone());
            let name = format!("{name} {key:?} slot {slot}");
            let expected = index.zip(u32::try_from(slot).ok()).and_then(|(index, slot)| {
                let used = self.tally.get(&kept.all[index].scope, &key)?.used.get(&(index, slot)).copied();
                seen.insert((index, key, slot));
                used
            });
            found.compare(Check::Usage, "usage", name, expected.unwrap_or(0), used)?;
        }
        for (_, key, Tab { used, .. }) in self.tally.iter() {
            for (&(index, slot), &used) in
                used.iter().filter(|((index, _), used)| *index < kept.all.len() && **used != 0)
            {
                if !seen.contains(&(index, key.to_owned(), slot)) {
                    let name = format!("{} {key:?} slot {slot}", kept.all[index].id);
                    found.add(Check::Usage, "usage", name, used, "no row")?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn accounts(&mut self, connection: &Connection, found: &mut Findings) -> Result<(), Stop> {
        let sql = format!("SELECT scope, key, {} FROM account", book_columns().join(", "));
        let mut select = connection.prepare(&sql)?;
        let mut rows = select.query([])?;
        let mut seen: AHashSet<(String, String)> = AHashSet::new();
        while let Some(row) = rows.next()? {
            let (scope, key): (String, String) = (row.get(0)?, row.get(1)?);
            let stored = books_at(row, 2)?;
            self.counts.accounts += 1;
            match self.tally.get(&scope, &key) {
                None => {
                    found.add(Check::Account, "account", format!("{scope} {key:?}"), "no row", "books")?
                }
                Some(Tab { books, .. }) if *books != stored => {
                    for dimension in DIMENSIONS {
                        let (expected, found_parts) =
                            (parts(books.entry(dimension)), parts(stored.entry(dimension)));
                        for ((part, expected), stored) in PARTS.iter().zip(expected).zip(found_parts) {
                            let name = format!("{scope} {key:?} {dimension} {part}");
                            found.compare(Check::Account, "account", name, expected, stored)?;
                        }
                    }
                }
                Some(_) => {}
            }
            seen.insert((scope, key));
        }
        for (scope, key, _) in self.tally.iter() {
            if !seen.contains(&(scope.to_owned(), key.to_owned())) {
                found.add(Check::Account, "account", format!("{scope} {key:?}"), "books", "no row")?;
            }
        }
        Ok(())
    }
}

/// What is out by the books is what open holds have out.
pub(super) fn balance(tally: &Tally<'_>, open: &[HoldState], found: &mut Findings) -> Result<(), Stop> {
    let mut out: AHashMap<(&str, &str), [i128; 5]> = AHashMap::new();
    for hold in open {
        let mut path = AHashSet::new();
        for account in hold.path.iter() {
            if !path.insert(account) {
                let twice = format!("{} {:?} twice", account.scope, account.key);
                found.add(
                    Check::Path,
                    "hold",
                    format_args!("{:?} path", hold.id),
                    "each account once",
                    twice,
                )?;
            }
            let sums = out.entry((&account.scope, &account.key)).or_default();
            for part in &hold.parts {
                part.left.iter().zip(sums.iter_mut()).for_each(|((_, left), sum)| *sum += i128::from(left));
            }
        }
    }
    let mut compare = |scope: &str, key: &str, booked: [i128; 5], held: [i128; 5]| {
        for ((dimension, booked), held) in DIMENSIONS.iter().zip(booked).zip(held) {
            let name = format!("{scope} {key:?} {dimension} outstanding");
            found.compare(
                Check::Balance,
                "account",
                name,
                format!("{held} (in open holds)"),
                format!("{booked} (in open holds)"),
            )?;
        }
        Ok::<_, Stop>(())
    };
    for (scope, key, tab) in tally.iter() {
        let booked = tab.books.outstanding();
        compare(scope, key, booked, out.remove(&(scope, key)).unwrap_or_default())?;
    }
    for ((scope, key), held) in out {
        compare(scope, key, [0; 5], held)?;
    }
    Ok(())
}
