//! Requests, prepared before timing.

use crate::ids::{self, Kind};
use tollgate::guard::{Capability, GuardContext, Scope, ToolCallRequest, ToolGrant};

/// What the only grant of every capability declares as the cost of a call.
pub const COST: u64 = 7;

/// One request: every contender reads its identifiers from here.
#[derive(Debug, Clone)]
pub struct Call {
    /// The request as a kernel has it.
    pub request: ToolCallRequest,
}

impl Call {
    /// A call under `capability` by `agent`.
    pub fn new(capability: String, agent: String) -> Self {
        let capability = Capability { id: capability, scope: Scope::default() };
        Self { request: ToolCallRequest { capability, agent_id: agent, ..ToolCallRequest::default() } }
    }

    /// The capability's identifier.
    #[inline]
    pub fn id(&self) -> &String {
        &self.request.capability.id
    }

    /// Makes it a call under another capability.
    pub fn rename(&mut self, kind: Kind, number: u64) {
        ids::write(&mut self.request.capability.id, kind, number);
    }

    /// The call as a guard sees it. `scope` is verified by the kernel, which need not take it from the request: one
    /// for all calls keeps the scopes' memory out of what is measured.
    #[inline]
    pub fn context<'a>(&'a self, scope: &'a Scope) -> GuardContext<'a> {
        GuardContext {
            request: &self.request,
            scope,
            agent_id: &self.request.agent_id,
            server_id: "srv",
            matched_grant_index: Some(0),
        }
    }
}

/// The scope of all calls: one grant, with a declared cost.
pub fn scope() -> Scope {
    Scope { grants: vec![ToolGrant::new("srv", "search").costing(COST, "USD")] }
}

/// The calls of each thread.
#[derive(Debug)]
pub struct Calls {
    /// As many calls for every thread.
    pub per_thread: Vec<Vec<Call>>,
    /// Different capabilities.
    pub keys: u64,
    /// Calls under each capability in one thread's pass.
    pub repeats: u64,
    /// Different agents.
    pub agents: u64,
}

impl Calls {
    /// Every capability once, in an order of each thread's own. Capability `n` belongs to agent `n % agents`.
    ///
    /// A request lies in memory where its turn is, with its identifiers, as one that was just received does; so what
    /// misses the caches is the contender's, not the benchmark's.
    pub fn random(threads: usize, keys: u64, agents: u64) -> Self {
        let call =
            |number: u64| Call::new(ids::id(Kind::Capability, number), ids::id(Kind::Agent, number % agents));
        let order = |thread: usize| ids::shuffled(keys, 1 + thread as u64).into_iter().map(call).collect();
        Self { per_thread: (0..threads).map(order).collect(), keys, repeats: 1, agents }
    }

    /// `repeats` calls under one capability.
    pub fn hot(threads: usize, repeats: u64) -> Self {
        let call = |_| Call::new(ids::id(Kind::Capability, 0), ids::id(Kind::Agent, 0));
        let calls = |_| (0..repeats).map(call).collect();
        Self { per_thread: (0..threads).map(calls).collect(), keys: 1, repeats, agents: 1 }
    }

    /// `each` calls for every thread, all under different capabilities of one kind.
    pub fn distinct(threads: usize, each: u64, kind: Kind) -> Self {
        let call = |number: u64| Call::new(ids::id(kind, number), String::new());
        let calls = |thread: usize| (0..each).map(|n| call(thread as u64 * each + n)).collect();
        let keys = threads as u64 * each;
        Self { per_thread: (0..threads).map(calls).collect(), keys, repeats: 1, agents: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn each_thread_calls_under_every_capability_in_an_order_of_its_own() {
        let calls = Calls::random(2, 64, 4);
        let ids = |thread: usize| calls.per_thread[thread].iter().map(Call::id).collect::<Vec<_>>();
        assert_ne!(ids(0), ids(1));
        assert_eq!(ids(0).into_iter().collect::<HashSet<_>>().len(), 64);
        assert_eq!(ids(0).into_iter().collect::<HashSet<_>>(), ids(1).into_iter().collect());
        let mut sessions = BTreeMap::<&str, u64>::new();
        for call in &calls.per_thread[0] {
            *sessions.entry(&call.request.agent_id).or_default() += 1;
        }
        assert_eq!(sessions.into_values().collect::<Vec<_>>(), [16; 4]);
    }

    #[test]
    fn distinct_calls_share_no_capability_between_threads() {
        let calls = Calls::distinct(3, 10, Kind::Newcomer);
        let ids: HashSet<_> = calls.per_thread.iter().flatten().map(Call::id).collect();
        assert_eq!((ids.len(), calls.keys), (30, 30));
    }
}
