//! Real threads on the real engine for a set time, every admission checked.
//!
//! ```text
//! stress [--seconds S] [--threads N] [--seed X] [--list] [MIX]...
//! ```
//! Runs rounds of each mix in turn for S seconds in all (30 if not given). A round is a fresh engine, N threads (4 if
//! not given, never fewer than 2) and a check of all that they were told: intervals of each bucket disjoint, without a
//! gap that no refill explains, ending at or below accrued + capacity, and adding up to what the callers asked for;
//! `len` never above the cap; and what is left at the end as the intervals say. A failure prints the records that show
//! it, and the seed, which repeats the round's choices (real threads are not repeatable: try again some times).
//! Prints a line for each mix and, last, `N passed, N failed`.

mod jolt;
mod ledger;
mod limit;
mod line;
mod mixes;
mod round;
mod watchdog;

// The tests' own checker and oracle: the same proof judges all runs with threads.
#[path = "../../tests/support/costed.rs"]
mod costed;
#[path = "../../tests/support/intervals.rs"]
mod intervals;
#[path = "../../tests/support/oracle.rs"]
mod oracle;
#[path = "../../tests/support/race.rs"]
mod race;
#[path = "../../tests/support/random.rs"]
mod random;
#[path = "../../tests/support/shared.rs"]
mod shared;

use random::Random;
use round::{Counts, Mix, Round};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

struct Tally {
    mix: Mix,
    rounds: usize,
    counts: Counts,
    failure: Option<String>,
}

fn main() -> ExitCode {
    let (mut time, mut threads, mut seed, mut list) = (Duration::from_secs(30), 4, None, false);
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> u64 {
            let value = arguments.next().unwrap_or_default();
            value
                .parse()
                .unwrap_or_else(|_| usage(&format!("{argument} takes a whole number, not {value:?}")))
        };
        match argument.as_str() {
            "--seconds" => time = Duration::from_secs(number()),
            "--threads" => threads = (number() as usize).max(2),
            "--seed" => seed = Some(number()),
            "--list" => list = true,
            _ if argument.starts_with('-') => usage(&format!("unknown option {argument}")),
            _ => names.push(argument),
        }
    }
    let all = mixes::all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|mix| mix.name != name.as_str())) {
        usage(&format!("there is no mix {unknown:?}; --list names them"));
    }
    let chosen = all.into_iter().filter(|mix| names.is_empty() || names.iter().any(|name| name == mix.name));
    let mut tallies: Vec<Tally> =
        chosen.map(|mix| Tally { mix, rounds: 0, counts: Counts::default(), failure: None }).collect();
    if list {
        for Tally { mix, .. } in &tallies {
            println!("{:20} {}", mix.name, mix.proves);
        }
        return ExitCode::SUCCESS;
    }
    let seed = seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
        now.as_secs() << 20
    });
    println!("{threads} threads, from seed {seed}");
    watchdog::watch(Duration::from_secs(180));
    run(&mut tallies, threads, seed, time);
    verdict(&tallies)
}

/// Rounds of all mixes in turn, at least one of each, until time is up. A mix that failed is not run again.
fn run(tallies: &mut [Tally], threads: usize, mut seed: u64, time: Duration) {
    let start = Instant::now();
    loop {
        for tally in tallies.iter_mut().filter(|tally| tally.failure.is_none()) {
            if tally.rounds > 0 && start.elapsed() >= time {
                return;
            }
            // Now and then with more threads than usual, so that some are stopped in the middle of things.
            let threads = if seed % 4 == 3 { 2 * threads } else { threads };
            watchdog::begins(&format!("{} at seed {seed}", tally.mix.name));
            match (Round { threads, random: Random::new(seed) }).run(&tally.mix) {
                Ok(counts) => {
                    tally.counts.admitted += counts.admitted;
                    tally.counts.refused += counts.refused;
                }
                Err(failure) => tally.failure = Some(format!("seed {seed}: {failure}")),
            }
            tally.rounds += 1;
            seed += 1;
        }
        if tallies.iter().all(|tally| tally.failure.is_some()) {
            return;
        }
    }
}

fn verdict(tallies: &[Tally]) -> ExitCode {
    for Tally { mix, rounds, counts: Counts { admitted, refused }, failure } in tallies {
        match failure {
            None => println!(
                "passed: {} ({rounds} rounds, {admitted} admissions, {refused} refusals)\n    {}",
                mix.name, mix.proves
            ),
            Some(failure) => {
                println!("FAILED: {} in round {rounds}\n    {}\n{failure}", mix.name, mix.proves)
            }
        }
    }
    let failed = tallies.iter().filter(|tally| tally.failure.is_some()).count();
    println!("{} passed, {failed} failed", tallies.len() - failed);
    if failed == 0 && !tallies.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}");
    std::process::exit(2)
}
