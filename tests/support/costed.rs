//! Calls that declare a cost, under the only grant of a capability, as a guard sees them.

use tollgate::guard::{Capability, GuardContext, Scope, ToolCallRequest, ToolGrant};

/// A call under the capability `id`, whose grant declares `cost`.
pub fn request(id: impl Into<String>, cost: u64) -> ToolCallRequest {
    let scope = Scope { grants: vec![ToolGrant::new("srv", "tool").costing(cost, "USD")] };
    let capability = Capability { id: id.into(), scope };
    ToolCallRequest { capability, ..ToolCallRequest::default() }
}

/// The call with its grant matched.
pub fn context(request: &ToolCallRequest) -> GuardContext<'_> {
    GuardContext {
        request,
        scope: &request.capability.scope,
        agent_id: "agent",
        server_id: "srv",
        matched_grant_index: Some(0),
    }
}
