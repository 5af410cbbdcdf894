//! `tollgate verify`: checks a journal of effects against its policy, without the engine's decision code.
//!
//! | file | idea |
//! |---|---|
//! | `lines` | lines as bytes, and their chain |
//! | `record` | a line as a record, in canonical form |
//! | `header`, `release` | the first line against the policy; a quota's line in integers of its own |
//! | `permits` | grants, and what became of each |
//! | `checker` | each record where it stands |
//! | `bucket` | each bucket's changes in their one order |
//! | `bounds` | a second bound, from times, costs and refunds alone |
//! | `verdict` | the answer |

mod bounds;
mod bucket;
mod checker;
mod header;
mod lines;
mod permits;
mod record;
mod release;
mod verdict;

pub use checker::Counts;
pub use verdict::{Accepted, Verdict};

use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::policy::Policy;
use checker::Checker;
use lines::{Hash, Lines, Next, chained, covered, hex};
use record::{Reader, Record};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use tollgate::effect::EffectPolicy;

/// `tollgate verify`.
///
/// # Errors
/// What is wrong with the policy or the path, or [`Failure::Refused`] once the verdict is printed.
pub fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let policy = Policy::load(&args.policy)?;
    if policy.effects.rules().is_empty() {
        let text = "no effects, accepted: a policy with at least one [[effect]]";
        return Err(Failure::Mend(format!("{}: {text}", policy.file)));
    }
    let journal: Box<dyn BufRead> = if args.journal == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.journal).map_err(|cause| Failure::open(&args.journal, &cause))?;
        Box::new(BufReader::with_capacity(1 << 18, file))
    };
    // Exit code 1 says that the journal is refused: one that cannot be read is for the user to mend.
    let unread = |cause| Failure::Mend(format!("cannot read {}: {cause}", args.journal.display()));
    let verdict = verify(journal, &policy.effects, args.open).map_err(unread)?;
    let text = if args.json { verdict.json().to_string() } else { verdict.to_string() };
    let mut out = io::stdout().lock();
    let printed = writeln!(out, "{text}").and_then(|()| out.flush());
    if !verdict.is_accepted() {
        return Err(Failure::Refused);
    }
    printed.map_err(|cause| Failure::stdout(&cause))
}

/// Checks a journal. An `open` one needs no seal, and its last line may be torn.
///
/// # Errors
/// Whatever the stream reports.
pub fn verify(journal: impl BufRead, policy: &EffectPolicy, open: bool) -> io::Result<Verdict> {
    let mut lines = Lines::new(journal);
    let mut chain = Chain {
        policy: Checker::new(policy),
        reader: Reader::default(),
        last: [0; 32],
        number: 0,
        sealed: false,
    };
    let torn = loop {
        let line = chain.number + 1;
        let refused = |what: String| Ok(Verdict::Refused { line, what });
        match lines.next()? {
            Next::Line(_) | Next::Torn(_) | Next::TooLong if chain.sealed => {
                return refused("there is something after the seal".into());
            }
            Next::Line(bytes) => {
                if let Err(what) = chain.line(bytes) {
                    return refused(what);
                }
            }
            Next::TooLong => return refused(format!("longer than {} bytes", lines::LONGEST)),
            Next::Torn(bytes) if open => break bytes,
            Next::Torn(_) => {
                return refused("its end is missing (--open leaves a torn last line out)".into());
            }
            Next::End => break 0,
        }
    };
    Ok(chain.finish(open, torn))
}

/// The journal so far.
struct Chain<'p> {
    policy: Checker<'p>,
    reader: Reader,
    last: Hash,
    /// Lines so far.
    number: u64,
    sealed: bool,
}

impl Chain<'_> {
    fn line(&mut self, bytes: &[u8]) -> Result<(), String> {
        let line = self.reader.read(bytes)?;
        if line.seq != self.number {
            return Err(format!("seq is {}, not {}", line.seq, self.number));
        }
        let hash = chained(&self.last, covered(bytes));
        if hex(&hash) != line.hash {
            return Err(
                "its hash does not follow from the lines before it: one of them, or this one, was changed"
                    .into(),
            );
        }
        match line.record {
            Record::Seal { .. } if self.number == 0 => {
                return Err("the first record is not of kind \"open\"".into());
            }
            Record::Seal { count, last } => {
                if count != self.number {
                    return Err(format!("the seal counts {count} lines, there are {}", self.number));
                }
                if last != hex(&self.last) {
                    return Err("the seal names another last line".into());
                }
                self.sealed = true;
            }
            record => {
                // Line numbers are kept in 32 bits.
                let number =
                    u32::try_from(self.number + 1).map_err(|_| "more lines than can be checked at once")?;
                self.policy.record(number, record)?;
            }
        }
        self.last = hash;
        self.number += 1;
        Ok(())
    }

    fn finish(self, open: bool, torn: usize) -> Verdict {
        let line = self.number + 1;
        if self.number == 0 {
            return Verdict::Refused { line, what: "there is no first line".into() };
        }
        if !self.sealed && !open {
            let what = "there is no seal, so lines may be missing (--open accepts that)".into();
            return Verdict::Refused { line, what };
        }
        match self.policy.finish() {
            Ok(counts) => Verdict::Accepted(Accepted {
                records: self.number - 1 - u64::from(self.sealed),
                counts,
                hash: hex(&self.last),
                sealed: self.sealed,
                torn,
            }),
            Err(violation) => Verdict::Refused { line: violation.line.into(), what: violation.what },
        }
    }
}
