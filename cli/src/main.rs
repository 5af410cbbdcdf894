//! `tollgate`: replays recorded traffic through rate and spend limits, and explains what a policy's limits do.

mod args;
mod event;
mod explain;
mod failure;
mod policy;
mod replay;
mod summary;

use args::{Cli, Command};
use clap::Parser;
use failure::{Failure, say};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Replay(args) => replay::run(&args),
        Command::Explain(args) => explain::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::ReaderGone) {
                say(&failure);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
