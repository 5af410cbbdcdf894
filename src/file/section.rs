//! Typed access to one table of a policy file, with the line of everything and errors that say what is accepted.
//!
//! Shared with the `tollgate` tool, whose policies have more tables. It speaks of another crate's types, so it is promised
//! to nobody else.

use super::error::{Found, PolicyFileError};
use crate::duration;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A policy file's text: turns a place in it into a line.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// All of it.
    pub text: &'a str,
}

impl<'a> File<'a> {
    /// The file as TOML.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(self) -> Result<Spanned<DeTable<'a>>, PolicyFileError> {
        DeTable::parse(self.text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            self.mistake(&error.span().unwrap_or(0..0), "", Found::NotToml(message), "")
        })
    }

    /// The line, counted from 1, that holds the byte at `offset`.
    pub fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    /// A mistake at `span`.
    pub fn mistake(
        &self,
        span: &Range<usize>,
        place: impl Into<String>,
        found: Found,
        accepted: impl Display,
    ) -> PolicyFileError {
        PolicyFileError {
            line: self.line(span.start),
            place: place.into(),
            found,
            accepted: accepted.to_string(),
        }
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
    /// What headings put before a key: `velocity.` or `limit.`.
    path: String,
}

impl<'a> Section<'a> {
    /// The table that lies at `span`; `prefix` goes before its keys in messages.
    pub fn new(
        file: File<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        prefix: impl Into<String>,
    ) -> Self {
        Self { file, table, span, prefix: prefix.into(), path: String::new() }
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
    pub fn only(&self, known: &[&str]) -> Result<(), PolicyFileError> {
        let unknown =
            self.table.iter().map(|(key, _)| key).filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let meant = closest(key.get_ref(), known).map(str::to_owned);
        let place = format!("{}{}", self.prefix, key.get_ref());
        Err(self.file.mistake(&key.span(), place, Found::UnknownKey { meant }, known.join(", ")))
    }

    /// A mistake in the section as a whole, in words.
    pub fn mistake(&self, words: impl Into<String>, accepted: impl Display) -> PolicyFileError {
        self.found_here(Found::Words(words.into()), accepted)
    }

    /// The same, found by the library.
    pub fn found_here(&self, found: Found, accepted: impl Display) -> PolicyFileError {
        self.file.mistake(&self.span, self.name(), found, accepted)
    }

    /// A mistake in the value of `key`, or in the section where there is none.
    pub fn found(&self, key: &str, found: Found, accepted: impl Display) -> PolicyFileError {
        let span = self.get(key).map_or(self.span.clone(), Spanned::span);
        self.file.mistake(&span, format!("{}{key}", self.prefix), found, accepted)
    }

    /// The section's name: its prefix without what joins it to a key.
    fn name(&self) -> &str {
        self.prefix.trim_end_matches([':', ' ', '.'])
    }

    /// A key that must be there.
    pub fn missing(&self, key: &str, accepted: &str) -> PolicyFileError {
        self.file.mistake(&self.span, format!("{}{key}", self.prefix), Found::Missing, accepted)
    }

    /// A value that is not accepted.
    pub fn refused(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        accepted: impl Display,
    ) -> PolicyFileError {
        let found = Found::Value(self.file.excerpt(&value.span()));
        self.file.mistake(&value.span(), format!("{}{key}", self.prefix), found, accepted)
    }

    /// The value of `key` is not accepted, or there is none.
    pub fn wrong(&self, key: &str, accepted: impl Display) -> PolicyFileError {
        match self.get(key) {
            Some(value) => self.refused(key, value, accepted),
            None => self.found(key, Found::Missing, accepted),
        }
    }

    /// The line of `key`, or of the section where there is none.
    pub fn line(&self, key: &str) -> usize {
        self.file.line(self.get(key).map_or(self.span.start, |value| value.span().start))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// A text.
    pub fn text(&self, key: &str, accepted: &str) -> Result<Option<&'a str>, PolicyFileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.get_ref().as_str().map(Some).ok_or_else(|| self.refused(key, value, accepted))
    }

    /// A whole number from `least` to `most`.
    pub fn whole(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, PolicyFileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match whole(value.get_ref()) {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.refused(key, value, format_args!("a whole number, {least} to {most}"))),
        }
    }

    /// Any number; the library judges its range.
    pub fn number(&self, key: &str) -> Result<Option<f64>, PolicyFileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse().ok(),
            other => whole(other).map(|number| number as f64),
        };
        number.map(Some).ok_or_else(|| self.refused(key, value, "a finite number above 0"))
    }

    /// True or false.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, PolicyFileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.get_ref().as_bool().map(Some).ok_or_else(|| self.refused(key, value, "true or false"))
    }

    /// A duration, in nanoseconds.
    pub fn duration(&self, key: &str) -> Result<Option<u64>, PolicyFileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let nanos = value.get_ref().as_str().and_then(duration::parse);
        nanos.map(Some).ok_or_else(|| self.refused(key, value, duration::ACCEPTED))
    }

    /// An inner table, whose keys are spelled `key.inner` in messages.
    pub fn table(&self, key: &str, accepted: &str) -> Result<Option<Section<'a>>, PolicyFileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let table = value.get_ref().as_table().ok_or_else(|| self.refused(key, value, accepted))?;
        Ok(Some(self.inner(key, table, value.span(), format!("{}{key}.", self.prefix))))
    }

    /// The tables of an array of tables.
    pub fn tables(&self, key: &str) -> Result<Vec<Section<'a>>, PolicyFileError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let accepted = format!("tables headed [[{}{key}]]", self.path);
        let items = value.get_ref().as_array().ok_or_else(|| self.refused(key, value, &accepted))?;
        let mut sections = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let table = item.get_ref().as_table().ok_or_else(|| self.refused(key, item, &accepted))?;
            let prefix = format!("{}{key} {}: ", self.prefix, index + 1);
            sections.push(self.inner(key, table, item.span(), prefix));
        }
        Ok(sections)
    }

    fn inner(&self, key: &str, table: &'a DeTable<'a>, span: Range<usize>, prefix: String) -> Section<'a> {
        Section { path: format!("{}{key}.", self.path), ..Section::new(self.file, table, span, prefix) }
    }

    /// A list of texts.
    pub fn texts(&self, key: &str, accepted: &str) -> Result<Option<Vec<String>>, PolicyFileError> {
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
        let file = File { text: "a\nb\r\nc" };
        assert_eq!([0, 1, 2, 5, 99].map(|offset| file.line(offset)), [1, 1, 2, 3, 3]);
    }
}
