//! The permit: the right to emit one effect, once.

use super::effects::Inner;
use super::gate::Effect;
use super::journal::{Deciding, Entry, Reserved, States};
use crate::key::KeyBytes;
use crate::refund::Receipt;
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The right to emit effect `E` once.
///
/// Made only by a committed draw on all quotas of `E`; consumed by the emission, or by [`refund`](Self::refund). Neither
/// `Clone` nor `Copy`, so what was paid for once cannot be sent twice. A permit that is dropped is a spent token: nothing
/// was emitted, and nothing comes back.
///
/// ```compile_fail,E0382
/// # use tollgate::effect::*;
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// fn twice(gate: &Gate<Search>, permit: Permit<Search>, query: &String) {
///     let _ = gate.emit(permit, query);
///     let _ = gate.emit(permit, query); // the permit is gone
/// }
/// ```
///
/// ```compile_fail,E0308
/// # use tollgate::effect::*;
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// # struct Email;
/// # impl Effect for Email { const TOOL: &'static str = "Email"; type Payload = String; type Output = (); }
/// fn with_another(gate: &Gate<Search>, permit: Permit<Email>, query: &String) {
///     let _ = gate.emit(permit, query); // a permit of another effect
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use tollgate::effect::*;
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// fn copied(permit: &Permit<Search>) -> Permit<Search> {
///     permit.clone()
/// }
/// ```
#[must_use = "a permit that is dropped is a spent token"]
pub struct Permit<E: Effect> {
    pub(super) grant: Box<Grant>,
    effect: PhantomData<fn() -> E>,
}

/// What a refund gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// Whole tokens that came back, rounded down, in the order of the effect's quotas. What the quota has refilled since the
    /// draw does not come back: it is there already.
    pub tokens: Vec<u64>,
}

/// A permit whose effect is known by number.
pub(super) struct Grant {
    pub(super) inner: Arc<Inner>,
    pub(super) effect: usize,
    pub(super) number: u64,
    pub(super) key: KeyBytes,
    pub(super) cost: u64,
    pub(super) at: u64,
    receipts: SmallVec<[Receipt; 2]>,
    /// Room in the journal for the grant's end.
    end: Option<Reserved>,
    /// Nothing became of it yet.
    held: bool,
}

impl<E: Effect> Permit<E> {
    /// In a caller's hands, for as long as the caller likes.
    pub(super) fn new(mut grant: Box<Grant>) -> Self {
        if let Some(end) = &mut grant.end {
            end.hold();
        }
        Self { grant, effect: PhantomData }
    }

    /// The grant's number, as the journal has it.
    pub fn number(&self) -> u64 {
        self.grant.number
    }

    /// The tokens it was paid with, on each quota.
    pub fn cost(&self) -> u64 {
        self.grant.cost
    }

    /// When it was granted, in nanoseconds of the engine's clock.
    pub fn granted_at(&self) -> u64 {
        self.grant.at
    }

    /// The last nanosecond of the engine's clock at which it can be emitted.
    pub fn expires_at(&self) -> u64 {
        self.grant.expires_at()
    }

    /// For how long it can still be emitted.
    pub fn time_left(&self) -> Duration {
        Duration::from_nanos(self.expires_at().saturating_sub(self.grant.inner.clock.now()))
    }

    /// Gives the permit back instead of emitting it. What the quotas have not refilled since comes back.
    pub fn refund(self) -> Refund {
        self.grant.refund()
    }
}

impl Grant {
    pub(super) fn new(
        inner: Arc<Inner>,
        effect: usize,
        number: u64,
        key: KeyBytes,
        cost: u64,
        granted: super::budget::Granted,
        end: Option<Reserved>,
    ) -> Box<Self> {
        let super::budget::Granted { at, receipts } = granted;
        Box::new(Self { inner, effect, number, key, cost, at, receipts, end, held: true })
    }

    pub(super) fn expires_at(&self) -> u64 {
        self.at.saturating_add(self.inner.budgets[self.effect].ttl)
    }

    /// Records that it was emitted at `at`.
    pub(super) fn emitted(mut self, at: u64, journal: Option<Deciding<'_>>) {
        self.held = false;
        let (effect, grant) = (self.effect, self.number);
        let key = std::mem::take(&mut self.key);
        if let (Some(journal), Some(end)) = (journal, &mut self.end) {
            journal.record(end, Entry::Emit { at, effect, key, grant });
        }
    }

    pub(super) fn refund(mut self) -> Refund {
        let inner = self.inner.clone();
        let budget = &inner.budgets[self.effect];
        // Before the refund: it is recorded if it is made while the journal is open.
        let journal = inner.journal.as_ref().and_then(|journal| journal.enter().ok());
        let (at, changes) = budget.refund(&self.receipts);
        self.held = false;
        let mut tokens = Vec::with_capacity(changes.len());
        let mut draws: SmallVec<[States; 2]> = SmallVec::new();
        for (quota, change) in changes.iter().enumerate() {
            let back = change.map_or(0, |change| change.before.mark - change.after.mark);
            tokens.push(back / budget.quotas[quota].table.limits.arithmetic(0, 0).units_per_token());
            draws.extend(change.map(|change| States { quota, before: change.before, after: change.after }));
        }
        tracing::debug!(
            target: "tollgate::effect",
            effect = budget.tool, grant = self.number, at, ?tokens, "permit refunded"
        );
        let (effect, grant) = (self.effect, self.number);
        let key = std::mem::take(&mut self.key);
        if let (Some(journal), Some(end)) = (journal, &mut self.end) {
            journal.record(end, Entry::Refund { at, effect, key, grant, draws });
        }
        Refund { tokens }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        // The clock is a caller's code, and this may run while its thread unwinds already.
        let now = catch_unwind(AssertUnwindSafe(|| self.inner.clock.now()));
        let at = now.unwrap_or(self.at).max(self.at);
        let (effect, grant) = (self.effect, self.number);
        let key = std::mem::take(&mut self.key);
        tracing::debug!(
            target: "tollgate::effect",
            effect = self.inner.budgets[effect].tool, grant, at, "permit dropped: its tokens are spent"
        );
        let journal = self.inner.journal.as_ref().and_then(|journal| journal.enter().ok());
        if let (Some(journal), Some(end)) = (journal, &mut self.end) {
            journal.record(end, Entry::Forfeit { at, effect, key, grant });
        }
    }
}

impl<E: Effect> fmt::Debug for Permit<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("effect", &E::TOOL)
            .field("number", &self.grant.number)
            .field("cost", &self.grant.cost)
            .field("granted_at", &self.grant.at)
            .finish_non_exhaustive()
    }
}
