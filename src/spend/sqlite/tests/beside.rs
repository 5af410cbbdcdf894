use super::*;
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
                    of_scope.map(|books| books.books.entry(Dimension::Cost).reserved).sum::<i64>()
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
