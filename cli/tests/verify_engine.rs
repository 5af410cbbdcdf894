//! What the engine records is what `tollgate verify` accepts, with one thread and with several.

use proptest::prelude::*;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use tollgate::effect::{Call, Effect, EffectPolicy, Effects, EffectsBuilder, Gate, Journal, Permit};
use tollgate::time::{Clock, ManualClock, MonotonicClock};
use tollgate_cli::verify::{Accepted, Verdict, verify};

struct Search;
impl Effect for Search {
    const TOOL: &'static str = "Search";
    type Payload = String;
    type Output = ();
}

struct Email;
impl Effect for Email {
    const TOOL: &'static str = "Email";
    type Payload = String;
    type Output = ();
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Few buckets, so that full ones are forgotten.
const POLICY: &str = "
[[effect]]
tool = \"Search\"
rate = { limit = 2, per = \"1s\", burst = 4 }
on_exhausted = \"defer\"
ttl = \"10s\"
bucket_cap = 2
[[effect.quota]]
max = { limit = 9, per = \"10s\", anchor = \"3s\" }
on_exhausted = \"shed\"

[[effect]]
tool = \"Email\"
max = \"5/hour\"
hours = { from = \"09:00\", to = \"17:00\", zone = \"Europe/Berlin\", outside = \"shed\" }
[[effect.quota]]
rate = { limit = 7, per = \"3s\", burst = 3 }
";

fn builder(policy: &EffectPolicy, sink: &Sink) -> EffectsBuilder {
    // Monday, 2025-06-23, 10:00 in Berlin.
    let start = UNIX_EPOCH + Duration::from_secs(1_750_665_600);
    let builder = Effects::builder(policy.clone()).declare::<Search>().declare::<Email>();
    builder.starts_at(start).journal(Journal::to(sink.clone()))
}

#[track_caller]
fn accepted(policy: &EffectPolicy, effects: &Effects, sink: &Sink) -> Accepted {
    let seal = effects.seal_journal().unwrap().unwrap();
    let journal = sink.0.lock().unwrap().clone();
    match verify(&journal[..], policy, false).unwrap() {
        Verdict::Accepted(accepted) => {
            assert_eq!((&accepted.hash, accepted.sealed), (&seal.hash, true));
            accepted
        }
        refused => panic!("{refused}\n{}", String::from_utf8_lossy(&journal[..journal.len().min(20_000)])),
    }
}

/// Permits that are held, of either effect.
enum Held {
    Search(Permit<Search>),
    Email(Permit<Email>),
}

struct Gates {
    search: Gate<Search>,
    email: Gate<Email>,
}

impl Gates {
    fn new(effects: &Effects) -> Self {
        Self { search: effects.gate(|_| ()).unwrap(), email: effects.gate(|_| ()).unwrap() }
    }

    /// One step of a history, chosen by `random`.
    fn step(&self, random: u64, effects: &Effects, held: &mut Vec<Held>) {
        let (key, cost) = (["a", "b", "c"][(random >> 8) as usize % 3], 1 + (random >> 16) % 4);
        let which = (random >> 24) as usize % held.len().max(1);
        match random % 9 {
            0 | 1 => {
                if let Ok(outcome) = self.search.permit(key, cost) {
                    held.extend(outcome.done().map(Held::Search));
                }
            }
            2 => {
                if let Ok(outcome) = self.email.permit(key, cost) {
                    held.extend(outcome.done().map(Held::Email));
                }
            }
            3 => drop(self.search.call(Call::of(key).cost(cost).coalesce("id"), &String::new())),
            4 => drop(self.email.call(Call::of(key).cost(cost), &String::new())),
            5 => drop(self.search.run_due(effects.now())),
            6 | 7 if which < held.len() => match held.swap_remove(which) {
                Held::Search(permit) => drop(permit.refund()),
                Held::Email(permit) => drop(permit.refund()),
            },
            8 if which < held.len() => match held.swap_remove(which) {
                Held::Search(permit) => drop(self.search.emit(permit, &String::new())),
                Held::Email(permit) => drop(self.email.emit(permit, &String::new())),
            },
            _ if which < held.len() => drop(held.swap_remove(which)),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_one_thread_does_is_accepted(
        steps in prop::collection::vec((any::<u64>(), prop_oneof![
            3 => Just(0u64), 2 => 1u64..1_000_000_000, 1 => 1u64..40_000_000_000_000
        ]), 1..120)
    ) {
        let policy = EffectPolicy::from_toml(POLICY).unwrap();
        let (clock, sink) = (ManualClock::at(77), Sink::default());
        let effects = builder(&policy, &sink).clock(clock.clone()).build().unwrap();
        let gates = Gates::new(&effects);
        let mut held = Vec::new();
        for (random, wait) in steps {
            clock.advance(Duration::from_nanos(wait));
            gates.step(random, &effects, &mut held);
        }
        drop(held);
        let accepted = accepted(&policy, &effects, &sink);
        prop_assert_eq!((accepted.counts.unnamed, accepted.counts.held), (0, 0));
    }

    #[test]
    fn what_a_restart_restores_is_accepted(
        steps in prop::collection::vec((any::<u64>(), 0u64..1_000_000_000), 1..60), away in 0u64..20_000_000_000, damaged: bool
    ) {
        let policy = EffectPolicy::from_toml(POLICY).unwrap();
        let (clock, sink) = (ManualClock::at(77), Sink::default());
        let mut state = None;
        for (life, steps) in steps.chunks(30).enumerate() {
            let sink = if life == 0 { sink.clone() } else { Sink::default() };
            let mut builder = builder(&policy, &sink).clock(clock.clone());
            if let Some(state) = state.take() {
                builder = builder.restore(state);
            }
            let effects = builder.build().unwrap();
            let gates = Gates::new(&effects);
            let mut held = Vec::new();
            for &(random, wait) in steps {
                clock.advance(Duration::from_nanos(wait));
                gates.step(random, &effects, &mut held);
            }
            drop(held);
            let mut saved = effects.save();
            if damaged {
                saved.truncate(saved.len() / 2);
            }
            state = Some(saved);
            accepted(&policy, &effects, &sink);
            clock.advance(Duration::from_nanos(away));
        }
    }
}

#[test]
fn what_several_threads_do_is_accepted() {
    let policy = POLICY.replace("per = \"1s\"", "per = \"1ms\"").replace("per = \"3s\"", "per = \"3us\"");
    let policy =
        policy.replace("per = \"10s\", anchor = \"3s\"", "per = \"100us\"").replace("5/hour", "5000/hour");
    let policy = EffectPolicy::from_toml(&policy).unwrap();
    let sink = Sink::default();
    let effects = builder(&policy, &sink).clock(MonotonicClock::new()).build().unwrap();
    let gates = Gates::new(&effects);
    std::thread::scope(|scope| {
        for thread in 1u64..5 {
            let (gates, effects) = (&gates, &effects);
            scope.spawn(move || {
                let (mut held, mut seed) = (Vec::new(), thread);
                for _ in 0..20_000 {
                    // Xorshift, by Marsaglia.
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    gates.step(seed >> 11, effects, &mut held);
                    if held.len() > 8 {
                        held.clear();
                    }
                }
            });
        }
    });
    let accepted = accepted(&policy, &effects, &sink);
    assert!(accepted.counts.grants > 1_000 && accepted.counts.refunded > 100, "{accepted:?}");
    assert_eq!(accepted.counts.held, 0);
}

/// A clock that is later at every look.
struct Ticking {
    now: AtomicU64,
    step: u64,
}

impl Clock for Ticking {
    fn now(&self) -> u64 {
        self.now.fetch_add(self.step, Ordering::Relaxed)
    }
}

#[test]
fn buckets_that_begin_empty_do_so_when_the_journal_begins() {
    let policy = EffectPolicy::from_toml(POLICY).unwrap();
    let sink = Sink::default();
    let clock = Ticking { now: AtomicU64::new(0), step: 1_000_000 };
    let effects = builder(&policy, &sink).clock(clock).restore("damaged").build().unwrap();
    let gates = Gates::new(&effects);
    assert!(gates.search.permit("a", 1).is_err());
    accepted(&policy, &effects, &sink);
}

#[test]
fn hours_that_open_or_close_during_a_call_are_recorded_as_they_were_judged() {
    let policy = EffectPolicy::from_toml(POLICY).unwrap();
    // The hours are from 1 h before the epoch to 7 h after it; the clock comes by their end, or their next opening.
    for boundary in [7u64, 23] {
        for early in 0..8 {
            let sink = Sink::default();
            let start = boundary * 3_600_000_000_000 - 40 - early;
            let clock = Ticking { now: AtomicU64::new(start), step: 7 };
            let effects = builder(&policy, &sink).clock(clock).build().unwrap();
            let gates = Gates::new(&effects);
            let held: Vec<_> = (0..4).map(|_| gates.email.permit("a", 1)).collect();
            drop(held);
            accepted(&policy, &effects, &sink);
        }
    }
}
