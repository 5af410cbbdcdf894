use super::*;

fn parsed(text: &str) -> EffectPolicy {
    EffectPolicy::from_toml(text).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused_as(text: &str) -> String {
    match EffectPolicy::from_toml(text) {
        Ok(policy) => panic!("accepted: {policy:?}"),
        Err(error) => error.to_string(),
    }
}

fn search(rest: &str) -> String {
    format!("[[effect]]\ntool = \"Search\"\n{rest}\n")
}

fn definitions(text: &str) -> Vec<String> {
    let policy = parsed(text);
    policy.rules().iter().flat_map(|rule| rule.quotas().iter().map(QuotaRule::definition)).collect()
}

#[test]
fn everything_that_can_be_said_about_an_effect_is_read() {
    let policy = parsed(
        "[[effect]]\ntool = \"Search\"\nrate = { limit = 100, per = \"60s\", burst = 150 }\non_exhausted = \"defer\"\n\
         ttl = \"30s\"\nbucket_cap = 4096\n\
         hours = { from = \"09:00\", to = \"17:30\", zone = \"Europe/Berlin\", days = [\"mon\", \"fri\"], outside = \"shed\" }\n\
         [[effect]]\ntool = \"Email\"\nmax = { limit = 50, per = \"1d\", anchor = \"6h\" }\n\
         [[effect.quota]]\nrate = \"5/min\"\nburst = 10\non_exhausted = \"shed\"\n\
         [[effect.quota]]\nmax = \"9/week\"\n",
    );
    let hours = AllowedHours::new("09:00", "17:30", "Europe/Berlin").unwrap();
    let hours = hours.on([Day::Monday, Day::Friday]).outside(OnExhausted::Shed);
    let rate = QuotaRule::rate(100, Duration::from_secs(60)).burst(150).on_exhausted(OnExhausted::Defer);
    let day = Duration::from_secs(86_400);
    let expected = EffectPolicy::new()
        .effect(
            EffectRule::new("Search").quota(rate).ttl(Duration::from_secs(30)).bucket_cap(4096).hours(hours),
        )
        .effect(
            EffectRule::new("Email")
                .quota(QuotaRule::max(50, day).anchored_at(Duration::from_secs(6 * 3_600)))
                .quota(QuotaRule::rate(5, Duration::from_secs(60)).burst(10).on_exhausted(OnExhausted::Shed))
                .quota(QuotaRule::max(9, 7 * day)),
        );
    assert_eq!(policy, expected);
}

#[test]
fn a_period_is_a_word_or_a_duration() {
    for (period, nanos) in PERIODS {
        let text = search(&format!("rate = \"7/{period}\""));
        assert_eq!(definitions(&text), [format!("rate 7 per {nanos}ns burst 7")]);
    }
    let text = search("max = \"7 / 90s\"");
    assert_eq!(definitions(&text), ["max 7 per 90000000000ns from 0ns"]);
}

#[test]
fn what_becomes_of_a_refused_call_is_the_effects_unless_a_quota_says_its_own() {
    let text = search(
        "max = \"9/day\"\non_exhausted = \"defer\"\n[[effect.quota]]\nrate = \"1/sec\"\n\
         [[effect.quota]]\nrate = \"2/sec\"\non_exhausted = \"block\"",
    );
    let policy = parsed(&text);
    let answers: Vec<_> = policy.rules()[0].quotas().iter().map(QuotaRule::when_exhausted).collect();
    assert_eq!(answers, [OnExhausted::Defer, OnExhausted::Defer, OnExhausted::Block]);
}

#[test]
fn an_effect_may_have_all_its_quotas_in_tables_of_their_own() {
    assert_eq!(definitions(&search("[[effect.quota]]\nmax = \"9/day\"")).len(), 1);
}

#[test]
fn other_keys_are_accepted_only_where_the_caller_reads_them() {
    let text = "x = 1\n[y]\nz = 2\n";
    assert!(EffectPolicy::from_toml_beside(text, &["x", "y"]).unwrap().rules().is_empty());
    let error = EffectPolicy::from_toml_beside(text, &["x"]).unwrap_err();
    assert_eq!((error.line, error.found), (2, Found::UnknownKey { meant: None }));
    assert!(EffectPolicy::from_toml(text).is_err());
}

#[test]
fn a_mistake_says_where_it_is_what_was_found_and_what_is_accepted() {
    let rate = "rate = \"1/sec\"\n";
    let cases = [
        (
            search("rate = \"0/min\""),
            "line 3: effect \"Search\": rate is \"0/min\", accepted: a limit that is a whole number, 1 to ",
        ),
        (search("rate = \"-5/min\""), "rate is \"-5/min\", accepted: a limit"),
        (search("rate = \"+5/min\""), "accepted: a limit"),
        (search("rate = \"1.5/min\""), "accepted: a limit"),
        (search("max = \"/day\""), "max is \"/day\", accepted: a limit"),
        (search("rate = \"100\""), "rate is \"100\", accepted: a limit and a period"),
        (search("rate = 100"), "rate is 100, accepted: a limit and a period"),
        (search("rate = \"100/fortnight\""), "accepted: a period after the slash: sec, second, min"),
        (search("rate = \"100/0s\""), "accepted: a period after the slash"),
        (search("rate = { limit = 0, per = \"1s\" }"), "rate.limit is 0, accepted: a whole number, 1 to"),
        (search("rate = { limit = -1, per = \"1s\" }"), "rate.limit is -1, accepted"),
        (search("rate = { limit = 1.5, per = \"1s\" }"), "rate.limit is 1.5, accepted"),
        (search("rate = { limit = 1 }"), "rate.per is missing"),
        (search("rate = { per = \"1s\" }"), "rate.limit is missing"),
        (
            search("rate = { limit = 1, per = \"0s\" }"),
            "rate.per is \"0s\", accepted: a duration of at least 1ns",
        ),
        (
            search("rate = { limit = 1, per = \"1s\", anchor = \"0s\" }"),
            "unknown key `effect \"Search\": rate.anchor`: ",
        ),
        (
            search("max = { limit = 1, per = \"1s\", burst = 2 }"),
            "unknown key `effect \"Search\": max.burst`: ",
        ),
        (search("max = \"1/day\"\nburst = 2"), "effect \"Search\" has a `burst` beside a `max`, accepted"),
        (search("burst = 2"), "has a `burst` without a `rate`"),
        (search("rate = { limit = 1, per = \"1s\", burst = 2 }\nburst = 2"), "has two `burst`s"),
        (search("rate = \"1/sec\"\nburst = 0"), "burst is 0, accepted: a whole number, 1 to"),
        (search("rate = \"18446744073709551615/sec\""), "line 3: effect \"Search\": rate: "),
        (
            search(&format!("{rate}max = \"1/sec\"")),
            "line 1: effect \"Search\" has both `rate` and `max`, accepted: one of",
        ),
        (search(""), "effect \"Search\" has no quota, accepted: one of"),
        (
            search("[[effect.quota]]\non_exhausted = \"shed\""),
            "effect \"Search\": quota 1 has neither `rate` nor `max`",
        ),
        (
            search(&format!("{rate}[[effect.quota]]\n{rate}max = \"1/sec\"")),
            "effect \"Search\": quota 1 has both",
        ),
        (
            search(&format!("{rate}[[effect.quota]]\n{rate}on_exhausted = \"shed\"")),
            "line 4: effect \"Search\": quota 1 has the quota \"rate 1 per 1000000000ns burst 1\" a second time",
        ),
        (
            search(&format!("{rate}on_exhausted = \"drop\"")),
            "line 4: effect \"Search\": on_exhausted is \"drop\", accepted: \"block\", \"defer\" or \"shed\"",
        ),
        (search(&format!("{rate}on_exhausted = 1")), "on_exhausted is 1, accepted"),
        (search(&format!("{rate}ttl = \"0s\"")), "ttl is \"0s\", accepted: a duration of at least 1ns"),
        (search(&format!("{rate}ttl = 30")), "ttl is 30, accepted: a whole number and a unit"),
        (
            search(&format!("{rate}bucket_cap = 0")),
            "bucket_cap is 0, accepted: a whole number, 1 to 16777216",
        ),
        (
            search(&format!("{rate}on_exhuasted = \"shed\"")),
            "unknown key `effect \"Search\": on_exhuasted`: did you mean `on_exhausted`?",
        ),
        (
            search(&format!("{rate}[[effect.quota]]\nrate = \"2/sec\"\nttl = \"1s\"")),
            "unknown key `effect \"Search\": quota 1: ttl`",
        ),
        ("[[effect]]\nrate = \"1/sec\"".into(), "line 1: effect 1: tool is missing"),
        (
            "[[effect]]\ntool = \"\"\nrate = \"1/sec\"".into(),
            "line 2: effect 1: tool is \"\", accepted: the name of a tool",
        ),
        ("[effect]\ntool = \"x\"".into(), "effect is "),
        (
            search(rate) + &search(rate),
            "line 6: effect \"Search\": tool is \"Search\", accepted: a tool that has no rules yet (line 2 has this one)",
        ),
        ("effects = 1".into(), "line 1: unknown key `effects`: did you mean `effect`?"),
        ("[[effect]\n".into(), "line 1: not valid TOML: "),
    ];
    for (text, part) in cases {
        let told = refused_as(&text);
        assert!(told.contains(part), "{text}\n{told}\nlacks {part}");
    }
}

#[test]
fn hours_that_cannot_be_are_told_by_what_is_wrong_with_them() {
    let hours = |rest: &str| search(&format!("rate = \"1/sec\"\nhours = {{ {rest} }}"));
    let good = "from = \"09:00\", to = \"17:30\", zone = \"UTC\"";
    let cases = [
        (
            hours("from = \"9\", to = \"17:30\", zone = \"UTC\""),
            "effect \"Search\": hours.from: \"9\" is not a time of day",
        ),
        (
            hours("from = \"09:00\", to = \"24:00\", zone = \"UTC\""),
            "hours.to: \"24:00\" is not a time of day",
        ),
        (
            hours("from = \"09:00\", to = \"17:30\", zone = \"Mars\""),
            "hours.zone: \"Mars\" is not a known time zone",
        ),
        (hours(&format!("{good}, days = [\"monday\"]")), "hours.days: \"monday\" is not a day"),
        (hours(&format!("{good}, days = []")), "hours.days: no day is allowed"),
        (hours(&format!("{good}, outside = \"drop\"")), "hours.outside is \"drop\", accepted"),
        (hours(&format!("{good}, day = [\"mon\"]")), "did you mean `days`?"),
        (hours("from = \"09:00\", to = \"17:30\""), "hours.zone is missing"),
    ];
    for (text, part) in cases {
        let told = refused_as(&text);
        assert!(told.starts_with("line 4: ") && told.contains(part), "{text}\n{told}\nlacks {part}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*", value in "[0-9a-z/ .{}=\",-]*") {
        let _ = EffectPolicy::from_toml(&text);
        let _ = EffectPolicy::from_toml(&search(&format!("rate = {value}\nmax = \"{value}\"")));
        let _ = EffectPolicy::from_toml(&search(&format!("rate = \"{}\"", value.replace('"', ""))));
    }
}
