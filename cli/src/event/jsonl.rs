//! JSONL: one object a line. Only the fields that the policy names are kept; the rest is checked and skipped.
//!
//! Values are taken as their source text, so a number keeps its spelling and 64 bits are 64 bits. The usual line
//! takes a short cut ([`flat`]); the full parser is serde_json.

use super::decoder::{Flaw, Input, Next, ReadError, TimeSlots, blank, excerpt, utf8};
use super::field::{Kind, Record};
use super::flat;
use super::keys::Keys;
use super::lines::Line;
use super::schema::Schema;
use memchr::memchr;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Decodes JSONL.
pub struct Jsonl {
    lines: Input,
    times: TimeSlots,
    object: Object,
}

/// Reads one object after another.
struct Object {
    keys: Keys,
    /// What is wrong with the object beyond its syntax.
    flaw: Option<Flaw>,
}

impl Jsonl {
    pub fn new(lines: Input, schema: &Schema) -> Self {
        Self { lines, times: TimeSlots::of(schema), object: Object { keys: Keys::new(schema), flaw: None } }
    }

    /// Reads the next event.
    #[inline]
    pub fn next(&mut self, record: &mut Record) -> Result<Next, ReadError> {
        loop {
            let flaw = match self.lines.next()? {
                None => return Ok(Next::End),
                Some(Line::Bytes(bytes)) if blank(bytes) => continue,
                Some(Line::TooLong) => Flaw::too_long(),
                Some(Line::Bytes(bytes)) => match self.object.read(bytes, record) {
                    Err(flaw) => flaw,
                    Ok(()) => match self.times.read(record) {
                        Err(flaw) => flaw,
                        Ok(()) => return Ok(Next::Event),
                    },
                },
            };
            return Err(flaw.at(self.lines.number()));
        }
    }
}

impl Object {
    #[inline]
    fn read(&mut self, line: &[u8], record: &mut Record) -> Result<(), Flaw> {
        let text = utf8(line)?;
        self.keys.start(record);
        if flat::read(text, &mut self.keys, record) {
            return Ok(());
        }
        self.keys.start(record);
        let mut json = serde_json::Deserializer::from_str(text);
        let seed = ObjectSeed { object: self, record };
        seed.deserialize(&mut json).and_then(|()| json.end()).map_err(|error| self.flaw(&error))
    }

    #[cold]
    fn flaw(&mut self, error: &serde_json::Error) -> Flaw {
        if let Some(flaw) = self.flaw.take() {
            return flaw;
        }
        let column = error.column();
        let text = error.to_string();
        let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        Flaw::new(
            format!("not an event at column {column}: {reason}"),
            "one JSON object a line, such as {\"t_ms\":0,\"agent\":\"a\"}",
        )
    }

    /// Takes a value by its source text.
    fn store<E: Error>(&mut self, wanted: usize, raw: &str, record: &mut Record) -> Result<(), E> {
        let escaped: String;
        let (kind, text) = match raw.as_bytes() {
            [b'"', inner @ .., b'"'] if memchr(b'\\', inner).is_none() => {
                (Kind::Text, &raw[1..raw.len() - 1])
            }
            [b'"', ..] => {
                escaped = serde_json::from_str(raw).map_err(E::custom)?;
                (Kind::Text, escaped.as_str())
            }
            [b'n', ..] => (Kind::Absent, ""), // null
            [b't' | b'f', ..] => (Kind::Bool, raw),
            [b'{' | b'[', ..] => (Kind::Composite, ""),
            _ => (Kind::Number, raw),
        };
        if self.keys.set(wanted, kind, text, record) {
            return Ok(());
        }
        let name = excerpt(self.keys.name(wanted));
        self.flaw = Some(Flaw::new(format!("the field {name} appears twice"), "it once"));
        Err(E::custom("a field appears twice"))
    }
}

struct ObjectSeed<'a> {
    object: &'a mut Object,
    record: &'a mut Record,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = ();

    #[inline]
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut position = 0;
        while let Some(found) = map.next_key_seed(KeySeed { keys: &mut self.object.keys, position })? {
            position += 1;
            match found {
                Some(index) => {
                    let raw: &RawValue = map.next_value()?;
                    self.object.store(index, raw.get(), self.record)?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct KeySeed<'a> {
    keys: &'a mut Keys,
    position: usize,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Option<usize>;

    #[inline]
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    #[inline]
    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.keys.find(self.position, key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::super::number::Whole;
    use super::super::schema::FieldId;
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    struct Reader {
        decoder: Jsonl,
        record: Record,
        a: FieldId,
        cost: FieldId,
    }

    fn reader(text: impl Into<Vec<u8>>) -> Reader {
        let mut schema = Schema::new(&[]).unwrap();
        let (a, cost) = (schema.field("a"), schema.field("cost"));
        let lines = Lines::new(Box::new(Cursor::new(text.into())) as Box<dyn std::io::Read>);
        Reader { decoder: Jsonl::new(lines, &schema), record: Record::new(schema.len()), a, cost }
    }

    impl Reader {
        fn next(&mut self) -> Result<Next, String> {
            self.decoder.next(&mut self.record).map_err(|error| match error {
                ReadError::Bad(bad) => bad.message("f"),
                ReadError::Io(error) => error.to_string(),
            })
        }
        /// The next event's time and `a`.
        fn event(&mut self) -> (u64, Option<String>) {
            assert_eq!(self.next(), Ok(Next::Event));
            (self.record.t_ns, self.record.field(self.a).text().map(str::to_owned))
        }
    }

    #[test]
    fn times_are_read_in_each_of_their_forms() {
        let mut reader = reader(
            "{\"t_ns\":7}\n{\"t_ms\":7}\n{\"time\":\"1970-01-01T00:00:07Z\"}\n{\"time\":\"1970-01-01 00:00:07.5\"}",
        );
        let times: Vec<_> = (0..4).map(|_| reader.event().0).collect();
        assert_eq!(times, [7, 7_000_000, 7_000_000_000, 7_500_000_000]);
        assert_eq!(reader.next(), Ok(Next::End));
    }

    #[test]
    fn values_keep_their_text_and_null_is_absent() {
        let mut reader = reader(concat!(
            "{\"t_ns\":0,\"a\":\"x\\u00e9\\n\",\"cost\":18446744073709551615}\n",
            "{\"t_ns\":0,\"a\":200,\"cost\":-1}\n",
            "{\"a\":1.50,\"t_ns\":0,\"cost\":\"5\"}\n",
            "{\"t_ns\":0,\"a\":true,\"cost\":null}\n",
            "{\"t_ns\":0,\"a\":null}\n",
            "{\"t_ns\":0,\"a\":{\"b\":[1]},\"cost\":[]}\n",
            "{\"t_ns\":0,\"a\":\"\"}\n",
        ));
        let mut seen = Vec::new();
        for _ in 0..7 {
            let (_, a) = reader.event();
            seen.push((a, reader.record.field(reader.cost).whole()));
        }
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            seen,
            [
                (text("x\u{e9}\n"), Whole::Is(u64::MAX)),
                (text("200"), Whole::Bad),
                (text("1.50"), Whole::Bad),
                (text("true"), Whole::Absent),
                (None, Whole::Absent),
                (None, Whole::Bad),
                (text(""), Whole::Absent),
            ]
        );
    }

    #[test]
    fn fields_that_nobody_named_are_ignored_whatever_their_type() {
        let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        let mut reader =
            reader(format!("{{\"x\":{deep},\"t_ns\":3,\"y\":{{\"t_ns\":9,\"a\":1}},\"z\":1e999}}\n"));
        assert_eq!(reader.event(), (3, None));
    }

    #[test]
    fn an_event_leaves_nothing_behind_for_the_next() {
        let mut reader = reader("{\"t_ns\":1,\"a\":\"x\",\"cost\":4}\n{\"t_ns\":2}\n");
        assert_eq!(reader.event(), (1, Some("x".into())));
        assert_eq!(reader.event(), (2, None));
        assert_eq!(reader.record.field(reader.cost).whole(), Whole::Absent);
    }

    #[test]
    fn objects_of_other_shapes_are_read_right_in_any_order() {
        let mut reader = reader(concat!(
            "{\"t_ns\":1,\"q\":0,\"a\":\"x\"}\n{\"a\":\"y\",\"t_ns\":2,\"q\":0}\n{\"q\":0,\"a\":\"z\",\"t_ns\":3}\n",
            "{\"t_ns\":4,\"a\":\"w\"}\n{\"t_ns\":5,\"q\":0,\"a\":\"v\",\"more\":1}\n",
        ));
        let seen: Vec<_> =
            (0..5).map(|_| reader.event()).map(|(t, a)| format!("{t}{}", a.unwrap())).collect();
        assert_eq!(seen, ["1x", "2y", "3z", "4w", "5v"]);
    }

    #[test]
    fn malformed_lines_are_named_with_their_line_and_what_was_expected() {
        let cases = [
            ("[1]", "an object"),
            ("{\"t_ns\":1", "f:2: not an event at column 9"),
            ("{\"t_ns\":1} x", "trailing characters"),
            ("{}", "has no time, expected a field `t_ns`"),
            ("{\"t_ns\":null}", "has no time"),
            ("{\"t_ns\":-1}", "t_ns is \"-1\", expected a whole number of nanoseconds"),
            (
                "{\"t_ms\":1.5}",
                "t_ms is \"1.5\", expected a whole number of milliseconds, 0 to 18446744073709",
            ),
            ("{\"t_ms\":18446744073710}", "t_ms is"),
            ("{\"t_ns\":\"1\"}", "t_ns is \"1\""),
            ("{\"time\":\"soon\"}", "time is \"soon\", expected a date and time"),
            ("{\"time\":5}", "--map t_ms=FIELD"),
            ("{\"t_ns\":1,\"a\":1,\"a\":2}", "the field \"a\" appears twice, expected it once"),
            ("{\"t_ns\":1,\"a\":\"\\ud800\"}", "not an event"),
            ("{\"t_ns\":01}", "not an event"),
            ("not json", "expected one JSON object a line"),
        ];
        for (line, expected) in cases {
            let mut reader = reader(format!("\n{line}\n{{\"t_ns\":9}}\n"));
            let message = reader.next().unwrap_err();
            assert!(message.starts_with("f:2: ") && message.contains(expected), "{line}: {message}");
            assert_eq!(reader.event().0, 9, "the next line is read");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_a_malformed_line() {
        let mut reader = reader(b"{\"t_ns\":1,\"x\":\"\xff\"}\n{\"t_ns\":2}".to_vec());
        assert!(reader.next().unwrap_err().contains("byte 16 of the line is not UTF-8"));
        assert_eq!(reader.event().0, 2);
    }

    proptest! {
        #[test]
        fn no_line_makes_the_decoder_panic(text in "[\\[\\]{}\":,a-z0-9\\\\ .eE-]{0,60}") {
            let _ = reader(text).next();
        }

        #[test]
        fn any_text_survives_being_written_as_json(a: String, t_ns: u64) {
            let line = serde_json::json!({ "a": a, "t_ns": t_ns }).to_string();
            prop_assert_eq!(reader(line).event(), (t_ns, Some(a)));
        }
    }
}
