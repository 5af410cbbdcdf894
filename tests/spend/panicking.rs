//! A store or a clock that panics: nothing is lost, and nothing stays taken.

use crate::support::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tollgate::spend::*;

/// A clock that panics while it is told to.
#[derive(Debug, Clone)]
struct Broken(ManualWallClock, Arc<AtomicBool>);

impl Broken {
    fn new() -> Self {
        Self(ManualWallClock::at(START), Arc::default())
    }
    fn set_broken(&self, broken: bool) {
        self.1.store(broken, Ordering::SeqCst);
    }
}

impl WallClock for Broken {
    fn unix_millis(&self) -> Millis {
        assert!(!self.1.load(Ordering::SeqCst), "the clock is broken");
        self.0.unix_millis()
    }
}

/// Budgets whose clock breaks at every write.
fn breaking(policy: SpendPolicy) -> (Spend, Broken) {
    let clock = Broken::new();
    let breaks = clock.clone();
    let store = Fragile::new(MemoryStore::new()).before_write(move |_| breaks.set_broken(true));
    (Spend::builder(policy).store(store).clock(clock.clone()).open().unwrap(), clock)
}

fn panics<T>(act: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(act)).is_err()
}

#[test]
fn no_clock_is_asked_once_an_operation_is_durable() {
    let (spend, clock) = breaking(money(100).on_expiry(OnExpiry::Released).ttl(Duration::from_secs(60)));
    let hold = spend.hold(&Call::new(), &cost(60)).unwrap();
    clock.set_broken(false);
    hold.extend(&cost(30)).unwrap();
    clock.set_broken(false);
    hold.charge(&cost(10)).unwrap();
    clock.set_broken(false);
    hold.settle(&cost(5)).unwrap();
    clock.set_broken(false);
    assert_eq!(used(&spend, "all", "", 0), (15, 0));
    let _ = spend.hold(&Call::new(), &cost(60)).unwrap().detach();
    clock.set_broken(false);
    clock.0.advance(MINUTE);
    spend.expire_due();
    clock.set_broken(false);
    assert_eq!((used(&spend, "all", "", 0), spend.open_holds()), ((15, 0), 0));
}

#[test]
fn what_panicked_before_it_was_durable_did_not_happen() {
    let clock = Broken::new();
    let spend = Spend::builder(money(100)).clock(clock.clone()).open().unwrap();
    let hold = spend.hold(&Call::new(), &cost(40)).unwrap();
    clock.set_broken(true);
    assert!(panics(|| spend.hold(&Call::new(), &cost(1)).map(|_| ())));
    assert!(panics(|| spend.hold(&Call::new().id("a"), &cost(1)).map(|_| ())));
    assert!(panics(|| hold.extend(&cost(1)).map(|_| ())));
    assert!(panics(|| hold.settle(&cost(70)).map(|_| ())));
    clock.set_broken(false);
    assert_eq!((used(&spend, "all", "", 0), spend.open_holds()), ((0, 40), 1));
    spend.hold(&Call::new().id("a"), &cost(1)).unwrap().release().unwrap();
    hold.settle(&cost(70)).unwrap();
    assert_eq!((used(&spend, "all", "", 0), spend.open_holds()), ((70, 0), 0));
}

#[test]
fn a_store_that_panics_while_it_is_read_leaves_no_place_taken() {
    let policy =
        SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::cost(10, Window::Lifetime))).hold_cap(1);
    let store = Fragile::new(MemoryStore::new()).before_read(|key| assert_ne!(key, "panic"));
    let spend = open_on(&store, policy, &ManualWallClock::at(START));
    let hold = |user: &str, id: Option<&str>| {
        let call = Call::new().scope("user", user);
        spend.hold(&id.map_or(call.clone(), |id| call.id(id)), &cost(1))
    };
    assert!(panics(|| hold("panic", None).map(|_| ())));
    assert!(panics(|| hold("panic", Some("a")).map(|_| ())));
    assert_eq!(spend.open_holds(), 0);
    hold("other", Some("a")).unwrap().settle(&cost(1)).unwrap();
}

#[test]
fn a_hold_that_is_dropped_while_the_clock_is_broken_stays_until_it_expires() {
    let clock = Broken::new();
    let policy = money(100).ttl(Duration::from_secs(60)).on_expiry(OnExpiry::Released);
    let spend = Spend::builder(policy).clock(clock.clone()).open().unwrap();
    let hold = spend.hold(&Call::new(), &cost(40)).unwrap();
    clock.set_broken(true);
    drop(hold);
    clock.set_broken(false);
    assert_eq!((used(&spend, "all", "", 0), spend.open_holds()), ((0, 40), 1));
    clock.0.advance(MINUTE);
    assert_eq!((used(&spend, "all", "", 0), spend.open_holds()), ((0, 0), 0));
}

#[test]
fn a_late_settlement_that_panicked_leaves_no_place_taken() {
    let clock = Broken::new();
    let policy = money(100).ttl(Duration::from_secs(60));
    let spend = Spend::builder(policy).clock(clock.clone()).open().unwrap();
    let name = spend.hold(&Call::new(), &cost(10)).unwrap().detach();
    clock.0.advance(MINUTE);
    spend.expire_due();
    let _keeps_the_account = spend.hold(&Call::new(), &cost(1)).unwrap();
    clock.set_broken(true);
    assert!(panics(|| spend.settle(&name, &cost(1))));
    clock.set_broken(false);
    assert_eq!(spend.find(name.id()), Ok(Some(name.clone())));
    assert_eq!(spend.open_holds(), 1);
    assert!(spend.settle(&name, &cost(1)).unwrap().late);
}

#[test]
fn what_a_store_may_have_kept_before_it_panicked_is_not_written_once_more() {
    let store = MemoryStore::new();
    let kept = store.clone();
    // Of several records at once it panics when they are kept.
    let fragile = Fragile::new(store.clone()).before_write(move |records| {
        if records.len() > 1 {
            kept.write(records).unwrap();
            panic!("the store is broken");
        }
    });
    let clock = ManualWallClock::at(START);
    let policy = money(100).ttl(Duration::from_secs(60));
    let spend = open_on(&fragile, policy, &clock);
    let holds = [(); 2].map(|()| spend.hold(&Call::new(), &cost(10)).unwrap());
    clock.advance(MINUTE);
    spend.expire_due();
    let expired = spend.books().unwrap()[0].books.entry(Dimension::Cost).expired;
    assert_eq!(expired, 20, "once, and not twice");
    drop(holds);
}
