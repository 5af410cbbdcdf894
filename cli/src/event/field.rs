//! One event's fields, in slots that are reused from event to event.

use super::number::{self, Whole};
use super::schema::FieldId;

/// What kind of value a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Not there, or null.
    Absent,
    /// Text that is known to be text: a JSON string. No number, whatever it spells.
    Text,
    /// Text of a format that knows no types: a CSV field, a part of a log line. A number if it spells one.
    Plain,
    /// A JSON number, as it was spelled.
    Number,
    /// `true` or `false`.
    Bool,
    /// A JSON object or array: neither a key nor a cost.
    Composite,
}

/// One field. The text's allocation outlives the event.
#[derive(Debug, Clone)]
pub struct Field {
    kind: Kind,
    text: String,
}

impl Field {
    fn absent() -> Self {
        Self { kind: Kind::Absent, text: String::new() }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Overwrites the field.
    #[inline]
    pub fn set(&mut self, kind: Kind, text: &str) {
        self.kind = kind;
        self.text.clear();
        self.text.push_str(text);
    }

    #[inline]
    pub fn clear(&mut self) {
        self.kind = Kind::Absent;
    }

    /// The text by which keys and `when` compare: `200` equals `"200"`. `None` for what is absent, and for an
    /// object or array.
    #[inline]
    pub fn text(&self) -> Option<&str> {
        match self.kind {
            Kind::Absent | Kind::Composite => None,
            Kind::Text | Kind::Plain | Kind::Number | Kind::Bool => Some(&self.text),
        }
    }

    /// The value as a whole number of 64 bits.
    #[inline]
    pub fn whole(&self) -> Whole {
        match self.kind {
            Kind::Absent => Whole::Absent,
            Kind::Number | Kind::Plain => number::whole(&self.text),
            Kind::Text | Kind::Bool | Kind::Composite => Whole::Bad,
        }
    }

    /// The text whatever the kind, for messages.
    pub fn shown(&self) -> &str {
        match self.kind {
            Kind::Composite => "an object or array",
            _ => &self.text,
        }
    }
}

/// One event: its time and the fields a policy names.
#[derive(Debug, Clone)]
pub struct Record {
    /// Nanoseconds from 0 (numeric times) or from 1970-01-01 UTC (dates), as the trace says it.
    pub t_ns: u64,
    fields: Vec<Field>,
}

impl Record {
    /// An event with room for `fields` fields, all absent.
    pub fn new(fields: usize) -> Self {
        Self { t_ns: 0, fields: vec![Field::absent(); fields] }
    }

    #[inline]
    pub fn field(&self, id: FieldId) -> &Field {
        &self.fields[id.index()]
    }

    #[inline]
    pub fn field_mut(&mut self, id: FieldId) -> &mut Field {
        &mut self.fields[id.index()]
    }

    /// Forgets the previous event.
    #[inline]
    pub fn clear(&mut self) {
        self.fields.iter_mut().for_each(Field::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: Kind, text: &str) -> Field {
        let mut field = Field::absent();
        field.set(kind, text);
        field
    }

    #[test]
    fn values_compare_by_their_text_whatever_their_type() {
        for kind in [Kind::Text, Kind::Plain, Kind::Number] {
            assert_eq!(field(kind, "200").text(), Some("200"));
        }
        assert_eq!(field(Kind::Bool, "true").text(), Some("true"));
        assert_eq!(field(Kind::Text, "").text(), Some(""), "an empty key is a key");
        assert_eq!(field(Kind::Composite, "{}").text(), None);
        assert_eq!(Field::absent().text(), None);
    }

    #[test]
    fn a_json_string_is_no_number_but_text_of_an_untyped_format_may_be() {
        assert_eq!(field(Kind::Plain, "7").whole(), Whole::Is(7));
        assert_eq!(field(Kind::Number, "7").whole(), Whole::Is(7));
        assert_eq!(field(Kind::Text, "7").whole(), Whole::Bad);
        assert_eq!(field(Kind::Bool, "true").whole(), Whole::Bad);
        assert_eq!(Field::absent().whole(), Whole::Absent);
    }
}
