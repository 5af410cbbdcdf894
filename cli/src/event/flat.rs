//! A fast reader for the usual line of JSONL: a flat object of plain strings, whole numbers and literals.
//!
//! It takes only what it is sure of. Escapes, fractions, nested values and anything malformed make it give up,
//! and the full parser reads the line afresh; so it decides nothing that the full parser would decide otherwise.

use super::field::{Kind, Record};
use super::keys::Keys;

/// Reads a flat object into `record`. `false` if it gave up: the record is then half filled.
#[inline]
pub fn read(line: &str, keys: &mut Keys, record: &mut Record) -> bool {
    let mut at = Cursor { text: line, at: 0 };
    if !at.take(b'{') {
        return false;
    }
    for position in 0.. {
        let wanted = match keys.usual(position, at.rest()) {
            Some((wanted, length)) => {
                at.at += length;
                wanted
            }
            None => match at.string() {
                Some(key) if at.take(b':') => keys.find(position, key),
                _ => return false,
            },
        };
        at.spaces();
        let Some((kind, text)) = at.value() else { return false };
        if wanted.is_some_and(|wanted| !keys.set(wanted, kind, text, record)) {
            return false;
        }
        at.spaces();
        match at.next() {
            Some(b',') => at.spaces(),
            Some(b'}') => break,
            _ => return false,
        }
    }
    at.rest().iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// A place in the line. It only ever stops at ASCII characters, so slices of the text are valid.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// A string without escapes and control characters, without its quotes.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        if !self.take(b'"') {
            return None;
        }
        let (start, rest) = (self.at, self.rest());
        let length = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        self.at = start + length + 1;
        (rest[length] == b'"').then(|| self.text.get(start..start + length)).flatten()
    }

    #[inline]
    fn value(&mut self) -> Option<(Kind, &'a str)> {
        match self.peek()? {
            b'"' => Some((Kind::Text, self.string()?)),
            b'0'..=b'9' => Some((Kind::Number, self.whole()?)),
            b't' => self.literal("true", Kind::Bool),
            b'f' => self.literal("false", Kind::Bool),
            b'n' => self.literal("null", Kind::Absent),
            _ => None,
        }
    }

    /// Digits without a leading zero, that end at something that cannot go on with a number.
    #[inline]
    fn whole(&mut self) -> Option<&'a str> {
        let (start, rest) = (self.at, self.rest());
        let length = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        if rest[0] == b'0' && length > 1 || !matches!(rest[length], b',' | b'}' | b' ') {
            return None;
        }
        self.at = start + length;
        self.text.get(start..self.at)
    }

    #[inline]
    fn literal(&mut self, word: &'static str, kind: Kind) -> Option<(Kind, &'a str)> {
        let end = self.at + word.len();
        let found = self.text.get(self.at..end).filter(|found| *found == word)?;
        self.at = end;
        Some((kind, found))
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::Schema;
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const NAMES: [&str; 5] = ["a", "n", "t", "f", "z"];

    /// The kind and text of each of [`NAMES`]; `None` if the reader gave up.
    fn fields(line: &str) -> Option<[(Kind, String); 5]> {
        let mut schema = Schema::new(&[]).unwrap();
        let ids = NAMES.map(|name| schema.field(name));
        let (mut keys, mut record) = (Keys::new(&schema), Record::new(schema.len()));
        let mut once = || {
            keys.start(&mut record);
            let done = read(line, &mut keys, &mut record);
            let field = |id| {
                let field = record.field(id);
                (field.kind(), field.text().unwrap_or("").to_owned())
            };
            done.then(|| ids.map(field))
        };
        let first = once();
        assert_eq!(once(), first, "what was learned of the keys changes nothing");
        first
    }

    #[test]
    fn the_usual_line_is_read() {
        let line = "{\"a\": \"x y\",\"n\":18446744073709551615, \"q\":7,\"t\":true,\"f\":false,\"z\":null} ";
        let expected = [
            (Kind::Text, "x y"),
            (Kind::Number, "18446744073709551615"),
            (Kind::Bool, "true"),
            (Kind::Bool, "false"),
            (Kind::Absent, ""),
        ];
        assert_eq!(fields(line).unwrap(), expected.map(|(kind, text)| (kind, text.to_owned())));
    }

    #[test]
    fn everything_else_is_left_to_the_full_parser() {
        for line in [
            "",
            "{",
            "{}",
            "[1]",
            "{\"a\":1",
            "{\"a\":1}x",
            "{\"a\":1,}",
            "{\"a\":01}",
            "{\"a\":-1}",
            "{\"a\":1.5}",
            "{\"a\":1e3}",
            "{\"a\":[1]}",
            "{\"a\":{}}",
            "{\"a\":\"\\n\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":nul}",
            "{\"a\":truex}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":1 \"n\":2}",
            "{\"a\":\"x}",
            "{\"a\":\u{e9}}",
            "{\"a\":1,\"a\":1}",
            "{\"a\":",
            "{\"a\"",
        ] {
            assert_eq!(fields(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_the_full_parser_reads(
            line in "\\{(\"[ant\u{e9}]{0,2}\" ?: ?(\"[a-b\\\\n\u{e9}]{0,3}\"|-?[0-9]{1,3}(\\.5)?|true|null|\\[1\\]),? ?){0,3}\\} ?",
        ) {
            if let Some(seen) = fields(&line) {
                let object: Value = serde_json::from_str(&line).unwrap();
                for (name, (kind, text)) in NAMES.into_iter().zip(seen) {
                    let expected = match kind {
                        Kind::Absent => Value::Null, // also for a name that is not there
                        Kind::Text => Value::from(text),
                        _ => serde_json::from_str(&text).unwrap(),
                    };
                    prop_assert_eq!(&object[name], &expected);
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(line in "\\PC{0,40}") {
            let _ = fields(&line);
        }
    }
}
