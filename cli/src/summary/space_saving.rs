//! The most frequent keys of a stream, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient
//! computation of frequent and top-k elements in data streams", 2005).
//!
//! A fixed number of counters; a key without one takes over the smallest and inherits its count as error. After
//! `n` observations with `m` counters:
//! - a listed key was seen at most `count` and at least `count - error` times;
//! - a key that is not listed was seen at most [`SpaceSaving::unlisted_at_most`] times, which is at most `n / m`.

use std::collections::HashMap;

/// A counted key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heavy<'a> {
    pub key: &'a [u8],
    /// At most so often was it seen.
    pub count: u64,
    /// By so much may `count` be too high.
    pub error: u64,
}

#[derive(Debug)]
struct Counter {
    key: Box<[u8]>,
    count: u64,
    error: u64,
    /// Its place in `heap`.
    place: usize,
}

/// The sketch.
#[derive(Debug)]
pub struct SpaceSaving {
    most: usize,
    counters: Vec<Counter>,
    /// Indexes of `counters`, the smallest count first (a binary heap).
    heap: Vec<usize>,
    by_key: HashMap<Box<[u8]>, usize>,
}

impl SpaceSaving {
    /// A sketch of `most` counters, 1 or more.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), counters: Vec::new(), heap: Vec::new(), by_key: HashMap::new() }
    }

    /// Counts `key` once more.
    pub fn observe(&mut self, key: &[u8]) {
        let index = match self.by_key.get(key) {
            Some(&index) => index,
            None if self.counters.len() < self.most => self.add(key),
            None => self.take_over(key),
        };
        self.counters[index].count += 1;
        self.sink(self.counters[index].place);
    }

    /// The `top` most frequent keys, the most frequent first; ties by key.
    pub fn top(&self, top: usize) -> Vec<Heavy<'_>> {
        let mut all: Vec<_> = self.counters.iter().collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        let heavy = |counter: &'_ Counter| (counter.count, counter.error);
        all.into_iter()
            .take(top)
            .map(|counter| {
                let (count, error) = heavy(counter);
                Heavy { key: &counter.key, count, error }
            })
            .collect()
    }

    /// A key that is not counted was seen at most so often.
    pub fn unlisted_at_most(&self) -> u64 {
        if self.counters.len() < self.most { 0 } else { self.counters[self.heap[0]].count }
    }

    fn add(&mut self, key: &[u8]) -> usize {
        let index = self.counters.len();
        // A count of 0 is the smallest there is, so the heap's order asks for the top.
        self.heap.push(index);
        self.counters.push(Counter { key: key.into(), count: 0, error: 0, place: index });
        self.by_key.insert(key.into(), index);
        self.rise(index);
        index
    }

    fn take_over(&mut self, key: &[u8]) -> usize {
        let index = self.heap[0];
        let counter = &mut self.counters[index];
        self.by_key.remove(&counter.key);
        counter.key = key.into();
        counter.error = counter.count;
        self.by_key.insert(key.into(), index);
        index
    }

    fn count_at(&self, place: usize) -> u64 {
        self.counters[self.heap[place]].count
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.counters[self.heap[a]].place = a;
        self.counters[self.heap[b]].place = b;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.count_at(parent) <= self.count_at(place) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let smaller = match right < self.heap.len() && self.count_at(right) < self.count_at(left) {
                true => right,
                false => left,
            };
            if self.count_at(place) <= self.count_at(smaller) {
                return;
            }
            self.swap(place, smaller);
            place = smaller;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut sketch = SpaceSaving::new(4);
        for key in ["a", "b", "a", "c", "a", "b"] {
            sketch.observe(key.as_bytes());
        }
        let top: Vec<_> =
            sketch.top(2).into_iter().map(|heavy| (heavy.key, heavy.count, heavy.error)).collect();
        assert_eq!(top, [(&b"a"[..], 3, 0), (&b"b"[..], 2, 0)]);
        assert_eq!(sketch.unlisted_at_most(), 0);
    }

    #[test]
    fn a_frequent_key_survives_a_flood_of_rare_ones() {
        let mut sketch = SpaceSaving::new(10);
        for number in 0..10_000u32 {
            sketch.observe(&number.to_be_bytes());
            if number % 5 == 0 {
                sketch.observe(b"frequent");
            }
        }
        let top = sketch.top(1);
        assert_eq!(top[0].key, b"frequent");
        assert!(top[0].count - top[0].error <= 2_000 && 2_000 <= top[0].count);
    }

    proptest! {
        #[test]
        fn counts_bracket_the_truth_and_the_error_is_bounded(
            keys in proptest::collection::vec(0u8..40, 0..400),
            most in 1usize..20,
        ) {
            let mut sketch = SpaceSaving::new(most);
            let mut truth = HashMap::new();
            for key in &keys {
                sketch.observe(&[*key]);
                *truth.entry(*key).or_insert(0u64) += 1;
            }
            let all = sketch.top(usize::MAX);
            prop_assert!(all.len() <= most);
            prop_assert_eq!(all.iter().map(|heavy| heavy.count).sum::<u64>(), keys.len() as u64);
            for heavy in &all {
                let seen = truth[&heavy.key[0]];
                prop_assert!(heavy.count - heavy.error <= seen && seen <= heavy.count);
            }
            let bound = sketch.unlisted_at_most();
            prop_assert!(bound <= keys.len() as u64 / most as u64);
            for (key, seen) in truth {
                let listed = all.iter().any(|heavy| heavy.key == [key]);
                prop_assert!(listed || seen <= bound, "key {} seen {} times, bound {}", key, seen, bound);
            }
        }
    }
}
