//! From an object's keys to the slots of a record.

use super::field::{Kind, Record};
use super::schema::{Schema, Wanted};

/// Keys are remembered by their position in the object, since the lines of one trace resemble each other.
const HINTS: usize = 64;
const LONGEST_HINT: usize = 64;

/// A key that was once seen in some position.
struct Hint {
    /// The key as it is spelled in the usual object: `"key":`.
    spelled: Box<str>,
    wanted: Option<usize>,
}

impl Hint {
    fn key(&self) -> &str {
        &self.spelled[1..self.spelled.len() - 2]
    }
}

/// Finds the wanted fields of one object after another.
pub struct Keys {
    wanted: Vec<Wanted>,
    /// Which of `wanted` the present object has had.
    seen: Vec<bool>,
    hints: Vec<Hint>,
}

impl Keys {
    pub fn new(schema: &Schema) -> Self {
        let wanted = schema.wanted().to_vec();
        Self { seen: vec![false; wanted.len()], wanted, hints: Vec::new() }
    }

    /// Starts a new object.
    #[inline]
    pub fn start(&mut self, record: &mut Record) {
        record.clear();
        self.seen.fill(false);
    }

    /// If `text` begins with the key that is usual in this position, and its colon: the field that it names, and
    /// the length of both.
    #[inline]
    pub fn usual(&self, position: usize, text: &[u8]) -> Option<(Option<usize>, usize)> {
        let hint = self.hints.get(position)?;
        text.starts_with(hint.spelled.as_bytes()).then_some((hint.wanted, hint.spelled.len()))
    }

    /// The wanted field that `key`, in the given position of the object, names.
    #[inline]
    pub fn find(&mut self, position: usize, key: &str) -> Option<usize> {
        if let Some(hint) = self.hints.get(position)
            && hint.key() == key
        {
            return hint.wanted;
        }
        let found = self.wanted.iter().position(|wanted| wanted.source == key);
        // Spelled as it must be in JSON: a key with quotes or escapes in it would look different there.
        let plain = !key.bytes().any(|byte| matches!(byte, b'"' | b'\\') || byte < b' ');
        if position == self.hints.len() && position < HINTS && key.len() <= LONGEST_HINT && plain {
            self.hints.push(Hint { spelled: format!("\"{key}\":").into(), wanted: found });
        }
        found
    }

    /// Fills the slots of a wanted field; `false` if the object has had it already.
    #[inline]
    #[must_use]
    pub fn set(&mut self, wanted: usize, kind: Kind, text: &str, record: &mut Record) -> bool {
        if std::mem::replace(&mut self.seen[wanted], true) {
            return false;
        }
        self.wanted[wanted].slots.iter().for_each(|&slot| record.field_mut(slot).set(kind, text));
        true
    }

    /// A wanted field's name in the trace.
    pub fn name(&self, wanted: usize) -> &str {
        &self.wanted[wanted].source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_usual_in_its_position_is_known_with_its_colon() {
        let mut schema = Schema::new(&[]).unwrap();
        schema.field("agent");
        let mut keys = Keys::new(&schema);
        assert_eq!(keys.usual(0, b"\"x\":1}"), None);
        assert_eq!(keys.find(0, "x"), None);
        let agent = keys.find(1, "agent");
        assert!(agent.is_some());
        assert_eq!(keys.usual(0, b"\"x\":1}"), Some((None, 4)));
        assert_eq!(keys.usual(1, b"\"agent\":1}"), Some((agent, 8)));
        assert_eq!(keys.usual(1, b"\"agents\":1}"), None);
        assert_eq!(keys.usual(1, b"\"agent\" :1}"), None);
        assert_eq!(keys.find(0, "agent"), agent, "an unusual key is found all the same");
    }

    #[test]
    fn a_key_whose_spelling_needs_escapes_is_never_usual() {
        let mut keys = Keys::new(&Schema::new(&[]).unwrap());
        assert_eq!(keys.find(0, "a\":"), None);
        assert_eq!(keys.usual(0, b"\"a\":\":"), None);
    }
}
