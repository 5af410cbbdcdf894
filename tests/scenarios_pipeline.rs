//! How guards behave as one, in series and atomically.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::scripted::Scripted;
use support::shared::Shared;
use support::{AgentVelocity, Call, Setup, Velocity, allows, count_allowed, error, millis, refusal};
use tollgate::guard::{
    AgentVelocityConfig, AgentVelocityGuard, Details, Guard, GuardDecision, GuardPipeline, Planned,
    VelocityConfig, VelocityGuard, Verdict,
};
use tollgate::kernel::KernelError;
use tollgate::time::ManualClock;
use tollgate::{Plan, Reason};

fn decide(pipeline: &GuardPipeline, call: &Call) -> GuardDecision {
    pipeline.evaluate(&call.context()).expect("a pipeline turns errors into denies")
}

/// Both kinds of pipeline with the same scripted guards; returns them with how often each guard was asked.
fn both_kinds(guards: &[(&'static str, Scripted)]) -> Vec<(GuardPipeline, Vec<Arc<AtomicUsize>>)> {
    let pipelines = [GuardPipeline::new(), GuardPipeline::atomic()];
    let fill = |mut pipeline: GuardPipeline| {
        let asked = guards.iter().map(|(name, script)| {
            let asked = Arc::new(AtomicUsize::new(0));
            pipeline.add(script.clone().named(name, &asked));
            asked
        });
        let asked = asked.collect();
        (pipeline, asked)
    };
    pipelines.into_iter().map(fill).collect()
}

fn counts(asked: &[Arc<AtomicUsize>]) -> Vec<usize> {
    asked.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

/// The names in a decision's evidence with what each of them decided.
fn names(decision: &GuardDecision) -> Vec<(&str, Verdict)> {
    decision.evidence.iter().map(|piece| (piece.guard_name.as_ref(), piece.verdict)).collect()
}

#[test]
fn a_pipeline_is_a_guard_with_a_name_and_a_length() {
    let mut pipeline = GuardPipeline::default();
    assert_eq!((pipeline.name(), pipeline.len(), pipeline.is_empty()), ("guard-pipeline", 0, true));
    pipeline.add(Box::new(GuardPipeline::atomic()));
    assert_eq!((pipeline.len(), pipeline.is_empty()), (1, false));
}

#[test]
fn an_empty_pipeline_allows() {
    for (pipeline, _) in both_kinds(&[]) {
        assert_eq!(decide(&pipeline, &Call::of("cap")), GuardDecision::allow());
    }
}

#[test]
fn when_all_guards_allow_the_pipeline_allows_without_evidence() {
    let guards = [("first", Scripted::Allow), ("second", Scripted::Allow), ("third", Scripted::Allow)];
    for (pipeline, asked) in both_kinds(&guards) {
        assert_eq!(decide(&pipeline, &Call::of("cap")), GuardDecision::allow());
        assert_eq!(counts(&asked), [1, 1, 1]);
    }
}

#[test]
fn the_first_deny_decides_is_named_alone_and_keeps_later_guards_from_running() {
    let guards = [("first", Scripted::Allow), ("second", Scripted::Deny), ("third", Scripted::Deny)];
    for (pipeline, asked) in both_kinds(&guards) {
        let decision = decide(&pipeline, &Call::of("cap"));
        assert_eq!(decision, Verdict::Deny);
        assert_eq!(names(&decision), [("second", Verdict::Deny)]);
        assert_eq!(counts(&asked), [1, 1, 0]);
    }
}

#[test]
fn a_deny_without_evidence_is_named_all_the_same() {
    for (pipeline, _) in both_kinds(&[("silent", Scripted::SilentDeny)]) {
        let decision = decide(&pipeline, &Call::of("cap"));
        assert_eq!(names(&decision), [("silent", Verdict::Deny)]);
        assert_eq!(decision.evidence[0].details, None);
    }
}

#[test]
fn a_guard_that_errors_is_a_deny_that_names_it_and_says_fail_closed() {
    let guards = [("first", Scripted::Allow), ("broken", Scripted::Fail), ("third", Scripted::Allow)];
    for (pipeline, asked) in both_kinds(&guards) {
        let decision = decide(&pipeline, &Call::of("cap"));
        assert_eq!(names(&decision), [("broken", Verdict::Deny)]);
        let details = decision.evidence[0].details.clone().expect("an error has details");
        assert_eq!(details, Details::FailedClosed(KernelError::Internal("the script fails".into())));
        assert!(details.to_string().contains("fail-closed"), "{details}");
        assert_eq!(counts(&asked), [1, 1, 0]);
    }
}

#[test]
fn a_guard_that_panics_is_a_deny_and_the_pipeline_stays_usable() {
    let guards = [("fragile", Scripted::PanicOnce), ("second", Scripted::Allow)];
    for (pipeline, asked) in both_kinds(&guards) {
        let decision = decide(&pipeline, &Call::of("cap"));
        assert_eq!(names(&decision), [("fragile", Verdict::Deny)]);
        let Some(Details::FailedClosed(KernelError::Internal(text))) = &decision.evidence[0].details else {
            panic!("a panic fails closed: {decision:?}")
        };
        assert!(text.contains("fragile") && text.contains("the script panics"), "{text}");
        assert_eq!(decide(&pipeline, &Call::of("cap")), Verdict::Allow);
        assert_eq!(counts(&asked), [2, 1]);
    }
}

#[test]
fn a_held_call_is_still_judged_by_later_guards() {
    let guards = [("first", Scripted::Hold), ("second", Scripted::Allow), ("third", Scripted::Hold)];
    for (pipeline, asked) in both_kinds(&guards) {
        let decision = decide(&pipeline, &Call::of("cap"));
        assert_eq!(decision, Verdict::PendingApproval);
        assert_eq!(
            names(&decision),
            [("first", Verdict::PendingApproval), ("third", Verdict::PendingApproval)]
        );
        assert_eq!(counts(&asked), [1, 1, 1]);
    }
}

#[test]
fn a_deny_after_a_hold_wins() {
    let guards = [("first", Scripted::Hold), ("second", Scripted::Deny), ("third", Scripted::Allow)];
    for (pipeline, asked) in both_kinds(&guards) {
        let decision = decide(&pipeline, &Call::of("cap"));
        assert_eq!(decision, Verdict::Deny);
        assert_eq!(names(&decision), [("first", Verdict::PendingApproval), ("second", Verdict::Deny)]);
        assert_eq!(counts(&asked), [1, 1, 0]);
    }
}

#[test]
fn a_pipeline_inside_another_reports_as_if_its_guards_stood_there() {
    let kinds = [GuardPipeline::new, GuardPipeline::atomic];
    for outer in kinds {
        for inner in both_kinds(&[("inner", Scripted::Hold), ("broken", Scripted::Fail)]) {
            let mut outer = outer();
            outer.add(Box::new(inner.0));
            let decision = decide(&outer, &Call::of("cap"));
            assert_eq!(decision, Verdict::Deny);
            assert_eq!(names(&decision), [("inner", Verdict::PendingApproval), ("broken", Verdict::Deny)]);
            assert_eq!(counts(&inner.1), [1, 1]);
        }
    }
}

fn agent_limits<A: AgentVelocity>(clock: &ManualClock) -> A {
    let config = AgentVelocityConfig {
        max_requests_per_agent: Some(10),
        max_requests_per_session: Some(5),
        ..AgentVelocityConfig::default()
    };
    A::build(config, Setup::new(clock)).unwrap()
}

fn grant_limits<V: Velocity>(clock: &ManualClock) -> V {
    let config = VelocityConfig {
        max_invocations_per_window: Some(2),
        max_spend_per_window: Some(100),
        ..VelocityConfig::default()
    };
    V::build(config, Setup::new(clock)).unwrap()
}

/// A pipeline of the agent's limits and the grant's, and the two guards in it.
fn limits<A: AgentVelocity, V: Velocity>(mut pipeline: GuardPipeline) -> (GuardPipeline, Arc<A>, Arc<V>) {
    let clock = ManualClock::new();
    let (agent, grant) = (Arc::new(agent_limits::<A>(&clock)), Arc::new(grant_limits::<V>(&clock)));
    pipeline.add(Box::new(Shared(agent.clone())));
    pipeline.add(Box::new(Shared(grant.clone())));
    (pipeline, agent, grant)
}

fn in_series_a_refusal_by_the_second_guard_has_drained_the_first<A: AgentVelocity, V: Velocity>() {
    let (pipeline, agent, grant) = limits::<A, V>(GuardPipeline::new());
    let call = Call::costing("cap", 1);
    assert_eq!(count_allowed(&pipeline, &call, 2), 2);
    let refused = refusal(&pipeline, &call);
    assert_eq!(refused.limit.as_str(), "velocity.invocations");
    let left = agent.left(&call);
    assert_eq!((left.agent, left.session), (Some(7), Some(2)), "three calls cleared the first guard");
    assert_eq!(grant.left(&call).spend, Some(98));
}

#[test]
fn in_series_a_refusal_by_the_second_guard_has_drained_the_first_on_the_engine() {
    in_series_a_refusal_by_the_second_guard_has_drained_the_first::<AgentVelocityGuard, VelocityGuard>();
}

#[test]
fn in_series_a_refusal_by_the_second_guard_has_drained_the_first_on_the_baseline() {
    use tollgate::baseline;
    in_series_a_refusal_by_the_second_guard_has_drained_the_first::<
        baseline::AgentVelocityGuard,
        baseline::VelocityGuard,
    >();
}

#[test]
fn atomically_a_refusal_by_the_second_guard_drains_nothing_of_the_first() {
    let (pipeline, agent, grant) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    let call = Call::costing("cap", 1);
    assert_eq!(count_allowed(&pipeline, &call, 2), 2);
    for _ in 0..10 {
        let decision = decide(&pipeline, &call);
        assert_eq!(names(&decision), [("velocity", Verdict::Deny)]);
        let refused = decision.refusal().expect("a limit refused");
        assert_eq!(
            (refused.limit.as_str(), refused.retry_after),
            ("velocity.invocations", Some(millis(1_000)))
        );
    }
    let left = agent.left(&call);
    assert_eq!((left.agent, left.session), (Some(8), Some(3)));
    assert_eq!(grant.left(&call).spend, Some(98));
}

#[test]
fn atomically_a_refusal_by_the_first_guard_drains_nothing_of_the_second() {
    let (pipeline, agent, grant) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    for n in 0..10 {
        assert!(allows(&pipeline, &Call::costing(&format!("cap-{n}"), 1)));
    }
    let call = Call::costing("cap-0", 1);
    let decision = decide(&pipeline, &call);
    assert_eq!(names(&decision), [("agent-velocity", Verdict::Deny)]);
    assert_eq!(decision.refusal().unwrap().limit.as_str(), "agent_velocity.agent");
    assert_eq!(grant.left(&call).invocations, Some(1));
    assert_eq!(agent.left(&call).session, Some(4));
}

#[test]
fn atomically_a_refused_newcomer_leaves_no_bucket_in_any_table() {
    let (pipeline, agent, grant) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    let decision = decide(&pipeline, &Call::costing("cap", 101));
    assert_eq!(decision.refusal().unwrap().reason, Reason::Impossible);
    assert_eq!((agent.bucket_count(), grant.bucket_count()), (0, 0));
    assert!(allows(&pipeline, &Call::costing("cap", 100)));
    assert_eq!((agent.bucket_count(), grant.bucket_count()), (2, 2));
}

#[test]
fn atomically_of_two_guards_that_refuse_the_earlier_one_is_named() {
    let (pipeline, ..) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    for n in 0..10 {
        assert!(allows(&pipeline, &Call::costing(&format!("cap-{}", n / 2), 1)));
    }
    // The agent is exhausted, and so is the grant; and a cost of 101 is impossible, which waits its turn.
    for cost in [1, 101] {
        let decision = decide(&pipeline, &Call::costing("cap-0", cost));
        assert_eq!(decision.refusal().unwrap().limit.as_str(), "agent_velocity.agent");
    }
}

#[test]
fn atomically_a_call_that_a_planning_guard_cannot_judge_drains_nothing() {
    let (pipeline, agent, _) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    let decision = decide(&pipeline, &Call::of("cap"));
    assert_eq!(names(&decision), [("velocity", Verdict::Deny)]);
    assert!(matches!(decision.evidence[0].details, Some(Details::FailedClosed(_))));
    assert_eq!(agent.bucket_count(), 0);
}

/// An atomic pipeline of limits with a scripted guard before, between or behind them.
fn limits_with(
    script: Scripted,
    place: usize,
) -> (GuardPipeline, Arc<AgentVelocityGuard>, Arc<VelocityGuard>) {
    let clock = ManualClock::new();
    let agent = Arc::new(agent_limits::<AgentVelocityGuard>(&clock));
    let grant = Arc::new(grant_limits::<VelocityGuard>(&clock));
    let mut guards: Vec<Box<dyn Guard>> =
        vec![Box::new(Shared(agent.clone())), Box::new(Shared(grant.clone()))];
    guards.insert(place, script.named("scripted", &Arc::default()));
    let mut pipeline = GuardPipeline::atomic();
    guards.into_iter().for_each(|guard| pipeline.add(guard));
    (pipeline, agent, grant)
}

#[test]
fn atomically_an_evaluated_guard_that_does_not_allow_keeps_all_limits_undrained_wherever_it_stands() {
    for place in 0..3 {
        for (script, verdict) in [
            (Scripted::Deny, Verdict::Deny),
            (Scripted::Fail, Verdict::Deny),
            (Scripted::PanicOnce, Verdict::Deny),
            (Scripted::Hold, Verdict::PendingApproval),
        ] {
            let (pipeline, agent, grant) = limits_with(script, place);
            let decision = decide(&pipeline, &Call::costing("cap", 1));
            assert_eq!(names(&decision), [("scripted", verdict)]);
            assert_eq!((agent.bucket_count(), grant.bucket_count()), (0, 0));
        }
    }
}

#[test]
fn atomically_the_guard_whose_limit_refused_is_named_wherever_evaluated_guards_stand() {
    for place in 0..3 {
        let (pipeline, ..) = limits_with(Scripted::Allow, place);
        let call = Call::costing("cap", 1);
        assert_eq!(count_allowed(&pipeline, &call, 2), 2);
        assert_eq!(names(&decide(&pipeline, &call)), [("velocity", Verdict::Deny)]);
    }
}

#[test]
fn an_atomic_pipeline_inside_an_atomic_one_shares_its_commit() {
    let (inner, agent, grant) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    let clock = ManualClock::new();
    let last = VelocityConfig { max_invocations_per_window: Some(1), ..VelocityConfig::default() };
    let last = VelocityGuard::build(last, Setup::new(&clock)).unwrap();
    let mut outer = GuardPipeline::atomic();
    outer.add(Box::new(inner));
    outer.add(Box::new(last));
    let call = Call::costing("cap", 1);
    assert_eq!(count_allowed(&outer, &call, 1), 1);
    // The guard behind the inner pipeline's two stages refuses, and is the one that is named.
    assert_eq!(names(&decide(&outer, &call)), [("velocity", Verdict::Deny)]);
    assert_eq!(agent.left(&call).agent, Some(9));
    assert_eq!(grant.left(&call).invocations, Some(1));
    // The second stage of the inner pipeline refuses: the inner pipeline is named, and its limit.
    let decision = decide(&outer, &Call::costing("other", 101));
    assert_eq!(names(&decision), [("guard-pipeline", Verdict::Deny)]);
    assert_eq!(decision.refusal().unwrap().limit.as_str(), "velocity.spend");
    // A guard in it that cannot judge the call is named itself.
    assert_eq!(names(&decide(&outer, &Call::of("cap"))), [("velocity", Verdict::Deny)]);
}

#[test]
fn an_atomic_pipeline_inside_an_atomic_one_is_evaluated_if_one_of_its_guards_has_no_plan() {
    let (mut inner, agent, _) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    inner.add(Scripted::Allow.named("scripted", &Arc::default()));
    let call = Call::costing("cap", 1);
    assert_eq!(inner.plan(&call.context(), &mut Plan::new()), Ok(Planned::Evaluate));
    let mut outer = GuardPipeline::atomic();
    outer.add(Box::new(inner));
    assert_eq!(count_allowed(&outer, &call, 3), 2);
    assert_eq!(agent.left(&call).agent, Some(8), "a refused call drained nothing");
}

#[test]
fn a_series_inside_an_atomic_pipeline_draws_on_its_own() {
    let (series, agent, _) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::new());
    let call = Call::costing("cap", 1);
    assert_eq!(series.plan(&call.context(), &mut Plan::new()), Ok(Planned::Evaluate));
    let mut outer = GuardPipeline::atomic();
    outer.add(Box::new(series));
    assert_eq!(count_allowed(&outer, &call, 3), 2);
    assert_eq!(agent.left(&call).agent, Some(7), "the refused call drained the series' first guard");
}

#[test]
fn threads_that_race_through_an_atomic_pipeline_drain_every_guard_by_what_was_allowed() {
    let (pipeline, agent, grant) = limits::<AgentVelocityGuard, VelocityGuard>(GuardPipeline::atomic());
    let start = std::sync::Barrier::new(4);
    let allowed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (pipeline, start) = (&pipeline, &start);
                scope.spawn(move || {
                    start.wait();
                    // Four grants of 2 calls each: 8 fit the grants, 10 the agent.
                    count_allowed(pipeline, &Call::costing(&format!("cap-{thread}"), 40), 50)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(allowed, 8);
    assert_eq!(agent.left(&Call::of("cap-0")).agent, Some(2));
    for thread in 0..4 {
        let call = Call::of(&format!("cap-{thread}"));
        let left = grant.left(&call);
        assert_eq!((left.invocations, left.spend), (Some(0), Some(20)));
        assert_eq!(agent.left(&call).session, Some(3));
    }
}

#[test]
fn a_broken_configuration_denies_in_a_pipeline_and_says_why() {
    let broken = VelocityConfig { window_secs: 0, ..VelocityConfig::default() };
    for mut pipeline in [GuardPipeline::new(), GuardPipeline::atomic()] {
        let guard = tollgate::baseline::VelocityGuard::new(broken);
        let text = error(&guard, &Call::of("cap"));
        pipeline.add(Box::new(guard));
        let decision = decide(&pipeline, &Call::of("cap"));
        assert_eq!(names(&decision), [("velocity", Verdict::Deny)]);
        assert_eq!(decision.evidence[0].details, Some(Details::FailedClosed(KernelError::Internal(text))));
    }
}
