//! Why a call may not go ahead, or an answer cannot be given.

use super::amount::AmountError;
use super::refusal::Refusal;
use super::store::StoreError;

/// Why a call may not go ahead, or what was asked cannot be done. Every one of them is a refusal: nothing was set aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// A limit has no room.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The amounts cannot be budgeted.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// The call does not say who it is for.
    #[error(
        "the call names no {scope}, and the policy budgets every call by it: say `.scope(\"{scope}\", ...)`"
    )]
    MissingScope {
        /// The scope.
        scope: String,
    },
    /// A text of the caller's that is too long to be kept.
    #[error("{what} has {length} bytes, accepted: at most {most}; use a hash of it")]
    TooLong {
        /// Which: id, key, step, grant, note.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The most.
        most: usize,
    },
    /// The call names a scope that has no budget.
    #[error("no scope {scope:?} is budgeted with a key of its own, accepted: {known}")]
    UnknownScope {
        /// The scope.
        scope: String,
        /// Those that there are.
        known: String,
    },
    /// The call's grant is in no family.
    #[error("no grant {grant:?} is known: delegate it first, or name its family in the policy")]
    UnknownGrant {
        /// The grant.
        grant: String,
    },
    /// A grant too far from the policy.
    #[error(
        "more than {most} delegations lie between {grant:?} and the policy: delegate from a grant that is nearer"
    )]
    TooDeep {
        /// The grant.
        grant: String,
        /// The most.
        most: usize,
    },
    /// A grant that cannot be delegated so.
    #[error("{grant:?} cannot be delegated: {why}")]
    Delegation {
        /// The grant.
        grant: String,
        /// Why.
        why: String,
    },
    /// An id of a call that looks like those which are made for calls without one.
    #[error("{id:?} begins as the ids do that are made for calls without one: use an id of your own")]
    Reserved {
        /// The id.
        id: String,
    },
    /// The same id with another input.
    #[error("{id:?} was asked before with another input: {what}; use an id of its own for every call")]
    Conflict {
        /// The id.
        id: String,
        /// What differs.
        what: String,
    },
    /// The hold is over.
    #[error("the hold {id:?} is {phase}: it cannot be {asked}")]
    Over {
        /// Its id.
        id: String,
        /// What became of it: settled, released, expired.
        phase: &'static str,
        /// What was asked of it.
        asked: &'static str,
    },
    /// There is no such hold: it never was, or it ended so long ago that it was forgotten, or the handle is of an earlier
    /// hold under the same id.
    #[error(
        "no hold {id:?} of generation {generation} is known: it was forgotten, or its id has passed to another"
    )]
    NoHold {
        /// Its id.
        id: String,
        /// Its generation.
        generation: u64,
    },
    /// As many as there may be.
    #[error("no room for another {what}: {cap} are in use; raise the cap, or settle what is open")]
    Full {
        /// Of what: account, hold.
        what: &'static str,
        /// How many there may be.
        cap: usize,
    },
    /// It cannot be made durable, so it does not happen.
    #[error("refused, since it cannot be recorded: {0}")]
    Store(#[from] StoreError),
}

impl SpendError {
    /// The limit that refused, if one did.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

/// Budgets that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The policy is not one.
    #[error("the spend policy cannot be used: {0}")]
    Policy(#[from] super::policy::SpendPolicyError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}
