//! What comes of asking for an effect, where that is no error.

/// Done, or left out on purpose.
///
/// ```
/// use tollgate::effect::Outcome;
/// let outcome = Outcome::Done(7);
/// assert_eq!(outcome.done(), Some(7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a shed effect was not emitted"]
pub enum Outcome<T> {
    /// The permit, or what the emission returned.
    Done(T),
    /// The quota is exhausted and the policy is to go on without the effect. Nothing was emitted, and nothing was drawn.
    Shed(Shed),
}

/// An effect that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shed {
    /// The effect.
    pub effect: String,
    /// The definition of the quota that refused with the longest wait, or the allowed hours.
    pub quota: String,
    /// When the same call would be granted, in nanoseconds of the engine's clock; `None` where no wait helps.
    pub retry_at: Option<u64>,
}

impl<T> Outcome<T> {
    /// What was done, if it was.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            Self::Shed(_) => None,
        }
    }

    /// Was the effect left out?
    pub fn is_shed(&self) -> bool {
        matches!(self, Self::Shed(_))
    }

    /// The same outcome of something made from what was done.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Done(value) => Outcome::Done(make(value)),
            Self::Shed(shed) => Outcome::Shed(shed),
        }
    }
}
