//! `tollgate explain`, as a user reads it.

mod common;

use common::Case;

fn explained(policy: &str) -> String {
    let output = Case::new(policy, "").explain();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_limit_shows_capacity_rates_fill_resolution_overflow_and_memory() {
    let text = explained(
        "bucket_cap = 1024\n[velocity]\nmax_invocations_per_window = 60\nmax_spend_per_window = 6000000\nburst_factor = 1.5\n\
         [[limit]]\nname = \"per-client\"\nkey = [\"ip\"]\nrate = { tokens = 100, per = \"60s\", burst = 150 }\n\
         [[limit]]\nname = \"monthly\"\nwindow = { tokens = 50, per = \"30d\" }\n",
    );
    let section = |name: &str| {
        let from = text.find(name).unwrap_or_else(|| panic!("no {name} in {text}"));
        text[from..].split("\n\n").next().unwrap().to_owned()
    };
    let labels =
        ["capacity", "asked rate", "achieved rate", "time to fill", "resolution", "overflow", "memory"];
    for name in ["velocity.invocations", "velocity.spend", "per-client", "monthly"] {
        assert!(labels.iter().all(|label| section(name).contains(label)), "{}", section(name));
        assert!(!section(name).contains("warning"), "{}", section(name));
    }
    assert!(section("velocity.invocations").contains("capacity       90 tokens"), "{text}");
    assert!(section("velocity.invocations").contains("resolution     1 ms"), "{text}");
    assert!(section("velocity.spend").contains("time to fill   90 s"), "{text}");
    assert!(section("per-client").contains("capacity       150 tokens"), "{text}");
    assert!(section("monthly").contains("resolution     30 days"), "{text}");
    assert!(section("monthly").contains("one bucket for everybody"), "{text}");
    let years = |name: &str| {
        let section = section(name);
        let line = section.lines().find(|line| line.contains("overflow")).unwrap().to_owned();
        line.split_whitespace().nth(2).unwrap().parse::<f64>().unwrap()
    };
    assert!(years("velocity.spend") >= 5.0 && years("per-client") >= 5.0);
}

#[test]
fn a_rate_that_is_not_achieved_within_a_hundredth_is_warned_about() {
    let text = explained("[velocity]\nmax_invocations_per_window = 100\nburst_factor = 1.5\n");
    assert!(text.contains("warning: velocity.invocations: asked 1.6667 tokens a second, achieved 1 tokens a second, 40.0 % below"), "{text}");
    let text = explained("[agent_velocity]\nmax_requests_per_agent = 1\n");
    assert!(
        text.contains("warning: agent_velocity.agent: asked 1 tokens a minute, achieved 60 tokens a minute"),
        "{text}"
    );
    // 101 in 100 seconds: 1.01 becomes 1, a gap of just under one hundredth.
    let text = explained("[velocity]\nmax_invocations_per_window = 101\nwindow_secs = 100\n");
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn an_empty_policy_admits_everything() {
    assert!(explained("").contains("no limits: every event is admitted"));
}

#[test]
fn an_effect_shows_its_ttl_its_hours_and_what_each_quota_comes_to() {
    let text = explained(
        "[[effect]]\ntool = \"Email\"\nmax = \"50/day\"\nttl = \"90s\"\n\
         hours = { from = \"09:00\", to = \"17:30\", zone = \"Europe/Berlin\", days = [\"mon\"], outside = \"defer\" }\n\
         [[effect.quota]]\nrate = \"5/min\"\nburst = 10\non_exhausted = \"shed\"\n",
    );
    assert!(!text.contains("no limits"), "{text}");
    for part in [
        "effect Email (up to 65,536 keys)",
        "permits live     1m30s",
        "hours            09:00-17:30 Europe/Berlin mon, outside them defer",
        "  max 50 per 86400000000000ns from 0ns\n    exhausted      block\n    burst          50 tokens\n    asked rate     2.0833 tokens an hour\n    achieved rate  2.0833 tokens an hour\n",
        "  rate 5 per 60000000000ns burst 10\n    exhausted      shed\n    burst          10 tokens\n    asked rate     5 tokens a minute\n    achieved rate  5 tokens a minute\n    time to fill   2 min",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn budgets_show_each_scope_and_limit_in_a_line() {
    let text = explained(
        "[[spend.scope]]\nname = \"user\"\n\
         [[spend.scope.limit]]\ncost = \"3.00\"\nwindow = \"rolling 1h\"\n\
         [[spend.scope.limit]]\ntokens = 120000\n\
         [[spend.scope]]\nname = \"all\"\nshared = true\n\
         [[spend.family]]\nroot = \"r\"\ncost = 10\nceiling = 1\n\
         [[effect]]\ntool = \"Email\"\nmax = \"50/day\"\n",
    );
    assert!(!text.contains("every event is admitted"), "{text}");
    let spend = &text[text.find("\nspend ").unwrap()..];
    assert_eq!(
        spend,
        "\nspend user (an account for each key)\n  cost             3.00 USD, rolling 1h\n  tokens           120,000, lifetime\n\
         \nspend all (one account for everybody)\n  no limits: only books are kept\n\
         \nspend family r\n  cost             0.00001 USD in all\n"
    );
}

#[test]
fn the_shipped_policy_of_budgets_explains() {
    let text = explained(include_str!("../../examples/policies/spend.toml"));
    for part in [
        "spend run (an account for each key)\n  tokens           120,000, lifetime\n",
        "  cost             15.00 USD, calendar day in UTC\n",
        "spend global (one account for everybody)\n  cost             40.00 USD, rolling 1h\n  runs             30, lifetime\n",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn a_meter_shows_what_an_event_uses() {
    let text = explained(include_str!("../../examples/policies/llm-spend.toml"));
    let part = "an event of a replay uses\n  \
                cost             ContextTokens at 2.50 USD a million + GeneratedTokens at 10.00 USD a million\n  \
                tokens           ContextTokens + GeneratedTokens\n  calls            1\n";
    assert!(text.contains(part), "{text}");
}
