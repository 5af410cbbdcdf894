//! Key encoding is injective within a type, parts decode back, and two keys share a bucket only if they are equal.

use arbitrary::Arbitrary;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tollgate::key::{IpPrefix, KeyBytes};
use tollgate::quota::Quota;
use tollgate::time::ManualClock;
use tollgate::{Key, LimitSet, Limiter, Plan};

/// Two keys of one type, or the parts of one key.
#[derive(Debug, Arbitrary)]
pub enum Input {
    Text(Text, Text),
    Bytes(Bytes, Bytes),
    Two([(Text, Text); 2]),
    Three([(Text, Bytes, Text); 2]),
    LeftNested([((Text, Text), Text); 2]),
    RightNested([(Text, (Text, Text)); 2]),
    BothNested([((Text, Text), (Text, Text)); 2]),
    Mixed([(u16, Text, u128); 2]),
    TextThenNumber([(Text, u64); 2]),
    Sizes([(usize, u8); 2]),
    Wide([(u32, (u64, ())); 2]),
    Addresses([Address; 2]),
    KeyedAddresses([(Address, Text); 2]),
    Prefixes([(Address, u8); 2], Text),
    Parts(Vec<Bytes>, Bytes),
}

/// A text, some of them long enough for the long form of a length.
#[derive(Debug, Arbitrary)]
pub enum Text {
    Any(String),
    Padded(char, u16, String),
}

#[derive(Debug, Arbitrary)]
pub enum Bytes {
    Any(Vec<u8>),
    Padded(u8, u16, Vec<u8>),
    /// One byte around the length at which the long form begins.
    AroundLong(u8, i8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Address {
    V4([u8; 4]),
    V6([u8; 16]),
    Mapped([u8; 4]),
}

impl Text {
    fn get(&self) -> String {
        match self {
            Text::Any(text) => text.clone(),
            Text::Padded(c, times, rest) => {
                let mut text = c.to_string().repeat(usize::from(times % 700));
                text.push_str(rest);
                text
            }
        }
    }
}

impl Bytes {
    fn get(&self) -> Vec<u8> {
        match self {
            Bytes::Any(bytes) => bytes.clone(),
            Bytes::Padded(byte, times, rest) => {
                [vec![*byte; usize::from(*times)].as_slice(), rest.as_slice()].concat()
            }
            Bytes::AroundLong(byte, off) => vec![*byte; 255usize.saturating_add_signed((off % 3).into())],
        }
    }
}

impl Address {
    fn get(self) -> IpAddr {
        match self {
            Address::V4(octets) => Ipv4Addr::from(octets).into(),
            Address::V6(octets) => Ipv6Addr::from(octets).into(),
            Address::Mapped(octets) => Ipv4Addr::from(octets).to_ipv6_mapped().into(),
        }
    }

    /// The address, with IPv4-mapped ones as what they map.
    fn meant(self) -> u128 {
        match self {
            Address::V4(octets) | Address::Mapped(octets) => {
                0xffff_0000_0000 | u128::from(u32::from_be_bytes(octets))
            }
            Address::V6(octets) => u128::from_be_bytes(octets),
        }
    }
}

/// # Panics
/// When two different keys encode alike, equal ones differently, or parts do not decode.
pub fn check(input: &Input) {
    let two = |(a, b): &(Text, Text)| (a.get(), b.get());
    match input {
        Input::Text(a, b) => distinct(&a.get(), &b.get()),
        Input::Bytes(a, b) => distinct(&a.get(), &b.get()),
        Input::Two(pair) => all(pair, two),
        Input::Three(pair) => all(pair, |(a, b, c)| (a.get(), b.get(), c.get())),
        Input::LeftNested(pair) => all(pair, |(ab, c)| (two(ab), c.get())),
        Input::RightNested(pair) => all(pair, |(a, bc)| (a.get(), two(bc))),
        Input::BothNested(pair) => all(pair, |(ab, cd)| (two(ab), two(cd))),
        Input::Mixed(pair) => all(pair, |(a, b, c)| (*a, b.get(), *c)),
        Input::TextThenNumber(pair) => all(pair, |(a, b)| (a.get(), *b)),
        Input::Sizes(pair) => all(pair, |&sizes| sizes),
        Input::Wide(pair) => all(pair, |&wide| wide),
        Input::Addresses([a, b]) => {
            same_bucket_iff(&a.get(), &b.get(), a.meant() == b.meant());
        }
        Input::KeyedAddresses([(a, s), (b, t)]) => {
            let (left, right) = ((a.get(), s.get()), (b.get(), t.get()));
            same_bucket_iff(&left, &right, a.meant() == b.meant() && left.1 == right.1);
        }
        Input::Prefixes([(a, m), (b, n)], rest) => {
            let key = |address: &Address, bits| (IpPrefix::new(address.get(), bits), rest.get());
            same_bucket_iff(&key(a, *m), &key(b, *n), network(*a, *m) == network(*b, *n));
        }
        Input::Parts(parts, last) => {
            let parts: Vec<_> = parts.iter().take(16).map(Bytes::get).collect();
            decode_back(&parts, &last.get());
        }
    }
}

/// An IPv6 address without its host's bits; an IPv4 one as it is.
fn network(address: Address, bits: u8) -> u128 {
    let meant = address.meant();
    if meant >> 32 == 0xffff {
        return meant;
    }
    (0..128).filter(|bit| bit < &u32::from(bits)).fold(0, |kept, bit| kept | meant & (1 << (127 - bit)))
}

fn all<S, K: Key + PartialEq + Debug>([a, b]: &[S; 2], key: impl Fn(&S) -> K) {
    distinct(&key(a), &key(b));
}

fn distinct<K: Key + PartialEq + Debug>(a: &K, b: &K) {
    same_bucket_iff(a, b, a == b);
}

fn encoded<K: Key + ?Sized>(key: &K) -> Vec<u8> {
    let mut out = KeyBytes::default();
    key.encode(&mut out);
    out.as_slice().to_vec()
}

fn same_bucket_iff<K: Key + Debug>(a: &K, b: &K, equal: bool) {
    assert_eq!(encoded(a) == encoded(b), equal, "{a:?} and {b:?}");
    let clock = ManualClock::new();
    let limiter = Limiter::<K>::builder(Quota::per_day(2)).bucket_cap(4).clock(clock.clone());
    let limiter = limiter.build().expect("two a day can be counted");
    limiter.check(a).expect("a fresh bucket is full");
    assert_eq!((limiter.peek(a), limiter.peek(b)), (1, if equal { 1 } else { 2 }), "{a:?} and {b:?}");
    assert_eq!(limiter.iter().next().expect("one bucket").key, encoded(a));
    // The same in a set, whose limits have buckets of their own whatever the key.
    let set = LimitSet::builder().limit("one", Quota::per_day(2)).limit("two", Quota::per_day(2));
    let set = set.bucket_cap(4).clock(clock).build().expect("two a day can be counted");
    let mut plan = Plan::new();
    set.plan(0, a, 1, &mut plan);
    set.plan(1, b, 2, &mut plan);
    plan.commit().expect("fresh buckets are full");
    let left = |fresh, drawn| if equal { drawn } else { fresh };
    assert_eq!((set.peek(0, a), set.peek(0, b)), (1, left(2, 1)), "{a:?} and {b:?}");
    assert_eq!((set.peek(1, a), set.peek(1, b)), (left(2, 0), 0), "{a:?} and {b:?}");
}

/// The parts of a key, read from its encoding by the rules of its documentation.
fn decode_back(parts: &[Vec<u8>], last: &[u8]) {
    let (mut key, mut by_keys) = (KeyBytes::default(), KeyBytes::default());
    for part in parts {
        key.part(part);
        by_keys.part_of(part);
    }
    key.raw(last);
    by_keys.raw(last);
    assert_eq!(key, by_keys, "a part and a key as a part");
    let mut rest = key.as_slice();
    for part in parts {
        let length;
        (length, rest) = match rest {
            [255, rest @ ..] => {
                let (bytes, rest) = rest.split_at(8);
                (u64::from_be_bytes(bytes.try_into().expect("eight bytes")), rest)
            }
            [length, rest @ ..] => (u64::from(*length), rest),
            [] => panic!("{parts:?}: the encoding ends before its parts do"),
        };
        let found;
        (found, rest) = rest.split_at(usize::try_from(length).expect("a length in memory"));
        assert_eq!(found, part);
    }
    assert_eq!(rest, last);
    key.clear();
    assert!(key.as_slice().is_empty());
}
