//! What is wrong with a policy, and in which part of it.

/// What is wrong with a policy, and where.
#[derive(Debug)]
pub(crate) struct Fault {
    #[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "for the lines of policy files"))]
    pub(crate) part: Part,
    /// The part's field; empty for the part as a whole.
    #[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "for the lines of policy files"))]
    pub(crate) key: &'static str,
    pub(crate) error: SpendPolicyError,
}

impl Fault {
    pub(super) fn new(part: Part, key: &'static str, error: SpendPolicyError) -> Self {
        Self { part, key, error }
    }
}

/// A part of a policy, by its number among its kind.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "for the lines of policy files"))]
pub(crate) enum Part {
    Policy,
    Scope(usize),
    /// Of a scope.
    Limit(usize, usize),
    Family(usize),
    Grant(usize),
    Tiers,
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpendPolicyError {
    /// No scope at all.
    #[error("it has no scope, accepted: at least one")]
    NoScope,
    /// A scope's name.
    #[error(
        "{0:?} is no name of a scope here, accepted: names that differ and are not empty, and not \"family\""
    )]
    ScopeName(String),
    /// A limit.
    #[error("the limit {limit} {why}")]
    Limit {
        /// Its id.
        limit: String,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// A family.
    #[error("the family of {root:?} {why}")]
    Family {
        /// Its root.
        root: String,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// A grant.
    #[error("the grant {id:?} {why}")]
    Grant {
        /// Its id.
        id: String,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// Thresholds of tiers.
    #[error(
        "tiers at {reduced} and {blocked} millionths, accepted: 1 to 1000000, reduced at or below blocked"
    )]
    Tiers {
        /// Reduced from here.
        reduced: u32,
        /// Blocked from here.
        blocked: u32,
    },
    /// Something that is 0.
    #[error("{0} is 0, accepted: at least 1 (milliseconds, where it is a time)")]
    Zero(&'static str),
    /// The unit of money.
    #[error(
        "{0} is no unit of money, accepted: a currency of capital letters such as USD, with 0 to 12 decimal places"
    )]
    Unit(String),
}
