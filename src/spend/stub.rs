#![allow(missing_docs)]
use super::policy::*;
use super::window::Window;
use super::record::Millis;
use super::Dimension;
use std::time::Duration;
impl SpendPolicy {
    pub fn new() -> Self { SpendPolicy { currency: "USD".into(), decimals: 6, scopes: vec![], families: vec![], grants: vec![], ttl: 600_000, on_expiry: OnExpiry::Spent, tiers: Tiers::new(), reduced: ReducedProfile::default(), account_cap: 65536, hold_cap: 65536, answers_for: 86_400_000 } }
    pub fn unit(mut self, c: &str, d: u8) -> Self { self.currency = c.into(); self.decimals = d; self }
    pub fn scope(mut self, s: Scope) -> Self { self.scopes.push(s); self }
    pub fn family(mut self, s: Family) -> Self { self.families.push(s); self }
    pub fn grant(mut self, s: Grant) -> Self { self.grants.push(s); self }
    pub fn ttl(mut self, d: Duration) -> Self { self.ttl = d.as_millis() as u64; self }
    pub fn answers_for(mut self, d: Duration) -> Self { self.answers_for = d.as_millis() as u64; self }
    pub fn on_expiry(mut self, d: OnExpiry) -> Self { self.on_expiry = d; self }
    pub fn tiers(mut self, d: Tiers) -> Self { self.tiers = d; self }
    pub fn reduced(mut self, d: ReducedProfile) -> Self { self.reduced = d; self }
    pub fn account_cap(mut self, d: usize) -> Self { self.account_cap = d; self }
    pub fn hold_cap(mut self, d: usize) -> Self { self.hold_cap = d; self }
    pub fn validate(&self) -> Result<(), SpendPolicyError> { if self.families.iter().any(|f| f.cost.is_some() && f.ceiling.is_none()) { return Err(SpendPolicyError) } Ok(()) }
    pub fn resolve(&self, id: &str) -> Option<(&Family, Option<u64>)> { let mut id = id; let mut c: Option<u64> = None; loop { if let Some(f) = self.families.iter().find(|f| f.root == id) { return Some((f, [c, f.ceiling].into_iter().flatten().min())); } let g = self.grants.iter().find(|g| g.id == id)?; c = [c, g.ceiling].into_iter().flatten().min(); id = &g.parent; } }
    pub fn same_unit(&self, other: &Self) -> bool { self.currency == other.currency && self.decimals == other.decimals }
    pub fn unit_name(&self) -> String { format!("{}/{}", self.currency, self.decimals) }
}
impl Scope {
    pub fn keyed(n: &str) -> Self { Scope { name: n.into(), shared: false, limits: vec![] } }
    pub fn shared(n: &str) -> Self { Scope { name: n.into(), shared: true, limits: vec![] } }
    pub fn limit(mut self, l: Limit) -> Self { self.limits.push(l); self }
}
impl Limit { pub fn id(&self, scope: &str) -> String { format!("{scope}/{}/{}", self.dimension, self.window) }
    fn of(dimension: Dimension, amount: u64, window: Window) -> Self { Limit { dimension, amount, window } }
    pub fn cost(a: u64, w: Window) -> Self { Self::of(Dimension::Cost, a, w) }
    pub fn tokens(a: u64, w: Window) -> Self { Self::of(Dimension::Tokens, a, w) }
    pub fn calls(a: u64, w: Window) -> Self { Self::of(Dimension::Calls, a, w) }
    pub fn seconds(a: u64, w: Window) -> Self { Self::of(Dimension::Seconds, a, w) }
    pub fn concurrent_runs(a: u64) -> Self { Self::of(Dimension::Runs, a, Window::Lifetime) }
}
impl Family { pub fn new(r: &str) -> Self { Family { root: r.into(), cost: None, calls: None, ceiling: None } }
 pub fn cost(mut self, a: u64) -> Self { self.cost = Some(a); self }
 pub fn calls(mut self, a: u64) -> Self { self.calls = Some(a); self }
 pub fn ceiling(mut self, a: u64) -> Self { self.ceiling = Some(a); self } }
impl Grant { pub fn new(r: impl Into<String>, p: impl Into<String>) -> Self { Grant { id: r.into(), parent: p.into(), ceiling: None } }
 pub fn ceiling(mut self, a: u64) -> Self { self.ceiling = Some(a); self } }
impl Tiers { pub fn new() -> Self { Tiers { reduced: 700_000, blocked: 1_000_000, dimensions: vec![Dimension::Cost, Dimension::Tokens] } }
 pub fn blocked_at(mut self, a: u32) -> Self { self.blocked = a; self }
 pub fn counting(mut self, a: impl IntoIterator<Item = Dimension>) -> Self { self.dimensions = a.into_iter().collect(); self } }
impl ReducedProfile { pub fn banner_at(&self, r: Option<Millis>) -> Option<String> { self.banner.as_ref().map(|b| b.replace("{reset}", &r.and_then(|r| jiff::Timestamp::from_millisecond(r as i64).ok()).map(|t| t.to_string()).unwrap_or_default())) }
 pub fn new() -> Self { Self::default() }
 pub fn max_steps(mut self, n: u64) -> Self { self.max_steps = Some(n); self }
 pub fn subagents(mut self, n: bool) -> Self { self.subagents = Some(n); self }
 pub fn model(mut self, n: &str) -> Self { self.model = Some(n.into()); self }
 pub fn banner(mut self, n: &str) -> Self { self.banner = Some(n.into()); self } }
impl Window {
 pub fn rolling(d: Duration) -> Result<Window, SpendPolicyError> { Ok(Window::Rolling { length: d.as_millis() as u64 }) }
 pub fn fixed(d: Duration, anchor: Millis) -> Result<Window, SpendPolicyError> { Ok(Window::Fixed { length: d.as_millis() as u64, anchor }) }
 pub fn day(_z: &str) -> Result<Window, SpendPolicyError> { Ok(Window::Fixed { length: 86_400_000, anchor: 0 }) }
}
impl std::fmt::Display for Window { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { match self { Window::Rolling { length } if *length == 3_600_000 => write!(f, "rolling 1h"), Window::Fixed {..} => write!(f, "calendar day in UTC"), _ => write!(f, "{self:?}") } } }
