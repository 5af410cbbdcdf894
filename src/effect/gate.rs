//! The gate: the one way to a tool.

use super::ask::Keep;
#[cfg(doc)]
use super::effects::Effects;
use super::error::EffectError;
use super::ledger::Keeper;
use super::outcome::Outcome;
use super::payload::Payload;
use super::permit::Permit;
use super::toll::{DueReport, Toll, UnsentReason};
use crate::key::{Key, KeyBytes, encoded};
use std::fmt;
use std::sync::Arc;

/// An external effect: something that leaves the program, and is paid for before it does.
///
/// ```
/// use tollgate::effect::Effect;
/// struct Email;
/// impl Effect for Email {
///     const TOOL: &'static str = "Email"; // as rules and policy files name it
///     type Payload = String;              // what an emission carries
///     type Output = Result<(), String>;   // what it gives back
/// }
/// ```
pub trait Effect: 'static {
    /// The effect's name, as rules and policy files spell it.
    const TOOL: &'static str;
    /// What an emission carries.
    type Payload: Payload;
    /// What an emission returns: for a tool that can fail a `Result`, for an asynchronous one a future. What was drawn for an
    /// emission stays drawn if the tool fails.
    type Output;
}

pub(super) type ToolOf<E> = Box<dyn Fn(&<E as Effect>::Payload) -> <E as Effect>::Output + Send + Sync>;

/// The gate of one effect. It keeps the tool to itself; every way to it takes a permit. Clones share it.
///
/// ```compile_fail,E0061
/// # use tollgate::effect::*;
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// fn without_a_permit(gate: &Gate<Search>, query: &String) {
///     let _ = gate.emit(query);
/// }
/// ```
///
/// ```compile_fail,E0616
/// # use tollgate::effect::*;
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// fn past_the_gate(gate: &Gate<Search>, query: &String) {
///     (gate.tool)(query); // the function is private
/// }
/// ```
pub struct Gate<E: Effect> {
    toll: Toll,
    tool: Arc<ToolOf<E>>,
}

/// A call of an effect: whose budget pays, how much, and under which id equal calls are one.
///
/// ```
/// use tollgate::effect::Call;
/// let call = Call::of("alice").cost(3).coalesce("nightly-report");
/// # let _ = call;
/// ```
#[derive(Debug)]
#[must_use]
pub struct Call<'k, K: ?Sized> {
    key: &'k K,
    cost: u64,
    coalescing: Option<&'k str>,
}

impl<'k, K: Key + ?Sized> Call<'k, K> {
    /// A call that costs 1, paid by `key`'s budget. Use `&()` where there is one budget for everybody.
    pub fn of(key: &'k K) -> Self {
        Self { key, cost: 1, coalescing: None }
    }

    /// Sets the cost, in tokens of every quota: at least 1.
    pub fn cost(mut self, tokens: u64) -> Self {
        self.cost = tokens;
        self
    }

    /// If this call is deferred, further calls of the effect with this key and id and with the same payload and cost are this
    /// one, and get its ticket; one that differs is an error. Without an id no two calls are ever folded into one.
    pub fn coalesce(mut self, id: &'k str) -> Self {
        self.coalescing = Some(id);
        self
    }
}

/// An emission that did not take place. The permit comes back with the reason: it can be refunded, or used if the reason
/// passes.
pub struct Unsent<E: Effect> {
    /// The permit.
    pub permit: Permit<E>,
    /// Why.
    pub reason: UnsentReason,
}

impl<E: Effect> Gate<E> {
    pub(super) fn new(toll: Toll, tool: ToolOf<E>) -> Self {
        Self { toll, tool: Arc::new(tool) }
    }

    /// Draws `cost` for `key` on all quotas of the effect, or on none.
    ///
    /// Where a quota's policy is to defer, nothing can be kept for a permit alone: the call is blocked. Use
    /// [`call`](Self::call), which has the payload.
    ///
    /// # Errors
    /// [`EffectError`]: nothing was drawn; it says why and when to try again.
    pub fn permit<K: Key + ?Sized>(&self, key: &K, cost: u64) -> Result<Outcome<Permit<E>>, EffectError> {
        let mut buffer = KeyBytes::default();
        Ok(self.toll.permit(encoded(key, &mut buffer), cost)?.map(Permit::new))
    }

    /// Emits: runs the tool on `payload`, once, for a permit.
    ///
    /// # Errors
    /// The permit comes back: it expired, the hours are over, another engine granted it, or the emission cannot be recorded.
    pub fn emit(&self, permit: Permit<E>, payload: &E::Payload) -> Result<E::Output, Unsent<E>> {
        match self.toll.emit(permit.grant, || (self.tool)(payload)) {
            Ok(output) => Ok(output),
            Err((grant, reason)) => Err(Unsent { permit: Permit::new(grant), reason }),
        }
    }

    /// Asks for a permit and emits at once. Where the policy is to defer, the payload is kept and emitted by
    /// [`run_due`](Self::run_due).
    ///
    /// # Errors
    /// [`EffectError`]: nothing was emitted.
    pub fn call<K: Key + ?Sized>(
        &self,
        call: Call<'_, K>,
        payload: &E::Payload,
    ) -> Result<Outcome<E::Output>, EffectError> {
        let mut buffer = KeyBytes::default();
        let key = encoded(call.key, &mut buffer);
        let keep = Keep { by: Keeper::Gate, payload: &|| payload.to_bytes(), coalescing: call.coalescing };
        self.toll.call(key, call.cost, keep, || (self.tool)(payload))
    }

    /// Runs the deferred calls of this effect that are due at `now` (nanoseconds of the engine's clock), first those that are
    /// due first. Each takes its permit like anyone else; one whose quota is exhausted again waits until another time.
    ///
    /// These are the calls that gates of this effect kept, whichever of them: all gates of an effect should have one tool.
    ///
    /// A call's emission is noted in the ledger before it begins: if the process dies in between, or the tool panics, the call
    /// is [uncertain](Effects::uncertain) afterwards and not emitted again by itself.
    pub fn run_due(&self, now: u64) -> DueReport<E::Output> {
        self.toll.run_due(Keeper::Gate, now, |bytes| {
            let payload = E::Payload::from_bytes(bytes)?;
            Ok(move || (self.tool)(&payload))
        })
    }

    pub(super) fn inner(&self) -> &Arc<super::effects::Inner> {
        self.toll.inner()
    }

    /// The time of the engine's clock at which the first deferred call of this effect is due.
    pub fn next_due(&self) -> Option<u64> {
        self.toll.next_due(Keeper::Gate)
    }
}

impl<E: Effect> Clone for Gate<E> {
    fn clone(&self) -> Self {
        Self { toll: self.toll.clone(), tool: self.tool.clone() }
    }
}

impl<E: Effect> fmt::Debug for Gate<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("effect", &E::TOOL).finish_non_exhaustive()
    }
}

impl<E: Effect> fmt::Debug for Unsent<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsent").field("permit", &self.permit).field("reason", &self.reason).finish()
    }
}

impl<E: Effect> fmt::Display for Unsent<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", E::TOOL, self.reason)
    }
}

impl<E: Effect> std::error::Error for Unsent<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}
