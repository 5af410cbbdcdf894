//! The mixes: each a recipe for a table and for what threads do to it.

mod gauges;
mod pair;
mod plans;
mod reconfigure;
mod refunds;
mod single;
mod waiting;

use crate::explore::Mix;

pub fn all() -> Vec<Mix> {
    [
        single::MIXES,
        plans::MIXES,
        pair::MIXES,
        reconfigure::MIXES,
        refunds::MIXES,
        waiting::MIXES,
        gauges::MIXES,
    ]
    .concat()
}
