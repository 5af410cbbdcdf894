//! The four scopes of the documentation, at their numbers.

use crate::support::*;
use tollgate::spend::*;

fn call(run: &str, user: &str, team: &str) -> Call {
    Call::new().scope("run", run).scope("user", user).scope("team", team)
}

#[test]
fn each_of_the_nine_limits_refuses_at_its_number() {
    let cases: [(&str, Dimension, i64); 4] = [
        ("run", Dimension::Tokens, 120_000),
        ("run", Dimension::Calls, 25),
        ("run", Dimension::Seconds, 180),
        ("run", Dimension::Cost, 500_000),
    ];
    for (scope, dimension, limit) in cases {
        let spend = open(four_scopes(), &ManualWallClock::at(START));
        let call = call("r", "u", "t");
        let all = Amounts::new().of(dimension, limit);
        spend.hold(&call, &all).unwrap().settle(&all).unwrap();
        let refused = refusal(spend.hold(&call, &Amounts::new().of(dimension, 1)));
        assert_eq!(
            (refused.scope.as_str(), refused.dimension, refused.limit),
            (scope, dimension, limit as u64)
        );
        assert_eq!(refused.resets_at, None, "a run's budget comes back with no time");
        spend
            .hold(&Call::new().scope("run", "r2").scope("user", "u").scope("team", "t"), &all)
            .unwrap()
            .release()
            .unwrap();
    }
}

/// Spends half a dollar in a run of its own, as often as it goes, and says how often that was and by what it ended.
fn half_dollars(spend: &Spend, user: &str, team: &str, first: usize) -> (usize, Refusal) {
    for number in 0.. {
        let call = call(&format!("{user}-{}", first + number), user, team);
        match spend.hold(&call, &cost(500_000)) {
            Ok(hold) => drop(hold.settle(&cost(500_000)).unwrap()),
            Err(SpendError::Refused(refusal)) => return (number, *refusal),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("some limit refuses")
}

#[test]
fn a_user_has_three_dollars_an_hour_and_fifteen_a_day() {
    let clock = ManualWallClock::at(START);
    let spend = open(four_scopes(), &clock);
    let mut sixths = Vec::new();
    for hour in 0..6 {
        clock.set(START + hour * 61 * MINUTE);
        let (number, refused) = half_dollars(&spend, "u", "t", hour as usize * 100);
        sixths.push((number, refused.window));
    }
    let hourly = || (6, "rolling 1h".to_owned());
    let daily = |number| (number, "calendar day in UTC".to_owned());
    assert_eq!(sixths, [hourly(), hourly(), hourly(), hourly(), daily(6), daily(0)]);
    clock.set(START + DAY);
    assert_eq!(half_dollars(&spend, "u", "t", 1_000).0, 6, "a new day");
}

#[test]
fn everybody_together_has_forty_dollars_an_hour_and_a_team_a_hundred_and_twenty_a_day() {
    let clock = ManualWallClock::at(START);
    let spend = open(four_scopes(), &clock);
    for hour in 0..3 {
        clock.set(START + hour * 61 * MINUTE);
        let mut spent = 0;
        for user in 0..14 {
            let (number, refused) = half_dollars(&spend, &format!("u{hour}-{user}"), "t", 0);
            spent += number;
            if user == 13 {
                let fullest = if hour == 2 { "team" } else { "global" };
                assert_eq!(
                    (number, refused.scope.as_str()),
                    (2, fullest),
                    "13 users at 3.00 leave 1.00 of 40.00"
                );
            }
        }
        assert_eq!(spent, 80);
    }
    clock.set(START + 3 * 61 * MINUTE);
    let (number, refused) = half_dollars(&spend, "late", "t", 0);
    assert_eq!((number, refused.scope.as_str(), refused.spent), (0, "team", 120_000_000));
    assert_eq!(half_dollars(&spend, "late", "other", 0).0, 6);
}

#[test]
fn thirty_runs_are_under_way_at_once() {
    let spend = open(four_scopes(), &ManualWallClock::at(START));
    let start =
        |run: usize| spend.hold(&call(&format!("r{run}"), &format!("u{}", run % 7), "t"), &cost(1).runs(1));
    let mut runs: Vec<_> = (0..30).map(|run| start(run).unwrap()).collect();
    let refused = refusal(start(30));
    assert_eq!((refused.dimension, refused.limit, refused.held), (Dimension::Runs, 30, 30));
    runs.pop().unwrap().settle(&cost(1)).unwrap();
    let _again = start(30).unwrap();
}

#[test]
fn a_run_is_reduced_at_seven_tenths_and_stops_before_the_step_that_would_leave_its_budget() {
    let spend = open(four_scopes(), &ManualWallClock::at(START));
    let run = spend.hold(&call("r", "u", "t"), &Amounts::new().runs(1)).unwrap();
    let mut tiers = Vec::new();
    let refused = loop {
        match run.extend(&cost(60_000).tokens(10_000).calls(1).seconds(10)) {
            Ok(decision) => {
                tiers.push(decision.tier);
                run.charge(&cost(50_000).tokens(9_000).calls(1).seconds(7)).unwrap();
            }
            Err(error) => break error,
        }
    };
    assert_eq!(tiers, [[Tier::Full; 6].as_slice(), &[Tier::Reduced; 2]].concat());
    let refused = refused.refusal().cloned().unwrap();
    assert_eq!((refused.scope.as_str(), refused.dimension), ("run", Dimension::Cost));
    let settlement = run.settle(&Amounts::new()).unwrap();
    assert_eq!(settlement.used[Dimension::Cost], 400_000);
    assert_eq!(used(&spend, "run", "r", 3), (400_000, 0));
}

#[cfg(feature = "policy")]
#[test]
fn the_shipped_policy_is_the_four_scopes_with_a_profile_for_the_reduced_tier() {
    let text = include_str!("../../examples/policies/spend.toml");
    let profile = ReducedProfile {
        max_steps: Some(5),
        subagents: Some(false),
        model: Some("small".into()),
        banner: Some("This budget is nearly used up: a smaller model answers until {reset}.".into()),
    };
    assert_eq!(SpendPolicy::from_toml(text), Ok(four_scopes().reduced(profile)));
}
