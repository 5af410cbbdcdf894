//! Typed access to one table of a policy file, with the line of everything and errors that say what is accepted.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A policy file's name and text: turns a place in it into `file:line`.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl File<'_> {
    /// The line, counted from 1, that holds the byte at `offset`.
    pub fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    /// A mistake at `span`.
    pub fn mistake(&self, span: &Range<usize>, text: impl Display) -> Failure {
        Failure::Mend(format!("{}:{}: {text}", self.name, self.line(span.start)))
    }

    /// The source text of `span`, shortened for a message.
    fn excerpt(&self, span: &Range<usize>) -> String {
        let text = self.text.get(span.clone()).unwrap_or("?");
        match text.char_indices().nth(60) {
            Some((cut, _)) => format!("{}...", &text[..cut]),
            None => text.to_owned(),
        }
    }
}

/// Lines of the keys of one table, kept after parsing for mistakes that only the library can see.
#[derive(Debug, Clone, Default)]
pub struct Places {
    header: usize,
    keys: BTreeMap<String, usize>,
}

impl Places {
    /// The line of `key`, or the table's own line where the key is left to its default.
    pub fn line(&self, key: &str) -> usize {
        self.keys.get(key).copied().unwrap_or(self.header)
    }

    /// Is `key` in the file, rather than left to its default?
    pub fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }
}

/// One table: `[velocity]`, a `[[limit]]`, or the inline table of a `rate`.
pub struct Section<'a> {
    file: File<'a>,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    /// What messages put before a key: `velocity.` or `limit "per-client": `.
    prefix: String,
}

impl<'a> Section<'a> {
    pub fn new(
        file: File<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        prefix: impl Into<String>,
    ) -> Self {
        Self { file, table, span, prefix: prefix.into() }
    }

    /// Renames the section in messages, once its name is known.
    pub fn rename(&mut self, prefix: impl Into<String>) {
        self.prefix = prefix.into();
    }

    /// The lines of all keys.
    pub fn places(&self) -> Places {
        let keys =
            self.table.iter().map(|(key, _)| (key.get_ref().to_string(), self.file.line(key.span().start)));
        Places { header: self.file.line(self.span.start), keys: keys.collect() }
    }

    /// Refuses keys other than `known`, the first in the file first, with the likeliest meant one.
    pub fn only(&self, known: &[&str]) -> Result<(), Failure> {
        let unknown =
            self.table.iter().map(|(key, _)| key).filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let hint = match closest(key.get_ref(), known) {
            Some(meant) => format!("did you mean `{meant}`? "),
            None => String::new(),
        };
        let prefix = &self.prefix;
        let text = format!("unknown key `{prefix}{}`: {hint}accepted: {}", key.get_ref(), known.join(", "));
        Err(self.file.mistake(&key.span(), text))
    }

    /// A mistake in the section as a whole.
    pub fn mistake(&self, text: impl Display) -> Failure {
        self.file.mistake(&self.span, text)
    }

    /// A key that must be there.
    pub fn missing(&self, key: &str, accepted: &str) -> Failure {
        self.mistake(format_args!("{}{key} is missing, accepted: {accepted}", self.prefix))
    }

    /// A value that is not accepted.
    pub fn refused(&self, key: &str, value: &Spanned<DeValue<'_>>, accepted: impl Display) -> Failure {
        let found = self.file.excerpt(&value.span());
        self.file.mistake(&value.span(), format!("{}{key} is {found}, accepted: {accepted}", self.prefix))
    }

    pub fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    pub fn text(&self, key: &str, accepted: &str) -> Result<Option<&'a str>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.get_ref().as_str().map(Some).ok_or_else(|| self.refused(key, value, accepted))
    }

    /// A whole number from `least` to `most`.
    pub fn whole(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match whole(value.get_ref()) {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.refused(key, value, format_args!("a whole number, {least} to {most}"))),
        }
    }

    /// Any number; the library judges its range.
    pub fn number(&self, key: &str) -> Result<Option<f64>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse().ok(),
            other => whole(other).map(|number| number as f64),
        };
        number.map(Some).ok_or_else(|| self.refused(key, value, "a finite number above 0"))
    }

    pub fn duration(&self, key: &str) -> Result<Option<u64>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let nanos = value.get_ref().as_str().and_then(super::duration::parse);
        nanos.map(Some).ok_or_else(|| self.refused(key, value, super::duration::ACCEPTED))
    }

    /// An inner table, whose keys are spelled `key.inner` in messages.
    pub fn table(&self, key: &str, accepted: &str) -> Result<Option<Section<'a>>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let table = value.get_ref().as_table().ok_or_else(|| self.refused(key, value, accepted))?;
        Ok(Some(Section::new(self.file, table, value.span(), format!("{}{key}.", self.prefix))))
    }

    /// The tables of an array of tables.
    pub fn tables(&self, key: &str) -> Result<Vec<Section<'a>>, Failure> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let accepted = format!("tables headed [[{key}]]");
        let items = value.get_ref().as_array().ok_or_else(|| self.refused(key, value, &accepted))?;
        let mut sections = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let table = item.get_ref().as_table().ok_or_else(|| self.refused(key, item, &accepted))?;
            sections.push(Section::new(self.file, table, item.span(), format!("{key} {}: ", index + 1)));
        }
        Ok(sections)
    }

    /// A list of texts.
    pub fn texts(&self, key: &str, accepted: &str) -> Result<Option<Vec<String>>, Failure> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = value.get_ref().as_array().ok_or_else(|| self.refused(key, value, accepted))?;
        let text = |item: &Spanned<DeValue<'_>>| match item.get_ref().as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(self.refused(key, item, accepted)),
        };
        items.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// All keys with their values, in the order of the file.
    pub fn entries(&self) -> Vec<(&'a str, &'a Spanned<DeValue<'a>>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| (key.get_ref().as_ref(), value)).collect()
    }
}

/// A whole number of 64 bits: wider than TOML's signed integers, because the library's amounts are.
pub fn whole(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str().trim_start_matches('+'), integer.radix()).ok()
}

/// The known word that `word` most resembles, if it resembles one at all.
pub fn closest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = word.to_lowercase();
    let scored =
        known.iter().map(|&candidate| (strsim::jaro_winkler(&word, &candidate.to_lowercase()), candidate));
    scored
        .filter(|&(score, _)| score > 0.72)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        let known = ["bucket_cap", "pipeline", "velocity", "agent_velocity", "limit"];
        assert_eq!(closest("bukcet_cap", &known), Some("bucket_cap"));
        assert_eq!(closest("limits", &known), Some("limit"));
        assert_eq!(closest("Velocity", &known), Some("velocity"));
        assert_eq!(closest("zzz", &known), None);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let file = File { name: "p", text: "a\nb\r\nc" };
        assert_eq!([0, 1, 2, 5, 99].map(|offset| file.line(offset)), [1, 1, 2, 3, 3]);
    }
}
