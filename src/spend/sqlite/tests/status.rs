//! What a reader says of limits: as the engine does, from the file alone.

use super::*;
use crate::spend::{Amounts, Call, Family, LimitStatus, ManualWallClock, Spend};

fn engine(store: &Arc<SqliteStore>, policy: SpendPolicy, clock: &ManualWallClock) -> Spend {
    Spend::builder(policy).shared_store(store.clone()).clock(clock.clone()).open().unwrap()
}

fn call(tenant: &str, user: &str) -> Call {
    Call::new().scope("tenant", tenant).scope("user", user)
}

fn cost(amount: i64) -> Amounts {
    Amounts::new().cost(amount).calls(1).tokens(amount / 10)
}

fn named(path: &Path, now: Millis) -> Vec<(String, String, Vec<LimitStatus>)> {
    let all = SqliteReader::open(path).unwrap().status(now).unwrap();
    all.into_iter().map(|account| (account.scope, account.key, account.limits)).collect()
}

#[test]
fn a_reader_tells_of_every_account_what_the_engine_tells() {
    let (_folder, path) = place();
    let clock = ManualWallClock::at(START);
    let store = Arc::new(SqliteStore::at(&path).unwrap());
    let mut policy = usual().family(Family::new("root").cost(1_000).ceiling(500)).family(Family::new("idle"));
    policy.families[1].calls = Some(3);
    policy
        .scopes
        .push(Scope::shared("all").limit(Limit::cost(0, fixed(DAY))).limit(Limit::concurrent_runs(2)));
    policy.scopes[2].limits[0].amount = 400;
    let spend = engine(&store, policy, &clock);
    for (minutes, user) in [(0, "ann"), (7, "bob"), (20, "ann"), (31, "ann")] {
        clock.set(START + minutes * 60_000);
        spend.hold(&call("t", user), &cost(50)).unwrap().settle(&cost(40)).unwrap();
        let open = spend.hold(&call("t", user).grant("root"), &cost(20).runs(1));
        if let Ok(hold) = open {
            hold.charge(&cost(5)).unwrap();
            hold.detach();
        }
    }
    for minutes in [31, 59] {
        let now = START + minutes * 60_000;
        clock.set(now);
        let told = named(&path, now);
        let names: Vec<_> = told.iter().map(|(scope, key, _)| (scope.as_str(), key.as_str())).collect();
        let expected = [
            ("tenant", "t"),
            ("user", "ann"),
            ("user", "bob"),
            ("all", ""),
            ("family", "idle"),
            ("family", "root"),
        ];
        assert_eq!(names, expected);
        for (scope, key, limits) in told {
            assert_eq!(limits, spend.status(&scope, &key).unwrap(), "{scope}/{key} after {minutes} min");
        }
    }
    let root = &named(&path, clock_of(&clock))[5].2;
    assert_eq!((root[0].limit, root[1].limit), (Some(1_000), None));
    assert!(root[0].held > 0);
}

fn clock_of(clock: &ManualWallClock) -> Millis {
    crate::spend::WallClock::unix_millis(clock)
}

#[test]
fn what_an_earlier_window_set_aside_is_not_held_in_the_current_one() {
    let (_folder, path) = place();
    let clock = ManualWallClock::at(START);
    let store = Arc::new(SqliteStore::at(&path).unwrap());
    let mut policy = policy(vec![scope(
        "user",
        &[
            (Dimension::Cost, fixed(DAY)),
            (Dimension::Cost, rolling(HOUR)),
            (Dimension::Cost, Window::Lifetime),
        ],
    )]);
    policy.ttl = 10 * DAY;
    let spend = engine(&store, policy, &clock);
    let user = Call::new().scope("user", "ann");
    spend.hold(&user, &Amounts::new().cost(70)).unwrap().detach();
    let later = START + DAY;
    clock.set(later);
    spend.hold(&user, &Amounts::new().cost(9)).unwrap().settle(&Amounts::new().cost(9)).unwrap();
    let limits = &named(&path, later)[0].2;
    let sums: Vec<_> = limits.iter().map(|limit| (limit.spent, limit.held)).collect();
    assert_eq!(sums, [(9, 0), (9, 0), (9, 70)]);
    let day = fixed(DAY);
    assert_eq!(limits[0].resets_at, day.lapses(day.slot(later)));
    assert_eq!(limits[1].resets_at, rolling(HOUR).lapses(rolling(HOUR).slot(later)));
    assert_eq!(limits[2].resets_at, None);
    assert_eq!(limits[2].remaining(), Some(1_000_000 - 79));
}

#[test]
fn where_the_clock_was_set_back_the_latest_record_says_what_time_it_is() {
    let (folder, path) = place();
    let clock = ManualWallClock::at(START);
    let store = Arc::new(SqliteStore::at(&path).unwrap());
    let spend = engine(&store, usual(), &clock);
    spend.hold(&call("t", "ann"), &cost(50)).unwrap().settle(&cost(40)).unwrap();
    clock.set(START + DAY);
    spend.hold(&call("t", "ann"), &cost(30)).unwrap().settle(&cost(30)).unwrap();
    let reader = SqliteReader::open(&path).unwrap();
    assert_eq!(reader.latest().unwrap(), START + DAY);
    assert_eq!(named(&path, START), named(&path, START + DAY));
    clock.set(START + 3 * DAY);
    spend.hold(&call("t", "bob"), &cost(30)).unwrap().settle(&cost(30)).unwrap();
    store.archive(u64::MAX, folder.path().join("old.jsonl")).unwrap();
    assert_eq!(reader.latest().unwrap(), START + 3 * DAY);
}

#[test]
fn a_hold_whose_time_is_over_counts_as_held_until_the_writer_deals_with_it() {
    let (_folder, path) = place();
    let clock = ManualWallClock::at(START);
    let store = Arc::new(SqliteStore::at(&path).unwrap());
    let spend = engine(&store, usual(), &clock);
    spend.hold(&call("t", "ann"), &cost(50)).unwrap().detach();
    let held = |now| {
        let limit = &named(&path, now)[0].2[0];
        (limit.spent, limit.held)
    };
    clock.set(START + HOUR);
    assert_eq!(held(START + HOUR), (0, 50));
    spend.expire_due();
    assert_eq!(held(START + HOUR), (50, 0));
}

#[test]
fn of_a_family_that_the_policy_no_longer_has_nothing_is_left() {
    let (_folder, path) = place();
    let clock = ManualWallClock::at(START);
    let store = Arc::new(SqliteStore::at(&path).unwrap());
    let spend = engine(&store, usual().family(Family::new("root").calls(9)), &clock);
    spend.hold(&call("t", "ann").grant("root"), &cost(50)).unwrap().settle(&cost(50)).unwrap();
    drop(spend);
    let spend = engine(&store, usual(), &clock);
    let told = named(&path, START).pop().unwrap();
    assert_eq!((told.0.as_str(), told.1.as_str()), ("family", "root"));
    assert_eq!((told.2[1].limit, told.2[1].remaining()), (Some(0), Some(-1)));
    assert_eq!(told.2, spend.status("family", "root").unwrap());
}

#[test]
fn a_store_that_was_never_opened_has_no_accounts_and_one_without_its_tables_is_damaged() {
    let (_folder, path) = place();
    drop(SqliteStore::at(&path).unwrap());
    let reader = SqliteReader::open(&path).unwrap();
    assert_eq!((reader.status(START).unwrap(), reader.latest().unwrap()), (Vec::new(), 0));
    drop(opened(&path, &usual()));
    Connection::open(&path).unwrap().execute_batch("DELETE FROM counted").unwrap();
    let error = SqliteReader::open(&path).unwrap().status(START).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}
