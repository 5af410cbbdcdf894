//! Which fields are read, and from which fields of the trace: names become slots once, before the first event.

use crate::failure::Failure;

/// A field's slot in a [`Record`](super::Record).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(u32);

impl FieldId {
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// `--map NAME=FIELD`: what the policy or the tool calls NAME is FIELD in the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub name: String,
    pub field: String,
}

impl std::str::FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, field)) if !name.is_empty() && !field.is_empty() => {
                Ok(Self { name: name.to_owned(), field: field.to_owned() })
            }
            _ => Err("expected NAME=FIELD, such as time=TIMESTAMP".into()),
        }
    }
}

/// The names of an event's time, in the order in which they are tried.
pub const TIMES: [&str; 3] = ["t_ns", "t_ms", "time"];

/// A field of the trace and the slots it fills.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its name in the trace.
    pub source: String,
    pub slots: Vec<FieldId>,
}

/// The fields to read.
#[derive(Debug, Clone)]
pub struct Schema {
    names: Vec<String>,
    wanted: Vec<Wanted>,
    mapped: Vec<Mapping>,
    /// Slots of `t_ns`, `t_ms` and `time`, as far as they are read.
    times: [Option<FieldId>; 3],
    /// Slots that a trace may well lack: their absence has a meaning.
    optional: Vec<FieldId>,
}

impl Schema {
    /// A schema that reads an event's time, under its mapped name if `mappings` has one.
    ///
    /// # Errors
    /// When two mappings give one name.
    pub fn new(mappings: &[Mapping]) -> Result<Self, Failure> {
        for (index, mapping) in mappings.iter().enumerate() {
            if mappings[..index].iter().any(|earlier| earlier.name == mapping.name) {
                let text = format!("--map gives `{}` twice, expected once", mapping.name);
                return Err(Failure::Mend(text));
            }
        }
        let mut schema = Self {
            names: Vec::new(),
            wanted: Vec::new(),
            mapped: mappings.to_vec(),
            times: [None; 3],
            optional: Vec::new(),
        };
        // A mapped time is meant; an unmapped field that happens to be called t_ms is then something else.
        let any_mapped = mappings.iter().any(|mapping| TIMES.contains(&mapping.name.as_str()));
        for (index, name) in TIMES.into_iter().enumerate() {
            if !any_mapped || mappings.iter().any(|mapping| mapping.name == name) {
                schema.times[index] = Some(schema.optional_field(name));
            }
        }
        Ok(schema)
    }

    /// The slot of the field that the policy calls `name`.
    pub fn field(&mut self, name: &str) -> FieldId {
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return FieldId(index as u32); // no larger than when it was made
        }
        let id = FieldId(self.names.len() as u32); // a name takes more than a byte, so 2^32 do not fit in memory
        self.names.push(name.to_owned());
        let mapped = self.mapped.iter().find(|mapping| mapping.name == name);
        let source = mapped.map_or(name, |mapping| mapping.field.as_str());
        match self.wanted.iter_mut().find(|wanted| wanted.source == source) {
            Some(wanted) => wanted.slots.push(id),
            None => self.wanted.push(Wanted { source: source.to_owned(), slots: vec![id] }),
        }
        id
    }

    /// [`field`](Self::field) for a field whose absence has a meaning of its own.
    pub fn optional_field(&mut self, name: &str) -> FieldId {
        let id = self.field(name);
        self.optional.push(id);
        id
    }

    /// Would a trace without this field make a limit of the policy useless?
    pub fn is_needed(&self, wanted: &Wanted) -> bool {
        wanted.slots.iter().any(|slot| !self.optional.contains(slot))
    }

    /// How many slots a record needs.
    #[allow(clippy::len_without_is_empty, reason = "the time always has one")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The fields of the trace that fill slots.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// Slots of `t_ns`, `t_ms` and `time`, as far as they are read.
    pub fn times(&self) -> [Option<FieldId>; 3] {
        self.times
    }

    /// Mappings whose name nothing reads: most likely slips.
    pub fn unused_mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mapped.iter().filter(|mapping| !self.names.contains(&mapping.name))
    }

    /// The mapping that reads the trace's field `source`, if one does.
    pub fn mapping_of(&self, source: &str) -> Option<&Mapping> {
        self.mapped.iter().find(|mapping| mapping.field == source && self.names.contains(&mapping.name))
    }

    /// The names of the trace's fields that can hold the time.
    pub fn time_sources(&self) -> Vec<&str> {
        let slots: Vec<_> = self.times.iter().flatten().collect();
        let holds_time = |wanted: &&Wanted| wanted.slots.iter().any(|slot| slots.contains(&slot));
        self.wanted.iter().filter(holds_time).map(|wanted| wanted.source.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Mapping {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_keeps_its_slot_and_reads_the_mapped_field() {
        let mut schema = Schema::new(&[map("cost=ContextTokens")]).unwrap();
        let cost = schema.field("cost");
        assert_eq!(schema.field("cost"), cost);
        let raw = schema.field("ContextTokens");
        assert_ne!(raw, cost);
        let wanted = schema.wanted().iter().find(|wanted| wanted.source == "ContextTokens").unwrap();
        assert_eq!(wanted.slots, [cost, raw], "one field of the trace can serve two names");
    }

    #[test]
    fn a_mapped_time_is_the_only_time() {
        let schema = Schema::new(&[map("time=TIMESTAMP")]).unwrap();
        assert_eq!(schema.time_sources(), ["TIMESTAMP"]);
        assert_eq!(Schema::new(&[]).unwrap().time_sources(), TIMES);
    }

    #[test]
    fn a_name_mapped_twice_and_a_mapping_without_a_field_are_refused() {
        assert!(Schema::new(&[map("a=b"), map("a=c")]).is_err());
        for text in ["a", "=b", "a=", ""] {
            assert!(text.parse::<Mapping>().is_err(), "{text:?}");
        }
        assert_eq!(map("a=b=c"), Mapping { name: "a".into(), field: "b=c".into() });
    }

    #[test]
    fn mappings_that_nothing_reads_are_known() {
        let mut schema = Schema::new(&[map("tiem=TIMESTAMP"), map("ip=client")]).unwrap();
        schema.field("ip");
        let unused: Vec<_> = schema.unused_mappings().map(|mapping| mapping.name.as_str()).collect();
        assert_eq!(unused, ["tiem"]);
    }
}
