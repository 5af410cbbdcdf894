//! The models, by what they are about.

mod commit;
mod draw;
mod gauge;
mod insert;
mod pools;
mod rebuild;
mod refund;

use crate::explore::Model;

pub fn all() -> Vec<Model> {
    [
        draw::MODELS,
        insert::MODELS,
        rebuild::MODELS,
        commit::MODELS,
        refund::MODELS,
        pools::MODELS,
        gauge::MODELS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .collect()
}
