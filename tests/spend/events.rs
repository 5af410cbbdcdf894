//! Everything that happens is told, after it is durable.

use crate::support::*;
use std::sync::{Arc, Mutex, OnceLock};
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
fn a_subscriber_may_panic_ask_and_act_on_the_hold_it_is_told_of() {
    let inside: Arc<OnceLock<Spend>> = Arc::default();
    let asked: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let (spend, kinds) = (Arc::clone(&inside), Arc::clone(&asked));
    let opened = Spend::builder(money(1_000))
        .clock(ManualWallClock::at(START))
        .subscribe(|_| panic!("a subscriber of the test"))
        .subscribe(move |event| {
            let spend = spend.get().unwrap();
            spend.status("all", "").unwrap();
            let kind = match event {
                SpendEvent::Held { id, .. } if id == "settled" => {
                    let name = spend.find(id).unwrap().unwrap();
                    spend.settle(&name, &cost(1_100)).unwrap();
                    "held"
                }
                SpendEvent::Overrun { id, .. } => {
                    assert!(spend.resume(&spend.find(id).unwrap().unwrap()).unwrap().settlement().is_some());
                    "overrun"
                }
                SpendEvent::Refused { id: Some(id), .. } => {
                    assert_eq!(spend.find(id).unwrap(), None);
                    "refused"
                }
                _ => return,
            };
            kinds.lock().unwrap().push(kind);
        })
        .open()
        .unwrap();
    inside.set(opened.clone()).unwrap();
    let hold = opened.hold(&Call::new().id("settled"), &cost(100)).unwrap();
    assert!(hold.settlement().is_some());
    opened.hold(&Call::new().id("refused"), &cost(1)).unwrap_err();
    assert_eq!(*asked.lock().unwrap(), ["overrun", "held", "refused"]);
    assert_eq!(used(&opened, "all", "", 0), (1_100, 0));
}
