//! The summary of a replay of budgets: as one JSON object, and as tables.

use super::tally::{Counts, Effect, Often, Tally};
use crate::summary::{grouped, span};
use crate::table::Align::{Left, Right};
use crate::table::{printable, write_rows};
use serde_json::{Value, json};
use std::fmt;
use tollgate::spend::window::show_time;
use tollgate::spend::{MoneyUnit, SpendPolicy};

/// Keys shown.
const SHOWN: usize = 10;

/// What a replay came to.
pub struct Report<'a> {
    pub policy: &'a str,
    pub input: &'a str,
    pub budgets: &'a SpendPolicy,
    pub tally: &'a Tally,
    pub backward_steps: u64,
    pub clamped: u64,
    pub bad_lines: u64,
    pub trace_ns: u64,
    pub events_per_second: f64,
}

impl Report<'_> {
    pub fn document(&self) -> Value {
        let Self { policy, input, budgets, tally, .. } = self;
        let unit = budgets.money();
        let counts = |counts: &Counts| {
            json!({
                "events": counts.events(), "full": counts.full, "reduced": counts.reduced, "free": counts.free,
                "blocked": counts.blocked, "unjudged": counts.unjudged, "cost": counts.cost, "tokens": counts.tokens,
            })
        };
        let hours: Vec<Value> = tally
            .hours
            .iter()
            .map(|(at, hour)| {
                let mut row = counts(hour);
                row["hour"] = show_time(*at).into();
                row["hour_ms"] = (*at).into();
                row
            })
            .collect();
        let limits: Vec<Value> = tally
            .limits
            .iter()
            .flat_map(|((scope, dimension, window), effects)| {
                effects.iter().map(move |(effect, count)| {
                    let (effect, reason) = match effect {
                        Effect::Reduced => ("reduced", None),
                        Effect::Refused(reason) => ("blocked", Some(*reason)),
                    };
                    json!({
                        "scope": scope, "dimension": dimension.name(), "window": window,
                        "effect": effect, "reason": reason, "count": count,
                    })
                })
            })
            .collect();
        let unjudged: serde_json::Map<String, Value> =
            tally.unjudged.iter().map(|(why, count)| (why.as_str().to_owned(), (*count).into())).collect();
        let who = |often: Vec<Often>| -> Vec<Value> {
            let row =
                |it: Often| json!({ "scope": it.scope, "key": it.key, "count": it.count, "error": it.error });
            often.into_iter().map(row).collect()
        };
        json!({
            "policy": policy, "input": input, "currency": unit.currency(), "decimals": unit.decimals(),
            "total": counts(&tally.total), "hours": hours, "later": counts(&tally.later), "limits": limits, "unjudged": unjudged,
            "top_reduced": who(tally.reduced_most(SHOWN)), "top_blocked": who(tally.blocked_most(SHOWN)),
            "backward_steps": self.backward_steps, "clamped_events": self.clamped, "bad_lines": self.bad_lines,
            "trace_ns": self.trace_ns, "events_per_second": self.events_per_second,
        })
    }
}

fn money(unit: &MoneyUnit, amount: u64) -> String {
    format!("{} {}", unit.show(amount), unit.currency())
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tally, unit) = (self.tally, self.budgets.money());
        writeln!(f, "{} under {}\n", self.input, self.policy)?;
        let total = &tally.total;
        let percent = |count: u64| match total.events() {
            0 => String::new(),
            events => format!("{:.1} %", count as f64 * 100.0 / events as f64),
        };
        let row = |name: &str, count: u64, more: String| [name.to_owned(), grouped(count), more];
        let mut rows = vec![
            row("events", total.events(), format!("over {}", span(self.trace_ns))),
            row("full", total.full, percent(total.full)),
            row("reduced", total.reduced, percent(total.reduced)),
            row("blocked", total.blocked, percent(total.blocked)),
        ];
        let further = [
            ("free, while blocked", total.free, percent(total.free)),
            ("not judged", total.unjudged, percent(total.unjudged)),
            (
                "backward steps",
                self.backward_steps,
                format!("{} events decided later than they say", grouped(self.clamped)),
            ),
            ("bad lines", self.bad_lines, "skipped".to_owned()),
        ];
        rows.extend(
            further.into_iter().filter(|it| it.1 > 0).map(|(name, count, more)| row(name, count, more)),
        );
        rows.push(row("tokens", total.tokens, String::new()));
        rows.push(["cost".to_owned(), money(unit, total.cost), String::new()]);
        rows.push(row("events a second", self.events_per_second as u64, String::new()));
        write_rows(f, &[Left, Right, Left], &rows)?;

        if !tally.hours.is_empty() {
            writeln!(f, "\nhour by hour")?;
            let head = ["from", "events", "full", "reduced", "blocked", "cost", "tokens"].map(str::to_owned);
            let hours = tally.hours.iter().map(|(at, hour)| (show_time(*at), hour));
            let later = (tally.later.events() > 0).then(|| ("later".to_owned(), &tally.later));
            let hours = hours.chain(later).map(|(from, hour)| {
                let counts = [hour.events(), hour.full, hour.reduced, hour.blocked].map(grouped);
                let [events, full, reduced, blocked] = counts;
                [from, events, full, reduced, blocked, money(unit, hour.cost), grouped(hour.tokens)]
            });
            let rows: Vec<_> = std::iter::once(head).chain(hours).collect();
            write_rows(f, &[Left, Right, Right, Right, Right, Right, Right], &rows)?;
        }
        if !tally.limits.is_empty() {
            writeln!(f, "\nby which limit")?;
            let rows: Vec<_> = tally
                .limits
                .iter()
                .flat_map(|((scope, dimension, window), effects)| {
                    effects.iter().map(move |(effect, count)| {
                        let effect = match effect {
                            Effect::Reduced => "reduced".to_owned(),
                            Effect::Refused(reason) => format!("blocked, {reason}"),
                        };
                        [scope.clone(), dimension.name().to_owned(), window.clone(), effect, grouped(*count)]
                    })
                })
                .collect();
            write_rows(f, &[Left, Left, Left, Left, Right], &rows)?;
        }
        if !tally.unjudged.is_empty() {
            writeln!(f, "\nnot judged, and refused")?;
            let rows: Vec<_> = tally
                .unjudged
                .iter()
                .map(|(why, count)| [why.as_str().to_owned(), grouped(*count)])
                .collect();
            write_rows(f, &[Left, Right], &rows)?;
        }
        self.who(f, "reduced most often", tally.reduced_most(SHOWN))?;
        self.who(f, "blocked most often", tally.blocked_most(SHOWN))
    }
}

impl Report<'_> {
    fn who(&self, f: &mut fmt::Formatter<'_>, title: &str, often: Vec<Often>) -> fmt::Result {
        // A scope that everybody shares says nothing about anybody.
        let shared = |scope: &str| {
            self.budgets.scopes().iter().any(|known| known.name() == scope && known.is_shared())
        };
        let rows: Vec<_> = often
            .into_iter()
            .filter(|it| !shared(&it.scope))
            .map(|it| {
                let error = match it.error {
                    0 => "exact".to_owned(),
                    error => format!("or up to {} fewer", grouped(error)),
                };
                [it.scope, printable(&it.key), grouped(it.count), error]
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{title}")?;
        write_rows(f, &[Left, Left, Right, Left], &rows)
    }
}
