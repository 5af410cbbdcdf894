//! A progress bar on a terminal, and nothing anywhere else.

use crate::event::Source;
use crate::failure::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::rc::Rc;

/// Events between two looks at the bar.
const EVERY: u64 = 4_096;

/// How far the trace has been read.
pub struct Progress {
    bar: Option<ProgressBar>,
    read: Rc<Cell<u64>>,
}

impl Progress {
    pub fn new(source: &Source) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (template, size) = match source.size {
                Some(size) => ("{bar:40} {percent:>3} %  {bytes_per_sec}  {eta} left", size),
                None => ("{spinner} {bytes} read  {bytes_per_sec}", 0),
            };
            let bar = ProgressBar::with_draw_target(Some(size), ProgressDrawTarget::stderr_with_hz(10));
            bar.with_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            )
        });
        Self { bar, read: Rc::clone(&source.progress) }
    }

    #[inline]
    pub fn event(&self, number: u64) {
        if number.is_multiple_of(EVERY)
            && let Some(bar) = &self.bar
        {
            bar.set_position(self.read.get());
        }
    }

    /// Shows a line above the bar.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
