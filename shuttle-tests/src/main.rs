//! Random mixes on the real engine, under a scheduler that decides every step from a seed.
//!
//! ```text
//! mixes [--seconds S] [--seed N] [--schedules N] [--replay MIX:SEED] [--list] [MIX]...
//! ```
//! First come the seeds in the file `seeds`: schedules that once showed a bug, and must pass ever after. Then each
//! mix runs for S seconds (10 if not given), or N schedules, from seed N (from the time of day if not given). Prints a
//! line for each mix and, last, `N passed, N failed`. `--replay` runs one schedule again.

mod books;
mod explore;
mod mixes;
mod schedule;

// The tests' own checker and oracle: the same proof judges all runs with threads.
#[path = "../../tests/support/costed.rs"]
mod costed;
#[path = "../../tests/support/intervals.rs"]
mod intervals;
#[path = "../../tests/support/oracle.rs"]
mod oracle;
#[path = "../../tests/support/random.rs"]
mod random;

use explore::{Mix, explore};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

fn main() -> ExitCode {
    let mut time = Duration::from_secs(10);
    let (mut seed, mut schedules, mut replay) = (None, None, None);
    let mut names = Vec::new();
    let mut list = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| usage(&format!("{argument} takes a value")));
        match argument.as_str() {
            "--seconds" => time = Duration::from_secs(number(&value())),
            "--seed" => seed = Some(number(&value())),
            "--schedules" => schedules = Some(number(&value())),
            "--replay" => replay = Some(value()),
            "--list" => list = true,
            _ if argument.starts_with('-') => usage(&format!("unknown option {argument}")),
            _ => names.push(argument),
        }
    }
    let all = mixes::all();
    let by_name = |name: &str| {
        let found = all.iter().find(|mix| mix.name == name);
        *found.unwrap_or_else(|| usage(&format!("there is no mix {name:?}; --list names them")))
    };
    if let Some(one) = replay {
        let (mix, seed) = schedule(&one, by_name);
        return verdict(&[explore(mix, seed..seed + 1, None)]);
    }
    let chosen: Vec<Mix> =
        if names.is_empty() { all.clone() } else { names.iter().map(|name| by_name(name)).collect() };
    if list {
        for mix in &chosen {
            println!("{:18} {}", mix.name, mix.proves);
        }
        return ExitCode::SUCCESS;
    }
    let mut passed = Vec::new();
    for line in include_str!("../seeds").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (mix, seed) = schedule(line.split_whitespace().next().unwrap_or_default(), by_name);
        if chosen.iter().any(|one| one.name == mix.name) {
            passed.push(explore(mix, seed..seed + 1, None));
        }
    }
    let from = seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
        now.as_secs() << 20
    });
    println!("from seed {from}");
    let seeds = from..schedules.map_or(u64::MAX, |n| from + n);
    for mix in chosen {
        passed.push(explore(mix, seeds.clone(), schedules.is_none().then_some(time)));
    }
    verdict(&passed)
}

/// A mix and a seed, written `MIX:SEED`.
fn schedule(text: &str, by_name: impl Fn(&str) -> Mix) -> (Mix, u64) {
    let Some((name, seed)) = text.split_once(':') else { usage(&format!("{text:?} is not MIX:SEED")) };
    (by_name(name), number(seed))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| usage(&format!("{text:?} is not a whole number")))
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}");
    std::process::exit(2)
}

fn verdict(passed: &[bool]) -> ExitCode {
    let good = passed.iter().filter(|&&passed| passed).count();
    println!("{good} passed, {} failed", passed.len() - good);
    if good == passed.len() && good > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
