//! The lines of a trace, all in memory.

use flate2::read::MultiGzDecoder;
use std::io::Read;

/// A byte order mark is dropped, and a carriage return before each line's end.
pub fn lines(trace: &[u8]) -> Vec<&[u8]> {
    let trace = trace.strip_prefix(b"\xef\xbb\xbf").unwrap_or(trace);
    let mut lines: Vec<&[u8]> = trace.split(|&byte| byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop(); // what follows the last line's end is no line
    }
    lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect()
}

pub fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| b" \t\r".contains(byte))
}

/// The length of the longest line of a trace, and of the whole trace, unpacked.
pub fn longest(trace: &[u8]) -> (usize, usize) {
    let mut unpacked = MultiGzDecoder::new(trace);
    let mut plain = trace;
    let reader: &mut dyn Read = if trace.starts_with(&[0x1f, 0x8b]) { &mut unpacked } else { &mut plain };
    let (mut longest, mut current, mut whole) = (0, 0, 0);
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = reader.read(&mut piece) {
        for byte in &piece[..read] {
            current = if *byte == b'\n' { 0 } else { current + 1 };
            longest = longest.max(current);
        }
        whole += read;
    }
    (longest, whole)
}
