//! `tollgate`: replays recorded traffic through rate and spend limits, and explains what a policy's limits do.

use clap::Parser;
use std::process::ExitCode;
use tollgate_cli::args::{Cli, Command};
use tollgate_cli::failure::{Failure, say};
use tollgate_cli::{explain, replay};

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
