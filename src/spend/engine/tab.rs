//! The tab of one hold: what each operation makes of it. Pure: nothing here touches gauges or stores.

use crate::spend::amount::{AmountError, DIMENSIONS, Dimension, Quantities};
use crate::spend::books::{Books, Entry};
use crate::spend::policy::OnExpiry;
use crate::spend::record::{HoldState, Millis, Move, Part, Phase, Settlement};

/// How many parts of a hold are kept apart whatever the policy: it is written whole at every step.
const APART: usize = 64;

/// What an operation changes besides the hold itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Effects {
    /// Changes of the books that belong to parts of the hold. An overrun is not among them: its instant is not known yet.
    pub(crate) moves: Vec<Move>,
    /// What goes back to the gauges: what was taken at which instant.
    pub(crate) back: Vec<(Millis, Quantities)>,
    /// What is no longer set aside.
    pub(crate) unheld: Quantities,
    /// What was used beyond the hold.
    pub(crate) overrun: Quantities,
}

impl HoldState {
    /// What is still set aside, or counts as used since the hold expired.
    pub fn left(&self) -> Quantities {
        let mut left = Quantities::NONE;
        for (dimension, amount) in self.parts.iter().flat_map(|part| part.left.iter()) {
            left[dimension] = left[dimension].saturating_add(amount);
        }
        left
    }

    fn is_late(&self) -> bool {
        self.phase == Phase::Expired
    }

    /// More set aside, at `at`. The first [`APART`] parts are told apart, since a window that is added to the policy later may ask
    /// when each was taken. From then on one is joined to the part before if `same_windows` says that their instants lie in the
    /// same slots of all limits.
    pub(crate) fn set_aside(
        &mut self,
        at: Millis,
        amounts: &Quantities,
        same_windows: impl Fn(Millis) -> bool,
    ) -> Move {
        let mut books = Books::default();
        books.add(amounts, |entry| &mut entry.reserved);
        let apart = self.parts.len() >= APART;
        match self.parts.last_mut() {
            Some(last) if last.at == at || (apart && same_windows(last.at)) => {
                if let Some(sum) = last.left.checked_add(amounts) {
                    last.left = sum;
                    return Move { at: last.at, books };
                }
                self.parts.push(Part { at, left: *amounts });
            }
            _ if amounts.is_none() => {}
            _ => self.parts.push(Part { at, left: *amounts }),
        }
        Move { at, books }
    }

    /// `used` was used: of the oldest parts first, and beyond them as an overrun.
    ///
    /// # Errors
    /// Sums that no longer fit; nothing was changed.
    pub(crate) fn use_up(&mut self, used: &Quantities) -> Result<Effects, AmountError> {
        let mut used = *used;
        used[Dimension::Runs] = 0; // they are given back, whatever is said
        let mut effects = Effects::default();
        let total = self.used.checked_add(&used).ok_or_else(|| overflow(&self.used, &used))?;
        let late = self.is_late();
        let mut rest = used;
        for part in &mut self.parts {
            let taken = part.left.min(&rest);
            if taken.is_none() {
                continue;
            }
            part.left = part.left.saturating_sub(&taken);
            rest = rest.saturating_sub(&taken);
            let mut books = Books::default();
            books.add(&taken, |entry| &mut entry.settled);
            if late {
                books.take(&taken, |entry| &mut entry.expired);
            } else {
                effects.unheld =
                    effects.unheld.checked_add(&taken).ok_or_else(|| overflow(&taken, &taken))?;
            }
            effects.moves.push(Move { at: part.at, books });
        }
        // Or a hold that is extended and charged for days would grow with every step.
        self.parts.retain(|part| !part.left.is_none());
        self.overrun = self.overrun.checked_add(&rest).ok_or_else(|| overflow(&self.overrun, &rest))?;
        self.used = total;
        effects.overrun = rest;
        Ok(effects)
    }

    /// Gives back whatever is left.
    pub(crate) fn give_back(&mut self, effects: &mut Effects) -> Quantities {
        let late = self.is_late();
        let mut released = Quantities::NONE;
        for part in &mut self.parts {
            let left = std::mem::take(&mut part.left);
            if left.is_none() {
                continue;
            }
            let mut books = Books::default();
            books.add(&left, |entry| &mut entry.released);
            if late {
                books.take(&left, |entry| &mut entry.expired);
            } else {
                effects.unheld = saturating(&effects.unheld, &left);
            }
            effects.moves.push(Move { at: part.at, books });
            effects.back.push((part.at, left));
            released = saturating(&released, &left);
        }
        self.parts.clear();
        released
    }

    /// The time to live is over. Runs under way are given back in any case: whoever held them is gone.
    pub(crate) fn expire(&mut self, on_expiry: OnExpiry) -> Effects {
        let mut effects = Effects::default();
        for part in &mut self.parts {
            let back = match on_expiry {
                OnExpiry::Released => part.left,
                OnExpiry::Spent => Quantities::only(Dimension::Runs, part.left[Dimension::Runs]),
            };
            let counts = part.left.saturating_sub(&back);
            effects.unheld = saturating(&effects.unheld, &part.left);
            let mut books = Books::default();
            books.add(&back, |entry| &mut entry.released);
            books.add(&counts, |entry| &mut entry.expired);
            effects.moves.push(Move { at: part.at, books });
            if !back.is_none() {
                effects.back.push((part.at, back));
            }
            part.left = counts;
        }
        self.parts.retain(|part| !part.left.is_none());
        self.phase = Phase::Expired;
        effects
    }

    /// The settlement that a hold in this state has, if it is over.
    pub fn settlement(&self) -> Option<&Settlement> {
        match &self.phase {
            Phase::Settled(settlement) | Phase::Released(settlement) => Some(settlement),
            _ => None,
        }
    }
}

/// The move of an overrun at `at`.
pub(crate) fn overrun(at: Millis, amounts: &Quantities) -> Move {
    let mut books = Books::default();
    books.add(amounts, |entry: &mut Entry| &mut entry.overrun);
    books.add(amounts, |entry| &mut entry.settled);
    Move { at, books }
}

fn saturating(one: &Quantities, other: &Quantities) -> Quantities {
    let mut sum = *one;
    for (dimension, amount) in other.iter() {
        sum[dimension] = sum[dimension].saturating_add(amount);
    }
    sum
}

fn overflow(one: &Quantities, other: &Quantities) -> AmountError {
    let over =
        DIMENSIONS.into_iter().find(|&dimension| one[dimension].checked_add(other[dimension]).is_none());
    AmountError::Overflow { dimension: over.unwrap_or(Dimension::Cost) }
}
