//! `tollgate bench`: the engine against its baseline and its peers.

use crate::args::BenchArgs;
use crate::failure::{Failure, say};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use tollgate_bench::options::distinct;
use tollgate_bench::{BenchError, Effort, Options, Report};

/// Runs it and prints the tables.
///
/// # Errors
/// Options or a path to mend, a wrong count, a failed write; with `--check` also a figure that fell by half.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let options = options(args);
    options.check().map_err(failure)?;
    // Before minutes of measuring: a path that cannot be written should not cost them.
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let report =
        tollgate_bench::run(&options, &mut |what| say(format_args!("{what} ..."))).map_err(failure)?;
    if let Some(json) = json {
        json.write(&report)?;
    }
    let mut out = io::stdout().lock();
    write!(out, "{report}").and_then(|()| out.flush()).map_err(|cause| Failure::stdout(&cause))?;
    if args.check { check(&report) } else { Ok(()) }
}

fn options(args: &BenchArgs) -> Options {
    let mut options = if args.quick { Options::quick() } else { Options::default() };
    if !args.workload.is_empty() {
        options.workloads.clone_from(&args.workload);
    }
    if !args.threads.is_empty() {
        options.threads = distinct(args.threads.iter().copied());
    }
    options.rounds = args.rounds.unwrap_or(options.rounds);
    let time = args.time.map(|millis| Effort::Time(Duration::from_millis(millis)));
    options.effort = args.calls.map(Effort::Calls).or(time).unwrap_or(options.effort);
    options
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Option { .. } | BenchError::Setup { .. } => Failure::Mend(error.to_string()),
        _ => Failure::Run(error.to_string()),
    }
}

/// A short run on a busy machine may be worse, but not by a factor of two.
fn check(report: &Report) -> Result<(), Failure> {
    let missed: Vec<String> = report
        .fell_by_half()
        .map(|it| {
            let (workload, threads, versus) = (it.workload, it.threads, &it.versus);
            format!("{workload}, threads {threads}, {versus}: {:.2}, held to {}", it.ratio, it.held)
        })
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    let missed = missed.join("\n  ");
    Err(Failure::Run(format!(
        "worse than what was reached by more than a factor of two; profile what became slow, or run again on a quiet machine:\n  \
         {missed}"
    )))
}

/// The file for the report.
struct JsonFile {
    file: File,
    name: String,
}

impl JsonFile {
    fn create(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|cause| Failure::create(&name, &cause))?;
        Ok(Self { file, name })
    }

    fn write(mut self, report: &Report) -> Result<(), Failure> {
        let text =
            report.json().map_err(|error| Failure::Run(format!("cannot write {}: {error}", self.name)))?;
        let written = writeln!(self.file, "{text}").and_then(|()| self.file.flush());
        written.map_err(|cause| Failure::write(&self.name, &cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use tollgate_bench::Workload;
    use tollgate_bench::machine::Machine;
    use tollgate_bench::targets::{Bound, Target};

    fn parsed(args: &[&str]) -> Options {
        let command = Cli::parse_from(["tollgate", "bench"].iter().chain(args)).command;
        let Command::Bench(args) = command else { panic!("not bench: {command:?}") };
        options(&args)
    }

    #[test]
    fn what_is_not_said_is_the_default_or_the_short_run() {
        assert_eq!(parsed(&[]), Options::default());
        assert_eq!(parsed(&["--quick"]), Options::quick());
        let short = parsed(&["--quick", "--rounds", "9"]);
        assert_eq!(short, Options { rounds: 9, ..Options::quick() });
    }

    #[test]
    fn what_is_said_counts() {
        let said = parsed(&["--workload", "hot", "--workload", "pair", "--threads", "4", "--threads", "4"]);
        assert_eq!((said.workloads, said.threads), (vec![Workload::Hot, Workload::Pair], vec![4]));
        assert_eq!(parsed(&["--time", "5"]).effort, Effort::Time(Duration::from_millis(5)));
        assert_eq!(parsed(&["--quick", "--calls", "5"]).effort, Effort::Calls(5));
    }

    #[test]
    fn a_check_fails_on_a_figure_that_fell_by_more_than_half_and_says_which() {
        let report = |ratio| {
            let (what, who) = ((Workload::Pair, 2), ("tollgate-coarse", "baseline-std"));
            let target = Target::judged(what, who, (Bound::AtLeast, 25.0), [ratio]);
            Report {
                machine: Machine::here(),
                rounds: 1,
                rows: Vec::new(),
                targets: target.into_iter().collect(),
                comparisons: Vec::new(),
                latencies: Vec::new(),
                memory: None,
            }
        };
        assert!(check(&report(12.5)).is_ok(), "half is enough for a short run");
        let failure = check(&report(12.4)).unwrap_err();
        assert_eq!(failure.exit_code(), 1);
        let text = failure.to_string();
        assert!(text.contains("pair, threads 2, baseline-std: 12.40, held to 25"), "{text}");
    }
}
