//! What is spent, held and left.

use super::*;

#[test]
fn status_tells_of_every_account_and_limit_what_is_spent_and_held_and_when_it_resets() {
    let case = Case::new();
    let _writer = case.usual();
    let expected = "\
budgets.db at 2100-06-01T12:10:00Z

  scope   key          dimension  window                  limit       spent      held        left    full  resets at
  run     r-1          tokens     lifetime               10,000       3,120     4,000       2,880  71.2 %  never
  user    ann          cost       rolling 1h           0.20 USD  0.0415 USD  0.03 USD  0.1285 USD  35.7 %  2100-06-01T13:01:00Z
  global  (everybody)  cost       calendar day in UTC  1.00 USD  0.0415 USD  0.03 USD  0.9285 USD   7.1 %  2100-06-02T00:00:00Z
  global  (everybody)  runs       lifetime                    2           0         1           1  50.0 %  never
  family  root         cost       lifetime             0.50 USD    0.01 USD  0.03 USD    0.46 USD   8.0 %  never
  family  root         calls      lifetime                    -           0         0           -       -  never
";
    assert_eq!(case.ok(&["status"]), expected);
}

#[test]
fn status_as_json_has_integers_in_units() {
    let case = Case::new();
    drop(case.usual());
    let told = case.json(&["status"]);
    assert_eq!((&told["currency"], &told["decimals"]), (&json!("USD"), &json!(6)));
    assert_eq!((&told["db"], &told["at"]), (&json!("budgets.db"), &json!("2100-06-01T12:10:00Z")));
    assert_eq!((&told["at_ms"], &told["overdue_holds"]), (&json!(start() + 10 * MINUTE), &json!(0)));
    assert_eq!(told["limits"].as_array().unwrap().len(), 6);
    let expected = json!({
        "scope": "user", "key": "ann", "dimension": "cost", "window": "rolling 1h", "limit": 200_000,
        "spent": 41_500, "held": 30_000, "left": 128_500, "full_millionths": 357_500,
        "resets_at": "2100-06-01T13:01:00Z", "resets_at_ms": start() + 61 * MINUTE,
    });
    assert_eq!(*row(&told, "user", "cost"), expected);
    let calls = row(&told, "family", "calls");
    let absent = ["limit", "left", "full_millionths", "resets_at", "resets_at_ms"];
    assert!(absent.iter().all(|name| calls[name].is_null()), "{calls}");
    assert_eq!(row(&told, "family", "cost")["held"], 30_000);
}

#[test]
fn status_tells_only_of_the_scope_and_the_key_that_are_asked_for() {
    let case = Case::new();
    let spend = case.usual();
    spend
        .hold(&Call::new().scope("run", "r-2").scope("user", "ann"), &Amounts::new())
        .unwrap()
        .release()
        .unwrap();
    let keys = |args: &[&str]| {
        let told = case.json(&[&["status"], args].concat());
        let limits = told["limits"].as_array().unwrap().iter();
        limits.map(|row| row["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&["--scope", "run"]), ["r-1", "r-2"]);
    assert_eq!(keys(&["--scope", "run", "--key", "r-2"]), ["r-2"]);
    assert_eq!(keys(&["--key", "ann"]), ["ann"]);
    assert_eq!(keys(&["--scope", "family"]), ["root", "root"]);
    assert_eq!(keys(&["--key", "nobody"]), [""; 0]);
    assert!(case.ok(&["status", "--key", "nobody"]).contains("no such limit of an account"));
    case.run(&["status", "--scope", "team"])
        .fails(2, "the policy has no scope \"team\", accepted: run, user, global, family");
}

#[test]
fn status_tells_of_debt_and_of_limits_of_nothing() {
    let case = Case::new();
    let policy = SpendPolicy::new().unit("JPY", 0).scope(
        Scope::shared("all")
            .limit(Limit::cost(100, Window::Lifetime))
            .limit(Limit::calls(0, Window::Lifetime)),
    );
    let spend = case.open(policy);
    spend.hold(&Call::new(), &Amounts::new().cost(50)).unwrap().settle(&Amounts::new().cost(160)).unwrap();
    let told = case.ok(&["status"]);
    for part in [
        "100 JPY  160 JPY  0 JPY  -60 JPY  160.0 %  never",
        "(everybody)",
        "0        0      0        0  100.0 %  never",
    ] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    assert_eq!(row(&case.json(&["status"]), "all", "cost")["left"], -60);
}

#[test]
fn what_an_earlier_window_spent_is_not_told_of_the_current_one() {
    let case = Case::new();
    let spend = case.usual();
    spend.set_limit("run", Dimension::Tokens, &Window::Lifetime, 20_000).unwrap();
    drop(spend);
    case.pass(20 * 60 * MINUTE);
    let told = case.json(&["status"]);
    let user = row(&told, "user", "cost");
    assert_eq!((&user["spent"], &user["held"], &user["resets_at"]), (&json!(0), &json!(0), &Value::Null));
    assert_eq!(row(&told, "global", "cost")["resets_at"], "2100-06-03T00:00:00Z");
    let run = row(&told, "run", "tokens");
    assert_eq!((&run["limit"], &run["held"]), (&json!(20_000), &json!(4_000)));
    assert_eq!(told["overdue_holds"], 1);
    assert!(
        case.ok(&["status"]).contains("0.00 USD  0.00 USD  0.20 USD   0.0 %  -\n"),
        "{}",
        case.ok(&["status"])
    );
    assert!(
        case.ok(&["status"])
            .ends_with("\n  1 open hold is overdue and counted as held here: see `tollgate budget holds`\n")
    );
}
