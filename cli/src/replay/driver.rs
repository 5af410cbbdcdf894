//! The loop: read, clamp, decide, count, record.

use super::decision::Decision;
use super::judge::Judge;
use super::layout::Layout;
use super::outputs::Decisions;
use super::progress::Progress;
use super::timeline::Timeline;
use crate::args::OnBadLine;
use crate::event::{Decoder, Next, ReadError, Record, Schema};
use crate::failure::Failure;
use crate::summary::{Report, Run, Tally};
use std::time::{Duration, Instant};

/// Skipped lines that are shown; the rest is counted only.
const SHOWN_BAD_LINES: u64 = 5;

/// Everything a replay needs but the judge, whose clock starts with the first event.
pub struct Driver<'a> {
    pub decoder: Decoder,
    pub schema: &'a Schema,
    pub layout: &'a Layout,
    /// The input's name for messages.
    pub input: &'a str,
    pub on_bad_line: OnBadLine,
    pub decisions: Decisions,
    pub progress: Progress,
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
        let (mut events, mut bad_lines) = (0u64, 0u64);
        let mut remaining = Vec::new();
        let wanted = self.decisions.wanted();
        let (mut build, mut judge) = (Some(build), None);
        while let Some(()) = self.read(&mut record, &mut bad_lines)? {
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
                self.decisions.write(&Decision { seq: events, t_ns, refused, remaining: &remaining })?;
            }
            events += 1;
            self.progress.event(events);
        }
        let live_buckets = judge.as_ref().map(Judge::live_buckets).unwrap_or_default();
        Ok(Replayed { tally, events, bad_lines, timeline, elapsed: began.elapsed(), live_buckets })
    }

    /// The next event, past malformed lines if they are to be skipped; `None` at the end.
    #[inline]
    fn read(&mut self, record: &mut Record, bad_lines: &mut u64) -> Result<Option<()>, Failure> {
        loop {
            match self.decoder.next(record) {
                Ok(Next::Event) => return Ok(Some(())),
                Ok(Next::End) => return Ok(None),
                Err(ReadError::Io(cause)) => return Err(Failure::read(self.input, &cause)),
                Err(ReadError::Bad(bad)) => {
                    let message = bad.message(self.input);
                    if self.on_bad_line == OnBadLine::Stop {
                        return Err(Failure::Mend(message));
                    }
                    *bad_lines += 1;
                    if *bad_lines <= SHOWN_BAD_LINES {
                        self.progress.note(&format!("skipped {message}"));
                    } else if *bad_lines == SHOWN_BAD_LINES + 1 {
                        self.progress.note("more malformed lines are skipped and counted");
                    }
                }
            }
        }
    }
}
