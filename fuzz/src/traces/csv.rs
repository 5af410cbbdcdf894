//! CSV, by the `csv` crate over the whole text.

use super::decoded::{Decoded, Row, Value};
use super::lines::{is_blank, lines};
use super::value::time;
use csv::{ReaderBuilder, StringRecord, Terminator};
use tollgate_cli::event::{FieldId, Kind, Schema};

pub fn assert_same(decoded: &Decoded, schema: &Schema, trace: &[u8]) {
    let lines = lines(trace);
    // The crate passes over empty lines only, and rejects a whole row for one byte that is not UTF-8.
    let comparable = lines.iter().all(|line| line.is_empty() || !is_blank(line));
    let Ok(text) = String::from_utf8(lines.join(&b'\n')) else { return };
    if !comparable || decoded.refused.is_some() {
        return;
    }
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .terminator(Terminator::Any(b'\n'))
        .from_reader(text.as_bytes());
    let mut records: Vec<StringRecord> =
        reader.records().collect::<Result<_, _>>().expect("text in memory is read");
    let mut rows = decoded.rows.as_slice();
    if let Some((Row::Bad(bad), before)) = rows.split_last()
        && bad.what == "a quoted field is not closed"
    {
        records.pop(); // the crate closes it at the end of the text
        rows = before;
    }
    let Some((header, records)) = records.split_first() else {
        assert!(rows.is_empty(), "rows without a header: {rows:?}");
        return;
    };
    assert_eq!(rows.len(), records.len(), "{records:?}");
    for (row, record) in rows.iter().zip(records) {
        match (row, expected(schema, header, record)) {
            (Row::Event { t_ns, fields }, Some((at, values))) => {
                assert_eq!((*t_ns, fields), (at, &values), "{record:?}");
            }
            (Row::Bad(_), None) => {}
            (row, expected) => panic!("{record:?}: {row:?}, not {expected:?}"),
        }
    }
}

/// The time and the fields; `None` for a row that is no event.
fn expected(schema: &Schema, header: &StringRecord, record: &StringRecord) -> Option<(u64, Vec<Value>)> {
    if record.len() != header.len() {
        return None;
    }
    let mut values: Vec<(FieldId, Value)> = Vec::new();
    for wanted in schema.wanted() {
        let column = header.iter().position(|name| name == wanted.source);
        let value = match column.map_or("", |column| &record[column]) {
            "" => Value::absent(),
            text => Value::new(Kind::Plain, text),
        };
        values.extend(wanted.slots.iter().map(|&slot| (slot, value.clone())));
    }
    let field = |slot| &values.iter().find(|(of, _)| *of == slot).expect("every slot is filled").1;
    let t_ns = time(schema, field)?;
    Some((t_ns, values.into_iter().map(|(_, value)| value).collect()))
}
