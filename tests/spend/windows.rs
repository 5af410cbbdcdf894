//! Which window a hold, a settlement and an overrun belong to.

use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tollgate::spend::*;

#[test]
fn a_hold_and_its_settlement_belong_to_the_window_it_was_made_in() {
    let clock = ManualWallClock::at(START);
    let day = Window::day("UTC").unwrap();
    let spend = open(shared([Limit::cost(100, day)]), &clock);
    let hold = spend.hold(&Call::new(), &cost(80)).unwrap();
    clock.advance(DAY);
    assert_eq!(used(&spend, "all", "", 0), (0, 0), "a new day, in which nothing is held");
    spend.hold(&Call::new(), &cost(100)).unwrap().settle(&cost(100)).unwrap();
    let settlement = hold.settle(&cost(60)).unwrap();
    assert_eq!(settlement.released[Dimension::Cost], 20);
    assert_eq!(used(&spend, "all", "", 0), (100, 0), "what came back was yesterday's");
}

#[test]
fn an_overrun_belongs_to_the_window_in_which_it_is_known_and_is_not_carried_into_the_next() {
    let clock = ManualWallClock::at(START);
    let spend = open(shared([Limit::cost(100, Window::day("UTC").unwrap())]), &clock);
    let hold = spend.hold(&Call::new(), &cost(80)).unwrap();
    clock.advance(DAY);
    hold.settle(&cost(230)).unwrap();
    assert_eq!(used(&spend, "all", "", 0), (150, 0));
    refusal(spend.hold(&Call::new(), &cost(1)));
    clock.advance(DAY);
    spend.hold(&Call::new(), &cost(100)).unwrap().settle(&cost(100)).unwrap();
}

#[test]
fn each_extension_belongs_to_the_window_it_was_made_in_and_the_oldest_part_is_used_first() {
    let clock = ManualWallClock::at(START);
    let policy = shared([Limit::cost(100, rolling(HOUR))]);
    let spend = open(policy.ttl(std::time::Duration::from_secs(3_600)), &clock);
    let hold = spend.hold(&Call::new(), &cost(40)).unwrap();
    clock.advance(30 * MINUTE);
    hold.extend(&cost(40)).unwrap();
    hold.settle(&cost(50)).unwrap();
    assert_eq!(used(&spend, "all", "", 0), (50, 0));
    clock.set(START + 61 * MINUTE);
    assert_eq!(used(&spend, "all", "", 0), (10, 0), "the first 40 have lapsed");
    clock.set(START + 91 * MINUTE);
    assert_eq!(used(&spend, "all", "", 0), (0, 0));
}

#[test]
fn a_rolling_window_counts_for_its_length_and_at_most_a_sixtieth_longer() {
    for offset in [0, 1, 29_999, 30_000, 59_999] {
        let clock = ManualWallClock::at(START + offset);
        let spend = open(shared([Limit::cost(100, rolling(HOUR))]), &clock);
        spend.hold(&Call::new(), &cost(100)).unwrap().settle(&cost(100)).unwrap();
        clock.advance(HOUR - 1);
        let refused = refusal(spend.hold(&Call::new(), &cost(1)));
        let wait = refused.retry_after.unwrap();
        assert!((1..=MINUTE + 1).contains(&wait), "{wait} after {offset}");
        clock.advance(wait);
        spend.hold(&Call::new(), &cost(100)).unwrap().release().unwrap();
    }
}

#[test]
fn a_day_of_a_place_begins_at_its_midnight_when_the_clocks_change() {
    // 2026-03-29 has 23 hours in Berlin: midnight is 23:00 UTC the day before, and 22:00 UTC on the day itself.
    let midnight = 1_774_738_800_000;
    let clock = ManualWallClock::at(midnight);
    let spend = open(shared([Limit::cost(10, Window::day("Europe/Berlin").unwrap())]), &clock);
    spend.hold(&Call::new(), &cost(10)).unwrap().settle(&cost(10)).unwrap();
    let refused = refusal(spend.hold(&Call::new(), &cost(1)));
    assert_eq!(refused.retry_after, Some(23 * HOUR));
    clock.advance(23 * HOUR - 1);
    refusal(spend.hold(&Call::new(), &cost(1)));
    clock.advance(1);
    spend.hold(&Call::new(), &cost(10)).unwrap().settle(&cost(10)).unwrap();
    assert_eq!(refusal(spend.hold(&Call::new(), &cost(1))).retry_after, Some(24 * HOUR));
}

#[test]
fn a_fixed_window_begins_at_its_anchor() {
    let clock = ManualWallClock::at(START + 10 * MINUTE);
    let window = Window::fixed(std::time::Duration::from_secs(3_600), START + 25 * MINUTE).unwrap();
    let spend = open(shared([Limit::cost(10, window)]), &clock);
    spend.hold(&Call::new(), &cost(10)).unwrap().settle(&cost(10)).unwrap();
    assert_eq!(refusal(spend.hold(&Call::new(), &cost(1))).retry_after, Some(15 * MINUTE));
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_lapse_twice() {
    let clock = ManualWallClock::at(START);
    let store = MemoryStore::new();
    let policy = || shared([Limit::cost(100, rolling(HOUR))]);
    let spend = open_on(&store, policy(), &clock);
    spend.hold(&Call::new(), &cost(100)).unwrap().settle(&cost(100)).unwrap();
    clock.advance(2 * HOUR);
    spend.hold(&Call::new(), &cost(60)).unwrap().settle(&cost(60)).unwrap();
    clock.set(START);
    assert_eq!(used(&spend, "all", "", 0), (60, 0));
    refusal(spend.hold(&Call::new(), &cost(41)));
    drop(spend);
    let spend = open_on(&store, policy(), &clock);
    assert_eq!(used(&spend, "all", "", 0), (60, 0), "nor after a restart");
    spend.hold(&Call::new(), &cost(40)).unwrap().settle(&cost(40)).unwrap();
}

#[test]
fn at_the_end_of_time_books_balance_and_nothing_panics() {
    let everything = || {
        shared([
            Limit::cost(100, rolling(MINUTE)),
            Limit::cost(100, Window::day("Pacific/Apia").unwrap()),
            Limit::cost(100, Window::fixed(Duration::from_secs(1), 5).unwrap()),
            Limit::tokens(100, Window::Lifetime),
        ])
    };
    let folder = tempfile::tempdir().unwrap();
    for (number, end) in
        [Millis::MAX, Millis::MAX / 2, i64::MAX as Millis, 253_402_300_800_000, u32::MAX.into()]
            .into_iter()
            .enumerate()
    {
        let file = || SqliteStore::at(folder.path().join(format!("{number}.db"))).unwrap();
        let memory = MemoryStore::new();
        let stores: [&dyn Fn() -> Arc<dyn Store>; 2] = [&|| Arc::new(memory.clone()), &|| Arc::new(file())];
        for opened in stores {
            let clock = ManualWallClock::at(START);
            let open = |store: &Arc<dyn Store>| {
                let builder = Spend::builder(everything()).shared_store(Arc::clone(store));
                builder.clock(clock.clone()).open().unwrap()
            };
            let store = opened();
            let spend = open(&store);
            let early = spend.hold(&Call::new(), &cost(60).tokens(60)).unwrap();
            clock.set(end);
            let late = spend.hold(&Call::new().id("late"), &cost(60).tokens(1));
            if let Ok(late) = &late {
                // At the last instant its time to live is over at once.
                let _ = (late.extend(&cost(1)), late.charge(&cost(70)));
            }
            clock.set(Millis::MAX);
            spend.expire_due();
            let _ = early.settle(&cost(90));
            drop(late);
            let status = spend.status("all", "").unwrap();
            drop((early, spend));
            balances(&*store);
            drop(store);
            let used = |status: &[LimitStatus]| {
                status.iter().map(|limit| limit.spent + limit.held).collect::<Vec<_>>()
            };
            assert_eq!(used(&open(&opened()).status("all", "").unwrap()), used(&status), "at {end}");
        }
    }
}
