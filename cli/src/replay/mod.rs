//! Runs a recorded trace through a policy, on the trace's own clock.

mod call;
mod decision;
mod driver;
mod judge;
mod layout;
mod limits;
mod outputs;
mod progress;
mod reader;
mod spend;
mod timeline;

pub use decision::{Reason, Refused};
pub use judge::Judge;
pub use layout::Layout;
pub use timeline::Timeline;

use crate::args::{ReplayArgs, SummaryFormat};
use crate::event::Schema;
use crate::explain;
use crate::failure::{Failure, say};
use crate::policy::Policy;
use crate::summary::Report;
use driver::Driver;
use outputs::Decisions;
use reader::Reader;

/// `tollgate replay`.
///
/// # Errors
/// A policy, a mapping, a path or an input line that must be mended, or a failed read or write.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let policy = Policy::load(&args.policy)?;
    policy.no_effects()?;
    if let Some(budgets) = &policy.spend {
        return spend::run(args, &policy, budgets);
    }
    let mut schema = Schema::new(&args.map)?;
    let layout = Layout::new(&policy, &mut schema);
    // Once for its errors: the clock's start is known only with the first event.
    Judge::new(&policy, &layout, 0)?;

    let mut warn = |text: String| say(format_args!("warning: {text}"));
    if layout.limits.is_empty() {
        warn(format!("{} has no limits, so every event is admitted", policy.file));
    }
    explain::gaps(&policy)?.into_iter().for_each(&mut warn);
    for mapping in schema.unused_mappings() {
        warn(format!("--map {}={}: the policy reads no field `{0}`", mapping.name, mapping.field));
    }

    let reader = Reader::open(args, &schema, &mut warn)?;
    let input = reader.name.clone();
    let decisions = Decisions::open(args, &layout.names())?;
    let decisions_on_stdout = decisions.on_stdout();

    let driver = Driver { reader, schema: &schema, layout: &layout, decisions };
    let replayed = driver.run(|first_t_ns| Judge::new(&policy, &layout, first_t_ns))?;
    let report: Report = replayed.report(&policy.file, &input);
    let text = match args.summary {
        SummaryFormat::Table => report.to_string(),
        SummaryFormat::Json => {
            let json = serde_json::to_string_pretty(&report);
            json.map_err(|error| Failure::Run(format!("cannot write the summary: {error}")))? + "\n"
        }
    };
    outputs::print(&text, decisions_on_stdout)
}
