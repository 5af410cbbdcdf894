use super::*;

/// `cargo test --release --features sqlite --lib spend::sqlite::tests::speed -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
#[cfg(target_os = "linux")]
fn what_a_record_costs() {
    let cpu = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    for (batch, users) in [(1, 1), (1, 1_000), (16, 100), (16, 10_000), (64, 100), (64, 10_000), (256, 100)] {
        let (_folder, path) = place();
        let store = opened(&path, &usual());
        let (mut desk, mut spent, mut count, mut generator) = (Desk::new(), 0.0, 0, 0);
        let mut open: Vec<String> = Vec::new();
        let began = std::time::Instant::now();
        while count < 20_000.min(batch * 300) {
            let mut records = Vec::new();
            for id in std::mem::take(&mut open) {
                records.push(desk.settle(&id, cost(4)));
                desk.holds.remove(&id);
            }
            while records.len() < batch {
                let id = format!("{count} {}", records.len());
                let user = (generator * 7_919 % users).to_string();
                generator += 1;
                records.push(desk.hold(&id, false, super::path("t", &user), cost(10)));
                desk.now += 7;
                if open.len() * 2 < batch {
                    open.push(id);
                }
            }
            desk.records.clear();
            count += records.len();
            let before = cpu();
            store.write(&records).unwrap();
            spent += cpu() - before;
        }
        let each = spent / count as f64;
        println!(
            "batch {batch:>3}, {users:>6} users: {each:.1} us of CPU a record; {:?} in all",
            began.elapsed()
        );
        let began = std::time::Instant::now();
        drop(store);
        drop(opened(&path, &usual()));
        println!(
            "    opened with {count} rows in {:?}; {} KiB",
            began.elapsed(),
            std::fs::metadata(&path).unwrap().len() >> 10
        );
    }
}
