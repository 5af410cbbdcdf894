use super::*;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn audits_and_readers_beside_a_writer_see_whole_batches_that_balance() {
    let (folder, path) = place();
    let policy = usual();
    let store = opened(&path, &policy);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let audits = scope.spawn(|| {
            let (mut audits, mut last) = (0, 0);
            while !over.load(Ordering::Relaxed) || audits == 0 {
                let counts = whole(&path).counts;
                assert!(counts.rows + counts.archived >= last);
                last = counts.rows + counts.archived;
                audits += 1;
            }
        });
        let reads = scope.spawn(|| {
            let reader = SqliteReader::open(&path).unwrap();
            while !over.load(Ordering::Relaxed) {
                // One hold a batch, of which each account has the same.
                let books = reader.books().unwrap();
                let sums = |scope: &str| {
                    let of_scope = books.iter().filter(|books| books.scope == scope);
                    of_scope.map(|books| books.books.entry(Dimension::Cost).reserved).sum::<i128>()
                };
                assert_eq!(sums("tenant"), sums("user"));
                store.usage("user", "ann", START).unwrap();
                assert!(reader.ledger().all(|row| row.is_ok()));
            }
        });
        let mut desk = Desk::new();
        for n in 0..150 {
            let id = n.to_string();
            store
                .write(&[desk.hold(&id, n % 2 == 0, super::path("t", ["ann", "bob"][n % 2]), cost(3))])
                .unwrap();
            store.write(&[desk.settle(&id, cost(4))]).unwrap();
            desk.now += HOUR;
            if n % 50 == 49 {
                store.archive(u64::MAX, folder.path().join("old.jsonl")).unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
        audits.join().unwrap();
        reads.join().unwrap();
        desk.agrees(&store, &policy);
    });
}

const FILE: &str = "TOLLGATE_BESIDE_FILE";

/// Does nothing unless it is started by the test below: writes, and waits to be killed.
#[test]
fn child() {
    let Ok(path) = std::env::var(FILE) else { return };
    let store = opened(Path::new(&path), &usual());
    store.write(&[Desk::new().hold("a", true, super::path("t", "ann"), cost(3))]).unwrap();
    print!("<written>");
    let _ = std::io::Write::flush(&mut std::io::stdout());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(store);
}

#[test]
fn a_writer_in_another_process_keeps_others_out_until_it_is_killed() {
    let (_folder, path) = place();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "spend::sqlite::tests::beside::child", "--nocapture"])
        .env(FILE, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut byte) = (String::new(), [0]);
    while !said.ends_with("<written>") {
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let refused = SqliteStore::at(&path).map(drop);
    let open = SqliteReader::open(&path).and_then(|reader| reader.open_holds());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        matches!(refused, Err(StoreError::InUse { holder: Some(pid), .. }) if pid == child.id()),
        "{refused:?}"
    );
    let mut desk = Desk::new();
    desk.hold("a", true, super::path("t", "ann"), cost(3));
    assert_eq!(open.unwrap(), desk.open());
    desk.agrees(&opened(&path, &usual()), &usual());
}
