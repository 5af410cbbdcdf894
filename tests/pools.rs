//! One provider's quota in pools.

use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use tollgate::limiter::{Pooled, Pools, PoolsBuilder, Share};
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{Limiter, Reason};

const INTERACTIVE: usize = 0;
const BACKGROUND: usize = 1;
const EVALUATION: usize = 2;
const SHARES: [u32; 3] = [70, 20, 10];

fn pools(quota: Quota, clock: &ManualClock) -> PoolsBuilder<str> {
    let names = ["interactive", "background", "evaluation"];
    let pools = Pools::builder(quota).clock(clock.clone());
    names
        .into_iter()
        .zip(SHARES)
        .fold(pools, |pools, (name, share)| pools.pool(name, Share::percent(share).unwrap()))
}

#[test]
fn each_pool_is_sure_of_its_share_rounded_down() {
    let clock = ManualClock::new();
    let pools = pools(Quota::per_minute(99), &clock).build().unwrap();
    assert_eq!([0, 1, 2].map(|pool| pools.peek(pool, "p")), [69, 19, 9]);
    for (pool, all) in [(BACKGROUND, 19), (EVALUATION, 9), (INTERACTIVE, 69)] {
        assert_eq!(pools.check_n(pool, "p", all).unwrap(), Pooled { own: all, borrowed: 0 });
        assert!(pools.check_n(pool, "p", 1).is_err());
    }
    // The rate is the exact share: 99 * 0.7 a minute.
    clock.advance(Duration::from_secs(600));
    assert_eq!(pools.peek(INTERACTIVE, "p"), 69);
    pools.check_n(INTERACTIVE, "p", 69).unwrap();
    let wait = pools.check_n(INTERACTIVE, "p", 69).unwrap_err().retry_after.unwrap();
    let exact = Duration::from_nanos((69 * 60_000_000_000u64 * 10).div_ceil(99 * 7));
    assert!(wait >= exact && wait - exact < Duration::from_micros(2), "{wait:?}, {exact:?}");
}

#[test]
fn what_is_idle_is_lent_and_an_owner_waits_for_its_own_cost_at_most() {
    let clock = ManualClock::new();
    let pools = pools(Quota::per_minute(100), &clock).lending(true).build().unwrap();
    // Those of the lowest priority lend first.
    assert_eq!(pools.check_n(BACKGROUND, "p", 20).unwrap(), Pooled { own: 20, borrowed: 0 });
    assert_eq!(pools.check_n(BACKGROUND, "p", 15).unwrap(), Pooled { own: 0, borrowed: 15 });
    assert_eq!([0, 1, 2].map(|pool| pools.peek(pool, "p")), [65, 0, 0]);
    while pools.check_n(BACKGROUND, "p", 20).is_ok() {}
    let left = pools.peek(INTERACTIVE, "p");
    assert!(left < 20, "{left} were not lent");
    let wait = pools.check_n(INTERACTIVE, "p", 7).err().map_or(Duration::ZERO, |r| r.retry_after.unwrap());
    assert!(wait <= Duration::from_secs(6), "7 tokens at 70 a minute: {wait:?}");
}

#[test]
fn who_is_ahead_and_waits_borrows_before_those_below() {
    let clock = ManualClock::new();
    let pools = pools(Quota::per_minute(100), &clock).lending(true).build().unwrap();
    pools.check_n(INTERACTIVE, "p", 70).unwrap();
    pools.check_n(BACKGROUND, "p", 20).unwrap();
    pools.check_n(EVALUATION, "p", 1).unwrap();
    // 10 of interactive are not to be had (9 are idle elsewhere): it waits.
    assert!(pools.check_n(INTERACTIVE, "p", 10).is_err());
    // So background may not borrow what evaluation has, and interactive may.
    assert!(pools.check_n(BACKGROUND, "p", 5).is_err());
    assert_eq!(pools.check_n(INTERACTIVE, "p", 9).unwrap(), Pooled { own: 0, borrowed: 9 });
    assert!(pools.check_n(BACKGROUND, "another key", 25).is_err(), "a cost above its capacity");
    assert_eq!(pools.check_n(BACKGROUND, "another key", 20).unwrap().borrowed, 0);
    assert_eq!(pools.check_n(BACKGROUND, "another key", 5).unwrap().borrowed, 5, "nobody waits for that key");
    // The wait that interactive was told for its 10 tokens is over.
    clock.advance(Duration::from_millis(8_572));
    pools.check_n(BACKGROUND, "p", 2).unwrap();
    assert_eq!(pools.check_n(BACKGROUND, "p", 2).unwrap().borrowed, 2);
}

#[test]
fn a_cost_above_the_pools_own_capacity_is_impossible_and_drains_nobody() {
    let clock = ManualClock::new();
    let pools = pools(Quota::per_minute(100), &clock).lending(true).build().unwrap();
    assert_eq!(pools.check_n(EVALUATION, "p", 11).unwrap_err().reason, Reason::Impossible);
    assert_eq!([0, 1, 2].map(|pool| pools.peek(pool, "p")), [70, 20, 10]);
}

#[test]
fn shares_above_the_whole_or_below_a_token_are_refused() {
    let quota = Quota::per_minute(9);
    let build = |percents: &[u32]| {
        let pools = Pools::<str>::builder(quota);
        percents.iter().fold(pools, |pools, &p| pools.pool("p", Share::percent(p).unwrap())).build()
    };
    assert_eq!(build(&[]).unwrap_err().field, "pools");
    assert_eq!(build(&[70, 20, 11]).unwrap_err().field, "shares");
    assert_eq!(build(&[70, 10]).unwrap_err().field, "share", "a tenth of 9 is no token");
    assert!(build(&[70, 30]).is_ok());
    let thirds =
        (0..3).fold(Pools::<str>::builder(quota), |pools, _| pools.pool("t", Share::of(1, 3).unwrap()));
    assert!(thirds.build().is_ok(), "three thirds are the whole, exactly");
}

proptest! {
    #[test]
    fn all_pools_together_stay_within_the_one_quota(
        calls in prop::collection::vec((0usize..3, 1u64..12, 0u64..2_000_000_000), 1..200), lending: bool
    ) {
        let clock = ManualClock::new();
        let quota = Quota::per_minute(60).burst(20);
        let pools = pools(quota, &clock).lending(lending).build().unwrap();
        // What the one quota would have said to what was admitted: it must have said yes to all of it.
        let whole = Limiter::<str>::builder(quota).clock(clock.clone()).build().unwrap();
        for (pool, cost, wait) in calls {
            clock.advance(Duration::from_nanos(wait));
            match pools.check_n(pool, "p", cost) {
                Ok(pooled) => {
                    prop_assert_eq!(pooled.own + pooled.borrowed, cost);
                    prop_assert!(lending || pooled.borrowed == 0);
                    prop_assert!(whole.check_n("p", cost).is_ok(), "{} at {}", cost, clock.now());
                }
                Err(refusal) if refusal.reason == Reason::Exhausted => {
                    // Never longer than the pool's own share takes to make the cost.
                    let most = cost * 60_000_000_000 * 100 / (60 * u64::from(SHARES[pool])) + 1_000;
                    prop_assert!(refusal.retry_after.unwrap() <= Duration::from_nanos(most));
                }
                Err(refusal) => prop_assert_eq!(refusal.reason, Reason::Impossible),
            }
        }
    }
}

/// Real LLM traffic, and an evaluation suite of 12 workers beside it.
mod flood {
    use super::*;

    /// Conversations of the trace that are replayed: about a quarter of an hour of it.
    const TAKEN: usize = 5_000;

    /// Arrival in nanoseconds, and tokens.
    fn conversations() -> Vec<(u64, u64)> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/traces/azure-llm-conv-2023.csv");
        let text = std::fs::read_to_string(file).unwrap();
        let calls: Vec<(u64, u64)> = text.lines().skip(1).take(TAKEN).map(call).collect();
        let first = calls[0].0;
        calls.into_iter().map(|(at, tokens)| (at - first, tokens)).collect()
    }

    fn call(line: &str) -> (u64, u64) {
        let fields: Vec<&str> = line.trim().split(',').collect();
        // 2023-11-16 18:15:46.6805900: all of one day.
        let time = fields[0].split_once(' ').unwrap().1;
        let parts: Vec<f64> = time.split(':').map(|part| part.parse().unwrap()).collect();
        let seconds = parts[0] * 3_600.0 + parts[1] * 60.0 + parts[2];
        let tokens: u64 = fields[1..].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        ((seconds * 1e9) as u64, tokens)
    }

    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Who {
        Conversation(usize),
        Worker(usize),
    }

    /// Each conversation's delay, and how many calls the workers got through. Whoever is refused comes back at the hint.
    fn simulate(
        workers: usize,
        mut ask: impl FnMut(Who, u64) -> Option<Duration>,
        clock: &ManualClock,
    ) -> (Vec<u64>, u64) {
        const SUITE_CALL: u64 = 4_000;
        let conversations = conversations();
        let mut delays = vec![0; conversations.len()];
        let mut by_workers = 0;
        let mut queue: BinaryHeap<Reverse<(u64, Who)>> = BinaryHeap::new();
        queue.extend(
            conversations.iter().enumerate().map(|(i, &(at, _))| Reverse((at, Who::Conversation(i)))),
        );
        queue.extend((0..workers).map(|worker| Reverse((0, Who::Worker(worker)))));
        let end = conversations.last().unwrap().0 + 60_000_000_000;
        while let Some(Reverse((at, who))) = queue.pop() {
            clock.set(at);
            let cost = match who {
                Who::Conversation(index) => conversations[index].1,
                Who::Worker(_) => SUITE_CALL,
            };
            match (ask(who, cost), who) {
                (Some(wait), _) if at < end => queue.push(Reverse((at + wait.as_nanos() as u64, who))),
                (Some(_), Who::Conversation(index)) => delays[index] = u64::MAX,
                (Some(_), Who::Worker(_)) => {}
                (None, Who::Conversation(index)) => delays[index] = at - conversations[index].0,
                (None, Who::Worker(_)) => {
                    by_workers += 1;
                    // The next one as soon as this one is answered.
                    if at < end {
                        queue.push(Reverse((at + 100_000_000, who)));
                    }
                }
            }
        }
        (delays, by_workers)
    }

    /// Enough for the conversations in 0.70 of it, with some to spare.
    fn provider() -> Quota {
        Quota::per_minute(1_000_000)
    }

    fn in_pools(workers: usize, lending: bool) -> (Vec<u64>, u64) {
        let clock = ManualClock::new();
        let pools = pools(provider(), &clock).lending(lending).build().unwrap();
        let ask = |who: Who, cost: u64| {
            let pool = if matches!(who, Who::Worker(_)) { EVALUATION } else { INTERACTIVE };
            pools
                .check_n(pool, "provider", cost)
                .err()
                .map(|refusal| refusal.retry_after.expect("a wait helps"))
        };
        simulate(workers, ask, &clock)
    }

    fn in_one_bucket(workers: usize) -> (Vec<u64>, u64) {
        let clock = ManualClock::new();
        let bucket = Limiter::<str>::builder(provider()).clock(clock.clone()).build().unwrap();
        let ask = |_: Who, cost: u64| bucket.check_n("provider", cost).err().map(|r| r.retry_after.unwrap());
        simulate(workers, ask, &clock)
    }

    fn delayed(delays: &[u64]) -> usize {
        delays.iter().filter(|&&delay| delay > 0).count()
    }

    /// On the whole trace (19,366 conversations, 58 minutes): none is delayed alone, none beside the suite in pools, and 7,361
    /// beside it in one bucket.
    #[test]
    fn does_not_delay_one_conversation() {
        let (alone, _) = in_pools(0, false);
        let (beside, by_workers) = in_pools(12, false);
        assert_eq!(alone, beside);
        assert!(by_workers > 300, "the suite got through {by_workers} calls");
        // Without pools it does.
        let (shared, _) = in_one_bucket(12);
        assert!(delayed(&shared) > 10 * delayed(&alone).max(1), "{} of {}", delayed(&shared), shared.len());
    }

    #[test]
    fn gets_more_done_with_lending_and_delays_nobody_past_its_own_share() {
        let (_, without) = in_pools(12, false);
        let (delays, with) = in_pools(12, true);
        assert!(with > without + without / 2, "{with} calls with lending, {without} without");
        // A call of c tokens waits for c / (0.7 * rate) at most each time it asks, and few have to ask twice.
        let longest = conversations().iter().map(|&(_, cost)| cost).max().unwrap();
        let once = longest * 60_000_000_000 * 10 / (7 * 1_000_000);
        let over = delays.iter().filter(|&&delay| delay > once).count();
        assert!(
            over * 100 < delays.len(),
            "{over} of {} conversations waited for more than one share",
            delays.len()
        );
    }
}
