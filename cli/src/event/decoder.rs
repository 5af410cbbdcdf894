//! One decoder for each format, behind one type; and the event's time, which all of them read alike.

use super::combined::Combined;
use super::csv::Csv;
use super::field::{Kind, Record};
use super::jsonl::Jsonl;
use super::lines::{LONGEST, Lines};
use super::number::Whole;
use super::schema::{FieldId, Schema, TIMES};
use super::source::{Format, Source};
use super::time;
use crate::failure::Failure;
use std::borrow::Cow;
use std::io::{self, Read};

/// A line that is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Counted from 1.
    pub line: u64,
    pub what: String,
    pub expected: Cow<'static, str>,
}

impl BadLine {
    /// `file:line: what, expected ...`.
    pub fn message(&self, file: &str) -> String {
        format!("{file}:{}: {}, expected {}", self.line, self.what, self.expected)
    }
}

/// What is wrong with a line whose number the caller knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    pub what: String,
    pub expected: Cow<'static, str>,
}

impl Flaw {
    pub fn new(what: impl Into<String>, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into(), expected: expected.into() }
    }

    pub fn at(self, line: u64) -> ReadError {
        ReadError::Bad(BadLine { line, what: self.what, expected: self.expected })
    }

    pub fn too_long() -> Self {
        Self::new("the line is too long", format!("at most {} MiB", LONGEST >> 20))
    }
}

/// Why no event could be read.
#[derive(Debug)]
pub enum ReadError {
    /// The line is malformed; the next one can be read.
    Bad(BadLine),
    /// The stream failed.
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// What [`Decoder::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Event,
    End,
}

/// Reads events of any format.
pub enum Decoder {
    Jsonl(Jsonl),
    Csv(Box<Csv>),
    Combined(Combined),
}

impl Decoder {
    /// A decoder of `source`; reads the header if the format has one. Warnings go to `warn`.
    ///
    /// # Errors
    /// When the header is unusable or cannot be read, or a mapping names a field that the format has not.
    pub fn open(
        format: Format,
        source: Source,
        schema: &Schema,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, Failure> {
        let lines = Lines::new(source.bytes);
        match format {
            Format::Jsonl => Ok(Decoder::Jsonl(Jsonl::new(lines, schema))),
            Format::Csv => Csv::new(lines, schema, &source.name, warn).map(|csv| Decoder::Csv(Box::new(csv))),
            Format::Combined => Combined::new(lines, schema, warn).map(Decoder::Combined),
        }
    }

    /// Reads the next event into `record`.
    ///
    /// # Errors
    /// A malformed line, after which the next one can be read, or a failed stream.
    #[inline]
    pub fn next(&mut self, record: &mut Record) -> Result<Next, ReadError> {
        match self {
            Decoder::Jsonl(decoder) => decoder.next(record),
            Decoder::Csv(decoder) => decoder.next(record),
            Decoder::Combined(decoder) => decoder.next(record),
        }
    }
}

/// The lines that decoders read.
pub type Input = Lines<Box<dyn Read>>;

/// The slots of an event's time.
#[derive(Debug, Clone)]
pub struct TimeSlots {
    slots: [Option<FieldId>; 3],
    /// What an event without a time lacks.
    expected: String,
}

impl TimeSlots {
    pub fn of(schema: &Schema) -> Self {
        let sources = schema.time_sources();
        let expected = match sources.iter().all(|source| TIMES.contains(source)) {
            true => "a field `t_ns`, `t_ms` or `time` (or --map time=FIELD)".to_owned(),
            false => format!("a field `{}`, which --map takes for the time", sources.join("` or `")),
        };
        Self { slots: schema.times(), expected }
    }

    /// Finds the event's time among its fields: `t_ns` before `t_ms` before `time`.
    #[inline]
    pub fn read(&self, record: &mut Record) -> Result<(), Flaw> {
        let [t_ns, t_ms, time] = self.slots;
        for (slot, unit) in [(t_ns, 1), (t_ms, 1_000_000)] {
            let Some(slot) = slot else { continue };
            let nanos = match record.field(slot).whole() {
                Whole::Absent => continue,
                Whole::Is(number) => number.checked_mul(unit),
                Whole::Bad => None,
            };
            record.t_ns = nanos.ok_or_else(|| bad_number(record, slot, unit))?;
            return Ok(());
        }
        if let Some(slot) = time {
            let field = record.field(slot);
            let nanos = match field.kind() {
                Kind::Text | Kind::Plain => time::timestamp(field.shown().as_bytes()),
                Kind::Number | Kind::Bool | Kind::Composite => None,
                Kind::Absent => return Err(self.no_time()),
            };
            record.t_ns = nanos.ok_or_else(|| bad_time(record, slot))?;
            return Ok(());
        }
        Err(self.no_time())
    }

    #[cold]
    fn no_time(&self) -> Flaw {
        Flaw::new("the event has no time", self.expected.clone())
    }
}

#[cold]
fn bad_number(record: &Record, slot: FieldId, unit: u64) -> Flaw {
    let (name, unit_name) = if unit == 1 { ("t_ns", "nanoseconds") } else { ("t_ms", "milliseconds") };
    let expected = format!("a whole number of {unit_name}, 0 to {}", u64::MAX / unit);
    Flaw::new(format!("{name} is {}", excerpt(record.field(slot).shown())), expected)
}

#[cold]
fn bad_time(record: &Record, slot: FieldId) -> Flaw {
    let field = record.field(slot);
    let what = format!("time is {}", excerpt(field.shown()));
    match field.kind() {
        Kind::Number => {
            Flaw::new(what, format!("{} (for a number: --map t_ms=FIELD or t_ns=FIELD)", time::TIMESTAMP))
        }
        _ => Flaw::new(what, time::TIMESTAMP),
    }
}

/// A value for a message: quoted, on one line, and not longer than a person wants to read.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{:?}...", &text[..cut]),
        None => format!("{text:?}"),
    }
}

/// The line as text.
#[inline]
pub fn utf8(bytes: &[u8]) -> Result<&str, Flaw> {
    std::str::from_utf8(bytes).map_err(|error| {
        Flaw::new(format!("byte {} of the line is not UTF-8", error.valid_up_to() + 1), "text in UTF-8")
    })
}

/// Is this line blank, so that it says nothing at all?
#[inline]
pub fn blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}
