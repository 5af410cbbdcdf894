//! What a replay found out, collected in bounded memory.

mod report;
mod space_saving;
mod table;
mod waits;

pub use report::{Report, Run};
pub use table::{grouped, span};

use crate::replay::{Reason, Refused};
pub use space_saving::SpaceSaving;
use waits::Waits;

/// Counters of the heavy-hitter sketch: a key refused more often than one in so many refusals is listed.
const COUNTERS: usize = 1_024;
/// Keys shown.
const SHOWN: usize = 10;

/// A limit, as summaries speak of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitInfo {
    pub name: String,
    /// The names of the fields that make its key.
    pub key: Vec<String>,
}

/// Counts decisions as they are made.
pub struct Tally {
    limits: Vec<LimitInfo>,
    admitted: u64,
    /// Refusals by limit and reason.
    refused: Vec<[u64; Reason::ALL.len()]>,
    waits: Waits,
    keys: SpaceSaving,
    key: Vec<u8>,
}

impl Tally {
    pub fn new(limits: Vec<LimitInfo>) -> Self {
        Self {
            admitted: 0,
            refused: vec![[0; Reason::ALL.len()]; limits.len()],
            limits,
            waits: Waits::new(),
            keys: SpaceSaving::new(COUNTERS),
            key: Vec::new(),
        }
    }

    #[inline]
    pub fn admit(&mut self) {
        self.admitted += 1;
    }

    /// Counts a refusal. `key` holds the values of the limit's key fields; it is empty where one is absent.
    pub fn refuse<'k>(&mut self, refused: &Refused, key: impl IntoIterator<Item = &'k str>) {
        self.refused[refused.limit][refused.reason as usize] += 1;
        if let Some(wait) = refused.retry_after_ns {
            self.waits.record(wait);
        }
        self.key.clear();
        self.key.extend_from_slice(&(refused.limit as u64).to_be_bytes());
        let mut parts = 0;
        for part in key {
            self.key.extend_from_slice(&(part.len() as u64).to_be_bytes());
            self.key.extend_from_slice(part.as_bytes());
            parts += 1;
        }
        if parts == self.limits[refused.limit].key.len() {
            self.keys.observe(&self.key);
        }
    }
}

/// The limit and the values of a key that [`Tally::refuse`] encoded.
fn decode(mut bytes: &[u8]) -> (usize, Vec<String>) {
    let number = |bytes: &mut &[u8]| -> Option<usize> {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        usize::try_from(u64::from_be_bytes(*first)).ok()
    };
    let limit = number(&mut bytes).unwrap_or(0);
    let mut parts = Vec::new();
    while let Some(length) = number(&mut bytes) {
        let (part, rest) = bytes.split_at(length.min(bytes.len()));
        parts.push(String::from_utf8_lossy(part).into_owned());
        bytes = rest;
    }
    (limit, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_sketch_whatever_is_in_them() {
        let limits = vec![
            LimitInfo { name: "a".into(), key: vec![] },
            LimitInfo { name: "b".into(), key: vec!["x".into(), "y".into()] },
        ];
        let mut tally = Tally::new(limits);
        let refused = |limit| Refused { limit, reason: Reason::Exhausted, retry_after_ns: None };
        tally.refuse(&refused(1), ["", "p|q\u{0}"]);
        tally.refuse(&refused(1), ["p", "|q\u{0}"]);
        tally.refuse(&refused(0), []);
        tally.refuse(&refused(1), ["only one of two"]);
        let top: Vec<_> = tally.keys.top(9).into_iter().map(|heavy| decode(heavy.key)).collect();
        let text = |parts: [&str; 2]| parts.map(str::to_owned).to_vec();
        assert_eq!(top, [(0, vec![]), (1, text(["", "p|q\u{0}"])), (1, text(["p", "|q\u{0}"]))]);
        assert_eq!(
            tally.refused[1][Reason::Exhausted as usize],
            3,
            "a refusal without a key is counted, too"
        );
    }

    #[test]
    fn reasons_are_counted_in_their_own_column() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
