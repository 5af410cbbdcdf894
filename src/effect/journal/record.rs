//! The records, as they travel to the writer and as they stand in a line.

use crate::effect::hex;
use crate::effect::ledger::Ticket;
use crate::key::KeyBytes;
use crate::table::limits::State;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use smallvec::SmallVec;

/// The first line's content.
#[derive(Debug, Clone, Serialize)]
pub(in crate::effect) struct Header {
    pub(in crate::effect) format: u32,
    pub(in crate::effect) t: u64,
    pub(in crate::effect) epoch: u64,
    pub(in crate::effect) effects: Vec<HeaderEffect>,
}

#[derive(Debug, Clone, Serialize)]
pub(in crate::effect) struct HeaderEffect {
    pub(in crate::effect) effect: String,
    pub(in crate::effect) ttl: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::effect) hours: Option<String>,
    pub(in crate::effect) quotas: Vec<HeaderQuota>,
}

#[derive(Debug, Clone, Serialize)]
pub(in crate::effect) struct HeaderQuota {
    pub(in crate::effect) quota: String,
    pub(in crate::effect) on_exhausted: &'static str,
    pub(in crate::effect) floor: u64,
    pub(in crate::effect) step: u64,
    pub(in crate::effect) phase: u64,
    pub(in crate::effect) units_per_step: u64,
    pub(in crate::effect) units_per_token: u64,
    pub(in crate::effect) capacity: u64,
    pub(in crate::effect) most_refunded: u64,
}

/// A change of one bucket: the number of its quota, and its states.
#[derive(Debug, Clone, Copy)]
pub(in crate::effect) struct States {
    pub(in crate::effect) quota: usize,
    pub(in crate::effect) before: State,
    pub(in crate::effect) after: State,
}

/// A quota that refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::effect) struct RefusedBy {
    pub(in crate::effect) quota: usize,
    /// The bucket's state, if that is what refused.
    pub(in crate::effect) state: Option<State>,
    /// When it allows the cost, if it ever does.
    pub(in crate::effect) retry_at: Option<u64>,
}

/// What became of a call that was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::effect) enum DeniedKind {
    Deny,
    Defer,
    Shed,
}

/// A refusal.
#[derive(Debug, Clone)]
pub(in crate::effect) struct Denied {
    pub(in crate::effect) kind: DeniedKind,
    pub(in crate::effect) cost: u64,
    pub(in crate::effect) reason: &'static str,
    pub(in crate::effect) ticket: Option<Ticket>,
    pub(in crate::effect) retry_at: Option<u64>,
    pub(in crate::effect) refused: SmallVec<[RefusedBy; 2]>,
}

/// A record on its way to the writer.
#[derive(Debug)]
pub(in crate::effect) enum Entry {
    Grant {
        at: u64,
        effect: usize,
        key: KeyBytes,
        grant: u64,
        cost: u64,
        ticket: Option<Ticket>,
        draws: SmallVec<[States; 2]>,
    },
    Denied {
        at: u64,
        effect: usize,
        key: KeyBytes,
        denied: Denied,
    },
    Refund {
        at: u64,
        effect: usize,
        key: KeyBytes,
        grant: u64,
        draws: SmallVec<[States; 2]>,
    },
    Emit {
        at: u64,
        effect: usize,
        key: KeyBytes,
        grant: u64,
    },
    Forfeit {
        at: u64,
        effect: usize,
        key: KeyBytes,
        grant: u64,
    },
    Restore {
        at: u64,
        effect: usize,
        key: KeyBytes,
        quota: usize,
        state: State,
    },
    /// Everything before it is written; then the journal ends.
    Seal,
}

/// Every kind of line after the first and before the last.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    kind: &'static str,
    t: u64,
    effect: &'a str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Vec<Refused<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draws: Option<Vec<Draw<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Pair>,
}

#[derive(Serialize)]
struct Refused<'a> {
    quota: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<u64>,
}

#[derive(Serialize)]
struct Draw<'a> {
    quota: &'a str,
    before: Pair,
    after: Pair,
}

/// A bucket's state.
struct Pair(State);

impl Serialize for Pair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut both = serializer.serialize_seq(Some(2))?;
        both.serialize_element(&self.0.mark)?;
        both.serialize_element(&self.0.refunded)?;
        both.end()
    }
}

#[derive(Serialize)]
struct First<'a> {
    seq: u64,
    kind: &'static str,
    #[serde(flatten)]
    header: &'a Header,
}

#[derive(Serialize)]
struct Last<'a> {
    seq: u64,
    kind: &'static str,
    count: u64,
    last: &'a str,
}

/// Writes the first line's object.
pub(super) fn first(into: &mut Vec<u8>, header: &Header) {
    write(into, &First { seq: 0, kind: "open", header });
}

/// Writes the seal's object.
pub(super) fn last(into: &mut Vec<u8>, count: u64, last: &str) {
    write(into, &Last { seq: count, kind: "seal", count, last });
}

/// Writes an entry's object.
pub(super) fn entry(into: &mut Vec<u8>, seq: u64, header: &Header, entry: &Entry) {
    let (kind, at, effect, key) = match entry {
        Entry::Grant { at, effect, key, .. } => ("grant", at, effect, key),
        Entry::Denied { at, effect, key, denied } => {
            let kind = match denied.kind {
                DeniedKind::Deny => "deny",
                DeniedKind::Defer => "defer",
                DeniedKind::Shed => "shed",
            };
            (kind, at, effect, key)
        }
        Entry::Refund { at, effect, key, .. } => ("refund", at, effect, key),
        Entry::Emit { at, effect, key, .. } => ("emit", at, effect, key),
        Entry::Forfeit { at, effect, key, .. } => ("forfeit", at, effect, key),
        Entry::Restore { at, effect, key, .. } => ("restore", at, effect, key),
        Entry::Seal => return,
    };
    let effect = &header.effects[*effect];
    let quota = |number: usize| effect.quotas[number].quota.as_str();
    let draws = |states: &[States]| {
        let draw = |change: &States| Draw {
            quota: quota(change.quota),
            before: Pair(change.before),
            after: Pair(change.after),
        };
        Some(states.iter().map(draw).collect())
    };
    let mut line = Line {
        seq,
        kind,
        t: *at,
        effect: &effect.effect,
        key: hex::encode(key.as_slice()),
        grant: None,
        cost: None,
        reason: None,
        ticket: None,
        retry_at: None,
        refused: None,
        draws: None,
        quota: None,
        at: None,
    };
    match entry {
        Entry::Grant { grant, cost, ticket, draws: states, .. } => {
            (line.grant, line.cost) = (Some(*grant), Some(*cost));
            line.ticket = ticket.map(Ticket::number);
            line.draws = draws(states);
        }
        Entry::Denied { denied, .. } => {
            (line.cost, line.reason) = (Some(denied.cost), Some(denied.reason));
            (line.ticket, line.retry_at) = (denied.ticket.map(Ticket::number), denied.retry_at);
            let refused = |by: &RefusedBy| Refused {
                quota: quota(by.quota),
                at: by.state.map(Pair),
                retry_at: by.retry_at,
            };
            line.refused = Some(denied.refused.iter().map(refused).collect());
        }
        Entry::Refund { grant, draws: states, .. } => {
            line.grant = Some(*grant);
            line.draws = draws(states);
        }
        Entry::Emit { grant, .. } | Entry::Forfeit { grant, .. } => line.grant = Some(*grant),
        Entry::Restore { quota: number, state, .. } => {
            (line.quota, line.at) = (Some(quota(*number)), Some(Pair(*state)));
        }
        Entry::Seal => {}
    }
    write(into, &line);
}

fn write(into: &mut Vec<u8>, object: &impl Serialize) {
    serde_json::to_writer(into, object).expect("texts and numbers are JSON, and memory takes them");
}
