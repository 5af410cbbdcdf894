//! The loop: read, clamp, decide, count, record.

use super::decision::Decision;
use super::judge::Judge;
use super::layout::Layout;
use super::outputs::Decisions;
use super::reader::Reader;
use super::timeline::Timeline;
use crate::event::{Record, Schema};
use crate::failure::Failure;
use crate::summary::{Report, Run, Tally};
use std::time::{Duration, Instant};

/// Everything a replay needs but the judge, whose clock starts with the first event.
pub struct Driver<'a> {
    pub reader: Reader,
    pub schema: &'a Schema,
    pub layout: &'a Layout,
    pub decisions: Decisions,
}

/// A replay that reached the end of its trace.
pub struct Replayed {
    tally: Tally,
    events: u64,
    bad_lines: u64,
    timeline: Timeline,
    elapsed: Duration,
    live_buckets: Vec<(&'static str, u64)>,
}

impl Replayed {
    pub fn report(&self, policy: &str, input: &str) -> Report {
        let run = Run {
            policy,
            input,
            events: self.events,
            bad_lines: self.bad_lines,
            timeline: self.timeline,
            elapsed: self.elapsed,
            live_buckets: self.live_buckets.clone(),
        };
        Report::new(&self.tally, run)
    }
}

impl Driver<'_> {
    /// Replays the whole trace. `judge` builds the judge, given the first event's time.
    ///
    /// # Errors
    /// A malformed line unless such lines are skipped, a failed read or write, or what `judge` refuses. The
    /// decisions made until then are written.
    pub fn run(mut self, judge: impl FnOnce(u64) -> Result<Judge, Failure>) -> Result<Replayed, Failure> {
        let replayed = self.replay(judge);
        let finished = self.decisions.finish();
        let replayed = replayed?;
        finished?;
        Ok(replayed)
    }

    fn replay(&mut self, build: impl FnOnce(u64) -> Result<Judge, Failure>) -> Result<Replayed, Failure> {
        let began = Instant::now();
        let mut record = Record::new(self.schema.len());
        let mut tally = Tally::new(self.layout.limits.clone());
        let mut timeline = Timeline::default();
        let mut remaining = Vec::new();
        let wanted = self.decisions.wanted();
        let (mut build, mut judge) = (Some(build), None);
        while self.reader.next(&mut record)? {
            let judge = match (&mut judge, build.take()) {
                (Some(judge), _) => judge,
                (none, Some(build)) => none.insert(build(record.t_ns)?),
                (None, None) => break, // the first event took `build` and made a judge, or ended the run
            };
            let t_ns = timeline.advance(record.t_ns);
            let refused = judge.decide(t_ns, &record, wanted.then_some(&mut remaining));
            match &refused {
                None => tally.admit(),
                Some(refused) => tally.refuse(refused, self.layout.key(refused.limit, &record)),
            }
            if wanted {
                let seq = self.reader.events - 1;
                self.decisions.write(&Decision { seq, t_ns, refused, remaining: &remaining })?;
            }
        }
        let live_buckets = judge.as_ref().map(Judge::live_buckets).unwrap_or_default();
        let Reader { events, bad_lines, .. } = self.reader;
        Ok(Replayed { tally, events, bad_lines, timeline, elapsed: began.elapsed(), live_buckets })
    }
}
