//! The lines of a trace, all in memory.

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
