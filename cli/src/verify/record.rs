//! A line as a record, if it is written in the one way in which it may be.

use super::lines::is_hex;
use serde::{Deserialize, Serialize};
use tollgate::effect::OnExhausted;

/// A bucket's state: the mark in units, and the units that were refunded in this life of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
pub struct State {
    pub mark: u64,
    pub refunded: u64,
}

impl From<[u64; 2]> for State {
    fn from([mark, refunded]: [u64; 2]) -> Self {
        Self { mark, refunded }
    }
}

impl From<State> for [u64; 2] {
    fn from(state: State) -> Self {
        [state.mark, state.refunded]
    }
}

/// An effect, as the first line has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    pub effect: String,
    pub ttl: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<String>,
    pub quotas: Vec<DeclaredQuota>,
}

/// A quota, as the first line has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredQuota {
    pub quota: String,
    pub on_exhausted: String,
    pub floor: u64,
    pub step: u64,
    pub phase: u64,
    pub units_per_step: u64,
    pub units_per_token: u64,
    pub capacity: u64,
    pub most_refunded: u64,
}

/// A change of one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    pub quota: String,
    pub before: State,
    pub after: State,
}

/// A quota that refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub quota: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<u64>,
}

/// All fields of all kinds, in the order in which they stand.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    seq: u64,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effects: Option<Vec<Declared>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Vec<Refused>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draws: Option<Vec<Draw>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    hash: String,
}

/// Whose bucket a record is about, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub t: u64,
    pub effect: String,
    pub key: String,
}

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Exhausted,
    Hours,
    Impossible,
    TableFull,
    PastHorizon,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// What became of the call: block is `deny`.
    pub kind: OnExhausted,
    pub cost: u64,
    pub reason: Reason,
    pub ticket: Option<u64>,
    pub retry_at: Option<u64>,
    pub refused: Vec<Refused>,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Open { format: u64, t: u64, epoch: u64, effects: Vec<Declared> },
    Grant { place: Place, grant: u64, cost: u64, ticket: Option<u64>, draws: Vec<Draw> },
    Denied { place: Place, denied: Denied },
    Refund { place: Place, grant: u64, draws: Vec<Draw> },
    Emit { place: Place, grant: u64 },
    Forfeit { place: Place, grant: u64 },
    Restore { place: Place, quota: String, at: State },
    Seal { count: u64, last: String },
}

/// A line: its number in the journal, its record, and the hash it claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub seq: u64,
    pub record: Record,
    pub hash: String,
}

/// Reads lines; keeps a buffer between them.
#[derive(Debug, Default)]
pub struct Reader {
    again: Vec<u8>,
}

impl Reader {
    /// The record of a line.
    ///
    /// # Errors
    /// In words, what is wrong: no JSON of this format, or not in its canonical bytes.
    pub fn read(&mut self, line: &[u8]) -> Result<Line, String> {
        let fields: Fields =
            serde_json::from_slice(line).map_err(|error| format!("not a record: {error}"))?;
        self.again.clear();
        serde_json::to_writer(&mut self.again, &fields).map_err(|error| error.to_string())?;
        if self.again != line {
            let at = self.again.iter().zip(line).take_while(|(a, b)| a == b).count();
            return Err(format!("not in canonical form, from byte {} of the line on", at + 1));
        }
        if fields.hash.len() != 64 || !is_hex(&fields.hash) {
            return Err("hash is not 64 lower-case hex digits".into());
        }
        fields.record()
    }
}

fn need<T>(field: &mut Option<T>, name: &str, kind: &str) -> Result<T, String> {
    field.take().ok_or_else(|| format!("a record of kind {kind:?} without `{name}`"))
}

impl Fields {
    fn record(mut self) -> Result<Line, String> {
        let kind = std::mem::take(&mut self.kind);
        let record = match kind.as_str() {
            "open" => Record::Open {
                format: need(&mut self.format, "format", &kind)?,
                t: need(&mut self.t, "t", &kind)?,
                epoch: need(&mut self.epoch, "epoch", &kind)?,
                effects: need(&mut self.effects, "effects", &kind)?,
            },
            "grant" => Record::Grant {
                place: self.place(&kind)?,
                grant: need(&mut self.grant, "grant", &kind)?,
                cost: need(&mut self.cost, "cost", &kind)?,
                ticket: self.ticket.take(),
                draws: need(&mut self.draws, "draws", &kind)?,
            },
            "deny" | "defer" | "shed" => {
                Record::Denied { place: self.place(&kind)?, denied: self.denied(&kind)? }
            }
            "refund" => Record::Refund {
                place: self.place(&kind)?,
                grant: need(&mut self.grant, "grant", &kind)?,
                draws: need(&mut self.draws, "draws", &kind)?,
            },
            "emit" => {
                Record::Emit { place: self.place(&kind)?, grant: need(&mut self.grant, "grant", &kind)? }
            }
            "forfeit" => {
                Record::Forfeit { place: self.place(&kind)?, grant: need(&mut self.grant, "grant", &kind)? }
            }
            "restore" => Record::Restore {
                place: self.place(&kind)?,
                quota: need(&mut self.quota, "quota", &kind)?,
                at: need(&mut self.at, "at", &kind)?,
            },
            "seal" => Record::Seal {
                count: need(&mut self.count, "count", &kind)?,
                last: need(&mut self.last, "last", &kind)?,
            },
            _ => return Err(format!("unknown kind {kind:?}")),
        };
        match self.left() {
            Some(name) => Err(format!("a record of kind {kind:?} with `{name}`")),
            None => Ok(Line { seq: self.seq, record, hash: self.hash }),
        }
    }

    fn place(&mut self, kind: &str) -> Result<Place, String> {
        let place = Place {
            t: need(&mut self.t, "t", kind)?,
            effect: need(&mut self.effect, "effect", kind)?,
            key: need(&mut self.key, "key", kind)?,
        };
        if is_hex(&place.key) { Ok(place) } else { Err("key is not lower-case hex".into()) }
    }

    fn denied(&mut self, kind: &str) -> Result<Denied, String> {
        let reason = need(&mut self.reason, "reason", kind)?;
        Ok(Denied {
            kind: match kind {
                "deny" => OnExhausted::Block,
                "defer" => OnExhausted::Defer,
                _ => OnExhausted::Shed,
            },
            cost: need(&mut self.cost, "cost", kind)?,
            reason: match reason.as_str() {
                "exhausted" => Reason::Exhausted,
                "hours" => Reason::Hours,
                "impossible" => Reason::Impossible,
                "table-full" => Reason::TableFull,
                "past-horizon" => Reason::PastHorizon,
                _ => return Err(format!("unknown reason {reason:?}")),
            },
            ticket: self.ticket.take(),
            retry_at: self.retry_at.take(),
            refused: need(&mut self.refused, "refused", kind)?,
        })
    }

    /// A field that the record's kind does not have.
    fn left(&self) -> Option<&'static str> {
        let left = [
            (self.format.is_some(), "format"),
            (self.t.is_some(), "t"),
            (self.epoch.is_some(), "epoch"),
            (self.effects.is_some(), "effects"),
            (self.effect.is_some(), "effect"),
            (self.key.is_some(), "key"),
            (self.grant.is_some(), "grant"),
            (self.cost.is_some(), "cost"),
            (self.reason.is_some(), "reason"),
            (self.ticket.is_some(), "ticket"),
            (self.retry_at.is_some(), "retry_at"),
            (self.refused.is_some(), "refused"),
            (self.draws.is_some(), "draws"),
            (self.quota.is_some(), "quota"),
            (self.at.is_some(), "at"),
            (self.count.is_some(), "count"),
            (self.last.is_some(), "last"),
        ];
        left.into_iter().find(|(there, _)| *there).map(|(_, name)| name)
    }
}
