//! Grants and what became of them.

use super::record::State;
use std::collections::HashMap;

/// A number for a grant that fits where many are kept.
pub type Index = u32;

/// What became of a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Held,
    Emitted,
    Refunded,
    Forfeited,
}

/// A grant.
#[derive(Debug, Clone)]
pub struct Grant {
    pub t: u64,
    pub cost: u64,
    pub owner: u32,
    /// Where its draws begin in [`Permits::draws`]; there is one for each quota of its effect.
    pub draws: usize,
    pub ticket: Option<u64>,
    pub end: End,
}

/// A deferred row.
#[derive(Debug)]
struct Ticket {
    owner: u32,
    cost: u64,
    emitted: bool,
}

/// All grants and deferred rows.
#[derive(Debug, Default)]
pub struct Permits {
    by_number: HashMap<u64, Index>,
    pub grants: Vec<Grant>,
    /// The states in which the draws ended.
    pub draws: Vec<State>,
    tickets: HashMap<u64, Ticket>,
}

impl Permits {
    /// Takes in a grant with a number of its own.
    ///
    /// # Errors
    /// The number is taken, or there are too many.
    pub fn add(&mut self, number: u64, grant: Grant) -> Result<Index, String> {
        let index = Index::try_from(self.grants.len()).ok().filter(|&index| index != Index::MAX);
        let index = index.ok_or("more grants than can be checked at once")?;
        if self.by_number.insert(number, index).is_some() {
            return Err(format!("grant {number} was made before"));
        }
        self.grants.push(grant);
        Ok(index)
    }

    /// The grant with that number, which is held by `owner` at `t`. It ends here, as `end`.
    ///
    /// # Errors
    /// There is none, it is another's, it ended before, or it comes later.
    pub fn end(&mut self, number: u64, owner: u32, t: u64, end: End) -> Result<Index, String> {
        let index =
            *self.by_number.get(&number).ok_or_else(|| format!("there is no grant {number} before it"))?;
        let grant = &mut self.grants[index as usize];
        if grant.owner != owner {
            return Err(format!("grant {number} was made to another effect or key"));
        }
        match grant.end {
            End::Held => grant.end = end,
            End::Emitted => return Err(format!("grant {number} was emitted before")),
            End::Refunded => return Err(format!("grant {number} was refunded before")),
            End::Forfeited => return Err(format!("grant {number} was forfeited before")),
        }
        if t < grant.t {
            return Err(format!("grant {number} was made at {}, after it", grant.t));
        }
        Ok(index)
    }

    /// Notes that a record speaks of a deferred row.
    ///
    /// # Errors
    /// The same ticket names a row of another effect, key or cost.
    pub fn ticket(&mut self, number: u64, owner: u32, cost: u64) -> Result<(), String> {
        let known = self.tickets.entry(number).or_insert(Ticket { owner, cost, emitted: false });
        if (known.owner, known.cost) == (owner, cost) {
            return Ok(());
        }
        Err(format!("ticket {number} names a call of another effect, key or cost"))
    }

    /// Notes that a deferred row was emitted.
    ///
    /// # Errors
    /// It was before.
    pub fn emit_ticket(&mut self, number: u64) -> Result<(), String> {
        match self.tickets.get_mut(&number) {
            Some(ticket) if ticket.emitted => {
                Err(format!("the call with ticket {number} was emitted before"))
            }
            Some(ticket) => {
                ticket.emitted = true;
                Ok(())
            }
            None => Ok(()), // every grant's ticket was noted
        }
    }

    /// How many grants ended so.
    pub fn count(&self, end: End) -> u64 {
        self.grants.iter().filter(|grant| grant.end == end).count() as u64
    }
}
