//! Quota arithmetic against the big-integer oracle, over the whole range of every number that goes in.

use crate::numbers::{Factor, Wide};
use crate::oracle::{Answer, Line, five_years};
use arbitrary::Arbitrary;
use num_bigint::BigInt;
use std::time::Duration;
use tollgate::ConfigError;
use tollgate::quota::{Arithmetic, Decision, Quota};

/// A quota, the width of its mark, and questions to it.
#[derive(Debug, Arbitrary)]
pub struct Input {
    stated: Stated,
    bits: Bits,
    questions: Vec<Question>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Stated {
    Bucket { tokens: Wide, period: Wide, burst: Wide },
    Window { limit: Wide, period: Wide, anchor: Wide },
    Milli { per_window: Wide, window_secs: Wide, burst_factor: Factor },
    Exact { per_window: Wide, window_secs: Wide, burst_factor: Factor },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Bits {
    Whole,
    Lane(u8),
    Any(u32),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Question {
    mark: Mark,
    now: When,
    cost: Cost,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum When {
    At(Wide),
    NearHorizon(i8),
    /// Steps of the limit's grid, and a little.
    Step(u32, i8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Mark {
    At(Wide),
    /// A part of the capacity past what is released, and a few units.
    Past(u16, i8),
    Before(u8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Cost {
    Of(Wide),
    /// A part of the capacity.
    Part(u16),
    Around(i8),
}

/// # Panics
/// When the library and the oracle disagree.
pub fn check(input: &Input) {
    let bits = match input.bits {
        Bits::Whole => 64,
        Bits::Lane(bits) => u32::from(bits % 65),
        Bits::Any(bits) => bits,
    };
    let Some((ours, exact)) = both(input.stated, bits) else { return };
    assert_shape(&ours, &exact);
    for question in input.questions.iter().take(32) {
        let now = question.now.of(&ours);
        ask(&ours, &exact, question.mark.of(&ours, now), now, question.cost.of(&ours));
    }
}

/// Both readings of a quota; `None` if both refuse it.
fn both(stated: Stated, bits: u32) -> Option<(Arithmetic, Line)> {
    match (arithmetic(stated, bits), line(stated, bits)) {
        (Ok(ours), Some(exact)) => Some((ours, exact)),
        (Err(error), None) => {
            assert!(!error.value.is_empty() && !error.accepted.is_empty(), "{stated:?}: {error}");
            None
        }
        // A mark of more than 64 bits is not on offer; the oracle knows no such bound.
        (Err(error), Some(_)) if bits == 0 || bits > 64 => {
            assert_eq!(error.field, "bits", "{stated:?} in {bits} bits: {error}");
            None
        }
        (ours, exact) => panic!("{stated:?} in {bits} bits: the library says {ours:?}, the oracle {exact:?}"),
    }
}

fn arithmetic(stated: Stated, bits: u32) -> Result<Arithmetic, ConfigError> {
    match stated {
        Stated::Bucket { tokens, period, burst } => {
            Quota::tokens_per(tokens.get(), Duration::from_nanos(period.get())).burst(burst.get())
        }
        Stated::Window { limit, period, anchor } => {
            Quota::window(limit.get(), Duration::from_nanos(period.get()))
                .anchored_at(Duration::from_nanos(anchor.get()))
        }
        Stated::Milli { per_window, window_secs, burst_factor } => {
            Quota::milli_token(per_window.get(), window_secs.get(), burst_factor.get())?
        }
        Stated::Exact { per_window, window_secs, burst_factor } => {
            Quota::exact_burst(per_window.get(), window_secs.get(), burst_factor.get())?
        }
    }
    .arithmetic(bits)
}

fn line(stated: Stated, bits: u32) -> Option<Line> {
    let bits = bits.min(128); // past any mark, and still a number that can be shifted by
    match stated {
        Stated::Bucket { tokens, period, burst } => {
            Line::bucket(tokens.get(), period.get(), burst.get(), bits)
        }
        Stated::Window { limit, period, anchor } => {
            Line::window(limit.get(), period.get(), anchor.get().into(), bits)
        }
        Stated::Milli { per_window, window_secs, burst_factor } => {
            Line::milli_token(per_window.get(), window_secs.get(), burst_factor.get(), bits)
        }
        Stated::Exact { per_window, window_secs, burst_factor } => {
            Line::exact_burst(per_window.get(), window_secs.get(), burst_factor.get(), bits)
        }
    }
}

fn assert_shape(ours: &Arithmetic, exact: &Line) {
    assert_eq!(ours.resolution(), exact.grid, "the finest grid that lasts");
    assert_eq!(BigInt::from(ours.units_per_token()), exact.units_per_token, "reduced units");
    assert_eq!(ours.capacity(), exact.capacity);
    assert_eq!(BigInt::from(ours.capacity_units()), BigInt::from(exact.capacity) * &exact.units_per_token);
    let horizon = ours.horizon();
    assert!(BigInt::from(horizon) >= five_years());
    assert!(exact.decides_at(horizon), "{horizon} is past the horizon");
    assert!(horizon == u64::MAX || !exact.decides_at(horizon + 1), "{horizon} is not the last");
    assert!(ours.horizon_years() >= 4.999 && ours.tokens_per_second() >= 0.0);
    let _ = ours.time_to_fill();
}

fn ask(ours: &Arithmetic, exact: &Line, mark: u64, now: u64, cost: u64) {
    let decided = decide(ours, exact, mark, now, cost);
    if now <= ours.horizon() {
        assert_eq!(BigInt::from(ours.accrued(now)), exact.units_of(&exact.released(now)), "accrued by {now}");
        assert_eq!(
            ours.available(mark, now),
            exact.available(&exact.tokens_of(mark), now),
            "{mark} at {now}"
        );
    }
    match decided {
        Decision::Admit { mark: end } if cost > 0 => {
            let units = ours.units(cost).expect("an admitted cost is within the capacity");
            assert_eq!(end - units, mark.max(ours.accrued(now)), "the interval ends at the new mark");
        }
        Decision::Admit { mark: end } => assert_eq!(end, mark, "a peek moves nothing"),
        Decision::Exhausted { retry_at: Some(retry_at), .. } => {
            assert!(retry_at > now);
            let on_time = decide(ours, exact, mark, retry_at, cost);
            assert!(matches!(on_time, Decision::Admit { .. }), "{on_time:?} at the hint {retry_at}");
            let early = decide(ours, exact, mark, retry_at - 1, cost);
            assert!(matches!(early, Decision::Exhausted { .. }), "{early:?} before the hint {retry_at}");
        }
        _ => {}
    }
}

fn decide(ours: &Arithmetic, exact: &Line, mark: u64, now: u64, cost: u64) -> Decision {
    let decision = ours.decide(mark, now, cost);
    let in_tokens = match decision {
        Decision::Admit { mark } => Answer::Admit(exact.tokens_of(mark)),
        Decision::Exhausted { available, retry_at } => Answer::Exhausted { available, retry_at },
        Decision::Impossible => Answer::Impossible,
        Decision::PastHorizon => Answer::PastHorizon,
    };
    let expected = exact.decide(&exact.tokens_of(mark), now, cost);
    assert_eq!(in_tokens, expected, "mark {mark}, time {now}, cost {cost}: {ours:?}");
    decision
}

impl When {
    fn of(self, ours: &Arithmetic) -> u64 {
        match self {
            When::At(at) => at.get(),
            When::NearHorizon(off) => ours.horizon().saturating_add_signed(off.into()),
            When::Step(steps, off) => {
                ours.resolution().saturating_mul(steps.into()).saturating_add_signed((off % 4).into())
            }
        }
    }
}

impl Mark {
    fn of(self, ours: &Arithmetic, now: u64) -> u64 {
        let accrued = ours.accrued(now);
        match self {
            Mark::At(mark) => mark.get(),
            Mark::Past(part, off) => {
                let past = u128::from(ours.capacity_units()) * u128::from(part) / u128::from(u16::MAX);
                let past = u64::try_from(past).expect("a part of 64 bits");
                accrued.saturating_add(past).saturating_add_signed(off.into())
            }
            Mark::Before(off) => accrued.saturating_sub(off.into()),
        }
    }
}

impl Cost {
    fn of(self, ours: &Arithmetic) -> u64 {
        match self {
            Cost::Of(cost) => cost.get(),
            Cost::Part(part) => {
                let part = u128::from(ours.capacity()) * u128::from(part) / u128::from(u16::MAX);
                u64::try_from(part).expect("a part of 64 bits")
            }
            Cost::Around(off) => ours.capacity().saturating_add_signed((off % 4).into()),
        }
    }
}
