//! What an audit found: where, what should be there, and what is.

use std::fmt;

/// Which rule a finding breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Check {
    /// SQLite's own: pages, indices, constraints.
    Pages,
    /// The tables are those of this version.
    Schema,
    /// The ledger's rows are all there, as they were written.
    Chain,
    /// What was archived is as it was written.
    Base,
    /// The policy and its unit are those that the ledger says.
    Policy,
    /// What was used is what the moves add up to.
    Usage,
    /// The books of accounts are what the moves add up to.
    Account,
    /// Holds are as their last rows say.
    Hold,
    /// Grants are as they were delegated.
    Grant,
    /// `reserved + overrun = settled + released + expired + outstanding`.
    Balance,
    /// No two holds have one generation.
    Generation,
    /// No hold draws on an account twice.
    Path,
}

impl Check {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Check::Pages => "pages",
            Check::Schema => "schema",
            Check::Chain => "chain",
            Check::Base => "base",
            Check::Policy => "policy",
            Check::Usage => "usage",
            Check::Account => "account",
            Check::Hold => "hold",
            Check::Grant => "grant",
            Check::Balance => "balance",
            Check::Generation => "generation",
            Check::Path => "path",
        }
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule.
    pub check: Check,
    /// The table.
    pub table: &'static str,
    /// The row in it, by what names it.
    pub row: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check: _, table, row, expected, found } = self;
        write!(f, "table {table}, {row}: expected {expected}, found {found}")
    }
}

/// Why a verification ended before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// As much was found as was asked for.
    Enough,
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Stop::Sql(error)
    }
}

/// Findings, up to a number.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) list: Vec<Finding>,
    most: usize,
}

impl Findings {
    pub(super) fn at_most(most: usize) -> Self {
        Self { list: Vec::new(), most }
    }

    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= self.most
    }

    pub(super) fn add(
        &mut self,
        check: Check,
        table: &'static str,
        row: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Result<(), Stop> {
        let (row, expected, found) = (row.to_string(), expected.to_string(), found.to_string());
        self.list.push(Finding { check, table, row, expected, found });
        if self.is_full() { Err(Stop::Enough) } else { Ok(()) }
    }

    /// A finding unless both are equal.
    pub(super) fn compare<T: PartialEq + fmt::Display>(
        &mut self,
        check: Check,
        table: &'static str,
        row: impl fmt::Display,
        expected: T,
        found: T,
    ) -> Result<(), Stop> {
        if expected == found { Ok(()) } else { self.add(check, table, row, expected, found) }
    }
}
