//! Draws on buckets that exist.

use crate::explore::Model;
use crate::fixture::*;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::OnceLock;
use tollgate::limiter::Keep;
use tollgate::time::Clock;

pub const MODELS: &[Model] = &[
    Model {
        name: "last-token",
        proves: "of two threads at the last token exactly one draws it",
        bounds: [4, 5],
        execution: last_token,
    },
    Model {
        name: "pair",
        proves: "both lanes of a pair move or neither, as a third thread sees it",
        bounds: [3, 4],
        execution: pair,
    },
    Model {
        name: "last-pair-cell",
        proves: "of two newcomers who want the last pair cell one gets both lanes, the other leaves no half pair",
        bounds: [4, 4],
        execution: last_pair_cell,
    },
    Model {
        name: "clock-after-word",
        proves: "a draw that overlaps the turn of a window is judged by the time after the word it read",
        bounds: [4, 5],
        execution: clock_after_word,
    },
    Model {
        name: "reconfigured",
        proves: "a bucket that is drawn on while its limit changes is converted once, by every draw alike",
        bounds: [3, 3],
        execution: reconfigured,
    },
    Model {
        name: "refusal-writes-nothing",
        proves: "a refused draw leaves every word as it was, and is justified by a word that was there",
        bounds: [4, 5],
        execution: refusal_writes_nothing,
    },
    Model {
        name: "other-key",
        proves: "a reader that holds a cell's old generation never takes another key's bucket for its own",
        bounds: [2, 2],
        execution: other_key,
    },
];

fn last_token() {
    let clock = ManualClock::new();
    let buckets = limiter(2, 2, &clock);
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check(&1).is_ok());
    assert!(buckets.check(&1).is_ok() ^ thread.join().unwrap());
    buckets.audit();
    assert_eq!(buckets.peek(&1), 0);
}

fn pairs(tokens: [u64; 2], cells: usize) -> Arc<Pairs> {
    Arc::new(Pairs::new(tokens.map(per_turn), cells, ManualClock::new()))
}

fn pair() {
    let buckets = pairs([2, 4], 1);
    buckets.draw(1, [1, 2]).unwrap();
    let (drawing, reading) = (buckets.clone(), buckets.clone());
    let drawer = thread::spawn(move || drawing.draw(1, [1, 2]).is_ok());
    let reader = thread::spawn(move || reading.peek(1));
    let mine = buckets.draw(1, [1, 2]).is_ok();
    let seen = reader.join().unwrap();
    assert!(mine ^ drawer.join().unwrap(), "two tokens, one of them gone");
    assert!(seen == [1, 2] || seen == [0, 0], "half a draw seen: {seen:?}");
    buckets.audit();
    assert_eq!(buckets.peek(1), [0, 0]);
}

fn last_pair_cell() {
    let buckets = pairs([3, 5], 1);
    let other = buckets.clone();
    let thread = thread::spawn(move || other.draw(2, [1, 2]).map_err(|refusal| refusal.reason));
    let one = buckets.draw(1, [1, 2]).map_err(|refusal| refusal.reason);
    let two = thread.join().unwrap();
    assert!(one.is_ok() ^ two.is_ok(), "there is one cell");
    let (winner, loser, refused) = if one.is_ok() { (1, 2, two) } else { (2, 1, one) };
    assert_eq!(refused.unwrap_err(), Reason::TableFull);
    buckets.audit();
    assert_eq!((buckets.peek(winner), buckets.peek(loser), buckets.buckets()), ([2, 3], [3, 5], 2));
}

/// A clock whose reads the checker sees.
struct ModelClock(Arc<AtomicU64>);
impl Clock for ModelClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

fn clock_after_word() {
    let time = Arc::new(AtomicU64::new(9));
    let buckets = Arc::new(
        Limiter::<u8>::builder(per_turn(2)).bucket_cap(2).clock(ModelClock(time.clone())).build().unwrap(),
    );
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    // At 9 one token is left; from 10 on there are two. Whenever the two draws come, both find one.
    let thread = thread::spawn(move || {
        time.store(10, Ordering::Release);
        other.check(&1).unwrap()
    });
    let mine = buckets.check(&1).unwrap();
    disjoint([mine, thread.join().unwrap()]);
    buckets.audit();
}

fn reconfigured() {
    let buckets = limiter(4, 2, &ManualClock::new());
    buckets.check_n(&1, 2).unwrap();
    let (changing, other) = (buckets.clone(), buckets.clone());
    let change = thread::spawn(move || changing.reconfigure(per_turn(2), Keep::Proportional).unwrap());
    let thread = thread::spawn(move || other.peek(&1));
    // One of two halves is left, before the change two tokens and after it one; rounded down with this draw.
    buckets.check(&1).unwrap();
    change.join().unwrap();
    assert!(thread.join().unwrap() <= 2);
    buckets.audit();
    assert_eq!(buckets.peek(&1), 0);
}

fn refusal_writes_nothing() {
    let clock = ManualClock::new();
    let buckets = limiter(2, 2, &clock);
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || {
        let refusal = other.check_n(&1, 2).unwrap_err();
        assert_eq!(refusal.reason, Reason::Exhausted);
        assert!(refusal.available <= 1);
    });
    buckets.check(&1).unwrap();
    thread.join().unwrap();
    buckets.audit();
    assert_eq!(buckets.peek(&1), 0);
}

/// Two keys whose entries look the same. (The checker's tables hash with fixed seeds.)
fn twins(buckets: &Limiter<u16>) -> (u16, u16) {
    static TWINS: OnceLock<(u16, u16)> = OnceLock::new();
    *TWINS.get_or_init(|| {
        let mut keys = HashMap::new();
        let twin = |key| keys.insert(buckets.fingerprint(key), key).map(|earlier| (earlier, key));
        (0..=u16::MAX).find_map(twin).expect("2^16 keys have twins among 2^22 fingerprints")
    })
}

fn other_key() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(per_turn(2)).bucket_cap(1).clock(clock.clone());
    let buckets: Arc<Limiter<u16>> = Arc::new(limiter.build().unwrap());
    let (one, two) = twins(&buckets);
    let drawn = buckets.check(&one).unwrap();
    clock.advance(TURN);
    // The only cell goes from one twin to the other while that one is looked up. Pruner and taker are two threads:
    // then only the taker's own fence stands between the former life and its key.
    let (taking, reading) = (buckets.clone(), buckets.clone());
    let taker = thread::spawn(move || taking.check(&two).is_ok());
    let reader = thread::spawn(move || reading.check_n(&two, 0).unwrap());
    buckets.prune_refilled();
    let taken = taker.join().unwrap();
    let seen = reader.join().unwrap();
    assert_ne!(seen.from, drawn.to, "one key was told the other's mark");
    buckets.audit();
    assert_eq!((buckets.peek(&one), buckets.peek(&two)), (2, if taken { 1 } else { 2 }));
}
