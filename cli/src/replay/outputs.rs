//! Where decisions and the summary go.

use super::decision::{Decision, DecisionLog};
use crate::args::ReplayArgs;
use crate::event::same_file;
use crate::failure::Failure;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const BUFFER: usize = 256 << 10;

/// The file of decisions, or standard output.
pub struct Sink {
    out: Box<dyn Write>,
    name: String,
    on_stdout: bool,
}

impl Sink {
    /// Creates the file, or takes standard output for `-`; `None` if no decisions were asked for.
    ///
    /// # Errors
    /// When it cannot be created, or is a file that this run reads.
    pub fn open(args: &ReplayArgs) -> Result<Option<Self>, Failure> {
        let Some(path) = &args.decisions else { return Ok(None) };
        if path == Path::new("-") {
            let out: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER, io::stdout()));
            return Ok(Some(Self { out, name: String::new(), on_stdout: true }));
        }
        let name = path.display().to_string();
        for read in [&args.input, &args.policy] {
            if same_file(read, path) {
                let text =
                    format!("--decisions {name} would overwrite {}, which this run reads", read.display());
                return Err(Failure::Mend(text));
            }
        }
        let file = File::create(path).map_err(|cause| Failure::create(&name, &cause))?;
        let out: Box<dyn Write> = Box::new(BufWriter::with_capacity(BUFFER, file));
        Ok(Some(Self { out, name, on_stdout: false }))
    }

    pub fn on_stdout(&self) -> bool {
        self.on_stdout
    }

    /// Writes a line, whose end is added.
    pub fn line(&mut self, line: &str) -> Result<(), Failure> {
        let written = self.out.write_all(line.as_bytes()).and_then(|()| self.out.write_all(b"\n"));
        written.map_err(|cause| failed(&self.name, self.on_stdout, &cause))
    }

    /// Hands everything to the file.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|cause| failed(&self.name, self.on_stdout, &cause))
    }
}

fn failed(name: &str, on_stdout: bool, cause: &io::Error) -> Failure {
    if on_stdout { Failure::stdout(cause) } else { Failure::write(name, cause) }
}

/// The log of decisions, if one was asked for.
pub struct Decisions {
    log: Option<DecisionLog<Box<dyn Write>>>,
    name: String,
    on_stdout: bool,
}

impl Decisions {
    /// `names` are the limits' names by their place.
    ///
    /// # Errors
    /// As [`Sink::open`].
    pub fn open(args: &ReplayArgs, names: &[String]) -> Result<Self, Failure> {
        Ok(match Sink::open(args)? {
            None => Self { log: None, name: String::new(), on_stdout: false },
            Some(Sink { out, name, on_stdout }) => {
                Self { log: Some(DecisionLog::new(out, names)), name, on_stdout }
            }
        })
    }

    /// Is anybody interested?
    pub fn wanted(&self) -> bool {
        self.log.is_some()
    }

    pub fn on_stdout(&self) -> bool {
        self.on_stdout
    }

    pub fn write(&mut self, decision: &Decision<'_>) -> Result<(), Failure> {
        match &mut self.log {
            Some(log) => log.write(decision).map_err(|cause| failed(&self.name, self.on_stdout, &cause)),
            None => Ok(()),
        }
    }

    /// Hands everything to the file.
    pub fn finish(&mut self) -> Result<(), Failure> {
        match self.log.take() {
            Some(log) => log.finish().map_err(|cause| failed(&self.name, self.on_stdout, &cause)),
            None => Ok(()),
        }
    }
}

/// Prints a summary on standard output, or on standard error where standard output has the decisions.
pub fn print(text: &str, to_stderr: bool) -> Result<(), Failure> {
    if to_stderr {
        let written = io::stderr().write_all(text.as_bytes());
        return written.map_err(|cause| Failure::write("standard error", &cause));
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|cause| Failure::stdout(&cause))
}
