//! Keys: what a bucket belongs to.
//!
//! A [`Key`] is encoded into bytes, and two keys share a bucket exactly when their bytes are equal; a hash
//! collision never joins two. Encodings are injective within a type: composite keys carry the length of every
//! part but the last, so `("ab", "c")` and `("a", "bc")` differ.

use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Something that identifies a bucket. Implemented for strings, bytes, unsigned integers, IP addresses, and
/// tuples and references of them.
///
/// An empty key is a key. The keys of one limiter should be of one type: a `str` and the `[u8]` of its bytes
/// encode alike.
///
/// ```
/// use tollgate::key::{Key, KeyBytes};
///
/// struct Tenant { region: u8, name: String }
/// impl Key for Tenant {
///     fn encode(&self, out: &mut KeyBytes) {
///         out.raw(&[self.region]);         // fixed size: needs no length
///         out.raw(self.name.as_bytes());   // the last part: ends with the key
///     }
/// }
/// let mut bytes = KeyBytes::default();
/// Tenant { region: 7, name: "acme".into() }.encode(&mut bytes);
/// assert_eq!(bytes.as_slice(), b"\x07acme");
/// ```
pub trait Key {
    /// Appends the encoding. Equal keys must append equal bytes, different ones different bytes.
    fn encode(&self, out: &mut KeyBytes);

    /// The encoding, if the key holds it as it is: then nothing is copied. It must be what
    /// [`encode`](Key::encode) appends.
    #[inline]
    fn as_encoded(&self) -> Option<&[u8]> {
        None
    }
}

/// The encoding of `key`: its own bytes, or `buffer` with them.
#[inline]
pub(crate) fn encoded<'k, K: Key + ?Sized>(key: &'k K, buffer: &'k mut KeyBytes) -> &'k [u8] {
    match key.as_encoded() {
        Some(bytes) => bytes,
        None => {
            key.encode(buffer);
            buffer.as_slice()
        }
    }
}

/// The bytes of a key under construction; itself a [`Key`], so that a caller can build one into a buffer that
/// is used again.
///
/// ```
/// use tollgate::{Limiter, key::KeyBytes, quota::Quota};
///
/// let limiter = Limiter::builder(Quota::per_minute(1)).build()?;
/// let mut key = KeyBytes::default();
/// key.part(b"agent-7");
/// key.raw(b"search");
/// limiter.check(&key).unwrap();
/// key.clear();
/// key.part(b"agent-8");
/// key.raw(b"search");
/// limiter.check(&key).unwrap();
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct KeyBytes(SmallVec<[u8; 128]>);

/// In a length prefix: the length follows as eight bytes.
const LONG: u8 = u8::MAX;

impl KeyBytes {
    /// Appends bytes that need no length: fixed-size ones, or the last ones of a key.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        let length = self.0.len();
        self.0.reserve(bytes.len());
        // By hand: the vector's own way also moves what comes behind the new bytes, which is nothing.
        // SAFETY: `reserve` made room for them behind the first `length`.
        let end = unsafe { self.0.as_mut_ptr().add(length) };
        // SAFETY: as above, and they are another allocation's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len()) };
        // SAFETY: all of them are written now.
        unsafe { self.0.set_len(length + bytes.len()) };
    }

    /// Appends bytes of varying length that others follow, with their length.
    #[inline]
    pub fn part(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(length) if length != LONG => self.0.push(length),
            _ => {
                self.0.push(LONG);
                self.raw(&(bytes.len() as u64).to_be_bytes());
            }
        }
        self.raw(bytes);
    }

    /// Appends another key with its length, so that more can follow.
    pub fn part_of<K: Key + ?Sized>(&mut self, key: &K) {
        let start = self.0.len();
        key.encode(self);
        let length = self.0.len() - start;
        match u8::try_from(length) {
            Ok(length) if length != LONG => self.0.insert(start, length),
            _ => {
                self.0.insert_many(start, (length as u64).to_be_bytes());
                self.0.insert(start, LONG);
            }
        }
    }

    /// Empties it for the next key.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes so far.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Key for KeyBytes {
    #[inline]
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(&self.0);
    }
    #[inline]
    fn as_encoded(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}
impl Key for [u8] {
    #[inline]
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(self);
    }
    #[inline]
    fn as_encoded(&self) -> Option<&[u8]> {
        Some(self)
    }
}
impl Key for str {
    #[inline]
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(self.as_bytes());
    }
    #[inline]
    fn as_encoded(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
}
impl Key for String {
    #[inline]
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(self.as_bytes());
    }
    #[inline]
    fn as_encoded(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
}
impl Key for Vec<u8> {
    #[inline]
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(self);
    }
    #[inline]
    fn as_encoded(&self) -> Option<&[u8]> {
        Some(self)
    }
}
impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn encode(&self, out: &mut KeyBytes) {
        (**self).encode(out);
    }
    #[inline]
    fn as_encoded(&self) -> Option<&[u8]> {
        (**self).as_encoded()
    }
}

macro_rules! integer_keys {
    ($($int:ty),*) => {$(
        impl Key for $int {
            #[inline]
            fn encode(&self, out: &mut KeyBytes) {
                out.raw(&self.to_be_bytes());
            }
        }
    )*};
}
integer_keys!(u8, u16, u32, u64, u128);

impl Key for usize {
    #[inline]
    fn encode(&self, out: &mut KeyBytes) {
        (*self as u64).encode(out);
    }
}

/// IPv4-mapped IPv6 addresses are the IPv4 addresses they map.
impl Key for IpAddr {
    fn encode(&self, out: &mut KeyBytes) {
        match self.to_canonical() {
            IpAddr::V4(v4) => v4.encode(out),
            IpAddr::V6(v6) => v6.encode(out),
        }
    }
}
impl Key for Ipv4Addr {
    fn encode(&self, out: &mut KeyBytes) {
        out.raw(&[4]);
        out.raw(&self.octets());
    }
}
impl Key for Ipv6Addr {
    fn encode(&self, out: &mut KeyBytes) {
        match self.to_ipv4_mapped() {
            Some(v4) => v4.encode(out),
            None => {
                out.raw(&[6]);
                out.raw(&self.octets());
            }
        }
    }
}

/// An IP address as limits should see it: an IPv6 address stands for its network, since one subscriber holds
/// a whole one (RFC 6177 and RIPE-690 hand out /64 to /48); an IPv4 address for itself.
///
/// ```
/// use tollgate::{Limiter, key::IpPrefix, quota::Quota};
///
/// let limiter = Limiter::builder(Quota::per_minute(1)).build()?;
/// limiter.check(&IpPrefix::new("2001:db8::a:b".parse().unwrap(), 64)).unwrap();
/// limiter.check(&IpPrefix::new("2001:db8::1:1".parse().unwrap(), 64)).unwrap_err();
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpPrefix(IpAddr);

impl IpPrefix {
    /// The network of `address`: its first `v6_prefix` bits if it is an IPv6 one (128 and above keep all).
    pub fn new(address: IpAddr, v6_prefix: u8) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => {
                let host_bits = 128u32.saturating_sub(u32::from(v6_prefix));
                let network = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & network))
            }
            v4 => v4,
        })
    }
}
impl Key for IpPrefix {
    fn encode(&self, out: &mut KeyBytes) {
        self.0.encode(out);
    }
}

impl Key for () {
    fn encode(&self, _: &mut KeyBytes) {}
}
impl<A: Key, B: Key> Key for (A, B) {
    fn encode(&self, out: &mut KeyBytes) {
        out.part_of(&self.0);
        self.1.encode(out);
    }
}
impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    fn encode(&self, out: &mut KeyBytes) {
        out.part_of(&self.0);
        out.part_of(&self.1);
        self.2.encode(out);
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes<K: Key + ?Sized>(key: &K) -> Vec<u8> {
        let mut out = KeyBytes::default();
        key.encode(&mut out);
        out.as_slice().to_vec()
    }

    fn texts() -> impl Strategy<Value = String> {
        prop_oneof!["[ab\u{1}]{0,4}", "[a-b]{250,260}"]
    }

    proptest! {
        #[test]
        fn two_composite_keys_encode_alike_only_if_equal(
            a in (texts(), texts(), texts()), b in (texts(), texts(), texts())
        ) {
            prop_assert_eq!(bytes(&a) == bytes(&b), a == b);
        }

        #[test]
        fn a_key_that_holds_its_encoding_spells_the_same(text in texts()) {
            fn same<K: Key + ?Sized>(key: &K) {
                assert_eq!(key.as_encoded(), Some(bytes(key).as_slice()));
            }
            same(&text);
            same(text.as_str());
            same(&text.as_str());
            same(text.as_bytes());
            same(&text.as_bytes().to_vec());
            let mut spelled = KeyBytes::default();
            spelled.part(text.as_bytes());
            same(&spelled);
        }

        #[test]
        fn a_part_encodes_as_the_same_key_does(a in texts(), b in texts()) {
            let mut out = KeyBytes::default();
            out.part(a.as_bytes());
            out.raw(b.as_bytes());
            prop_assert_eq!(out.as_slice(), bytes(&(a.as_str(), b.as_str())));
        }
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let plain: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(bytes(&mapped), bytes(&plain));
        assert_eq!(IpPrefix::new(mapped, 64), IpPrefix::new(plain, 0));
    }

    #[test]
    fn every_prefix_length_is_accepted() {
        let address: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(IpPrefix::new(address, 0).0, "::".parse::<IpAddr>().unwrap());
        assert_eq!(IpPrefix::new(address, 128).0, address);
        assert_eq!(IpPrefix::new(address, 255).0, address);
    }
}
