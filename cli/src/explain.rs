//! `tollgate explain`: what each limit of a policy really does, in numbers.

use crate::args::ExplainArgs;
use crate::event::Schema;
use crate::failure::Failure;
use crate::policy::{Meter, Metered, Pipeline, Policy, Shift, duration, names};
use crate::replay::{Judge, Layout};
use crate::summary::{grouped, span};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;
use tollgate::effect::EffectRule;
use tollgate::quota::{Arithmetic, Quota};
use tollgate::spend::{Dimension, SpendPolicy};

/// Asked and achieved rates that differ by more than this are worth a warning.
const GAP: f64 = 0.01;

/// Prints the explanation.
///
/// # Errors
/// What is wrong with the policy, or a failed write.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let policy = Policy::load(&args.policy)?;
    let text = explanation(&policy)?;
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|cause| Failure::stdout(&cause))
}

/// A warning for each limit whose achieved rate is not the asked one.
pub fn gaps(policy: &Policy) -> Result<Vec<String>, Failure> {
    Ok(limits(policy)?.iter().filter_map(Limit::warning).collect())
}

/// One limit: what was asked and what is done.
struct Limit {
    name: String,
    quota: Quota,
    line: Arithmetic,
}

fn limits(policy: &Policy) -> Result<Vec<Limit>, Failure> {
    let guards = policy.agent_velocity_quotas()?.into_iter().chain(policy.velocity_quotas()?);
    let guards = guards.map(|limit| (limit.name.to_owned(), limit.quota));
    let own = policy.limits.iter().map(|limit| (limit.name.clone(), limit.quota(Shift(0))));
    let build = |(name, quota): (String, Quota)| match quota.arithmetic(64) {
        Ok(line) => Ok(Limit { name, quota, line }),
        Err(error) => Err(Failure::Mend(format!("{}: limit \"{name}\": {error}", policy.file))),
    };
    guards.chain(own).map(build).collect()
}

/// The explanation as text.
///
/// # Errors
/// What is wrong with the policy.
pub fn explanation(policy: &Policy) -> Result<String, Failure> {
    let layout = Layout::new(policy, &mut Schema::new(&[])?);
    let judge = Judge::new(policy, &layout, 0)?;
    let (arithmetic, memory) = (judge.guard_arithmetic(), judge.memory());
    let pipeline = match policy.pipeline {
        Pipeline::Series => "series",
        Pipeline::Atomic => "atomic",
    };
    let cap = grouped(policy.bucket_cap as u64);
    let mut text = format!("{}: pipeline {pipeline}, up to {cap} buckets a table\n", policy.file);
    if layout.limits.is_empty() && policy.effects.rules().is_empty() && policy.spend.is_none() {
        text.push_str("\nno limits: every event is admitted\n");
    }
    for (mut limit, info) in limits(policy)?.into_iter().zip(&layout.limits) {
        if let Some((_, line)) = arithmetic.iter().find(|(name, _)| *name == limit.name) {
            limit.line = *line;
        }
        let table = match limit.name.split_once('.') {
            Some((guard, _)) if names::ALL.contains(&limit.name.as_str()) => guard,
            _ => "limits",
        };
        let bytes = memory.iter().find(|(name, _)| *name == table).map_or(0, |(_, bytes)| *bytes);
        let key = match info.key.as_slice() {
            [] => "one bucket for everybody".to_owned(),
            fields => format!("a bucket for each {}", fields.join(", ")),
        };
        limit.write(&mut text, &key, &format!("{} for the table `{table}` of {cap} buckets", size(bytes)));
    }
    for rule in policy.effects.rules() {
        effect(&mut text, &policy.file, rule)?;
    }
    if let Some(budgets) = &policy.spend {
        spend(&mut text, budgets);
        if policy.places.has("meter") {
            meter(&mut text, budgets, &policy.meter);
        }
    }
    Ok(text)
}

/// Budgets: each scope and each of its limits, then what families may use.
fn spend(out: &mut String, policy: &SpendPolicy) {
    let unit = policy.money();
    let amount = |dimension: Dimension, amount: u64| match dimension {
        Dimension::Cost => format!("{} {}", unit.show(amount), unit.currency()),
        _ => grouped(amount),
    };
    // Writing to a String cannot fail.
    for scope in policy.scopes() {
        let accounts =
            if scope.is_shared() { "one account for everybody" } else { "an account for each key" };
        let _ = writeln!(out, "\nspend {} ({accounts})", scope.name());
        if scope.limits().is_empty() {
            out.push_str("  no limits: only books are kept\n");
        }
        for limit in scope.limits() {
            let (dimension, window) = (limit.dimension(), limit.window());
            row(out, dimension.name(), &format!("{}, {window}", amount(dimension, limit.amount())));
        }
    }
    for family in policy.families() {
        let _ = writeln!(out, "\nspend family {}", family.root());
        for dimension in [Dimension::Cost, Dimension::Calls] {
            if let Some(total) = family.total(dimension) {
                row(out, dimension.name(), &format!("{} in all", amount(dimension, total)));
            }
        }
    }
}

/// How a replay turns an event into amounts.
fn meter(out: &mut String, policy: &SpendPolicy, meter: &Meter) {
    let unit = policy.money();
    let money = |amount: u64| format!("{} {}", unit.show(amount), unit.currency());
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\nan event of a replay uses");
    for dimension in [Dimension::Cost, Dimension::Tokens, Dimension::Calls, Dimension::Seconds] {
        let used = match meter.of(dimension) {
            Metered::Constant(amount) if dimension == Dimension::Cost => money(*amount),
            Metered::Constant(amount) => grouped(*amount),
            Metered::Optional(field) => format!("its field {field}, if it has one"),
            Metered::Fields(fields) => fields.join(" + "),
            Metered::Priced(prices) => {
                let price =
                    |(field, price): &(String, u64)| format!("{field} at {} a million", money(*price));
                prices.iter().map(price).collect::<Vec<_>>().join(" + ")
            }
        };
        row(out, dimension.name(), &used);
    }
}

/// An effect, and each of its quotas.
fn effect(out: &mut String, file: &str, rule: &EffectRule) -> Result<(), Failure> {
    let ttl = nanos(rule.permit_ttl());
    let cap = grouped(rule.buckets() as u64);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\neffect {} (up to {cap} keys)", rule.tool());
    row(out, "permits live", &duration::show(ttl));
    match rule.allowed_hours() {
        Some(hours) => row(out, "hours", &format!("{hours}, outside them {}", hours.when_outside())),
        None => row(out, "hours", "always"),
    }
    for rule in rule.quotas() {
        let quota = rule.quota(0);
        let line = rule.arithmetic(0).map_err(|error| Failure::Mend(format!("{file}: {error}")))?;
        let per = Per::of(quota.asked_tokens_per_second());
        let _ = writeln!(out, "  {}", rule.definition());
        row(out, "  exhausted", rule.when_exhausted().as_str());
        row(out, "  burst", &format!("{} tokens", grouped(line.capacity())));
        row(out, "  asked rate", &per.show(quota.asked_tokens_per_second()));
        row(out, "  achieved rate", &per.show(line.tokens_per_second()));
        row(out, "  time to fill", &line.time_to_fill().map_or("never".to_owned(), span));
        row(out, "  resolution", &span(line.resolution()));
    }
    Ok(())
}

fn row(out: &mut String, label: &str, value: &str) {
    let _ = writeln!(out, "  {label:<16} {value}");
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Limit {
    fn write(&self, out: &mut String, key: &str, memory: &str) {
        let per = Per::of(self.quota.asked_tokens_per_second());
        let fill = self.line.time_to_fill().map_or("never".to_owned(), span);
        let rows = [
            ("capacity", format!("{} tokens", grouped(self.line.capacity()))),
            ("asked rate", per.show(self.quota.asked_tokens_per_second())),
            ("achieved rate", per.show(self.line.tokens_per_second())),
            ("time to fill", fill),
            ("resolution", span(self.line.resolution())),
            ("overflow", format!("after {:.0} years", self.line.horizon_years())),
            ("memory", memory.to_owned()),
        ];
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\n{} ({key})", self.name);
        for (label, value) in rows {
            let _ = writeln!(out, "  {label:<14} {value}");
        }
        if let Some(warning) = self.warning() {
            let _ = writeln!(out, "  warning: {warning}");
        }
    }

    /// What to say when the achieved rate is not the asked one.
    fn warning(&self) -> Option<String> {
        let (asked, achieved) = (self.quota.asked_tokens_per_second(), self.line.tokens_per_second());
        if asked == 0.0 || ((achieved - asked) / asked).abs() <= GAP {
            return None;
        }
        let percent = ((achieved - asked) / asked).abs() * 100.0;
        let side = if achieved < asked { "below" } else { "above" };
        let per = Per::of(asked);
        Some(format!(
            "{}: asked {}, achieved {}, {percent:.1} % {side}; refill = \"exact\" keeps the asked rate",
            self.name,
            per.show(asked),
            per.show(achieved),
        ))
    }
}

/// The unit of time in which a rate is a number that people can read.
#[derive(Clone, Copy)]
struct Per {
    seconds: f64,
    name: &'static str,
}

impl Per {
    fn of(tokens_per_second: f64) -> Self {
        let units = [(1.0, "a second"), (60.0, "a minute"), (3_600.0, "an hour"), (86_400.0, "a day")];
        let readable = units.into_iter().find(|&(seconds, _)| tokens_per_second * seconds >= 1.0);
        let (seconds, name) = readable.unwrap_or(if tokens_per_second == 0.0 { units[0] } else { units[3] });
        Self { seconds, name }
    }

    fn show(self, tokens_per_second: f64) -> String {
        let rate = format!("{:.4}", tokens_per_second * self.seconds);
        let rate = rate.trim_end_matches('0').trim_end_matches('.');
        let rate =
            if rate.is_empty() || rate == "0" && tokens_per_second > 0.0 { "under 0.0001" } else { rate };
        format!("{rate} tokens {}", self.name)
    }
}

fn size(bytes: usize) -> String {
    let bytes = bytes as f64;
    match bytes {
        0.0..1_024.0 => format!("{bytes} B"),
        1_024.0..1_048_576.0 => format!("{:.1} KiB", bytes / 1_024.0),
        1_048_576.0..1_073_741_824.0 => format!("{:.1} MiB", bytes / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(text: &str) -> String {
        explanation(&Policy::parse("p.toml", text).unwrap()).unwrap()
    }

    #[test]
    fn every_limit_is_explained_in_the_order_in_which_it_decides() {
        let text = explained(
            "[velocity]\nmax_invocations_per_window = 60\nmax_spend_per_window = 6000000\n\
             [agent_velocity]\nmax_requests_per_agent = 600\n\
             [[limit]]\nname = \"monthly\"\nkey = [\"ip\"]\nwindow = { tokens = 50, per = \"30d\" }\n",
        );
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"));
        assert!(at("agent_velocity.agent") < at("velocity.invocations"));
        assert!(at("velocity.invocations") < at("velocity.spend"));
        assert!(at("velocity.spend") < at("monthly (a bucket for each ip)"));
        for part in [
            "capacity       6,000,000 tokens",
            "asked rate     1.6667 tokens a day",
            "time to fill   30 days",
        ] {
            at(part);
        }
        assert!(!text.contains("warning"), "{text}");
    }

    #[test]
    fn a_rate_that_rounding_changes_by_more_than_a_hundredth_is_warned_about() {
        let slow = explained("[velocity]\nmax_invocations_per_window = 100\nburst_factor = 1.5\n");
        assert!(slow.contains("capacity       150 tokens"), "{slow}");
        assert!(
            slow.contains("asked 1.6667 tokens a second, achieved 1 tokens a second, 40.0 % below"),
            "{slow}"
        );
        let fast = explained("[velocity]\nmax_invocations_per_window = 1\n");
        assert!(fast.contains("5900.0 % above"), "{fast}");
        let exact = explained("[velocity]\nmax_invocations_per_window = 100\nrefill = \"exact\"\n");
        assert!(!exact.contains("warning"), "{exact}");
    }

    #[test]
    fn a_limit_of_nothing_has_no_gap_and_never_fills() {
        let text = explained("[[limit]]\nname = \"x\"\nrate = { tokens = 0, per = \"1s\", burst = 5 }\n");
        assert!(text.contains("time to fill   never") && text.contains("one bucket for everybody"), "{text}");
    }
}
