//! A kernel: registered tools, and guards in front of every dispatch.
//!
//! A dispatch passes five gates in this order, and whatever stops it stops it before the tool runs:
//!
//! 1. the capability must hold a grant that covers the tool ([`KernelError::NotGranted`]);
//! 2. the tool must be registered ([`KernelError::UnknownTool`]);
//! 3. every guard must allow the call ([`KernelError::GuardDenied`], [`KernelError::ApprovalRequired`],
//!    [`KernelError::GuardFailed`], or [`KernelError::Internal`] if a guard panicked);
//! 4. a tool with a budget must be paid for (`KernelError::Effect`, `KernelError::EffectShed`), as through any
//!    [`Gate`](crate::effect::Gate);
//! 5. the tool itself must succeed ([`KernelError::ToolFailed`]).
//!
//! The grant comes first, so that a caller learns nothing about tools it may not call; the tool comes before
//! the guards, so that a call which leads nowhere costs nothing.

mod error;
mod tool;

pub use error::KernelError;
pub use tool::{Tool, ToolError, ToolOutput};

#[cfg(feature = "effects")]
use crate::effect::{DueError, DueReport, Outcome, ToolBudget};
use crate::guard::{Details, Guard, GuardContext, Tally, ToolCallRequest, Verdict, contained};
use std::collections::HashMap;
use std::fmt;

/// Dispatches calls to registered tools, if every guard agrees.
///
/// Set it up, then share it: [`dispatch`](Self::dispatch) takes `&self` and may run on any number of threads
/// at once.
///
/// ```
/// use tollgate::guard::{Capability, Scope, ToolCallRequest, ToolGrant, VelocityConfig, VelocityGuard};
/// use tollgate::kernel::{Kernel, KernelError};
///
/// let mut kernel = Kernel::new();
/// kernel.register_tool("files", "read", |request: &ToolCallRequest| Ok(format!("read {}", request.arguments)));
/// kernel.add_guard(Box::new(VelocityGuard::new(VelocityConfig {
///     max_invocations_per_window: Some(1),
///     ..VelocityConfig::default()
/// })));
///
/// let call = ToolCallRequest {
///     capability: Capability { id: "cap-1".into(), scope: Scope { grants: vec![ToolGrant::new("files", "read")] } },
///     server_id: "files".into(),
///     tool_name: "read".into(),
///     agent_id: "agent-7".into(),
///     arguments: "notes.txt".into(),
///     ..ToolCallRequest::default()
/// };
/// assert_eq!(kernel.dispatch(&call).unwrap().content, "read notes.txt");
/// let refused = kernel.dispatch(&call).unwrap_err();
/// assert!(matches!(refused, KernelError::GuardDenied { .. }));
/// assert!(refused.refusal().unwrap().retry_after.is_some());
/// ```
#[derive(Default)]
pub struct Kernel {
    guards: Vec<Box<dyn Guard>>,
    /// By server, then by tool: looked up without building a pair.
    tools: HashMap<String, HashMap<String, Box<dyn Tool>>>,
    /// The budgets of tools, by server and tool. A budget belongs to the name: whatever is registered under it is paid for.
    #[cfg(feature = "effects")]
    budgets: HashMap<String, HashMap<String, ToolBudget>>,
}

impl Kernel {
    /// A kernel without tools and guards. Until a guard is added, everything that is granted is dispatched.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a guard behind those already there. It is asked before every dispatch from now on.
    pub fn add_guard(&mut self, guard: Box<dyn Guard>) {
        self.guards.push(guard);
    }

    /// Registers a tool under its server and name; returns the tool that had this name before, if any. If the name has a
    /// budget, a call of what is returned is paid for too.
    pub fn register_tool(
        &mut self,
        server_id: impl Into<String>,
        tool_name: impl Into<String>,
        tool: impl Tool + 'static,
    ) -> Option<Box<dyn Tool>> {
        let (server_id, tool_name) = (server_id.into(), tool_name.into());
        #[cfg(feature = "effects")]
        let budget = self.budget(&server_id, &tool_name).cloned();
        #[cfg(feature = "effects")]
        let name = (server_id.clone(), tool_name.clone());
        let before = self.tools.entry(server_id).or_default().insert(tool_name, Box::new(tool))?;
        #[cfg(feature = "effects")]
        if let Some(budget) = budget {
            return Some(Box::new(tool::Paid { server_id: name.0, tool_name: name.1, budget, tool: before }));
        }
        Some(before)
    }

    /// Gives the tool of that server and name a budget, whether it is registered already or will be: every call of it is
    /// paid for from now on. Returns the budget that the name had before.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::effect::{EffectPolicy, EffectRule, Effects, Payer, QuotaRule};
    /// use tollgate::kernel::Kernel;
    ///
    /// let rule = EffectRule::new("Search").quota(QuotaRule::rate(100, Duration::from_secs(60)));
    /// let effects =
    ///     Effects::builder(EffectPolicy::new().effect(rule)).declare_tool("Search").build()?;
    /// let mut kernel = Kernel::new();
    /// kernel.set_budget("web", "search", effects.tool_budget("Search", Payer::Agent)?);
    /// # Ok::<(), tollgate::effect::EffectsError>(())
    /// ```
    #[cfg(feature = "effects")]
    pub fn set_budget(
        &mut self,
        server_id: impl Into<String>,
        tool_name: impl Into<String>,
        budget: ToolBudget,
    ) -> Option<ToolBudget> {
        self.budgets.entry(server_id.into()).or_default().insert(tool_name.into(), budget)
    }

    #[cfg(feature = "effects")]
    fn budget(&self, server_id: &str, tool_name: &str) -> Option<&ToolBudget> {
        self.budgets.get(server_id)?.get(tool_name)
    }

    /// Runs the deferred calls that are due at `now` (nanoseconds of the effects' clock), of every tool with a budget. Each
    /// takes its permit like anyone else. The guards are not asked again: they allowed the call when it was dispatched.
    #[cfg(feature = "effects")]
    pub fn run_due(&self, now: u64) -> DueReport<Result<ToolOutput, KernelError>> {
        let mut whole = DueReport { emitted: Vec::new(), postponed: Vec::new(), failed: Vec::new() };
        let mut done: Vec<&ToolBudget> = Vec::new();
        for budget in self.budgets.values().flat_map(HashMap::values) {
            if done.iter().any(|other| other.is_same(budget)) {
                continue;
            }
            done.push(budget);
            let report = budget.run_due(now, |request| {
                let ToolCallRequest { server_id, tool_name, .. } = &request;
                // The name's budget now, which need not be the one that kept the call.
                let pays = self.budget(server_id, tool_name).is_some_and(|own| own.is_same(budget));
                match self.tool(&request) {
                    Ok(tool) if pays => Ok(move || self.run(tool, &request)),
                    _ => Err(DueError::NoTool { server_id: server_id.clone(), tool_name: tool_name.clone() }),
                }
            });
            whole.emitted.extend(report.emitted);
            whole.postponed.extend(report.postponed);
            whole.failed.extend(report.failed);
        }
        whole
    }

    /// Runs a tool that nothing speaks against any more.
    fn run(&self, tool: &dyn Tool, request: &ToolCallRequest) -> Result<ToolOutput, KernelError> {
        tool.call(request).map_err(|source| KernelError::ToolFailed {
            server_id: request.server_id.clone(),
            tool_name: request.tool_name.clone(),
            source,
        })
    }

    /// Runs a tool if its budget, where it has one, pays for the call.
    #[cfg(feature = "effects")]
    fn pay_and_run(&self, tool: &dyn Tool, request: &ToolCallRequest) -> Result<ToolOutput, KernelError> {
        let Some(budget) = self.budget(&request.server_id, &request.tool_name) else {
            return self.run(tool, request);
        };
        match budget.call(request, || self.run(tool, request)) {
            Ok(Outcome::Done(ran)) => ran,
            Ok(Outcome::Shed(shed)) => Err(KernelError::EffectShed(shed)),
            Err(error) => Err(KernelError::Effect(error)),
        }
    }

    #[cfg(not(feature = "effects"))]
    fn pay_and_run(&self, tool: &dyn Tool, request: &ToolCallRequest) -> Result<ToolOutput, KernelError> {
        self.run(tool, request)
    }

    /// Runs the tool that `request` names, once, if its capability grants that and every guard allows it.
    ///
    /// Guards are asked in the order they were added. The first that denies, fails or panics ends the
    /// dispatch. One that holds the call for approval does not: those after it are asked too, since nobody
    /// should be asked to approve a call that would be denied anyway; then the call is refused as held.
    ///
    /// A refusal is logged at debug level under the target `tollgate::kernel`; one for which a guard that
    /// failed is to blame, at error level. Arguments are never logged.
    ///
    /// # Errors
    /// Everything that kept the tool from running, and the tool's own error. A panic of the tool is the
    /// caller's: it passes through, and the kernel stays usable.
    pub fn dispatch(&self, request: &ToolCallRequest) -> Result<ToolOutput, KernelError> {
        let answer = self.clear(request).and_then(|tool| self.pay_and_run(tool, request));
        if let Err(refused) = &answer {
            if !matches!(refused, KernelError::ToolFailed { .. }) {
                log(request, refused);
            }
        }
        answer
    }

    fn tool(&self, request: &ToolCallRequest) -> Result<&dyn Tool, KernelError> {
        let ToolCallRequest { server_id, tool_name, .. } = request;
        let tool = self.tools.get(server_id).and_then(|tools| tools.get(tool_name));
        tool.map(Box::as_ref).ok_or_else(|| KernelError::UnknownTool {
            server_id: server_id.clone(),
            tool_name: tool_name.clone(),
        })
    }

    /// The tool to run, if nothing speaks against it.
    fn clear(&self, request: &ToolCallRequest) -> Result<&dyn Tool, KernelError> {
        let ToolCallRequest { server_id, tool_name, capability, .. } = request;
        let covering = |grant: &crate::guard::ToolGrant| grant.covers(server_id, tool_name);
        let Some(grant) = capability.scope.grants.iter().position(covering) else {
            return Err(KernelError::NotGranted {
                capability_id: capability.id.clone(),
                server_id: server_id.clone(),
                tool_name: tool_name.clone(),
            });
        };
        let tool = self.tool(request)?;
        self.ask_guards(&GuardContext {
            request,
            scope: &capability.scope,
            agent_id: &request.agent_id,
            server_id,
            matched_grant_index: Some(grant),
        })?;
        Ok(tool)
    }

    fn ask_guards(&self, ctx: &GuardContext<'_>) -> Result<(), KernelError> {
        let mut tally = Tally::new();
        for guard in &self.guards {
            tally.add(guard.name(), contained::evaluate(guard.as_ref(), ctx)?);
            if tally.verdict() == Verdict::Deny {
                break;
            }
        }
        match tally.verdict() {
            Verdict::Allow => Ok(()),
            Verdict::Deny => Err(KernelError::GuardDenied { decision: tally.into_decision() }),
            Verdict::PendingApproval => {
                Err(KernelError::ApprovalRequired { decision: tally.into_decision() })
            }
        }
    }
}

fn log(request: &ToolCallRequest, refused: &KernelError) {
    let guard_failed = match refused {
        KernelError::Internal(_) | KernelError::GuardFailed { .. } => true,
        KernelError::GuardDenied { decision } => {
            decision.evidence.iter().any(|piece| matches!(piece.details, Some(Details::FailedClosed(_))))
        }
        _ => false,
    };
    let ToolCallRequest { request_id, agent_id, server_id, tool_name, capability, .. } = request;
    let capability_id = &capability.id;
    if guard_failed {
        tracing::error!(
            target: "tollgate::kernel",
            request_id, agent_id, capability_id, server_id, tool_name, reason = %refused,
            "call refused because a guard failed"
        );
    } else {
        tracing::debug!(
            target: "tollgate::kernel",
            request_id, agent_id, capability_id, server_id, tool_name, reason = %refused,
            "call refused"
        );
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guards: Vec<&str> = self.guards.iter().map(|guard| guard.name()).collect();
        let tools =
            self.tools.iter().flat_map(|(server, tools)| tools.keys().map(move |tool| (server, tool)));
        f.debug_struct("Kernel").field("guards", &guards).field("tools", &tools.collect::<Vec<_>>()).finish()
    }
}
