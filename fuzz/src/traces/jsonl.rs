//! JSONL, by parsing every line into values.

use super::decoded::{Decoded, Row, Value};
use super::lines::{is_blank, lines};
use super::value::time;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value as Json};
use std::fmt;
use tollgate_cli::event::{FieldId, Kind, Schema};

/// An object's members, in order and with those that are there twice.
struct Members(Vec<(String, Json)>);

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
                while let Some(member) = map.next_entry()? {
                    members.push(member);
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
        match (row, expected(schema, line, row)) {
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

fn expected(schema: &Schema, line: &[u8], ours: &Row) -> Expected {
    let Ok(text) = std::str::from_utf8(line) else { return Expected::Bad };
    let Ok(Members(members)) = serde_json::from_str(text) else {
        let is_object = text.trim_start_matches([' ', '\t', '\r']).starts_with('{');
        let any_json = is_object && serde_json::from_str::<IgnoredAny>(text).is_ok();
        return if any_json { Expected::Either } else { Expected::Bad };
    };
    let mut values: Vec<(FieldId, Value)> = Vec::new();
    for wanted in schema.wanted() {
        let mut found = members.iter().filter(|(name, _)| *name == wanted.source);
        let value = match (found.next(), found.next()) {
            (None, _) => Value::absent(),
            (Some((_, json)), None) => value(json, text, ours, values.len()),
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

/// The field that a value is. A number keeps its spelling, which values have lost: it is taken from ours in `place`,
/// if it is spelled so in the line and is that number; else from the value.
fn value(json: &Json, line: &str, ours: &Row, place: usize) -> Value {
    match json {
        Json::Null => Value::absent(),
        Json::Bool(true) => Value::new(Kind::Bool, "true"),
        Json::Bool(false) => Value::new(Kind::Bool, "false"),
        Json::String(text) => Value::new(Kind::Text, text),
        Json::Array(_) | Json::Object(_) => Value::new(Kind::Composite, ""),
        Json::Number(number) => {
            let ours = match ours {
                Row::Event { fields, .. } => fields.get(place).and_then(|value| value.text.clone()),
                Row::Bad(_) => None,
            };
            let same = |text: &String| {
                line.contains(text.as_str())
                    && serde_json::from_str::<Number>(text).is_ok_and(|n| n == *number)
            };
            Value::new(Kind::Number, &ours.filter(same).unwrap_or_else(|| number.to_string()))
        }
    }
}
