//! A whole run.

use crate::error::BenchError;
use crate::latency::{Latency, Recorder};
use crate::machine::Machine;
use crate::options::Options;
use crate::report::{Report, Row};
use crate::rounds::{Contender, Series, interleave};
use crate::targets::{self, Bound, Target};
use crate::timing::timed;
use crate::workload::Workload;
use crate::workloads::memory::{Filled, Memory};
use crate::workloads::{self, churn, durable};
use std::sync::Arc;

/// The most bytes of a bucket pair with an inline key.
const PAIR_BYTES: f64 = 112.0;
/// The most that may be resident of a table that nobody has used: a twentieth of what is reserved.
const UNTOUCHED: f64 = 0.05;
/// No call may take longer, in milliseconds.
const PAUSE_MILLIS: f64 = 1.0;

/// Runs what `options` say. `progress` is told what comes next.
///
/// # Errors
/// The first wrong count, which ends the run; a contender that cannot be built; an option out of range.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report {
        machine: Machine::here(),
        rounds: options.rounds,
        rows: Vec::new(),
        targets: Vec::new(),
        comparisons: Vec::new(),
        latencies: Vec::new(),
        memory: None,
    };
    for workload in Workload::ALL.into_iter().filter(|workload| options.workloads.contains(workload)) {
        if workload == Workload::Memory {
            progress("memory");
            measure_memory(options, &mut report)?;
            continue;
        }
        let threads = workload.threads(&options.threads);
        let most = threads.last().copied().unwrap_or(1);
        let mut contenders = workloads::contenders(workload, &options.sizes, most)?;
        let mut all = Vec::new();
        for &count in &threads {
            progress(&format!("{workload}, threads {count}, {} contenders", contenders.len()));
            all.extend(interleave(workload, &mut contenders, count, options.rounds, options.effort)?);
        }
        report.rows.extend(all.iter().filter_map(Row::of));
        report.targets.extend(targets::judge(workload, &all, &options.sizes));
        if workload == Workload::Durable {
            report.targets.extend(durable::shared(&all));
        }
        report.comparisons.extend(targets::compare(workload, &all, &threads));
        if workload == Workload::Churn {
            progress("churn, single calls");
            record_calls(options, &threads, &all, &mut report)?;
        }
    }
    Ok(report)
}

fn measure_memory(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let filled = Filled::new(&options.sizes);
    // Once: what a first table leaves in the heap would be missing from the second one's growth.
    let (sample, memory) = filled.measure()?;
    let Memory { pairs, reserved, allocated, untouched, resident } = memory;
    let series = Series {
        workload: Workload::Memory,
        threads: 1,
        contender: filled.name().to_owned(),
        samples: vec![sample],
    };
    let of = |bytes: Option<u64>, whole: u64| bytes.map(|bytes| bytes as f64 / whole as f64);
    let measured = [
        ("allocated bytes a pair", PAIR_BYTES, of(allocated, pairs)),
        ("resident bytes a pair", PAIR_BYTES, of(resident, pairs)),
        ("resident share untouched", UNTOUCHED, of(untouched, reserved)),
    ];
    report.targets.extend(measured.into_iter().filter_map(|(what, most, value)| {
        Target::judged((Workload::Memory, 1), (filled.name(), what), (Bound::AtMost, most), value)
    }));
    report.rows.extend(Row::of(&series));
    report.memory = Some(memory);
    Ok(())
}

/// Runs the churn again with every call timed, and as much of it as its series had.
fn record_calls(
    options: &Options,
    threads: &[usize],
    series: &[Series],
    report: &mut Report,
) -> Result<(), BenchError> {
    for &count in threads {
        let mut longest = Vec::new();
        let mut contenders = churn::churning(&options.sizes, count);
        let recorders: Vec<_> = contenders.iter_mut().map(churn::Churn::record).collect();
        let calls: Vec<u64> = contenders.iter().map(|contender| calls_of(series, count, contender)).collect();
        for round in 0..options.rounds {
            for place in 0..contenders.len() {
                let index = (round + place) % contenders.len();
                contenders[index].round(count, calls[index])?;
            }
            longest.push(recorders[0].take_longest_on_cpu() as f64 / 1e6);
        }
        let latencies = contenders.iter().zip(&recorders);
        report.latencies.extend(latencies.map(|(who, recorder)| recorder.latency(who.name(), count)));
        report.latencies.push(clock_alone(count, calls[0] * options.rounds as u64));
        let names = (contenders[0].name(), "longest call in ms");
        let target = (Bound::AtMost, PAUSE_MILLIS);
        let judged = Target::judged((Workload::Churn, count), names, target, longest);
        report.targets.extend(judged.map(Target::by_worst));
    }
    Ok(())
}

/// How many calls each thread of this contender made in a round.
fn calls_of(series: &[Series], threads: usize, contender: &dyn Contender) -> u64 {
    let mine = series.iter().find(|it| it.threads == threads && it.contender == contender.name());
    let sample = mine.and_then(|series| series.samples.first());
    sample.map_or(contender.least_calls(), |sample| sample.calls / threads as u64)
}

/// What the clock and the machine do to calls that do nothing.
fn clock_alone(threads: usize, calls: u64) -> Latency {
    let recorder = Arc::new(Recorder::default());
    let nothing = Recorder::around(&recorder, Box::new(|_: &crate::call::Call| true));
    timed(nothing.as_ref(), &crate::call::Calls::hot(threads, 4_096).per_thread, calls);
    recorder.latency("clock", threads)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::options::{Effort, Sizes};
    use serde_json::Value;

    /// Large enough for every workload, small enough for a debug build.
    pub(crate) fn tiny() -> Sizes {
        Sizes { keys: 256, agents: 16, table: 4_096, full: [64, 256, 1_024], churn: 4_096, pairs: 1_024 }
    }

    fn report(workloads: Vec<Workload>) -> Report {
        let options =
            Options { workloads, rounds: 2, effort: Effort::Calls(300), threads: vec![1, 2], sizes: tiny() };
        run(&options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_workload_runs_with_right_counts_and_gives_its_rows_and_targets() {
        let report = report(Workload::ALL.to_vec());
        for workload in Workload::ALL {
            let rows = || report.rows.iter().filter(|row| row.workload == workload.name());
            for count in workload.threads(&[1, 2]) {
                assert!(rows().any(|row| row.threads == count), "{workload} with {count} threads");
            }
            for row in rows() {
                let right = if workload == Workload::Full { 0 } else { row.calls };
                assert_eq!(row.admitted, right, "{row:?}");
                assert!(row.calls > 0 && row.ns_per_op > 0.0 && row.mops > 0.0, "{row:?}");
            }
            assert!(
                report.targets.iter().any(|it| it.workload == workload.name()),
                "{workload} has a target"
            );
        }
        assert_eq!(report.latencies.len(), 10, "four contenders and the clock, at one and two threads");
        assert!(report.latencies.iter().all(|it| it.calls > 0 && it.p50 <= it.max));
        assert!(report.comparisons.iter().any(|it| it.versus == "governor-std"));
    }

    #[test]
    fn the_json_has_its_rows_and_targets_with_numbers_for_ratios() {
        let report = report(vec![Workload::Single, Workload::Memory]);
        let json: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), report.rows.len());
        for row in rows {
            assert!(row["workload"].is_string() && row["contender"].is_string(), "{row}");
            assert!(row["threads"].is_u64() && row["admitted"].is_u64(), "{row}");
            assert!(row["ns_per_op"].is_f64() && row["mops"].is_f64(), "{row}");
        }
        let targets = json["targets"].as_array().unwrap();
        assert!(targets.iter().any(|it| it["versus"] == "governor-quanta" && it["threads"] == 2));
        for target in targets {
            assert!(target["workload"].is_string() && target["versus"].is_string(), "{target}");
            assert!(target["threads"].is_u64() && target["met"].is_boolean(), "{target}");
            assert!(target["ratio"].is_number() && target["target"].is_number(), "{target}");
            assert!(target["held"].is_number(), "{target}");
        }
    }

    #[test]
    fn the_text_names_every_contender_and_says_of_every_target_whether_it_is_met() {
        let mut report = report(vec![Workload::Hot]);
        report.targets[0].met = false;
        let text = report.to_string();
        for row in &report.rows {
            assert!(text.contains(&row.contender), "{text}");
        }
        let lines = || text.lines().skip_while(|line| *line != "targets").skip(2);
        assert_eq!(lines().count(), report.targets.len());
        assert!(lines().next().unwrap().ends_with("NO"), "{text}");
        assert!(lines().all(|line| line.ends_with("NO") || line.ends_with("yes")), "{text}");
    }

    #[test]
    fn a_run_without_a_workload_is_refused_before_it_starts() {
        let none = Options { workloads: Vec::new(), ..Options::default() };
        let mut told = Vec::new();
        let refused = run(&none, &mut |what| told.push(what.to_owned()));
        assert!(matches!(refused, Err(BenchError::Option { option: "--workload", .. })));
        assert!(told.is_empty());
    }
}
