mod hostile;

use super::*;
use crate::spend::{MoneyError, SpendPolicyError};

/// Every key, each with another value than its default.
const ALL: &str = r#"[spend]
currency = "EUR"
decimals = 4
ttl = "1h30m"
on_expiry = "released"
account_cap = 1000
hold_cap = 2_000
grant_cap = 3_000
answers_for = "2d"

[[spend.scope]]
name = "user"

[[spend.scope.limit]]
cost = "3.00"
window = "rolling 1h"

[[spend.scope.limit]]
tokens = 2_000_000
window = "fixed 1d"
anchor = "2026-01-01T00:00:00Z"

[[spend.scope.limit]]
calls = 25
window = "calendar day"
zone = "Europe/Berlin"

[[spend.scope.limit]]
seconds = 0
window = "calendar week in UTC"

[[spend.scope]]
name = "all"
shared = true
limit = [{ runs = 30 }, { cost = 7, window = "lifetime" }, { cost = "0.0007", window = "calendar month", zone = "UTC" }]

[spend.tiers]
reduced = 0.123456
blocked = 0.9
dimensions = ["runs", "cost"]

[spend.reduced]
max_steps = 5
subagents = false
model = "small"
banner = "until {reset}"

[[spend.family]]
root = "grant-root"
cost = "10.00"
calls = 100
ceiling = "0.10"

[[spend.grant]]
id = "child"
parent = "grant-root"
ceiling = 500
"#;

fn parsed(text: &str) -> SpendPolicy {
    SpendPolicy::from_toml(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[track_caller]
fn refused(text: &str) -> PolicyFileError {
    match SpendPolicy::from_toml(text) {
        Ok(policy) => panic!("accepted: {policy:?}\n{text}"),
        Err(error) => error,
    }
}

/// One limit, whose keys begin at line 4.
fn limit(rest: &str) -> String {
    format!("[[spend.scope]]\nname = \"user\"\n[[spend.scope.limit]]\n{rest}\n")
}

/// A scope that is fine, and more from line 3 on.
fn beside(rest: &str) -> String {
    format!("[[spend.scope]]\nname = \"user\"\n{rest}\n")
}

/// `[spend]` itself from line 2 on, and a scope that is fine.
fn setting(rest: &str) -> String {
    format!("[spend]\n{rest}\n[[spend.scope]]\nname = \"user\"\n")
}

/// Each text is refused at its line and place, in these words.
#[track_caller]
fn all_refused(cases: impl IntoIterator<Item = (String, usize, &'static str, &'static [&'static str])>) {
    for (text, line, place, words) in cases {
        let error = refused(&text);
        let told = error.to_string();
        assert_eq!((error.line, error.place.as_str()), (line, place), "{told}\n{text}");
        let no_toml = matches!(error.found, Found::NotToml(_));
        assert!(no_toml || !error.accepted.is_empty(), "nothing is accepted: {told}\n{text}");
        for word in words {
            assert!(told.contains(word), "{told}\nlacks {word}\n{text}");
        }
    }
}

fn all_built() -> SpendPolicy {
    let user = Scope::keyed("user")
        .limit(Limit::cost(30_000, Window::rolling(Duration::from_secs(3_600)).unwrap()))
        .limit(Limit::tokens(
            2_000_000,
            Window::fixed(Duration::from_secs(86_400), 1_767_225_600_000).unwrap(),
        ))
        .limit(Limit::calls(25, Window::day("Europe/Berlin").unwrap()))
        .limit(Limit::seconds(0, Window::week("UTC").unwrap()));
    let all = Scope::shared("all")
        .limit(Limit::concurrent_runs(30))
        .limit(Limit::cost(7, Window::Lifetime))
        .limit(Limit::cost(7, Window::month("UTC").unwrap()));
    SpendPolicy::new()
        .unit("EUR", 4)
        .ttl(Duration::from_secs(5_400))
        .on_expiry(OnExpiry::Released)
        .account_cap(1_000)
        .hold_cap(2_000)
        .grant_cap(3_000)
        .answers_for(Duration::from_secs(2 * 86_400))
        .scope(user)
        .scope(all)
        .tiers(
            Tiers::new().reduced_at(123_456).blocked_at(900_000).counting([Dimension::Cost, Dimension::Runs]),
        )
        .reduced(ReducedProfile {
            max_steps: Some(5),
            subagents: Some(false),
            model: Some("small".into()),
            banner: Some("until {reset}".into()),
        })
        .family(Family::new("grant-root").cost(100_000).calls(100).ceiling(1_000))
        .grant(Grant::new("child", "grant-root").ceiling(500))
}

#[test]
fn a_policy_in_toml_is_the_one_that_is_built_in_rust() {
    assert_eq!(parsed(ALL), all_built());
    assert_eq!(parsed(&ALL.replace('\n', "\r\n")), all_built());
}

#[test]
fn every_key_is_read() {
    let keys = ALL.lines().filter(|line| line.contains(" = ") && !line.starts_with("limit"));
    for line in keys {
        let without = ALL.replacen(&format!("{line}\n"), "", 1);
        let read = SpendPolicy::from_toml(&without);
        assert_ne!(read.as_ref(), Ok(&all_built()), "{line} made no difference");
    }
}

#[test]
fn what_is_left_out_is_as_in_a_new_policy() {
    let least = SpendPolicy::new().scope(Scope::keyed("user"));
    assert_eq!(parsed("[[spend.scope]]\nname = \"user\"\n"), least);
    assert_eq!(parsed(&beside("[spend.tiers]\n[spend.reduced]\n")), least);
    let lifetime = SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::tokens(9, Window::Lifetime)));
    assert_eq!(parsed(&limit("tokens = 9")), lifetime);
}

#[test]
fn a_text_without_budgets_is_none_beside_others_and_a_mistake_alone() {
    assert_eq!(SpendPolicy::from_toml_beside("", &[]), Ok(None));
    assert_eq!(SpendPolicy::from_toml_beside("x = 1\n", &["x"]), Ok(None));
    let error = refused("\n");
    assert_eq!(error.to_string(), "line 1: spend is missing, accepted: a table headed [spend]");
}

#[test]
fn other_keys_are_accepted_only_where_the_caller_reads_them() {
    let text = format!("x = 1\n{ALL}\n[[effect]]\ntool = \"Email\"\nmax = \"50/day\"\n");
    assert_eq!(SpendPolicy::from_toml_beside(&text, &["x", "effect"]), Ok(Some(all_built())));
    let error = SpendPolicy::from_toml_beside(&text, &["effect"]).unwrap_err();
    assert_eq!((error.line, error.place.as_str()), (1, "x"));
    assert_eq!(
        refused("spent = 1\n").to_string(),
        "line 1: unknown key `spent`: did you mean `spend`? accepted: spend"
    );
}

#[test]
fn money_is_text_in_the_currency_or_a_whole_number_of_units() {
    let amount = |text: &str| parsed(text).scopes()[0].limits()[0].amount();
    for (value, units) in [("\"3\"", 3_000_000), ("\"0.000001\"", 1), ("3", 3), ("0x10", 16), ("\"0\"", 0)] {
        assert_eq!(amount(&limit(&format!("cost = {value}"))), units, "{value}");
    }
    let yen = limit("cost = \"120\"").replacen("[[", "[spend]\ncurrency = \"JPY\"\ndecimals = 0\n[[", 1);
    assert_eq!(amount(&yen), 120);
    assert_eq!(amount(&limit("cost = \"9007199254.740992\"")), MOST);
}

#[test]
fn a_share_is_read_from_its_digits() {
    let tiers = |rest: &str| parsed(&beside(&format!("[spend.tiers]\n{rest}"))).tiers;
    for (value, millionths) in [
        ("0.7", 700_000),
        ("0.000001", 1),
        ("0.999999", 999_999),
        ("+0.29", 290_000),
        ("0.700_000", 700_000),
        ("1", 1_000_000),
        ("1.0", 1_000_000),
    ] {
        assert_eq!(tiers(&format!("reduced = {value}")).reduced, millionths, "{value}");
    }
    assert_eq!(tiers("dimensions = []").dimensions, []);
}

#[test]
fn whatever_a_window_shows_can_be_pasted() {
    let hour = Duration::from_secs(3_600);
    let windows = [
        Window::Lifetime,
        Window::rolling(hour + hour / 2).unwrap(),
        Window::fixed(hour, 1_767_225_600_123).unwrap(),
        Window::day("America/Argentina/Buenos_Aires").unwrap(),
        Window::week("Europe/Berlin").unwrap(),
        Window::month("UTC").unwrap(),
    ];
    for window in windows {
        let policy = parsed(&limit(&format!("calls = 1\nwindow = \"{window}\"")));
        assert_eq!(policy.scopes()[0].limits()[0].window(), &window, "{window}");
    }
}

#[test]
fn a_mistake_of_a_setting_is_told_at_its_key() {
    all_refused([
        ("[[spend]]\n".into(), 1, "spend", &["accepted: a table headed [spend]"] as &[_]),
        ("\nspend = 3\n".into(), 2, "spend", &["spend is 3"]),
        ("[spend]\n[spend]\n".into(), 2, "", &["not valid TOML", "duplicate key"]),
        (
            "\n[spend]\nttl = \"1m\"\n".into(),
            2,
            "spend.scope",
            &["it has no scope", "accepted: at least one"],
        ),
        (setting("curency = \"USD\""), 2, "spend.curency", &["unknown key", "did you mean `currency`?"]),
        (setting("limit = 1"), 2, "spend.limit", &["unknown key", "accepted: currency, decimals, ttl"]),
        (
            setting("currency = \"usd\""),
            2,
            "spend.currency",
            &["usd/6 is no unit of money", "capital letters"],
        ),
        (setting("currency = 7"), 2, "spend.currency", &["is 7", "a currency of capital letters"]),
        (setting("decimals = 13"), 2, "spend.decimals", &["is 13", "a whole number, 0 to 12"]),
        (setting("ttl = 600"), 2, "spend.ttl", &["is 600", "a whole number and a unit"]),
        (setting("ttl = \"0s\""), 2, "spend.ttl", &["ttl is 0, accepted: at least 1"]),
        (setting("ttl = \"1ms1us\""), 2, "spend.ttl", &["is \"1ms1us\"", "in whole milliseconds"]),
        (setting("answers_for = \"0d\""), 2, "spend.answers_for", &["answers_for is 0"]),
        (setting("answers_for = \"soon\""), 2, "spend.answers_for", &["is \"soon\"", "a unit"]),
        (setting("on_expiry = \"expired\""), 2, "spend.on_expiry", &["\"spent\" or \"released\""]),
        (setting("on_expiry = true"), 2, "spend.on_expiry", &["is true", "\"spent\" or \"released\""]),
        (setting("account_cap = 0"), 2, "spend.account_cap", &["is 0", "a whole number, 1 to"]),
        (setting("hold_cap = -1"), 2, "spend.hold_cap", &["is -1", "a whole number, 1 to"]),
        (setting("hold_cap = 1e3"), 2, "spend.hold_cap", &["is 1e3", "a whole number"]),
        (setting("grant_cap = 0"), 2, "spend.grant_cap", &["is 0", "a whole number, 1 to"]),
    ]);
}

#[test]
fn a_mistake_of_a_scope_is_told_at_its_key() {
    all_refused([
        (
            "[spend.scope]\nname = \"x\"\n".into(),
            1,
            "spend.scope",
            &["tables headed [[spend.scope]]"] as &[_],
        ),
        ("[[spend.scope]]\nshared = true\n".into(), 1, "spend.scope 1: name", &["is missing"]),
        ("[[spend.scope]]\nname = 1\n".into(), 2, "spend.scope 1: name", &["is 1", "the name of a scope"]),
        ("[[spend.scope]]\nname = \"\"\n".into(), 2, "spend.scope \"\": name", &["no name of a scope"]),
        (
            "[[spend.scope]]\nname = \"family\"\n".into(),
            2,
            "spend.scope \"family\": name",
            &["\"family\" is no name of a scope", "not \"family\""],
        ),
        (
            beside("[[spend.scope]]\n\nname = \"user\""),
            5,
            "spend.scope \"user\": name",
            &["\"user\" is no name of a scope here", "names that differ"],
        ),
        (beside("shared = \"yes\""), 3, "spend.scope \"user\": shared", &["is \"yes\"", "true or false"]),
        (beside("share = true"), 3, "spend.scope 1: share", &["did you mean `shared`?"]),
        (beside("limit = { calls = 1 }"), 3, "spend.scope \"user\": limit", &["[[spend.scope.limit]]"]),
    ]);
}

#[test]
fn a_mistake_of_a_limit_is_told_at_its_key() {
    const LIMIT: &str = "spend.scope \"user\": limit 1";
    const COST: &str = "spend.scope \"user\": limit 1: cost";
    const WINDOW: &str = "spend.scope \"user\": limit 1: window";
    const ANCHOR: &str = "spend.scope \"user\": limit 1: anchor";
    const ZONE: &str = "spend.scope \"user\": limit 1: zone";
    let window = |rest: &str| limit(&format!("calls = 1\n{rest}"));
    all_refused([
        (limit(""), 3, LIMIT, &["has no amount", "exactly one of cost, tokens"] as &[_]),
        (limit("cost = 1\ncalls = 1"), 3, LIMIT, &["has both `cost` and `calls`", "exactly one of"]),
        (limit("token = 1"), 4, "spend.scope \"user\": limit 1: token", &["did you mean `tokens`?"]),
        (
            limit("tokens = -1"),
            4,
            "spend.scope \"user\": limit 1: tokens",
            &["is -1", "0 to 9007199254740992"],
        ),
        (limit("runs = \"3\""), 4, "spend.scope \"user\": limit 1: runs", &["is \"3\"", "a whole number"]),
        (limit("seconds = 1.5"), 4, "spend.scope \"user\": limit 1: seconds", &["is 1.5", "a whole number"]),
        (limit("cost = 3.50"), 4, COST, &["cost is 3.50", "as text, cost = \"3.50\"", "a binary fraction"]),
        (limit("cost = inf"), 4, COST, &["cost is inf", "as text, cost = \"0.50\""]),
        (limit("cost = -3"), 4, COST, &["cost is -3", "an amount of USD as text", "0 to 9007199254740992"]),
        (limit("cost = true"), 4, COST, &["cost is true", "whole number of units"]),
        (
            limit("cost = \"3,50\""),
            4,
            COST,
            &["\"3,50\" is no amount of money", "digits and at most one point"],
        ),
        (limit("cost = \"-3\""), 4, COST, &["\"-3\" is no amount of money"]),
        (
            limit("cost = \"0.0000001\""),
            4,
            COST,
            &["is finer than what is counted", "at most 6 decimal places"],
        ),
        (limit("cost = \"99999999999999\""), 4, COST, &["is more than can be counted"]),
        (limit("cost = \"9007199254.740993\""), 4, COST, &["the limit user/cost/lifetime is above 2^53"]),
        (limit("cost = 9007199254740993"), 4, COST, &["is 9007199254740993", "0 to 9007199254740992"]),
        (
            limit("calls = 1\n[[spend.scope.limit]]\ncalls = 2\nwindow = \"lifetime\""),
            5,
            "spend.scope \"user\": limit 2",
            &["the limit user/calls/lifetime is there a second time", "one limit of a dimension in a window"],
        ),
        (
            limit("runs = 1\nwindow = \"rolling 1h\""),
            5,
            WINDOW,
            &["counts what is under way at once", "runs without a window"],
        ),
        (window("window = \"roling 1h\""), 5, WINDOW, &["\"roling 1h\" is no window", "\"rolling 1h\""]),
        (window("window = 3600"), 5, WINDOW, &["is 3600", "\"lifetime\""]),
        (
            window("window = \"rolling 1s\""),
            5,
            WINDOW,
            &["1000 ms is no length of a rolling window", "1m to"],
        ),
        (window("window = \"rolling 1h1m1ms\""), 5, WINDOW, &["steps of 60 ms"]),
        (window("window = \"rolling\""), 5, WINDOW, &["\"rolling\" is no window"]),
        (window("window = \"fixed 1d\""), 3, ANCHOR, &["is missing", "2026-01-01T00:00:00Z"]),
        (
            window("window = \"fixed 1d\"\nanchor = 2026-01-01T00:00:00Z"),
            6,
            ANCHOR,
            &["is 2026-01-01T00:00:00Z", "as text"],
        ),
        (window("window = \"fixed 1d\"\nanchor = \"1969-01-01T00:00:00Z\""), 6, ANCHOR, &["from 1970 on"]),
        (
            window("anchor = \"2026-01-01T00:00:00Z\"\nwindow = \"fixed 1ms\""),
            6,
            WINDOW,
            &["1 ms is no length of a fixed window", "1s to"],
        ),
        (
            window("anchor = \"2026-01-01T00:00:00Z\"\nwindow = \"fixed day\""),
            6,
            WINDOW,
            &["\"fixed day\" is no window"],
        ),
        (window("window = \"fixed 1d from noon\""), 5, WINDOW, &["\"fixed 1d from noon\" is no window"]),
        (
            window("window = \"fixed 1d from 2026-01-01T00:00:00Z\"\nanchor = \"2026-01-01T00:00:00Z\""),
            6,
            ANCHOR,
            &["means nothing beside the window \"fixed 1d from"],
        ),
        (
            window("window = \"rolling 1h\"\nanchor = \"2026-01-01T00:00:00Z\""),
            6,
            ANCHOR,
            &["means nothing beside the window \"rolling 1h\"", "beside window = \"fixed 1d\""],
        ),
        (window("zone = \"UTC\""), 5, ZONE, &["means nothing beside the window \"lifetime\""]),
        (
            window("window = \"fixed 1d\"\nanchor = \"2026-01-01T00:00:00Z\"\nzone = \"UTC\""),
            7,
            ZONE,
            &["means nothing", "beside window = \"calendar day\""],
        ),
        (
            window("window = \"calendar day\"\nzone = \"UTC\"\nanchor = \"2026-01-01T00:00:00Z\""),
            7,
            ANCHOR,
            &["means nothing"],
        ),
        (window("window = \"calendar month in UTC\"\nzone = \"UTC\""), 6, ZONE, &["means nothing"]),
        (window("window = \"calendar day\""), 3, ZONE, &["is missing", "\"Europe/Berlin\""]),
        (
            window("window = \"calendar day\"\nzone = \"Mars\""),
            6,
            ZONE,
            &["\"Mars\" is not a known time zone"],
        ),
        (window("window = \"calendar day\"\nzone = 1"), 6, ZONE, &["is 1", "IANA"]),
        (
            window("window = \"calendar year\"\nzone = \"UTC\""),
            5,
            WINDOW,
            &["\"calendar year\" is no window"],
        ),
        (window("window = \"calendar day in Mars\""), 5, WINDOW, &["\"Mars\" is not a known time zone"]),
    ]);
}

#[test]
fn a_mistake_of_tiers_or_of_the_reduced_profile_is_told_at_its_key() {
    const REDUCED: &str = "spend.tiers.reduced";
    let tiers = |rest: &str| beside(&format!("[spend.tiers]\n{rest}"));
    let profile = |rest: &str| beside(&format!("[spend.reduced]\n{rest}"));
    all_refused([
        (tiers("reduce = 0.7"), 4, "spend.tiers.reduce", &["did you mean `reduced`?"] as &[_]),
        (tiers("reduced = 0"), 4, REDUCED, &["tiers at 0 and 1000000 millionths", "1 to 1000000"]),
        (tiers("reduced = 1.000001"), 4, REDUCED, &["tiers at 1000001", "reduced at or below blocked"]),
        (tiers("reduced = 0.8\nblocked = 0.75"), 4, REDUCED, &["tiers at 800000 and 750000"]),
        (tiers("blocked = 0.5"), 4, "spend.tiers.blocked", &["tiers at 700000 and 500000"]),
        (tiers("reduced = 0.5\nblocked = 1.1"), 5, "spend.tiers.blocked", &["tiers at 500000 and 1100000"]),
        (tiers("reduced = 0.7000001"), 4, REDUCED, &["is 0.7000001", "at most six decimal places"]),
        (tiers("reduced = 0.0000000"), 4, REDUCED, &["is 0.0000000", "at most six decimal places"]),
        (tiers("reduced = -0.5"), 4, REDUCED, &["is -0.5", "a decimal number"]),
        (tiers("reduced = 7e-1"), 4, REDUCED, &["is 7e-1", "a decimal number"]),
        (tiers("reduced = nan"), 4, REDUCED, &["is nan", "a decimal number"]),
        (tiers("reduced = 5000"), 4, REDUCED, &["is 5000", "a decimal number"]),
        (tiers("reduced = \"0.7\""), 4, REDUCED, &["is \"0.7\"", "a decimal number"]),
        (tiers("dimensions = \"cost\""), 4, "spend.tiers.dimensions", &["is \"cost\"", "a list of cost"]),
        (
            tiers("dimensions = [\n\"cost\",\n\"money\"]"),
            6,
            "spend.tiers.dimensions",
            &["is \"money\"", "a list"],
        ),
        (
            tiers("dimensions = [\"cost\", \"cost\"]"),
            4,
            "spend.tiers.dimensions",
            &["is \"cost\"", "each once"],
        ),
        (beside("[[spend.tiers]]"), 3, "spend.tiers", &["a table headed [spend.tiers]"]),
        (profile("steps = 5"), 4, "spend.reduced.steps", &["unknown key", "max_steps"]),
        (profile("max_steps = \"5\""), 4, "spend.reduced.max_steps", &["is \"5\"", "a whole number"]),
        (profile("subagents = 0"), 4, "spend.reduced.subagents", &["is 0", "true or false"]),
        (profile("model = 4"), 4, "spend.reduced.model", &["is 4", "the name of a model"]),
        (profile("banner = [\"x\"]"), 4, "spend.reduced.banner", &["{reset}"]),
        (
            "[spend]\nreduced = 0.7\n".into(),
            2,
            "spend.reduced",
            &["is 0.7", "a table headed [spend.reduced]"],
        ),
    ]);
}

#[test]
fn a_mistake_of_a_family_or_a_grant_is_told_at_its_key() {
    const ROOT: &str = "[[spend.family]]\nroot = \"r\"\n";
    const FAMILY: &str = "spend.family \"r\"";
    let family = |rest: &str| beside(&format!("{ROOT}{rest}"));
    let grant = |rest: &str| beside(&format!("{ROOT}cost = 10\nceiling = 5\n{rest}"));
    all_refused([
        (
            beside("[[spend.family]]\ncalls = 1"),
            3,
            "spend.family 1: root",
            &["is missing", "the root grant"] as &[_],
        ),
        (family("call = 1"), 5, "spend.family 1: call", &["did you mean `calls`?"]),
        (family(""), 3, FAMILY, &["the family of \"r\" has no cap", "a total of money, of calls, or both"]),
        (family("cost = \"1\""), 5, "spend.family \"r\": cost", &["nothing could be held", "a ceiling"]),
        (family("cost = 1.0"), 5, "spend.family \"r\": cost", &["is 1.0", "cost = \"1.0\""]),
        (family("cost = 5\nceiling = 6"), 6, "spend.family \"r\": ceiling", &["a ceiling above its total"]),
        (family("calls = \"x\""), 5, "spend.family \"r\": calls", &["is \"x\"", "a whole number"]),
        (
            family("calls = 1\nceiling = \"9999999999\""),
            6,
            "spend.family \"r\": ceiling",
            &["has an amount above 2^53"],
        ),
        (
            family(&format!("calls = 1\n{ROOT}calls = 2")),
            7,
            "spend.family \"r\": root",
            &["is there a second time", "one family of each root"],
        ),
        (
            grant("[[spend.grant]]\nparent = \"r\""),
            7,
            "spend.grant 1: id",
            &["is missing", "the id of a grant"],
        ),
        (grant("[[spend.grant]]\nid = \"a\""), 7, "spend.grant \"a\": parent", &["is missing"]),
        (
            grant("[[spend.grant]]\nid = \"a\"\nparent = \"q\""),
            9,
            "spend.grant \"a\": parent",
            &["has a parent that there is not, \"q\"", "the root of a family"],
        ),
        (
            grant("[[spend.grant]]\nid = \"r\"\nparent = \"r\""),
            8,
            "spend.grant \"r\": id",
            &["is there a second time", "an id of its own"],
        ),
        (
            grant("[[spend.grant]]\nid = \"a\"\nparent = \"b\"\n[[spend.grant]]\nid = \"b\"\nparent = \"a\""),
            9,
            "spend.grant \"a\": parent",
            &["is its own ancestor"],
        ),
        (
            grant("[[spend.grant]]\nid = \"a\"\nparent = \"r\"\nceiling = 6"),
            10,
            "spend.grant \"a\": ceiling",
            &["has a ceiling of 6", "at most the 5 of \"r\""],
        ),
        (
            grant("[[spend.grant]]\nid = \"a\"\nparnt = \"r\""),
            9,
            "spend.grant 1: parnt",
            &["did you mean `parent`?"],
        ),
        (beside("[spend.grant]\nid = \"a\""), 3, "spend.grant", &["tables headed [[spend.grant]]"]),
    ]);
}

#[test]
fn what_the_policy_itself_refuses_is_there_as_a_value() {
    let found = |text: &str| refused(text).found;
    assert_eq!(found("[spend]\n"), Found::Spend(Box::new(SpendPolicyError::NoScope)));
    assert_eq!(found(&setting("ttl = \"0s\"")), Found::Spend(Box::new(SpendPolicyError::Zero("ttl"))));
    assert_eq!(found(&limit("cost = \"x\"")), Found::Money(MoneyError::NotANumber("x".into())));
    let zone = limit("calls = 1\nwindow = \"calendar day\"\nzone = \"Mars\"");
    assert_eq!(found(&zone), Found::Window(Box::new(WindowError::Zone("Mars".into()))));
    let source = |text: &str| std::error::Error::source(&refused(text)).map(ToString::to_string);
    assert_eq!(source("[spend]\n"), Some(SpendPolicyError::NoScope.to_string()));
}

#[test]
fn a_part_is_told_by_the_line_of_its_own_table() {
    let text = "[[spend.scope]]\nname = \"a\"\n\n[[spend.scope.limit]]\ncalls = 1\n\n[[spend.scope.limit]]\n\n\n[[spend.scope]]\nname = \"b\"\n";
    assert_eq!(refused(text).line, 7);
    let inline = "[spend]\nscope = [\n  { name = \"a\" },\n  { name = \"b\", limit = [\n    { calls = 1 },\n    { calls = 1 },\n  ] },\n]\n";
    let error = refused(inline);
    assert_eq!((error.line, error.place.as_str()), (6, "spend.scope \"b\": limit 2"));
    let late = "\n\n[[spend.family]]\nroot = \"r\"\ncalls = 1\n";
    assert_eq!(refused(late).line, 3, "a table of that name begins with its first part");
}
