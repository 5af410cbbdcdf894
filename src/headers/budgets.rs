//! What a response says about each of the server's budgets, put together from several headers.

use super::{Expected, MOST_BUDGETS};
use std::time::Duration;

/// One of the server's budgets, as far as the response tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Which headers it is from.
    pub family: Family,
    /// What the server calls it, such as `tokens`; empty where the headers have no names. In lower case where it is part
    /// of a header's name.
    pub name: String,
    /// How much there is in all, in the server's unit.
    pub limit: Option<u64>,
    /// How much is left.
    pub remaining: Option<u64>,
    /// How long until there is more, or all of it, from the receipt of the response; zero if that is past.
    pub reset: Option<Duration>,
    /// The time in which `limit` may be used, where a `RateLimit-Policy` says so.
    pub window: Option<Duration>,
}

/// Headers that belong together. Budgets of different ones are different, even if they have one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// `X-RateLimit-Limit` and so on, with or without a suffix, which is the budget's name.
    XRateLimit,
    /// `anthropic-ratelimit-NAME-limit` and so on.
    Anthropic,
    /// `RateLimit-Limit` and so on: early versions of draft-ietf-httpapi-ratelimit-headers.
    Fields,
    /// `RateLimit` and `RateLimit-Policy`: later versions of it.
    Structured,
}

/// One thing that a header says of a budget.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Limit(u64),
    Remaining(u64),
    Reset(Duration),
    Window(Duration),
}

#[derive(Debug, Default)]
pub(super) struct Budgets(Vec<Budget>);

impl Budgets {
    /// Notes a part. Of two the stricter counts: whoever heeds it errs on the side of waiting.
    pub(super) fn set(&mut self, family: Family, name: &str, part: Part) -> Result<(), Expected> {
        let budget = self.get_or_add(family, name)?;
        match part {
            Part::Limit(limit) => budget.limit = Some(budget.limit.map_or(limit, |old| old.min(limit))),
            Part::Remaining(left) => {
                budget.remaining = Some(budget.remaining.map_or(left, |old| old.min(left)));
            }
            Part::Reset(reset) => budget.reset = budget.reset.max(Some(reset)),
            Part::Window(window) => budget.window = budget.window.max(Some(window)),
        }
        Ok(())
    }

    fn get_or_add(&mut self, family: Family, name: &str) -> Result<&mut Budget, Expected> {
        let found = self.0.iter().position(|budget| budget.family == family && budget.name == name);
        let index = match found {
            Some(index) => index,
            None if self.0.len() >= MOST_BUDGETS => return Err(Expected::FewerBudgets),
            None => {
                self.0.push(Budget {
                    family,
                    name: name.to_owned(),
                    limit: None,
                    remaining: None,
                    reset: None,
                    window: None,
                });
                self.0.len() - 1
            }
        };
        Ok(&mut self.0[index])
    }

    pub(super) fn into_vec(self) -> Vec<Budget> {
        self.0
    }
}
