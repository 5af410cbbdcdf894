//! Threads that stop for good in the middle of an operation: all others still finish, the books balance, and the bound
//! holds. Each scenario stops a thread at a named point of the engine (`tollgate::stall`), lets others work, and checks
//! what they were told. A run in which somebody waits for the stopped thread is ended, and fails.
//!
//! Prints a line for each scenario and, last, `N passed, N failed`.

#[cfg(not(tollgate_stall))]
compile_error!("build with STALL=1 in the environment, as stress/stalled does");

mod commit;
mod stop;
mod table;

#[path = "../../../../tests/support/intervals.rs"]
mod intervals;
#[path = "../../ledger.rs"]
#[allow(dead_code)]
mod ledger;
#[path = "../../limit.rs"]
#[allow(dead_code)]
mod limit;
#[path = "../../line.rs"]
mod line;
#[path = "../../../../tests/support/oracle.rs"]
mod oracle;
#[path = "../../../../tests/support/random.rs"]
mod random;
#[path = "../../watchdog.rs"]
mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

/// A scenario: what it is called, and how it goes. It panics with what is wrong.
struct Scenario {
    name: String,
    run: Box<dyn Fn()>,
}

impl Scenario {
    fn new(name: impl Into<String>, run: impl Fn() + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let mut scenarios = commit::scenarios();
    scenarios.extend(table::scenarios());
    scenarios.retain(|scenario| only.is_empty() || only.iter().any(|part| scenario.name.contains(part)));
    watchdog::watch(Duration::from_secs(30));
    let (mut passed, mut failed) = (0, 0);
    for Scenario { name, run } in scenarios {
        watchdog::begins(&name);
        if catch_unwind(AssertUnwindSafe(run)).is_ok() {
            println!("passed: {name}");
            passed += 1;
        } else {
            println!("FAILED: {name}");
            failed += 1;
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
