//! The mixes.

mod guards;
mod keys;
mod plans;
mod reconfigure;
mod tables;

use crate::round::Mix;

pub fn all() -> Vec<Mix> {
    [keys::mixes(), plans::mixes(), tables::mixes(), guards::mixes(), reconfigure::mixes()]
        .into_iter()
        .flatten()
        .collect()
}
