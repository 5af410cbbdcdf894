//! One event's decision, and how it is written as a JSON line.

use std::io::{self, Write};

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Admitted.
    Admit,
    /// Refused now; the same call can succeed later.
    Deny,
    /// Refused, and no wait helps.
    Never,
    /// Refused because it cannot be judged.
    Error,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Admit => "admit",
            Verdict::Deny => "deny",
            Verdict::Never => "never",
            Verdict::Error => "error",
        }
    }
}

/// Why an event was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The bucket holds too little.
    Exhausted,
    /// The cost is above the capacity.
    Impossible,
    /// The table has no room for the key.
    TableFull,
    /// A field that the limit needs is absent or no value that it can use.
    MissingField,
    /// The cost is negative, fractional, above 64 bits or no number.
    BadCost,
    /// There is a limit on spend and the grant declares no cost.
    NoDeclaredCost,
    /// The trace is longer than the limit's arithmetic lasts (5 years at least).
    PastHorizon,
}

impl Reason {
    /// Every reason, in the order in which summaries list them.
    pub const ALL: [Reason; 7] = [
        Reason::Exhausted,
        Reason::Impossible,
        Reason::TableFull,
        Reason::MissingField,
        Reason::BadCost,
        Reason::NoDeclaredCost,
        Reason::PastHorizon,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::Impossible => "impossible",
            Reason::TableFull => "table-full",
            Reason::MissingField => "missing-field",
            Reason::BadCost => "bad-cost",
            Reason::NoDeclaredCost => "no-declared-cost",
            Reason::PastHorizon => "past-horizon",
        }
    }

    pub fn verdict(self) -> Verdict {
        match self {
            Reason::Exhausted | Reason::TableFull => Verdict::Deny,
            Reason::Impossible => Verdict::Never,
            Reason::MissingField | Reason::BadCost | Reason::NoDeclaredCost | Reason::PastHorizon => {
                Verdict::Error
            }
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The limit that refused, by its place in the pipeline.
    pub limit: usize,
    pub reason: Reason,
    /// The wait after which the same call can be admitted, in nanoseconds from the event's time.
    pub retry_after_ns: Option<u64>,
}

/// An event's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The event's number, from 0.
    pub seq: u64,
    /// The event's time after clamping, in nanoseconds.
    pub t_ns: u64,
    /// `None` is an admission.
    pub refused: Option<Refused>,
    /// Whole tokens left after the decision, for limits by their place in the pipeline.
    pub remaining: &'a [(usize, u64)],
}

/// Writes decisions, one JSON object a line.
pub struct DecisionLog<W> {
    out: W,
    /// The limits' names as JSON strings.
    names: Vec<String>,
    line: Vec<u8>,
}

impl<W: Write> DecisionLog<W> {
    /// `names` are the limits' names by their place in the pipeline.
    pub fn new(out: W, names: &[String]) -> Self {
        let names = names.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
        Self { out, names, line: Vec::with_capacity(256) }
    }

    /// Appends one decision.
    pub fn write(&mut self, decision: &Decision<'_>) -> io::Result<()> {
        let mut digits = itoa::Buffer::new();
        let line = &mut self.line;
        line.clear();
        line.extend_from_slice(b"{\"seq\":");
        line.extend_from_slice(digits.format(decision.seq).as_bytes());
        line.extend_from_slice(b",\"t_ns\":");
        line.extend_from_slice(digits.format(decision.t_ns).as_bytes());
        let verdict = decision.refused.map_or(Verdict::Admit, |refused| refused.reason.verdict());
        line.extend_from_slice(b",\"verdict\":\"");
        line.extend_from_slice(verdict.as_str().as_bytes());
        line.push(b'"');
        if let Some(refused) = decision.refused {
            line.extend_from_slice(b",\"limit\":");
            line.extend_from_slice(self.names[refused.limit].as_bytes());
            line.extend_from_slice(b",\"reason\":\"");
            line.extend_from_slice(refused.reason.as_str().as_bytes());
            line.push(b'"');
            if let Some(wait) = refused.retry_after_ns {
                line.extend_from_slice(b",\"retry_after_ns\":");
                line.extend_from_slice(digits.format(wait).as_bytes());
            }
        }
        line.extend_from_slice(b",\"remaining\":{");
        for (place, &(limit, tokens)) in decision.remaining.iter().enumerate() {
            if place > 0 {
                line.push(b',');
            }
            line.extend_from_slice(self.names[limit].as_bytes());
            line.push(b':');
            line.extend_from_slice(digits.format(tokens).as_bytes());
        }
        line.extend_from_slice(b"}}\n");
        self.out.write_all(line)
    }

    /// Hands everything to the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(decision: Decision<'_>) -> String {
        let mut out = Vec::new();
        let names = ["velocity.spend".to_owned(), "say \"hi\"".to_owned()];
        let mut log = DecisionLog::new(&mut out, &names);
        log.write(&decision).unwrap();
        log.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_admission_has_no_limit_reason_or_wait() {
        let line = written(Decision { seq: 0, t_ns: 5, refused: None, remaining: &[(0, 7), (1, u64::MAX)] });
        assert_eq!(
            line,
            "{\"seq\":0,\"t_ns\":5,\"verdict\":\"admit\",\
             \"remaining\":{\"velocity.spend\":7,\"say \\\"hi\\\"\":18446744073709551615}}\n"
        );
    }

    #[test]
    fn a_refusal_names_its_limit_reason_and_wait() {
        let refused = Refused { limit: 0, reason: Reason::Exhausted, retry_after_ns: Some(123) };
        let line = written(Decision { seq: 9, t_ns: 5, refused: Some(refused), remaining: &[] });
        assert_eq!(
            line,
            "{\"seq\":9,\"t_ns\":5,\"verdict\":\"deny\",\"limit\":\"velocity.spend\",\
             \"reason\":\"exhausted\",\"retry_after_ns\":123,\"remaining\":{}}\n"
        );
    }

    #[test]
    fn every_reason_has_its_verdict() {
        let verdicts: Vec<_> = Reason::ALL.map(|reason| reason.verdict().as_str()).to_vec();
        assert_eq!(verdicts, ["deny", "never", "deny", "error", "error", "error", "error"]);
    }
}
