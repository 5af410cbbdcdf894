//! What the tool's decoder makes of a trace, as values to compare.

use std::io::{self, Cursor, Read};
use tollgate_cli::event::{
    BadLine, Decoder, Field, Format, Kind, Next, ReadError, Record, Schema, Source, Whole,
};
use tollgate_cli::failure::Failure;

/// A field: its kind, its text unless it has none, and the number it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    pub kind: Kind,
    pub text: Option<String>,
    pub whole: Whole,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    Event { t_ns: u64, fields: Vec<Value> },
    Bad(BadLine),
}

#[derive(Debug)]
pub struct Decoded {
    /// Why no row could be read.
    pub refused: Option<Failure>,
    pub rows: Vec<Row>,
    /// The stream failed after the rows.
    pub failed: bool,
}

/// Hands out a few bytes at a time.
struct Dribble {
    inner: Cursor<Vec<u8>>,
    step: usize,
}

impl Read for Dribble {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min(self.step);
        self.inner.read(&mut out[..most])
    }
}

fn open(format: Format, schema: &Schema, bytes: &[u8], step: usize) -> Result<Decoder, Failure> {
    let inner = Dribble { inner: Cursor::new(bytes.to_vec()), step };
    let source = Source::new("f".into(), None, Box::new(inner))?;
    Decoder::open(format, source, schema, &mut |warning| assert!(!warning.is_empty()))
}

/// Decodes bytes that arrive at most `step` at a time.
pub fn decode(format: Format, schema: &Schema, bytes: &[u8], step: usize) -> Decoded {
    let mut decoded = Decoded { refused: None, rows: Vec::new(), failed: false };
    let mut decoder = match open(format, schema, bytes, step) {
        Ok(decoder) => decoder,
        Err(failure) => {
            match &failure {
                Failure::Mend(text) => {
                    assert!(text.starts_with("f:") || text.starts_with("--map "), "{text}")
                }
                Failure::Run(_) => decoded.failed = true,
                Failure::ReaderGone => panic!("nothing was written"),
                Failure::Refused => panic!("nothing was verified"),
            }
            return Decoded { refused: Some(failure), ..decoded };
        }
    };
    let mut record = Record::new(schema.len());
    let ids: Vec<_> = schema.wanted().iter().flat_map(|wanted| wanted.slots.clone()).collect();
    let mut last_line = 0;
    loop {
        match decoder.next(&mut record) {
            Ok(Next::End) => return decoded,
            Ok(Next::Event) => {
                let fields = ids.iter().map(|&id| Value::of(record.field(id))).collect();
                decoded.rows.push(Row::Event { t_ns: record.t_ns, fields });
            }
            Err(ReadError::Bad(bad)) => {
                assert!(bad.line > last_line, "line {} after line {last_line}", bad.line);
                last_line = bad.line;
                assert!(!bad.what.is_empty() && !bad.expected.is_empty(), "{bad:?}");
                assert!(bad.message("f").lines().count() == 1, "{bad:?}");
                decoded.rows.push(Row::Bad(bad));
            }
            Err(ReadError::Io(_)) => {
                decoded.failed = true;
                return decoded;
            }
        }
    }
}

/// Decodes and keeps nothing.
pub fn count_events(format: Format, schema: &Schema, bytes: &[u8]) -> usize {
    let Ok(mut decoder) = open(format, schema, bytes, usize::MAX) else { return 0 };
    let mut record = Record::new(schema.len());
    let mut events = 0;
    loop {
        match decoder.next(&mut record) {
            Ok(Next::End) | Err(ReadError::Io(_)) => return events,
            Ok(Next::Event) => events += 1,
            Err(ReadError::Bad(_)) => {}
        }
    }
}

impl Value {
    fn of(field: &Field) -> Self {
        Self { kind: field.kind(), text: field.text().map(str::to_owned), whole: field.whole() }
    }
}

impl Decoded {
    /// The same trace in other clothes: all of its rows, or those before it broke off.
    pub fn assert_reads(&self, whole: &Decoded, broken: bool) {
        if broken {
            // A header that is refused is so before the end is missed.
            assert!(self.failed || whole.refused.is_some(), "{:?}", self.refused);
            assert!(whole.rows.starts_with(&self.rows), "{:?}, not {:?}", self.rows, whole.rows);
        } else {
            assert!(!self.failed, "{:?}", self.refused);
            let refused = |decoded: &Decoded| decoded.refused.as_ref().map(ToString::to_string);
            assert_eq!(refused(self), refused(whole));
            assert_eq!(self.rows, whole.rows);
        }
    }

    /// Every text is a part of the trace.
    pub fn assert_from(&self, trace: &[u8]) {
        for row in &self.rows {
            let Row::Event { fields, .. } = row else { continue };
            for text in fields.iter().filter_map(|value| value.text.as_ref()) {
                let found = memchr::memmem::find(trace, text.as_bytes()).is_some();
                // The number of bytes of nothing is 0.
                assert!(found || text == "0", "{text:?} is nowhere in the trace");
            }
        }
    }
}
