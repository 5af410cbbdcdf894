//! `tollgate`: replays recorded traffic through rate and spend limits, explains what a policy's limits do, checks journals
//! of effects, looks after stores of budgets, and measures the engine against its peers.

use clap::Parser;
use std::process::ExitCode;
use tollgate_bench::allocator::CountingAllocator;
use tollgate_cli::args::{Cli, Command};
use tollgate_cli::failure::{Failure, say};
use tollgate_cli::{bench, budget, explain, replay, verify};

/// The system's; `tollgate bench` can ask it to count.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Replay(args) => replay::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Budget(args) => budget::run(&args.command),
        Command::Bench(args) => bench::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::ReaderGone | Failure::Refused) {
                say(&failure);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
