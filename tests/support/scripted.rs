//! A guard that does what a test tells it to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate::guard::{Details, Guard, GuardContext, GuardDecision, Verdict};
use tollgate::kernel::KernelError;

/// What a scripted guard does when it is asked.
#[derive(Clone)]
pub enum Scripted {
    Allow,
    Deny,
    /// Denies without evidence.
    SilentDeny,
    Hold,
    Fail,
    /// Panics the first time and allows from then on.
    PanicOnce,
}

impl Scripted {
    /// A guard of this name that follows the script and counts in `asked` how often it was asked.
    pub fn named(self, name: &'static str, asked: &Arc<AtomicUsize>) -> Box<dyn Guard> {
        Box::new(ScriptedGuard { name, script: self, asked: asked.clone() })
    }
}

struct ScriptedGuard {
    name: &'static str,
    script: Scripted,
    asked: Arc<AtomicUsize>,
}

impl Guard for ScriptedGuard {
    fn name(&self) -> &str {
        self.name
    }

    fn evaluate(&self, _: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        let earlier = self.asked.fetch_add(1, Ordering::Relaxed);
        let said = Details::Text("the script says so".into());
        match &self.script {
            Scripted::Allow => Ok(GuardDecision::allow()),
            Scripted::Deny => Ok(GuardDecision::deny(self.name, said)),
            Scripted::SilentDeny => Ok(GuardDecision { verdict: Verdict::Deny, evidence: Vec::new() }),
            Scripted::Hold => Ok(GuardDecision::pending_approval(self.name, said)),
            Scripted::Fail => Err(KernelError::Internal("the script fails".into())),
            Scripted::PanicOnce if earlier == 0 => panic!("the script panics"),
            Scripted::PanicOnce => Ok(GuardDecision::allow()),
        }
    }
}
