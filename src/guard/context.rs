//! What a guard sees of a call.

/// An amount of money in a currency's smallest configured unit (micro-dollars, cents, ...).
///
/// ```
/// use tollgate::guard::MonetaryAmount;
/// let price = MonetaryAmount { units: 21_895, currency: "USD".into() };
/// assert_eq!(price.units, 21_895);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "effects", derive(serde::Serialize, serde::Deserialize))]
pub struct MonetaryAmount {
    /// How many units.
    pub units: u64,
    /// The currency's code, compared byte for byte.
    pub currency: String,
}

/// The right to call one tool, as a capability grants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "effects", derive(serde::Serialize, serde::Deserialize))]
pub struct ToolGrant {
    /// The server that offers the tool; `*` means any.
    pub server_id: String,
    /// The tool; `*` means any.
    pub tool_name: String,
    /// The most that one invocation may cost. The velocity guard plans with this ceiling.
    pub max_cost_per_invocation: Option<MonetaryAmount>,
}

impl ToolGrant {
    /// A grant for one tool of one server, without a declared cost.
    pub fn new(server_id: impl Into<String>, tool_name: impl Into<String>) -> Self {
        Self { server_id: server_id.into(), tool_name: tool_name.into(), max_cost_per_invocation: None }
    }

    /// Declares the most that one invocation may cost.
    #[must_use]
    pub fn costing(mut self, units: u64, currency: impl Into<String>) -> Self {
        self.max_cost_per_invocation = Some(MonetaryAmount { units, currency: currency.into() });
        self
    }

    /// Does this grant cover `tool_name` on `server_id`?
    pub fn covers(&self, server_id: &str, tool_name: &str) -> bool {
        (self.server_id == "*" || self.server_id == server_id)
            && (self.tool_name == "*" || self.tool_name == tool_name)
    }
}

/// The grants that a capability carries, in order: a grant is named by its index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "effects", derive(serde::Serialize, serde::Deserialize))]
pub struct Scope {
    /// The grants.
    pub grants: Vec<ToolGrant>,
}

/// A token that lets its holder call the tools in its scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "effects", derive(serde::Serialize, serde::Deserialize))]
pub struct Capability {
    /// Identifies the capability. Limits follow this id, not the token that carries it.
    pub id: String,
    /// What it grants.
    pub scope: Scope,
}

/// One call of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "effects", derive(serde::Serialize, serde::Deserialize))]
pub struct ToolCallRequest {
    /// Identifies the call in logs.
    pub request_id: String,
    /// The capability under which it is made.
    pub capability: Capability,
    /// The tool.
    pub tool_name: String,
    /// The server that offers it.
    pub server_id: String,
    /// The agent that calls.
    pub agent_id: String,
    /// The tool's input, opaque to the guards in this crate.
    pub arguments: String,
}

/// What a guard judges: the request, the scope that was verified for it, and the grant that matched.
///
/// ```
/// use tollgate::guard::{Capability, GuardContext, Scope, ToolCallRequest, ToolGrant};
///
/// let scope = Scope { grants: vec![ToolGrant::new("srv", "search").costing(100, "USD")] };
/// let request = ToolCallRequest {
///     capability: Capability { id: "cap-1".into(), scope: scope.clone() },
///     agent_id: "agent-7".into(),
///     ..ToolCallRequest::default()
/// };
/// let context = GuardContext {
///     request: &request,
///     scope: &scope,
///     agent_id: &request.agent_id,
///     server_id: "srv",
///     matched_grant_index: Some(0),
/// };
/// assert_eq!(context.matched_grant_index, Some(0));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct GuardContext<'a> {
    /// The call.
    pub request: &'a ToolCallRequest,
    /// The capability's scope, as verified by the kernel.
    pub scope: &'a Scope,
    /// The calling agent, as authenticated by the kernel.
    pub agent_id: &'a str,
    /// The target server.
    pub server_id: &'a str,
    /// The index in `scope.grants` of the grant that covers the call.
    pub matched_grant_index: Option<usize>,
}
