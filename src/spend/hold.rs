//! The handle of a hold.

use super::amount::Amounts;
use super::engine::Named;
use super::engine::holds::Cell;
use super::error::SpendError;
use super::record::{HoldState, Phase, Settlement};
use super::refusal::Decision;
use super::spend::Spend;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A hold's name: what is needed to settle it later, or from another process that has the store. An id that was forgotten and
/// used again has another generation, so an old name does not touch the new hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HoldRef {
    pub(super) id: String,
    pub(super) generation: u64,
}

impl HoldRef {
    /// The hold of this id and generation.
    pub fn new(id: impl Into<String>, generation: u64) -> Self {
        Self { id: id.into(), generation }
    }

    /// The caller's id of it, or one that was made for it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which of all holds ever.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn of(state: &HoldState) -> Self {
        Self::new(state.id.clone(), state.generation)
    }

    pub(super) fn unknown(&self) -> SpendError {
        SpendError::NoHold { id: self.id.clone(), generation: self.generation }
    }
}

/// Something set aside: [settle](Self::settle) it once it is known what was used. Dropped, it is given back.
///
/// ```
/// use tollgate::spend::{Amounts, Call, Dimension, Limit, Scope, Spend, SpendPolicy, Window};
///
/// let spend = Spend::open(SpendPolicy::new().scope(Scope::shared("all").limit(Limit::cost(1_000, Window::Lifetime))))?;
/// let hold = spend.hold(&Call::new(), &Amounts::new().cost(600))?;
/// assert!(spend.hold(&Call::new(), &Amounts::new().cost(600)).is_err(), "400 are left");
/// drop(hold); // the call was cancelled
///
/// let hold = spend.hold(&Call::new(), &Amounts::new().cost(600))?;
/// hold.extend(&Amounts::new().cost(300))?; // another step of the same run
/// hold.charge(&Amounts::new().cost(250))?; // the first attempt failed, and was billed
/// let settlement = hold.settle(&Amounts::new().cost(500))?;
/// assert_eq!(settlement.used[Dimension::Cost], 750);
/// assert_eq!(settlement.released[Dimension::Cost], 150);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a hold that is dropped is given back"]
pub struct Hold {
    spend: Spend,
    cell: Arc<Cell>,
    named: Named,
    decision: Decision,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("id", &self.named.name.id)
            .field("generation", &self.named.name.generation)
            .field("granted", &self.decision.granted)
            .finish_non_exhaustive()
    }
}

impl Hold {
    pub(super) fn new(spend: &Spend, cell: Arc<Cell>, named: Named) -> Self {
        let decision = cell.lock().as_ref().map(|live| live.state.decision.clone()).unwrap_or_default();
        Self { spend: spend.clone(), cell, named, decision }
    }

    /// Its name.
    pub fn name(&self) -> &HoldRef {
        &self.named.name
    }

    /// Was it there before, under the same id? Then its call may have been dispatched already.
    pub fn is_replayed(&self) -> bool {
        self.named.replayed
    }

    /// What was granted when it was made, and how much the caller may do from there on.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// What became of it, if it is over.
    pub fn settlement(&self) -> Option<Settlement> {
        self.cell.lock().as_ref().and_then(|live| live.state.settlement().copied())
    }

    /// Did it outlive its time to live?
    pub fn is_expired(&self) -> bool {
        self.cell.lock().as_ref().is_some_and(|live| live.state.phase == Phase::Expired)
    }

    /// Sets `more` aside under it, in every scope and dimension or nowhere: before each expensive step of a run, and where a call
    /// falls back on something dearer. Its time to live begins anew.
    ///
    /// # Errors
    /// A limit without room, or more in all than the ceiling of the call's grant; what was set aside before stays. A hold that is
    /// over or has expired; a store that fails.
    pub fn extend(&self, more: &Amounts) -> Result<Decision, SpendError> {
        self.spend.0.extend(&self.cell, &self.named.name, more, None)
    }

    /// The same, under an id within this hold: asked again it gets the same answer, and nothing is set aside twice.
    ///
    /// # Errors
    /// As [`extend`](Self::extend), and another extension under the id.
    pub fn extend_as(&self, step: &str, more: &Amounts) -> Result<Decision, SpendError> {
        self.spend.0.extend(&self.cell, &self.named.name, more, Some(step))
    }

    /// Records that part of the call used `used`, in full, even beyond what is set aside: an attempt that is retried, a chunk of
    /// a stream. The total is all charges and what it is settled with.
    ///
    /// # Errors
    /// Amounts that cannot be, a hold that is over, a store that fails.
    pub fn charge(&self, used: &Amounts) -> Result<(), SpendError> {
        self.spend.0.charge(&self.cell, &self.named.name, used, None)
    }

    /// The same, under an id within this hold: charged again it changes nothing.
    ///
    /// # Errors
    /// As [`charge`](Self::charge), and another charge under the id.
    pub fn charge_as(&self, step: &str, used: &Amounts) -> Result<(), SpendError> {
        self.spend.0.charge(&self.cell, &self.named.name, used, Some(step))
    }

    /// Records what the call really used besides its charges, in full, even beyond what is set aside, and gives the rest back
    /// at once. What is beyond is debt of the windows that are current now. Settling again with the same gets the first answer.
    ///
    /// A hold that outlived its time to live can still be settled, once.
    ///
    /// # Errors
    /// Amounts that cannot be (a negative one is no credit), another settlement than before, a hold that was released, a store
    /// that fails: it stays as it was, and can be settled again.
    pub fn settle(&self, actual: &Amounts) -> Result<Settlement, SpendError> {
        self.spend.0.settle(&self.cell, &self.named.name, actual, "")
    }

    /// Gives back what is set aside and not charged: the call did not happen.
    ///
    /// # Errors
    /// A hold that was settled, a store that fails.
    pub fn release(&self) -> Result<Settlement, SpendError> {
        self.spend.0.release(&self.cell, &self.named.name, "")
    }

    /// Keeps it set aside without this handle: it is [resumed](Spend::resume) or [settled](Spend::settle) by its name, or
    /// expires.
    pub fn detach(self) -> HoldRef {
        if let Some(live) = self.cell.lock().as_mut() {
            live.detached = true;
        }
        self.named.name.clone()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // A destructor that panics while another panic unwinds ends the process.
        let dropped = catch_unwind(AssertUnwindSafe(|| self.spend.0.dropped(&self.cell, &self.named.name)));
        if dropped.is_err() {
            let id = &self.named.name.id;
            tracing::error!(target: "tollgate::spend", id, "a clock, a store or a subscriber panicked while a hold was dropped");
        }
    }
}
