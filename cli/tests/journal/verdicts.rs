//! What `tollgate verify` says of a journal, and a history to forge.

use super::*;
use tollgate_cli::verify::{Verdict, verify};

pub fn verdict(text: &str) -> Verdict {
    verify(text.as_bytes(), &policy(), false).unwrap()
}

#[track_caller]
pub fn accepted(journal: &Journal) -> String {
    let verdict = verdict(&journal.sealed());
    assert!(verdict.is_accepted(), "{verdict}\n{}", journal.sealed());
    verdict.to_string()
}

/// A forgery that is numbered, chained and sealed anew is refused at a line, for what it says there.
#[track_caller]
pub fn refused(journal: &Journal, line: u64, part: &str) {
    match verdict(&journal.sealed()) {
        Verdict::Accepted(_) => panic!("accepted:\n{}", journal.sealed()),
        Verdict::Refused { line: told, what } => {
            assert!(what.contains(part) && told == line, "line {told}: {what}\n{}", journal.sealed());
        }
    }
}

pub fn model() -> Model {
    Model::new(effects())
}

/// Two searches of 2 at 0 s, one more refused; at 0.5 s the first is refunded, the second emitted; and an e-mail.
pub fn history() -> Model {
    let mut model = model();
    let first = model.call(SEARCH, 0, "aa", 2).unwrap();
    let second = model.call(SEARCH, 0, "aa", 2).unwrap();
    assert_eq!(model.call(SEARCH, 0, "aa", 1), None);
    model.refund(SECOND / 2, first);
    model.emit(SECOND / 2, second);
    let email = model.call(EMAIL, SECOND, "bb", 1).unwrap();
    model.emit(2 * SECOND, email);
    model
}
