//! One effect of one engine, whatever its type: what gates and kernels share.

use super::effects::{Ask, Effects, Keep};
use super::error::EffectError;
use super::journal::{JournalError, Recorder};
use super::ledger::{Deferred, LedgerError, Ticket};
use super::outcome::{Outcome, Shed};
use super::payload::PayloadError;
use super::permit::Grant;
use std::fmt;
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
    /// Calls that were not emitted and do not wait any more, or could not be written down.
    pub failed: Vec<(Ticket, DueError)>,
}

/// Why a deferred call was not emitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DueError {
    /// Its payload cannot be read by this version of the program; it is dropped.
    #[error("{0}; the call was dropped")]
    Payload(#[from] PayloadError),
    /// Nothing is registered under the name that it calls; it waits.
    #[error("no tool {tool_name:?} is registered on server {server_id:?}; the call still waits")]
    NoTool {
        /// The server.
        server_id: String,
        /// The tool.
        tool_name: String,
    },
    /// The ledger cannot be written, so the emission could not be begun, or its end be noted.
    #[error("{0}")]
    Ledger(#[from] LedgerError),
    /// It is refused for good (its cost is above a capacity now); it is dropped.
    #[error("{0}; the call was dropped")]
    Refused(EffectError),
    /// It is refused for now, and waits; run it again.
    #[error("{0}; the call still waits")]
    NotNow(EffectError),
}

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
        match self.admits(&grant) {
            Ok(now) => {
                // Recorded before it happens: what was emitted is in the journal, whatever becomes of the process.
                grant.emitted(now);
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
        if let Some(error) = inner.journal.as_ref().and_then(Recorder::closed) {
            return Err(UnsentReason::Unrecorded(error));
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

    /// Runs what is due at `now`. `prepare` reads a payload and says what to run.
    pub(crate) fn run_due<T, R: FnOnce() -> T>(
        &self,
        now: u64,
        prepare: impl Fn(&[u8]) -> Result<R, DueError>,
    ) -> DueReport<T> {
        let mut report = DueReport { emitted: Vec::new(), postponed: Vec::new(), failed: Vec::new() };
        let due = self.effects.0.epoch.saturating_add(now);
        // What is put back must not be taken again in this run.
        let mut after = None;
        while let Some(call) = self.effects.0.ledger.claim(self.tool(), due, after) {
            after = Some((call.due, call.ticket));
            let (ticket, ledger) = (call.ticket, &self.effects.0.ledger);
            let written = match self.run_one(&call, &prepare) {
                Ran::Emitted(output) => {
                    report.emitted.push((ticket, output));
                    ledger.done(ticket).map(|_| ())
                }
                Ran::Postponed(at) => {
                    report.postponed.push((ticket, at));
                    ledger.postpone(ticket, self.effects.0.epoch.saturating_add(at))
                }
                Ran::NotNow(error) => {
                    report.failed.push((ticket, error));
                    ledger.postpone(ticket, call.due)
                }
                Ran::NotBegun(error) => {
                    report.failed.push((ticket, error));
                    ledger.unbegin(ticket)
                }
                Ran::Never(error) => {
                    report.failed.push((ticket, error));
                    ledger.done(ticket).map(|_| ())
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
            Err(error @ DueError::Payload(_)) => return Ran::Never(error),
            Err(error) => return Ran::NotNow(error),
        };
        let Deferred { ref key, cost, ticket, .. } = *call;
        let ask = Ask { effect: self.number, key, cost, ticket: Some(ticket), keep: None };
        let grant = match self.effects.ask(&ask) {
            Ok(Outcome::Done(grant)) => grant,
            Ok(Outcome::Shed(Shed { effect, quota, retry_at })) => {
                let error = EffectError::EffectQuotaExhausted { effect, quota, retry_at };
                return Ran::later(error);
            }
            Err(error @ (EffectError::Impossible { .. } | EffectError::ZeroCost { .. })) => {
                return Ran::Never(DueError::Refused(error));
            }
            Err(error) => return Ran::later(error),
        };
        if let Err(error) = self.effects.0.ledger.begin(ticket) {
            grant.refund();
            return Ran::NotNow(error.into());
        }
        match self.emit(grant, run) {
            Ok(output) => Ran::Emitted(output),
            Err((grant, reason)) => Ran::NotBegun(DueError::NotNow(self.unsent(grant, reason))),
        }
    }

    /// When the first deferred call is due, in nanoseconds of the engine's clock.
    pub(super) fn next_due(&self) -> Option<u64> {
        let due = self.effects.0.ledger.next_due(self.tool())?;
        Some(due.saturating_sub(self.effects.0.epoch))
    }
}

/// What became of one deferred call that was due.
enum Ran<T> {
    Emitted(T),
    Postponed(u64),
    NotNow(DueError),
    /// It was noted as begun, and was not.
    NotBegun(DueError),
    Never(DueError),
}

impl<T> Ran<T> {
    fn later(error: EffectError) -> Self {
        match error.retry_at() {
            Some(at) => Ran::Postponed(at),
            None => Ran::NotNow(DueError::NotNow(error)),
        }
    }
}
