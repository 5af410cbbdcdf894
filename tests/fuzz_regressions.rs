//! What fuzzing found in the engine and the guards, each as the smallest case that shows it.

mod support;

use std::time::Duration;
use support::{Call, Setup, Velocity, allows, refusal};
use tollgate::Reason;
use tollgate::guard::{Refill, VelocityConfig, VelocityGuard};
use tollgate::time::ManualClock;

/// Two marks that share a word are narrower than a mark of its own. No bug of the engine: its model took every mark for
/// 64 bits wide.
#[test]
fn a_wait_that_would_end_past_the_horizon_is_not_promised() {
    const WINDOW: u64 = 150 * 31_557_600;
    let spend = VelocityConfig {
        max_spend_per_window: Some(3_000),
        window_secs: WINDOW,
        ..VelocityConfig::default()
    };
    let both = VelocityConfig { max_invocations_per_window: Some(7), ..spend };
    let call = Call::costing("cap", 3_000);
    for (config, wait) in [(spend, Some(Duration::from_secs(WINDOW))), (both, None)] {
        let clock = ManualClock::new();
        let setup = Setup { refill: Refill::Exact, ..Setup::new(&clock) };
        let guard = VelocityGuard::build(config, setup).unwrap();
        let horizon = Duration::from_nanos(guard.arithmetic().spend.unwrap().horizon());
        assert_eq!(horizon >= Duration::from_secs(WINDOW), wait.is_some(), "{horizon:?}");
        assert!(allows(&guard, &call));
        let refusal = refusal(&guard, &call);
        assert_eq!((refusal.reason, refusal.retry_after), (Reason::Exhausted, wait));
    }
}
