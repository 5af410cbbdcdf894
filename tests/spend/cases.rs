//! Budgets that went wrong elsewhere, as reported in public: each report by its numbers, and by its kind.

use crate::support::*;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Barrier;
use tollgate::spend::*;

/// The reports, with their sources.
const CASES: &str = include_str!("../data/budget_cases.json");

fn case(id: &str) -> Value {
    let all: Vec<Value> = serde_json::from_str(CASES).expect("the file is JSON");
    all.into_iter().find(|case| case["id"] == id).expect("a case of the file")
}

/// Runs a case's calls one after the other, with one lifetime limit, and says what came of each as the file does.
fn answers(case: &Value, on_expiry: OnExpiry) -> Vec<String> {
    let limit = case["limit"].as_u64().expect("a limit");
    let store = Fragile::new(MemoryStore::new());
    let clock = ManualWallClock::at(START);
    let ttl = case["ttl_ns"].as_u64().map_or(DAY, |ns| ns / 1_000_000);
    let policy = money(limit).ttl(std::time::Duration::from_millis(ttl)).on_expiry(on_expiry);
    let spend = open_on(&store, policy, &clock);
    let mut holds: HashMap<String, Hold> = HashMap::new();
    let mut answers = Vec::new();
    for call in case["calls"].as_array().expect("calls") {
        let word = |place: usize| call[place].as_str().unwrap_or_default().to_owned();
        let number = |place: usize| call[place].as_i64().expect("a number");
        let answer = match word(0).as_str() {
            "t" => {
                clock.set(START + number(1) as u64 / 1_000_000);
                String::new()
            }
            "hold" => match spend.hold(&Call::new(), &cost(number(2))) {
                Ok(hold) => {
                    holds.insert(word(1), hold);
                    "A".into()
                }
                Err(SpendError::Refused(_)) => "D".into(),
                Err(_) => "E".into(),
            },
            "rehold" => match holds[&word(1)].extend(&cost(number(2))) {
                Ok(_) => "A".into(),
                Err(_) => "D".into(),
            },
            "charge" => holds[&word(1)].charge(&cost(number(2))).map_or("E".into(), |()| "ok".into()),
            "settle" => match holds[&word(1)].settle(&cost(number(2))) {
                Ok(settlement) if settlement.late => "late".into(),
                Ok(_) => "ok".into(),
                Err(SpendError::Amount(AmountError::Negative { .. })) => "error".into(),
                Err(error) => panic!("{error}"),
            },
            "drop" => {
                holds.remove(&word(1));
                "ok".into()
            }
            "spend" => {
                let (each, times) = (number(1), number(2));
                let admitted = (0..times).filter(|_| {
                    let Ok(hold) = spend.hold(&Call::new(), &cost(each)) else { return false };
                    hold.settle(&cost(each)).expect("it was held");
                    true
                });
                let admitted = admitted.count() as i64;
                format!("{admitted}A {}D", times - admitted)
            }
            "spend_to" => {
                let (spent, held) = used(&spend, "all", "", 0);
                let rest = number(1) - (spent + held) as i64;
                spend
                    .hold(&Call::new(), &cost(rest))
                    .expect("room")
                    .settle(&cost(rest))
                    .expect("it was held");
                String::new()
            }
            "set_limit" => {
                let limit = number(1) as u64;
                spend.set_limit("all", Dimension::Cost, &Window::Lifetime, limit).expect("a limit");
                String::new()
            }
            "backend_down" => {
                store.set_down(true);
                String::new()
            }
            other => panic!("{other} is no call"),
        };
        answers.push(answer);
    }
    store.set_down(false);
    drop(holds);
    balances(&store);
    // What the case says of the end is checked by whoever runs it; here it goes along.
    let (spent, held) = used(&spend, "all", "", 0);
    answers.push(format!("spent={spent} held={held}"));
    answers
}

#[test]
fn h01_of_eight_parallel_holds_for_six_tenths_of_a_limit_one_is_admitted() {
    let case = case("H01-parallel-holds");
    let limit = case["limit"].as_u64().unwrap();
    for _ in 0..200 {
        let spend = open(money(limit), &ManualWallClock::at(START));
        let calls: Vec<i64> =
            case["calls"].as_array().unwrap().iter().map(|call| call[2].as_i64().unwrap()).collect();
        let barrier = Barrier::new(calls.len());
        let admitted: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = calls
                .iter()
                .map(|&amount| {
                    let (spend, barrier) = (&spend, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        spend.hold(&Call::new(), &cost(amount)).ok()
                    })
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(admitted.len(), 1);
        assert_eq!(used(&spend, "all", "", 0), (0, 600_000));
    }
}

#[test]
fn h01_one_after_the_other_the_first_is_admitted() {
    let case = case("H01-parallel-holds");
    assert_eq!(answers(&case, OnExpiry::Spent)[..8], ["A", "D", "D", "D", "D", "D", "D", "D"]);
}

#[test]
fn h03_what_is_cancelled_is_given_back_at_once() {
    let answers = answers(&case("H03-cancel-releases"), OnExpiry::Spent);
    assert_eq!(answers, ["A", "ok", "A", "ok", "A", "ok", "A", "D", "spent=280 held=0"]);
}

#[test]
fn h04_a_phantom_reservation_ends_with_its_time_and_a_late_settlement_is_debt_once() {
    let answers = answers(&case("H04-hold-ttl"), OnExpiry::Released);
    assert_eq!(answers, ["", "A", "", "D", "", "A", "late", "spent=100 held=0"]);
}

#[test]
fn h04_while_the_later_hold_is_open_the_late_settlement_stands_beside_it() {
    let clock = ManualWallClock::at(START);
    let policy = money(100).ttl(std::time::Duration::from_secs(60)).on_expiry(OnExpiry::Released);
    let spend = open(policy, &clock);
    let late = spend.hold(&Call::new(), &cost(100)).unwrap();
    clock.advance(60_000);
    let current = spend.hold(&Call::new(), &cost(100)).unwrap();
    let settlement = late.settle(&cost(100)).unwrap();
    assert!(settlement.late);
    assert_eq!((settlement.overrun[Dimension::Cost], settlement.released[Dimension::Cost]), (100, 0));
    assert_eq!(used(&spend, "all", "", 0), (100, 100));
    assert_eq!(spend.status("all", "").unwrap()[0].remaining(), Some(-100));
    drop(current);
    assert_eq!(used(&spend, "all", "", 0), (100, 0), "it was not given back twice");
}

#[test]
fn h06_a_negative_amount_is_an_error_and_no_credit() {
    let answers = answers(&case("H06-negative-actual"), OnExpiry::Spent);
    assert_eq!(answers[..2], ["A", "error"]);
    assert_eq!(answers[2], "spent=0 held=0", "the hold was given back when it was dropped");
}

#[test]
fn h07_what_was_used_above_the_hold_counts_in_full_and_blocks_the_next() {
    let answers = answers(&case("H07-actual-above-hold"), OnExpiry::Spent);
    assert_eq!(answers, ["A", "ok", "D", "spent=1200 held=0"]);
}

#[test]
fn h08_the_attempts_of_a_retried_call_add_up() {
    let answers = answers(&case("H08-retry-cost-adds"), OnExpiry::Spent);
    assert_eq!(answers, ["A", "ok", "ok", "ok", "spent=500 held=0"]);
}

#[test]
fn h10_what_was_denied_does_not_count_against_a_raised_limit() {
    let answers = answers(&case("H10-denied-not-counted-then-raise"), OnExpiry::Spent);
    assert_eq!(answers, ["10A 40D", "", "10A 1D", "spent=20 held=0"]);
}

#[test]
fn h11_a_free_call_passes_an_exhausted_limit_and_its_dearer_fallback_does_not() {
    let answers = answers(&case("H11-fallback-rechecks"), OnExpiry::Spent);
    assert_eq!(answers, ["A", "ok", "", "A", "D", "spent=1000 held=0"]);
}

#[test]
fn h12_nothing_passes_while_the_store_is_down() {
    let answers = answers(&case("H12-store-down"), OnExpiry::Spent);
    assert_eq!(answers, ["", "0A 100D", "spent=0 held=0"]);
}

#[test]
fn every_reported_case_of_budgets_has_its_test() {
    let all: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let ids: Vec<_> = all.iter().map(|case| case["id"].as_str().unwrap().to_owned()).collect();
    let known = ["H01", "H03", "H04", "H06", "H07", "H08", "H10", "H11", "H12"];
    assert_eq!(ids.iter().map(|id| &id[..3]).collect::<Vec<_>>(), known);
}
