use super::*;
use crate::spend::amount::Dimension;
use crate::spend::window::Window;

fn money() -> SpendPolicy {
    SpendPolicy::new().scope(Scope::shared("all").limit(Limit::cost(100, Window::Lifetime)))
}

#[test]
fn what_makes_no_sense_is_refused_with_what_is_accepted() {
    let day = Window::day("UTC").unwrap();
    let cases = [
        (SpendPolicy::new(), "no scope"),
        (money().scope(Scope::keyed("all")), "\"all\" is no name"),
        (money().scope(Scope::keyed("")), "\"\" is no name"),
        (money().scope(Scope::keyed("family")), "\"family\" is no name"),
        (
            money().scope(
                Scope::keyed("u")
                    .limit(Limit::calls(1, Window::Lifetime))
                    .limit(Limit::calls(2, Window::Lifetime)),
            ),
            "u/calls/lifetime is there a second time",
        ),
        (money().scope(Scope::keyed("u").limit(Limit::calls(MOST + 1, Window::Lifetime))), "is above 2^53"),
        (
            money().scope(Scope::keyed("u").limit(Limit::new(Dimension::Runs, 1, day))),
            "runs without a window",
        ),
        (money().family(Family::new("r").cost(10)), "nothing could be held for a call"),
        (money().family(Family::new("r")), "has no cap"),
        (money().family(Family::new("r").cost(10).ceiling(11)), "ceiling above its total"),
        (money().family(Family::new("r").calls(1)).family(Family::new("r").calls(2)), "a second time"),
        (money().family(Family::new("r").calls(MOST + 1)), "above 2^53"),
        (money().grant(Grant::new("a", "r")), "a parent that there is not, \"r\""),
        (money().grant(Grant::new("a", "b")).grant(Grant::new("b", "a")), "its own ancestor"),
        (money().grant(Grant::new("a", "a")), "its own ancestor"),
        (
            money().family(Family::new("r").cost(10).ceiling(5)).grant(Grant::new("a", "r").ceiling(6)),
            "at most the 5 of \"r\"",
        ),
        (
            money().family(Family::new("r").calls(1)).grant(Grant::new("a", "r")).grant(Grant::new("a", "r")),
            "a second time",
        ),
        (money().family(Family::new("r").calls(1)).grant(Grant::new("r", "r")), "a second time"),
        (money().tiers(Tiers::new().reduced_at(0)), "tiers at 0"),
        (money().tiers(Tiers::new().reduced_at(900_000).blocked_at(800_000)), "reduced at or below blocked"),
        (money().tiers(Tiers::new().blocked_at(1_000_001)), "1 to 1000000"),
        (money().ttl(Duration::from_micros(999)), "ttl is 0"),
        (money().account_cap(0), "account_cap is 0"),
        (money().hold_cap(0), "hold_cap is 0"),
        (money().unit("usd", 6), "usd/6 is no unit"),
        (money().unit("", 6), "is no unit"),
        (money().unit("USD", 13), "USD/13 is no unit"),
    ];
    for (policy, text) in cases {
        let error = policy.validate().unwrap_err().to_string();
        assert!(error.contains(text), "{error} does not say {text}");
    }
    money().validate().unwrap();
}

#[test]
fn a_grant_resolves_to_its_root_and_the_least_ceiling_above_it() {
    let mut policy = money().family(Family::new("r").cost(1_000).ceiling(100));
    for depth in 0..10_000_u64 {
        let parent = depth.checked_sub(1).map_or("r".to_owned(), |above| format!("g{above}"));
        let grant = Grant::new(format!("g{depth}"), parent);
        policy.grants.push(if depth == 5 { grant.ceiling(40) } else { grant });
    }
    let resolved = |id: &str| policy.resolve(id).map(|(family, ceiling)| (family.root.clone(), ceiling));
    assert_eq!(resolved("r"), Some(("r".to_owned(), Some(100))));
    assert_eq!(resolved("g4"), Some(("r".to_owned(), Some(100))));
    assert_eq!(resolved("g9999"), Some(("r".to_owned(), Some(40))));
    assert_eq!(resolved("stranger"), None);
}

#[test]
fn a_policy_reads_back_as_it_was_written() {
    let policy = money()
        .scope(
            Scope::keyed("user").limit(Limit::tokens(5, Window::rolling(Duration::from_secs(60)).unwrap())),
        )
        .family(Family::new("r").cost(10).ceiling(5))
        .grant(Grant::new("a", "r").ceiling(1))
        .tiers(Tiers::new().reduced_at(1).counting([Dimension::Runs, Dimension::Cost]))
        .reduced(ReducedProfile { model: Some("small".into()), ..ReducedProfile::default() });
    let json = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<SpendPolicy>(&json).unwrap(), policy);
}
