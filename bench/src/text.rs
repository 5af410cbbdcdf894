//! The report for people.

use crate::report::{Report, Row};
use crate::stats::Spread;
use crate::targets::{Bound, Target};
use std::fmt;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(f, "{}, {} cores, {}", machine.processor, machine.cores, machine.platform)?;
        let inlined = if machine.cmpxchg16b_compiled_in { "compiled in" } else { "checked for at run time" };
        writeln!(
            f,
            "load before: {}; 128-bit exchange {inlined}; {} rounds",
            machine.load_before, self.rounds
        )?;

        let mut place = ("", 0);
        let mut table = Table::default();
        for row in &self.rows {
            if place != (row.workload, row.threads) {
                table.write(f)?;
                place = (row.workload, row.threads);
                let threads = if row.threads == 1 { "thread" } else { "threads" };
                writeln!(f, "\n{}, {} {threads}", row.workload, row.threads)?;
                table = Table::new(["contender", "ns/op", "min", "max", "M ops/s", "admitted"]);
            }
            table.rows.push(contender(row));
        }
        table.write(f)?;

        if !self.latencies.is_empty() {
            writeln!(f, "\nchurn, single calls in ns, with the reading of the clock in them")?;
            let mut table =
                Table::new(["contender", "threads", "p50", "p99", "p99.9", "max", "max while running"]);
            for it in &self.latencies {
                let numbers = [it.threads as u64, it.p50, it.p99, it.p999, it.max, it.max_on_cpu];
                table
                    .push([it.contender.clone()].into_iter().chain(numbers.map(|number| number.to_string())));
            }
            table.write(f)?;
        }
        if let Some(memory) = &self.memory {
            let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
            writeln!(
                f,
                "\nmemory of {} bucket pairs in bytes: reserved {}, allocated {}, resident {} untouched and {} in use",
                memory.pairs,
                memory.reserved,
                bytes(memory.allocated),
                bytes(memory.untouched),
                bytes(memory.resident)
            )?;
        }
        if !self.comparisons.is_empty() {
            writeln!(f, "\nside by side")?;
            let mut table = Table::new(["workload", "threads", "contender", "versus", "ratio", "spread"]);
            for it in &self.comparisons {
                let cells = [it.contender.clone(), it.versus.clone(), times(it.ratio), range(&it.spread)];
                table.push([it.workload.to_owned(), it.threads.to_string()].into_iter().chain(cells));
            }
            table.write(f)?;
        }
        if !self.targets.is_empty() {
            writeln!(f, "\ntargets")?;
            let mut table = Table::new([
                "workload",
                "threads",
                "contender",
                "versus",
                "ratio",
                "spread",
                "target",
                "met",
            ]);
            self.targets.iter().for_each(|it| table.push(target(it)));
            table.write(f)?;
        }
        Ok(())
    }
}

fn contender(row: &Row) -> Vec<String> {
    let Spread { min, max, .. } = row.spread;
    let admitted = format!("{} of {}", row.admitted, row.calls);
    let numbers = [row.ns_per_op, min, max].map(|ns| format!("{ns:.1}"));
    let [ns, min, max] = numbers;
    vec![row.contender.clone(), ns, min, max, format!("{:.3}", row.mops), admitted]
}

fn target(it: &Target) -> Vec<String> {
    let bound = match it.bound {
        Bound::AtLeast => "at least",
        Bound::AtMost => "at most",
    };
    vec![
        it.workload.to_owned(),
        it.threads.to_string(),
        it.contender.clone(),
        it.versus.clone(),
        times(it.ratio),
        range(&it.spread),
        format!("{bound} {}", it.target),
        if it.met { "yes" } else { "NO" }.to_owned(),
    ]
}

fn times(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.4}") } else { format!("{ratio:.2}") }
}

fn range(spread: &Spread) -> String {
    format!("{} to {}", times(spread.min), times(spread.max))
}

/// Columns as wide as their widest cell; the first is text, and so are those whose cells are no numbers.
#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| self.rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let numeric = |column: usize| self.rows[1..].iter().all(|row| row[column].parse::<f64>().is_ok());
        let right: Vec<bool> = (0..columns).map(|column| self.rows.len() > 1 && numeric(column)).collect();
        for row in &self.rows {
            let mut line = String::from(" ");
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&right) {
                line += &if right { format!(" {cell:>width$} ") } else { format!(" {cell:<width$} ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
