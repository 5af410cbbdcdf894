//! What a store is told: one record for every operation that changed something.

use super::amount::Quantities;
use super::books::Books;
use super::refusal::{Decision, Refusal};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Unix time in milliseconds.
pub type Millis = u64;

/// The accounts that a hold draws on: each scope of the policy with the key that it has in this call, in the policy's order,
/// and the family of the call's grant last if it has one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Account {
    /// The scope's name; [`FAMILY`] for families.
    pub scope: String,
    /// Whose; empty for a scope that everybody shares.
    pub key: String,
}

/// The scope of families, keyed by their root grant.
pub const FAMILY: &str = "family";

/// One operation, to be made durable as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When. Never before the record before it of the same hold.
    pub at: Millis,
    /// What was done.
    pub kind: Kind,
    /// The accounts whose books change by each of `moves`. Empty for a denial.
    pub path: Arc<[Account]>,
    /// How they change: the same for every account of the path.
    pub moves: Vec<Move>,
    /// The hold after it. It takes the place of what is stored under its id.
    pub hold: HoldState,
    /// Who repaired what by hand, and why; empty for the work of the engine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Set aside.
    Hold,
    /// Refused, under an id of the caller's: kept so that the same id gets the same answer. It moves nothing.
    Deny,
    /// More set aside under the same hold.
    Extend,
    /// Part of a call was used.
    Charge,
    /// The call is over; what it used is known.
    Settle,
    /// The call did not happen, or no more of it will.
    Release,
    /// The hold outlived its time to live.
    Expire,
}

/// A change of books that belongs to one instant: the windows in which that instant lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The instant: that of the part of the hold which it concerns, or now for an overrun.
    pub at: Millis,
    /// What changes.
    pub books: Books,
}

/// Everything about one hold. A store keeps it under the hold's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldState {
    /// The caller's id, or one made for it.
    pub id: String,
    /// Was the id the caller's? Only those are remembered once the hold is over.
    pub named: bool,
    /// Counts holds: no two have the same, whatever their ids.
    pub generation: u64,
    /// What the caller asked: the same id with another input is a conflict.
    pub input: String,
    /// The accounts that it draws on.
    pub path: Arc<[Account]>,
    /// When it was made.
    pub at: Millis,
    /// When it expires, if it is still open then.
    pub deadline: Millis,
    /// The most that it may come to with all its extensions, in money: its grant's ceiling of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u64>,
    /// What was set aside and is not settled, oldest first.
    pub parts: Vec<Part>,
    /// What was used so far.
    pub used: Quantities,
    /// Of that, what was beyond the hold.
    pub overrun: Quantities,
    /// Ids of charges and extensions with their input and answer, so that a repeated one changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Where it stands.
    pub phase: Phase,
    /// What was answered when it was asked for, so that asking again answers the same.
    pub decision: Decision,
}

/// What was set aside at one instant and is neither used nor given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// When: its windows are those in which this lies.
    pub at: Millis,
    /// How much of it is still out. Of an expired hold: how much counts as used.
    pub left: Quantities,
}

/// A charge or an extension under an id of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The caller's id of it.
    pub id: String,
    /// What it was.
    pub kind: Kind,
    /// What it asked.
    pub amounts: Quantities,
    /// By which limit it was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Box<Refusal>>,
    /// What an extension was granted, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<Decision>>,
}

/// Where a hold stands.
///
/// | from | to | by |
/// |---|---|---|
/// | | open | a hold |
/// | | denied | a refusal |
/// | open | settled | settle |
/// | open | released | release, or the handle's drop |
/// | open | expired | its time to live |
/// | expired | settled, released | a late settle or release, once |
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Counts against its limits; may be extended, charged, settled, released.
    Open,
    /// Refused: there never was a hold.
    Denied(Box<Refusal>),
    /// Over. Settling it again gets this answer.
    Settled(Settlement),
    /// Over.
    Released(Settlement),
    /// Outlived its time to live. What it did not use counts as used, or was given back, as the policy has it.
    Expired,
}

/// What a settlement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// What the call that settled said.
    pub stated: Quantities,
    /// Everything that was used: charges and what was stated.
    pub used: Quantities,
    /// What was given back.
    pub released: Quantities,
    /// What was used beyond the hold: debt.
    pub overrun: Quantities,
    /// Did it come after the hold's time to live?
    pub late: bool,
    /// When.
    pub at: Millis,
}
