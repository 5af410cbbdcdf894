//! The trace's own clock: never backwards, whatever the trace says.

/// Clamps times to the latest seen and counts what runs backwards.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timeline {
    first: Option<u64>,
    previous: u64,
    latest: u64,
    backward_steps: u64,
    clamped: u64,
}

impl Timeline {
    /// Takes the next event's time and returns the time to decide at.
    #[inline]
    pub fn advance(&mut self, t_ns: u64) -> u64 {
        if self.first.is_none() {
            self.first = Some(t_ns);
        } else if t_ns < self.previous {
            self.backward_steps += 1;
        }
        self.previous = t_ns;
        if t_ns < self.latest {
            self.clamped += 1;
        } else {
            self.latest = t_ns;
        }
        self.latest
    }

    /// Nanoseconds from the first event to the latest.
    pub fn span(&self) -> u64 {
        self.latest - self.first.unwrap_or(self.latest)
    }

    /// Events whose time is before the previous event's.
    pub fn backward_steps(&self) -> u64 {
        self.backward_steps
    }

    /// Events whose time is before the latest seen, so that they were decided later than they say.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_clamped_to_the_latest_and_steps_backwards_are_counted() {
        let mut timeline = Timeline::default();
        let clamped: Vec<_> = [10, 5, 7, 10, 12, 11].into_iter().map(|t| timeline.advance(t)).collect();
        assert_eq!(clamped, [10, 10, 10, 10, 12, 12]);
        assert_eq!(timeline.backward_steps(), 2, "10 to 5 and 12 to 11; 5 to 7 goes forward");
        assert_eq!(timeline.clamped(), 3, "5, 7 and 11 are before the latest");
        assert_eq!(timeline.span(), 2);
    }

    #[test]
    fn no_events_span_no_time() {
        assert_eq!(Timeline::default().span(), 0);
    }
}
