//! Many threads: never more than the limits, and nothing lost.

use crate::support::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tollgate::spend::record::Kind;
use tollgate::spend::*;

#[test]
fn eight_threads_at_one_limit_take_exactly_what_there_is() {
    for round in 0..20 {
        let store = MemoryStore::new();
        let spend = open_on(
            &store,
            shared([Limit::cost(1_000, rolling(HOUR)), Limit::calls(150, Window::Lifetime)]),
            &ManualWallClock::at(START),
        );
        let each = if round % 2 == 0 { cost(10).calls(1) } else { cost(3).calls(1) };
        let admitted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        (0..60)
                            .filter(|_| {
                                let Ok(hold) = spend.hold(&Call::new(), &each) else { return false };
                                hold.settle(&each).unwrap();
                                true
                            })
                            .count()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, if round % 2 == 0 { 100 } else { 150 });
        balances(&store);
    }
}

#[test]
fn while_time_passes_no_window_ever_holds_more_than_its_limit() {
    let clock = ManualWallClock::at(START);
    let store = Fragile::new(MemoryStore::new());
    let limits = [(100, rolling(MINUTE)), (400, rolling(10 * MINUTE))];
    let policy = shared(limits.iter().map(|(amount, window)| Limit::cost(*amount, window.clone())));
    let spend = open_on(&store, policy, &clock);
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let (spend, clock) = (&spend, &clock);
            scope.spawn(move || {
                for call in 0..3_000_i64 {
                    // Whoever works moves the clock, so that time passes however the threads are scheduled.
                    if call % 3 == 0 {
                        clock.advance(1_009);
                    }
                    let amount = 1 + (call * 7 + thread) % 9;
                    let Ok(hold) = spend.hold(&Call::new(), &cost(amount)) else { continue };
                    match call % 5 {
                        0 => drop(hold),
                        1 => drop(hold.settle(&cost(amount / 2)).unwrap()),
                        _ => drop(hold.settle(&cost(amount)).unwrap()),
                    }
                }
            });
        }
    });
    balances(&store);
    // What is durable is never more than what the gauges show, so at no record may a window have been over its limit.
    let written = store.log.lock().unwrap();
    let mut holds = 0;
    for (limit, window) in &limits {
        let mut used: BTreeMap<u32, i128> = BTreeMap::new();
        for record in written.iter() {
            for moved in &record.moves {
                let taken = moved.books.entry(Dimension::Cost).used();
                *used.entry(window.slot(moved.at)).or_default() += taken;
            }
            if record.kind == Kind::Hold {
                let slot = window.slot(record.at);
                let counting: i128 = used.range(slot - window.reach()..=slot).map(|(_, used)| used).sum();
                assert!(
                    counting <= i128::from(*limit),
                    "{counting} of {limit} in the {window} at {}",
                    record.at
                );
                holds += 1;
            }
        }
    }
    assert!(holds > 2 * 300, "only {holds} holds were made: nothing was tested");
}

#[test]
fn many_threads_over_overlapping_scopes_lose_nothing() {
    let store = MemoryStore::new();
    let clock = ManualWallClock::at(START);
    let spend = open_on(&store, four_scopes().ttl(Duration::from_secs(60)), &clock);
    let spent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (spend, spent) = (&spend, &spent);
            scope.spawn(move || {
                for step in 0..300_u64 {
                    let (run, user) = ((thread * 300 + step) / 7, (thread + step) % 5);
                    let call = Call::new()
                        .scope("run", format!("r{run}"))
                        .scope("user", format!("u{user}"))
                        .scope("team", "t");
                    let amount = 1_000 + (step * 13) % 5_000;
                    let Ok(hold) = spend.hold(&call, &cost(amount as i64).tokens(100).calls(1).seconds(1))
                    else {
                        continue;
                    };
                    match step % 4 {
                        0 => drop(hold),
                        1 => {
                            hold.charge(&cost(500)).unwrap();
                            hold.settle(&cost(amount as i64)).unwrap();
                            spent.fetch_add(amount + 500, Ordering::Relaxed);
                        }
                        _ => {
                            hold.settle(&cost(amount as i64 / 2)).unwrap();
                            spent.fetch_add(amount / 2, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let spent = spent.into_inner();
    balances(&store);
    assert_eq!(used(&spend, "team", "t", 0), (spent, 0));
    assert_eq!(used(&spend, "global", "", 0), (spent, 0));
    let users: u64 = (0..5).map(|user| used(&spend, "user", &format!("u{user}"), 1).0).sum();
    assert_eq!(users, spent);
    drop(spend);
    let spend = open_on(&store, four_scopes(), &clock);
    assert_eq!(used(&spend, "global", "", 0), (spent, 0), "memory and store agree");
}

#[test]
fn of_many_callers_with_one_id_one_makes_the_hold_and_all_have_it() {
    for _ in 0..50 {
        let spend = open(money(1_000), &ManualWallClock::at(START));
        let made: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let hold = spend.hold(&Call::new().id("one"), &cost(300)).unwrap();
                        let made = usize::from(!hold.is_replayed());
                        hold.detach();
                        made
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(made, 1);
        assert_eq!(used(&spend, "all", "", 0), (0, 300));
    }
}

#[test]
fn of_a_settlement_a_release_and_an_expiry_at_once_one_counts() {
    for _ in 0..100 {
        let clock = ManualWallClock::at(START);
        let store = MemoryStore::new();
        let spend =
            open_on(&store, money(1_000).ttl(Duration::from_secs(60)).on_expiry(OnExpiry::Released), &clock);
        let name = spend.hold(&Call::new().id("one"), &cost(300)).unwrap().detach();
        std::thread::scope(|scope| {
            scope.spawn(|| spend.settle(&name, &cost(200)));
            scope.spawn(|| spend.release(&name));
            scope.spawn(|| {
                clock.advance(60_000);
                spend.expire_due();
            });
        });
        balances(&store);
        let (spent, held) = used(&spend, "all", "", 0);
        assert!(held == 0 && (spent == 0 || spent == 200), "{spent} spent, {held} held");
    }
}

#[test]
fn callers_that_come_while_a_write_is_under_way_share_the_next() {
    let gate: Arc<(Mutex<bool>, Condvar)> = Arc::default();
    let batches: Arc<Mutex<Vec<usize>>> = Arc::default();
    let store = {
        let (gate, batches) = (Arc::clone(&gate), Arc::clone(&batches));
        Fragile::new(MemoryStore::new()).before_write(move |records| {
            batches.lock().unwrap().push(records.len());
            drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
        })
    };
    let spend = open_on(&store, money(63), &ManualWallClock::at(START));
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..64)
            .map(|_| scope.spawn(|| spend.hold(&Call::new(), &cost(1)).map(Hold::detach).is_ok()))
            .collect();
        // All but one that is refused have taken their share; one writes, the others wait for it.
        while spend.status("all", "").unwrap()[0].held < 63 {
            std::thread::yield_now();
        }
        while spend.open_holds() > 63 {
            std::thread::yield_now();
        }
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        let held = held.into_iter().map(|thread| thread.join().unwrap());
        assert_eq!(held.filter(|held| *held).count(), 63);
    });
    let batches = batches.lock().unwrap();
    assert_eq!(batches.iter().sum::<usize>(), 63);
    assert!(batches.len() < 32, "63 holds in batches of {batches:?}");
}

#[test]
fn accounts_that_come_and_go_never_admit_more_than_their_limit() {
    const KEYS: usize = 40;
    let store = MemoryStore::new();
    let policy = SpendPolicy::new()
        .scope(
            Scope::keyed("user")
                .limit(Limit::cost(100, Window::Lifetime))
                .limit(Limit::cost(90, rolling(HOUR))),
        )
        .account_cap(12);
    let spend = open_on(&store, policy, &ManualWallClock::at(START));
    let spent: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let (spend, spent) = (&spend, &spent);
            scope.spawn(move || {
                for step in 0..4_000_usize {
                    let key = (step * 31 + thread * 7 + step / 13) % KEYS;
                    let amount = 1 + (step % 4) as i64;
                    let call = Call::new().scope("user", format!("u{key}"));
                    match spend.hold(&call, &cost(amount)) {
                        Ok(hold) if step % 3 == 0 => drop(hold),
                        Ok(hold) => {
                            let used = 1 + amount / 2;
                            hold.settle(&cost(used)).unwrap();
                            spent[key].fetch_add(used.unsigned_abs(), Ordering::Relaxed);
                        }
                        Err(SpendError::Refused(_) | SpendError::Full { what: "account", .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    balances(&store);
    assert!(spend.accounts_in_memory() <= 12);
    for (key, spent) in spent.into_iter().map(AtomicU64::into_inner).enumerate() {
        assert_eq!(used(&spend, "user", &format!("u{key}"), 1), (spent, 0));
        // Every amount from 1 on was asked for often enough to use all of it up.
        assert_eq!(spent, 90, "by user {key}");
    }
}

type Interruption = Box<dyn FnOnce() + Send>;

/// A clock that does something once, when it is next asked.
#[derive(Clone)]
struct Interrupted(ManualWallClock, Arc<Mutex<Option<Interruption>>>);

impl WallClock for Interrupted {
    fn unix_millis(&self) -> Millis {
        let interruption = self.1.lock().unwrap().take();
        if let Some(interrupt) = interruption {
            interrupt();
        }
        self.0.unix_millis()
    }
}

#[test]
fn a_hold_that_somebody_finds_again_while_its_last_handle_is_dropped_is_theirs() {
    let clock = Interrupted(ManualWallClock::at(START), Arc::default());
    let spend = Spend::builder(money(100)).clock(clock.clone()).open().unwrap();
    let call = Call::new().id("request-1");
    let first = spend.hold(&call, &cost(10)).unwrap();
    let found: Arc<Mutex<Option<Hold>>> = Arc::default();
    {
        let (spend, found) = (spend.clone(), Arc::clone(&found));
        let again = move || *found.lock().unwrap() = Some(spend.hold(&call, &cost(10)).unwrap());
        *clock.1.lock().unwrap() = Some(Box::new(again));
    }
    drop(first); // the clock is asked between the count of handles and the release
    let again = found.lock().unwrap().take().unwrap();
    assert!(again.is_replayed());
    again.settle(&cost(10)).unwrap();
    assert_eq!(used(&spend, "all", "", 0), (10, 0));
}
