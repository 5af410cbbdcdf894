//! Everything that happens is told, after it is durable.

use crate::support::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tollgate::spend::*;

type Told = Arc<Mutex<Vec<SpendEvent>>>;

fn told(policy: SpendPolicy, clock: &ManualWallClock, store: &Fragile<MemoryStore>) -> (Spend, Told) {
    let told = Told::default();
    let events = Arc::clone(&told);
    let spend = Spend::builder(policy)
        .store(store.clone())
        .clock(clock.clone())
        .subscribe(move |event| events.lock().unwrap().push(event.clone()))
        .open()
        .unwrap();
    (spend, told)
}

fn kinds(told: &Told) -> Vec<&'static str> {
    let events = std::mem::take(&mut *told.lock().unwrap());
    let kind = |event: &SpendEvent| match event {
        SpendEvent::Held { extended: false, .. } => "held",
        SpendEvent::Held { .. } => "extended",
        SpendEvent::Charged { .. } => "charged",
        SpendEvent::Settled { .. } => "settled",
        SpendEvent::Released { .. } => "released",
        SpendEvent::Expired { .. } => "expired",
        SpendEvent::Refused { .. } => "refused",
        SpendEvent::Overrun { .. } => "overrun",
        SpendEvent::TierChanged { .. } => "tier",
        _ => "unknown",
    };
    events.iter().map(kind).collect()
}

#[test]
fn every_operation_is_told_once() {
    let clock = ManualWallClock::at(START);
    let store = Fragile::new(MemoryStore::new());
    let (spend, told) = told(money(1_000).ttl(Duration::from_secs(60)), &clock, &store);
    let hold = spend.hold(&Call::new(), &cost(100)).unwrap();
    hold.extend(&cost(100)).unwrap();
    hold.charge(&cost(50)).unwrap();
    hold.settle(&cost(500)).unwrap();
    hold.settle(&cost(500)).unwrap();
    drop(hold);
    assert_eq!(kinds(&told), ["held", "extended", "charged", "overrun", "settled"]);
    drop(spend.hold(&Call::new(), &cost(200)).unwrap());
    assert_eq!(kinds(&told), ["held", "released"]);
    refusal(spend.hold(&Call::new(), &cost(500)));
    assert_eq!(kinds(&told), ["refused"]);
    let _hold = spend.hold(&Call::new(), &cost(200)).unwrap();
    let reduced = spend.hold(&Call::new(), &cost(1)).unwrap();
    assert_eq!(kinds(&told), ["held", "held", "tier"]);
    drop(reduced);
    clock.advance(60_000);
    spend.expire_due();
    assert_eq!(kinds(&told), ["released", "expired"]);
}

#[test]
fn what_could_not_be_recorded_is_not_told() {
    let store = Fragile::new(MemoryStore::new());
    let (spend, told) = told(money(1_000), &ManualWallClock::at(START), &store);
    let hold = spend.hold(&Call::new(), &cost(100)).unwrap();
    kinds(&told);
    store.set_down(true);
    assert!(spend.hold(&Call::new(), &cost(100)).is_err());
    assert!(hold.settle(&cost(2_000)).is_err());
    assert_eq!(kinds(&told), [""; 0]);
}

#[test]
fn a_change_of_tier_names_the_account_and_both_tiers() {
    let policy = SpendPolicy::new()
        .scope(Scope::keyed("user").limit(Limit::cost(100, rolling(HOUR))))
        .scope(Scope::shared("all").limit(Limit::cost(10_000, Window::Lifetime)));
    let clock = ManualWallClock::at(START);
    let store = Fragile::new(MemoryStore::new());
    let (spend, told) = told(policy, &clock, &store);
    let call = |user: &str| {
        spend.hold(&Call::new().scope("user", user), &cost(1)).unwrap().settle(&cost(1)).unwrap()
    };
    for _ in 0..71 {
        call("alice");
    }
    call("bob");
    clock.advance(2 * HOUR);
    call("alice");
    let changes: Vec<_> = told
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match event {
            SpendEvent::TierChanged { account, from, to } => {
                Some((account.scope.clone(), account.key.clone(), *from, *to))
            }
            _ => None,
        })
        .collect();
    let alice = |from, to| ("user".to_owned(), "alice".to_owned(), from, to);
    assert_eq!(changes, [alice(Tier::Full, Tier::Reduced), alice(Tier::Reduced, Tier::Full)]);
}

#[test]
fn a_subscriber_may_panic_and_may_ask() {
    let spend: Arc<Mutex<Option<Spend>>> = Arc::default();
    let inside = Arc::clone(&spend);
    let opened = Spend::builder(money(1_000))
        .clock(ManualWallClock::at(START))
        .subscribe(|_| panic!("a subscriber of the test"))
        .subscribe(move |event| {
            if let (SpendEvent::Settled { .. }, Some(spend)) = (event, &*inside.lock().unwrap()) {
                assert_eq!(used(spend, "all", "", 0), (50, 0));
                spend.hold(&Call::new(), &cost(7)).unwrap().detach();
            }
        })
        .open()
        .unwrap();
    opened.hold(&Call::new(), &cost(1)).unwrap().release().unwrap();
    *spend.lock().unwrap() = Some(opened.clone());
    let hold = opened.hold(&Call::new(), &cost(100));
    // The subscriber's own hold tells of it while the lock of the test is taken, so the event of the settlement comes first.
    *spend.lock().unwrap() = None;
    hold.unwrap().settle(&cost(50)).unwrap();
    assert_eq!(used(&opened, "all", "", 0), (50, 0));
}
