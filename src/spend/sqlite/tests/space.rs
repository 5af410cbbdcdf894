//! A file that the system lets grow no further, as a full disk does.

use super::*;
use std::process::Command;

const FOLDER: &str = "TOLLGATE_SPACE_FOLDER";

/// Does nothing unless it is started by the test below, with a limit on the size of files.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let path = Path::new(&folder).join("budgets.db");
    let (mut desk, policy) = (Desk::new(), usual());
    let store = opened(&path, &policy);
    let mut failed = 0;
    for n in 0u32.. {
        let mut next = desk.clone();
        let batch: Vec<_> = (0..8).map(|m| next.any((n * 8 + m).wrapping_mul(0x9e37_79b1))).collect();
        match store.write(&batch) {
            Ok(()) => desk = next,
            Err(error) => {
                assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
                failed += 1;
                desk.agrees(&store, &policy);
            }
        }
        if failed == 5 {
            break;
        }
    }
    // Where the log begins anew in a file that is long enough there is space again.
    store.writer().connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    store.write(&[desk.hold("after", true, super::path("t", "ann"), cost(1))]).unwrap();
    desk.agrees(&store, &policy);
    drop(store);
    whole(&path);
    let again = opened(&path, &policy);
    desk.agrees(&again, &policy);
    std::fs::write(Path::new(&folder).join("done"), "").unwrap();
}

#[test]
#[cfg(unix)]
fn when_the_log_can_grow_no_further_nothing_is_lost_and_with_space_it_works_on() {
    let folder = tempfile::tempdir().unwrap();
    // A write past the limit is an error then, as on a full disk, and no signal.
    let script = "trap '' XFSZ; ulimit -S -f 1000; exec \"$0\" --exact spend::sqlite::tests::space::child";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(folder.path().join("done").exists(), "{said}");
    whole(&folder.path().join("budgets.db"));
}
