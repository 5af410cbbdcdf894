//! A guard's answer, and the evidence it leaves.

use crate::Refusal;
use std::borrow::Cow;
use std::fmt;

/// May the call go ahead?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// Not before a person or another system has agreed.
    PendingApproval,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::PendingApproval => "pending approval",
        })
    }
}

/// Why a guard did not simply allow: typed where the guard knows more, formatted only when printed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Details {
    /// Words.
    Text(Cow<'static, str>),
    /// A limit refused: which, what was needed and available, and when to retry.
    Refused(Refusal),
    /// A guard failed and was therefore taken as a deny.
    FailedClosed(crate::kernel::KernelError),
}

impl fmt::Display for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Details::Text(text) => f.write_str(text),
            Details::Refused(refusal) => refusal.fmt(f),
            Details::FailedClosed(error) => write!(f, "guard failed, refused (fail-closed): {error}"),
        }
    }
}

/// One guard's part in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardEvidence {
    /// The guard that says this.
    pub guard_name: Cow<'static, str>,
    /// What it decided.
    pub verdict: Verdict,
    /// Why.
    pub details: Option<Details>,
}

/// A guard's decision. Comparable with a [`Verdict`].
///
/// ```
/// use tollgate::guard::{GuardDecision, Verdict};
/// assert_eq!(GuardDecision::allow(), Verdict::Allow);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct GuardDecision {
    /// The verdict.
    pub verdict: Verdict,
    /// Evidence from each guard that did not simply allow.
    pub evidence: Vec<GuardEvidence>,
}

impl GuardDecision {
    /// Allowed, nothing to say.
    pub fn allow() -> Self {
        Self { verdict: Verdict::Allow, evidence: Vec::new() }
    }

    /// Denied by one guard, with its reason.
    pub fn deny(guard_name: impl Into<Cow<'static, str>>, details: Details) -> Self {
        let evidence =
            GuardEvidence { guard_name: guard_name.into(), verdict: Verdict::Deny, details: Some(details) };
        Self { verdict: Verdict::Deny, evidence: vec![evidence] }
    }

    /// Held by one guard until somebody approves, with its reason.
    pub fn pending_approval(guard_name: impl Into<Cow<'static, str>>, details: Details) -> Self {
        let evidence = GuardEvidence {
            guard_name: guard_name.into(),
            verdict: Verdict::PendingApproval,
            details: Some(details),
        };
        Self { verdict: Verdict::PendingApproval, evidence: vec![evidence] }
    }

    /// The first limit that refused, if a limit did.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.evidence.iter().find_map(|evidence| match &evidence.details {
            Some(Details::Refused(refusal)) => Some(refusal),
            _ => None,
        })
    }
}

impl PartialEq<Verdict> for GuardDecision {
    fn eq(&self, verdict: &Verdict) -> bool {
        self.verdict == *verdict
    }
}
impl PartialEq<GuardDecision> for Verdict {
    fn eq(&self, decision: &GuardDecision) -> bool {
        *self == decision.verdict
    }
}
