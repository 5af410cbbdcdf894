//! JSONL, by parsing every line into values.

use super::decoded::{Decoded, Row, Value};
use super::lines::{is_blank, lines};
use super::value::time;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::fmt;
use tollgate_cli::event::{FieldId, Kind, Schema};

/// An object's members, in order and with those that are there twice. Texts stay beside the values, which have lost
/// how numbers were spelled.
struct Members(Vec<(String, Box<RawValue>, Json)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some((name, text)) = map.next_entry::<String, Box<RawValue>>()? {
                    let value = serde_json::from_str(text.get()).map_err(A::Error::custom)?;
                    members.push((name, text, value));
                }
                Ok(Members(members))
            }
        }
        json.deserialize_map(Collect)
    }
}

/// What a line is.
enum Expected {
    Event(u64, Vec<Value>),
    Bad,
    /// The values' parser is stricter than need be with what the schema ignores: depth, numbers out of range,
    /// escapes of half a character.
    Either,
}

pub fn assert_same(decoded: &Decoded, schema: &Schema, trace: &[u8]) {
    assert!(decoded.refused.is_none() && !decoded.failed, "JSONL has no header to be refused");
    let mut rows = decoded.rows.iter();
    for (number, line) in (1..).zip(lines(trace)) {
        if is_blank(line) {
            continue;
        }
        let row = rows.next().unwrap_or_else(|| panic!("line {number} is missing"));
        match (row, expected(schema, line)) {
            (Row::Event { t_ns, fields }, Expected::Event(at, values)) => {
                assert_eq!((*t_ns, fields), (at, &values), "line {number}");
            }
            (Row::Bad(bad), Expected::Bad | Expected::Either) => assert_eq!(bad.line, number),
            (_, Expected::Either) => {}
            (row, Expected::Event(at, values)) => panic!("line {number}: {row:?}, not {values:?} at {at}"),
            (row, Expected::Bad) => panic!("line {number} is malformed: {row:?}"),
        }
    }
    assert!(rows.next().is_none(), "more rows than lines");
}

fn expected(schema: &Schema, line: &[u8]) -> Expected {
    let Ok(text) = std::str::from_utf8(line) else { return Expected::Bad };
    let Ok(Members(members)) = serde_json::from_str(text) else {
        let is_object = text.trim_start_matches([' ', '\t', '\r']).starts_with('{');
        let any_json = is_object && serde_json::from_str::<IgnoredAny>(text).is_ok();
        return if any_json { Expected::Either } else { Expected::Bad };
    };
    let mut values: Vec<(FieldId, Value)> = Vec::new();
    for wanted in schema.wanted() {
        let mut found = members.iter().filter(|(name, ..)| *name == wanted.source);
        let value = match (found.next(), found.next()) {
            (None, _) => Value::absent(),
            (Some((_, text, json)), None) => value(json, text.get()),
            (Some(_), Some(_)) => return Expected::Bad,
        };
        values.extend(wanted.slots.iter().map(|&slot| (slot, value.clone())));
    }
    let field = |slot| &values.iter().find(|(of, _)| *of == slot).expect("every slot is filled").1;
    match time(schema, field) {
        Some(t_ns) => Expected::Event(t_ns, values.into_iter().map(|(_, value)| value).collect()),
        None => Expected::Bad,
    }
}

/// The field that a value is; a number keeps its spelling.
fn value(json: &Json, text: &str) -> Value {
    match json {
        Json::Null => Value::absent(),
        Json::Bool(_) => Value::new(Kind::Bool, text),
        Json::String(text) => Value::new(Kind::Text, text),
        Json::Array(_) | Json::Object(_) => Value::new(Kind::Composite, ""),
        Json::Number(_) => Value::new(Kind::Number, text),
    }
}
