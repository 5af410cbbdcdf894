//! The summary as data: the JSON object, from which the table is also made.

use super::{SHOWN, Tally, decode};
use crate::replay::{Reason, Timeline};
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// What the tally cannot know of a run.
pub struct Run<'a> {
    pub policy: &'a str,
    pub input: &'a str,
    pub events: u64,
    pub bad_lines: u64,
    pub timeline: Timeline,
    pub elapsed: Duration,
    /// Live buckets of each table, by its name.
    pub live_buckets: Vec<(&'static str, u64)>,
}

/// A replay's summary. The names are stable; times are nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub policy: String,
    pub input: String,
    pub events: u64,
    pub admitted: u64,
    pub refused: u64,
    pub refused_by: Vec<RefusedBy>,
    pub top_refused: Vec<TopRefused>,
    /// A key that `top_refused` could not list was refused at most so often.
    pub top_refused_unlisted_at_most: u64,
    pub wait_ns: WaitNs,
    pub backward_steps: u64,
    /// Events decided later than they say, because an earlier one was later.
    pub clamped_events: u64,
    pub bad_lines: u64,
    /// From the first event to the latest.
    pub trace_ns: u64,
    pub events_per_second: f64,
    pub live_buckets: u64,
    pub live_buckets_by: Map<String, Value>,
}

/// How often a limit refused for one reason.
#[derive(Debug, Clone, Serialize)]
pub struct RefusedBy {
    pub limit: String,
    pub reason: &'static str,
    pub verdict: &'static str,
    pub count: u64,
}

/// A key that was refused often.
#[derive(Debug, Clone, Serialize)]
pub struct TopRefused {
    pub limit: String,
    /// The values of the key's fields, joined by `|`.
    pub key: String,
    /// The same by field.
    pub fields: Map<String, Value>,
    /// At most so often was it refused ...
    pub count: u64,
    /// ... and at least this much less.
    pub error: u64,
}

/// Percentiles of `retry_after_ns`; all null when no refusal had one.
#[derive(Debug, Clone, Serialize)]
pub struct WaitNs {
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}

impl Report {
    pub fn new(tally: &Tally, run: Run<'_>) -> Self {
        let mut refused_by = Vec::new();
        for (limit, counts) in tally.limits.iter().zip(&tally.refused) {
            for (reason, &count) in Reason::ALL.iter().zip(counts) {
                if count > 0 {
                    let (name, verdict) = (limit.name.clone(), reason.verdict().as_str());
                    refused_by.push(RefusedBy { limit: name, reason: reason.as_str(), verdict, count });
                }
            }
        }
        let top_refused = tally.keys.top(SHOWN).into_iter().map(|heavy| {
            let (limit, parts) = decode(heavy.key);
            let limit = &tally.limits[limit];
            let fields = limit.key.iter().cloned().zip(parts.iter().cloned().map(Value::from));
            TopRefused {
                limit: limit.name.clone(),
                key: parts.join("|"),
                fields: fields.collect(),
                count: heavy.count,
                error: heavy.error,
            }
        });
        let waits = tally.waits.percentiles();
        let seconds = run.elapsed.as_secs_f64();
        Self {
            policy: run.policy.to_owned(),
            input: run.input.to_owned(),
            events: run.events,
            admitted: tally.admitted,
            refused: run.events - tally.admitted,
            refused_by,
            top_refused: top_refused.collect(),
            top_refused_unlisted_at_most: tally.keys.unlisted_at_most(),
            wait_ns: WaitNs {
                p50: waits.map(|waits| waits.p50),
                p90: waits.map(|waits| waits.p90),
                p99: waits.map(|waits| waits.p99),
                max: waits.map(|waits| waits.max),
            },
            backward_steps: run.timeline.backward_steps(),
            clamped_events: run.timeline.clamped(),
            bad_lines: run.bad_lines,
            trace_ns: run.timeline.span(),
            events_per_second: if seconds > 0.0 { (run.events as f64 / seconds).round() } else { 0.0 },
            live_buckets: run.live_buckets.iter().map(|(_, live)| live).sum(),
            live_buckets_by: run
                .live_buckets
                .iter()
                .map(|&(table, live)| (table.to_owned(), live.into()))
                .collect(),
        }
    }
}
