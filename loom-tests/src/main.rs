//! Models of the engine: the real code of `tollgate`, on narrow words, under every interleaving that loom finds
//! within a bound on preemptions.
//!
//! ```text
//! models [--bound N | --deeper N] [--seconds S] [--list] [NAME]...
//! ```
//! Prints a line for each model and, last, `N passed, N failed`. `--bound` overrides the models' own bounds,
//! `--deeper` adds to them.

mod explore;
mod fixture;
mod models;

use explore::{Limits, Model, explore};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let mut limits = Limits { bound: None, deeper: 0, time: Duration::from_secs(60) };
    let mut names = Vec::new();
    let mut list = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = |what: &str| -> u64 {
            let value = arguments.next().unwrap_or_default();
            value.parse().unwrap_or_else(|_| panic!("{what} takes a whole number, not {value:?}"))
        };
        match argument.as_str() {
            "--bound" => limits.bound = Some(number("--bound") as usize),
            "--seconds" => limits.time = Duration::from_secs(number("--seconds")),
            "--deeper" => limits.deeper = number("--deeper") as usize,
            "--list" => list = true,
            _ => names.push(argument),
        }
    }
    let all = models::all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|model| model.name != name.as_str())) {
        eprintln!("there is no model {unknown:?}; --list names them");
        return ExitCode::from(2);
    }
    let chosen: Vec<Model> =
        all.into_iter().filter(|model| names.is_empty() || names.iter().any(|n| n == model.name)).collect();
    if list {
        for model in &chosen {
            println!("{:28} {}", model.name, model.proves);
        }
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for model in chosen {
        match explore(model, limits) {
            true => passed += 1,
            false => failed += 1,
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
