//! Some of three gauges taken from together, and given back to, while slots lapse.

use crate::books::threads;
use crate::explore::Mix;
use crate::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tollgate::model::Meters;
use tollgate::time::ManualClock;

pub const MIXES: &[Mix] = &[Mix {
    name: "gauges",
    proves: "no window holds more than there may be, and at rest each gauge counts to the unit what was taken and not given back",
    execution: run,
}];

const GAUGES: usize = 3;
const SLOT: Duration = Duration::from_nanos(10);

/// By gauge and slot.
type Sums = BTreeMap<(usize, u32), u64>;

fn run(random: &mut Random) -> usize {
    let clock = ManualClock::new();
    let (reach, most) = (random.below(4) as u32, 4 + random.below(12) as u64);
    let meters = Arc::new(Meters::new(GAUGES, reach, most, clock.clone()));
    let count = 3 + random.below(4);
    let choices: Vec<Random> = (0..count).map(|_| random.split()).collect();
    let operations = 20 + random.below(40);
    let (shared, time) = (meters.clone(), clock.clone());
    let kept = threads(count, move |thread| {
        let mut random = choices[thread].clone();
        let mut held: Vec<(Vec<(usize, u64)>, u32)> = Vec::new();
        for _ in 0..operations {
            match random.below(8) {
                0 => time.advance(SLOT * random.below(3) as u32),
                1..=3 if !held.is_empty() => {
                    let (takes, slot) = held.swap_remove(random.below(held.len()));
                    shared.give(&takes, slot);
                }
                _ => {
                    let first = random.below(GAUGES);
                    let takes: Vec<(usize, u64)> = (0..1 + random.below(GAUGES))
                        .map(|step| ((first + step) % GAUGES, 1 + random.below(3) as u64))
                        .collect();
                    held.extend(shared.take(&takes).map(|slot| (takes, slot)));
                }
            }
        }
        held
    });
    meters.audit();
    let mut sums = Sums::new();
    for (takes, slot) in kept.into_iter().flatten() {
        for (gauge, amount) in takes {
            *sums.entry((gauge, slot)).or_default() += amount;
        }
    }
    let window = |gauge: usize, last: u32| -> u64 {
        sums.range((gauge, last.saturating_sub(reach))..=(gauge, last)).map(|(_, amount)| amount).sum()
    };
    for &(gauge, slot) in sums.keys() {
        let held = window(gauge, slot);
        assert!(held <= most, "{held} of {most} in gauge {gauge} up to slot {slot}");
    }
    for gauge in 0..GAUGES {
        let now = meters.slot();
        assert_eq!(meters.used(gauge), window(gauge, now), "in gauge {gauge} at slot {now}");
    }
    count * operations
}
