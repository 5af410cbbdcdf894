//! What stands behind [`Spend`](super::Spend): accounts of gauges, holds, and the store, which is always told first.
//!
//! | what | where |
//! |---|---|
//! | whose budgets a call draws on | `whose` |
//! | accounts in memory, and the limits they are judged by | `accounts`, `limits`, `judge` |
//! | what is taken from gauges and given back | `gauges` |
//! | holds in memory, and what each has come to | `holds`, `tab` |
//! | a hold's life | `opening`, `holding`, `finding`, `steps`, `settling`, `expiring` |
//! | making all of it durable | `group` |

mod accounts;
mod expiring;
mod finding;
mod gauges;
mod group;
mod holding;
pub(crate) mod holds;
mod judge;
pub(crate) mod limits;
mod opening;
mod settling;
mod status;
mod steps;
pub(crate) mod tab;
mod whose;

use self::accounts::Accounts;
use self::group::GroupCommit;
use self::holds::Holds;
use self::limits::Limits;
use crate::spend::amount::Quantities;
use crate::spend::clock::Forward;
use crate::spend::error::SpendError;
use crate::spend::event::{SpendEvent, Subscribers};
use crate::spend::hold::HoldRef;
use crate::spend::record::{HoldState, Kind, Millis, Move, Record};
use crate::spend::refusal::Refusal;
pub use status::LimitStatus;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

/// Budgets in use.
pub(crate) struct Engine {
    pub(crate) limits: Limits,
    pub(crate) group: GroupCommit,
    accounts: Accounts,
    pub(crate) holds: Holds,
    clock: Forward,
    generation: AtomicU64,
    /// With this the ids of calls without one begin, and nobody else's: no other engine has the same.
    prefix: String,
    grants: RwLock<HashMap<String, Arc<Resolved>>>,
    /// Held while limits or grants change: what is looked at before is so still when it is written.
    settings: Mutex<()>,
    pub(crate) subscribers: Subscribers,
}

/// What a grant comes to.
#[derive(Debug, Clone)]
struct Resolved {
    root: String,
    ceiling: Option<u64>,
    /// How many delegations lie between it and the policy.
    depth: usize,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spend")
            .field("accounts", &self.accounts.len())
            .field("open_holds", &self.holds.len())
            .field("store", self.group.store())
            .finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.group.store().close();
    }
}

impl Engine {
    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Acts, and tells of it once no lock is held any more: whoever is told may call back.
    fn telling<T>(&self, act: impl FnOnce(&mut Vec<SpendEvent>) -> T) -> T {
        let mut events = Vec::new();
        let answer = act(&mut events);
        events.iter().for_each(|event| self.subscribers.tell(event));
        answer
    }

    pub(crate) fn accounts_in_memory(&self) -> usize {
        self.accounts.len()
    }
}

/// A hold's name, and whether it was there before.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: HoldRef,
    pub(crate) replayed: bool,
}

/// The longest text of a caller's: what is bounded in number is bounded in bytes then.
const LONGEST: usize = 1_024;

fn short(what: &'static str, text: &str) -> Result<(), SpendError> {
    match text.len() {
        length if length > LONGEST => Err(SpendError::TooLong { what, length, most: LONGEST }),
        _ => Ok(()),
    }
}

fn refused(id: Option<&str>, refusal: Box<Refusal>, events: &mut Vec<SpendEvent>) -> SpendError {
    events.push(SpendEvent::Refused { id: id.map(str::to_owned), refusal: refusal.clone() });
    SpendError::Refused(refusal)
}

pub(crate) fn record(kind: Kind, at: Millis, moves: Vec<Move>, state: &HoldState, note: &str) -> Record {
    // What moves nothing concerns nobody's books.
    let path = if moves.is_empty() { Arc::default() } else { Arc::clone(&state.path) };
    Record { at, kind, path, moves, hold: state.clone(), note: note.to_owned() }
}

pub(crate) fn show(amounts: &Quantities) -> String {
    let parts: Vec<String> = amounts
        .iter()
        .filter(|&(_, amount)| amount > 0)
        .map(|(dimension, amount)| format!("{dimension} {amount}"))
        .collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}
