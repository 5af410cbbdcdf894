//! Two effects, and short names for what the tests do with them.

pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::time::Duration;
pub use tollgate::effect::*;
pub use tollgate::time::ManualClock;

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
pub const DAY: Duration = Duration::from_secs(86_400);

pub struct Search;
impl Effect for Search {
    const TOOL: &'static str = "Search";
    type Payload = String;
    type Output = usize;
}

pub struct Email;
impl Effect for Email {
    const TOOL: &'static str = "Email";
    type Payload = String;
    type Output = ();
}

pub fn rule(quotas: impl IntoIterator<Item = QuotaRule>) -> EffectRule {
    quotas.into_iter().fold(EffectRule::new("Search"), EffectRule::quota)
}

/// Effects with this rule for Search alone.
pub fn effects(rule: EffectRule, clock: &ManualClock) -> Effects {
    builder(rule, clock).build().unwrap()
}

pub fn builder(rule: EffectRule, clock: &ManualClock) -> EffectsBuilder {
    Effects::builder(EffectPolicy::new().effect(rule)).declare::<Search>().clock(clock.clone())
}

/// A gate whose tool counts its runs.
pub fn counted(effects: &Effects) -> (Gate<Search>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let runs = count.clone();
    let gate = effects.gate::<Search>(move |query: &String| {
        runs.fetch_add(1, Ordering::Relaxed);
        query.len()
    });
    (gate.unwrap(), count)
}

pub fn gate(rule: EffectRule, clock: &ManualClock) -> Gate<Search> {
    counted(&effects(rule, clock)).0
}

pub fn permit(gate: &Gate<Search>, cost: u64) -> Permit<Search> {
    gate.permit("alice", cost).unwrap().done().expect("not shed")
}

pub fn refused(gate: &Gate<Search>, cost: u64) -> EffectError {
    gate.permit("alice", cost).expect_err("refused")
}

pub fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// A sink that can be looked at.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
