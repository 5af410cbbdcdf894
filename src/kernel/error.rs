//! Why a call did not go through.

use super::ToolError;
use crate::Refusal;
use crate::guard::{GuardDecision, GuardEvidence};
use std::fmt;

/// Why a kernel or a guard could not let a call through. Every one of them is a refusal: the tool did not
/// run, except for [`ToolFailed`](Self::ToolFailed), which is the tool's own word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The guard cannot judge this call, or panicked over it; the text says what is missing or who failed.
    #[error("{0}")]
    Internal(String),

    /// A guard could not judge the call, which is then refused.
    #[error("guard {guard} cannot judge the call, so it was refused: {error}")]
    GuardFailed {
        /// The guard.
        guard: String,
        /// What it said.
        #[source]
        error: Box<KernelError>,
    },

    /// A guard denied the call.
    #[error("denied by {}", Pieces(&decision.evidence))]
    GuardDenied {
        /// Who denied it and why. [`KernelError::refusal`] gives the limit, if it was one.
        decision: GuardDecision,
    },

    /// A guard holds the call until somebody approves it.
    #[error("held for approval by {}; have it approved, then dispatch it again", Pieces(&decision.evidence))]
    ApprovalRequired {
        /// Who holds it and why.
        decision: GuardDecision,
    },

    /// No such tool.
    #[error("no tool {tool_name:?} is registered on server {server_id:?}: register it, or correct the call")]
    UnknownTool {
        /// The server asked for.
        server_id: String,
        /// The tool asked for.
        tool_name: String,
    },

    /// The capability does not cover the tool.
    #[error(
        "capability {capability_id:?} grants no tool {tool_name:?} on server {server_id:?}: use one that does"
    )]
    NotGranted {
        /// The capability.
        capability_id: String,
        /// The server asked for.
        server_id: String,
        /// The tool asked for.
        tool_name: String,
    },

    /// The tool's budget does not pay for the call: blocked, deferred, or not to be recorded.
    #[cfg(feature = "effects")]
    #[error("{0}")]
    Effect(#[from] crate::effect::EffectError),

    /// The tool's budget does not pay for the call, and the flow is to go on without it. There is no output.
    #[cfg(feature = "effects")]
    #[error("{}: left out, since {} is exhausted; go on without it", .0.effect, .0.quota)]
    EffectShed(crate::effect::Shed),

    /// The tool ran and failed. What the guards drew for the call stays drawn.
    #[error("tool {tool_name:?} on server {server_id:?}: {source}")]
    ToolFailed {
        /// The server.
        server_id: String,
        /// The tool.
        tool_name: String,
        /// What the tool said.
        source: ToolError,
    },
}

impl KernelError {
    /// The first limit that refused, if a limit did: which, how much is there, and when to try again.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::GuardDenied { decision } => decision.refusal(),
            _ => None,
        }
    }
}

/// Evidence as one line of text.
struct Pieces<'a>(&'a [GuardEvidence]);

impl fmt::Display for Pieces<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}guard {}", piece.guard_name)?;
            if let Some(details) = &piece.details {
                write!(f, ": {details}")?;
            }
        }
        Ok(())
    }
}
