//! Random histories against a plain model that keeps every amount with its instant.

use crate::support::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tollgate::spend::*;

#[derive(Debug, Clone)]
enum Op {
    Hold { user: u8, amount: i64, tokens: i64 },
    Extend { hold: usize, amount: i64 },
    Charge { hold: usize, amount: i64 },
    Settle { hold: usize, amount: i64 },
    Release { hold: usize },
    Wait { millis: Millis },
    Restart,
    Raise { amount: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let hold = 0..6_usize;
    prop_oneof![
        5 => (0..3_u8, 0..60_i64, 0..40_i64).prop_map(|(user, amount, tokens)| Op::Hold { user, amount, tokens }),
        2 => (hold.clone(), 0..40_i64).prop_map(|(hold, amount)| Op::Extend { hold, amount }),
        2 => (hold.clone(), 0..80_i64).prop_map(|(hold, amount)| Op::Charge { hold, amount }),
        3 => (hold.clone(), 0..90_i64).prop_map(|(hold, amount)| Op::Settle { hold, amount }),
        1 => hold.prop_map(|hold| Op::Release { hold }),
        3 => (0..90_000_u64).prop_map(|millis| Op::Wait { millis }),
        1 => Just(Op::Restart),
        1 => (50..200_u64).prop_map(|amount| Op::Raise { amount }),
    ]
}

/// A hold as the model has it: its parts with their instants, in cost and tokens.
#[derive(Debug, Clone)]
struct Kept {
    name: HoldRef,
    user: u8,
    parts: Vec<(Millis, [u64; 2])>,
    deadline: Millis,
    expired: bool,
}

/// What counts, with its instant: of a user, in cost and tokens.
type Lines = Vec<(Millis, u8, [u64; 2])>;

const TTL: Millis = 45_000;
const WINDOWS: [Millis; 2] = [MINUTE, 3 * MINUTE];

struct Model {
    used: Lines,
    holds: Vec<Kept>,
    now: Millis,
    /// Of a user in one minute, of all in three minutes, of all ever in tokens.
    limits: [u64; 3],
    on_expiry: OnExpiry,
}

impl Model {
    /// What counts against a rolling limit: everything in the current slot and the 60 before it.
    fn counts(&self, window: Millis, user: Option<u8>) -> u64 {
        let slot = |at: Millis| at / (window / 60);
        let lines = self.used.iter().copied().chain(
            self.holds
                .iter()
                .flat_map(|hold| hold.parts.iter().map(|&(at, amounts)| (at, hold.user, amounts))),
        );
        lines
            .filter(|&(at, whose, _)| {
                user.is_none_or(|user| user == whose) && slot(at) + 60 >= slot(self.now)
            })
            .map(|(_, _, [cost, _])| cost)
            .sum()
    }

    fn tokens(&self) -> u64 {
        let held = self.holds.iter().flat_map(|hold| hold.parts.iter().map(|(_, amounts)| amounts[1]));
        self.used.iter().map(|(_, _, amounts)| amounts[1]).chain(held).sum()
    }

    fn fits(&self, user: u8, [cost, tokens]: [u64; 2]) -> bool {
        let room = |used: u64, limit: u64, needed: u64| needed == 0 || used + needed <= limit;
        let levels = [
            (self.counts(WINDOWS[0], Some(user)), self.limits[0]),
            (self.counts(WINDOWS[1], None), self.limits[1]),
            (self.tokens(), self.limits[2]),
        ];
        let blocked = levels.iter().any(|&(used, limit)| used >= limit);
        room(levels[0].0, levels[0].1, cost)
            && room(levels[1].0, levels[1].1, cost)
            && room(levels[2].0, levels[2].1, tokens)
            && !(blocked && cost > 0)
    }

    fn expire(&mut self) {
        for hold in self.holds.iter_mut().filter(|hold| !hold.expired && hold.deadline <= self.now) {
            hold.expired = true;
            if self.on_expiry == OnExpiry::Released {
                hold.parts.clear();
            }
        }
    }

    /// Uses up the oldest parts first; the rest is used now.
    fn use_up(&mut self, index: usize, amounts: [u64; 2]) {
        let hold = &mut self.holds[index];
        let mut rest = amounts;
        for (at, part) in &mut hold.parts {
            let taken = [rest[0].min(part[0]), rest[1].min(part[1])];
            for dimension in 0..2 {
                part[dimension] -= taken[dimension];
                rest[dimension] -= taken[dimension];
            }
            self.used.push((*at, hold.user, taken));
        }
        self.used.push((self.now, hold.user, rest));
    }
}

fn policy(limits: [u64; 3], on_expiry: OnExpiry) -> SpendPolicy {
    SpendPolicy::new()
        .scope(Scope::keyed("user").limit(Limit::cost(limits[0], rolling(WINDOWS[0]))))
        .scope(
            Scope::shared("all")
                .limit(Limit::cost(limits[1], rolling(WINDOWS[1])))
                .limit(Limit::tokens(limits[2], Window::Lifetime)),
        )
        .ttl(Duration::from_millis(TTL))
        .on_expiry(on_expiry)
}

/// Runs a history on what `opened` opens, at first and at every restart, and compares after every step.
fn run(opened: impl Fn() -> Arc<dyn Store>, ops: &[Op], on_expiry: OnExpiry) {
    let clock = ManualWallClock::at(START);
    let limits = [100, 180, 400];
    let mut model = Model { used: Vec::new(), holds: Vec::new(), now: START, limits, on_expiry };
    let mut store = opened();
    let engine = |store: &Arc<dyn Store>, limits| {
        let builder = Spend::builder(policy(limits, on_expiry)).shared_store(Arc::clone(store));
        builder.clock(clock.clone()).open().expect("a policy that makes sense")
    };
    let mut spend = engine(&store, limits);
    for op in ops {
        model.expire();
        match *op {
            Op::Hold { user, amount, tokens } => {
                let call = Call::new().scope("user", format!("u{user}"));
                let asked = [amount.unsigned_abs(), tokens.unsigned_abs()];
                let fits = model.fits(user, asked);
                match spend.hold(&call, &cost(amount).tokens(tokens)) {
                    Ok(hold) => {
                        assert!(fits, "admitted {asked:?} of {user}");
                        let parts = vec![(model.now, asked)];
                        let (name, deadline) = (hold.detach(), model.now + TTL);
                        model.holds.push(Kept { name, user, parts, deadline, expired: false });
                    }
                    Err(SpendError::Refused(refusal)) => {
                        assert!(!fits, "refused {asked:?} of {user}: {refusal}")
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Extend { hold, amount } => {
                let Some(kept) = model.holds.get(hold).cloned() else { continue };
                let fits = model.fits(kept.user, [amount.unsigned_abs(), 0]);
                let handle = spend.resume(&kept.name).expect("it is open or expired");
                let extended = handle.extend(&cost(amount));
                handle.detach();
                match extended {
                    Ok(_) => {
                        assert!(fits && !kept.expired);
                        let hold = &mut model.holds[hold];
                        hold.parts.push((model.now, [amount.unsigned_abs(), 0]));
                        hold.deadline = model.now + TTL;
                    }
                    Err(SpendError::Refused(_)) => assert!(!fits && !kept.expired),
                    Err(SpendError::Over { phase: "expired", .. }) => assert!(kept.expired),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Charge { hold, amount } => {
                let Some(kept) = model.holds.get(hold).cloned() else { continue };
                let handle = spend.resume(&kept.name).expect("it is open or expired");
                handle.charge(&cost(amount)).expect("a charge is recorded in full");
                handle.detach();
                model.use_up(hold, [amount.unsigned_abs(), 0]);
                if !kept.expired {
                    model.holds[hold].deadline = model.now + TTL;
                }
            }
            Op::Settle { hold, amount } => {
                let Some(kept) = model.holds.get(hold).cloned() else { continue };
                let settlement =
                    spend.settle(&kept.name, &cost(amount).tokens(amount / 2)).expect("it is not over");
                assert_eq!(settlement.late, kept.expired);
                model.use_up(hold, [amount.unsigned_abs(), amount.unsigned_abs() / 2]);
                model.holds.remove(hold);
            }
            Op::Release { hold } => {
                let Some(kept) = model.holds.get(hold).cloned() else { continue };
                spend.release(&kept.name).expect("it is not over");
                model.holds.remove(hold);
            }
            Op::Wait { millis } => {
                clock.advance(millis);
                model.now += millis;
            }
            Op::Restart => {
                drop((spend, store));
                store = opened();
                spend = engine(&store, model.limits);
            }
            Op::Raise { amount } => {
                spend.set_limit("user", Dimension::Cost, &rolling(WINDOWS[0]), amount).expect("a limit");
                model.limits[0] = amount;
            }
        }
        model.expire();
        for user in 0..3 {
            let (spent, held) = used(&spend, "user", &format!("u{user}"), 0);
            assert_eq!(spent + held, model.counts(WINDOWS[0], Some(user)), "of user {user} after {op:?}");
        }
        let (spent, held) = used(&spend, "all", "", 0);
        assert_eq!(spent + held, model.counts(WINDOWS[1], None), "of all after {op:?}");
        let (spent, held) = used(&spend, "all", "", 1);
        assert_eq!(spent + held, model.tokens(), "tokens after {op:?}");
        balances(&*store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_counted_twice_in_any_history(
        ops in proptest::collection::vec(op(), 1..60),
        released in any::<bool>(),
    ) {
        let on_expiry = if released { OnExpiry::Released } else { OnExpiry::Spent };
        let store = MemoryStore::new();
        run(|| Arc::new(store.clone()), &ops, on_expiry);
    }
}

#[cfg(feature = "sqlite")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_counted_twice_in_a_file_that_is_opened_again_and_again(
        ops in proptest::collection::vec(op(), 1..40),
        released in any::<bool>(),
    ) {
        let on_expiry = if released { OnExpiry::Released } else { OnExpiry::Spent };
        let folder = tempfile::tempdir().expect("a place for files");
        let path = folder.path().join("budgets.db");
        run(|| Arc::new(SqliteStore::at(&path).expect("a store")), &ops, on_expiry);
        let audit = sqlite::audit(&path).expect("a store");
        prop_assert!(audit.findings.is_empty(), "{}", audit.findings[0]);
    }
}
