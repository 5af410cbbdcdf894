//! Bytes as lower-case hex.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Two digits a byte.
pub(super) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]].map(char::from);
    bytes.iter().flat_map(digits).collect()
}

/// The bytes that have this hex; `None` for anything else, upper-case digits too.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}

/// For serde's `with`.
pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(bytes))
}

/// For serde's `with`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    decode(&text).ok_or_else(|| D::Error::custom("not lower-case hex of whole bytes"))
}
