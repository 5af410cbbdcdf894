//! `tollgate verify` accepts what a plain model of effects recorded, and refuses every forgery of it.

mod journal;

use journal::verdicts::*;
use journal::*;
use tollgate_cli::verify::verify;

#[test]
fn an_honest_journal_is_accepted_and_counted() {
    let mut model = history();
    let forfeited = model.call(SEARCH, 3 * SECOND, "aa", 1).unwrap();
    model.forfeit(4 * SECOND, forfeited);
    model.call(SEARCH, 4 * SECOND, "cc", 4).unwrap();
    model.call(SEARCH, 4 * SECOND, "cc", 5); // impossible
    model.call(EMAIL, 8 * HOUR, "bb", 1); // outside the hours: shed
    model.call(EMAIL, 9 * HOUR, "bb", 3); // that, and exhausted: blocked
    let told = accepted(&model.journal);
    let counts = "accepted: 13 records, 5 grants (2 emitted, 1 refunded, 1 forfeited, 1 still held), 2 denied, 1 deferred, 1 shed; sealed with ";
    assert!(told.starts_with(counts), "{told}");
    let sealed = model.journal.sealed();
    assert!(sealed.trim_end().ends_with(&format!("{}\"}}", told.rsplit(' ').next().unwrap())), "{told}");
}

#[test]
fn a_deferred_call_is_granted_later_and_emitted_once() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    assert_eq!(model.call(SEARCH, 0, "aa", 1), None); // ticket 1
    assert_eq!(model.call_for(SEARCH, 1, "aa", 1, Some(1)), None);
    let grant = model.call_for(SEARCH, SECOND, "aa", 1, Some(1)).unwrap();
    model.refund(SECOND, grant);
    let grant = model.call_for(SEARCH, SECOND, "aa", 1, Some(1)).unwrap();
    model.emit(SECOND, grant);
    accepted(&model.journal);
    let again = model.call_for(SEARCH, 5 * SECOND, "aa", 1, Some(1)).unwrap();
    model.emit(5 * SECOND, again);
    refused(&model.journal, 10, "the call with ticket 1 was emitted before");
}

#[test]
fn a_ticket_names_one_call() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    model.call(SEARCH, 0, "aa", 1); // ticket 1
    model.call(SEARCH, 0, "aa", 2); // ticket 2
    accepted(&model.journal);
    refused(&model.journal.with("\"ticket\":2", "\"ticket\":1"), 4, "ticket 1 names a call of another");
    refused(&model.journal.with("\"ticket\":2,", ""), 4, "deferred without a ticket");
}

#[test]
fn a_full_bucket_can_be_forgotten_and_a_drained_one_cannot() {
    let mut model = model();
    let grant = model.call(SEARCH, 0, "aa", 2).unwrap();
    model.refund(0, grant);
    model.forget(SEARCH, 0, "aa");
    let held = model.call(SEARCH, 0, "aa", 1).unwrap();
    model.forget(SEARCH, 2 * MINUTE, "aa");
    model.call(SEARCH, 2 * MINUTE, "aa", 4).unwrap();
    model.refund(2 * MINUTE, held); // nothing is left of it
    accepted(&model.journal);

    // A second life while the first is not full: the mark of one draw is forgotten.
    let mut model = self::model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    let line = model.journal.bodies[1].replace("\"grant\":0", "\"grant\":1").replace("\"t\":0", "\"t\":1");
    let forged = line.replace("\"after\":[2000000000,0]", "\"after\":[2000000001,0]");
    refused(
        &model.journal.inserted(2, forged),
        3,
        "was at [2000000000,0], not at [0,0]: the record overlaps",
    );
}

#[test]
fn buckets_that_begin_empty_refuse_until_they_refill() {
    let mut effects = effects();
    for quota in &mut effects[SEARCH].quotas {
        *quota = quota.clone().empty(0);
    }
    let mut model = Model::new(effects);
    assert_eq!(model.call(SEARCH, 0, "aa", 1), None);
    assert_eq!(model.call(SEARCH, SECOND, "aa", 1), None);
    model.call(SEARCH, MINUTE, "aa", 4).unwrap();
    assert!(accepted(&model.journal).contains("1 grants"));
    // The same call, as if the key had begun full.
    let mut full = self::model();
    full.call(SEARCH, 0, "aa", 1).unwrap();
    let forged = Journal { bodies: vec![model.journal.bodies[0].clone(), full.journal.bodies[1].clone()] };
    refused(&forged, 2, "begins at [0,0], where no bucket begins at 0");
}

#[test]
fn a_restored_bucket_goes_on_where_it_was() {
    let mut model = model();
    model.restore(SEARCH, 0, "aa", 0, 2_000_000_000);
    assert_eq!(model.call(SEARCH, 0, "aa", 1), None);
    model.call(SEARCH, SECOND, "aa", 1).unwrap();
    assert!(accepted(&model.journal).contains("1 buckets restored"));
    let at = "\"at\":[2000000000,0]";
    refused(&model.journal.with(at, "\"at\":[2000000001,0]"), 2, "is restored beyond empty");
    refused(
        &model.journal.with(at, "\"at\":[1000000000,0]"),
        4,
        "was at [1000000000,0], not at [2000000000,0]: the record leaves a gap",
    );
    // Restored again, after it was drawn on.
    let again = model.journal.bodies[1].replace("\"t\":0", "\"t\":1000000001");
    refused(&model.journal.inserted(4, again), 5, "is restored after it was at");
}

#[test]
fn records_of_one_instant_may_lie_in_another_order() {
    let mut model = model();
    let first = model.call(SEARCH, 5, "aa", 1).unwrap();
    let second = model.call(SEARCH, 5, "aa", 2).unwrap();
    model.call(SEARCH, 5, "aa", 4);
    model.refund(5, second);
    model.refund(5, first);
    model.call(SEARCH, 5, "aa", 3).unwrap();
    model.call(SEARCH, 5 + SECOND, "aa", 1).unwrap();
    accepted(&model.journal);
    for (a, b) in [(1, 2), (3, 1), (4, 5), (4, 6), (6, 7), (3, 7), (5, 7)] {
        accepted(&model.journal.swapped(a, b));
    }
}

#[test]
fn a_change_that_was_under_way_does_not_make_a_refusal_a_lie() {
    let mut model = model();
    let grant = model.call(SEARCH, 0, "aa", 4).unwrap();
    assert_eq!(model.call(SEARCH, 9, "aa", 1), None);
    // The refund read its clock before the refusal did, and was written into the bucket after it.
    model.refund(8, grant);
    accepted(&model.journal);
    // Two changes cannot have: the second looked at its clock after the first was there.
    let mut model = self::model();
    let grant = model.call(SEARCH, 0, "aa", 4).unwrap();
    assert_eq!(model.call(SEARCH, 9, "aa", 1), None);
    model.refund(7, grant);
    model.call(SEARCH, 8, "aa", 1).unwrap();
    refused(&model.journal, 3, "was not in the state [2000000000,0] at 9");
}

#[test]
fn drawing_above_what_was_released_is_refused() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    model.grant(SEARCH, 1, "aa", 1, None);
    refused(&model.journal, 3, "is drawn up to 2500000000, above what it has released, 2000000001");
}

#[test]
fn more_than_a_windows_limit_is_refused() {
    let mut model = model();
    model.call(EMAIL, 0, "aa", 2).unwrap();
    model.call(EMAIL, 0, "aa", 1).unwrap();
    accepted(&model.journal);
    model.grant(EMAIL, HOUR, "aa", 1, None);
    refused(&model.journal, 4, "above what it has released");
    // As if another window had begun.
    let forged = model.journal.with("\"before\":[3,0],\"after\":[4,0]", "\"before\":[0,0],\"after\":[1,0]");
    assert!(!verdict(&forged.sealed()).is_accepted());
}

#[test]
fn an_interval_is_given_once() {
    let journal = history().journal;
    // The second grant again, from where the first began.
    let forged = journal.line_with(
        2,
        "\"before\":[1000000000,0],\"after\":[2000000000,0]",
        "\"before\":[0,0],\"after\":[1000000000,0]",
    );
    refused(&forged, 3, "overlaps what was drawn before");
    let mut model = model();
    model.call(SEARCH, 0, "aa", 1).unwrap();
    model.call(SEARCH, 0, "aa", 1).unwrap();
    let gap = "\"before\":[500000000,0],\"after\":[1000000000,0]";
    let forged = model.journal.line_with(2, gap, "\"before\":[500000001,0],\"after\":[1000000001,0]");
    refused(&forged, 3, "leaves a gap");
    refused(
        &journal.line_with(2, "\"after\":[2000000000,0]", "\"after\":[1999999999,0]"),
        3,
        "ends at 1999999999, not at 2000000000",
    );
    refused(
        &journal.line_with(2, "\"after\":[2000000000,0]", "\"after\":[2000000000,1]"),
        3,
        "a grant changes what was refunded",
    );
}

#[test]
fn an_emission_needs_a_grant_of_its_own() {
    let journal = history().journal;
    let emit = &journal.bodies[5];
    refused(&journal.inserted(6, emit), 7, "grant 1 was emitted before");
    refused(
        &journal.inserted(6, emit.replace("\"grant\":1", "\"grant\":7")),
        7,
        "there is no grant 7 before it",
    );
    refused(
        &journal.inserted(6, emit.replace("\"grant\":1", "\"grant\":0")),
        7,
        "grant 0 was refunded before",
    );
    refused(
        &journal.line_with(5, "\"key\":\"aa\"", "\"key\":\"ab\""),
        6,
        "grant 1 was made to another effect or key",
    );
    refused(
        &journal.line_with(5, "\"effect\":\"Search\"", "\"effect\":\"Email\""),
        6,
        "grant 1 was made to another effect or key",
    );
    refused(
        &journal.line_with(5, "\"effect\":\"Search\"", "\"effect\":\"Fetch\""),
        6,
        "effect \"Fetch\" is not in the first line",
    );
    refused(&journal.swapped(2, 5), 3, "there is no grant 1 before it");
    let forfeit = emit.replace("emit", "forfeit");
    refused(&journal.inserted(6, forfeit.clone()), 7, "grant 1 was emitted before");
    refused(&journal.inserted(5, forfeit), 7, "grant 1 was forfeited before");
}

#[test]
fn an_emission_comes_within_the_permits_life_and_the_hours() {
    let journal = history().journal;
    let emit = "\"kind\":\"emit\",\"t\":500000000";
    accepted(&journal.with(emit, "\"kind\":\"emit\",\"t\":10000000000"));
    refused(&journal.with(emit, "\"kind\":\"emit\",\"t\":10000000001"), 6, "which is more than its ttl");
    let mut model = model();
    let late = model.call(EMAIL, 7 * HOUR - 1, "bb", 1).unwrap(); // the hours end at 7 h
    model.emit(7 * HOUR - 1, late);
    accepted(&model.journal);
    let emit = format!("\"kind\":\"emit\",\"t\":{}", 7 * HOUR - 1);
    refused(
        &model.journal.with(&emit, &format!("\"kind\":\"emit\",\"t\":{}", 7 * HOUR)),
        3,
        "outside the allowed hours",
    );
    let mut model = self::model();
    let grant = model.call(EMAIL, HOUR, "bb", 1).unwrap();
    model.emit(HOUR - 1, grant);
    refused(&model.journal, 3, "was made at 3600000000000, after it");
}

#[test]
fn a_refusal_that_was_none_is_refused() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 3).unwrap();
    let granted = model.clone();
    model.call(SEARCH, 0, "aa", 2);
    accepted(&model.journal);
    // The call would have fit.
    refused(&model.journal.line_with(2, "\"cost\":2", "\"cost\":1"), 3, "refused although the cost fits");
    // It would not have fit a state in which the bucket never was.
    let forged = model.journal.line_with(
        2,
        "\"at\":[1500000000,0],\"retry_at\":500000000",
        "\"at\":[2000000000,0],\"retry_at\":1000000000",
    );
    let forged =
        forged.line_with(2, "\"retry_at\":500000000,\"refused\"", "\"retry_at\":1000000000,\"refused\"");
    refused(&forged, 3, "was not in the state [2000000000,0] at 0");
    // It names a state in which the bucket was once, and is no more.
    let mut model = granted;
    let grant = model.call(SEARCH, 1, "aa", 1).unwrap();
    model.refund(2, grant);
    model.call(SEARCH, 3, "aa", 1).unwrap();
    assert_eq!(model.call(SEARCH, 4, "aa", 2), None);
    accepted(&model.journal);
    let stale = model.journal.line_with(5, "\"at\":[2000000000,500000000]", "\"at\":[2000000000,0]");
    assert!(!verdict(&stale.sealed()).is_accepted());
    // It names the state in which the bucket began, but a window later.
    let mut model = self::model();
    let later = model.call(EMAIL, 20 * HOUR, "aa", 3);
    assert_eq!(later, None); // outside the hours
    model.journal.bodies.pop();
    let name = "max 3 per 86400000000000ns from 21600000000000ns";
    let begun = format!("{{\"quota\":\"{name}\",\"before\":[3,0],\"after\":[4,0]}}");
    let t = 23 * HOUR;
    let grant = format!(
        "\"kind\":\"grant\",\"t\":{t},\"effect\":\"Email\",\"key\":\"aa\",\"grant\":0,\"cost\":1,\"draws\":[{begun}]"
    );
    let early = format!(
        "\"kind\":\"deny\",\"t\":0,\"effect\":\"Email\",\"key\":\"aa\",\"cost\":1,\"reason\":\"exhausted\",\"retry_at\":{t},\"refused\":[{{\"quota\":\"{name}\",\"at\":[3,0],\"retry_at\":{}}}]",
        20 * HOUR
    );
    accepted(&model.journal.inserted(1, &grant));
    refused(&model.journal.inserted(1, grant).inserted(1, early), 2, "was not in the state [3,0] at 0");
    // The hours did not refuse.
    let hours = "\"kind\":\"shed\",\"t\":0,\"effect\":\"Email\",\"key\":\"aa\",\"cost\":1,\"reason\":\"hours\",\"retry_at\":0,\"refused\":[]";
    refused(&self::model().journal.inserted(1, hours), 2, "refused by hours that allow it");
}

#[test]
fn a_retry_is_told_to_the_nanosecond() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    model.call(SEARCH, 0, "aa", 1);
    let (right, early, late) = ("\"retry_at\":500000000", "\"retry_at\":499999999", "\"retry_at\":500000001");
    for wrong in [early, late] {
        let forged = model.journal.with(right, wrong);
        refused(&forged, 3, "retry_at is ");
        refused(&forged.with(right, wrong), 3, "the first instant at which the cost fits is 500000000");
    }
    let told = format!(",{right}}}]");
    refused(&model.journal.with(&told, "}]"), 3, "has no retry_at, the cost fits at 500000000");
    let of_the_record = format!("{right},\"refused\"");
    refused(&model.journal.with(&of_the_record, "\"refused\""), 3, "the kind is \"defer\"");
    // Outside the hours it is when they open, however early the quota allows it.
    let mut model = self::model();
    model.call(EMAIL, 8 * HOUR, "aa", 1);
    let right = format!("\"retry_at\":{}", 23 * HOUR);
    refused(&model.journal.with(&right, &format!("\"retry_at\":{}", 23 * HOUR - 1)), 2, "not 82800000000000");
}

#[test]
fn the_kind_of_a_refusal_is_the_strictest_answer() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    model.call(SEARCH, 0, "aa", 1);
    let ticket = "\"ticket\":1,";
    let shed = model.journal.with("\"kind\":\"defer\"", "\"kind\":\"shed\"").with(ticket, "");
    refused(&shed, 3, "the kind is \"shed\", the policy's answer is \"defer\"");
    // Nothing could keep it: then it is blocked.
    accepted(&model.journal.with("\"kind\":\"defer\"", "\"kind\":\"deny\"").with(ticket, ""));
    // Both quotas refuse: defer beats shed.
    let mut model = self::model();
    model.call(SEARCH, 0, "aa", 4).unwrap();
    model.call(SEARCH, 2 * SECOND, "aa", 4).unwrap();
    model.call(SEARCH, 2 * SECOND + 1, "aa", 3);
    let told = accepted(&model.journal);
    assert!(told.contains("1 deferred, 0 shed"), "{told}");
    // If it names only the lenient one, that is counted: another thread can have drawn between.
    let from = model.journal.bodies[3].find("{\"quota\":\"rate").unwrap();
    let to = model.journal.bodies[3].find("{\"quota\":\"max").unwrap();
    let rate = model.journal.bodies[3][from..to].to_owned();
    let lenient = model
        .journal
        .line_with(3, &rate, "")
        .with("\"kind\":\"defer\"", "\"kind\":\"shed\"")
        .with(ticket, "");
    let told = accepted(&lenient);
    assert!(told.contains("1 quotas without room not named"), "{told}");
    // The quotas and the hours refuse: block beats shed.
    let mut model = self::model();
    model.call(EMAIL, 0, "aa", 3).unwrap();
    model.call(EMAIL, 8 * HOUR, "aa", 1);
    accepted(&model.journal);
    refused(
        &model.journal.with("\"kind\":\"deny\"", "\"kind\":\"shed\""),
        3,
        "the kind is \"shed\", the policy's answer is \"deny\"",
    );
}

#[test]
fn what_is_impossible_is_above_a_capacity_and_blocked() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 5);
    model.call(SEARCH, 0, "aa", 11);
    accepted(&model.journal);
    refused(
        &model.journal.line_with(1, "\"cost\":5", "\"cost\":4"),
        2,
        "a cost of 4 is above the capacity of []",
    );
    refused(
        &model.journal.line_with(2, "\"cost\":11", "\"cost\":10"),
        3,
        "a cost of 10 is above the capacity of",
    );
    refused(
        &model.journal.line_with(1, "\"kind\":\"deny\"", "\"kind\":\"shed\""),
        2,
        "the policy's answer is \"deny\"",
    );
    refused(
        &model.journal.line_with(1, "\"reason\":\"impossible\"", "\"reason\":\"exhausted\""),
        2,
        "it is impossible",
    );
    let full = model.journal.line_with(2, "\"reason\":\"impossible\"", "\"reason\":\"table-full\"");
    refused(&full, 3, "quotas that refused, where none is asked");
    let bodies = &self::model().journal;
    let past = "\"kind\":\"deny\",\"t\":9,\"effect\":\"Search\",\"key\":\"aa\",\"cost\":1,\"reason\":\"past-horizon\",\"refused\":[]";
    refused(&bodies.inserted(1, past), 2, "past the horizon within five years");
    accepted(&bodies.inserted(1, past.replace("past-horizon", "table-full")));
    accepted(&bodies.inserted(1, past.replace("\"t\":9", "\"t\":157788000000000000")));
}

#[test]
fn a_refund_gives_back_what_time_has_not() {
    let journal = history().journal;
    // 2 were drawn, 1 was refilled since, so 1 comes back; of the window both do.
    assert!(
        journal.bodies[4].contains("\"before\":[2000000000,0],\"after\":[1500000000,500000000]"),
        "{}",
        journal.bodies[4]
    );
    let much = journal.line_with(4, "\"after\":[1500000000,500000000]", "\"after\":[1000000000,1000000000]");
    refused(&much, 5, "the refund is 500000000 units");
    let little = journal.line_with(4, "\"after\":[1500000000,500000000]", "\"after\":[1500000001,499999999]");
    refused(&little, 5, "the refund is 500000000 units");
    let uncounted = journal.line_with(4, "\"after\":[1500000000,500000000]", "\"after\":[1500000000,0]");
    refused(&uncounted, 5, "the refund is 500000000 units");
    refused(&journal.inserted(6, &journal.bodies[4]), 7, "grant 0 was refunded before");
    refused(&journal.line_with(4, "\"grant\":0", "\"grant\":1"), 5, "the refund is ");
    // Nothing at all, where there is something.
    let from = journal.bodies[4].find("\"draws\":").unwrap();
    let nothing = journal.line_with(4, &journal.bodies[4][from..], "\"draws\":[]");
    refused(&nothing, 5, "gets nothing back, although 500000000 units");
}

#[test]
fn a_second_refund_does_not_reach_below_the_first() {
    let mut effects = effects();
    effects.truncate(1);
    effects[SEARCH].quotas.truncate(1);
    let policy = POLICY.split("[[effect.quota]]").next().unwrap();
    let policy = tollgate::effect::EffectPolicy::from_toml(policy).unwrap();
    let mut model = Model::new(effects);
    let first = model.call(SEARCH, 0, "aa", 2).unwrap();
    let second = model.call(SEARCH, 0, "aa", 2).unwrap();
    model.refund(SECOND / 2, first); // 1 comes back
    model.call(SEARCH, 3 * SECOND / 2, "aa", 2).unwrap();
    model.refund(3 * SECOND / 2, second);
    // The line is at 3 tokens, and 1 was refunded: nothing is left of the draw that ended at 4.
    assert!(model.journal.bodies[5].ends_with("\"draws\":[]"), "{}", model.journal.bodies[5]);
    let honest = verify(model.journal.sealed().as_bytes(), &policy, false).unwrap();
    assert!(honest.is_accepted(), "{honest}");
    let (before, after) = ("[2500000000,500000000]", "[2000000000,1000000000]");
    let draw = format!(
        "\"draws\":[{{\"quota\":\"rate 2 per 1000000000ns burst 4\",\"before\":{before},\"after\":{after}}}]"
    );
    let forged = model.journal.line_with(5, "\"draws\":[]", &draw);
    let told = verify(forged.sealed().as_bytes(), &policy, false).unwrap().to_string();
    assert!(
        told.contains("line 6: quota \"rate 2 per 1000000000ns burst 4\": nothing is left to refund"),
        "{told}"
    );
}

#[test]
fn a_draw_of_an_earlier_life_of_its_bucket_is_not_refunded() {
    let mut model = model();
    let first = model.call(SEARCH, 0, "aa", 2).unwrap();
    let held = model.call(SEARCH, 0, "aa", 2).unwrap();
    model.refund(0, first);
    let third = model.call(SEARCH, 0, "aa", 2).unwrap();
    model.refund(0, third);
    // What others got back reaches over the held draw; at 1 s the bucket is full, is forgotten, and drawn on anew.
    model.forget(SEARCH, SECOND, "aa");
    model.call(SEARCH, SECOND, "aa", 2).unwrap();
    let mut honest = model.clone();
    honest.refund(SECOND, held);
    accepted(&honest.journal);
    // As if the new life had been the one that it drew on, in which nothing was refunded yet.
    let begun =
        "\"quota\":\"rate 2 per 1000000000ns burst 4\",\"before\":[500000000,0],\"after\":[2000000000,0]";
    assert!(model.journal.bodies[6].contains(begun), "{}", model.journal.bodies[6]);
    let draws = "\"draws\":[{\"quota\":\"rate 2 per 1000000000ns burst 4\",\"before\":[2000000000,0],\"after\":[1000000000,1000000000]}";
    let refund = honest.journal.bodies.last().unwrap();
    let forged = refund.replace("\"draws\":[", &format!("{draws},")).replace(",]", "]");
    refused(&model.journal.inserted(7, forged), 8, "in an earlier life of the bucket");
}

#[test]
fn a_life_of_a_bucket_begins_with_nothing_refunded() {
    let mut model = model();
    model.call(SEARCH, 0, "aa", 1).unwrap();
    let (before, after) =
        ("\"before\":[0,0],\"after\":[500000000,0]", "\"before\":[0,7],\"after\":[500000000,7]");
    refused(&model.journal.line_with(1, before, after), 2, "begins at [0,7], where no bucket begins at 0");
}

#[test]
fn a_call_is_retried_when_the_last_of_its_quotas_allows_it() {
    // The window ends first, then the rate has refilled.
    let mut model = model();
    let t = 59 * SECOND;
    for at in [0, 20 * SECOND, t] {
        model.call(SEARCH, at, "aa", if at == 0 { 2 } else { 4 }).unwrap();
    }
    assert_eq!(model.call(SEARCH, t, "aa", 4), None);
    let body = &model.journal.bodies[4];
    assert!(body.contains("\"retry_at\":61000000000,\"refused\""), "{body}");
    assert!(body.ends_with("\"retry_at\":60000000000}]"), "{body}");
    accepted(&model.journal);
    let record = "\"retry_at\":61000000000,\"refused\"";
    refused(
        &model.journal.with(record, "\"retry_at\":60000000000,\"refused\""),
        5,
        "retry_at is 60000000000, not 61000000000",
    );
    // Quotas in another order, and one that the effect does not have.
    let (list, refused_by) = body.split_once("\"refused\":").unwrap();
    let (rate, max) = refused_by.trim_matches(['[', ']']).split_once("},").unwrap();
    let mut forged = model.journal.clone();
    forged.bodies[4] = format!("{list}\"refused\":[{max},{rate}}}]");
    refused(&forged, 5, "refused, out of order or unknown");
    forged.bodies[4] = body.replace("\"quota\":\"max 10 per", "\"quota\":\"max 11 per");
    refused(&forged, 5, "refused, out of order or unknown");
}
