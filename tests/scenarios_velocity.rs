//! How `VelocityGuard` must behave, on virtual time: the engine's and the baseline's alike.

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use support::{Call, SERVER, Setup, TOOL, Velocity, allows, count_allowed, error, millis, refusal, verdict};
use tollgate::Reason;
use tollgate::guard::{MemoryBudgetConfig, Refill, ToolGrant, VelocityConfig, Verdict};
use tollgate::time::ManualClock;

/// Limits per `window` seconds, without extra burst.
fn config(invocations: Option<u32>, spend: Option<u64>, window: u64) -> VelocityConfig {
    VelocityConfig {
        max_invocations_per_window: invocations,
        max_spend_per_window: spend,
        window_secs: window,
        ..VelocityConfig::default()
    }
}

fn guard<G: Velocity>(config: VelocityConfig, clock: &ManualClock) -> G {
    G::build(config, Setup::new(clock)).expect("a valid configuration")
}

fn capped<G: Velocity>(config: VelocityConfig, clock: &ManualClock, cap: usize) -> G {
    G::build(config, Setup::cap(clock, cap)).expect("a valid configuration")
}

fn it_is_named_velocity_and_limits_nothing_by_default<G: Velocity>() {
    let defaults = VelocityConfig::default();
    assert_eq!((defaults.max_invocations_per_window, defaults.max_spend_per_window), (None, None));
    assert_eq!((defaults.window_secs, defaults.burst_factor), (60, 1.0));
    assert_eq!(G::new(defaults).name(), "velocity");
}

fn without_limits_calls_need_no_matched_grant<G: Velocity>() {
    let guard = G::new(VelocityConfig::default());
    assert_eq!(count_allowed(&guard, &Call::of("cap").matching(None), 100), 100);
    assert_eq!(guard.bucket_count(), 0);
    assert_eq!(guard.left(&Call::of("cap")).invocations, None);
}

fn a_limit_without_a_matched_grant_is_an_error_that_names_the_field<G: Velocity>() {
    for limits in [config(Some(5), None, 60), config(None, Some(5), 60), config(Some(5), Some(5), 60)] {
        let guard: G = guard(limits, &ManualClock::new());
        let text = error(&guard, &Call::costing("cap", 1).matching(None));
        assert!(text.contains("matched_grant_index"), "{text}");
        assert_eq!(guard.bucket_count(), 0);
    }
}

fn five_invocations_are_allowed_and_the_sixth_is_denied<G: Velocity>() {
    let guard: G = guard(config(Some(5), None, 60), &ManualClock::new());
    let call = Call::of("cap");
    assert_eq!(count_allowed(&guard, &call, 5), 5);
    assert_eq!(verdict(&guard, &call), Verdict::Deny);
    let refusal = refusal(&guard, &call);
    assert_eq!(refusal.limit.as_str(), "velocity.invocations");
    assert_eq!((refusal.reason, refusal.needed, refusal.available), (Reason::Exhausted, 1, 0));
    assert_eq!(refusal.retry_after, Some(millis(1_000)));
}

fn a_drained_bucket_refills_over_time<G: Velocity>() {
    let clock = ManualClock::new();
    let guard: G = guard(config(Some(2), None, 1), &clock);
    let call = Call::of("cap");
    assert_eq!(count_allowed(&guard, &call, 3), 2);
    clock.advance(millis(1_100));
    assert!(allows(&guard, &call));
}

fn every_grant_of_every_capability_has_its_own_bucket<G: Velocity>() {
    let guard: G = guard(config(Some(1), None, 60), &ManualClock::new());
    let grants = vec![ToolGrant::new(SERVER, TOOL), ToolGrant::new(SERVER, "write")];
    let first = Call::with_grants("cap", grants);
    let second = first.clone().matching(Some(1));
    assert_eq!(count_allowed(&guard, &first, 2), 1);
    assert_eq!(count_allowed(&guard, &second, 2), 1);
    assert_eq!(count_allowed(&guard, &Call::of("other"), 2), 1);
    assert_eq!(guard.bucket_count(), 3);
}

fn grants_of_any_index_have_buckets_of_their_own<G: Velocity>() {
    let guard: G = guard(config(Some(1), None, 60), &ManualClock::new());
    let indices = [0, 255, 256, (1 << 24) - 2, (1 << 24) - 1, 1 << 24, u32::MAX as usize, usize::MAX];
    for index in indices {
        assert_eq!(count_allowed(&guard, &Call::of("cap").matching(Some(index)), 2), 1, "grant {index}");
    }
    assert_eq!(guard.bucket_count(), indices.len());
}

fn two_tokens_with_one_capability_id_share_a_bucket<G: Velocity>() {
    let guard: G = guard(config(Some(1), None, 60), &ManualClock::new());
    let one = Call::of("cap").by("alice");
    let other = Call::with_grants("cap", vec![ToolGrant::new("elsewhere", "tool")]).by("bob");
    assert!(allows(&guard, &one));
    assert_eq!(verdict(&guard, &other), Verdict::Deny);
    assert_eq!(guard.bucket_count(), 1);
}

fn spend_is_limited_by_the_declared_cost<G: Velocity>() {
    let three: G = guard(config(None, Some(300), 60), &ManualClock::new());
    assert_eq!(count_allowed(&three, &Call::costing("cap", 100), 4), 3);
    let two: G = guard(config(None, Some(250), 60), &ManualClock::new());
    let call = Call::costing("cap", 125);
    assert_eq!(count_allowed(&two, &call, 2), 2);
    let refusal = refusal(&two, &call);
    assert_eq!(refusal.limit.as_str(), "velocity.spend");
    assert_eq!((refusal.needed, refusal.available), (125, 0));
}

fn a_spend_limit_without_a_declared_cost_is_an_error_that_drains_nothing<G: Velocity>() {
    let guard: G = guard(config(Some(1), Some(100), 60), &ManualClock::new());
    let undeclared = error(&guard, &Call::of("cap"));
    assert!(undeclared.contains("max_cost_per_invocation"), "{undeclared}");
    let out_of_range = error(&guard, &Call::costing("cap", 5).matching(Some(7)));
    assert!(out_of_range.contains("matched_grant_index") && out_of_range.contains('7'), "{out_of_range}");
    assert_eq!(guard.bucket_count(), 0);
    assert!(allows(&guard, &Call::costing("cap", 5)), "the only invocation is still there");
}

fn a_cost_in_another_currency_is_an_error_that_drains_nothing<G: Velocity>() {
    let setup = Setup { currency: Some("EUR"), ..Setup::new(&ManualClock::new()) };
    let guard = G::build(config(Some(1), Some(100), 60), setup).unwrap();
    let text = error(&guard, &Call::costing("cap", 5));
    assert!(text.contains("USD") && text.contains("EUR"), "{text}");
    assert_eq!(guard.bucket_count(), 0);
    let euros = vec![ToolGrant::new(SERVER, TOOL).costing(5, "EUR")];
    assert!(allows(&guard, &Call::with_grants("cap", euros)));
}

fn a_cost_above_the_capacity_is_denied_without_a_bucket<G: Velocity>() {
    let limits = VelocityConfig { burst_factor: 1.5, ..config(None, Some(10), 60) };
    let guard: G = guard(limits, &ManualClock::new());
    let refusal = refusal(&guard, &Call::costing("cap", 100));
    assert_eq!((refusal.reason, refusal.needed, refusal.available), (Reason::Impossible, 100, 15));
    assert_eq!(refusal.retry_after, None);
    assert_eq!(guard.bucket_count(), 0);
    assert!(allows(&guard, &Call::costing("cap", 15)), "the whole burst capacity");
}

fn impossible_costs_fill_no_table<G: Velocity>() {
    let guard: G = capped(config(Some(5), Some(10), 60), &ManualClock::new(), 2);
    for n in 0..100 {
        assert_eq!(verdict(&guard, &Call::costing(&format!("cap-{n}"), 11)), Verdict::Deny);
    }
    assert_eq!(guard.bucket_count(), 0);
    assert!(allows(&guard, &Call::costing("cap", 5)));
}

fn a_flood_of_capabilities_never_makes_more_buckets_than_the_cap<G: Velocity>() {
    let guard: G = capped(config(Some(5), Some(1_000), 60), &ManualClock::new(), 8);
    let mut admitted = 0;
    for n in 0..500 {
        let call = Call::costing(&format!("cap-{n}"), 1);
        admitted += count_allowed(&guard, &call, 1);
        assert!((2..=8).contains(&guard.bucket_count()), "a bucket of each limit, and at most the cap");
        let left = guard.left(&call);
        assert_eq!(left.invocations == Some(4), left.spend == Some(999), "both buckets or neither");
    }
    assert_eq!((admitted, guard.bucket_count()), (4, 8));
}

fn a_flood_from_eight_threads_never_makes_more_buckets_than_the_cap<G: Velocity>() {
    let guard: G = capped(config(Some(5), None, 60), &ManualClock::new(), 16);
    let admitted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (guard, admitted) = (&guard, &admitted);
            scope.spawn(move || {
                for n in 0..400 {
                    let call = Call::of(&format!("cap-{thread}-{n}"));
                    admitted.fetch_add(count_allowed(guard, &call, 1), Ordering::Relaxed);
                    assert!((1..=16).contains(&guard.bucket_count()));
                }
            });
        }
    });
    // A newcomer is admitted only with a bucket, and on frozen time no bucket is ever given up.
    assert_eq!((admitted.into_inner(), guard.bucket_count()), (16, 16));
}

fn drawing_on_a_bucket_in_a_full_table_evicts_nothing<G: Velocity>() {
    let guard: G = capped(config(Some(1), None, 60), &ManualClock::new(), 1);
    let call = Call::of("cap");
    assert!(allows(&guard, &call));
    assert_eq!(refusal(&guard, &call).reason, Reason::Exhausted);
    assert_eq!(guard.bucket_count(), 1);
}

fn a_newcomer_to_a_full_table_is_denied_and_resets_nobody<G: Velocity>() {
    let guard: G = capped(config(Some(1), None, 60), &ManualClock::new(), 2);
    assert!(allows(&guard, &Call::of("a")));
    assert!(allows(&guard, &Call::of("b")));
    let refused = refusal(&guard, &Call::of("c"));
    assert_eq!((refused.reason, refused.retry_after), (Reason::TableFull, None));
    assert_eq!(refusal(&guard, &Call::of("a")).reason, Reason::Exhausted);
    assert_eq!(guard.bucket_count(), 2);
}

fn an_idle_window_does_not_reset_a_bucket_that_is_not_refilled<G: Velocity>() {
    let clock = ManualClock::new();
    let limits = VelocityConfig { burst_factor: 2.0, ..config(Some(2), None, 1) };
    let guard: G = capped(limits, &clock, 1);
    let first = Call::of("first");
    assert_eq!(count_allowed(&guard, &first, 5), 4);
    clock.advance(millis(1_100));
    assert_eq!(refusal(&guard, &Call::of("newcomer")).reason, Reason::TableFull);
    assert_eq!(count_allowed(&guard, &first, 5), 2);
}

fn a_key_with_two_limits_fits_whole_or_not_at_all<G: Velocity>() {
    let guard: G = capped(config(Some(1), Some(10), 60), &ManualClock::new(), 5);
    assert!(allows(&guard, &Call::costing("a", 1)));
    assert!(allows(&guard, &Call::costing("b", 1)));
    assert_eq!(guard.bucket_count(), 4);
    assert_eq!(refusal(&guard, &Call::costing("c", 1)).reason, Reason::TableFull);
    assert_eq!(guard.bucket_count(), 4);
}

fn a_refilled_bucket_makes_room_for_a_newcomer<G: Velocity>() {
    let clock = ManualClock::new();
    let guard: G = capped(config(Some(1), None, 1), &clock, 1);
    assert!(allows(&guard, &Call::of("a")));
    clock.advance(millis(1_200));
    assert!(allows(&guard, &Call::of("b")));
    assert_eq!(guard.bucket_count(), 1);
}

fn a_memory_budget_lowers_the_cap<G: Velocity>() {
    let budget = MemoryBudgetConfig { velocity_bucket_cap: 4 };
    let guard = G::from_memory_budget(config(Some(5), None, 60), &budget).unwrap();
    let mut admitted = 0;
    for n in 0..200 {
        admitted += count_allowed(&guard, &Call::of(&format!("cap-{n}")), 1);
        assert!((1..=4).contains(&guard.bucket_count()));
    }
    assert!(admitted >= 4, "the first four found room");
}

fn a_hundred_a_minute_with_milli_tokens_is_one_a_second<G: Velocity>() {
    let clock = ManualClock::new();
    let limits = VelocityConfig { burst_factor: 1.5, ..config(Some(100), None, 60) };
    let guard: G = guard(limits, &clock);
    let call = Call::of("cap");
    assert_eq!(count_allowed(&guard, &call, 200), 150);
    for _ in 0..10 {
        clock.advance(millis(999));
        assert_eq!(refusal(&guard, &call).retry_after, Some(millis(1)));
        clock.advance(millis(1));
        assert_eq!(count_allowed(&guard, &call, 2), 1);
    }
}

fn a_hundred_a_minute_refilled_exactly_is_one_in_600_ms<G: Velocity>() {
    let clock = ManualClock::new();
    let limits = VelocityConfig { burst_factor: 1.5, ..config(Some(100), None, 60) };
    let guard = G::build(limits, Setup { refill: Refill::Exact, ..Setup::new(&clock) }).unwrap();
    let call = Call::of("cap");
    assert_eq!(count_allowed(&guard, &call, 200), 150);
    for _ in 0..10 {
        clock.advance(millis(599));
        assert_eq!(refusal(&guard, &call).retry_after, Some(millis(1)));
        clock.advance(millis(1));
        assert_eq!(count_allowed(&guard, &call, 2), 1);
    }
}

fn a_pair_is_given_up_only_when_both_its_buckets_are_refilled<G: Velocity>() {
    let clock = ManualClock::new();
    let guard: G = capped(config(Some(1), Some(1_000), 1), &clock, 3);
    assert!(allows(&guard, &Call::costing("a", 1)));
    clock.set(10_000_000);
    // The spend of a is refilled by now, its invocation is not.
    assert_eq!(refusal(&guard, &Call::costing("b", 1_000)).reason, Reason::TableFull);
    assert!(guard.bucket_count() <= 3);
    clock.set(1_005_000_000);
    assert!(allows(&guard, &Call::costing("a", 1)));
    assert!(guard.bucket_count() <= 3);
}

fn a_refusal_by_the_spend_limit_leaves_the_invocations_to_the_unit<G: Velocity>() {
    let guard: G = guard(config(Some(2), Some(10), 2), &ManualClock::new());
    assert!(allows(&guard, &Call::costing("cap", 10)));
    for _ in 0..5 {
        assert_eq!(refusal(&guard, &Call::costing("cap", 10)).limit.as_str(), "velocity.spend");
    }
    assert_eq!(guard.left(&Call::of("cap")).invocations, Some(1));
    let free = Call::costing("cap", 0);
    assert!(allows(&guard, &free));
    assert_eq!(refusal(&guard, &free).retry_after, Some(millis(1_000)), "one whole token is missing");
}

fn a_refusal_by_the_invocation_limit_leaves_the_spend_to_the_unit<G: Velocity>() {
    let clock = ManualClock::new();
    let guard: G = guard(config(Some(1), Some(100), 1), &clock);
    let ten = Call::costing("cap", 10);
    assert!(allows(&guard, &ten));
    clock.set(400_000_000); // the spend is refilled, the invocation is not
    for _ in 0..5 {
        assert_eq!(refusal(&guard, &ten).limit.as_str(), "velocity.invocations");
    }
    clock.set(1_000_000_000);
    assert!(allows(&guard, &Call::costing("cap", 100)), "the whole capacity is there");
    assert_eq!(guard.left(&ten).spend, Some(0));
}

fn of_two_exhausted_limits_the_one_with_the_longer_wait_is_named<G: Velocity>() {
    let guard: G = guard(config(Some(2), Some(2_000), 2), &ManualClock::new());
    let cheap = Call::costing("cap", 500);
    assert!(allows(&guard, &Call::costing("cap", 1_500)));
    assert!(allows(&guard, &cheap));
    let invocations = refusal(&guard, &cheap);
    assert_eq!(invocations.limit.as_str(), "velocity.invocations");
    assert_eq!(invocations.retry_after, Some(millis(1_000)));
    let spend = refusal(&guard, &Call::costing("cap", 1_500));
    assert_eq!((spend.limit.as_str(), spend.needed), ("velocity.spend", 1_500));
    assert_eq!(spend.retry_after, Some(millis(1_500)));
    let tie = refusal(&guard, &Call::costing("cap", 1_000));
    assert_eq!(tie.limit.as_str(), "velocity.invocations");
}

fn polling_a_denied_call_does_not_put_off_its_admission<G: Velocity>() {
    let clock = ManualClock::new();
    let guard: G = guard(config(Some(1), Some(10), 10), &clock);
    let call = Call::costing("cap", 1);
    assert!(allows(&guard, &call));
    for now in 0..1_000 {
        clock.set(now * 1_000_000);
        assert_eq!(refusal(&guard, &call).retry_after, Some(millis(1_000 - now)));
    }
    clock.set(1_000_000_000);
    assert!(allows(&guard, &call));
}

/// Allowed calls of 8 threads, 25 attempts each, that start together on frozen time.
fn race<G: Velocity>(guard: &G, call: &Call) -> usize {
    let start = Barrier::new(8);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    count_allowed(guard, call, 25)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn threads_that_race_for_one_bucket_get_exactly_what_it_holds<G: Velocity>() {
    let guard: G = guard(config(Some(40), None, 60), &ManualClock::new());
    let call = Call::of("cap");
    assert_eq!(race(&guard, &call), 40);
    assert_eq!(guard.left(&call).invocations, Some(0));
}

fn threads_that_race_for_two_limits_get_what_the_scarcer_one_holds<G: Velocity>() {
    let call = Call::costing("cap", 10);
    let scarce_spend: G = guard(config(Some(40), Some(300), 60), &ManualClock::new());
    assert_eq!(race(&scarce_spend, &call), 30);
    let left = scarce_spend.left(&call);
    assert_eq!((left.invocations, left.spend), (Some(10), Some(0)));
    let scarce_invocations: G = guard(config(Some(20), Some(300), 60), &ManualClock::new());
    assert_eq!(race(&scarce_invocations, &call), 20);
    let left = scarce_invocations.left(&call);
    assert_eq!((left.invocations, left.spend), (Some(0), Some(100)));
}

fn a_cap_that_fits_no_key_is_a_configuration_error<G: Velocity>() {
    let both = config(Some(1), Some(1), 60);
    let errors = [
        G::with_bucket_cap(both, 1).err(),
        G::build(both, Setup::cap(&ManualClock::new(), 1)).err(),
        G::from_memory_budget(both, &MemoryBudgetConfig { velocity_bucket_cap: 1 }).err(),
        G::with_bucket_cap(config(Some(1), None, 60), 0).err(),
    ];
    for error in errors {
        let error = error.expect("no key could ever fit");
        assert_eq!(error.field, "bucket_cap", "{error}");
    }
    assert!(G::with_bucket_cap(both, 2).is_ok() && G::with_bucket_cap(config(Some(1), None, 60), 1).is_ok());
}

fn a_limit_of_zero_admits_nothing_that_costs_anything<G: Velocity>() {
    let no_calls: G = guard(config(Some(0), None, 60), &ManualClock::new());
    assert_eq!(refusal(&no_calls, &Call::of("cap")).reason, Reason::Impossible);
    let no_spend: G = guard(config(None, Some(0), 60), &ManualClock::new());
    assert_eq!(refusal(&no_spend, &Call::costing("cap", 1)).reason, Reason::Impossible);
    assert!(allows(&no_spend, &Call::costing("cap", 0)));
    assert_eq!((no_calls.bucket_count(), no_spend.bucket_count()), (0, 0));
}

fn a_spend_of_zero_is_allowed_on_a_drained_limit<G: Velocity>() {
    let guard: G = guard(config(None, Some(10), 60), &ManualClock::new());
    assert!(allows(&guard, &Call::costing("cap", 10)));
    assert_eq!(count_allowed(&guard, &Call::costing("cap", 0), 10), 10);
    assert!(allows(&guard, &Call::costing("other", 0)));
    assert_eq!(guard.bucket_count(), 1);
}

fn a_broken_number_is_a_typed_error_and_never_lets_a_call_through<G: Velocity>() {
    let sound = config(Some(5), Some(10), 60);
    let broken = [
        ("burst_factor", VelocityConfig { burst_factor: f64::NAN, ..sound }),
        ("burst_factor", VelocityConfig { burst_factor: f64::INFINITY, ..sound }),
        ("burst_factor", VelocityConfig { burst_factor: 0.0, ..sound }),
        ("burst_factor", VelocityConfig { burst_factor: -1.0, ..sound }),
        ("burst_factor", VelocityConfig { burst_factor: f64::MAX, ..sound }),
        ("window_secs", VelocityConfig { window_secs: 0, ..sound }),
        ("window_secs", VelocityConfig { window_secs: u64::MAX, ..sound }),
    ];
    for (field, config) in broken {
        let error = G::try_new(config).err().expect("a broken number");
        assert_eq!(error.field, field, "{config:?}: {error}");
        let text = support::error(&G::new(config), &Call::costing("cap", 1));
        assert!(text.contains(field), "{text}");
    }
}

fn extreme_numbers_are_refused_or_still_limit<G: Velocity>() {
    let limits = [0, 1, u64::from(u32::MAX), 1 << 53, 1 << 63, u64::MAX];
    let windows = [1, 60, 18_446_744_073, u64::MAX];
    let factors = [f64::MIN_POSITIVE, 0.5, 1.0, 1e9, f64::MAX];
    let mut built = 0;
    for limit in limits {
        for window_secs in windows {
            for burst_factor in factors {
                let config = VelocityConfig {
                    max_invocations_per_window: u32::try_from(limit).ok(),
                    max_spend_per_window: Some(limit),
                    window_secs,
                    burst_factor,
                };
                for refill in [Refill::MilliToken, Refill::Exact] {
                    let setup = Setup { refill, ..Setup::new(&ManualClock::at(1)) };
                    let Ok(guard) = G::build(config, setup) else { continue };
                    built += 1;
                    let all = Call::costing("cap", guard.left(&Call::of("cap")).spend.unwrap());
                    let more = Call::costing(
                        "cap",
                        all.request.capability.scope.grants[0]
                            .max_cost_per_invocation
                            .as_ref()
                            .unwrap()
                            .units
                            + 1,
                    );
                    assert_eq!(refusal(&guard, &more).reason, Reason::Impossible, "{config:?}");
                    assert_eq!(allows(&guard, &all), limit > 0, "{config:?}");
                    assert_eq!(count_allowed(&guard, &all, 2), 0, "{config:?}");
                }
            }
        }
    }
    assert!(built > 20, "{built} of 240 configurations can be built");
}

fn pruning_forgets_what_is_refilled_and_nothing_else<G: Velocity>() {
    let clock = ManualClock::new();
    let guard: G = guard(config(Some(2), Some(2_000), 2), &clock);
    assert!(allows(&guard, &Call::costing("early", 1)));
    clock.advance(millis(500));
    assert!(allows(&guard, &Call::costing("late", 1)));
    assert_eq!((guard.prune_refilled(), guard.bucket_count()), (0, 4));
    clock.advance(millis(500));
    assert_eq!((guard.prune_refilled(), guard.bucket_count()), (2, 2));
    assert_eq!(guard.left(&Call::of("late")).invocations, Some(1));
}

on_engine_and_baseline!(VelocityGuard:
    it_is_named_velocity_and_limits_nothing_by_default,
    without_limits_calls_need_no_matched_grant,
    a_limit_without_a_matched_grant_is_an_error_that_names_the_field,
    five_invocations_are_allowed_and_the_sixth_is_denied,
    a_drained_bucket_refills_over_time,
    every_grant_of_every_capability_has_its_own_bucket,
    grants_of_any_index_have_buckets_of_their_own,
    two_tokens_with_one_capability_id_share_a_bucket,
    spend_is_limited_by_the_declared_cost,
    a_spend_limit_without_a_declared_cost_is_an_error_that_drains_nothing,
    a_cost_in_another_currency_is_an_error_that_drains_nothing,
    a_cost_above_the_capacity_is_denied_without_a_bucket,
    impossible_costs_fill_no_table,
    a_flood_of_capabilities_never_makes_more_buckets_than_the_cap,
    a_flood_from_eight_threads_never_makes_more_buckets_than_the_cap,
    drawing_on_a_bucket_in_a_full_table_evicts_nothing,
    a_newcomer_to_a_full_table_is_denied_and_resets_nobody,
    an_idle_window_does_not_reset_a_bucket_that_is_not_refilled,
    a_key_with_two_limits_fits_whole_or_not_at_all,
    a_refilled_bucket_makes_room_for_a_newcomer,
    a_memory_budget_lowers_the_cap,
    a_hundred_a_minute_with_milli_tokens_is_one_a_second,
    a_hundred_a_minute_refilled_exactly_is_one_in_600_ms,
    a_pair_is_given_up_only_when_both_its_buckets_are_refilled,
    a_refusal_by_the_spend_limit_leaves_the_invocations_to_the_unit,
    a_refusal_by_the_invocation_limit_leaves_the_spend_to_the_unit,
    of_two_exhausted_limits_the_one_with_the_longer_wait_is_named,
    polling_a_denied_call_does_not_put_off_its_admission,
    threads_that_race_for_one_bucket_get_exactly_what_it_holds,
    threads_that_race_for_two_limits_get_what_the_scarcer_one_holds,
    a_cap_that_fits_no_key_is_a_configuration_error,
    a_limit_of_zero_admits_nothing_that_costs_anything,
    a_spend_of_zero_is_allowed_on_a_drained_limit,
    a_broken_number_is_a_typed_error_and_never_lets_a_call_through,
    extreme_numbers_are_refused_or_still_limit,
    pruning_forgets_what_is_refilled_and_nothing_else,
);
