//! Events: what a trace says of each call, reduced to the time and the fields that a policy names.

mod combined;
mod csv;
mod decoder;
mod field;
mod flat;
mod jsonl;
mod keys;
mod lines;
mod number;
mod schema;
mod source;
mod time;

pub use decoder::{BadLine, Decoder, Next, ReadError};
pub use field::{Field, Kind, Record};
pub use number::Whole;
pub use schema::{FieldId, Mapping, Schema};
pub use source::{Format, Source, same_file};
