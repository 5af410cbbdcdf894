//! One writer a file: an exclusive lock on a file beside it, for as long as the writer lives.
//!
//! The system gives the lock back when the process ends, however it ends. The side file stays: to remove it would let
//! two processes lock two files of the same name.

use super::fault::Named;
use crate::spend::store::StoreError;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};

/// The lock; dropping it gives it back.
#[derive(Debug)]
pub(super) struct WriterLock {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    file: File,
}

impl WriterLock {
    pub(super) fn take(store: &Named) -> Result<Self, StoreError> {
        let beside = Named::new(super::beside(store.path(), ".lock"));
        let failed = |error: std::io::Error| beside.io("lock", error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(beside.path())
            .map_err(failed)?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FlockOperation, flock};
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(StoreError::InUse { path: store.text(), holder: holder(&mut file) });
                }
                Err(error) => return Err(beside.io("lock", error)),
            }
        }
        // Only for the error of whoever comes next: a disk that is full must not keep the store from being opened.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}

#[cfg(target_os = "linux")]
impl Drop for WriterLock {
    /// To close the file is not enough: a child process that is just being started still has it until its program begins.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}

#[cfg(target_os = "linux")]
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
