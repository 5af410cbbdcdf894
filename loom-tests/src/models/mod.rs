//! The models, by what they are about.

mod commit;
mod draw;
mod insert;
mod rebuild;

use crate::explore::Model;

pub fn all() -> Vec<Model> {
    [draw::MODELS, insert::MODELS, rebuild::MODELS, commit::MODELS].into_iter().flatten().copied().collect()
}
