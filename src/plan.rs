//! A plan: all draws of one call, committed all or nothing.

use crate::Refusal;
use std::marker::PhantomData;

/// All draws of one call; [`commit`](Plan::commit) takes them all or none.
#[derive(Debug, Default)]
pub struct Plan<'t>(PhantomData<&'t ()>);

/// A plan that was refused: nothing was drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{refusal}")]
pub struct PlanRefused {
    /// The stage whose limits refused, counted from 0 in the order of [`Plan::next_stage`].
    pub stage: usize,
    /// Why.
    pub refusal: Refusal,
}

impl<'t> Plan<'t> {
    /// A plan without draws.
    pub fn new() -> Self {
        Self(PhantomData)
    }

    /// Draws added from here on belong to the next stage: a stage that refuses hides the later ones.
    pub fn next_stage(&mut self) {
        todo!()
    }

    /// The number of the stage to which draws are added now.
    pub fn stage(&self) -> usize {
        todo!()
    }

    /// Takes all draws, or none.
    ///
    /// # Errors
    /// The first stage that refuses, and in it: impossible before exhausted before table full.
    pub fn commit(self) -> Result<(), PlanRefused> {
        todo!()
    }
}
