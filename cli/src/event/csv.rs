//! CSV with a header. Quoting follows RFC 4180 (by csv-core); the lines, and with them the memory, are ours.
//!
//! A field without text is absent: CSV has no other way to say so.

use super::decoder::{Flaw, Input, Next, ReadError, TimeSlots, blank, utf8};
use super::field::{Kind, Record};
use super::lines::{LONGEST, Line};
use super::schema::{Schema, Wanted};
use crate::failure::Failure;
use crate::policy::closest;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

/// Decodes CSV.
pub struct Csv {
    rows: Rows,
    times: TimeSlots,
    /// For each column that fills slots: its index, and the slots.
    columns: Vec<(usize, Wanted)>,
    /// Columns of the header.
    width: usize,
}

impl Csv {
    /// Reads the header.
    pub fn new(
        lines: Input,
        schema: &Schema,
        file: &str,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, Failure> {
        let mut rows = Rows { lines, row: Row::new(), first_line: 0 };
        let times = TimeSlots::of(schema);
        let header = match rows.next() {
            // An empty file has no events, and so needs no columns.
            Ok(false) => return Ok(Self { rows, times, columns: Vec::new(), width: 0 }),
            Ok(true) => {
                (0..rows.row.fields).map(|column| rows.row.field(column).to_owned()).collect::<Vec<_>>()
            }
            Err(ReadError::Bad(bad)) => return Err(Failure::Mend(bad.message(file))),
            Err(ReadError::Io(cause)) => return Err(Failure::read(file, &cause)),
        };
        let columns = columns(&header, schema, file, rows.first_line, warn)?;
        Ok(Self { rows, times, columns, width: header.len() })
    }

    /// Reads the next event.
    #[inline]
    pub fn next(&mut self, record: &mut Record) -> Result<Next, ReadError> {
        if !self.rows.next()? {
            return Ok(Next::End);
        }
        self.read(record).map_err(|flaw| flaw.at(self.rows.first_line))?;
        Ok(Next::Event)
    }

    #[inline]
    fn read(&self, record: &mut Record) -> Result<(), Flaw> {
        let row = &self.rows.row;
        if row.fields != self.width {
            let expected = format!("{}, as many as the header", self.width);
            return Err(Flaw::new(format!("the row has {} fields", row.fields), expected));
        }
        record.clear();
        for (column, wanted) in &self.columns {
            let value = row.field(*column);
            if value.is_empty() {
                continue;
            }
            for &slot in &wanted.slots {
                record.field_mut(slot).set(Kind::Plain, value);
            }
        }
        self.times.read(record)
    }
}

/// Which columns are read.
fn columns(
    header: &[String],
    schema: &Schema,
    file: &str,
    line: u64,
    warn: &mut dyn FnMut(String),
) -> Result<Vec<(usize, Wanted)>, Failure> {
    let mend = |text: String| Err(Failure::Mend(format!("{file}:{line}: {text}")));
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let listed = names.join(", ");
    let times = schema.time_sources();
    let mut columns = Vec::new();
    for wanted in schema.wanted() {
        let source = wanted.source.as_str();
        let mut found = names.iter().enumerate().filter(|&(_, &name)| name == source);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => columns.push((index, wanted.clone())),
            (Some(_), Some(_)) => return mend(format!("the header has `{source}` twice, expected once")),
            (None, _) => {
                let hint = closest(source, &names)
                    .map(|name| format!(" (did you mean `{name}`?)"))
                    .unwrap_or_default();
                if let Some(mapping) = schema.mapping_of(source) {
                    let name = &mapping.name;
                    return mend(format!(
                        "--map {name}={source}: no such column{hint}, expected one of {listed}"
                    ));
                }
                if schema.is_needed(wanted) {
                    warn(format!(
                        "{file}:{line}: no column `{source}`{hint}; it counts as absent in every event"
                    ));
                }
            }
        }
    }
    if !columns.iter().any(|(_, wanted)| times.contains(&wanted.source.as_str())) {
        return mend(format!(
            "no column holds the time, expected t_ns, t_ms or time, or --map time=COLUMN with one of {listed}"
        ));
    }
    Ok(columns)
}

/// Rows over lines: a row ends with its line unless a quoted field is open.
struct Rows {
    lines: Input,
    row: Row,
    /// The line on which the current row began.
    first_line: u64,
}

impl Rows {
    /// Reads the next row; `false` at the end.
    #[inline]
    fn next(&mut self) -> Result<bool, ReadError> {
        self.row.clear();
        let mut open = false;
        loop {
            let fed = match self.lines.next()? {
                None if open => Err(Flaw::new("a quoted field is not closed", "a closing quote")),
                None => return Ok(false),
                Some(Line::Bytes(bytes)) if !open && blank(bytes) => continue,
                Some(Line::Bytes(bytes)) => {
                    utf8(bytes).map(|line| self.row.feed(line.as_bytes()) || self.row.feed(b"\n"))
                }
                Some(Line::TooLong) => Err(Flaw::too_long()),
            };
            if !open {
                self.first_line = self.lines.number();
            }
            match fed {
                Ok(true) => return Ok(true),
                Ok(false) if self.row.used <= LONGEST => open = true,
                Ok(false) => {
                    let flaw = Flaw::new("the row is too long", "a quote that is closed within 16 MiB");
                    return Err(self.give_up(flaw));
                }
                Err(flaw) => return Err(self.give_up(flaw)),
            }
        }
    }

    #[cold]
    fn give_up(&mut self, flaw: Flaw) -> ReadError {
        self.row.reader.reset();
        flaw.at(self.first_line)
    }
}

/// One row: its fields one behind the other, and where each ends.
struct Row {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    used: usize,
    fields: usize,
}

impl Row {
    fn new() -> Self {
        // Lines come without their ends, so a carriage return that is left is part of a field.
        let reader = ReaderBuilder::new().terminator(Terminator::Any(b'\n')).build();
        Self { reader, text: vec![0; 4 << 10], ends: vec![0; 64], used: 0, fields: 0 }
    }

    fn clear(&mut self) {
        (self.used, self.fields) = (0, 0);
    }

    /// Parses more of the row; `true` when that completes it.
    #[inline]
    fn feed(&mut self, mut input: &[u8]) -> bool {
        // An empty input would tell the reader that the file has ended.
        while !input.is_empty() {
            let (text, ends) = (&mut self.text[self.used..], &mut self.ends[self.fields..]);
            let (result, read, written, ended) = self.reader.read_record(input, text, ends);
            input = &input[read..];
            self.used += written;
            self.fields += ended;
            match result {
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => return true,
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
            }
        }
        false
    }

    /// The field in `column`, which must be below `fields`.
    #[inline]
    fn field(&self, column: usize) -> &str {
        let start = if column == 0 { 0 } else { self.ends[column - 1] };
        // Every line is UTF-8 and fields are cut at ASCII characters.
        std::str::from_utf8(&self.text[start..self.ends[column]]).unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::super::number::Whole;
    use super::super::schema::{FieldId, Mapping};
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    struct Opened {
        decoder: Result<Csv, String>,
        warnings: Vec<String>,
        record: Record,
        a: FieldId,
    }

    fn open(text: impl Into<Vec<u8>>, mappings: &[&str]) -> Opened {
        let mappings: Vec<Mapping> = mappings.iter().map(|text| text.parse().unwrap()).collect();
        let mut schema = Schema::new(&mappings).unwrap();
        let a = schema.field("a");
        let lines = Lines::new(Box::new(Cursor::new(text.into())) as Box<dyn std::io::Read>);
        let mut warnings = Vec::new();
        let decoder = Csv::new(lines, &schema, "f", &mut |text| warnings.push(text));
        Opened {
            decoder: decoder.map_err(|error| error.to_string()),
            warnings,
            record: Record::new(schema.len()),
            a,
        }
    }

    impl Opened {
        fn next(&mut self) -> Result<Next, String> {
            let decoder = self.decoder.as_mut().unwrap();
            decoder.next(&mut self.record).map_err(|error| match error {
                ReadError::Bad(bad) => bad.message("f"),
                ReadError::Io(error) => error.to_string(),
            })
        }
        /// The time and `a` of each event, and the message of each bad row.
        fn all(mut self) -> Vec<Result<(u64, Option<String>), String>> {
            let mut seen = Vec::new();
            loop {
                match self.next() {
                    Ok(Next::End) => return seen,
                    Ok(Next::Event) => {
                        seen.push(Ok((
                            self.record.t_ns,
                            self.record.field(self.a).text().map(str::to_owned),
                        )));
                    }
                    Err(message) => seen.push(Err(message)),
                }
            }
        }
    }

    fn event(t_ns: u64, a: &str) -> Result<(u64, Option<String>), String> {
        Ok((t_ns, Some(a.to_owned())))
    }

    #[test]
    fn the_header_names_the_columns_and_a_mapping_renames_them() {
        let text = "TIMESTAMP,x,b\n1970-01-01 00:00:01.5000000,q,v";
        let seen = open(text, &["time=TIMESTAMP", "a=b"]).all();
        assert_eq!(seen, [event(1_500_000_000, "v")]);
    }

    #[test]
    fn quoted_fields_may_hold_commas_quotes_and_line_ends() {
        let text = "\u{feff}t_ns,a\r\n1,\"x,\"\"y\"\"\nz\"\r\n\r\n2,w\r\n";
        assert_eq!(open(text, &[]).all(), [event(1, "x,\"y\"\nz"), event(2, "w")]);
    }

    #[test]
    fn a_field_without_text_is_absent() {
        let mut opened = open("t_ns,a\n1,\n", &[]);
        assert_eq!(opened.next(), Ok(Next::Event));
        assert_eq!(opened.record.field(opened.a).whole(), Whole::Absent);
        assert_eq!(opened.record.field(opened.a).text(), None);
    }

    #[test]
    fn a_row_of_another_width_is_malformed_and_the_next_is_read() {
        let seen = open("t_ns,a\n1\n2,x\n3,y,z\n", &[]).all();
        let message = |line, width| {
            Err(format!("f:{line}: the row has {width} fields, expected 2, as many as the header"))
        };
        assert_eq!(seen, [message(2, 1), event(2, "x"), message(4, 3)]);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_malformed_where_it_began() {
        let seen = open("t_ns,a\n1,x\n2,\"y\n3,z\n", &[]).all();
        assert_eq!(
            seen,
            [event(1, "x"), Err("f:3: a quoted field is not closed, expected a closing quote".into())]
        );
    }

    #[test]
    fn a_line_that_is_not_utf8_is_malformed() {
        let seen = open(b"t_ns,a\n1,\xff\n2,x\n".to_vec(), &[]).all();
        assert_eq!(seen[1], event(2, "x"));
        assert!(seen[0].as_ref().unwrap_err().starts_with("f:2: byte 3"));
    }

    #[test]
    fn times_are_checked() {
        let seen = open("t_ms,a\n-1,x\n,x\n5,x\n", &[]).all();
        assert!(seen[0].as_ref().unwrap_err().starts_with("f:2: t_ms is \"-1\", expected a whole number"));
        assert!(seen[1].as_ref().unwrap_err().starts_with("f:3: the event has no time"));
        assert_eq!(seen[2], event(5_000_000, "x"));
    }

    #[test]
    fn an_empty_file_has_no_events() {
        assert!(open("", &[]).all().is_empty());
        assert!(open("t_ns,a\n", &[]).all().is_empty());
    }

    #[test]
    fn an_unusable_header_says_what_is_missing() {
        let refused = |text: &str, mappings: &[&str]| open(text, mappings).decoder.err().unwrap();
        let no_time = refused("TIMESTAMP,a\n", &[]);
        assert!(
            no_time.starts_with("f:1: no column holds the time") && no_time.contains("TIMESTAMP, a"),
            "{no_time}"
        );
        let slip = refused("TIMESTAMP,a\n", &["time=TIMESTMP"]);
        assert!(slip.contains("--map time=TIMESTMP: no such column (did you mean `TIMESTAMP`?)"), "{slip}");
        assert!(refused("t_ns,a,a\n", &[]).contains("the header has `a` twice"));
    }

    #[test]
    fn a_policys_field_without_a_column_is_warned_about_once() {
        let opened = open("t_ns,b\n1,x\n", &[]);
        assert_eq!(opened.warnings, ["f:1: no column `a`; it counts as absent in every event"]);
        assert_eq!(opened.all(), [Ok((1, None))]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_decoder_panic(text in "[\",\n\ra-c0-9]{0,80}") {
            let opened = open(format!("t_ns,a\n{text}"), &[]);
            let _ = opened.all();
        }

        #[test]
        fn any_text_survives_quoting(a in "[^\r]{1,30}", t_ns: u64) {
            let quoted = a.replace('"', "\"\"");
            prop_assert_eq!(open(format!("t_ns,a\n{t_ns},\"{quoted}\"\n"), &[]).all(), [event(t_ns, &a)]);
        }
    }
}
