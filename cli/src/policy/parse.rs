//! From TOML to a [`Policy`].

use super::{Amount, Cost, GuardSection, LimitRule, Meter, Pipeline, Policy, names};
use crate::failure::Failure;
use std::collections::BTreeMap;
use tollgate::effect::EffectPolicy;
use tollgate::file::section::{File, Section, whole};
use tollgate::file::{Found, PolicyFileError as Mistake};
use tollgate::guard::{AgentVelocityConfig, MemoryBudgetConfig, Refill, VelocityConfig};
use tollgate::spend::SpendPolicy;
use toml::de::DeValue;

/// The most buckets that a table of the library has.
const MOST_BUCKETS: u64 = 1 << 24;

const COST: &str = "a whole number, 0 to 18446744073709551615, or the name of an event field";
const WHEN: &str = "a table of fields and the values they must have, such as { method = \"POST\" }";

/// The keys at the top of a policy.
const KEYS: [&str; 8] =
    ["bucket_cap", "pipeline", "velocity", "agent_velocity", "limit", "effect", "spend", "meter"];

pub fn parse(name: &str, text: &str) -> Result<Policy, Failure> {
    read(name, text).map_err(|mistake| Failure::Mend(format!("{name}:{}: {}", mistake.line, mistake.what())))
}

fn read(name: &str, text: &str) -> Result<Policy, Mistake> {
    let file = File { text };
    let root = file.parse()?;
    let root = Section::new(file, root.get_ref(), 0..0, "");
    root.only(&KEYS)?;

    let spend = SpendPolicy::from_toml_beside(text, &KEYS)?;
    let default_cap = MemoryBudgetConfig::defaults().velocity_bucket_cap;
    let bucket_cap = root.whole("bucket_cap", 1, MOST_BUCKETS)?;
    Ok(Policy {
        file: name.to_owned(),
        bucket_cap: bucket_cap.map_or(default_cap, |cap| cap as usize), // at most 2^24
        pipeline: pipeline(&root)?,
        velocity: root.table("velocity", "a table headed [velocity]")?.map(velocity).transpose()?,
        agent_velocity: root
            .table("agent_velocity", "a table headed [agent_velocity]")?
            .map(agent_velocity)
            .transpose()?,
        limits: limits(file, &root)?,
        effects: EffectPolicy::from_toml_beside(text, &KEYS)?,
        meter: meter(&root, spend.as_ref())?,
        spend,
        places: root.places(),
    })
}

fn meter(root: &Section<'_>, spend: Option<&SpendPolicy>) -> Result<Meter, Mistake> {
    match (root.table("meter", "a table headed [meter]")?, spend) {
        (None, _) => Ok(Meter::default()),
        (Some(section), Some(spend)) => Meter::read(&section, spend.money()),
        (Some(section), None) => {
            Err(section.mistake("is there, and there are no budgets to meter", "[spend] beside it"))
        }
    }
}

fn pipeline(root: &Section<'_>) -> Result<Pipeline, Mistake> {
    const ACCEPTED: &str = "\"series\" or \"atomic\"";
    match root.text("pipeline", ACCEPTED)? {
        None | Some("series") => Ok(Pipeline::Series),
        Some("atomic") => Ok(Pipeline::Atomic),
        Some(_) => Err(root.refused("pipeline", present(root, "pipeline"), ACCEPTED)),
    }
}

fn velocity(section: Section<'_>) -> Result<GuardSection<VelocityConfig>, Mistake> {
    section.only(&[
        "max_invocations_per_window",
        "max_spend_per_window",
        "window_secs",
        "burst_factor",
        "refill",
    ])?;
    let default = VelocityConfig::default();
    Ok(GuardSection {
        config: VelocityConfig {
            max_invocations_per_window: count(&section, "max_invocations_per_window")?,
            max_spend_per_window: section.whole("max_spend_per_window", 0, u64::MAX)?,
            window_secs: section.whole("window_secs", 0, u64::MAX)?.unwrap_or(default.window_secs),
            burst_factor: section.number("burst_factor")?.unwrap_or(default.burst_factor),
        },
        refill: refill(&section)?,
        places: section.places(),
    })
}

fn agent_velocity(section: Section<'_>) -> Result<GuardSection<AgentVelocityConfig>, Mistake> {
    section.only(&[
        "max_requests_per_agent",
        "max_requests_per_session",
        "window_secs",
        "burst_factor",
        "refill",
    ])?;
    let default = AgentVelocityConfig::default();
    Ok(GuardSection {
        config: AgentVelocityConfig {
            max_requests_per_agent: count(&section, "max_requests_per_agent")?,
            max_requests_per_session: count(&section, "max_requests_per_session")?,
            window_secs: section.whole("window_secs", 0, u64::MAX)?.unwrap_or(default.window_secs),
            burst_factor: section.number("burst_factor")?.unwrap_or(default.burst_factor),
        },
        refill: refill(&section)?,
        places: section.places(),
    })
}

/// A limit on calls, which the guards count in 32 bits.
fn count(section: &Section<'_>, key: &str) -> Result<Option<u32>, Mistake> {
    let number = section.whole(key, 0, u64::from(u32::MAX))?;
    Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
}

fn refill(section: &Section<'_>) -> Result<Refill, Mistake> {
    const ACCEPTED: &str = "\"milli-token\" or \"exact\"";
    match section.text("refill", ACCEPTED)? {
        None | Some("milli-token") => Ok(Refill::MilliToken),
        Some("exact") => Ok(Refill::Exact),
        Some(_) => Err(section.refused("refill", present(section, "refill"), ACCEPTED)),
    }
}

fn limits(file: File<'_>, root: &Section<'_>) -> Result<Vec<LimitRule>, Mistake> {
    let mut seen = BTreeMap::new();
    let mut limits = Vec::new();
    for section in root.tables("limit")? {
        let name_at = section.get("name").map(|name| name.span());
        let limit = limit(section)?;
        let name_at = name_at.unwrap_or(0..0); // a limit without a name was refused
        if let Some(line) = seen.insert(limit.name.clone(), file.line(name_at.start)) {
            let found = Found::Value(format!("\"{}\"", limit.name));
            let accepted = format!("a name of its own (line {line} has this one)");
            return Err(file.mistake(&name_at, "name", found, accepted));
        }
        limits.push(limit);
    }
    Ok(limits)
}

fn limit(mut section: Section<'_>) -> Result<LimitRule, Mistake> {
    section.only(&["name", "key", "rate", "window", "cost", "when"])?;
    const NAME: &str = "a text that is not empty";
    let name = section.text("name", NAME)?.ok_or_else(|| section.mistake("has no `name`", "a text"))?;
    if name.is_empty() {
        return Err(section.refused("name", present(&section, "name"), NAME));
    }
    if names::ALL.contains(&name) {
        let accepted = "any name but those of the guards' own limits";
        return Err(section.refused("name", present(&section, "name"), accepted));
    }
    section.rename(format!("limit \"{name}\": "));
    let (amount, places) = amount(&section)?;
    Ok(LimitRule {
        name: name.to_owned(),
        key: section
            .texts("key", "a list of event fields, such as [\"ip\"], or [] for one bucket for everybody")?
            .unwrap_or_default(),
        amount,
        cost: cost(&section)?,
        when: when(&section)?,
        places,
    })
}

fn amount(section: &Section<'_>) -> Result<(Amount, super::Places), Mistake> {
    const RATE: &str = "a table such as { tokens = 100, per = \"60s\", burst = 150 }";
    const WINDOW: &str = "a table such as { tokens = 50, per = \"30d\", anchor = \"0s\" }";
    match (section.table("rate", RATE)?, section.table("window", WINDOW)?) {
        (Some(rate), None) => {
            rate.only(&["tokens", "per", "burst"])?;
            let tokens = required(&rate, "tokens", RATE, rate.whole("tokens", 0, u64::MAX)?)?;
            let per = required(&rate, "per", RATE, rate.duration("per")?)?;
            let burst = rate.whole("burst", 0, u64::MAX)?.unwrap_or(tokens);
            Ok((Amount::Rate { tokens, per, burst }, rate.places()))
        }
        (None, Some(window)) => {
            window.only(&["tokens", "per", "anchor"])?;
            let tokens = required(&window, "tokens", WINDOW, window.whole("tokens", 0, u64::MAX)?)?;
            let per = required(&window, "per", WINDOW, window.duration("per")?)?;
            let anchor = window.duration("anchor")?.unwrap_or(0);
            Ok((Amount::Window { tokens, per, anchor }, window.places()))
        }
        (Some(_), Some(_)) => Err(section.mistake("has both `rate` and `window`", "one of them")),
        (None, None) => Err(section.mistake(
            "has neither `rate` nor `window`",
            "rate = { tokens = 100, per = \"60s\" } or window = { tokens = 50, per = \"30d\" }",
        )),
    }
}

fn required<T>(section: &Section<'_>, key: &str, accepted: &str, value: Option<T>) -> Result<T, Mistake> {
    value.ok_or_else(|| section.missing(key, accepted))
}

fn cost(section: &Section<'_>) -> Result<Cost, Mistake> {
    let Some(value) = section.get("cost") else { return Ok(Cost::Constant(1)) };
    match value.get_ref() {
        DeValue::String(field) if !field.is_empty() => Ok(Cost::Field(field.to_string())),
        other => whole(other).map(Cost::Constant).ok_or_else(|| section.refused("cost", value, COST)),
    }
}

fn when(section: &Section<'_>) -> Result<Vec<(String, String)>, Mistake> {
    let Some(table) = section.table("when", WHEN)? else { return Ok(Vec::new()) };
    let text = |(field, value): (&str, &toml::Spanned<DeValue<'_>>)| {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            // The text as written: 1.50 is compared as 1.50.
            DeValue::Float(float) => float.as_str().to_owned(),
            DeValue::Integer(integer) if integer.radix() == 10 => {
                integer.as_str().trim_start_matches('+').to_owned()
            }
            _ => return Err(table.refused(field, value, "a text, a decimal number, true or false")),
        };
        Ok((field.to_owned(), text))
    };
    table.entries().into_iter().map(text).collect()
}

/// The value of a key that was just read, for a message about it.
fn present<'a>(section: &Section<'a>, key: &str) -> &'a toml::Spanned<DeValue<'a>> {
    section.get(key).expect("a key whose value was read is in its table")
}
