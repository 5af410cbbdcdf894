//! Why a run ended early, and the exit code that says whose turn it is.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

/// Writes a line on standard error. Where that cannot be written, nobody is there to be told, and the run's
/// outcome is the same.
pub fn say(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A reason to stop. Its text is complete: it needs no prefix but the program's name.
#[derive(Debug)]
pub enum Failure {
    /// The user must mend something: a policy, an input line, a path. Exit code 2.
    Mend(String),
    /// Something failed at run time: a read, a write. Exit code 1.
    Run(String),
    /// Whoever read our standard output has gone. Nothing is left to say to them: exit code 0, no message.
    ReaderGone,
    /// What was to be checked is refused; standard output says why. Exit code 1, no message.
    Refused,
}

impl Failure {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Mend(_) => 2,
            Failure::Run(_) | Failure::Refused => 1,
            Failure::ReaderGone => 0,
        }
    }

    /// A file named on the command line could not be opened for reading.
    pub fn open(path: &Path, cause: &io::Error) -> Self {
        Failure::Mend(format!("cannot open {}: {cause}", path.display()))
    }

    /// An output could not even be begun: its path is for the user to mend.
    pub fn create(path: &str, cause: &io::Error) -> Self {
        Failure::Mend(format!("cannot create {path}: {cause}"))
    }

    /// A stream that was opened could not be read to its end.
    pub fn read(name: &str, cause: &io::Error) -> Self {
        Failure::Run(format!("cannot read {name}: {cause}"))
    }

    /// A write failed.
    pub fn write(path: &str, cause: &io::Error) -> Self {
        Failure::Run(format!("cannot write {path}: {cause}"))
    }

    /// A write to standard output failed. A closed pipe is a reader that has seen enough.
    pub fn stdout(cause: &io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::write("standard output", cause),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Mend(text) | Failure::Run(text) => f.write_str(text),
            Failure::Refused => f.write_str("refused"),
            Failure::ReaderGone => f.write_str("standard output was closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_a_users_mistake_from_a_failed_run() {
        assert_eq!(Failure::Mend(String::new()).exit_code(), 2);
        assert_eq!(Failure::Run(String::new()).exit_code(), 1);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failed_write() {
        let gone = Failure::stdout(&io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(gone, Failure::ReaderGone));
        let full = Failure::stdout(&io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Failure::Run(text) if text.contains("standard output")));
    }
}
