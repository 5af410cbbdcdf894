//! Open holds.

use super::*;

#[test]
fn holds_are_told_oldest_first_with_their_time_and_what_is_overdue() {
    let case = Case::new();
    let spend = case.usual();
    assert!(case.ok(&["holds"]).contains("in 30 min"));
    case.clock.advance(29 * MINUTE);
    let call = Call::new().scope("run", "r-2").scope("user", "").id("step-3");
    spend.hold(&call, &Amounts::new().calls(1_500)).unwrap().detach();
    drop(spend);
    case.pass(4 * MINUTE);
    let expected = "\
budgets.db at 2100-06-01T12:43:00Z

  id      generation  accounts                             held                            charged      age  expires
  step-2           1  run=r-1 user=ann global family=root  0.03 USD, 4,000 tokens, 1 runs  0.01 USD  33 min  overdue by 3 min
  step-3           2  run=r-2 user= global                 1,500 calls                     nothing    4 min  in 26 min
";
    assert_eq!(case.ok(&["holds"]), expected);
    let told = case.json(&["holds"]);
    let expected = json!({
        "id": "step-2", "generation": 1, "overdue": true,
        "accounts": [
            { "scope": "run", "key": "r-1" }, { "scope": "user", "key": "ann" }, { "scope": "global", "key": "" },
            { "scope": "family", "key": "root" },
        ],
        "held": { "cost": 30_000, "tokens": 4_000, "calls": 0, "seconds": 0, "runs": 1 },
        "charged": { "cost": 10_000, "tokens": 0, "calls": 0, "seconds": 0, "runs": 0 },
        "opened_at": "2100-06-01T12:10:00Z", "opened_at_ms": start() + 10 * MINUTE, "age_ms": 33 * MINUTE,
        "expires_at": "2100-06-01T12:40:00Z", "expires_at_ms": start() + 40 * MINUTE, "expires_in_ms": -180_000,
    });
    assert_eq!(told["holds"][0], expected);
    assert_eq!((&told["holds"][1]["id"], &told["currency"]), (&json!("step-3"), &json!("USD")));
}

#[test]
fn where_no_hold_is_open_it_is_said() {
    let case = Case::new();
    drop(case.open(policy()));
    assert!(case.ok(&["holds"]).ends_with("\n  no hold is open\n"));
    assert_eq!(case.json(&["holds"])["holds"], json!([]));
}
