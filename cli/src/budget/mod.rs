//! `tollgate budget`: looks into a store of spend budgets, and repairs holds by hand.
//!
//! | file | idea |
//! |---|---|
//! | `store` | a file that is there, opened to read; what its errors ask of whom |
//! | `amounts` | amounts for people and as JSON |
//! | `status` | each limit of each account |
//! | `holds` | open holds |
//! | `repair` | settling and releasing by hand |
//! | `audit` | everything added up again |
//! | `archive` | old rows of the ledger, moved to a file of lines |

mod amounts;
mod archive;
mod audit;
mod holds;
mod repair;
mod status;
mod store;

use crate::args::BudgetCommand;
use crate::failure::Failure;
use std::io::{self, Write};

/// `tollgate budget`.
///
/// # Errors
/// What is wrong with the store or the options, a failed read or write, or [`Failure::Refused`] once an audit's findings are
/// printed.
pub fn run(command: &BudgetCommand) -> Result<(), Failure> {
    match command {
        BudgetCommand::Status(args) => status::run(args),
        BudgetCommand::Holds(args) => holds::run(args),
        BudgetCommand::Settle(args) => repair::settle(args),
        BudgetCommand::Release(args) => repair::release(args),
        BudgetCommand::Audit(args) => audit::run(args),
        BudgetCommand::Archive(args) => archive::run(args),
    }
}

/// Prints `text`, whose lines are all ended, or the JSON.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|cause| Failure::stdout(&cause))
}
