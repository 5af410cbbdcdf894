//! The gate in front of a search for free cells: it makes a refusal cost the same at any table size.
//!
//! A gate holds the earliest time at which a search behind it can find anything. A shard's gate stands before a
//! scan of the shard's cells, the table's gate before a walk over all shards. Before that time a newcomer is
//! refused without searching.
//!
//! Whoever searches takes a ticket first and, having found nothing, raises the gate to what it saw, if no one
//! touched the gate since. Whoever makes something findable earlier (a drawn bucket that will refill, a cell
//! given back) makes it visible first and lowers the gate afterwards, which changes its version even if the
//! time is low already. So a search either sees the change or fails to raise the gate over it.

use crate::sync::{AtomicBits, Bits, Ordering, seeded_bug};

const TIME: u32 = Bits::BITS / 2;

/// A version and a time in one word.
#[derive(Debug)]
pub(crate) struct Gate(AtomicBits);

/// The right to raise the gate, if it is still as it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(Bits);

/// "Never": nothing behind the gate will become findable by itself.
pub(crate) const NEVER: u64 = u64::MAX;

fn time(bits: Bits) -> u64 {
    let low = (bits & ((1 << TIME) - 1)) as u64;
    // The model's narrow time keeps "never" as its own greatest value.
    if u64::BITS > TIME && low == (1u64 << (TIME % 64)) - 1 { NEVER } else { low }
}

fn pack(version: Bits, time: u64) -> Bits {
    let most: Bits = (1 << TIME) - 1;
    version << TIME | Bits::from(time).min(most)
}

impl Gate {
    /// Open from `time` on.
    pub(crate) fn new(time: u64) -> Self {
        Self(AtomicBits::new(pack(0, time)))
    }

    /// A ticket, if a search at `now` can find anything.
    pub(crate) fn open(&self, now: u64) -> Option<Ticket> {
        // Acquire: what was made findable before the gate was lowered is visible to the search.
        let bits = self.0.load(Ordering::Acquire);
        (now >= time(bits)).then_some(Ticket(bits))
    }

    /// The gate as it is, if it opens at some time only: for [`was_shut_since`](Self::was_shut_since).
    #[inline]
    pub(crate) fn shut(&self) -> Option<Ticket> {
        let bits = self.0.load(Ordering::Acquire);
        (time(bits) > 0).then_some(Ticket(bits))
    }

    /// Was there nothing to be found from `ticket` on up to `now`? Nobody touched the gate, and its time is later.
    #[inline]
    pub(crate) fn was_shut_since(&self, ticket: Ticket, now: u64) -> bool {
        self.0.load(Ordering::Acquire) == ticket.0 && now < time(ticket.0)
    }

    /// The time from which on a search can find anything.
    pub(crate) fn earliest(&self) -> u64 {
        time(self.0.load(Ordering::Acquire))
    }

    /// Something becomes findable at `at`. Call after it was made visible.
    pub(crate) fn lower(&self, at: u64) {
        let mut bits = self.0.load(Ordering::Relaxed);
        loop {
            if seeded_bug!("gate-not-bumped") && time(bits) <= at {
                return;
            }
            let next = pack((bits >> TIME).wrapping_add(1), time(bits).min(at));
            // Release: pairs with the acquire in `open`.
            match self.0.compare_exchange_weak(bits, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => bits = found,
            }
        }
    }

    /// A search with `ticket` found nothing that is findable before `earliest`.
    pub(crate) fn raise(&self, ticket: Ticket, earliest: u64) {
        let next = pack((ticket.0 >> TIME).wrapping_add(1), earliest);
        if seeded_bug!("gate-raised-blindly") {
            return self.0.store(next, Ordering::Release);
        }
        // A failure means that the gate was touched since: then the next newcomer searches again.
        let _ = self.0.compare_exchange(ticket.0, next, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_gate_opens_at_its_time_and_not_before() {
        let gate = Gate::new(NEVER);
        assert!(gate.open(u64::MAX - 1).is_none());
        gate.lower(10);
        assert!(gate.open(9).is_none());
        assert!(gate.open(10).is_some());
    }

    #[test]
    fn a_gate_that_was_touched_or_whose_time_came_was_not_shut() {
        let gate = Gate::new(10);
        let ticket = gate.shut().unwrap();
        assert!(gate.was_shut_since(ticket, 9));
        assert!(!gate.was_shut_since(ticket, 10));
        gate.lower(20); // not lower than it is, and still a change
        assert!(!gate.was_shut_since(ticket, 9));
        gate.lower(0);
        assert!(gate.shut().is_none());
    }

    #[test]
    fn a_search_that_missed_a_change_cannot_raise_the_gate() {
        let gate = Gate::new(0);
        let ticket = gate.open(5).unwrap();
        gate.lower(7); // not lower than it is, and still a change
        gate.raise(ticket, NEVER);
        assert_eq!(gate.earliest(), 0);
        let ticket = gate.open(5).unwrap();
        gate.raise(ticket, NEVER);
        assert_eq!(gate.earliest(), NEVER);
    }
}
