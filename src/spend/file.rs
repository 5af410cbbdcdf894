//! Policy files: budgets as TOML.
//!
//! ```toml
//! [spend]
//! currency = "USD"              # the defaults are those of SpendPolicy::new()
//! decimals = 6
//! ttl = "10m"
//! on_expiry = "spent"           # or "released"
//! account_cap = 65536
//! hold_cap = 65536
//! grant_cap = 1048576
//! answers_for = "1d"
//!
//! [[spend.scope]]
//! name = "user"
//! shared = false                # true: one account for everybody
//!
//! [[spend.scope.limit]]         # exactly one of cost, tokens, calls, seconds, runs
//! cost = "3.00"                 # in the currency, as text; a whole number counts units
//! window = "rolling 1h"         # "lifetime" if left out
//!
//! [[spend.scope.limit]]
//! tokens = 2000000
//! window = "fixed 1d"           # or all in one text: "fixed 1d from 2026-01-01T00:00:00Z"
//! anchor = "2026-01-01T00:00:00Z"
//!
//! [[spend.scope.limit]]
//! cost = "15.00"
//! window = "calendar day"       # or week, month; in one text: "calendar day in Europe/Berlin"
//! zone = "Europe/Berlin"
//!
//! [spend.tiers]
//! reduced = 0.7                 # read as written, to six decimal places
//! blocked = 1
//! dimensions = ["cost", "tokens"]
//!
//! [spend.reduced]               # with what callers in the reduced tier are to make do
//! max_steps = 5
//! subagents = false
//! model = "small"
//! banner = "Nearly used up: less until {reset}."
//!
//! [[spend.family]]
//! root = "grant-root"
//! cost = "10.00"
//! calls = 100
//! ceiling = "0.10"
//!
//! [[spend.grant]]
//! id = "child"
//! parent = "grant-root"
//! ceiling = "0.05"
//! ```
//!
//! Nothing unknown is ever skipped: a key that means nothing is an error, and says what could have been meant.

use super::amount::MOST;
use super::policy::{Fault, Part};
use super::unit::MOST_DECIMALS;
use super::window::parse_time;
use super::{
    DIMENSIONS, Dimension, Family, Grant, Limit, MoneyUnit, OnExpiry, ReducedProfile, Scope, SpendPolicy,
    Tiers, Window, WindowError,
};
use crate::duration;
use crate::file::section::{File, Section, whole};
use crate::file::{Found, PolicyFileError};
use std::time::Duration;
use toml::de::DeValue;

const ON_EXPIRY: &str = "\"spent\" or \"released\"";
const ANCHOR: &str = "a time from 1970 on as text, in whole milliseconds, such as \"2026-01-01T00:00:00Z\": where one of the lengths begins";
const ZONE: &str = "a name of the IANA database such as \"Europe/Berlin\", or \"UTC\"";
const AMOUNT: &str = "exactly one of cost, tokens, calls, seconds, runs";
const SHARE: &str = "a decimal number with at most six decimal places, such as 0.7";
const COUNTED: &str = "a list of cost, tokens, calls, seconds, runs, each once";

impl SpendPolicy {
    /// The policy that a TOML text states, in which there is nothing but a `[spend]` table: see [`file`](super::file). It
    /// makes sense: [`validate`](Self::validate) accepts it.
    ///
    /// # Errors
    /// No `[spend]` table, or the first mistake: its line, its place, what was found, what is accepted.
    ///
    /// ```
    /// use tollgate::spend::SpendPolicy;
    ///
    /// let text = r#"
    /// [spend]
    /// [[spend.scope]]
    /// name = "user"
    /// [[spend.scope.limit]]
    /// cost = "3.00"
    /// window = "rolling 1h"
    /// "#;
    /// let policy = SpendPolicy::from_toml(text)?;
    /// let limit = &policy.scopes()[0].limits()[0];
    /// assert_eq!((limit.amount(), limit.id("user").as_str()), (3_000_000, "user/cost/rolling 1h"));
    /// # Ok::<(), tollgate::spend::PolicyFileError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, PolicyFileError> {
        let nothing = || File { text }.mistake(&(0..0), "spend", Found::Missing, "a table headed [spend]");
        Self::from_toml_beside(text, &[])?.ok_or_else(nothing)
    }

    /// The same from a text in which there may be other keys too, at the top level: those named in `others`, which the
    /// caller reads. `None` if there is no `[spend]` table.
    ///
    /// # Errors
    /// The first mistake, as [`from_toml`](Self::from_toml).
    ///
    /// ```
    /// use tollgate::{effect::EffectPolicy, spend::SpendPolicy};
    ///
    /// let text = r#"
    /// [[effect]]
    /// tool = "Email"
    /// max = "50/day"
    ///
    /// [[spend.scope]]
    /// name = "all"
    /// shared = true
    /// "#;
    /// let effects = EffectPolicy::from_toml_beside(text, &["spend"])?;
    /// let budgets = SpendPolicy::from_toml_beside(text, &["effect"])?.expect("a scope is stated");
    /// assert_eq!((effects.rules().len(), budgets.scopes().len()), (1, 1));
    /// # Ok::<(), tollgate::spend::PolicyFileError>(())
    /// ```
    pub fn from_toml_beside(text: &str, others: &[&str]) -> Result<Option<Self>, PolicyFileError> {
        let file = File { text };
        let root = file.parse()?;
        let root = Section::new(file, root.get_ref(), 0..0, "");
        let known: Vec<&str> = others.iter().copied().chain(["spend"]).collect();
        root.only(&known)?;
        let Some(section) = root.table("spend", "a table headed [spend]")? else { return Ok(None) };
        let read = Read::new(section)?;
        match read.policy.check() {
            Ok(()) => Ok(Some(read.policy)),
            Err(fault) => Err(read.mistake(fault)),
        }
    }
}

/// A policy, and where its parts are in the file.
struct Read<'a> {
    policy: SpendPolicy,
    spend: Section<'a>,
    /// Each with its limits.
    scopes: Vec<(Section<'a>, Vec<Section<'a>>)>,
    families: Vec<Section<'a>>,
    grants: Vec<Section<'a>>,
    tiers: Option<Section<'a>>,
}

impl<'a> Read<'a> {
    fn new(spend: Section<'a>) -> Result<Self, PolicyFileError> {
        spend.only(&[
            "currency",
            "decimals",
            "ttl",
            "on_expiry",
            "account_cap",
            "hold_cap",
            "grant_cap",
            "answers_for",
            "scope",
            "tiers",
            "reduced",
            "family",
            "grant",
        ])?;
        let mut read = Read {
            policy: settings(&spend)?,
            scopes: Vec::new(),
            families: spend.tables("family")?,
            grants: spend.tables("grant")?,
            tiers: spend.table("tiers", "a table headed [spend.tiers]")?,
            spend,
        };
        for mut section in read.spend.tables("scope")? {
            let (scope, limits) = scope(&mut section, read.policy.money())?;
            read.policy.scopes.push(scope);
            read.scopes.push((section, limits));
        }
        for section in &mut read.families {
            let family = family(section, &read.policy.unit)?;
            read.policy.families.push(family);
        }
        for section in &mut read.grants {
            let grant = grant(section, &read.policy.unit)?;
            read.policy.grants.push(grant);
        }
        if let Some(section) = &read.tiers {
            read.policy.tiers = tiers(section)?;
        }
        if let Some(section) = read.spend.table("reduced", "a table headed [spend.reduced]")? {
            read.policy.reduced = reduced(&section)?;
        }
        Ok(read)
    }

    fn mistake(&self, Fault { part, key, error }: Fault) -> PolicyFileError {
        let section = match part {
            Part::Policy => Some(&self.spend),
            Part::Scope(scope) => self.scopes.get(scope).map(|(section, _)| section),
            Part::Limit(scope, limit) => self.scopes.get(scope).and_then(|(_, limits)| limits.get(limit)),
            Part::Family(family) => self.families.get(family),
            Part::Grant(grant) => self.grants.get(grant),
            Part::Tiers => self.tiers.as_ref(),
        };
        let section = section.unwrap_or(&self.spend);
        let key = match (part, section.get(key)) {
            // Of the two, one is the default's.
            (Part::Tiers, None) => "blocked",
            _ => key,
        };
        let accepted = accepted(&error);
        match key {
            "" => section.found_here(Found::Spend(Box::new(error)), accepted),
            key => section.found(key, Found::Spend(Box::new(error)), accepted),
        }
    }
}

/// What an error that says so itself accepts.
fn accepted(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    text.rsplit_once("accepted: ").map_or("", |(_, accepted)| accepted).to_owned()
}

/// What is in `[spend]` itself.
fn settings(spend: &Section<'_>) -> Result<SpendPolicy, PolicyFileError> {
    let mut policy = SpendPolicy::new();
    let unit = policy.money();
    let currency = spend.text("currency", "a currency of capital letters, such as \"USD\"")?;
    let currency = currency.unwrap_or(unit.currency()).to_owned();
    let decimals = spend.whole("decimals", 0, u64::from(MOST_DECIMALS))?;
    let decimals = decimals.and_then(|decimals| u8::try_from(decimals).ok()).unwrap_or(unit.decimals());
    policy = policy.unit(currency, decimals);
    if let Some(ttl) = time(spend, "ttl")? {
        policy = policy.ttl(ttl);
    }
    if let Some(word) = spend.text("on_expiry", ON_EXPIRY)? {
        let on_expiry = OnExpiry::named(word).ok_or_else(|| spend.wrong("on_expiry", ON_EXPIRY))?;
        policy = policy.on_expiry(on_expiry);
    }
    if let Some(cap) = cap(spend, "account_cap")? {
        policy = policy.account_cap(cap);
    }
    if let Some(cap) = cap(spend, "hold_cap")? {
        policy = policy.hold_cap(cap);
    }
    if let Some(cap) = cap(spend, "grant_cap")? {
        policy = policy.grant_cap(cap);
    }
    if let Some(time) = time(spend, "answers_for")? {
        policy = policy.answers_for(time);
    }
    Ok(policy)
}

/// A duration that the policy, which counts milliseconds, has exactly.
fn time(section: &Section<'_>, key: &str) -> Result<Option<Duration>, PolicyFileError> {
    let Some(nanos) = section.duration(key)? else { return Ok(None) };
    match nanos % 1_000_000 {
        0 => Ok(Some(Duration::from_nanos(nanos))),
        _ => Err(section.wrong(key, "a duration in whole milliseconds, such as \"10m\"")),
    }
}

fn cap(section: &Section<'_>, key: &str) -> Result<Option<usize>, PolicyFileError> {
    let cap = section.whole(key, 1, usize::MAX as u64)?; // no pointer is wider than 64 bits
    Ok(cap.map(|cap| usize::try_from(cap).unwrap_or(usize::MAX)))
}

/// A text that must be there.
fn needed<'a>(section: &Section<'a>, key: &str, accepted: &str) -> Result<&'a str, PolicyFileError> {
    section.text(key, accepted)?.ok_or_else(|| section.missing(key, accepted))
}

/// An amount of money: text in the currency, or a whole number of units.
fn money(section: &Section<'_>, key: &str, unit: &MoneyUnit) -> Result<Option<u64>, PolicyFileError> {
    let Some(value) = section.get(key) else { return Ok(None) };
    match value.get_ref() {
        DeValue::String(text) => unit.parse(text).map(Some).map_err(|error| {
            let accepted = accepted(&error);
            section.found(key, Found::Money(error), accepted)
        }),
        DeValue::Float(float) => {
            let text = float.as_str();
            let text = if unit.parse(text).is_ok() { text } else { "0.50" };
            Err(section.refused(
                key,
                value,
                format_args!(
                    "the amount as text, {key} = \"{text}\": a number with a point is a binary fraction, which most amounts are not"
                ),
            ))
        }
        other => whole(other).filter(|&amount| amount <= MOST).map(Some).ok_or_else(|| {
            let (currency, decimals) = (unit.currency(), unit.decimals());
            section.refused(
                key,
                value,
                format_args!(
                    "an amount of {currency} as text, such as \"0.50\", or a whole number of units of which each is {currency} to {decimals} decimal places, 0 to {MOST}"
                ),
            )
        }),
    }
}

fn scope<'a>(
    section: &mut Section<'a>,
    unit: &MoneyUnit,
) -> Result<(Scope, Vec<Section<'a>>), PolicyFileError> {
    const NAME: &str = "the name of a scope, such as \"user\"";
    section.only(&["name", "shared", "limit"])?;
    let name = needed(section, "name", NAME)?;
    section.rename(format!("spend.scope {name:?}: "));
    let mut scope = match section.truth("shared")? {
        Some(true) => Scope::shared(name),
        _ => Scope::keyed(name),
    };
    let limits = section.tables("limit")?;
    for section in &limits {
        scope = scope.limit(limit(section, unit)?);
    }
    Ok((scope, limits))
}

fn limit(section: &Section<'_>, unit: &MoneyUnit) -> Result<Limit, PolicyFileError> {
    section.only(&["cost", "tokens", "calls", "seconds", "runs", "window", "anchor", "zone"])?;
    let stated: Vec<_> =
        DIMENSIONS.into_iter().filter(|dimension| section.get(dimension.name()).is_some()).collect();
    let dimension = match stated[..] {
        [dimension] => dimension,
        [] => return Err(section.mistake("has no amount", AMOUNT)),
        [one, other, ..] => return Err(section.mistake(format!("has both `{one}` and `{other}`"), AMOUNT)),
    };
    let key = dimension.name();
    let amount = match dimension {
        Dimension::Cost => money(section, key, unit)?,
        _ => section.whole(key, 0, MOST)?,
    };
    let amount = amount.ok_or_else(|| section.missing(key, AMOUNT))?;
    Ok(Limit::new(dimension, amount, window(section)?))
}

/// The window of a limit: one text, or with the anchor or zone in a key of its own.
fn window(section: &Section<'_>) -> Result<Window, PolicyFileError> {
    let text = section.text("window", super::window::ACCEPTED)?.unwrap_or("lifetime");
    let refused = |key: &str, error: WindowError| {
        let accepted = accepted(&error);
        section.found(key, Found::Window(Box::new(error)), accepted)
    };
    let meaningless = |key: &str| match section.get(key) {
        Some(_) => {
            let words = format!("means nothing beside the window {text:?}");
            let accepted = match key {
                "anchor" => "an anchor beside window = \"fixed 1d\"",
                _ => "a zone beside window = \"calendar day\" (or week, month)",
            };
            Err(section.found(key, Found::Words(words), accepted))
        }
        None => Ok(()),
    };
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        ["fixed", word] => {
            meaningless("zone")?;
            let length = duration::parse(word).map(Duration::from_nanos);
            let length = length.ok_or_else(|| refused("window", WindowError::Text(text.to_owned())))?;
            let anchor = needed(section, "anchor", ANCHOR)?;
            let anchor = parse_time(anchor).ok_or_else(|| section.wrong("anchor", ANCHOR))?;
            Window::fixed(length, anchor).map_err(|error| refused("window", error))
        }
        ["calendar", period @ ("day" | "week" | "month")] => {
            meaningless("anchor")?;
            let zone = needed(section, "zone", ZONE)?;
            let window = match period {
                "day" => Window::day(zone),
                "week" => Window::week(zone),
                _ => Window::month(zone),
            };
            window.map_err(|error| refused("zone", error))
        }
        _ => {
            let window = text.parse().map_err(|error| refused("window", error))?;
            meaningless("anchor")?;
            meaningless("zone")?;
            Ok(window)
        }
    }
}

fn family(section: &mut Section<'_>, unit: &MoneyUnit) -> Result<Family, PolicyFileError> {
    section.only(&["root", "cost", "calls", "ceiling"])?;
    let root = needed(section, "root", "the root grant of a family, such as \"grant-root\"")?;
    section.rename(format!("spend.family {root:?}: "));
    Ok(Family {
        cost: money(section, "cost", unit)?,
        calls: section.whole("calls", 0, MOST)?,
        ceiling: money(section, "ceiling", unit)?,
        ..Family::new(root)
    })
}

fn grant(section: &mut Section<'_>, unit: &MoneyUnit) -> Result<Grant, PolicyFileError> {
    section.only(&["id", "parent", "ceiling"])?;
    let id = needed(section, "id", "the id of a grant, such as \"child\"")?;
    section.rename(format!("spend.grant {id:?}: "));
    let parent = needed(section, "parent", "the root of a family, or the id of another grant")?;
    Ok(Grant { ceiling: money(section, "ceiling", unit)?, ..Grant::new(id, parent) })
}

fn tiers(section: &Section<'_>) -> Result<Tiers, PolicyFileError> {
    section.only(&["reduced", "blocked", "dimensions"])?;
    let mut tiers = Tiers::new();
    if let Some(share) = millionths(section, "reduced")? {
        tiers = tiers.reduced_at(share);
    }
    if let Some(share) = millionths(section, "blocked")? {
        tiers = tiers.blocked_at(share);
    }
    if let Some(value) = section.get("dimensions") {
        let items = value.get_ref().as_array().ok_or_else(|| section.wrong("dimensions", COUNTED))?;
        let mut counted = Vec::with_capacity(items.len());
        for item in items {
            match item.get_ref().as_str().and_then(Dimension::named) {
                Some(dimension) if !counted.contains(&dimension) => counted.push(dimension),
                _ => return Err(section.refused("dimensions", item, COUNTED)),
            }
        }
        tiers = tiers.counting(counted);
    }
    Ok(tiers)
}

/// A share, from its digits: no binary fraction comes between.
fn millionths(section: &Section<'_>, key: &str) -> Result<Option<u32>, PolicyFileError> {
    const PLACES: u8 = 6;
    let Some(value) = section.get(key) else { return Ok(None) };
    let text = match value.get_ref() {
        DeValue::Float(float) => float.as_str().trim_start_matches('+').to_owned(),
        other => whole(other).map(|number| number.to_string()).unwrap_or_default(),
    };
    let places = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let millionths = MoneyUnit::new("", PLACES).parse(&text).ok().and_then(|share| u32::try_from(share).ok());
    let exact = millionths.filter(|_| places <= usize::from(PLACES));
    exact.map(Some).ok_or_else(|| section.refused(key, value, SHARE))
}

fn reduced(section: &Section<'_>) -> Result<ReducedProfile, PolicyFileError> {
    section.only(&["max_steps", "subagents", "model", "banner"])?;
    let text = |key: &str, accepted: &str| Ok(section.text(key, accepted)?.map(str::to_owned));
    Ok(ReducedProfile {
        max_steps: section.whole("max_steps", 0, u64::MAX)?,
        subagents: section.truth("subagents")?,
        model: text("model", "the name of a model as text")?,
        banner: text("banner", "a text for the user, in which {reset} stands for a time")?,
    })
}

#[cfg(test)]
mod tests;
