//! Where a trace comes from: a file or standard input, plain or gzip.

use crate::failure::Failure;
use flate2::bufread::MultiGzDecoder;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

/// How a trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values under a header.
    Csv,
    /// Web server logs in the combined (or common) log format.
    Combined,
}

impl Format {
    /// The format that a file's name suggests: `.csv`, `.log` (combined), and JSONL for any other.
    pub fn guess(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.') {
            Some((_, "csv")) => Format::Csv,
            Some((_, "log")) => Format::Combined,
            _ => Format::Jsonl,
        }
    }
}

/// An opened trace.
pub struct Source {
    /// The name for messages.
    pub name: String,
    /// Bytes on disk, where that is known.
    pub size: Option<u64>,
    /// Bytes read from disk so far.
    pub progress: Rc<Cell<u64>>,
    /// The trace's bytes, unpacked.
    pub bytes: Box<dyn Read>,
}

impl Source {
    /// Opens `path`, or standard input for `-`. Gzip is recognised by its first two bytes, whatever the name.
    ///
    /// # Errors
    /// When the file cannot be opened or its first bytes cannot be read.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::new("<stdin>".into(), None, Box::new(io::stdin()));
        }
        let file = File::open(path).map_err(|cause| Failure::open(path, &cause))?;
        let metadata = file.metadata().map_err(|cause| Failure::open(path, &cause))?;
        if metadata.is_dir() {
            return Err(Failure::open(path, &io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let size = metadata.is_file().then_some(metadata.len());
        Self::new(path.display().to_string(), size, Box::new(file))
    }

    /// A trace from any stream, of `size` bytes if that is known.
    ///
    /// # Errors
    /// When its first bytes cannot be read.
    pub fn new(name: String, size: Option<u64>, inner: Box<dyn Read>) -> Result<Self, Failure> {
        let progress = Rc::new(Cell::new(0));
        let mut counted = Counted { inner, read: Rc::clone(&progress) };
        let mut first = Vec::with_capacity(2);
        let read = (&mut counted).take(2).read_to_end(&mut first);
        read.map_err(|cause| Failure::read(&name, &cause))?;
        let packed = first == [0x1f, 0x8b];
        let whole = Cursor::new(first).chain(counted);
        let bytes: Box<dyn Read> = match packed {
            true => Box::new(MultiGzDecoder::new(BufReader::with_capacity(128 << 10, whole))),
            false => Box::new(whole),
        };
        Ok(Self { name, size, progress, bytes })
    }
}

/// Counts what was read.
struct Counted {
    inner: Box<dyn Read>,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

/// Is `output` the same file as `input`, so that writing it would destroy what is being read? Standard input can
/// be a file, too. Devices and pipes are not destroyed.
pub fn same_file(input: &Path, output: &Path) -> bool {
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    matches!((identity(input), identity(output)), (Some(a), Some(b)) if a == b)
}

/// What all names of a file share, hard links included.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let file = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<std::path::PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut source = Source::new("test".into(), None, Box::new(Cursor::new(bytes))).unwrap();
        let mut out = Vec::new();
        source.bytes.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn plain_and_gzip_bytes_read_alike() {
        assert_eq!(read(b"hello\n".to_vec()).unwrap(), b"hello\n");
        assert_eq!(read(packed(b"hello\n")).unwrap(), b"hello\n");
        assert_eq!(read(Vec::new()).unwrap(), b"");
        assert_eq!(read(vec![0x1f]).unwrap(), [0x1f]);
    }

    #[test]
    fn gzip_members_that_were_appended_are_all_read() {
        let two = [packed(b"a\n"), packed(b"b\n")].concat();
        assert_eq!(read(two).unwrap(), b"a\nb\n");
    }

    #[test]
    fn gzip_that_ends_too_early_is_a_failed_read() {
        let mut bytes = packed(&b"some text ".repeat(1_000));
        bytes.truncate(bytes.len() - 10);
        assert_eq!(read(bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_name_suggests_the_format() {
        let guess = |name: &str| Format::guess(Path::new(name));
        assert_eq!(guess("a/b.csv"), Format::Csv);
        assert_eq!(guess("a.CSV.gz"), Format::Csv);
        assert_eq!(guess("access.log"), Format::Combined);
        assert_eq!(guess("access.log.gz"), Format::Combined);
        assert_eq!(guess("calls.jsonl"), Format::Jsonl);
        assert_eq!(guess("-"), Format::Jsonl);
        assert_eq!(guess("csv"), Format::Jsonl);
    }
}
