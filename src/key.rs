//! Keys: what a bucket belongs to.

use smallvec::SmallVec;

/// Something that identifies a bucket, encoded into bytes so that no two different keys encode alike.
pub trait Key {
    /// Appends the encoding.
    fn encode(&self, out: &mut KeyBytes);
}

/// The bytes of a key under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyBytes(pub(crate) SmallVec<[u8; 88]>);

impl KeyBytes {
    /// Appends bytes that need no length: fixed-size ones, or the last ones of a key.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The bytes so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Key for str {
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(self.as_bytes());
    }
}
impl Key for [u8] {
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(self);
    }
}
