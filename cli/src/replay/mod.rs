//! Runs a recorded trace through a policy, on the trace's own clock.

mod call;
mod decision;
mod driver;
mod judge;
mod layout;
mod limits;
mod outputs;
mod progress;
mod timeline;

pub use decision::{Reason, Refused};
pub use judge::Judge;
pub use layout::Layout;
pub use timeline::Timeline;

use crate::args::{ReplayArgs, SummaryFormat};
use crate::event::{Decoder, Format, Schema, Source};
use crate::explain;
use crate::failure::{Failure, say};
use crate::policy::Policy;
use crate::summary::Report;
use driver::Driver;
use outputs::Decisions;
use progress::Progress;

/// `tollgate replay`.
///
/// # Errors
/// A policy, a mapping, a path or an input line that must be mended, or a failed read or write.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let policy = Policy::load(&args.policy)?;
    policy.no_effects()?;
    policy.no_spend()?;
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

    let format = args.format.unwrap_or_else(|| Format::guess(&args.input));
    let source = Source::open(&args.input)?;
    let input = source.name.clone();
    let progress = Progress::new(&source);
    let decoder = Decoder::open(format, source, &schema, &mut warn)?;
    let decisions = Decisions::open(args, &layout.names())?;
    let decisions_on_stdout = decisions.on_stdout();

    let driver = Driver {
        decoder,
        schema: &schema,
        layout: &layout,
        input: &input,
        on_bad_line: args.on_bad_line,
        decisions,
        progress,
    };
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
