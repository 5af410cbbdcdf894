//! How the kernel must behave: what it dispatches, what it refuses, and what it says about it.

mod support;

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use support::scripted::Scripted;
use support::{Call, SERVER, Setup, TOOL, Velocity, millis};
use tollgate::guard::{
    Guard, GuardContext, GuardDecision, GuardPipeline, ToolCallRequest, ToolGrant, VelocityConfig, Verdict,
};
use tollgate::kernel::{Kernel, KernelError, ToolError};
use tollgate::time::ManualClock;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// A kernel with one tool, which counts how often it runs.
fn kernel() -> (Kernel, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let mut kernel = Kernel::new();
    let counted = runs.clone();
    let tool = move |request: &ToolCallRequest| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(format!("found {}", request.arguments))
    };
    assert!(kernel.register_tool(SERVER, TOOL, tool).is_none());
    (kernel, runs)
}

/// [`kernel`] behind scripted guards; also returns how often each guard was asked.
fn guarded(scripts: &[(&'static str, Scripted)]) -> (Kernel, Arc<AtomicUsize>, Vec<Arc<AtomicUsize>>) {
    let (mut kernel, runs) = kernel();
    let asked = scripts.iter().map(|(name, script)| {
        let asked = Arc::new(AtomicUsize::new(0));
        kernel.add_guard(script.clone().named(name, &asked));
        asked
    });
    let asked = asked.collect();
    (kernel, runs, asked)
}

fn counts(asked: &[Arc<AtomicUsize>]) -> Vec<usize> {
    asked.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

fn request() -> ToolCallRequest {
    let mut request = Call::of("cap").request;
    request.arguments = "a needle".into();
    request
}

#[test]
fn an_allowed_call_runs_its_tool_exactly_once_and_gets_its_output() {
    let (kernel, runs, asked) = guarded(&[("first", Scripted::Allow), ("second", Scripted::Allow)]);
    assert_eq!(kernel.dispatch(&request()).unwrap().content, "found a needle");
    assert_eq!((runs.load(Ordering::Relaxed), counts(&asked)), (1, vec![1, 1]));
}

#[test]
fn a_denied_call_runs_nothing_and_later_guards_are_not_asked() {
    let (kernel, runs, asked) = guarded(&[("first", Scripted::Deny), ("second", Scripted::Allow)]);
    let error = kernel.dispatch(&request()).unwrap_err();
    let KernelError::GuardDenied { decision } = &error else { panic!("denied, not {error:?}") };
    assert_eq!((decision.verdict, decision.evidence[0].guard_name.as_ref()), (Verdict::Deny, "first"));
    assert_eq!(error.to_string(), "denied by guard first: the script says so");
    assert_eq!((runs.load(Ordering::Relaxed), counts(&asked)), (0, vec![1, 0]));
}

#[test]
fn a_deny_without_evidence_still_names_its_guard() {
    let (kernel, runs, _) = guarded(&[("silent", Scripted::SilentDeny)]);
    assert_eq!(kernel.dispatch(&request()).unwrap_err().to_string(), "denied by guard silent");
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_guard_that_errors_refuses_the_call_and_is_named() {
    let (kernel, runs, asked) = guarded(&[("broken", Scripted::Fail), ("second", Scripted::Allow)]);
    let error = kernel.dispatch(&request()).unwrap_err();
    let cause = KernelError::Internal("the script fails".into());
    assert_eq!(error, KernelError::GuardFailed { guard: "broken".into(), error: Box::new(cause) });
    assert!(error.to_string().contains("broken") && error.to_string().contains("the script fails"));
    assert_eq!(error.source().expect("the guard's error").to_string(), "the script fails");
    assert_eq!((runs.load(Ordering::Relaxed), counts(&asked)), (0, vec![1, 0]));
}

#[test]
fn a_guard_that_panics_refuses_the_call_and_the_kernel_stays_usable() {
    let (kernel, runs, _) = guarded(&[("fragile", Scripted::PanicOnce)]);
    let KernelError::Internal(text) = kernel.dispatch(&request()).unwrap_err() else {
        panic!("a panic is an internal error")
    };
    assert!(text.contains("fragile") && text.contains("the script panics"), "{text}");
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    kernel.dispatch(&request()).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_held_call_runs_nothing_and_later_guards_are_asked() {
    let (kernel, runs, asked) = guarded(&[("careful", Scripted::Hold), ("second", Scripted::Allow)]);
    let error = kernel.dispatch(&request()).unwrap_err();
    let KernelError::ApprovalRequired { decision } = &error else { panic!("held, not {error:?}") };
    assert_eq!(*decision, Verdict::PendingApproval);
    assert!(error.to_string().contains("guard careful: the script says so"), "{error}");
    assert_eq!((runs.load(Ordering::Relaxed), counts(&asked)), (0, vec![1, 1]));
}

#[test]
fn a_deny_after_a_hold_is_a_deny() {
    let (kernel, runs, _) = guarded(&[("careful", Scripted::Hold), ("strict", Scripted::Deny)]);
    let error = kernel.dispatch(&request()).unwrap_err();
    assert!(matches!(error, KernelError::GuardDenied { .. }), "{error:?}");
    assert!(error.to_string().contains("guard careful") && error.to_string().contains("guard strict"));
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_pipeline_in_the_kernel_refuses_and_allows_as_its_guards_do() {
    for pipeline in [GuardPipeline::new, GuardPipeline::atomic] {
        for (script, runs_after) in [(Scripted::Allow, 1), (Scripted::Fail, 0), (Scripted::Hold, 0)] {
            let (mut kernel, runs) = kernel();
            let mut pipeline = pipeline();
            pipeline.add(script.named("inner", &Arc::default()));
            kernel.add_guard(Box::new(pipeline));
            assert_eq!(kernel.dispatch(&request()).is_ok(), runs_after == 1);
            assert_eq!(runs.load(Ordering::Relaxed), runs_after);
        }
    }
}

#[test]
fn a_call_that_no_grant_covers_is_refused_before_any_guard() {
    let (kernel, runs, asked) = guarded(&[("first", Scripted::Allow)]);
    let mut uncovered = request();
    uncovered.capability.scope.grants = vec![ToolGrant::new(SERVER, "write"), ToolGrant::new("other", TOOL)];
    let error = kernel.dispatch(&uncovered).unwrap_err();
    assert!(matches!(error, KernelError::NotGranted { .. }), "{error:?}");
    for name in ["cap", SERVER, TOOL] {
        assert!(error.to_string().contains(name), "{error}");
    }
    uncovered.capability.scope.grants.clear();
    assert!(matches!(kernel.dispatch(&uncovered), Err(KernelError::NotGranted { .. })));
    assert_eq!((runs.load(Ordering::Relaxed), counts(&asked)), (0, vec![0]));
}

#[test]
fn a_call_of_an_unknown_tool_is_refused_before_any_guard() {
    let (kernel, runs, asked) = guarded(&[("first", Scripted::Allow)]);
    let mut unknown = request();
    unknown.capability.scope.grants = vec![ToolGrant::new("*", "*")];
    for (server, tool) in [("nowhere", TOOL), (SERVER, "nothing"), ("*", "*")] {
        (unknown.server_id, unknown.tool_name) = (server.into(), tool.into());
        let error = kernel.dispatch(&unknown).unwrap_err();
        assert!(matches!(error, KernelError::UnknownTool { .. }), "{error:?}");
    }
    assert_eq!((runs.load(Ordering::Relaxed), counts(&asked)), (0, vec![0]));
}

/// The matched grant, the agent and the server of a context.
type Seen = (Option<usize>, String, String);

/// Allows, and notes what it was shown.
struct Witness(Arc<Mutex<Vec<Seen>>>);

impl Guard for Witness {
    fn name(&self) -> &str {
        "witness"
    }
    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        let seen = (ctx.matched_grant_index, ctx.agent_id.to_owned(), ctx.server_id.to_owned());
        self.0.lock().unwrap().push(seen);
        Ok(GuardDecision::allow())
    }
}

#[test]
fn guards_see_the_first_grant_that_covers_the_call() {
    let (mut kernel, _) = kernel();
    let seen = Arc::new(Mutex::new(Vec::new()));
    kernel.add_guard(Box::new(Witness(seen.clone())));
    let mut request = request();
    let grants = [("other", "*"), (SERVER, "write"), ("*", TOOL), (SERVER, TOOL)];
    request.capability.scope.grants = grants.map(|(server, tool)| ToolGrant::new(server, tool)).to_vec();
    kernel.dispatch(&request).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(Some(2), "agent".to_owned(), SERVER.to_owned())]);
}

#[test]
fn the_tools_own_error_is_told_with_the_tool_and_its_tokens_stay_drawn() {
    let mut kernel = Kernel::new();
    kernel.register_tool(SERVER, TOOL, |_: &ToolCallRequest| -> Result<String, ToolError> {
        Err(ToolError::InvalidArguments("a needle expected".into()))
    });
    kernel.add_guard(Box::new(one_call::<tollgate::baseline::VelocityGuard>(&ManualClock::new())));
    let error = kernel.dispatch(&request()).unwrap_err();
    assert!(matches!(error, KernelError::ToolFailed { .. }), "{error:?}");
    assert!(error.to_string().contains("invalid arguments: a needle expected"), "{error}");
    assert!(matches!(kernel.dispatch(&request()), Err(KernelError::GuardDenied { .. })));
}

#[test]
fn registering_a_tool_again_replaces_it_and_returns_the_old_one() {
    let (mut kernel, runs) = kernel();
    let old = kernel.register_tool(SERVER, TOOL, |_: &ToolCallRequest| Ok("new"));
    assert_eq!(kernel.dispatch(&request()).unwrap().content, "new");
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert_eq!(old.expect("the first tool").call(&request()).unwrap().content, "found a needle");
}

/// A guard that allows one call per second and grant.
fn one_call<V: Velocity>(clock: &ManualClock) -> V {
    let config =
        VelocityConfig { max_invocations_per_window: Some(1), window_secs: 1, ..VelocityConfig::default() };
    V::build(config, Setup::new(clock)).unwrap()
}

fn a_refused_call_says_which_limit_and_when_and_goes_through_then<V: Velocity>() {
    let clock = ManualClock::new();
    let (mut kernel, runs) = kernel();
    kernel.add_guard(Box::new(one_call::<V>(&clock)));
    kernel.dispatch(&request()).unwrap();
    let error = kernel.dispatch(&request()).unwrap_err();
    let refusal = error.refusal().expect("a limit refused");
    assert_eq!(refusal.limit.as_str(), "velocity.invocations");
    assert_eq!(
        error.to_string(),
        "denied by guard velocity: velocity.invocations exhausted: needs 1, has 0, retry after 1s"
    );
    clock.advance(refusal.retry_after.unwrap() - millis(1));
    kernel.dispatch(&request()).unwrap_err();
    clock.advance(millis(1));
    kernel.dispatch(&request()).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

fn concurrent_callers_run_the_tool_once_for_each_token<V: Velocity>() {
    let (mut kernel, runs) = kernel();
    let config = VelocityConfig {
        max_invocations_per_window: Some(30),
        max_spend_per_window: Some(250),
        ..VelocityConfig::default()
    };
    kernel.add_guard(Box::new(V::build(config, Setup::new(&ManualClock::new())).unwrap()));
    let request = Call::costing("cap", 10).request;
    let start = Barrier::new(4);
    let dispatched: usize = thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    (0..50).filter(|_| kernel.dispatch(&request).is_ok()).count()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!((dispatched, runs.load(Ordering::Relaxed)), (25, 25));
}

on_engine_and_baseline!(VelocityGuard:
    a_refused_call_says_which_limit_and_when_and_goes_through_then,
    concurrent_callers_run_the_tool_once_for_each_token,
);

/// Keeps the level and fields of the kernel's events.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(Level, String)>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tollgate::kernel"
    }
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push((*event.metadata().level(), fields.0));
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// What the kernel logs about one call behind one guard.
fn logged(script: Scripted, in_pipeline: bool) -> Vec<(Level, String)> {
    let (mut kernel, _) = kernel();
    let guard = script.named("scripted", &Arc::default());
    if in_pipeline {
        let mut pipeline = GuardPipeline::new();
        pipeline.add(guard);
        kernel.add_guard(Box::new(pipeline));
    } else {
        kernel.add_guard(guard);
    }
    let recorder = Recorder::default();
    tracing::subscriber::with_default(recorder.clone(), || kernel.dispatch(&request()).is_ok());
    recorder.0.lock().unwrap().clone()
}

#[test]
fn refusals_are_logged_without_the_arguments_and_failed_guards_loudly() {
    for in_pipeline in [false, true] {
        assert_eq!(logged(Scripted::Allow, in_pipeline), []);
        for (script, level) in [
            (Scripted::Deny, Level::DEBUG),
            (Scripted::Hold, Level::DEBUG),
            (Scripted::Fail, Level::ERROR),
            (Scripted::PanicOnce, Level::ERROR),
        ] {
            let events = logged(script, in_pipeline);
            let [(logged, fields)] = &events[..] else { panic!("one event, not {events:?}") };
            assert_eq!(*logged, level, "{fields}");
            for part in ["scripted", "agent_id=\"agent\"", "capability_id=\"cap\"", "request_id=\"call\""] {
                assert!(fields.contains(part), "{part} in {fields}");
            }
            assert!(!fields.contains("needle"), "{fields}");
        }
    }
}
