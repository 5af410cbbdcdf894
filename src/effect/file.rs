//! Policy files: the rules of effects as TOML.
//!
//! ```toml
//! [[effect]]
//! tool = "Search"
//! rate = "100/min"          # or { limit = 100, per = "60s", burst = 150 }
//! on_exhausted = "defer"    # block if left out
//! ttl = "30s"
//! hours = { from = "09:00", to = "17:30", zone = "Europe/Berlin", days = ["mon", "tue"], outside = "defer" }
//!
//! [[effect]]
//! tool = "Email"
//! max = "50/day"            # or { limit = 50, per = "1d", anchor = "6h" }
//!
//! [[effect.quota]]          # more quotas of the same effect
//! rate = "5/min"
//! burst = 10
//! on_exhausted = "shed"     # that of the effect if left out
//! ```
//!
//! Nothing unknown is ever skipped: a key that means nothing is an error, and says what could have been meant.

pub use crate::file::{Found, PolicyFileError};

use super::{AllowedHours, Day, EffectPolicy, EffectRule, HoursError, OnExhausted, QuotaRule};
use crate::duration;
use crate::file::section::{File, Section};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

const ON_EXHAUSTED: &str = "\"block\", \"defer\" or \"shed\"";
const RATE: &str = "a limit and a period, such as \"100/min\" or \"100/90s\", or a table such as { limit = 100, per = \"60s\", burst = 150 }";
const MAX: &str = "a limit and a period, such as \"50/day\" or \"50/90s\", or a table such as { limit = 50, per = \"1d\", anchor = \"6h\" }";
const HOURS: &str = "a table such as { from = \"09:00\", to = \"17:30\", zone = \"Europe/Berlin\" }";
const EITHER: &str = "one of rate = \"100/min\" and max = \"50/day\"";
/// The most buckets that a table of the library has.
const MOST_BUCKETS: u64 = 1 << 24;
/// The periods that have a name, in nanoseconds.
const PERIODS: [(&str, u64); 7] = [
    ("sec", 1_000_000_000),
    ("second", 1_000_000_000),
    ("min", 60_000_000_000),
    ("minute", 60_000_000_000),
    ("hour", 3_600_000_000_000),
    ("day", 86_400_000_000_000),
    ("week", 604_800_000_000_000),
];

impl EffectPolicy {
    /// The policy that a TOML text states, in which there is nothing but `[[effect]]` tables: see [`file`](self). A text that
    /// states budgets too is read with [`from_toml_beside`](Self::from_toml_beside).
    ///
    /// # Errors
    /// The first mistake: its line, its place, what was found, what is accepted.
    ///
    /// ```
    /// use tollgate::effect::EffectPolicy;
    ///
    /// let policy = EffectPolicy::from_toml("[[effect]]\ntool = \"Email\"\nmax = \"50/day\"\n")?;
    /// assert_eq!(policy.rules()[0].quotas()[0].definition(), "max 50 per 86400000000000ns from 0ns");
    /// # Ok::<(), tollgate::effect::PolicyFileError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, PolicyFileError> {
        Self::from_toml_beside(text, &[])
    }

    /// The same from a text in which there may be other keys too, at the top level: those named in `others`, which the
    /// caller reads. With `&["spend"]`, budgets may stand beside the effects:
    /// [`SpendPolicy::from_toml_beside`](crate::spend::SpendPolicy::from_toml_beside) reads them.
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml).
    ///
    /// ```
    /// use tollgate::effect::EffectPolicy;
    ///
    /// let text = "team = \"blue\"\n[[effect]]\ntool = \"Email\"\nmax = \"50/day\"\n";
    /// assert!(EffectPolicy::from_toml(text).is_err());
    /// assert_eq!(EffectPolicy::from_toml_beside(text, &["team"])?.rules().len(), 1);
    /// # Ok::<(), tollgate::effect::PolicyFileError>(())
    /// ```
    pub fn from_toml_beside(text: &str, others: &[&str]) -> Result<Self, PolicyFileError> {
        let file = File { text };
        let root = file.parse()?;
        let root = Section::new(file, root.get_ref(), 0..0, "");
        let known: Vec<&str> = others.iter().copied().chain(["effect"]).collect();
        root.only(&known)?;
        let mut lines = BTreeMap::new();
        let mut policy = Self::new();
        for mut section in root.tables("effect")? {
            let tool = tool(&section)?;
            section.rename(format!("effect \"{tool}\": "));
            let line = section.line("tool");
            if let Some(first) = lines.insert(tool.to_owned(), line) {
                let found = Found::Value(format!("\"{tool}\""));
                let accepted = format!("a tool that has no rules yet (line {first} has this one)");
                return Err(section.found("tool", found, accepted));
            }
            policy = policy.effect(effect(&section, tool)?);
        }
        Ok(policy)
    }
}

fn tool<'a>(section: &Section<'a>) -> Result<&'a str, PolicyFileError> {
    const TOOL: &str = "the name of a tool";
    match section.text("tool", TOOL)? {
        None => Err(section.missing("tool", TOOL)),
        Some("") => Err(section.found("tool", Found::Value("\"\"".into()), TOOL)),
        Some(tool) => Ok(tool),
    }
}

fn effect(section: &Section<'_>, tool: &str) -> Result<EffectRule, PolicyFileError> {
    let known = ["tool", "rate", "max", "burst", "on_exhausted", "ttl", "bucket_cap", "hours", "quota"];
    section.only(&known)?;
    let mut rule = EffectRule::new(tool);
    let exhausted = on_exhausted(section, "on_exhausted")?;
    let mut definitions = BTreeSet::new();
    let mut add = |rule: EffectRule, section: &Section<'_>, quota: QuotaRule| {
        let definition = quota.definition();
        if !definitions.insert(definition.clone()) {
            let words = format!("has the quota \"{definition}\" a second time");
            return Err(section.mistake(words, "quotas that differ"));
        }
        Ok(rule.quota(quota))
    };
    if let Some(quota) = quota(section)? {
        rule = add(rule, section, quota.on_exhausted(exhausted.unwrap_or_default()))?;
    }
    for more in section.tables("quota")? {
        more.only(&["rate", "max", "burst", "on_exhausted"])?;
        let Some(quota) = quota(&more)? else {
            return Err(more.mistake("has neither `rate` nor `max`", EITHER));
        };
        let own = on_exhausted(&more, "on_exhausted")?;
        rule = add(rule, &more, quota.on_exhausted(own.or(exhausted).unwrap_or_default()))?;
    }
    if rule.quotas().is_empty() {
        return Err(section.mistake("has no quota", EITHER));
    }
    if let Some(ttl) = section.duration("ttl")? {
        if ttl == 0 {
            return Err(section.wrong("ttl", "a duration of at least 1ns"));
        }
        rule = rule.ttl(Duration::from_nanos(ttl));
    }
    if let Some(cap) = section.whole("bucket_cap", 1, MOST_BUCKETS)? {
        rule = rule.bucket_cap(cap as usize); // at most 2^24
    }
    match hours(section)? {
        Some(hours) => Ok(rule.hours(hours)),
        None => Ok(rule),
    }
}

fn on_exhausted(section: &Section<'_>, key: &str) -> Result<Option<OnExhausted>, PolicyFileError> {
    let Some(word) = section.text(key, ON_EXHAUSTED)? else { return Ok(None) };
    word.parse().map(Some).map_err(|_| section.wrong(key, ON_EXHAUSTED))
}

/// The quota that a table states with `rate` or `max`, if it has one of them.
fn quota(section: &Section<'_>) -> Result<Option<QuotaRule>, PolicyFileError> {
    let (key, quota) = match (section.get("rate"), section.get("max")) {
        (Some(_), Some(_)) => return Err(section.mistake("has both `rate` and `max`", EITHER)),
        (Some(value), None) => ("rate", rate(section, value)?),
        (None, Some(value)) => ("max", max(section, value)?),
        (None, None) => {
            return match section.get("burst") {
                Some(_) => {
                    Err(section.mistake("has a `burst` without a `rate`", "burst beside rate = \"100/min\""))
                }
                None => Ok(None),
            };
        }
    };
    match quota.arithmetic(0) {
        Ok(_) => Ok(Some(quota)),
        Err(error) => {
            let accepted = error.accepted.clone();
            Err(section.found(key, Found::Quota(error), accepted))
        }
    }
}

fn rate(section: &Section<'_>, value: &Spanned<DeValue<'_>>) -> Result<QuotaRule, PolicyFileError> {
    let burst = section.whole("burst", 1, u64::MAX)?;
    if let DeValue::String(text) = value.get_ref() {
        let (limit, per) = limit_and_period(section, "rate", text, RATE)?;
        return Ok(QuotaRule::rate(limit, per).burst(burst.unwrap_or(limit)));
    }
    let Some(table) = section.table("rate", RATE)? else { return Err(section.missing("rate", RATE)) };
    table.only(&["limit", "per", "burst"])?;
    let (limit, per) = limit_and_per(&table, RATE)?;
    let within = table.whole("burst", 1, u64::MAX)?;
    if burst.is_some() && within.is_some() {
        return Err(section.mistake("has two `burst`s", "one, beside the rate or within its table"));
    }
    Ok(QuotaRule::rate(limit, per).burst(burst.or(within).unwrap_or(limit)))
}

fn max(section: &Section<'_>, value: &Spanned<DeValue<'_>>) -> Result<QuotaRule, PolicyFileError> {
    if section.get("burst").is_some() {
        return Err(
            section.mistake("has a `burst` beside a `max`", "a burst beside a rate: a max is one hard cap")
        );
    }
    if let DeValue::String(text) = value.get_ref() {
        let (limit, per) = limit_and_period(section, "max", text, MAX)?;
        return Ok(QuotaRule::max(limit, per));
    }
    let Some(table) = section.table("max", MAX)? else { return Err(section.missing("max", MAX)) };
    table.only(&["limit", "per", "anchor"])?;
    let (limit, per) = limit_and_per(&table, MAX)?;
    let anchor = table.duration("anchor")?.unwrap_or(0);
    Ok(QuotaRule::max(limit, per).anchored_at(Duration::from_nanos(anchor)))
}

/// The two of `{ limit, per }`.
fn limit_and_per(table: &Section<'_>, accepted: &str) -> Result<(u64, Duration), PolicyFileError> {
    let Some(limit) = table.whole("limit", 1, u64::MAX)? else {
        return Err(table.missing("limit", accepted));
    };
    let Some(per) = table.duration("per")? else { return Err(table.missing("per", accepted)) };
    if per == 0 {
        return Err(table.wrong("per", "a duration of at least 1ns"));
    }
    Ok((limit, Duration::from_nanos(per)))
}

/// The two of `"100/min"`.
fn limit_and_period(
    section: &Section<'_>,
    key: &str,
    text: &str,
    accepted: &str,
) -> Result<(u64, Duration), PolicyFileError> {
    let Some((limit, period)) = text.split_once('/') else { return Err(section.wrong(key, accepted)) };
    let (limit, period) = (limit.trim(), period.trim());
    let digits = !limit.is_empty() && limit.bytes().all(|byte| byte.is_ascii_digit());
    let limit = limit.parse::<u64>().ok().filter(|&limit| digits && limit > 0).ok_or_else(|| {
        section
            .wrong(key, format_args!("a limit that is a whole number, 1 to {}, before the slash", u64::MAX))
    })?;
    let named = PERIODS.iter().find(|(name, _)| *name == period).map(|&(_, nanos)| nanos);
    let period = named.or_else(|| duration::parse(period)).filter(|&nanos| nanos > 0).ok_or_else(|| {
        let names = PERIODS.map(|(name, _)| name).join(", ");
        section.wrong(key, format_args!("a period after the slash: {names}, or a duration such as \"90s\""))
    })?;
    Ok((limit, Duration::from_nanos(period)))
}

fn hours(section: &Section<'_>) -> Result<Option<AllowedHours>, PolicyFileError> {
    let Some(table) = section.table("hours", HOURS)? else { return Ok(None) };
    table.only(&["from", "to", "zone", "days", "outside"])?;
    let text = |key: &str, accepted: &str| match table.text(key, accepted)? {
        Some(text) => Ok(text),
        None => Err(table.missing(key, accepted)),
    };
    const TIME: &str = "a time of day such as \"09:00\"";
    const DAYS: &str = "a list of mon, tue, wed, thu, fri, sat, sun";
    let (from, to) = (text("from", TIME)?, text("to", TIME)?);
    let zone = text("zone", "a name of the IANA database such as \"Europe/Berlin\", or \"UTC\"")?;
    let wrong = |error: HoursError| {
        let key = match &error {
            HoursError::Time(time) if time == from => "from",
            HoursError::Time(_) => "to",
            HoursError::Zone(_) => "zone",
            _ => "days",
        };
        let text = error.to_string();
        let accepted = text.split_once("accepted: ").map_or("", |(_, accepted)| accepted).to_owned();
        table.found(key, Found::Hours(error), accepted)
    };
    let mut hours = AllowedHours::new(from, to, zone).map_err(&wrong)?;
    if let Some(days) = table.texts("days", DAYS)? {
        let days: Result<Vec<Day>, HoursError> = days.iter().map(|day| day.parse()).collect();
        hours = hours.on(days.map_err(&wrong)?);
    }
    if hours.never_opens() {
        return Err(wrong(HoursError::NoDay));
    }
    match on_exhausted(&table, "outside")? {
        Some(outside) => Ok(Some(hours.outside(outside))),
        None => Ok(Some(hours)),
    }
}

#[cfg(test)]
mod tests;
