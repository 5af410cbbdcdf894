//! Waiting for a processor that other work has, as the operating system counts it.

use std::time::Duration;

/// How long this thread was ready to run and did not.
#[derive(Default)]
pub struct Waiting {
    total: Duration,
}

impl Waiting {
    /// Since the last time this was asked; the first answer is of no use.
    pub fn since_last(&mut self) -> Duration {
        let total = run_queue_wait().unwrap_or(self.total);
        let waited = total.saturating_sub(self.total);
        self.total = total;
        waited
    }
}

/// The second number of Linux's `schedstat`; `None` where there is no such file. The time that a hypervisor gives to
/// other machines is not in it.
fn run_queue_wait() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}
