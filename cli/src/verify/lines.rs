//! Lines of a journal, byte for byte, and the chain that ties each to the one before.

use sha2::{Digest, Sha256};
use std::io::{self, BufRead, Read};

/// The longest line that is read.
pub const LONGEST: usize = 1 << 20;
/// `,"hash":"`, 64 digits, `"}`.
const TAIL: usize = 75;

/// A hash of the chain.
pub type Hash = [u8; 32];

/// What comes next in the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// Bytes at the end that no line end follows: how many.
    Torn(usize),
    /// A line longer than [`LONGEST`].
    TooLong,
    /// Nothing.
    End,
}

/// Cuts a stream into lines at `\n`, and at nothing else.
pub struct Lines<R> {
    inner: R,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, buffer: Vec::new() }
    }

    /// The next line.
    ///
    /// # Errors
    /// Whatever the stream reports.
    pub fn next(&mut self) -> io::Result<Next<'_>> {
        self.buffer.clear();
        let most = LONGEST as u64 + 1;
        self.inner.by_ref().take(most).read_until(b'\n', &mut self.buffer)?;
        Ok(match self.buffer.split_last() {
            None => Next::End,
            Some((b'\n', line)) => Next::Line(line),
            Some(_) if self.buffer.len() > LONGEST => Next::TooLong,
            Some(_) => Next::Torn(self.buffer.len()),
        })
    }
}

/// The part of a line that its hash covers: what is before `,"hash":`. The line must be canonical.
pub fn covered(line: &[u8]) -> &[u8] {
    &line[..line.len().saturating_sub(TAIL)]
}

/// The hash of a line that comes after the one with the hash `before`.
pub fn chained(before: &Hash, covered: &[u8]) -> Hash {
    Sha256::new().chain_update(before).chain_update(covered).finalize().into()
}

/// As the journal writes a hash.
pub fn hex(hash: &Hash) -> String {
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// Is it lower-case hex of whole bytes?
pub fn is_hex(text: &str) -> bool {
    text.len().is_multiple_of(2) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_a_line_feed_and_nowhere_else() {
        let mut lines = Lines::new(&b"a\r\n\nb"[..]);
        assert_eq!(lines.next().unwrap(), Next::Line(b"a\r"));
        assert_eq!(lines.next().unwrap(), Next::Line(b""));
        assert_eq!(lines.next().unwrap(), Next::Torn(1));
        assert_eq!(lines.next().unwrap(), Next::End);
    }

    #[test]
    fn a_line_of_more_than_a_mebibyte_is_not_read() {
        let mut text = vec![b'x'; LONGEST];
        text.push(b'\n');
        assert_eq!(Lines::new(&text[..]).next().unwrap(), Next::Line(&text[..LONGEST]));
        text.insert(0, b'x');
        assert_eq!(Lines::new(&text[..]).next().unwrap(), Next::TooLong);
        assert_eq!(Lines::new(&text[..LONGEST + 1]).next().unwrap(), Next::TooLong);
        assert_eq!(Lines::new(&text[..LONGEST]).next().unwrap(), Next::Torn(LONGEST));
    }

    #[test]
    fn the_chain_is_sha_256_of_the_hash_before_and_the_covered_bytes() {
        // SHA-256 of 32 zero bytes, from FIPS 180-4's algorithm by another implementation.
        let zeros = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";
        assert_eq!(hex(&chained(&[0; 32], b"")), zeros);
        assert!(is_hex(zeros) && is_hex("") && !is_hex("A0") && !is_hex("0"));
    }
}
