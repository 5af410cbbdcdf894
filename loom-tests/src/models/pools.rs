//! Quota pools.

use crate::explore::Model;
use crate::fixture::*;
use tollgate::limiter::{Pools, Share};

pub const MODELS: &[Model] = &[Model {
    name: "pools",
    proves: "two pools that lend to each other never give more than the one quota together",
    bounds: [2, 3],
    execution: pools,
}];

fn pools() {
    let half = Share::of(1, 2).unwrap();
    let clock = ManualClock::new();
    let pools = Pools::<u8>::builder(per_turn(4)).pool("a", half).pool("b", half).lending(true);
    let pools = Arc::new(pools.bucket_cap(2).clock(clock).build().unwrap());
    // Both pools have a bucket, and one token is gone.
    pools.check_n(0, &1, 1).unwrap();
    pools.check_n(1, &1, 1).unwrap();
    let other = pools.clone();
    let thread =
        thread::spawn(move || other.check_n(0, &1, 2).map_or(0, |pooled| pooled.own + pooled.borrowed));
    let mine = pools.check_n(1, &1, 1).map_or(0, |pooled| pooled.own + pooled.borrowed);
    let theirs = thread.join().unwrap();
    pools.audit();
    assert!(mine + theirs > 0, "two tokens were there");
    assert_eq!(pools.peek(0, &1) + pools.peek(1, &1), 2 - mine - theirs);
}
