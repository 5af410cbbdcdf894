//! Budgets over a trace: who would have been reduced or blocked, hour by hour.
//!
//! Every event is held with what it used and settled at once with the same: the best estimate that a caller could have made.

mod judge;
mod reading;
mod report;
mod tally;

use super::outputs::{self, Sink};
use super::reader::Reader;
use super::timeline::Timeline;
use crate::args::{ReplayArgs, SummaryFormat};
use crate::event::{Record, Schema};
use crate::failure::{Failure, say};
use crate::policy::Policy;
use judge::{Judge, Outcome};
use reading::Reading;
use report::Report;
use serde_json::json;
use std::time::Instant;
use tally::{Tally, reason};
use tollgate::spend::{Dimension, SpendPolicy, Tier};

/// Nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;

/// `tollgate replay` of a policy with `[spend]`.
///
/// # Errors
/// As of the other policies.
pub fn run(args: &ReplayArgs, policy: &Policy, budgets: &SpendPolicy) -> Result<(), Failure> {
    policy.no_limits_beside_spend()?;
    let mut schema = Schema::new(&args.map)?;
    let reading = Reading::new(budgets, &policy.meter, &mut schema);
    let judge = Judge::new(policy, budgets)?;
    let mut warn = |text: String| say(format_args!("warning: {text}"));
    let of_runs = |scope: &&tollgate::spend::Scope| {
        scope.limits().iter().any(|limit| limit.dimension() == Dimension::Runs)
    };
    for scope in budgets.scopes().iter().filter(of_runs) {
        warn(format!(
            "a trace does not say when runs end: the limit of runs of {} is not replayed",
            scope.name()
        ));
    }
    for mapping in schema.unused_mappings() {
        warn(format!("--map {}={}: the policy reads no field `{0}`", mapping.name, mapping.field));
    }

    let mut reader = Reader::open(args, &schema, &mut warn)?;
    let mut sink = Sink::open(args)?;
    let on_stdout = sink.as_ref().is_some_and(Sink::on_stdout);
    let began = Instant::now();
    let mut record = Record::new(schema.len());
    let (mut tally, mut timeline) = (Tally::default(), Timeline::default());
    let mut replayed = || -> Result<(), Failure> {
        let mut seq = 0;
        while reader.next(&mut record)? {
            let t_ns = timeline.advance(record.t_ns);
            let outcome = judge.decide(t_ns / MILLI, &record, &reading)?;
            tally.count(t_ns / MILLI, &outcome);
            if let Some(sink) = &mut sink {
                sink.line(&decision(seq, t_ns, &outcome).to_string())?;
            }
            seq += 1;
        }
        Ok(())
    };
    let result = replayed();
    // Also after an error: the decisions made until then are written.
    let finished = sink.map_or(Ok(()), Sink::finish);
    result?;
    finished?;
    let seconds = began.elapsed().as_secs_f64();
    let report = Report {
        policy: &policy.file,
        input: &reader.name,
        budgets,
        tally: &tally,
        backward_steps: timeline.backward_steps(),
        clamped: timeline.clamped(),
        bad_lines: reader.bad_lines,
        trace_ns: timeline.span(),
        events_per_second: if seconds > 0.0 { (tally.total.events() as f64 / seconds).round() } else { 0.0 },
    };
    let text = match args.summary {
        SummaryFormat::Table => report.to_string(),
        SummaryFormat::Json => format!("{:#}\n", report.document()),
    };
    outputs::print(&text, on_stdout)
}

/// One event's decision as a JSON object.
fn decision(seq: u64, t_ns: u64, outcome: &Outcome) -> serde_json::Value {
    match outcome {
        Outcome::Passed { tier, set_by, used } => {
            let mut line = json!({
                "seq": seq, "t_ns": t_ns, "verdict": "admit", "tier": tier.name(),
                "cost": used[Dimension::Cost], "tokens": used[Dimension::Tokens],
            });
            if let (Some(cause), true) = (set_by, *tier != Tier::Full) {
                line["set_by"] = json!({
                    "scope": cause.scope, "key": cause.key, "dimension": cause.dimension.name(), "window": cause.window,
                    "used": cause.used, "limit": cause.limit,
                });
            }
            line
        }
        Outcome::Refused(refusal) => json!({
            "seq": seq, "t_ns": t_ns, "verdict": if refusal.retry_after.is_some() { "deny" } else { "never" },
            "reason": reason(refusal.reason), "scope": refusal.scope, "key": refusal.key,
            "dimension": refusal.dimension.name(), "window": refusal.window, "limit": refusal.limit,
            "spent": refusal.spent, "needed": refusal.needed,
            "retry_after_ns": refusal.retry_after.map(|wait| wait.saturating_mul(MILLI)),
        }),
        Outcome::Unjudged(why) => {
            json!({ "seq": seq, "t_ns": t_ns, "verdict": "error", "reason": why.as_str() })
        }
    }
}
