//! One line: an object, and the hash that chains it to the line before.

use crate::effect::hex;
use sha2::{Digest, Sha256};

pub(super) type Hash = [u8; 32];

/// Before the first line.
pub(super) const START: Hash = [0; 32];

/// Makes the object at the end of `line`, from `start` on, a line of the chain behind `before`. Returns its hash.
pub(super) fn chain(line: &mut Vec<u8>, start: usize, before: &Hash) -> Hash {
    let close = line.pop();
    debug_assert_eq!(close, Some(b'}'), "an object");
    let hash: Hash = Sha256::new().chain_update(before).chain_update(&line[start..]).finalize().into();
    line.extend_from_slice(b",\"hash\":\"");
    line.extend_from_slice(hex::encode(&hash).as_bytes());
    line.extend_from_slice(b"\"}\n");
    hash
}
