//! The answer: accepted and what was counted, or refused and why.

use super::checker::Counts;
use serde_json::{Value, json};
use std::fmt;

/// What came of checking a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything holds.
    Accepted(Accepted),
    /// Something does not.
    Refused {
        /// The line that shows it, counted from 1.
        line: u64,
        /// What is wrong, in words.
        what: String,
    },
}

/// A journal in which everything holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Records between the first line and the seal.
    pub records: u64,
    pub counts: Counts,
    /// The hash of the last line.
    pub hash: String,
    pub sealed: bool,
    /// Bytes of a torn last line that were left out.
    pub torn: usize,
}

impl Verdict {
    pub fn is_accepted(&self) -> bool {
        matches!(self, Verdict::Accepted(_))
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        match self {
            Verdict::Accepted(Accepted { records, counts, hash, sealed, torn }) => json!({
                "verdict": "accepted",
                "records": records,
                "grants": counts.grants,
                "emitted": counts.emitted,
                "refunded": counts.refunded,
                "forfeited": counts.forfeited,
                "held": counts.held,
                "denied": counts.denied,
                "deferred": counts.deferred,
                "shed": counts.shed,
                "restored": counts.restored,
                "unnamed": counts.unnamed,
                "sealed": sealed,
                "hash": hash,
                "torn_bytes": torn,
            }),
            Verdict::Refused { line, what } => {
                json!({ "verdict": "refused", "line": line, "violation": what })
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Accepted { records, counts, hash, sealed, torn } = match self {
            Verdict::Accepted(accepted) => accepted,
            Verdict::Refused { line, what } => return write!(f, "refused: line {line}: {what}"),
        };
        let Counts { grants, emitted, refunded, forfeited, held, denied, deferred, shed, restored, unnamed } =
            counts;
        write!(f, "accepted: {records} records, {grants} grants ({emitted} emitted, {refunded} refunded, ")?;
        write!(
            f,
            "{forfeited} forfeited, {held} still held), {denied} denied, {deferred} deferred, {shed} shed"
        )?;
        if *restored > 0 {
            write!(f, ", {restored} buckets restored")?;
        }
        if *unnamed > 0 {
            write!(f, ", {unnamed} quotas without room not named by a refusal")?;
        }
        match sealed {
            true => write!(f, "; sealed with {hash}"),
            false => write!(f, "; open, the last line's hash is {hash}"),
        }?;
        match torn {
            0 => Ok(()),
            _ => write!(f, "; a torn line of {torn} bytes at the end was left out"),
        }
    }
}
