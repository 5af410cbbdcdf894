//! Small tables, and the checks that follow an execution.

pub use loom::sync::Arc;
pub use loom::thread;
pub use std::time::Duration;
pub use tollgate::model::{Modelled, Pairs};
pub use tollgate::quota::Quota;
pub use tollgate::time::ManualClock;
pub use tollgate::{Admission, LimitSet, Limiter, Plan, Reason, Refusal};

/// A window's period: the times of the models are small, as their words are narrow.
pub const TURN: Duration = Duration::from_nanos(10);

/// `limit` tokens in each turn.
pub fn per_turn(limit: u64) -> Quota {
    Quota::window(limit, TURN)
}

pub type Buckets = Arc<Limiter<u8>>;

/// Buckets of `limit` tokens a turn, for keys of one byte. Up to 3 cells lie in one shard, 4 in two.
pub fn limiter(limit: u64, cells: usize, clock: &ManualClock) -> Buckets {
    Arc::new(Limiter::builder(per_turn(limit)).bucket_cap(cells).clock(clock.clone()).build().unwrap())
}

/// Limits named a, b, ... of so many tokens a turn.
pub fn limits<const N: usize>(tokens: [u64; N], cells: usize, clock: &ManualClock) -> Arc<LimitSet> {
    let mut set = LimitSet::builder().bucket_cap(cells).clock(clock.clone());
    for (name, tokens) in ["a", "b", "c"].into_iter().zip(tokens) {
        set = set.limit(name, per_turn(tokens));
    }
    Arc::new(set.build().unwrap())
}

/// One token of each of `draws`, together.
pub fn draw(set: &LimitSet, draws: &[usize]) -> Result<Vec<Admission>, Refusal> {
    let mut plan = Plan::new();
    for &limit in draws {
        set.plan(limit, &(), 1, &mut plan);
    }
    plan.commit().map(|admissions| admissions.to_vec()).map_err(|refused| refused.refusal)
}

/// Gives each limit a bucket that one token was drawn from.
pub fn touch(set: &LimitSet, draws: &[usize]) {
    for &limit in draws {
        draw(set, &[limit]).unwrap();
    }
}

/// Intervals of one bucket must not overlap.
pub fn disjoint(admissions: impl IntoIterator<Item = Admission>) {
    let mut all: Vec<_> = admissions.into_iter().map(|a| (a.from, a.to)).collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "spent twice: {pair:?}");
    }
}
