//! The command line.

use crate::event::{Format, Mapping};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use tollgate_bench::Workload;

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
    /// Check a journal of effects against its policy, without the engine: every record's arithmetic, every bucket's
    /// history, every refusal, every emission
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Look into a store of spend budgets: who spent what of which limit, what is held, whether the books agree; and settle or
    /// release by hand what nobody else will
    #[command(after_help = BUDGET_HELP)]
    Budget(BudgetArgs),
    /// Measure the engine against its baseline and its peers: interleaved, every count checked, ratios held against
    /// their targets
    #[command(after_help = BENCH_HELP)]
    Bench(BenchArgs),
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

const VERIFY_HELP: &str = "\
The verdict goes to standard output: `accepted: ...` with what was counted, or `refused: line L: ...` with the first
violation that was found. docs/journal.md has the format.

Exit codes: 0 accepted, 1 refused, 2 something to mend (options, policy, path).

Examples:
  tollgate verify effects.jsonl --policy effects.toml
  tail -n +1 -f effects.jsonl | head -n 1000 | tollgate verify - --policy effects.toml --open --json";

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The journal; - is standard input
    #[arg(value_name = "JOURNAL")]
    pub journal: PathBuf,

    /// The policy (TOML) with the effects
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,

    /// Accept a journal that was not sealed; a torn last line is left out
    #[arg(long)]
    pub open: bool,

    /// Print the verdict as one JSON object
    #[arg(long)]
    pub json: bool,
}

const BUDGET_HELP: &str = "\
status, holds and audit read beside the process that writes the store, and change nothing. settle, release and archive need the store
for themselves: stop its writer first.

Exit codes: 0 done, 2 something to mend (options, path, a hold that is not there), 1 failed at run time (another writer), or
audit found what does not agree.

Examples:
  tollgate budget status --db budgets.db --scope user
  tollgate budget settle run-17/step-4 --db budgets.db --cost 0.12 --note \"ann: billed, the worker was killed\"
  tollgate budget audit --db budgets.db --json";

#[derive(Debug, Args)]
pub struct BudgetArgs {
    #[command(subcommand)]
    pub command: BudgetCommand,
}

#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Show of every account and limit what is spent, held and left in the current window, and when it resets
    Status(BudgetStatusArgs),
    /// Show all open holds, oldest first
    Holds(StoreArgs),
    /// Settle a hold by hand
    Settle(SettleArgs),
    /// Release a hold by hand: its call did not happen, or no more of it than was charged
    Release(ReleaseArgs),
    /// Add up everything from the ledger again and compare: rows, chain, usage, books, holds
    Audit(StoreArgs),
    /// Move rows of the ledger that nothing counts any more to a file of JSON lines; no answer changes
    Archive(ArchiveArgs),
}

#[derive(Debug, Args)]
pub struct StoreArgs {
    /// The store
    #[arg(long, value_name = "FILE")]
    pub db: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BudgetStatusArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// Only accounts of this scope; families are of the scope \"family\"
    #[arg(long, value_name = "NAME")]
    pub scope: Option<String>,

    /// Only accounts of this key
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
pub struct ArchiveArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// The file whose end the rows go to; it is made if it is not there
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,

    /// Only rows before this time, such as 2026-01-01T00:00:00Z [default: all that nothing counts]
    #[arg(long, value_name = "TIME")]
    pub before: Option<String>,
}

#[derive(Debug, Args)]
pub struct RepairArgs {
    /// The hold's id
    #[arg(value_name = "ID")]
    pub id: String,

    #[command(flatten)]
    pub store: StoreArgs,

    /// Who repairs what, and why; it is kept in the ledger
    #[arg(long, value_name = "TEXT")]
    pub note: String,

    /// Only if the hold is of this generation: an id can have passed to another one
    #[arg(long, value_name = "N")]
    pub generation: Option<u64>,
}

#[derive(Debug, Args)]
pub struct SettleArgs {
    #[command(flatten)]
    pub repair: RepairArgs,

    /// What was spent besides what was charged already, in the currency, such as 0.12
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    pub cost: String,

    /// The currency of --cost: any but the store's is refused [default: the store's]
    #[arg(long, value_name = "CODE")]
    pub currency: Option<String>,

    /// Tokens that were used besides those charged
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub tokens: Option<i64>,

    /// Calls that were made besides those charged
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub calls: Option<i64>,

    /// Seconds that were worked besides those charged
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seconds: Option<i64>,

    /// Runs; they are given back whatever is said
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub runs: Option<i64>,
}

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    pub repair: RepairArgs,
}

const BENCH_HELP: &str = "\
Workloads:
  memory  bytes of a bucket pair, by an allocator's count and by the resident set
  pair    both limits of a velocity guard, 16,384 capabilities in random order
  single  one limit, the same capabilities
  hot     one hot capability
  agent   the agent velocity guard: two buckets in two cells
  series  both guards, one after the other
  atomic  both guards, one commit
  full    a table full of live buckets, and every call a newcomer
  churn   every call a new key, each refilled soon; also the latency of single calls
  floor   an uncontended hit, beside a hash, a clock and a 128-bit exchange alone

A contender that admits a wrong number of calls ends the run. Time on other work makes spreads wide: leave the
machine alone, or look at the ratios, which are taken within each round.

Exit codes: 0 done, 2 something to mend (options, path), 1 a wrong count, or a figure that fell by half (--check).

Examples:
  tollgate bench
  tollgate bench --workload pair --workload single --threads 2 --rounds 15
  tollgate bench --quick --check --json bench.json";

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Run this workload; may be repeated [default: all]
    #[arg(long, value_name = "NAME", value_parser = workload_names())]
    pub workload: Vec<Workload>,

    /// How many rounds [default: 7, or 3 with --quick]
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,

    /// How long each contender runs in a round, in milliseconds [default: 100, or 20 with --quick]
    #[arg(long, value_name = "MS", conflicts_with = "calls")]
    pub time: Option<u64>,

    /// Make this many calls from each thread in a round instead
    #[arg(long, value_name = "N")]
    pub calls: Option<u64>,

    /// Run with this many threads; may be repeated [default: 1, 2 and as many as cores]
    #[arg(long, value_name = "N")]
    pub threads: Vec<usize>,

    /// Write rows, targets and everything else to FILE, as one JSON object
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Exit with 1 if a figure is worse than its target, or than what docs/performance.md reports short of it, by more
    /// than a factor of two
    #[arg(long)]
    pub check: bool,

    /// A short run, for continuous integration
    #[arg(long)]
    pub quick: bool,
}

fn workload_names() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::ALL.map(Workload::name)).try_map(|name| name.parse::<Workload>())
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
