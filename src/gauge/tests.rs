//! Gauges one thread at a time, against slots that are simply added up.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What is known of one gauge: what was used in each slot.
#[derive(Debug, Clone)]
struct Plain {
    reach: u32,
    slot: u32,
    used: BTreeMap<u32, u64>,
}

impl Plain {
    fn counting(&self) -> u64 {
        add_up(self.used.range(self.slot.saturating_sub(self.reach)..=self.slot).map(|(_, &used)| used))
    }
}

fn add_up(amounts: impl Iterator<Item = u64>) -> u64 {
    let sum: u128 = amounts.map(u128::from).sum();
    sum.min(u128::from(COUNTABLE)) as u64
}

/// Time passes, some is given back of what was used so many slots ago, and some is taken if that fits.
#[derive(Debug, Clone)]
struct Change {
    after: u32,
    give: Vec<(u32, u64)>,
    take: u64,
    limit: u64,
}

fn change() -> impl Strategy<Value = Change> {
    let after = prop_oneof![4 => 0..3u32, 1 => 0..200u32];
    let give = proptest::collection::vec((0..8u32, 0..40u64), 0..3);
    (after, give, 0..100u64, 0..500u64).prop_map(|(after, give, take, limit)| Change {
        after,
        give,
        take,
        limit,
    })
}

proptest! {
    #[test]
    fn gauges_count_what_the_slots_of_their_windows_add_up_to(
        reaches in proptest::collection::vec(prop_oneof![Just(0u32), Just(1), Just(3), Just(60)], 1..4),
        first in 0..500u32,
        before in proptest::collection::vec((0..70u32, 0..50u64), 0..6),
        changes in proptest::collection::vec(change(), 1..60),
        // With the second one gauges come to more than they count.
        scale in prop_oneof![Just(1u64), Just(1 << 54)],
    ) {
        let used: BTreeMap<u32, u64> =
            before.iter().map(|&(ago, amount)| (first.saturating_sub(ago), amount * scale)).collect();
        let mut plain: Vec<Plain> =
            reaches.iter().map(|&reach| Plain { reach, slot: first, used: used.clone() }).collect();
        let starts = plain.iter().map(|plain| Start {
            reach: plain.reach,
            slot: first,
            used: plain.used.clone().into_iter().collect(),
        });
        let gauges = Gauges::new(starts);
        let mut slot = first;
        for Change { after, give, take, limit } in changes {
            let (take, limit) = (take * scale, limit * scale);
            slot += after;
            let give: Vec<(u32, u64)> =
                give.iter().map(|&(ago, amount)| (slot.saturating_sub(ago), amount * scale)).collect();
            // Nobody gives back more of a slot than was taken in it.
            let mut left = plain.clone();
            let mut kept: Vec<Vec<(u32, u64)>> = vec![Vec::new(); left.len()];
            for (number, plain) in left.iter_mut().enumerate() {
                plain.slot = slot;
                for &(at, amount) in &give {
                    let used = plain.used.entry(at).or_default();
                    let amount = amount.min(*used);
                    // Where more was used than is counted, no less is until it lapses.
                    *used -= if *used < COUNTABLE { amount } else { 0 };
                    kept[number].push((at, amount));
                }
            }
            let postings: Vec<Posting<'_>> = kept
                .iter()
                .enumerate()
                .map(|(number, give)| Posting { gauge: gauges.gauge(number), give: give.clone().into() })
                .collect();
            let (_, taken) = post(&postings, || slot, |_, &slot| slot, |_, seen| {
                for (seen, plain) in seen.iter().zip(&left) {
                    assert_eq!((seen.slot, seen.used), (slot, plain.counting()));
                }
                match seen.iter().position(|seen| seen.used + take > limit) {
                    Some(number) => Err((number, number)),
                    None => Ok((seen.iter().map(|_| take).collect(), ())),
                }
            });
            let full = left.iter().position(|plain| plain.counting() + take > limit);
            prop_assert_eq!(taken.err(), full);
            if full.is_none() {
                for plain in &mut left {
                    let used = plain.used.entry(slot).or_default();
                    *used = add_up([*used, take].into_iter());
                }
                plain = left;
            }
            (0..gauges.len()).for_each(|number| gauges.gauge(number).audit());
        }
    }

    #[cfg(feature = "spend")]
    #[test]
    fn a_gauge_knows_with_which_slot_enough_has_lapsed(
        amounts in proptest::collection::vec(0..20u64, 1..80),
        much in 1..200u64,
    ) {
        let used: Vec<(u32, u64)> = (100..).zip(amounts.iter().copied()).collect();
        let slot = 99 + amounts.len() as u32;
        let gauges = Gauges::new([Start { reach: 60, slot, used: used.clone() }]);
        let posting = [Posting { gauge: gauges.gauge(0), give: SmallVec::new() }];
        let (_, frees) = post(&posting, || slot, |_, &slot| slot, |_, seen| Ok::<_, (usize, ())>((Takes::from_elem(0, 1), seen[0].frees(much))));
        let mut freed = 0;
        let expected = used.iter().filter(|(at, _)| at + 60 >= slot).find_map(|&(at, amount)| {
            freed += amount;
            (freed >= much).then_some(at)
        });
        prop_assert_eq!(frees, Ok(expected));
    }
}
