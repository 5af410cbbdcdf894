//! An agent loop with two tools that have budgets: searches that are deferred when their budget is exhausted, and mails
//! that are left out.
//!
//! ```sh
//! cargo run --example agent_loop -- --journal agent.journal
//! cargo run -- verify agent.journal --policy examples/policies/effects.toml
//! ```
//! It runs twice: on a clock that is moved by hand, where every run is the same and every decision is written to the journal,
//! and on the real one.

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use tollgate::budget;
use tollgate::effect::{Call, Effect, EffectError, Effects, Gate, Journal, Outcome};
use tollgate::time::{Clock, ManualClock, MonotonicClock};

struct Search;
impl Effect for Search {
    const TOOL: &'static str = "Search";
    type Payload = String;
    type Output = String;
}

struct Email;
impl Effect for Email {
    const TOOL: &'static str = "Email";
    type Payload = String;
    type Output = ();
}

fn main() -> Result<(), Box<dyn Error>> {
    let journal = journal_path()?;

    println!("by hand:");
    let clock = ManualClock::new();
    let mut builder = builder(clock.clone());
    if let Some(path) = &journal {
        builder = builder.journal(Journal::to(File::create(path)?));
    }
    let effects = builder.build()?;
    Agent::new(&effects)?.run(|until| clock.set(until));
    if let (Some(path), Some(seal)) = (&journal, effects.seal_journal()?) {
        println!("  {} lines in {}, sealed with {}", seal.count + 1, path.display(), seal.hash);
    }

    println!("on the real clock:");
    let clock = MonotonicClock::new();
    let effects = self::builder(clock).build()?;
    Agent::new(&effects)?.run(|until| {
        std::thread::sleep(Duration::from_nanos(until.saturating_sub(clock.now())));
    });
    Ok(())
}

/// The value of `--journal`, if it was given.
fn journal_path() -> Result<Option<PathBuf>, String> {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (None, ..) => Ok(None),
        (Some(flag), Some(path), None) if flag == "--journal" => Ok(Some(path.into())),
        _ => Err("usage: agent_loop [--journal FILE]".into()),
    }
}

fn builder(clock: impl Clock) -> tollgate::effect::EffectsBuilder {
    let policy = budget! {
        rate: 5 per second on Search, on_exhausted: defer;
        max: 3 per minute on Email, on_exhausted: shed
    };
    Effects::builder(policy).declare::<Search>().declare::<Email>().clock(clock)
}

/// What the agent can do to the world: nothing but through these two gates.
struct Agent {
    effects: Effects,
    search: Gate<Search>,
    email: Gate<Email>,
}

impl Agent {
    fn new(effects: &Effects) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            effects: effects.clone(),
            search: effects.gate::<Search>(|query| format!("three pages about {query}"))?,
            email: effects.gate::<Email>(|text| println!("  mail: {text}"))?,
        })
    }

    /// Works through its questions, then waits (by `sleep_until` a time of its clock) for what was deferred.
    fn run(&self, sleep_until: impl Fn(u64)) {
        let (mut deferred, mut shed) = (0, 0);
        for question in ["otters", "tides", "moss", "bridges", "salt", "owls", "rust", "dunes"] {
            match self.search.call(Call::of("agent-7"), &question.to_owned()) {
                Ok(Outcome::Done(found)) => shed += usize::from(!self.report(&found)),
                Ok(Outcome::Shed(_)) => unreachable!("searches are deferred"),
                Err(EffectError::EffectDeferred { ticket, retry_at, .. }) => {
                    deferred += 1;
                    println!(
                        "  {question}: {ticket}, due at {} ms",
                        retry_at.unwrap_or_default() / 1_000_000
                    );
                }
                Err(error) => println!("  {question}: {error}"),
            }
        }
        // A permit for which there is no use after all goes back.
        if let Ok(Outcome::Done(permit)) = self.search.permit("agent-8", 2) {
            println!("  gave back {:?} tokens", permit.refund().tokens);
        }
        while let Some(due) = self.search.next_due() {
            sleep_until(due);
            for (ticket, found) in self.search.run_due(self.effects.now()).emitted {
                println!("  {ticket}: {found}");
            }
        }
        println!("  {deferred} searches were deferred and run later, {shed} mails left out");
    }

    /// Mails what was found, if the budget allows.
    fn report(&self, found: &str) -> bool {
        match self.email.call(Call::of("agent-7"), &found.to_owned()) {
            Ok(outcome) => !outcome.is_shed(),
            Err(error) => {
                println!("  {error}");
                false
            }
        }
    }
}
