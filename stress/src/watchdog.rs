//! Ends a run in which some thread never finishes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What runs now, and since when.
static RUNNING: Mutex<Option<(String, Instant)>> = Mutex::new(None);

/// Names what begins now.
pub fn begins(name: &str) {
    *RUNNING.lock().expect("a lock that nobody holds for long") = Some((name.to_owned(), Instant::now()));
}

/// From now on, ends the process, with a verdict, if what began is not followed by anything for so long.
pub fn watch(most: Duration) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let running = RUNNING.lock().expect("a lock that nobody holds for long");
            if let Some((name, since)) = running.as_ref().filter(|(_, since)| since.elapsed() > most) {
                println!(
                    "FAILED: {name} does not end within {} s: some thread waits for ever",
                    since.elapsed().as_secs()
                );
                println!("0 passed, 1 failed");
                std::process::exit(1);
            }
        }
    });
}
