//! `cargo bench`: hits from one thread, by the contenders and with the count checks of `tollgate bench`.

use criterion::{Criterion, criterion_group, criterion_main};
use std::time::Duration;
use tollgate_bench::{Sizes, Workload, workloads};

fn hits(criterion: &mut Criterion) {
    for workload in Workload::ALL.into_iter().filter(|workload| workload.is_of_hits()) {
        let contenders = workloads::contenders(workload, &Sizes::default(), 1);
        let mut group = criterion.benchmark_group(workload.name());
        for mut contender in contenders.unwrap_or_else(|error| panic!("{error}")) {
            let name = contender.name().to_owned();
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|calls| {
                    // Whole passes over all keys, of which as many calls are told as were asked for.
                    let sample = contender.round(1, calls).unwrap_or_else(|error| panic!("{error}"));
                    Duration::from_nanos((sample.ns_per_op() * calls as f64) as u64)
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500));
    targets = hits
}
criterion_main!(benches);
