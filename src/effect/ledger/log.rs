//! The ledger's file: one line a step, each with its checksum.
//!
//! ```text
//! {"op":"put","call":{"ticket":7,...}}<tab>1f2e3d4c<newline>
//! ```
//! The checksum is CRC-32 (IEEE 802.3) of what is before the tab, in hex. A line is whole or it is the last one, torn when
//! the process or the machine died: then nobody was told that it counted, and it is cut off.

use super::{Deferred, LedgerError, Ticket};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// One step in the life of a deferred call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "op", rename_all = "lowercase")]
pub(super) enum Step {
    Put {
        call: Deferred,
    },
    Move {
        ticket: Ticket,
        due: u64,
    },
    Begin {
        ticket: Ticket,
    },
    Done {
        ticket: Ticket,
    },
    Again {
        ticket: Ticket,
    },
    /// The next ticket.
    Next {
        ticket: Ticket,
    },
}

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    lines: usize,
    /// Where the last whole line ends.
    end: u64,
    /// A write failed, and what the file says is not known: it takes no more until it is written anew.
    broken: Option<String>,
    /// Keeps other processes out as long as it is open.
    _lock: File,
}

/// A line's number in the file, and what it says.
pub(super) type Numbered = (usize, Step);

impl Log {
    /// Opens or makes the file; returns its steps, and how many bytes of a torn line were cut off.
    pub(super) fn open(path: PathBuf) -> Result<(Self, Vec<Numbered>, u64), LedgerError> {
        let failed = |error: io::Error| io_error(&path, &error);
        let lock = lock(&path)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed)?;
        let (steps, end) = read(&content).map_err(|(line, what)| damaged(&path, line, what))?;
        let cut = content.len() as u64 - end;
        if cut > 0 {
            file.set_len(end).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let lines = steps.len();
        Ok((Self { path, file, lines, end, broken: None, _lock: lock }, steps, cut))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    pub(super) fn damaged(&self, line: usize, what: &str) -> LedgerError {
        damaged(&self.path, line, what.to_owned())
    }

    /// Writes a step, and returns when it will survive.
    pub(super) fn append(&mut self, step: &Step) -> Result<(), LedgerError> {
        if let Some(error) = &self.broken {
            return Err(LedgerError::Io { file: self.path.display().to_string(), error: error.clone() });
        }
        let line = line(step);
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // What may lie half written must not be read as damage in the middle once more is written.
            let back = self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
            if let Err(back) = back {
                self.broken = Some(format!("{error}, and then {back}"));
            }
            return Err(io_error(&self.path, &error));
        }
        self.end += line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// Puts another file in this one's place, which says `steps`.
    pub(super) fn rewrite(&mut self, steps: &[Step]) -> Result<(), LedgerError> {
        let failed = |error: io::Error| io_error(&self.path, &error);
        let content: Vec<u8> = steps.iter().flat_map(line).collect();
        let beside = with_suffix(&self.path, ".new");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&beside)
            .map_err(failed)?;
        file.write_all(&content).and_then(|()| file.sync_all()).map_err(failed)?;
        // Opened before the rename: from there on the old file is nobody's, and nothing may be told to it any more.
        let folder = folder_of(&self.path).map_err(failed)?;
        std::fs::rename(&beside, &self.path).map_err(failed)?;
        (self.file, self.lines, self.end, self.broken) = (file, steps.len(), content.len() as u64, None);
        // A rename survives once its folder is written.
        if let Some(error) = folder.and_then(|folder| folder.sync_all().err()) {
            self.broken = Some(error.to_string());
            return Err(io_error(&self.path, &error));
        }
        Ok(())
    }
}

fn line(step: &Step) -> Vec<u8> {
    let mut line = serde_json::to_vec(step).expect("texts and numbers are JSON");
    let sum = crc32fast::hash(&line);
    line.extend_from_slice(format!("\t{sum:08x}\n").as_bytes());
    line
}

/// The steps of a file, and where its last whole line ends. The error is a line's number and what is wrong with it.
fn read(content: &[u8]) -> Result<(Vec<Numbered>, u64), (usize, String)> {
    let mut steps = Vec::new();
    let mut end = 0;
    for (index, line) in content.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let is_last = end + line.len() == content.len();
        match checked(line) {
            // Torn: its newline never came, or came before what is in front of it.
            Err(_) if is_last => break,
            Err(what) => return Err((number, what.to_owned())),
            Ok(json) => match serde_json::from_slice(json) {
                Ok(step) => steps.push((number, step)),
                // Whole, and yet no step.
                Err(error) => return Err((number, error.to_string())),
            },
        }
        end += line.len();
    }
    Ok((steps, end as u64))
}

/// What a line says, if it is whole.
fn checked(line: &[u8]) -> Result<&[u8], &'static str> {
    let text = line.strip_suffix(b"\n").ok_or("no newline")?;
    let tab = text.len().checked_sub(9).filter(|&at| text[at] == b'\t').ok_or("no checksum")?;
    let (json, sum) = (&text[..tab], &text[tab + 1..]);
    let whole = sum == format!("{:08x}", crc32fast::hash(json)).as_bytes();
    whole.then_some(json).ok_or("its checksum is another")
}

fn io_error(path: &Path, error: &io::Error) -> LedgerError {
    LedgerError::Io { file: path.display().to_string(), error: error.to_string() }
}

fn damaged(path: &Path, line: usize, what: String) -> LedgerError {
    LedgerError::Damaged { file: path.display().to_string(), line, what }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A file beside the log, locked. (The log itself is replaced when it is written anew.)
fn lock(path: &Path) -> Result<File, LedgerError> {
    let beside = with_suffix(path, ".lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&beside)
        .map_err(|error| io_error(&beside, &error))?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FlockOperation, flock};
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LedgerError::InUse { file: path.display().to_string() });
            }
            Err(error) => return Err(io_error(&beside, &error.into())),
        }
    }
    Ok(file)
}

/// The folder of a file, where folders can be synchronised.
fn folder_of(path: &Path) -> io::Result<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(ticket: u64) -> Step {
        Step::Next { ticket: Ticket(ticket) }
    }

    #[test]
    fn a_file_whose_end_is_not_known_takes_nothing_until_it_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deferred.log");
        let (mut log, ..) = Log::open(path.clone()).unwrap();
        log.append(&next(2)).unwrap();
        log.broken = Some("the disk went away".into());
        let error = log.append(&next(3)).unwrap_err();
        assert!(error.to_string().contains("the disk went away"), "{error}");
        log.rewrite(&[next(2)]).unwrap();
        log.append(&next(4)).unwrap();
        drop(log);
        let (_, steps, cut) = Log::open(path).unwrap();
        assert_eq!((steps.len(), cut), (2, 0));
    }

    #[test]
    fn what_is_written_after_a_rewrite_is_in_the_file_of_that_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deferred.log");
        let (mut log, ..) = Log::open(path.clone()).unwrap();
        for ticket in 2..50 {
            log.append(&next(ticket)).unwrap();
        }
        log.rewrite(&[next(50)]).unwrap();
        log.append(&next(51)).unwrap();
        assert_eq!(log.lines(), 2);
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("51"), "{text}");
    }
}
