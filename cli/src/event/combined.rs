//! Web server logs in the combined log format, and the common format, which is its beginning.
//!
//! `ip ident user [time] "method path protocol" status bytes "referer" "user_agent"`
//!
//! Text stays as the server escaped it. A `-` means that there is nothing: the field is absent, and `bytes`
//! is 0. A request that is not `method path ...` (a scanner's noise) leaves both fields absent. Servers cut
//! long lines, so the last quoted text may lack its closing quote. Whatever follows the user agent is ignored.

use super::decoder::{Flaw, Input, Next, ReadError, blank, excerpt, utf8};
use super::field::{Kind, Record};
use super::lines::Line;
use super::schema::{FieldId, Schema};
use super::time;
use crate::failure::Failure;
use crate::policy::closest;
use memchr::memchr;

/// The fields of a line.
const FIELDS: [&str; 8] = ["ip", "time", "method", "path", "status", "bytes", "referer", "user_agent"];
const TIME: usize = 1;
const SHAPE: &str =
    "ip - - [17/May/2015:10:05:03 +0000] \"GET /path HTTP/1.1\" 200 1234 \"referer\" \"user agent\"";

/// Decodes web server logs.
pub struct Combined {
    lines: Input,
    /// For each of [`FIELDS`], the slots it fills.
    slots: [Vec<FieldId>; 8],
}

impl Combined {
    /// # Errors
    /// When a mapping names a field that a log line has not, or gives the time another field.
    pub fn new(lines: Input, schema: &Schema, warn: &mut dyn FnMut(String)) -> Result<Self, Failure> {
        let mut slots: [Vec<FieldId>; 8] = Default::default();
        for wanted in schema.wanted() {
            let source = wanted.source.as_str();
            match FIELDS.iter().position(|&field| field == source) {
                Some(index) => slots[index] = wanted.slots.clone(),
                None => {
                    let hint = closest(source, &FIELDS).map(|name| format!(" (did you mean `{name}`?)"));
                    let hint = hint.unwrap_or_default();
                    let listed = FIELDS.join(", ");
                    if let Some(mapping) = schema.mapping_of(source) {
                        let name = &mapping.name;
                        let text = format!(
                            "--map {name}={source}: a log line has no such field{hint}, expected one of {listed}"
                        );
                        return Err(Failure::Mend(text));
                    }
                    if schema.is_needed(wanted) {
                        warn(format!(
                            "log lines have no field `{source}`{hint}; it counts as absent in every event"
                        ));
                    }
                }
            }
        }
        Ok(Self { lines, slots })
    }

    /// Reads the next event.
    #[inline]
    pub fn next(&mut self, record: &mut Record) -> Result<Next, ReadError> {
        loop {
            let flaw = match self.lines.next()? {
                None => return Ok(Next::End),
                Some(Line::Bytes(bytes)) if blank(bytes) => continue,
                Some(Line::TooLong) => Flaw::too_long(),
                Some(Line::Bytes(bytes)) => match utf8(bytes).and_then(parse) {
                    Err(flaw) => flaw,
                    Ok(parts) => match time::log_time(parts[TIME].unwrap_or("").as_bytes()) {
                        None => {
                            let found = excerpt(parts[TIME].unwrap_or(""));
                            Flaw::new(format!("time is {found}"), time::LOG_TIME)
                        }
                        Some(t_ns) => {
                            record.clear();
                            record.t_ns = t_ns;
                            for (part, slots) in parts.iter().zip(&self.slots) {
                                let Some(text) = part else { continue };
                                slots.iter().for_each(|&slot| record.field_mut(slot).set(Kind::Plain, text));
                            }
                            return Ok(Next::Event);
                        }
                    },
                },
            };
            return Err(flaw.at(self.lines.number()));
        }
    }
}

/// The parts of a line, in the order of [`FIELDS`].
#[inline]
fn parse(line: &str) -> Result<[Option<&str>; 8], Flaw> {
    let missing = |part: &str| Flaw::new(format!("the line has no {part}"), SHAPE);
    let (ip, rest) =
        line.split_once(' ').filter(|(ip, _)| !ip.is_empty()).ok_or_else(|| missing("client address"))?;
    // The user's name may hold spaces, so the time is found by its bracket.
    let open = rest.find(" [").ok_or_else(|| missing("time in brackets"))?;
    let rest = &rest[open + 2..];
    let (time, rest) = rest.split_once("] ").ok_or_else(|| missing("time in brackets"))?;
    let (request, rest) = quoted(rest).ok_or_else(|| missing("request in quotes"))?;
    let (status, rest) = word(rest);
    if !(status == "-" || status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(Flaw::new(format!("status is {}", excerpt(status)), "three digits or -"));
    }
    let (bytes, rest) = word(rest);
    if !(bytes == "-" || !bytes.is_empty() && bytes.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(Flaw::new(format!("bytes is {}", excerpt(bytes)), "a whole number or -"));
    }
    let (referer, user_agent) = match rest.trim_end() {
        "" => (None, None), // the common format ends here
        rest => {
            let (referer, rest) = quoted(rest).ok_or_else(|| missing("referer in quotes"))?;
            let agent = quoted(rest.trim_start()).ok_or_else(|| missing("user agent in quotes"))?;
            (some(referer), some(agent.0))
        }
    };
    let (method, path) = match request.split_once(' ') {
        Some((method, rest)) if !method.is_empty() => {
            let path = rest.rsplit_once(' ').filter(|(_, protocol)| protocol.starts_with("HTTP/"));
            (Some(method), Some(path.map_or(rest, |(path, _)| path)))
        }
        _ => (None, None),
    };
    let bytes = if bytes == "-" { "0" } else { bytes };
    Ok([some(ip), Some(time), method, path, some(status), Some(bytes), referer, user_agent])
}

fn some(text: &str) -> Option<&str> {
    (text != "-").then_some(text)
}

/// The text up to the next space, and what follows the space.
#[inline]
fn word(text: &str) -> (&str, &str) {
    let text = text.strip_prefix(' ').unwrap_or(text);
    text.split_once(' ').unwrap_or((text, ""))
}

/// The text in quotes at the start, and what follows. A backslash guards the next character. A text that is cut
/// off before its closing quote goes to the end of the line.
#[inline]
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memchr(b'"', &bytes[from..]) {
        let quote = from + at;
        let guards = bytes[..quote].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if guards % 2 == 0 {
            return Some((&text[..quote], &text[quote + 1..]));
        }
        from = quote + 1;
    }
    Some((text, ""))
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    const LINE: &str = r#"10.0.0.1 - bob smith [17/May/2015:10:05:03 +0000] "GET /a b\" HTTP/1.1" 304 5 "-" "Mozilla \"5\"" 0.01"#;

    fn parts(line: &str) -> [Option<&str>; 8] {
        parse(line).unwrap()
    }

    #[test]
    fn a_combined_line_has_its_eight_fields() {
        let line =
            r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /x HTTP/1.1" 200 203023 "http://r/" "UA 1""#;
        let expected =
            ["10.0.0.1", "17/May/2015:10:05:03 +0000", "GET", "/x", "200", "203023", "http://r/", "UA 1"];
        assert_eq!(parts(line), expected.map(Some));
    }

    #[test]
    fn a_dash_is_nothing_and_bytes_of_nothing_are_zero() {
        let line = r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "-" - - "-" "-""#;
        let time = Some("17/May/2015:10:05:03 +0000");
        assert_eq!(parts(line), [Some("10.0.0.1"), time, None, None, None, Some("0"), None, None]);
    }

    #[test]
    fn escaped_quotes_names_with_spaces_and_extra_fields_are_no_obstacle() {
        let [_, _, method, path, status, bytes, _, agent] = parts(LINE);
        assert_eq!(
            [method, path, status, bytes, agent],
            ["GET", r#"/a b\""#, "304", "5", r#"Mozilla \"5\""#].map(Some)
        );
    }

    #[test]
    fn a_user_agent_that_was_cut_off_goes_to_the_end_of_the_line() {
        let line = r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /x HTTP/1.1" 200 1 "-" "Mozilla (bot"#;
        assert_eq!(parts(line)[7], Some("Mozilla (bot"));
    }

    #[test]
    fn the_common_format_has_no_referer_and_no_user_agent() {
        let line = r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /x HTTP/1.0" 200 1"#;
        assert_eq!(parts(line)[5..], [Some("1"), None, None]);
    }

    #[test]
    fn malformed_lines_say_what_is_missing() {
        let cases = [
            ("garbage", "client address"),
            ("10.0.0.1 - - 17/May/2015", "time in brackets"),
            ("10.0.0.1 - - [17/May/2015:10:05:03 +0000] GET", "request in quotes"),
            (r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 20 1"#, "status is \"20\""),
            (r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200"#, "bytes is \"\""),
            (r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 x"#, "referer in quotes"),
        ];
        for (line, expected) in cases {
            let flaw = parse(line).unwrap_err();
            assert!(flaw.what.contains(expected), "{line}: {}", flaw.what);
        }
    }

    #[test]
    fn events_carry_the_fields_that_are_wanted() {
        let good = r#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /x HTTP/1.0" 200 1"#;
        let late = good.replace("17/May", "32/May");
        let text = format!("{good}\n\n{late}\n{LINE}\n");
        let mut schema = Schema::new(&["client=ip".parse().unwrap()]).unwrap();
        let (client, path) = (schema.field("client"), schema.field("path"));
        let lines = Lines::new(Box::new(Cursor::new(text.into_bytes())) as Box<dyn std::io::Read>);
        let mut decoder = Combined::new(lines, &schema, &mut |_| panic!("no warning")).unwrap();
        let mut record = Record::new(schema.len());
        assert_eq!(decoder.next(&mut record).unwrap(), Next::Event);
        assert_eq!(record.t_ns, 1_431_857_103_000_000_000);
        assert_eq!((record.field(client).text(), record.field(path).text()), (Some("10.0.0.1"), Some("/x")));
        match decoder.next(&mut record).unwrap_err() {
            ReadError::Bad(bad) => assert!(bad.message("f").starts_with("f:3: time is \"32/May"), "{bad:?}"),
            ReadError::Io(error) => panic!("{error}"),
        }
        assert_eq!(decoder.next(&mut record).unwrap(), Next::Event);
        assert_eq!(decoder.next(&mut record).unwrap(), Next::End);
    }

    #[test]
    fn a_mapping_to_a_field_that_logs_have_not_is_refused() {
        let schema = |map: &str, name: &str| {
            let mut schema = Schema::new(&[map.parse().unwrap()]).unwrap();
            schema.field(name);
            schema
        };
        let lines = || Lines::new(Box::new(std::io::empty()) as Box<dyn std::io::Read>);
        let refused = Combined::new(lines(), &schema("agent=useragent", "agent"), &mut |_| ());
        let text = refused.err().unwrap().to_string();
        assert!(text.contains("did you mean `user_agent`?"), "{text}");
    }

    proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(text in "[\\[\\]\" \\\\a-c0-9/:+-]{0,80}") {
            let _ = parse(&text);
        }
    }
}
