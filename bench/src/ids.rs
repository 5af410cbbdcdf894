//! Identifiers as callers have them: 36 characters, in the shape of a UUID.

use std::fmt::Write;

/// The length of every identifier.
pub const LENGTH: usize = 36;

/// What an identifier is of, so that different kinds never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A capability that has a bucket.
    Capability = 0xcab,
    /// An agent.
    Agent = 0xa9e,
    /// A capability that never had a bucket.
    Newcomer = 0x4e3,
}

/// Writes the identifier of number `number` over what `id` holds, in its own memory.
pub fn write(id: &mut String, kind: Kind, number: u64) {
    id.clear();
    // An odd factor: different numbers have different products, and their digits differ from the first one on.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (high, middle, low) = (mixed >> 32, mixed >> 16 & 0xffff, mixed & 0xffff);
    // Writing to a String cannot fail.
    let _ = write!(id, "{high:08x}-{middle:04x}-4{:03x}-{low:04x}-{:012x}", kind as u32, number >> 16);
}

/// The identifier of number `number`.
pub fn id(kind: Kind, number: u64) -> String {
    let mut id = String::with_capacity(LENGTH);
    write(&mut id, kind, number);
    id
}

/// The numbers below `count` in a random order that only `seed` determines (Fisher and Yates, with SplitMix64).
pub fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut state = seed;
    for place in (1..numbers.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        numbers.swap(place, ((mixed ^ mixed >> 31) % (place as u64 + 1)) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn identifiers_have_36_characters_and_differ() {
        let kinds = [Kind::Capability, Kind::Agent, Kind::Newcomer];
        let numbers = (0..1_000).chain([1 << 16, 1 << 32, u64::MAX]);
        let ids: Vec<_> = numbers.flat_map(|number| kinds.map(|kind| id(kind, number))).collect();
        assert!(ids.iter().all(|id| id.len() == LENGTH), "{ids:?}");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }

    #[test]
    fn an_order_has_every_number_once_and_depends_on_its_seed() {
        let (first, second) = (shuffled(1_000, 1), shuffled(1_000, 2));
        assert_ne!(first, second);
        assert_eq!(first, shuffled(1_000, 1));
        let mut sorted = first;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1_000).collect::<Vec<_>>());
    }
}
