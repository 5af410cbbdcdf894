//! A trace's events, one after the other, past lines that are to be skipped.

use super::progress::Progress;
use crate::args::{OnBadLine, ReplayArgs};
use crate::event::{Decoder, Format, Next, ReadError, Record, Schema, Source};
use crate::failure::Failure;

/// Skipped lines that are shown; the rest is counted only.
const SHOWN_BAD_LINES: u64 = 5;

pub struct Reader {
    decoder: Decoder,
    /// The input's name for messages.
    pub name: String,
    on_bad_line: OnBadLine,
    progress: Progress,
    /// Events so far.
    pub events: u64,
    /// Lines that were skipped.
    pub bad_lines: u64,
}

impl Reader {
    /// # Errors
    /// An input that cannot be opened, or has none of the fields.
    pub fn open(args: &ReplayArgs, schema: &Schema, warn: &mut dyn FnMut(String)) -> Result<Self, Failure> {
        let format = args.format.unwrap_or_else(|| Format::guess(&args.input));
        let source = Source::open(&args.input)?;
        let (name, progress) = (source.name.clone(), Progress::new(&source));
        let decoder = Decoder::open(format, source, schema, warn)?;
        Ok(Self { decoder, name, on_bad_line: args.on_bad_line, progress, events: 0, bad_lines: 0 })
    }

    /// Reads the next event into `record`; false at the end.
    ///
    /// # Errors
    /// A malformed line, unless such lines are skipped; a failed read.
    #[inline]
    pub fn next(&mut self, record: &mut Record) -> Result<bool, Failure> {
        loop {
            match self.decoder.next(record) {
                Ok(Next::Event) => {
                    self.events += 1;
                    self.progress.event(self.events);
                    return Ok(true);
                }
                Ok(Next::End) => return Ok(false),
                Err(ReadError::Io(cause)) => return Err(Failure::read(&self.name, &cause)),
                Err(ReadError::Bad(bad)) => {
                    let message = bad.message(&self.name);
                    if self.on_bad_line == OnBadLine::Stop {
                        return Err(Failure::Mend(message));
                    }
                    self.bad_lines += 1;
                    if self.bad_lines <= SHOWN_BAD_LINES {
                        self.progress.note(&format!("skipped {message}"));
                    } else if self.bad_lines == SHOWN_BAD_LINES + 1 {
                        self.progress.note("more malformed lines are skipped and counted");
                    }
                }
            }
        }
    }
}
