//! Policies of any bytes: refused with a place, or accepted, and then they explain, build and decide.

use tollgate::spend::{Amounts, Call, Dimension, ManualWallClock, Spend, SpendPolicy};
use tollgate_cli::event::{Kind, Record, Schema};
use tollgate_cli::explain;
use tollgate_cli::failure::Failure;
use tollgate_cli::policy::{Policy, duration};
use tollgate_cli::replay::{Judge, Layout};

/// Tables are built no larger than this: their size is not what the target is about, and zeroing takes time.
const MOST_BUCKETS: usize = 512;

/// # Panics
/// On a panic of the tool, a refusal without a place, or an accepted policy that cannot be used.
pub fn check(bytes: &[u8]) {
    std::str::from_utf8(bytes).unwrap_or("").split('"').for_each(check_duration);
    let mut policy = match Policy::read("p.toml", bytes) {
        Ok(policy) => policy,
        Err(failure) => return assert_placed(&failure, bytes),
    };
    policy.bucket_cap = policy.bucket_cap.min(MOST_BUCKETS);
    let mut schema = Schema::new(&[]).expect("no mapping, no mistake");
    let layout = Layout::new(&policy, &mut schema);
    assert_eq!(layout.names().len(), layout.limits.len());
    for start in [0, 1_431_857_103_000_000_000] {
        match Judge::new(&policy, &layout, start) {
            Ok(judge) => decide(judge, &layout, &schema, start),
            Err(failure) => assert_placed(&failure, bytes),
        }
    }
    explain::gaps(&policy).expect("an accepted policy has quotas");
    match explain::explanation(&policy) {
        Ok(text) => assert!(layout.names().iter().all(|name| text.contains(name.as_str())), "{text}"),
        Err(failure) => assert_placed(&failure, bytes),
    }
    for limit in &policy.limits {
        assert!(!limit.name.is_empty());
    }
    if let Some(budgets) = &policy.spend {
        spend(budgets);
    }
}

/// A few calls on every scope, far apart in time, which settle or are given back.
fn spend(policy: &SpendPolicy) {
    policy.validate().expect("an accepted policy makes sense");
    for limit in policy.scopes().iter().flat_map(|scope| scope.limits()) {
        let shown = limit.window().to_string();
        assert_eq!(shown.parse().as_ref(), Ok(limit.window()), "{shown:?}");
        let cost = policy.money().show(limit.amount());
        assert!(limit.dimension() != Dimension::Cost || policy.money().parse(&cost) == Ok(limit.amount()));
    }
    let clock = ManualWallClock::at(0);
    let spend = Spend::builder(policy.clone()).clock(clock.clone()).open().expect("an accepted policy opens");
    let keyed = policy.scopes().iter().filter(|scope| !scope.is_shared());
    let call = keyed.fold(Call::new(), |call, scope| call.scope(scope.name(), "k"));
    let most = Amounts::new().cost(2).tokens(1).calls(1).seconds(1).runs(1);
    for at in [0, 1, 90_000_000, 1_767_225_600_000, 253_370_764_800_000] {
        clock.set(at);
        if let Ok(hold) = spend.hold(&call, &most) {
            let _ = hold.settle(&Amounts::new().cost(1).tokens(1));
        }
        let _ = spend.hold(&call, &most).map(|hold| hold.release());
    }
}

/// `file:line: what is wrong, accepted: ...`, for somebody to mend.
fn assert_placed(failure: &Failure, bytes: &[u8]) {
    let Failure::Mend(text) = failure else { panic!("{failure:?}") };
    let (line, what) = text
        .strip_prefix("p.toml:")
        .and_then(|rest| rest.split_once(": "))
        .unwrap_or_else(|| panic!("no place in {text:?}"));
    let line: usize = line.parse().unwrap_or_else(|_| panic!("no line in {text:?}"));
    let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert!((1..=lines).contains(&line), "line {line} of {lines}: {text:?}");
    assert!(!what.is_empty(), "{text:?}");
}

/// A few events, with every field there or none, in ascending time.
fn decide(mut judge: Judge, layout: &Layout, schema: &Schema, start: u64) {
    let mut record = Record::new(schema.len());
    let mut remaining = Vec::new();
    let kinds = [(Kind::Plain, "7"), (Kind::Text, "x"), (Kind::Absent, ""), (Kind::Number, "1")];
    for (number, (kind, text)) in kinds.into_iter().cycle().take(12).enumerate() {
        record.clear();
        for slot in schema.wanted().iter().flat_map(|wanted| &wanted.slots) {
            record.field_mut(*slot).set(kind, text);
        }
        let t_ns = start.saturating_add(number as u64 * 700_000_000);
        remaining.clear();
        let refused = judge.decide(t_ns, &record, Some(&mut remaining));
        for place in refused.iter().map(|refused| refused.limit).chain(remaining.iter().map(|left| left.0)) {
            assert!(place < layout.limits.len(), "limit {place} of {}", layout.limits.len());
        }
    }
}

/// Durations print so that they read back.
fn check_duration(text: &str) {
    if let Some(nanos) = duration::parse(text) {
        let shown = duration::show(nanos);
        assert_eq!(duration::parse(&shown), Some(nanos), "{text:?} is shown as {shown:?}");
    }
}
