//! An explicit-state model of the multi-word commit, as `src/commit.rs` writes it: every interleaving of every
//! scenario at sequential consistency, without a bound on preemptions.
//!
//! Loom runs the real code, within a bound; this runs a transcript of the protocol, without one. In every state
//! that can be reached each thread must be able to finish alone while all others stand still: that is what
//! lock-freedom promises when threads stop for good, and no bounded search can show it.
//!
//! ```text
//! explicit [--bug NAME] [--states N] [--list | --bugs] [SCENARIO]...
//! ```
//! Prints a line for each scenario and, last, `N passed, N failed`. A search that ends at `--states` has failed.

mod bug;
mod explore;
mod machine;
mod scenarios;
mod step;

use bug::Bug;
use explore::explore;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut bug = None;
    let mut most_states = 20_000_000;
    let mut names = Vec::new();
    let mut list = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bug" => {
                let name = arguments.next().unwrap_or_default();
                bug = Some(Bug::named(&name).unwrap_or_else(|| panic!("there is no bug {name:?}")));
            }
            "--states" => {
                let value = arguments.next().unwrap_or_default();
                most_states =
                    value.parse().unwrap_or_else(|_| panic!("--states takes a number, not {value:?}"));
            }
            "--list" => list = true,
            "--bugs" => {
                Bug::ALL.iter().for_each(|bug| println!("{}", bug.name()));
                return ExitCode::SUCCESS;
            }
            _ => names.push(argument),
        }
    }
    let all = scenarios::all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|scenario| scenario.name != name.as_str()))
    {
        eprintln!("there is no scenario {unknown:?}; --list names them");
        return ExitCode::from(2);
    }
    let (mut passed, mut failed) = (0, 0);
    for scenario in all {
        if !names.is_empty() && names.iter().all(|name| name != scenario.name) {
            continue;
        }
        if list {
            println!("{:28} {}", scenario.name, scenario.shows);
            continue;
        }
        match explore(&scenario, bug, most_states) {
            true => passed += 1,
            false => failed += 1,
        }
    }
    if list {
        return ExitCode::SUCCESS;
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
