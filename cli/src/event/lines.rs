//! Lines of a stream, from one reused buffer of bounded size.

use memchr::memchr;
use std::io::{self, Read};

/// The longest line that is read; a longer one is reported and passed over.
pub const LONGEST: usize = 16 << 20;
const FIRST_BUFFER: usize = 256 << 10;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Its bytes, without the line end (`\n` or `\r\n`).
    Bytes(&'a [u8]),
    /// It is longer than the bound.
    TooLong,
}

/// Splits a stream into lines. A byte order mark at the very start is dropped; the last line needs no end.
pub struct Lines<R> {
    inner: R,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    at_end: bool,
    number: u64,
    longest: usize,
}

impl<R: Read> Lines<R> {
    pub fn new(inner: R) -> Self {
        Self::bounded(inner, LONGEST, FIRST_BUFFER)
    }

    fn bounded(inner: R, longest: usize, first_buffer: usize) -> Self {
        let buffer = vec![0; first_buffer.max(4)];
        Self { inner, buffer, start: 0, end: 0, at_end: false, number: 0, longest }
    }

    /// The number of the line last returned, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or `None` at the end.
    ///
    /// # Errors
    /// Whatever the stream reports; the bytes of an unfinished line before the failure are not returned.
    #[inline]
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if self.number == 0 {
            self.skip_byte_order_mark()?;
        }
        let mut searched = 0;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                let line = self.start..self.start + searched + at;
                self.start = line.end + 1;
                self.number += 1;
                return Ok(Some(self.line(line)));
            }
            searched = self.end - self.start;
            if self.at_end {
                if searched == 0 {
                    return Ok(None);
                }
                let line = self.start..self.end;
                self.start = self.end;
                self.number += 1;
                return Ok(Some(self.line(line)));
            }
            if searched > self.longest {
                self.pass_over()?;
                self.number += 1;
                return Ok(Some(Line::TooLong));
            }
            self.fill()?;
        }
    }

    fn line(&self, range: std::ops::Range<usize>) -> Line<'_> {
        let bytes = &self.buffer[range];
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.len() > self.longest { Line::TooLong } else { Line::Bytes(bytes) }
    }

    /// Reads more behind the unread bytes, after making room.
    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            let most = self.longest + self.longest / 8 + 16;
            let size = (self.buffer.len() * 2).min(most.max(self.buffer.len() + 1));
            self.buffer.resize(size, 0);
        }
        self.end += self.read(self.end)?;
        Ok(())
    }

    fn read(&mut self, from: usize) -> io::Result<usize> {
        loop {
            match self.inner.read(&mut self.buffer[from..]) {
                Ok(0) => {
                    self.at_end = true;
                    return Ok(0);
                }
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Drops bytes up to and including the next line end.
    fn pass_over(&mut self) -> io::Result<()> {
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += at + 1;
                return Ok(());
            }
            (self.start, self.end) = (0, 0);
            if self.at_end {
                return Ok(());
            }
            self.end = self.read(0)?;
        }
    }

    fn skip_byte_order_mark(&mut self) -> io::Result<()> {
        while self.end - self.start < 3 && !self.at_end {
            self.fill()?;
        }
        if self.buffer[self.start..self.end].starts_with(b"\xef\xbb\xbf") {
            self.start += 3;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hands out at most `step` bytes a read.
    struct Dribble<'a> {
        rest: &'a [u8],
        step: usize,
    }
    impl Read for Dribble<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.step.min(out.len()).min(self.rest.len());
            out[..count].copy_from_slice(&self.rest[..count]);
            self.rest = &self.rest[count..];
            Ok(count)
        }
    }

    fn all(bytes: &[u8], step: usize, longest: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::bounded(Dribble { rest: bytes, step }, longest, 4);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push(match line {
                Line::Bytes(bytes) => Some(bytes.to_vec()),
                Line::TooLong => None,
            });
        }
        assert_eq!(lines.number(), seen.len() as u64);
        seen
    }

    #[test]
    fn line_ends_of_both_kinds_and_a_missing_last_one_are_understood() {
        let seen = all(b"\xef\xbb\xbfa\r\n\nbc\nd", 2, 100);
        assert_eq!(seen, ["a", "", "bc", "d"].map(|text| Some(text.as_bytes().to_vec())));
    }

    #[test]
    fn an_empty_stream_has_no_lines() {
        assert!(all(b"", 1, 100).is_empty());
        assert!(all(b"\xef\xbb\xbf", 1, 100).is_empty());
    }

    #[test]
    fn a_line_past_the_bound_is_passed_over_and_the_next_is_read() {
        let mut text = vec![b'x'; 5_000];
        text.extend_from_slice(b"\nnext\n");
        assert_eq!(all(&text, 7, 10), [None, Some(b"next".to_vec())]);
        text.truncate(5_000);
        assert_eq!(all(&text, 7, 10), [None]);
    }

    #[test]
    fn the_buffer_stays_near_the_bound() {
        let text = vec![b'x'; 100_000];
        let mut lines = Lines::bounded(&text[..], 1_000, 16);
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert!(lines.buffer.len() < 1_200, "{}", lines.buffer.len());
    }

    #[test]
    fn a_failed_read_is_reported_and_its_unfinished_line_is_not_returned() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("unplugged"))
            }
        }
        let mut lines = Lines::new((&b"whole\nhalf"[..]).chain(Fails));
        assert_eq!(lines.next().unwrap(), Some(Line::Bytes(b"whole")));
        assert_eq!(lines.next().unwrap_err().to_string(), "unplugged");
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_bytes_arrive(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..200),
            step in 1usize..40,
        ) {
            prop_assert_eq!(all(&bytes, step, 1_000), all(&bytes, 1_000, 1_000));
        }
    }
}
