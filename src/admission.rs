//! What an admitted draw took.

/// What one draw took: the units `(from, to]` of its bucket's refill line, which no other draw ever gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// The time of the decision, in nanoseconds of the clock.
    pub at: u64,
    /// Where the interval begins; this unit belongs to somebody else.
    pub from: u64,
    /// Where it ends: the bucket's mark after the draw.
    pub to: u64,
    /// Whole tokens left in the bucket, rounded down.
    pub remaining: u64,
}
