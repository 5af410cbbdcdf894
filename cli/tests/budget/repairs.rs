//! Settling and releasing by hand.

use super::*;

#[test]
fn a_hold_that_is_settled_by_hand_is_in_the_books_and_its_note_in_the_ledger() {
    let case = Case::new();
    drop(case.usual());
    let rows = balances(&case.db());
    let told = case.ok(&["settle", "step-2", "--cost", "0.05", "--tokens", "1500", "--note", NOTE]);
    let expected = "\
settled step-2 (generation 1) of run=r-1 user=ann global family=root: used 0.06 USD, 1,500 tokens, given back 2,500 tokens, \
1 runs, beyond the hold 0.02 USD
note: ann: billed, the worker was killed
";
    assert_eq!(told, expected);
    assert_eq!(balances(&case.db()), rows + 1, "nothing but the settlement was written");
    assert_eq!(row(&case.json(&["status"]), "user", "cost")["spent"], 91_500);
    assert_eq!(row(&case.json(&["status"]), "user", "cost")["held"], 0);
    let notes = SqliteReader::open(case.db()).unwrap().notes().unwrap();
    assert_eq!((notes.len(), notes[0].1.note.as_str()), (1, NOTE));
    let audit = case.ok(&["audit"]);
    assert!(
        audit.contains(", 1 repairs by hand\n\nrepairs by hand\n") && audit.ends_with(&format!("  {NOTE}\n")),
        "{audit}"
    );
    let repair = &case.json(&["audit"])["repairs"][0];
    assert_eq!(
        (&repair["done"], &repair["id"], &repair["note"]),
        (&json!("settled"), &json!("step-2"), &json!(NOTE))
    );
    assert_eq!((&repair["used"]["cost"], &repair["released"]["tokens"]), (&json!(60_000), &json!(2_500)));
    assert_eq!(repair["at"], "2100-06-01T12:10:00Z");
}

#[test]
fn a_repair_as_json_is_one_object() {
    let case = Case::new();
    drop(case.usual());
    let args =
        ["settle", "step-2", "--cost", "0", "--calls", "0", "--seconds", "7", "--runs", "1", "--note", NOTE];
    let told = case.json(&[&args[..], &["--generation", "1", "--currency", "USD"]].concat());
    let expected = json!({
        "db": "budgets.db", "done": "settled", "id": "step-2", "generation": 1, "late": false, "note": NOTE,
        "accounts": [
            { "scope": "run", "key": "r-1" }, { "scope": "user", "key": "ann" }, { "scope": "global", "key": "" },
            { "scope": "family", "key": "root" },
        ],
        "stated": { "cost": 0, "tokens": 0, "calls": 0, "seconds": 7, "runs": 1 },
        "used": { "cost": 10_000, "tokens": 0, "calls": 0, "seconds": 7, "runs": 0 },
        "released": { "cost": 30_000, "tokens": 4_000, "calls": 0, "seconds": 0, "runs": 1 },
        "overrun": { "cost": 0, "tokens": 0, "calls": 0, "seconds": 7, "runs": 0 },
        "at": "2100-06-01T12:10:00Z", "at_ms": start() + 10 * MINUTE, "currency": "USD", "decimals": 6,
    });
    assert_eq!(told, expected);
    balances(&case.db());
}

#[test]
fn a_hold_that_is_released_by_hand_keeps_what_it_was_charged() {
    let case = Case::new();
    drop(case.usual());
    let told = case.ok(&["release", "step-2", "--note", NOTE]);
    assert!(told.contains("used 0.01 USD, given back 0.03 USD, 4,000 tokens, 1 runs\n"), "{told}");
    let user = case.json(&["status", "--scope", "user"]);
    assert_eq!((&user["limits"][0]["spent"], &user["limits"][0]["held"]), (&json!(41_500), &json!(0)));
    assert_eq!(case.json(&["holds"])["holds"], json!([]));
    let audit = case.json(&["audit"]);
    assert_eq!(
        (&audit["repairs"][0]["done"], &audit["repairs"][0]["note"]),
        (&json!("released"), &json!(NOTE))
    );
    balances(&case.db());
}

#[test]
fn a_hold_whose_time_is_over_is_settled_late_at_the_first_attempt() {
    let case = Case::new();
    drop(case.usual());
    case.pass(60 * MINUTE);
    let told = case.ok(&["settle", "step-2", "--cost", "0.01", "--note", NOTE]);
    assert!(told.contains("; its time was over\n"), "{told}");
    assert_eq!(row(&case.json(&["status"]), "global", "cost")["spent"], 51_500);
    balances(&case.db());
    case.run(&["settle", "step-2", "--cost", "0.01", "--note", NOTE])
        .fails(2, "was settled at 2100-06-01T13:10:00Z");
}

#[test]
fn a_repair_that_cannot_be_changes_nothing() {
    let case = Case::new();
    drop(case.usual());
    let rows = balances(&case.db());
    let settle = |args: &[&str]| case.run(&[&["settle"], args, &["--note", NOTE]].concat());
    let cases: [(&[&str], &str); 17] = [
        (&["nobody", "--cost", "1"], "no hold \"nobody\" is known"),
        (&["a\u{1b}[2J", "--cost", "1"], "no hold \"a\\u{1b}[2J\" is known"),
        (
            &["step-1", "--cost", "0.0315"],
            "the hold \"step-1\" of generation 0 was settled at 2100-06-01T12:00:00Z",
        ),
        (&["step-2", "--cost", "1", "--generation", "7"], "is of generation 1: the id has passed to another"),
        (&["step-2", "--cost", "1", "--currency", "EUR"], "the cost is in EUR and the budget in USD"),
        (&["step-2", "--cost", "one"], "--cost: \"one\" is no amount of money"),
        (&["step-2", "--cost", ""], "--cost: \"\" is no amount of money"),
        (&["step-2", "--cost", "-1"], "--cost: \"-1\" is no amount of money"),
        (&["step-2", "--cost", "0.0000001"], "at most 6 decimal places"),
        (&["step-2", "--cost", "99999999999999999999"], "more than can be counted"),
        (&["step-2", "--cost", "18446744073709.551615"], "cost is 18446744073709551615, accepted: 0 to"),
        (&["step-2", "--cost", "9007199254.740993"], "cost is 9007199254740993, accepted: 0 to"),
        (&["step-2", "--cost", "1", "--tokens", "-4"], "tokens is -4, accepted"),
        (&["step-2", "--cost", "1", "--calls", "9007199254740993"], "calls is 9007199254740993, accepted"),
        (&["step-2", "--cost", "1", "--seconds", "1.5"], "invalid value '1.5' for '--seconds <N>'"),
        (&["step-2"], "--cost <AMOUNT>"),
        (&["--cost", "1"], "<ID>"),
    ];
    for (args, part) in cases {
        settle(args).fails(2, part);
    }
    case.run(&["settle", "step-2", "--cost", "1"]).fails(2, "--note <TEXT>");
    case.run(&["settle", "step-2", "--cost", "1", "--note", " \t"]).fails(2, "--note is empty");
    case.run(&["release", "step-2"]).fails(2, "--note <TEXT>");
    case.run(&["release", "step-1", "--note", NOTE]).fails(2, "was settled at");
    assert_eq!(balances(&case.db()), rows);
}

#[test]
fn a_hold_is_repaired_once() {
    let case = Case::new();
    drop(case.usual());
    case.ok(&["release", "step-2", "--note", NOTE]);
    let rows = balances(&case.db());
    case.run(&["release", "step-2", "--note", NOTE])
        .fails(2, "the hold \"step-2\" of generation 1 was released at");
    case.run(&["settle", "step-2", "--cost", "1", "--note", NOTE]).fails(2, "was released at");
    assert_eq!(balances(&case.db()), rows);
}

#[test]
fn a_call_that_was_refused_has_nothing_to_repair() {
    let case = Case::new();
    let spend = case.usual();
    let call = Call::new().scope("run", "r-1").scope("user", "ann").id("step-9");
    spend.hold(&call, &Amounts::new().tokens(1_000_000)).unwrap_err();
    drop(spend);
    case.run(&["release", "step-9", "--note", NOTE])
        .fails(2, "the hold \"step-9\" of generation 2 was refused at");
}
