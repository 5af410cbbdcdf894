//! What an emission carries, in a form that survives a restart.

use crate::guard::ToolCallRequest;

/// The payload of an effect. A deferred call keeps its bytes, so that a restart can still emit it.
///
/// ```
/// use tollgate::effect::{Payload, PayloadError};
///
/// struct Query { page: u8, text: String }
/// impl Payload for Query {
///     fn to_bytes(&self) -> Vec<u8> {
///         [&[self.page], self.text.as_bytes()].concat()
///     }
///     fn from_bytes(bytes: &[u8]) -> Result<Self, PayloadError> {
///         let (page, text) = bytes.split_first().ok_or_else(|| PayloadError::new("no page"))?;
///         let text = String::from_bytes(text)?;
///         Ok(Self { page: *page, text })
///     }
/// }
/// let query = Query { page: 2, text: "rust".into() };
/// assert_eq!(Query::from_bytes(&query.to_bytes()).unwrap().text, "rust");
/// ```
pub trait Payload: Sized {
    /// The payload as bytes. Two payloads with equal bytes are one.
    fn to_bytes(&self) -> Vec<u8>;

    /// The payload that had these bytes.
    ///
    /// # Errors
    /// Bytes that are no payload of this kind.
    fn from_bytes(bytes: &[u8]) -> Result<Self, PayloadError>;
}

/// Bytes that are no payload; the text says what is wrong with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a payload of this effect: {0}")]
pub struct PayloadError(String);

impl PayloadError {
    /// With what is wrong, in words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl Payload for Vec<u8> {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone()
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, PayloadError> {
        Ok(bytes.to_vec())
    }
}

impl Payload for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, PayloadError> {
        String::from_utf8(bytes.to_vec()).map_err(|error| PayloadError::new(error.to_string()))
    }
}

/// No payload: the effect is all there is.
impl Payload for () {
    fn to_bytes(&self) -> Vec<u8> {
        Vec::new()
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, PayloadError> {
        match bytes {
            [] => Ok(()),
            _ => Err(PayloadError::new(format!("{} bytes where there are none", bytes.len()))),
        }
    }
}

/// As JSON, capability included.
impl Payload for ToolCallRequest {
    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, PayloadError> {
        serde_json::from_slice(bytes).map_err(|error| PayloadError::new(error.to_string()))
    }
}
