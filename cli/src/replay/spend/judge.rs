//! The budgets on the trace's clock: each event is held with what it used, and settled at once.

use super::reading::{Flaw, Reading};
use crate::event::Record;
use crate::failure::Failure;
use crate::policy::Policy;
use tollgate::spend::{
    ManualWallClock, Millis, Quantities, Refusal, Spend, SpendError, SpendPolicy, Tier, TierCause,
};

pub struct Judge {
    spend: Spend,
    clock: ManualWallClock,
}

/// What became of an event.
#[derive(Debug)]
pub enum Outcome {
    /// It went on.
    Passed { tier: Tier, set_by: Option<TierCause>, used: Quantities },
    /// A limit refused it.
    Refused(Box<Refusal>),
    /// It could not be judged, which is a refusal too.
    Unjudged(Unjudged),
}

/// Why an event could not be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unjudged {
    Flawed(Flaw),
    /// No family has the grant.
    UnknownGrant,
    /// No room for another account.
    AccountsFull,
    /// A key that is too long to be kept.
    LongKey,
}

impl Unjudged {
    pub fn as_str(self) -> &'static str {
        match self {
            Unjudged::Flawed(Flaw::MissingField) => "missing-field",
            Unjudged::Flawed(Flaw::BadAmount) => "bad-amount",
            Unjudged::UnknownGrant => "unknown-grant",
            Unjudged::AccountsFull => "accounts-full",
            Unjudged::LongKey => "long-key",
        }
    }
}

impl Judge {
    /// # Errors
    /// A policy that cannot be opened.
    pub fn new(policy: &Policy, budgets: &SpendPolicy) -> Result<Self, Failure> {
        let clock = ManualWallClock::default();
        let spend = Spend::builder(budgets.clone()).clock(clock.clone()).open();
        let spend = spend.map_err(|error| Failure::Mend(format!("{}: {error}", policy.file)))?;
        Ok(Self { spend, clock })
    }

    /// Decides an event at `at`, which is never before the one of the event before.
    ///
    /// # Errors
    /// What no event can bring about.
    pub fn decide(&self, at: Millis, record: &Record, reading: &Reading) -> Result<Outcome, Failure> {
        self.clock.set(at);
        let (call, amounts) = match reading.read(record) {
            Ok(read) => read,
            Err(flaw) => return Ok(Outcome::Unjudged(Unjudged::Flawed(flaw))),
        };
        let settled = self.spend.hold(&call, &amounts).and_then(|hold| {
            let decision = hold.decision().clone();
            Ok((decision, hold.settle(&amounts)?))
        });
        match settled {
            Ok((decision, settlement)) => {
                Ok(Outcome::Passed { tier: decision.tier, set_by: decision.set_by, used: settlement.used })
            }
            Err(SpendError::Refused(refusal)) => Ok(Outcome::Refused(refusal)),
            Err(SpendError::Amount(_)) => Ok(Outcome::Unjudged(Unjudged::Flawed(Flaw::BadAmount))),
            Err(SpendError::UnknownGrant { .. }) => Ok(Outcome::Unjudged(Unjudged::UnknownGrant)),
            Err(SpendError::Full { .. } | SpendError::Store(_)) => {
                Ok(Outcome::Unjudged(Unjudged::AccountsFull))
            }
            Err(SpendError::TooLong { .. }) => Ok(Outcome::Unjudged(Unjudged::LongKey)),
            Err(error) => Err(Failure::Run(format!("cannot decide an event: {error}"))),
        }
    }
}
