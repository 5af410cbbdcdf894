//! One effect of one engine, whatever its type: what gates and kernels share.

use super::ask::{Ask, Keep};
use super::effects::Effects;
use super::error::EffectError;
use super::journal::{JournalError, Recorder};
use super::ledger::{Deferred, Keeper, LedgerError, Ticket};
use super::outcome::{Outcome, Shed};
use super::payload::PayloadError;
use super::permit::Grant;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An effect, known by its number.
#[derive(Clone)]
pub(crate) struct Toll {
    effects: Effects,
    number: usize,
}

/// Why an emission did not take place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsentReason {
    /// The permit was held for longer than its time to live.
    #[error("the permit expired at {expired_at} ns, and it is {now} ns: refund it and ask for another one")]
    Expired {
        /// The last nanosecond at which it could be emitted.
        expired_at: u64,
        /// The engine's time.
        now: u64,
    },
    /// The allowed hours are over.
    #[error("the allowed hours are over{}", Opens(*.opens_at))]
    OutsideHours {
        /// When they begin again, in nanoseconds of the engine's clock.
        opens_at: Option<u64>,
    },
    /// The permit was granted by other [`Effects`].
    #[error("the permit was granted by another engine: emit it through a gate of that one")]
    AnotherEngine,
    /// The emission cannot be recorded.
    #[error("{0}")]
    Unrecorded(JournalError),
}

struct Opens(Option<u64>);

impl fmt::Display for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => write!(f, " until {at} ns"),
            None => Ok(()),
        }
    }
}

/// What came of running the deferred calls that were due.
#[derive(Debug)]
pub struct DueReport<T> {
    /// Calls that were emitted, with what the tool returned.
    pub emitted: Vec<(Ticket, T)>,
    /// Calls whose quota was exhausted again: they wait until another time.
    pub postponed: Vec<(Ticket, u64)>,
    /// Calls that could not be run, or not be written down.
    pub failed: Vec<(Ticket, DueError)>,
}

/// Why a deferred call was not emitted. It still waits, if nothing else is said, and is tried again a second later at the
/// earliest; [`Effects::forget`] drops it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DueError {
    /// Its payload cannot be read by this version of the program.
    #[error("{0}: run it with a version that reads it, or forget it")]
    Payload(#[from] PayloadError),
    /// Nothing is registered under the name that it calls, or that has another budget now.
    #[error(
        "no tool {tool_name:?} with this budget is registered on server {server_id:?}: register it, or forget the call"
    )]
    NoTool {
        /// The server.
        server_id: String,
        /// The tool.
        tool_name: String,
    },
    /// The ledger cannot be written, so the emission could not be begun; or it took place, and its end could not be noted.
    #[error("{0}")]
    Ledger(#[from] LedgerError),
    /// It is refused, and nobody can say for how long.
    #[error("{0}")]
    Refused(EffectError),
    /// The tool panicked, or what reads the payload, or the clock. If the emission had begun the call is
    /// [uncertain](Effects::uncertain) now.
    #[error("panicked: {0}")]
    Panicked(String),
}

/// When calls that could not be run are looked at again, in nanoseconds.
const LATER: u64 = 1_000_000_000;

impl Toll {
    pub(super) fn new(effects: Effects, number: usize) -> Self {
        Self { effects, number }
    }

    pub(super) fn inner(&self) -> &Arc<super::effects::Inner> {
        &self.effects.0
    }

    /// The effect's name.
    pub(crate) fn tool(&self) -> &str {
        &self.effects.0.budgets[self.number].tool
    }

    /// Is it the same effect of the same engine?
    pub(crate) fn is_same(&self, other: &Toll) -> bool {
        Arc::ptr_eq(&self.effects.0, &other.effects.0) && self.number == other.number
    }

    pub(super) fn permit(&self, key: &[u8], cost: u64) -> Result<Outcome<Box<Grant>>, EffectError> {
        self.effects.ask(&Ask { effect: self.number, key, cost, ticket: None, keep: None })
    }

    /// Runs the tool for a grant, or gives it back.
    pub(super) fn emit<T>(
        &self,
        grant: Box<Grant>,
        run: impl FnOnce() -> T,
    ) -> Result<T, (Box<Grant>, UnsentReason)> {
        let inner = &self.effects.0;
        // Until it is recorded the journal is not sealed.
        let journal = match inner.journal.as_ref().map(Recorder::enter).transpose() {
            Ok(journal) => journal,
            Err(error) => return Err((grant, UnsentReason::Unrecorded(error))),
        };
        match self.admits(&grant) {
            Ok(now) => {
                // On its way to the journal before it happens.
                grant.emitted(now, journal);
                Ok(run())
            }
            Err(reason) => Err((grant, reason)),
        }
    }

    /// May it be emitted now? Says when that is.
    fn admits(&self, grant: &Grant) -> Result<u64, UnsentReason> {
        let inner = &self.effects.0;
        if !Arc::ptr_eq(&grant.inner, inner) || grant.effect != self.number {
            return Err(UnsentReason::AnotherEngine);
        }
        let now = inner.clock.now();
        let expired_at = grant.expires_at();
        if now > expired_at {
            return Err(UnsentReason::Expired { expired_at, now });
        }
        let budget = &inner.budgets[self.number];
        if !budget.is_open(now, inner.epoch) {
            return Err(UnsentReason::OutsideHours { opens_at: budget.next_open(now, inner.epoch) });
        }
        Ok(now)
    }

    /// Asks and emits at once; where the answer is to defer, keeps the call.
    pub(crate) fn call<T>(
        &self,
        key: &[u8],
        cost: u64,
        keep: Keep<'_>,
        run: impl FnOnce() -> T,
    ) -> Result<Outcome<T>, EffectError> {
        let ask = Ask { effect: self.number, key, cost, ticket: None, keep: Some(keep) };
        match self.effects.ask(&ask)? {
            Outcome::Shed(shed) => Ok(Outcome::Shed(shed)),
            Outcome::Done(grant) => {
                self.emit(grant, run).map(Outcome::Done).map_err(|(grant, reason)| self.unsent(grant, reason))
            }
        }
    }

    /// Between a grant and its emission the hours ended, the journal did, or the permit's life: what was drawn goes back.
    fn unsent(&self, grant: Box<Grant>, reason: UnsentReason) -> EffectError {
        grant.refund();
        let effect = self.tool().to_owned();
        match reason {
            UnsentReason::Unrecorded(error) => EffectError::Unrecorded { effect, error },
            UnsentReason::OutsideHours { opens_at } => {
                let hours = self.effects.0.budgets[self.number].hours.as_ref();
                let quota = hours.map(ToString::to_string).unwrap_or_default();
                EffectError::EffectQuotaExhausted { effect, quota, retry_at: opens_at }
            }
            UnsentReason::Expired { now, .. } => EffectError::EffectQuotaExhausted {
                effect,
                quota: "the permit's time to live".to_owned(),
                retry_at: Some(now),
            },
            UnsentReason::AnotherEngine => unreachable!("this engine granted it"),
        }
    }

    /// Runs what is due at `now` of what `by` kept. `prepare` reads a payload and says what to run.
    ///
    /// A tool that panics ends neither the run nor the report of it: its call is uncertain.
    pub(crate) fn run_due<T, R: FnOnce() -> T>(
        &self,
        by: Keeper,
        now: u64,
        prepare: impl Fn(&[u8]) -> Result<R, DueError>,
    ) -> DueReport<T> {
        let mut report = DueReport { emitted: Vec::new(), postponed: Vec::new(), failed: Vec::new() };
        let (epoch, ledger) = (self.effects.0.epoch, &self.effects.0.ledger);
        let due = epoch.saturating_add(now);
        // What is put back is not taken again in this run.
        for ticket in ledger.due(self.tool(), by, due) {
            let Some(call) = ledger.claim(ticket) else { continue };
            let later = due.saturating_add(LATER);
            let ran = catch_unwind(AssertUnwindSafe(|| self.run_one(&call, &prepare)));
            let written = match ran {
                Ok(Ran::Emitted(output)) => {
                    report.emitted.push((ticket, output));
                    ledger.done(ticket)
                }
                Ok(Ran::Postponed(at)) => {
                    report.postponed.push((ticket, at));
                    ledger.postpone(ticket, epoch.saturating_add(at))
                }
                Ok(Ran::Failed(error)) => {
                    report.failed.push((ticket, error));
                    ledger.put_back(ticket, later);
                    Ok(())
                }
                Ok(Ran::NotBegun(error)) => {
                    report.failed.push((ticket, error));
                    ledger.unbegin(ticket, later)
                }
                Err(panic) => {
                    report.failed.push((ticket, DueError::Panicked(text_of(panic.as_ref()))));
                    ledger.abandon(ticket, later);
                    Ok(())
                }
            };
            if let Err(error) = written {
                report.failed.push((ticket, error.into()));
            }
        }
        report
    }

    fn run_one<T, R: FnOnce() -> T>(
        &self,
        call: &Deferred,
        prepare: impl Fn(&[u8]) -> Result<R, DueError>,
    ) -> Ran<T> {
        let run = match prepare(&call.payload) {
            Ok(run) => run,
            Err(error) => return Ran::Failed(error),
        };
        let Deferred { ref key, cost, ticket, .. } = *call;
        let ask = Ask { effect: self.number, key, cost, ticket: Some(ticket), keep: None };
        let grant = match self.effects.ask(&ask) {
            Ok(Outcome::Done(grant)) => grant,
            Ok(Outcome::Shed(Shed { effect, quota, retry_at })) => {
                return Ran::later(EffectError::EffectQuotaExhausted { effect, quota, retry_at });
            }
            Err(error) => return Ran::later(error),
        };
        if let Err(error) = self.effects.0.ledger.begin(ticket) {
            grant.refund();
            return Ran::Failed(error.into());
        }
        match self.emit(grant, run) {
            Ok(output) => Ran::Emitted(output),
            Err((grant, reason)) => Ran::NotBegun(DueError::Refused(self.unsent(grant, reason))),
        }
    }

    /// When the first deferred call is due, in nanoseconds of the engine's clock.
    pub(super) fn next_due(&self, by: Keeper) -> Option<u64> {
        let due = self.effects.0.ledger.next_due(self.tool(), by)?;
        Some(due.saturating_sub(self.effects.0.epoch))
    }
}

/// What became of one deferred call that was due.
enum Ran<T> {
    Emitted(T),
    Postponed(u64),
    Failed(DueError),
    /// It was noted as begun, and was not.
    NotBegun(DueError),
}

impl<T> Ran<T> {
    fn later(error: EffectError) -> Self {
        match error.retry_at() {
            Some(at) => Ran::Postponed(at),
            None => Ran::Failed(DueError::Refused(error)),
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
