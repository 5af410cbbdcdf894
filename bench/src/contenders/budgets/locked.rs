//! What one writes without a library: sums in a map behind a mutex. They are neither held nor durable, and no window rolls.

use crate::call::{COST, Call};
use crate::subject::{Build, Capacity};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
struct Sums {
    runs: HashMap<String, u64, ahash::RandomState>,
    users: HashMap<String, u64, ahash::RandomState>,
    team: u64,
    global: u64,
}

impl Sums {
    /// Adds a call to all sums, if it fits into all.
    fn admit(&mut self, call: &Call, capacity: Capacity) -> bool {
        let of = |sums: &HashMap<String, u64, _>, key: &str| sums.get(key).copied().unwrap_or_default();
        let (run, user) = (call.id(), &call.request.agent_id);
        let fits = of(&self.runs, run) + COST <= capacity.key * COST
            && of(&self.users, user) + COST <= capacity.agent * COST;
        if fits {
            for (sums, key) in [(&mut self.runs, run), (&mut self.users, user)] {
                match sums.get_mut(key) {
                    Some(sum) => *sum += COST,
                    None => drop(sums.insert(key.clone(), COST)),
                }
            }
            self.team += COST;
            self.global += COST;
        }
        fits
    }
}

/// One mutex around all sums.
pub fn sums() -> Build {
    Box::new(|capacity| {
        let sums = Mutex::new(Sums::default());
        Ok(Box::new(move |call: &Call| {
            sums.lock().unwrap_or_else(PoisonError::into_inner).admit(call, capacity)
        }))
    })
}
