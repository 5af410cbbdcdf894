//! Log lines, built from their parts: the decoder must find the parts again.

use super::decoded::{Row, Value, decode};
use super::instant::log_time;
use tollgate_cli::event::{Format, Kind, Schema};

const FIELDS: [&str; 7] = ["ip", "method", "path", "status", "bytes", "referer", "user_agent"];

/// Every eight lines of `parts` make a line of a log; those that no log has are left out.
pub fn check(parts: &[u8]) {
    let text = String::from_utf8_lossy(parts);
    let parts: Vec<&str> = text.split('\n').collect();
    let built: Vec<(String, Row)> = parts.chunks_exact(8).filter_map(build).collect();
    let log: String = built.iter().map(|(line, _)| format!("{line}\n")).collect();
    let mut schema = Schema::new(&[]).expect("no mapping, no mistake");
    let expected: Vec<Row> = built.into_iter().map(|(_, row)| row).collect();
    FIELDS.iter().for_each(|name| _ = schema.field(name));
    let decoded = decode(Format::Combined, &schema, log.as_bytes(), usize::MAX);
    // The schema's first slots are those of the time, of which a log has one.
    let time_slots = schema.wanted().len() - FIELDS.len();
    let rows: Vec<Row> = decoded
        .rows
        .into_iter()
        .map(|row| match row {
            Row::Event { t_ns, fields } => Row::Event { t_ns, fields: fields[time_slots..].to_vec() },
            bad => bad,
        })
        .collect();
    assert_eq!(rows, expected, "{log}");
}

/// A line of a log and its fields.
fn build(parts: &[&str]) -> Option<(String, Row)> {
    let [ip, user, time, method, path, status, referer, agent] = parts else { return None };
    let t_ns = log_time(time)?;
    let no = |text: &str, unwanted: &[&str]| unwanted.iter().all(|part| !text.contains(part));
    let word = |text: &str| !text.is_empty() && no(text, &[" "]);
    let (status, bytes) = status.split_once(' ')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_status = status == "-" || status.len() == 3 && digits(status);
    // At the very start of a stream it is a byte order mark, and no part of the address.
    let fits = word(ip)
        && !ip.starts_with('\u{feff}')
        && no(user, &["["])
        && word(method)
        && !path.contains(" HTTP/")
        && is_status
        && (bytes == "-" || digits(bytes));
    if !fits || format!("{ip} ").trim_matches([' ', '\t', '\r']).is_empty() {
        return None;
    }
    // As servers write it: what would end the text early is escaped, and stays so.
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let [method, path, referer, agent] = [method, path, referer, agent].map(|text| escape(text));
    let line = format!(
        r#"{ip} - {user} [{time}] "{method} {path} HTTP/1.1" {status} {bytes} "{referer}" "{agent}""#
    );
    let some = |text: &str| if text == "-" { Value::absent() } else { Value::new(Kind::Plain, text) };
    let bytes = if bytes == "-" { "0" } else { bytes };
    let fields = vec![
        some(ip),
        // A dash within a request is what the client sent.
        Value::new(Kind::Plain, &method),
        Value::new(Kind::Plain, &path),
        some(status),
        Value::new(Kind::Plain, bytes),
        some(&referer),
        some(&agent),
    ];
    Some((line, Row::Event { t_ns, fields }))
}
