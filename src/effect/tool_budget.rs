//! Budgets of a kernel's tools.

use super::ask::Keep;
use super::error::EffectError;
use super::ledger::Keeper;
use super::outcome::Outcome;
use super::payload::Payload;
use super::toll::{DueError, DueReport, Toll};
use crate::guard::ToolCallRequest;
use crate::key::{Key, KeyBytes};
use std::fmt;

/// Who pays for a call of a kernel's tool: whose bucket of each quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payer {
    /// One budget for everybody.
    Everybody,
    /// The calling agent.
    Agent,
    /// The capability under which the call is made.
    Capability,
    /// The agent under that capability.
    Session,
}

/// The budget of a kernel's tool: see [`Kernel::set_budget`](crate::kernel::Kernel::set_budget).
#[derive(Clone)]
pub struct ToolBudget {
    toll: Toll,
    payer: Payer,
    cost: u64,
}

impl ToolBudget {
    pub(super) fn new(toll: Toll, payer: Payer) -> Self {
        Self { toll, payer, cost: 1 }
    }

    /// Sets what a call costs, in tokens of every quota: at least 1.
    #[must_use]
    pub fn cost(mut self, tokens: u64) -> Self {
        self.cost = tokens;
        self
    }

    fn key(&self, request: &ToolCallRequest) -> KeyBytes {
        let mut key = KeyBytes::default();
        match self.payer {
            Payer::Everybody => {}
            Payer::Agent => key.raw(request.agent_id.as_bytes()),
            Payer::Capability => key.raw(request.capability.id.as_bytes()),
            Payer::Session => (request.agent_id.as_str(), request.capability.id.as_str()).encode(&mut key),
        }
        key
    }

    /// Runs a tool for a call once it is paid for.
    pub(crate) fn call<T>(
        &self,
        request: &ToolCallRequest,
        run: impl FnOnce() -> T,
    ) -> Result<Outcome<T>, EffectError> {
        let keep = Keep { by: Keeper::Kernel, payload: &|| request.to_bytes(), coalescing: None };
        self.toll.call(self.key(request).as_slice(), self.cost, keep, run)
    }

    /// Runs the deferred calls that are due at `now`. `prepare` says of a request what to run.
    pub(crate) fn run_due<T, R: FnOnce() -> T>(
        &self,
        now: u64,
        prepare: impl Fn(ToolCallRequest) -> Result<R, DueError>,
    ) -> DueReport<T> {
        self.toll.run_due(Keeper::Kernel, now, |bytes| prepare(ToolCallRequest::from_bytes(bytes)?))
    }

    /// Do both draw on one effect of one engine?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.toll.is_same(&other.toll)
    }
}

impl fmt::Debug for ToolBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolBudget")
            .field("effect", &self.toll.tool())
            .field("payer", &self.payer)
            .field("cost", &self.cost)
            .finish()
    }
}
