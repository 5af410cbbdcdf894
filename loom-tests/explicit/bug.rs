//! The seeded bugs: what the protocol would be without one of its rules. Those that the engine has too bear the
//! names that they have there.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Helpers join and leave without being counted.
    HelpersUncounted,
    /// A helper joins whatever operation the descriptor is at.
    SequenceIgnored,
    /// Markers are installed in the plan's order.
    Unsorted,
    /// Nested help without a look whether one's own operation still needs it.
    OwnStateUnchecked,
    /// A helper leaves the count before it has run the operation.
    CountLoweredEarly,
    /// Effects before the decision.
    ReleasedUndecided,
    /// The owner does not count itself: it may begin while a helper is counted.
    LeaseUncounted,
    /// A reclaimed cell keeps its generation, so words repeat.
    WordsRepeat,
    /// A thread that meets a marker waits for it to go away.
    NoHelp,
}

impl Bug {
    pub const ALL: &[Bug] = &[
        Bug::HelpersUncounted,
        Bug::SequenceIgnored,
        Bug::Unsorted,
        Bug::OwnStateUnchecked,
        Bug::CountLoweredEarly,
        Bug::ReleasedUndecided,
        Bug::LeaseUncounted,
        Bug::WordsRepeat,
        Bug::NoHelp,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Bug::HelpersUncounted => "helpers-uncounted",
            Bug::SequenceIgnored => "sequence-ignored",
            Bug::Unsorted => "unsorted",
            Bug::OwnStateUnchecked => "own-state-unchecked",
            Bug::CountLoweredEarly => "count-lowered-early",
            Bug::ReleasedUndecided => "released-undecided",
            Bug::LeaseUncounted => "lease-uncounted",
            Bug::WordsRepeat => "words-repeat",
            Bug::NoHelp => "no-help",
        }
    }

    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}
