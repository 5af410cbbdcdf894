//! How `AgentVelocityGuard` must behave, on virtual time: the engine's and the baseline's alike.

mod support;

use std::sync::Barrier;
use std::thread;
use support::{AgentVelocity, Call, Setup, allows, count_allowed, millis, refusal};
use tollgate::Reason;
use tollgate::guard::{AgentVelocityConfig, MemoryBudgetConfig};
use tollgate::time::ManualClock;

/// Limits per `window` seconds, without extra burst.
fn config(agent: Option<u32>, session: Option<u32>, window: u64) -> AgentVelocityConfig {
    AgentVelocityConfig {
        max_requests_per_agent: agent,
        max_requests_per_session: session,
        window_secs: window,
        ..AgentVelocityConfig::default()
    }
}

fn guard<G: AgentVelocity>(config: AgentVelocityConfig, clock: &ManualClock) -> G {
    G::build(config, Setup::new(clock)).expect("a valid configuration")
}

fn capped<G: AgentVelocity>(config: AgentVelocityConfig, clock: &ManualClock, cap: usize) -> G {
    G::build(config, Setup::cap(clock, cap)).expect("a valid configuration")
}

fn it_is_named_agent_velocity_and_limits_nothing_by_default<G: AgentVelocity>() {
    let defaults = AgentVelocityConfig::default();
    assert_eq!((defaults.max_requests_per_agent, defaults.max_requests_per_session), (None, None));
    assert_eq!((defaults.window_secs, defaults.burst_factor), (60, 1.0));
    let guard = G::new(defaults);
    assert_eq!(guard.name(), "agent-velocity");
    assert_eq!(count_allowed(&guard, &Call::of("cap"), 100), 100);
    assert_eq!(guard.bucket_count(), 0);
}

fn an_agent_is_limited_over_all_its_capabilities<G: AgentVelocity>() {
    let guard: G = guard(config(Some(3), None, 60), &ManualClock::new());
    for capability in ["a", "b", "c"] {
        assert!(allows(&guard, &Call::of(capability)));
    }
    let refusal = refusal(&guard, &Call::of("d"));
    assert_eq!(refusal.limit.as_str(), "agent_velocity.agent");
    assert_eq!((refusal.reason, refusal.needed, refusal.available), (Reason::Exhausted, 1, 0));
    assert_eq!(refusal.retry_after, Some(millis(1_000)));
    assert_eq!(guard.bucket_count(), 1);
}

fn a_session_is_limited_for_itself<G: AgentVelocity>() {
    let guard: G = guard(config(None, Some(2), 60), &ManualClock::new());
    assert_eq!(count_allowed(&guard, &Call::of("cap"), 3), 2);
    assert_eq!(refusal(&guard, &Call::of("cap")).limit.as_str(), "agent_velocity.session");
    assert!(allows(&guard, &Call::of("other")), "another capability of the same agent");
    assert_eq!(guard.bucket_count(), 2);
}

fn two_agents_with_one_capability_are_separate<G: AgentVelocity>() {
    let guard: G = guard(config(Some(1), Some(1), 60), &ManualClock::new());
    assert_eq!(count_allowed(&guard, &Call::of("cap").by("alice"), 2), 1);
    assert_eq!(count_allowed(&guard, &Call::of("cap").by("bob"), 2), 1);
    assert_eq!(guard.bucket_count(), 4);
}

fn a_session_is_a_pair_of_names_not_their_concatenation<G: AgentVelocity>() {
    let guard: G = guard(config(None, Some(1), 60), &ManualClock::new());
    let pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("", "")];
    for (agent, capability) in pairs {
        assert_eq!(count_allowed(&guard, &Call::of(capability).by(agent), 2), 1, "{agent:?} {capability:?}");
    }
    assert_eq!(guard.bucket_count(), pairs.len());
}

fn an_agent_named_like_a_session_shares_nothing_with_it<G: AgentVelocity>() {
    let guard: G = guard(config(Some(1), Some(1), 60), &ManualClock::new());
    let names = ["", "a", "aa", "\u{1}a", "a\u{1}a", "a\u{0}"];
    let mut calls = 0;
    for agent in names {
        assert!(allows(&guard, &Call::of("a").by(agent)));
        calls += 1;
        assert_eq!(guard.bucket_count(), 2 * calls, "an agent's and a session's for {agent:?}");
    }
}

fn the_guard_judges_the_authenticated_agent_not_the_one_in_the_request<G: AgentVelocity>() {
    let guard: G = guard(config(Some(1), None, 60), &ManualClock::new());
    let call = Call::of("cap").by("claimed");
    let mut context = call.context();
    context.agent_id = "authenticated";
    assert!(guard.evaluate(&context).unwrap() == tollgate::guard::Verdict::Allow);
    assert_eq!(refusal(&guard, &Call::of("cap").by("authenticated")).reason, Reason::Exhausted);
    assert!(allows(&guard, &call));
}

fn a_refused_session_drains_its_agent_no_further<G: AgentVelocity>() {
    let guard: G = guard(config(Some(10), Some(2), 60), &ManualClock::new());
    let call = Call::of("cap");
    assert_eq!(count_allowed(&guard, &call, 3), 2);
    let left = guard.left(&call);
    assert_eq!((left.agent, left.session), (Some(8), Some(0)));
    for capability in ["b", "c", "d", "e"] {
        assert_eq!(count_allowed(&guard, &Call::of(capability), 2), 2);
    }
    let refused = refusal(&guard, &Call::of("f"));
    assert_eq!(refused.limit.as_str(), "agent_velocity.agent", "ten in all");
}

fn a_refused_agent_drains_its_session_no_further<G: AgentVelocity>() {
    let clock = ManualClock::new();
    let guard: G = guard(config(Some(2), Some(4), 2), &clock);
    let call = Call::of("cap");
    assert_eq!(count_allowed(&guard, &call, 5), 2);
    let left = guard.left(&call);
    assert_eq!((left.agent, left.session), (Some(0), Some(2)));
    clock.advance(millis(1_000));
    assert_eq!(count_allowed(&guard, &call, 5), 1);
    assert_eq!(guard.left(&call).session, Some(3), "two left, two released, one drawn");
}

fn of_two_exhausted_limits_the_one_with_the_longer_wait_is_named<G: AgentVelocity>() {
    let slow_session: G = guard(config(Some(4), Some(2), 2), &ManualClock::new());
    assert_eq!(count_allowed(&slow_session, &Call::of("a"), 2), 2);
    assert_eq!(count_allowed(&slow_session, &Call::of("b"), 2), 2);
    let session = refusal(&slow_session, &Call::of("a"));
    assert_eq!(
        (session.limit.as_str(), session.retry_after),
        ("agent_velocity.session", Some(millis(1_000)))
    );
    let tie: G = guard(config(Some(2), Some(2), 2), &ManualClock::new());
    assert_eq!(count_allowed(&tie, &Call::of("a"), 2), 2);
    assert_eq!(refusal(&tie, &Call::of("a")).limit.as_str(), "agent_velocity.agent");
}

fn requests_are_released_over_time_and_the_hint_says_when<G: AgentVelocity>() {
    let clock = ManualClock::new();
    let guard: G = guard(config(Some(2), Some(2), 1), &clock);
    let call = Call::of("cap");
    assert_eq!(count_allowed(&guard, &call, 3), 2);
    let hint = refusal(&guard, &call).retry_after.expect("an exhausted limit foretells its wait");
    assert_eq!(hint, millis(500));
    clock.advance(hint - millis(1));
    assert_eq!(refusal(&guard, &call).retry_after, Some(millis(1)));
    clock.advance(millis(1));
    assert_eq!(count_allowed(&guard, &call, 2), 1);
}

fn a_flood_of_agents_and_sessions_never_makes_more_buckets_than_the_cap<G: AgentVelocity>() {
    let guard: G = capped(config(Some(5), Some(5), 60), &ManualClock::new(), 4);
    let mut admitted = 0;
    for n in 0..500 {
        admitted += count_allowed(&guard, &Call::of(&format!("cap-{n}")).by(&format!("agent-{n}")), 1);
        assert!((1..=4).contains(&guard.bucket_count()));
    }
    assert_eq!((admitted, guard.bucket_count()), (2, 4));
}

fn a_call_whose_agent_is_known_needs_room_for_its_session_alone<G: AgentVelocity>() {
    let guard: G = capped(config(Some(5), Some(5), 60), &ManualClock::new(), 3);
    assert!(allows(&guard, &Call::of("a")));
    let stranger = refusal(&guard, &Call::of("a").by("stranger"));
    assert_eq!((stranger.reason, stranger.retry_after), (Reason::TableFull, None));
    assert_eq!(guard.bucket_count(), 2, "no half of a refused call stays behind");
    assert!(allows(&guard, &Call::of("b")));
    assert_eq!(guard.bucket_count(), 3);
    assert_eq!(refusal(&guard, &Call::of("c")).reason, Reason::TableFull);
    assert_eq!(guard.left(&Call::of("c")).agent, Some(3), "a refused call drains nothing");
}

fn an_idle_window_does_not_reset_an_agent_that_is_not_refilled<G: AgentVelocity>() {
    let clock = ManualClock::new();
    let limits = AgentVelocityConfig { burst_factor: 2.0, ..config(Some(2), None, 1) };
    let guard: G = capped(limits, &clock, 1);
    let first = Call::of("cap").by("first");
    assert_eq!(count_allowed(&guard, &first, 5), 4);
    clock.advance(millis(1_100));
    assert_eq!(refusal(&guard, &Call::of("cap").by("newcomer")).reason, Reason::TableFull);
    assert_eq!(count_allowed(&guard, &first, 5), 2);
}

fn a_new_session_of_a_refused_agent_leaves_no_bucket_behind<G: AgentVelocity>() {
    let guard: G = guard(config(Some(1), Some(5), 60), &ManualClock::new());
    assert!(allows(&guard, &Call::of("cap")));
    for n in 0..100 {
        assert_eq!(refusal(&guard, &Call::of(&format!("new-{n}"))).limit.as_str(), "agent_velocity.agent");
    }
    assert_eq!(guard.bucket_count(), 2);
}

fn refilled_buckets_make_room_one_by_one<G: AgentVelocity>() {
    let clock = ManualClock::new();
    // An agent refills in 1 s, a session in 500 ms.
    let guard: G = capped(config(Some(1), Some(2), 1), &clock, 2);
    assert!(allows(&guard, &Call::of("cap").by("first")));
    clock.advance(millis(500));
    assert_eq!(refusal(&guard, &Call::of("cap").by("second")).reason, Reason::TableFull);
    clock.advance(millis(500));
    assert!(allows(&guard, &Call::of("cap").by("second")));
    assert_eq!(guard.bucket_count(), 2);
}

fn threads_that_race_for_an_agent_and_its_sessions_drain_both_by_what_was_allowed<G: AgentVelocity>() {
    let guard: G = guard(config(Some(60), Some(20), 60), &ManualClock::new());
    let start = Barrier::new(8);
    // Two threads to each of four sessions: 80 fit the sessions, 60 the agent.
    let allowed: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let (guard, start) = (&guard, &start);
                scope.spawn(move || {
                    start.wait();
                    count_allowed(guard, &Call::of(&format!("cap-{}", thread % 4)), 25)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(allowed, 60);
    let sessions = (0..4).map(|n| guard.left(&Call::of(&format!("cap-{n}"))).session.unwrap());
    assert_eq!(sessions.sum::<u64>(), 20, "80 held, 60 drawn");
    assert_eq!(guard.left(&Call::of("cap-0")).agent, Some(0));
}

fn a_cap_that_fits_no_call_is_a_configuration_error<G: AgentVelocity>() {
    let both = config(Some(1), Some(1), 60);
    let errors = [
        G::with_bucket_cap(both, 1).err(),
        G::build(both, Setup::cap(&ManualClock::new(), 1)).err(),
        G::from_memory_budget(both, &MemoryBudgetConfig { velocity_bucket_cap: 1 }).err(),
        G::with_bucket_cap(config(None, Some(1), 60), 0).err(),
    ];
    for error in errors {
        let error = error.expect("no call could ever fit");
        assert_eq!(error.field, "bucket_cap", "{error}");
    }
    assert!(G::with_bucket_cap(both, 2).is_ok() && G::with_bucket_cap(config(Some(1), None, 60), 1).is_ok());
}

fn a_limit_of_zero_admits_nothing<G: AgentVelocity>() {
    let no_requests: G = guard(config(Some(5), Some(0), 60), &ManualClock::new());
    let refused = refusal(&no_requests, &Call::of("cap"));
    assert_eq!((refused.limit.as_str(), refused.reason), ("agent_velocity.session", Reason::Impossible));
    assert_eq!(refused.retry_after, None);
    assert_eq!(no_requests.bucket_count(), 0);
}

fn a_broken_number_is_a_typed_error_and_never_lets_a_call_through<G: AgentVelocity>() {
    let sound = config(Some(5), Some(5), 60);
    let broken = [
        ("burst_factor", AgentVelocityConfig { burst_factor: f64::NAN, ..sound }),
        ("burst_factor", AgentVelocityConfig { burst_factor: f64::NEG_INFINITY, ..sound }),
        ("burst_factor", AgentVelocityConfig { burst_factor: 0.0, ..sound }),
        ("burst_factor", AgentVelocityConfig { burst_factor: f64::MAX, ..sound }),
        ("window_secs", AgentVelocityConfig { window_secs: 0, ..sound }),
        ("window_secs", AgentVelocityConfig { window_secs: u64::MAX, ..sound }),
    ];
    for (field, config) in broken {
        let error = G::try_new(config).err().expect("a broken number");
        assert_eq!(error.field, field, "{config:?}: {error}");
        let guard = G::new(config);
        let text = support::error(&guard, &Call::of("cap"));
        assert!(text.contains(field), "{text}");
        assert_eq!(guard.bucket_count(), 0);
    }
}

fn pruning_forgets_what_is_refilled_and_nothing_else<G: AgentVelocity>() {
    let clock = ManualClock::new();
    let guard: G = guard(config(Some(1), Some(2), 1), &clock);
    assert!(allows(&guard, &Call::of("cap")));
    assert_eq!((guard.prune_refilled(), guard.bucket_count()), (0, 2));
    clock.advance(millis(500));
    assert_eq!((guard.prune_refilled(), guard.bucket_count()), (1, 1), "the session's");
    assert_eq!(guard.left(&Call::of("cap")).agent, Some(0));
}

on_engine_and_baseline!(AgentVelocityGuard:
    it_is_named_agent_velocity_and_limits_nothing_by_default,
    an_agent_is_limited_over_all_its_capabilities,
    a_session_is_limited_for_itself,
    two_agents_with_one_capability_are_separate,
    a_session_is_a_pair_of_names_not_their_concatenation,
    an_agent_named_like_a_session_shares_nothing_with_it,
    the_guard_judges_the_authenticated_agent_not_the_one_in_the_request,
    a_refused_session_drains_its_agent_no_further,
    a_refused_agent_drains_its_session_no_further,
    of_two_exhausted_limits_the_one_with_the_longer_wait_is_named,
    requests_are_released_over_time_and_the_hint_says_when,
    a_flood_of_agents_and_sessions_never_makes_more_buckets_than_the_cap,
    a_call_whose_agent_is_known_needs_room_for_its_session_alone,
    an_idle_window_does_not_reset_an_agent_that_is_not_refilled,
    a_new_session_of_a_refused_agent_leaves_no_bucket_behind,
    refilled_buckets_make_room_one_by_one,
    threads_that_race_for_an_agent_and_its_sessions_drain_both_by_what_was_allowed,
    a_cap_that_fits_no_call_is_a_configuration_error,
    a_limit_of_zero_admits_nothing,
    a_broken_number_is_a_typed_error_and_never_lets_a_call_through,
    pruning_forgets_what_is_refilled_and_nothing_else,
);
