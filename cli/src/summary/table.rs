//! The summary for people.

use super::Report;
use crate::table::Align::{Left, Right};
use crate::table::{printable, write_rows};
use std::fmt::{self, Display};

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} under {}", self.input, self.policy)?;
        writeln!(f)?;
        let percent = |count: u64| match self.events {
            0 => String::new(),
            events => format!("{:.1} %", count as f64 * 100.0 / events as f64),
        };
        let trace = format!("over {}", span(self.trace_ns));
        let clamped = format!("{} events decided later than they say", grouped(self.clamped_events));
        let mut rows = vec![
            ["events".to_owned(), grouped(self.events), trace],
            ["admitted".to_owned(), grouped(self.admitted), percent(self.admitted)],
            ["refused".to_owned(), grouped(self.refused), percent(self.refused)],
            ["backward steps".to_owned(), grouped(self.backward_steps), clamped],
            ["bad lines".to_owned(), grouped(self.bad_lines), "skipped".to_owned()],
            ["live buckets".to_owned(), grouped(self.live_buckets), self.tables()],
            ["events a second".to_owned(), grouped(self.events_per_second as u64), String::new()],
        ];
        if self.backward_steps == 0 {
            rows[3][2].clear();
        }
        if self.bad_lines == 0 {
            rows[4][2].clear();
        }
        write_rows(f, &[Left, Right, Left], &rows)?;

        if !self.refused_by.is_empty() {
            writeln!(f, "\nrefused by")?;
            let rows: Vec<_> = self
                .refused_by
                .iter()
                .map(|by| {
                    [
                        by.limit.clone(),
                        by.reason.into(),
                        by.verdict.into(),
                        grouped(by.count),
                        percent(by.count),
                    ]
                })
                .collect();
            write_rows(f, &[Left, Left, Left, Right, Right], &rows)?;
        }
        if let (Some(p50), Some(p90), Some(p99), Some(max)) =
            (self.wait_ns.p50, self.wait_ns.p90, self.wait_ns.p99, self.wait_ns.max)
        {
            writeln!(f, "\nwait until the same call could be admitted")?;
            let [p50, p90, p99, max] = [p50, p90, p99, max].map(span);
            writeln!(f, "  p50 {p50}   p90 {p90}   p99 {p99}   max {max}")?;
        }
        if !self.top_refused.is_empty() {
            writeln!(f, "\nkeys refused most often")?;
            let rows: Vec<_> = self
                .top_refused
                .iter()
                .map(|top| {
                    let key = if top.fields.is_empty() { "(everybody)" } else { top.key.as_str() };
                    let error = if top.error == 0 {
                        "exact".into()
                    } else {
                        format!("or up to {} fewer", grouped(top.error))
                    };
                    [top.limit.clone(), printable(key), grouped(top.count), error]
                })
                .collect();
            write_rows(f, &[Left, Left, Right, Left], &rows)?;
            if self.top_refused_unlisted_at_most > 0 {
                let most = grouped(self.top_refused_unlisted_at_most);
                writeln!(f, "  keys that could not be counted were refused at most {most} times each")?;
            }
        }
        Ok(())
    }
}

impl Report {
    fn tables(&self) -> String {
        let live = |(table, live): (&String, &serde_json::Value)| {
            format!("{table} {}", grouped(live.as_u64().unwrap_or(0)))
        };
        self.live_buckets_by.iter().map(live).collect::<Vec<_>>().join(", ")
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds to about four digits, in the unit that suits them.
pub fn span(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{} us", short(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", short(value / 1e6)),
        1_000_000_000..120_000_000_000 => format!("{} s", short(value / 1e9)),
        120_000_000_000..7_200_000_000_000 => format!("{} min", short(value / 6e10)),
        7_200_000_000_000..172_800_000_000_000 => format!("{} h", short(value / 3.6e12)),
        172_800_000_000_000..63_115_200_000_000_000 => format!("{} days", short(value / 8.64e13)),
        _ => format!("{} years", short(value / 3.155_76e16)),
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn spans_of_time_are_shown_in_a_unit_that_suits_them() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 us"),
            (600_000_000, "600 ms"),
            (60_000_000_000, "60 s"),
            (3_537_000_000_000, "58.95 min"),
            (86_400_000_000_000, "24 h"),
            (2_592_000_000_000_000, "30 days"),
            (u64::MAX, "584.542 years"),
        ];
        for (nanos, text) in cases {
            assert_eq!(span(nanos), text);
        }
    }
}
