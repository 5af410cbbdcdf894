//! What follows from the last row of each hold, and of each grant.

use super::super::base::Base;
use super::super::finding::{Check, Findings, Stop};
use super::super::row::{self, hex};
use super::{Walk, clamped, forgotten};
use crate::spend::record::{HoldState, Phase};
use rusqlite::Connection;

impl Walk<'_> {
    /// Compares the holds that are there with those that should be; returns the open ones, oldest first.
    pub(super) fn holds(
        &mut self,
        connection: &Connection,
        base: &Base,
        found: &mut Findings,
    ) -> Result<Vec<HoldState>, Stop> {
        let forgotten = forgotten(connection)?;
        let mut open: Vec<HoldState> = Vec::new();
        let mut select = connection.prepare(
            "SELECT h.id, h.seq, h.phase, h.generation, h.at, h.deadline, h.ended, h.state, h.sum, l.hold, l.at
             FROM hold h LEFT JOIN ledger l ON l.seq = h.seq",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (id, seq): (String, i64) = (row.get(0)?, row.get(1)?);
            let (state_text, said): (String, Option<String>) = (row.get(7)?, row.get(9)?);
            let name = format!("{id:?}");
            let state: HoldState = match serde_json::from_str(&state_text) {
                Ok(state) => state,
                Err(error) => {
                    found.add(Check::Hold, "hold", &name, "a hold's state", error)?;
                    continue;
                }
            };
            let is_open = state.phase == Phase::Open;
            let last = self.last.remove(&id);
            if let Some(last) = &last {
                found.compare(Check::Hold, "hold", format_args!("{name} seq"), last.seq, seq)?;
                if !last.kept {
                    found.add(Check::Hold, "hold", &name, "no row: it is over and has no name", "a row")?;
                }
            }
            if seq > base.through {
                let said = said.unwrap_or_else(|| "no row of the ledger".to_owned());
                found.compare(Check::Hold, "hold", format_args!("{name} state"), &said, &state_text)?;
            } else {
                let sum: Option<Vec<u8>> = row.get(8)?;
                let expected = hex(&row::state_sum(&state_text));
                found.compare(
                    Check::Hold,
                    "hold",
                    format_args!("{name} sum"),
                    expected,
                    hex(&sum.unwrap_or_default()),
                )?;
                if is_open {
                    found.add(Check::Hold, "hold", &name, "its row in the ledger, for it is open", "none")?;
                }
            }
            found.compare(Check::Hold, "hold", format_args!("{name} id"), &state.id, &id)?;
            let phase: String = row.get(2)?;
            found.compare(
                Check::Hold,
                "hold",
                format_args!("{name} phase"),
                row::phase_name(&state.phase),
                &phase,
            )?;
            for (column, expected, stored) in [
                ("generation", state.generation, row.get::<_, i64>(3)?),
                ("at", state.at, row.get(4)?),
                ("deadline", state.deadline, row.get(5)?),
            ] {
                found.compare(
                    Check::Hold,
                    "hold",
                    format_args!("{name} {column}"),
                    clamped(expected),
                    stored,
                )?;
            }
            let ended: Option<i64> = row.get(6)?;
            let expected = if is_open { None } else { row.get(10)? };
            // When an archived hold ended only its own row says.
            if (is_open || seq > base.through) && ended != expected {
                let [expected, ended] = [expected, ended].map(|time| format!("{time:?}"));
                found.add(Check::Hold, "hold", format_args!("{name} ended"), expected, ended)?;
            }
            if is_open {
                open.push(state);
            } else {
                self.counts.remembered += 1;
            }
        }
        for (id, last) in self.last.drain() {
            if last.open || (last.kept && last.at >= forgotten) {
                let expected = format!("the hold of row {} of the ledger", last.seq);
                found.add(Check::Hold, "hold", format_args!("{id:?}"), expected, "no row")?;
            }
        }
        open.sort_by_key(|hold| hold.generation);
        for pair in open.windows(2) {
            if pair[0].generation == pair[1].generation {
                let name = format!("{:?} and {:?}", pair[0].id, pair[1].id);
                found.add(Check::Generation, "hold", name, "two generations", pair[0].generation)?;
            }
        }
        self.counts.open = open.len() as u64;
        Ok(open)
    }

    pub(super) fn grants(&mut self, connection: &Connection, found: &mut Findings) -> Result<(), Stop> {
        let mut select = connection.prepare("SELECT id, seq, state FROM grants")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (id, seq, state): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.counts.grants += 1;
            let (expected_seq, expected) = self.grants.remove(&id).unwrap_or((0, "no row".to_owned()));
            found.compare(Check::Grant, "grants", format_args!("{id:?}"), expected, state)?;
            // Of an archived one only that it is archived is known.
            let seq_known = expected_seq > 0;
            if seq_known {
                found.compare(Check::Grant, "grants", format_args!("{id:?} seq"), expected_seq, seq)?;
            }
        }
        for (id, (_, expected)) in std::mem::take(&mut self.grants) {
            found.add(Check::Grant, "grants", format_args!("{id:?}"), expected, "no row")?;
        }
        Ok(())
    }
}
