//! Tables for people, and text of strangers as a terminal may have it.

use std::fmt::{self, Write};

/// Longer texts of strangers are cut in tables.
const LONGEST: usize = 120;

/// The side of its column to which a cell keeps.
#[derive(Debug, Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

/// Writes rows in columns as wide as their widest cell.
pub fn write_rows<const N: usize>(
    out: &mut impl Write,
    align: &[Align; N],
    rows: &[[String; N]],
) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let mut line = String::from(" ");
        for ((cell, width), align) in row.iter().zip(widths).zip(align) {
            match align {
                Align::Left => write!(line, " {cell:<width$} ")?,
                Align::Right => write!(line, " {cell:>width$} ")?,
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A key or an id as it can be shown on a terminal: what is not seen escaped, so that two that differ look different, and not
/// endless.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c == '\\' { "\\\\".to_owned() } else { harmless(c) };
    let mut printable: String = text.chars().take(LONGEST).map(shown).collect();
    if text.chars().nth(LONGEST).is_some() {
        printable.push_str("...");
    }
    printable
}

/// A message in which there may be text of strangers: what is not seen escaped.
pub fn quiet(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// Control characters move the cursor, and those of format turn the direction of writing or take no room.
fn harmless(c: char) -> String {
    match c {
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => c.escape_unicode().to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_write_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{9b}\u{202e}"), "a\\u{1b}[2Jb\\n\\u{9b}\\u{202e}");
        assert_eq!(printable(&"x".repeat(200)).len(), 123);
        assert_eq!(printable(&"x".repeat(120)).len(), 120);
        assert_eq!(printable("käse 計"), "käse 計");
    }

    #[test]
    fn keys_that_differ_look_different() {
        assert_ne!(printable("\u{1b}"), printable("\\u{1b}"));
        assert_eq!(quiet("no \"a\\b\"\u{7}"), "no \"a\\b\"\\u{7}");
    }
}
