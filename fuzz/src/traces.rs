//! Trace decoders on any bytes, with any schema.
//!
//! The first byte of an input says the format and what else is tried (`@`, `A`, `B`: JSONL, CSV, logs); the rest of
//! its first line is the schema, fields and mappings separated by `|`; what follows is the trace.

mod built;
mod csv;
mod decoded;
mod instant;
mod jsonl;
mod lines;
mod value;

use crate::memory::peak_of;
use decoded::{count_events, decode};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read, Write};
use tollgate_cli::event::{Format, Mapping, Schema};

/// The longest line that decoders keep.
const LONGEST: usize = 16 << 20;
/// What an input may unpack to and still be compared. Beyond it only memory is watched.
const MOST_UNPACKED: u64 = 1 << 20;

/// # Panics
/// On a panic of a decoder, memory out of bounds, or an event that the slow reference reads otherwise.
pub fn check(bytes: &[u8]) {
    let Some((&flags, rest)) = bytes.split_first() else { return };
    let cut = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    let (head, trace) = (&rest[..cut], rest.get(cut + 1..).unwrap_or_default());
    let Some(schema) = schema(&String::from_utf8_lossy(head)) else { return };
    let format = match flags & 3 {
        0 => Format::Jsonl,
        1 => Format::Csv,
        2 => Format::Combined,
        _ => return built::check(trace),
    };
    assert_bounded(format, &schema, trace);
    let Some((plain, broken)) = unpacked(trace) else { return };
    if is_packed(&plain) {
        return; // packed twice, of which only one layer is unpacked
    }
    let decoded = decode(format, &schema, &plain, usize::MAX);
    if is_packed(trace) {
        decode(format, &schema, trace, usize::MAX).assert_reads(&decoded, broken);
    } else {
        match flags >> 2 & 3 {
            0 => {}
            1 => decode(format, &schema, &plain, 1 + plain.len() % 7).assert_reads(&decoded, false),
            2 => {
                let (first, second) = plain.split_at(plain.len() / 2);
                let members = [packed(first), packed(second)].concat();
                decode(format, &schema, &members, usize::MAX).assert_reads(&decoded, false);
            }
            _ => {
                let mut cut_off = packed(&plain);
                cut_off.truncate((cut_off.len() - 1 - plain.len() % 9).max(2));
                decode(format, &schema, &cut_off, usize::MAX).assert_reads(&decoded, true);
            }
        }
    }
    match format {
        Format::Jsonl => jsonl::assert_same(&decoded, &schema, &plain),
        Format::Csv => csv::assert_same(&decoded, &schema, &plain),
        Format::Combined => decoded.assert_from(&plain),
    }
}

fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// `None` for what the command line refuses.
fn schema(head: &str) -> Option<Schema> {
    let (mappings, names): (Vec<&str>, Vec<&str>) =
        head.split('|').filter(|word| !word.is_empty()).take(12).partition(|word| word.contains('='));
    let mappings: Vec<Mapping> = mappings.into_iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let mut schema = Schema::new(&mappings).ok()?;
    for (place, name) in names.into_iter().enumerate() {
        _ = if place % 3 == 2 { schema.optional_field(name) } else { schema.field(name) };
    }
    Some(schema)
}

/// Decoding takes memory for a line (in CSV, for a row, which may have many), not for a trace.
fn assert_bounded(format: Format, schema: &Schema, trace: &[u8]) {
    let longest = match format {
        Format::Csv => lines::longest(trace).1,
        Format::Jsonl | Format::Combined => lines::longest(trace).0,
    };
    let (_, peak) = peak_of(|| count_events(format, schema, trace));
    let most = (1 << 20) + (8 + 2 * schema.len()) * longest.min(LONGEST) + trace.len();
    assert!(peak <= most, "{peak} bytes, more than {most}, with lines of up to {longest} bytes");
}

/// The plain bytes, and whether the stream breaks off behind them; `None` if there are too many.
fn unpacked(trace: &[u8]) -> Option<(Vec<u8>, bool)> {
    if !is_packed(trace) {
        return Some((trace.to_vec(), false));
    }
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(trace).take(MOST_UNPACKED).read_to_end(&mut plain);
    ((plain.len() as u64) < MOST_UNPACKED).then_some((plain, read.is_err()))
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).and_then(|()| out.finish()).expect("memory takes everything")
}
