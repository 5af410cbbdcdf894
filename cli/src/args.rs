//! The command line.

use crate::event::{Format, Mapping};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Answers what rate and spend limits would have done to recorded traffic.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a recorded trace through a policy: who is admitted, who is refused by which limit, how long they
    /// would have had to wait
    #[command(after_help = REPLAY_HELP)]
    Replay(ReplayArgs),
    /// Show what each limit of a policy really does: capacity, asked and achieved rate, time to fill,
    /// resolution, years until overflow, memory
    Explain(ExplainArgs),
}

const REPLAY_HELP: &str = "\
Exit codes: 0 done, 2 something to mend (policy, input line, path), 1 failed at run time.

Examples:
  tollgate replay --policy agents.toml --input calls.jsonl
  tollgate replay --policy llm.toml --input trace.csv --map time=TIMESTAMP --summary json
  tollgate replay --policy web.toml --input access.log.gz --format combined --on-bad-line skip";

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The policy (TOML)
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,

    /// The trace, plain or gzip; - is standard input
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,

    /// How the trace is written [default: by the file's name: .csv, .log (combined), else jsonl]
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Read what the policy calls NAME from the trace's field FIELD, such as time=TIMESTAMP; may be repeated
    #[arg(long, value_name = "NAME=FIELD")]
    pub map: Vec<Mapping>,

    /// Write every decision to FILE, one JSON object a line; - is standard output, and the summary then goes to
    /// standard error
    #[arg(long, value_name = "FILE")]
    pub decisions: Option<PathBuf>,

    /// How to print the summary
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    pub summary: SummaryFormat,

    /// What to do about a malformed line
    #[arg(long, value_enum, default_value_t = OnBadLine::Stop)]
    pub on_bad_line: OnBadLine,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The policy (TOML)
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
}

/// How the summary is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// For people
    Table,
    /// One JSON object
    Json,
}

/// What a malformed line does to a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnBadLine {
    /// Stop, and say where and what was expected
    Stop,
    /// Count it and go on
    Skip,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
