//! The structured fields of draft-ietf-httpapi-ratelimit-headers, in the forms that its versions gave them.

use super::Expected;
use super::budgets::{Budgets, Family, Part};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};
use std::time::Duration;

/// `RateLimit`: `"default";r=50;t=30`, any number of them; version 07 wrote `limit=100, remaining=50, reset=30`.
pub(super) fn rate_limit(value: &str, budgets: &mut Budgets) -> Result<(), Expected> {
    let Ok(items) = items(value) else { return dictionary(value, budgets) };
    each(items, |item| {
        let name = text(&item.bare_item)?;
        let remaining = parameter(&item, "r")?.ok_or(Expected::StructuredField)?;
        budgets.set(Family::Structured, name, Part::Remaining(remaining))?;
        match parameter(&item, "t")? {
            Some(seconds) => budgets.set(Family::Structured, name, Part::Reset(Duration::from_secs(seconds))),
            None => Ok(()),
        }
    })
}

/// `RateLimit-Policy`: `"default";q=100;w=60`, any number of them.
pub(super) fn policy(value: &str, budgets: &mut Budgets) -> Result<(), Expected> {
    let items = items(value)?;
    // Version 07 and before: `100;w=60`, which names no budget, and says nothing that `RateLimit` does not.
    if items.iter().all(|item| matches!(item.bare_item, BareItem::Integer(_))) {
        return Ok(());
    }
    each(items, |item| {
        let name = text(&item.bare_item)?;
        let quota = parameter(&item, "q")?.ok_or(Expected::StructuredField)?;
        budgets.set(Family::Structured, name, Part::Limit(quota))?;
        match parameter(&item, "w")? {
            Some(seconds) => {
                budgets.set(Family::Structured, name, Part::Window(Duration::from_secs(seconds)))
            }
            None => Ok(()),
        }
    })
}

/// `RateLimit-Limit`: `100`, and in some versions policies after it: `100, 100;w=60`.
pub(super) fn first_integer(value: &str) -> Result<u64, Expected> {
    let items = items(value).map_err(|_| Expected::Count)?;
    integer(&items.first().ok_or(Expected::Count)?.bare_item).map_err(|_| Expected::Count)
}

fn dictionary(value: &str, budgets: &mut Budgets) -> Result<(), Expected> {
    let fields: Dictionary = Parser::new(value).parse().map_err(|_| Expected::StructuredField)?;
    let get = |name: &str| match fields.get(name) {
        Some(ListEntry::Item(item)) => integer(&item.bare_item).map(Some),
        Some(ListEntry::InnerList(_)) => Err(Expected::StructuredField),
        None => Ok(None),
    };
    let remaining = get("remaining")?.ok_or(Expected::StructuredField)?;
    budgets.set(Family::Structured, "", Part::Remaining(remaining))?;
    if let Some(limit) = get("limit")? {
        budgets.set(Family::Structured, "", Part::Limit(limit))?;
    }
    match get("reset")? {
        Some(seconds) => budgets.set(Family::Structured, "", Part::Reset(Duration::from_secs(seconds))),
        None => Ok(()),
    }
}

/// Reads every item, and reports the first that cannot be read: the others count all the same.
fn each(items: Vec<Item>, mut read: impl FnMut(Item) -> Result<(), Expected>) -> Result<(), Expected> {
    let mut result = Ok(());
    for item in items {
        result = result.and(read(item));
    }
    result
}

fn items(value: &str) -> Result<Vec<Item>, Expected> {
    let list: List = Parser::new(value).parse().map_err(|_| Expected::StructuredField)?;
    let item = |entry| match entry {
        ListEntry::Item(item) => Ok(item),
        ListEntry::InnerList(_) => Err(Expected::StructuredField),
    };
    list.into_iter().map(item).collect()
}

/// A budget's name: a string, or a token in some versions.
fn text(item: &BareItem) -> Result<&str, Expected> {
    let name = item.as_string().map(|name| name.as_str()).or(item.as_token().map(|name| name.as_str()));
    name.ok_or(Expected::StructuredField)
}

fn parameter(item: &Item, name: &str) -> Result<Option<u64>, Expected> {
    item.params.get(name).map(integer).transpose()
}

fn integer(item: &BareItem) -> Result<u64, Expected> {
    let number = item.as_integer().ok_or(Expected::StructuredField)?;
    u64::try_from(i64::from(number)).map_err(|_| Expected::StructuredField)
}
