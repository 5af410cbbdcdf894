//! Windows: over which time a limit adds up.

use super::record::Millis;
use serde::{Deserialize, Serialize};

/// Over which time a limit adds up. Times are Unix milliseconds.
///
/// A window has numbered *slots*: what is used at an instant belongs to the slot in which it lies. Rolling windows add up the
/// slot of now and the [`SLOTS`] before it, so they are exact to a 60th of their length, and err to refuse. All others
/// add up one slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Window {
    /// Everything ever.
    Lifetime,
    /// The time just past.
    Rolling { length: Millis },
    /// Lengths that begin at an instant, one after the other.
    Fixed { length: Millis, anchor: Millis },
    /// Days, weeks or months of a place.
    Calendar(Calendar),
}

/// How many slots a rolling window has, besides the current one.
pub const SLOTS: u32 = 60;

/// Days, weeks (from Monday) or months of a place: they begin at its midnight, whatever daylight saving makes of their length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    period: Period,
    zone: jiff::tz::TimeZone,
}

/// Of a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Period {
    Day,
    Week,
    Month,
}

impl Window {
    /// The slot in which `at` lies: below 2^28.
    pub fn slot(&self, at: Millis) -> u32 {
        let most = (1 << 28) - 1;
        let slot = match self {
            Window::Lifetime | Window::Calendar(_) => 0,
            Window::Rolling { length } => at / (length / u64::from(SLOTS)).max(1),
            Window::Fixed { length, anchor } => at.saturating_sub(anchor % length) / length,
        };
        slot.min(most) as u32
    }
    /// The first instant of a slot.
    pub fn starts(&self, _slot: u32) -> Millis {
        todo!()
    }
    /// The first instant at which what was used in `slot` does not count any more; `None` for never.
    pub fn lapses(&self, _slot: u32) -> Option<Millis> {
        todo!()
    }
    /// How many slots before the current one count too.
    pub fn reach(&self) -> u32 {
        match self {
            Window::Rolling { .. } => SLOTS,
            _ => 0,
        }
    }
}
impl TryFrom<String> for Window {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["lifetime"] => Ok(Window::Lifetime),
            ["rolling", length] => Ok(Window::Rolling { length: length.parse().map_err(|_| "bad")? }),
            ["fixed", length, anchor] => Ok(Window::Fixed {
                length: length.parse().map_err(|_| "bad")?,
                anchor: anchor.parse().map_err(|_| "bad")?,
            }),
            _ => Err(text),
        }
    }
}
impl From<Window> for String {
    fn from(window: Window) -> String {
        match window {
            Window::Lifetime => "lifetime".into(),
            Window::Rolling { length } => format!("rolling {length}"),
            Window::Fixed { length, anchor } => format!("fixed {length} {anchor}"),
            Window::Calendar(_) => "calendar".into(),
        }
    }
}
