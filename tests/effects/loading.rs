//! What rules are accepted, and what is said of the others.

use crate::fixture::*;
use tollgate::budget;

fn load(policy: EffectPolicy) -> EffectsError {
    Effects::builder(policy)
        .declare::<Search>()
        .declare::<Email>()
        .clock(ManualClock::new())
        .build()
        .unwrap_err()
}

fn with_email(search: EffectRule) -> EffectPolicy {
    EffectPolicy::new().effect(search).effect(EffectRule::new("Email").quota(QuotaRule::max(1, DAY)))
}

#[test]
fn every_rule_has_its_effect_and_every_effect_its_rule() {
    let unknown = with_email(rule([QuotaRule::rate(1, MINUTE)])).effect(EffectRule::new("Serach"));
    let error = load(unknown);
    assert!(matches!(&error, EffectsError::UnknownTool { tool, .. } if tool == "Serach"));
    assert!(error.to_string().contains("Search, Email"), "{error}");
    let missing = EffectPolicy::new().effect(rule([QuotaRule::rate(1, MINUTE)]));
    assert_eq!(load(missing), EffectsError::NoRule { tool: "Email".into() });
    let twice = with_email(rule([QuotaRule::rate(1, MINUTE)])).effect(rule([QuotaRule::rate(2, MINUTE)]));
    assert_eq!(load(twice), EffectsError::TwoRules { tool: "Search".into() });
}

#[test]
fn a_rule_that_allows_nothing_or_says_it_twice_is_refused_by_name() {
    let tool = || "Search".to_owned();
    assert_eq!(load(with_email(rule([]))), EffectsError::NoQuota { tool: tool() });
    for quota in [QuotaRule::rate(0, MINUTE), QuotaRule::rate(1, MINUTE).burst(0), QuotaRule::max(0, DAY)] {
        let quota_text = quota.definition();
        assert_eq!(
            load(with_email(rule([quota]))),
            EffectsError::ZeroLimit { tool: tool(), quota: quota_text }
        );
    }
    let quota = QuotaRule::max(5, DAY);
    let twice = load(with_email(rule([quota, quota.on_exhausted(OnExhausted::Shed)])));
    assert_eq!(twice, EffectsError::TwiceTheSameQuota { tool: tool(), quota: quota.definition() });
    let no_ttl = rule([QuotaRule::rate(1, MINUTE)]).ttl(Duration::ZERO);
    assert_eq!(load(with_email(no_ttl)), EffectsError::ZeroTtl { tool: tool() });
    let never = AllowedHours::new("09:00", "17:00", "UTC").unwrap().on([]);
    let error = load(with_email(rule([QuotaRule::rate(1, MINUTE)]).hours(never)));
    assert_eq!(error, EffectsError::Hours { tool: tool(), error: HoursError::NoDay });
}

#[test]
fn a_quota_that_cannot_be_counted_is_refused_with_the_reason() {
    for quota in [
        QuotaRule::rate(1, Duration::ZERO),
        QuotaRule::max(1, Duration::MAX),
        QuotaRule::rate(u64::MAX, SECOND),
        QuotaRule::max(u64::MAX, Duration::from_nanos(1)),
    ] {
        let error = load(with_email(rule([quota])));
        assert!(matches!(&error, EffectsError::Quota { tool, .. } if tool == "Search"), "{error}");
    }
    let error = load(with_email(rule([QuotaRule::rate(1, MINUTE)]).bucket_cap(0)));
    assert!(error.to_string().contains("bucket_cap is 0"), "{error}");
}

#[test]
fn a_gate_needs_a_declared_effect() {
    let clock = ManualClock::new();
    let effects = effects(rule([QuotaRule::rate(1, MINUTE)]), &clock);
    assert!(matches!(effects.gate::<Email>(|_| ()), Err(EffectsError::UnknownTool { .. })));
    assert!(effects.tool_budget("Email", Payer::Agent).is_err());
    assert!(effects.peek("Email", "alice").is_err());
}

#[test]
fn the_macro_says_what_the_builder_says() {
    let spoken = budget! {
        rate: 100 per minute on Search;
        rate: 5 per second burst 20 on Search, on_exhausted: shed;
        max: 50 per day on Email, on_exhausted: block;
        max: 200 per week on Email;
        on_exhausted: defer
    };
    let built = EffectPolicy::new()
        .effect(rule([
            QuotaRule::rate(100, MINUTE).on_exhausted(OnExhausted::Defer),
            QuotaRule::rate(5, SECOND).burst(20).on_exhausted(OnExhausted::Shed),
        ]))
        .effect(
            EffectRule::new("Email")
                .quota(QuotaRule::max(50, DAY))
                .quota(QuotaRule::max(200, DAY * 7).on_exhausted(OnExhausted::Defer)),
        );
    assert_eq!(spoken, built);
    let plain = budget! { max: 3 per hour on Email };
    assert_eq!(plain.rule("Email").unwrap().quotas(), [QuotaRule::max(3, Duration::from_secs(3_600))]);
}
