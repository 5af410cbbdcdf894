//! A plain model of effects that writes journals: one thread, one map, no engine. It computes marks itself, and so can be
//! told to forge.
#![allow(dead_code)] // each test file uses its part

pub mod verdicts;

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use tollgate::effect::{AllowedHours, EffectPolicy};

pub const SECOND: u64 = 1_000_000_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;
/// Monday, 2025-06-23, 10:00 UTC.
pub const EPOCH: u64 = 1_750_672_800 * SECOND;

/// Lines without their number and hash.
#[derive(Debug, Clone)]
pub struct Journal {
    pub bodies: Vec<String>,
}

impl Journal {
    /// The first line that has `part` becomes one with `new` in its place.
    #[track_caller]
    pub fn with(&self, part: &str, new: &str) -> Self {
        let mut forged = self.clone();
        let body = forged.bodies.iter_mut().find(|body| body.contains(part));
        let body = body.unwrap_or_else(|| panic!("no {part} in {self:#?}"));
        *body = body.replacen(part, new, 1);
        forged
    }

    /// Line number `line` (counted from 0) with `new` for `part`.
    #[track_caller]
    pub fn line_with(&self, line: usize, part: &str, new: &str) -> Self {
        let mut forged = self.clone();
        assert!(forged.bodies[line].contains(part), "no {part} in {}", forged.bodies[line]);
        forged.bodies[line] = forged.bodies[line].replacen(part, new, 1);
        forged
    }

    pub fn without(&self, line: usize) -> Self {
        let mut forged = self.clone();
        forged.bodies.remove(line);
        forged
    }

    pub fn inserted(&self, line: usize, body: impl Into<String>) -> Self {
        let mut forged = self.clone();
        forged.bodies.insert(line, body.into());
        forged
    }

    pub fn swapped(&self, a: usize, b: usize) -> Self {
        let mut forged = self.clone();
        forged.bodies.swap(a, b);
        forged
    }

    /// Numbered, chained and not sealed.
    pub fn open(&self) -> String {
        self.chained().0
    }

    /// Numbered, chained and sealed.
    pub fn sealed(&self) -> String {
        let (mut text, last) = self.chained();
        let count = self.bodies.len();
        let body = format!("\"kind\":\"seal\",\"count\":{count},\"last\":\"{}\"", hex(&last));
        push_line(&mut text, &last, count, &body);
        text
    }

    fn chained(&self) -> (String, [u8; 32]) {
        let (mut text, mut last) = (String::new(), [0; 32]);
        for (seq, body) in self.bodies.iter().enumerate() {
            last = push_line(&mut text, &last, seq, body);
        }
        (text, last)
    }
}

/// Appends a line of the chain.
pub fn push_line(text: &mut String, last: &[u8; 32], seq: usize, body: &str) -> [u8; 32] {
    let content = format!("{{\"seq\":{seq},{body}");
    let hash: [u8; 32] = Sha256::digest([&last[..], content.as_bytes()].concat()).into();
    let _ = writeln!(text, "{content},\"hash\":\"{}\"}}", hex(&hash));
    hash
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A quota.
#[derive(Debug, Clone)]
pub struct Quota {
    pub definition: String,
    pub on: &'static str,
    pub step: u128,
    pub phase: u128,
    pub units_per_step: u128,
    pub units_per_token: u128,
    pub capacity: u128,
    pub floor: u128,
}

impl Quota {
    /// In the finest step of `step` nanoseconds.
    pub fn rate(limit: u64, period: u64, burst: u64, step: u64, on: &'static str) -> Self {
        let (up, down) = (u128::from(limit) * u128::from(step), u128::from(period));
        let divisor = gcd(up, down);
        Self {
            definition: format!("rate {limit} per {period}ns burst {burst}"),
            on,
            step: step.into(),
            phase: 0,
            units_per_step: up / divisor,
            units_per_token: down / divisor,
            capacity: u128::from(burst) * (down / divisor),
            floor: 0,
        }
    }

    /// With the grid through midnight UTC plus `anchor`.
    pub fn max(limit: u64, period: u64, anchor: u64, on: &'static str) -> Self {
        let since = EPOCH % period + period - anchor % period;
        Self {
            definition: format!("max {limit} per {period}ns from {anchor}ns"),
            on,
            step: period.into(),
            phase: (since % period).into(),
            units_per_step: limit.into(),
            units_per_token: 1,
            capacity: limit.into(),
            floor: 0,
        }
    }

    pub fn empty(mut self, t: u64) -> Self {
        self.floor = self.accrued(t) + self.capacity;
        self
    }

    fn accrued(&self, t: u64) -> u128 {
        (u128::from(t) + self.phase) / self.step * self.units_per_step
    }

    fn most_refunded(&self) -> u128 {
        let bits = 32.max(128 - self.capacity.leading_zeros() + 16);
        (1 << bits) - 1
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// An effect.
#[derive(Debug, Clone)]
pub struct Effect {
    pub name: &'static str,
    pub ttl: u64,
    pub hours: Option<AllowedHours>,
    pub quotas: Vec<Quota>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    mark: u128,
    refunded: u128,
    life: u64,
}

#[derive(Debug, Clone)]
struct Permit {
    effect: usize,
    key: String,
    cost: u64,
    /// Where each draw ended.
    tops: Vec<Bucket>,
}

/// Decides and records.
#[derive(Debug, Clone)]
pub struct Model {
    pub effects: Vec<Effect>,
    pub journal: Journal,
    buckets: HashMap<(usize, String, usize), Bucket>,
    permits: HashMap<u64, Permit>,
    grants: u64,
    tickets: u64,
    lives: u64,
}

/// `"effect":...,"key":...` of a record at `t`.
fn place(kind: &str, t: u64, effect: &str, key: &str) -> String {
    format!("\"kind\":\"{kind}\",\"t\":{t},\"effect\":\"{effect}\",\"key\":\"{key}\"")
}

impl Model {
    pub fn new(effects: Vec<Effect>) -> Self {
        let quota = |quota: &Quota| {
            let Quota { definition, on, floor, step, phase, units_per_step, units_per_token, capacity } =
                quota;
            format!(
                "{{\"quota\":\"{definition}\",\"on_exhausted\":\"{on}\",\"floor\":{floor},\"step\":{step},\"phase\":{phase},\
                 \"units_per_step\":{units_per_step},\"units_per_token\":{units_per_token},\"capacity\":{capacity},\
                 \"most_refunded\":{}}}",
                quota.most_refunded()
            )
        };
        let effect = |effect: &Effect| {
            let hours = effect.hours.as_ref();
            let hours = hours.map(|hours| format!("\"hours\":\"{hours} {}\",", hours.when_outside()));
            let quotas: Vec<String> = effect.quotas.iter().map(quota).collect();
            format!(
                "{{\"effect\":\"{}\",\"ttl\":{},{}\"quotas\":[{}]}}",
                effect.name,
                effect.ttl,
                hours.unwrap_or_default(),
                quotas.join(",")
            )
        };
        let list: Vec<String> = effects.iter().map(effect).collect();
        let open = format!(
            "\"kind\":\"open\",\"format\":1,\"t\":0,\"epoch\":{EPOCH},\"effects\":[{}]",
            list.join(",")
        );
        Self {
            effects,
            journal: Journal { bodies: vec![open] },
            buckets: HashMap::new(),
            permits: HashMap::new(),
            grants: 0,
            tickets: 0,
            lives: 0,
        }
    }

    fn record(&mut self, body: String) {
        self.journal.bodies.push(body);
    }

    fn bucket(&mut self, effect: usize, key: &str, quota: usize, t: u64) -> Bucket {
        let rule = &self.effects[effect].quotas[quota];
        // Any mark at or below the line will do; half of it is one that is not always 0.
        let mark = if rule.floor > rule.accrued(t) { rule.floor } else { rule.accrued(t) / 2 };
        let known = self.buckets.get(&(effect, key.to_owned(), quota)).copied();
        known.unwrap_or(Bucket { mark, refunded: 0, life: u64::MAX })
    }

    /// Forgets the buckets of a key that are full.
    pub fn forget(&mut self, effect: usize, t: u64, key: &str) {
        for (number, quota) in self.effects[effect].quotas.iter().enumerate() {
            let place = (effect, key.to_owned(), number);
            if self.buckets.get(&place).is_some_and(|bucket| bucket.mark <= quota.accrued(t)) {
                self.buckets.remove(&place);
            }
        }
    }

    /// A call: the number of its grant, or a refusal.
    pub fn call(&mut self, effect: usize, t: u64, key: &str, cost: u64) -> Option<u64> {
        self.call_for(effect, t, key, cost, None)
    }

    /// A call for a deferred row.
    pub fn call_for(
        &mut self,
        effect: usize,
        t: u64,
        key: &str,
        cost: u64,
        ticket: Option<u64>,
    ) -> Option<u64> {
        let rule = self.effects[effect].clone();
        let open = |t: u64| match &rule.hours {
            None => t,
            Some(hours) => hours.next_open(EPOCH + t).unwrap() - EPOCH,
        };
        let state: Vec<Bucket> =
            (0..rule.quotas.len()).map(|quota| self.bucket(effect, key, quota, t)).collect();
        let impossible: Vec<&Quota> = rule
            .quotas
            .iter()
            .filter(|quota| u128::from(cost) * quota.units_per_token > quota.capacity)
            .collect();
        if !impossible.is_empty() {
            let refused: Vec<String> =
                impossible.iter().map(|quota| format!("{{\"quota\":\"{}\"}}", quota.definition)).collect();
            let place = place("deny", t, rule.name, key);
            let list = refused.join(",");
            self.record(format!("{place},\"cost\":{cost},\"reason\":\"impossible\",\"refused\":[{list}]"));
            return None;
        }
        let (mut refused, mut answers, mut latest) = (Vec::new(), Vec::new(), t);
        for (quota, bucket) in rule.quotas.iter().zip(&state) {
            let units = u128::from(cost) * quota.units_per_token;
            let line = quota.accrued(t);
            if bucket.mark.max(line) + units <= line + quota.capacity {
                continue;
            }
            let steps = (bucket.mark + units - quota.capacity).div_ceil(quota.units_per_step);
            let retry_at = (steps * quota.step - quota.phase) as u64;
            latest = latest.max(retry_at);
            answers.push(quota.on);
            refused.push(format!(
                "{{\"quota\":\"{}\",\"at\":[{},{}],\"retry_at\":{retry_at}}}",
                quota.definition, bucket.mark, bucket.refunded
            ));
        }
        let reason = if refused.is_empty() { "hours" } else { "exhausted" };
        if open(t) != t {
            answers.push(rule.hours.as_ref().unwrap().when_outside().as_str());
        }
        if !answers.is_empty() {
            let strictest =
                ["block", "defer", "shed"].into_iter().find(|answer| answers.contains(answer)).unwrap();
            let kind = if strictest == "block" { "deny" } else { strictest };
            let ticket = match (kind, ticket) {
                (_, Some(known)) => format!(",\"ticket\":{known}"),
                ("defer", None) => {
                    self.tickets += 1;
                    format!(",\"ticket\":{}", self.tickets)
                }
                _ => String::new(),
            };
            let (place, retry_at) = (place(kind, t, rule.name, key), open(latest));
            let list = refused.join(",");
            self.record(format!(
                "{place},\"cost\":{cost},\"reason\":\"{reason}\"{ticket},\"retry_at\":{retry_at},\"refused\":[{list}]"
            ));
            return None;
        }
        Some(self.grant(effect, t, key, cost, ticket))
    }

    /// Grants, whether the quotas allow it or not.
    pub fn grant(&mut self, effect: usize, t: u64, key: &str, cost: u64, ticket: Option<u64>) -> u64 {
        let rule = self.effects[effect].clone();
        let (mut draws, mut tops) = (Vec::new(), Vec::new());
        for (number, quota) in rule.quotas.iter().enumerate() {
            let before = self.bucket(effect, key, number, t);
            let mut after = before;
            after.mark = before.mark.max(quota.accrued(t)) + u128::from(cost) * quota.units_per_token;
            if after.life == u64::MAX {
                self.lives += 1;
                after.life = self.lives;
            }
            draws.push(draw(quota, before, after));
            tops.push(after);
            self.buckets.insert((effect, key.to_owned(), number), after);
        }
        let number = self.grants;
        self.grants += 1;
        self.permits.insert(number, Permit { effect, key: key.to_owned(), cost, tops });
        let place = place("grant", t, rule.name, key);
        let ticket = ticket.map_or(String::new(), |ticket| format!(",\"ticket\":{ticket}"));
        self.record(format!(
            "{place},\"grant\":{number},\"cost\":{cost}{ticket},\"draws\":[{}]",
            draws.join(",")
        ));
        number
    }

    /// Gives back a held permit.
    pub fn refund(&mut self, t: u64, grant: u64) {
        let Permit { effect, key, cost, tops } = self.permits.remove(&grant).expect("held");
        let rule = self.effects[effect].clone();
        let mut draws = Vec::new();
        for (number, (quota, top)) in rule.quotas.iter().zip(&tops).enumerate() {
            let Some(bucket) = self.buckets.get_mut(&(effect, key.clone(), number)) else { continue };
            if bucket.life != top.life {
                continue;
            }
            let since = bucket.refunded - top.refunded;
            let left = top.mark.saturating_sub(since).saturating_sub(quota.accrued(t));
            let back = left.min(u128::from(cost) * quota.units_per_token);
            if back > 0 {
                let before = *bucket;
                (bucket.mark, bucket.refunded) = (bucket.mark - back, bucket.refunded + back);
                draws.push(draw(quota, before, *bucket));
            }
        }
        let place = place("refund", t, rule.name, &key);
        self.record(format!("{place},\"grant\":{grant},\"draws\":[{}]", draws.join(",")));
    }

    pub fn emit(&mut self, t: u64, grant: u64) {
        self.end("emit", t, grant);
    }

    pub fn forfeit(&mut self, t: u64, grant: u64) {
        self.end("forfeit", t, grant);
    }

    fn end(&mut self, kind: &str, t: u64, grant: u64) {
        let permit = self.permits.remove(&grant).expect("held");
        let place = place(kind, t, self.effects[permit.effect].name, &permit.key);
        self.record(format!("{place},\"grant\":{grant}"));
    }

    /// A bucket begins with a saved state.
    pub fn restore(&mut self, effect: usize, t: u64, key: &str, quota: usize, mark: u64) {
        self.lives += 1;
        let bucket = Bucket { mark: mark.into(), refunded: 0, life: self.lives };
        self.buckets.insert((effect, key.to_owned(), quota), bucket);
        let rule = &self.effects[effect];
        let place = place("restore", t, rule.name, key);
        let name = &rule.quotas[quota].definition;
        self.record(format!("{place},\"quota\":\"{name}\",\"at\":[{mark},0]"));
    }
}

fn draw(quota: &Quota, before: Bucket, after: Bucket) -> String {
    format!(
        "{{\"quota\":\"{}\",\"before\":[{},{}],\"after\":[{},{}]}}",
        quota.definition, before.mark, before.refunded, after.mark, after.refunded
    )
}

/// The policy of [`effects`].
pub const POLICY: &str = "
[[effect]]
tool = \"Search\"
rate = { limit = 2, per = \"1s\", burst = 4 }
on_exhausted = \"defer\"
ttl = \"10s\"
[[effect.quota]]
max = \"10/min\"
on_exhausted = \"shed\"

[[effect]]
tool = \"Email\"
max = { limit = 3, per = \"1d\", anchor = \"6h\" }
ttl = \"1h\"
hours = { from = \"09:00\", to = \"17:00\", zone = \"UTC\", outside = \"shed\" }
";
pub const SEARCH: usize = 0;
pub const EMAIL: usize = 1;

pub fn effects() -> Vec<Effect> {
    let hours = AllowedHours::new("09:00", "17:00", "UTC").unwrap();
    vec![
        Effect {
            name: "Search",
            ttl: 10 * SECOND,
            hours: None,
            quotas: vec![Quota::rate(2, SECOND, 4, 1, "defer"), Quota::max(10, MINUTE, 0, "shed")],
        },
        Effect {
            name: "Email",
            ttl: HOUR,
            hours: Some(hours.outside(tollgate::effect::OnExhausted::Shed)),
            quotas: vec![Quota::max(3, DAY, 6 * HOUR, "block")],
        },
    ]
}

pub fn policy() -> EffectPolicy {
    EffectPolicy::from_toml(POLICY).unwrap()
}
