//! The lines of a journal, whatever they record: numbers, first line, order, chain and seal.

mod journal;

use journal::verdicts::*;
use journal::*;
use tollgate_cli::verify::verify;

#[test]
fn lines_are_numbered_from_0() {
    let journal = history().journal;
    let (mut text, mut last) = (String::new(), [0; 32]);
    for (seq, body) in journal.bodies.iter().enumerate() {
        last = push_line(&mut text, &last, if seq == 3 { 4 } else { seq }, body);
    }
    assert_eq!(verdict(&text).to_string(), "refused: line 4: seq is 4, not 3");
}

#[test]
fn the_first_line_says_what_the_policy_says() {
    let journal = history().journal;
    let cases = [
        ("\"format\":1", "\"format\":2", "format is 2"),
        ("\"units_per_step\":1,", "\"units_per_step\":2,", "are not its rate"),
        ("\"units_per_token\":500000000", "\"units_per_token\":250000000", "are not its rate"),
        ("\"units_per_token\":500000000", "\"units_per_token\":0", "are not its rate"),
        (
            "\"step\":1,\"phase\":0,\"units_per_step\":1,",
            "\"step\":10,\"phase\":0,\"units_per_step\":10,",
            "step is 10",
        ),
        ("\"capacity\":2000000000", "\"capacity\":2500000000", "which is not its burst"),
        ("\"step\":1,\"phase\":0", "\"step\":1,\"phase\":1", "phase is 1"),
        ("\"step\":60000000000", "\"step\":30000000000", "are not its windows"),
        ("\"phase\":14400000000000", "\"phase\":14400000000001", "the grid's is 14400000000000"),
        ("\"capacity\":10", "\"capacity\":11", "which is not its limit"),
        ("\"units_per_step\":10", "\"units_per_step\":11", "are not its windows"),
        ("\"floor\":0", "\"floor\":9000000000", "floor is 9000000000"),
        ("\"most_refunded\":140737488355327", "\"most_refunded\":140737488355326", "most_refunded is"),
        ("\"most_refunded\":140737488355327", "\"most_refunded\":4294967295", "most_refunded is"),
        ("\"ttl\":10000000000", "\"ttl\":20000000000", "the policy says 10000000000"),
        ("\"on_exhausted\":\"shed\"", "\"on_exhausted\":\"block\"", "the policy says shed"),
        ("mon,tue,wed,thu,fri,sat,sun shed", "mon,tue,wed,thu,fri,sat,sun block", "hours are"),
        ("\"hours\":\"09:00-17:00 UTC mon,tue,wed,thu,fri,sat,sun shed\",", "", "hours are always"),
        ("burst 4\",\"on", "burst 5\",\"on", "is not in the policy"),
        (
            "\"effect\":\"Email\",\"ttl\"",
            "\"effect\":\"Mail\",\"ttl\"",
            "effect \"Mail\" is not in the policy",
        ),
    ];
    for (part, new, told) in cases {
        refused(&journal.line_with(0, part, new), 1, told);
    }
    let body = &journal.bodies[0];
    let email = body.find(",{\"effect\":\"Email\"").unwrap();
    refused(&journal.line_with(0, &body[email..], "]"), 1, "effect \"Email\" of the policy is missing");
    let email = &body[email..body.len() - 1];
    refused(&journal.line_with(0, email, &email.repeat(2)), 1, "effect \"Email\" is there twice");
    let quota = body.find(",{\"quota\":\"max 10").unwrap();
    let quota = body[quota..body[quota..].find('}').unwrap() + quota + 1].to_owned();
    refused(
        &journal.line_with(0, &quota, ""),
        1,
        "quota \"max 10 per 60000000000ns from 0ns\" of the policy is missing",
    );
    refused(&journal.line_with(0, &quota, &quota.repeat(2)), 1, "is there twice");
    refused(&journal.line_with(0, "\"t\":0", "\"t\":1"), 2, "before the journal began");
}

#[test]
fn another_policy_is_not_this_journals() {
    let text = history().journal.sealed();
    for (part, new) in [
        ("burst = 4", "burst = 5"),
        ("10/min", "11/min"),
        ("\"10s\"", "\"11s\""),
        ("17:00", "18:00"),
        ("defer", "block"),
    ] {
        let policy = tollgate::effect::EffectPolicy::from_toml(&POLICY.replace(part, new)).unwrap();
        assert!(!verify(text.as_bytes(), &policy, false).unwrap().is_accepted(), "{part} {new}");
    }
    let more = format!("{POLICY}[[effect]]\ntool = \"Fetch\"\nrate = \"1/sec\"\n");
    let policy = tollgate::effect::EffectPolicy::from_toml(&more).unwrap();
    assert!(!verify(text.as_bytes(), &policy, false).unwrap().is_accepted());
}

#[test]
fn a_grants_number_is_its_own() {
    let journal = history().journal;
    refused(&journal.line_with(2, "\"grant\":1", "\"grant\":0"), 3, "grant 0 was made before");
    refused(&journal.line_with(2, "\"cost\":2", "\"cost\":0"), 3, "a grant of cost 0");
}

#[test]
fn a_grant_draws_on_every_quota_in_the_order_of_the_first_line() {
    let journal = history().journal;
    let body = &journal.bodies[1];
    let second = body.find(",{\"quota\":\"max").unwrap();
    let second = body[second..body.len() - 1].to_owned();
    refused(&journal.line_with(1, &second, ""), 2, "1 draws, the effect has 2 quotas");
    let first = body[body.find("{\"quota\":\"rate").unwrap()..body.find(&second).unwrap()].to_owned();
    let swapped = format!("{}{}{first}", &second[1..], ",");
    refused(&journal.line_with(1, &format!("{first}{second}"), &swapped), 2, "in the place of");
}

#[test]
fn records_may_not_be_moved_in_time() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    model.call(SEARCH, 2 * SECOND, "aa", 4).unwrap();
    accepted(&model.journal);
    accepted(&model.journal.swapped(1, 2)); // of several threads
    // The later one made to be the earlier.
    let forged = model.journal.line_with(2, &format!("\"t\":{}", 2 * SECOND), "\"t\":1");
    refused(&forged, 3, "is drawn up to");
    // The earlier one made to be the later: then it should not have left a drained bucket behind.
    let forged = model.journal.line_with(1, "\"t\":0", &format!("\"t\":{}", 2 * SECOND + 1));
    assert!(!verdict(&forged.sealed()).is_accepted());
}

#[test]
fn the_seal_ends_the_journal_and_counts_it() {
    let journal = history().journal;
    let sealed = journal.sealed();
    let more = sealed.clone() + "x\n";
    let told = verdict(&more).to_string();
    assert!(told.contains("something after the seal"), "{told}");
    let last: [u8; 32] = {
        let line = sealed.lines().last().unwrap();
        let hash = &line[line.len() - 66..line.len() - 2];
        let bytes: Vec<u8> =
            (0..32).map(|i| u8::from_str_radix(&hash[2 * i..2 * i + 2], 16).unwrap()).collect();
        bytes.try_into().unwrap()
    };
    let mut more = sealed.clone();
    push_line(&mut more, &last, journal.bodies.len() + 1, &journal.bodies[1]);
    assert!(verdict(&more).to_string().contains("something after the seal"));
    // A seal that counts one line too few, or names another line, is in the chain like any other.
    let count = journal.bodies.len();
    let line = sealed.lines().last().unwrap();
    let body = &line[line.find("\"kind\"").unwrap()..line.find(",\"hash\"").unwrap()];
    let wrong = journal
        .inserted(count, body.replace(&format!("\"count\":{count}"), &format!("\"count\":{}", count - 1)));
    let told = verdict(&wrong.open()).to_string();
    assert!(told.contains("the seal counts"), "{told}");
    let another = format!("\"kind\":\"seal\",\"count\":{count},\"last\":\"{}\"", "0".repeat(64));
    let told = verdict(&journal.inserted(count, another).open()).to_string();
    assert!(told.contains("the seal names another last line"), "{told}");
    let told = verdict(&journal.open()).to_string();
    assert!(told.contains("there is no seal"), "{told}");
}

#[test]
fn an_open_journal_may_end_in_a_torn_line() {
    let journal = history().journal;
    let open = |text: &str| verify(text.as_bytes(), &policy(), true).unwrap();
    let text = journal.open();
    assert!(open(&text).to_string().contains("; open, the last line's hash is "));
    let first = text.find('\n').unwrap() + 1;
    for cut in first..text.len() {
        let told = open(&text[..cut]);
        assert!(told.is_accepted(), "{told}");
        let torn = cut - (text[..cut].rfind('\n').unwrap() + 1);
        let part = format!("a torn line of {torn} bytes");
        assert_eq!(torn > 0, told.to_string().contains(&part), "{told}");
        assert!(!verdict(&text[..cut]).is_accepted());
    }
    assert!(!open("").is_accepted() && !open(&text[..first - 1]).is_accepted());
    assert!(open(&journal.sealed()).to_string().contains("; sealed with"));
    assert!(!open(&(journal.sealed() + "{")).is_accepted());
}

#[test]
fn any_byte_that_is_changed_shows() {
    let text = history().journal.sealed();
    for at in 0..text.len() {
        let old = text.as_bytes()[at];
        for new in
            [b'0', b'1', b'9', b' ', b'"', b'a', b'A', b'\n', old ^ 1, old ^ 0x20, old.wrapping_add(1), 0x80]
        {
            if new == old {
                continue;
            }
            let mut bytes = text.clone().into_bytes();
            bytes[at] = new;
            let told = verify(&bytes[..], &policy(), false).unwrap();
            assert!(!told.is_accepted(), "byte {at}, {old} to {new}: {told}");
        }
    }
}

#[test]
fn any_line_or_byte_that_is_cut_shows() {
    let text = history().journal.sealed();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for cut in 0..lines.len() {
        let rest: String =
            lines.iter().enumerate().filter(|(at, _)| *at != cut).map(|(_, line)| *line).collect();
        assert!(!verdict(&rest).is_accepted(), "line {cut}");
    }
    for cut in 0..text.len() {
        assert!(!verdict(&text[..cut]).is_accepted(), "cut at {cut}");
    }
    for garbage in ["\n", " ", "x", "{}\n", "\0"] {
        assert!(!verdict(&format!("{text}{garbage}")).is_accepted(), "{garbage:?}");
    }
    assert!(!verdict(&text.replace('\n', "\r\n")).is_accepted());
    assert!(!verdict(&format!("\u{feff}{text}")).is_accepted());
}

#[test]
fn a_line_that_never_ends_is_refused() {
    let told = verdict(&"x".repeat(2 << 20)).to_string();
    assert_eq!(told, "refused: line 1: longer than 1048576 bytes");
}
