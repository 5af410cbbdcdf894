//! Random histories against a plain model that keeps every amount with its instant.

use crate::support::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tollgate::spend::*;

#[derive(Debug, Clone)]
enum Op {
    Hold { user: u8, amount: i64, tokens: i64 },
    HoldUpTo { user: u8, amount: i64, tokens: i64 },
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
        1 => (0..3_u8, 0..60_i64, 0..40_i64).prop_map(|(user, amount, tokens)| Op::HoldUpTo { user, amount, tokens }),
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

/// What of the policy stays the same in a history.
#[derive(Debug, Clone, Copy)]
struct Terms {
    on_expiry: OnExpiry,
    /// From how many tenths of a limit on nothing may cost.
    blocked: u64,
}

fn terms() -> impl Strategy<Value = Terms> {
    let on_expiry = prop_oneof![Just(OnExpiry::Spent), Just(OnExpiry::Released)];
    (on_expiry, prop_oneof![Just(10), Just(8)]).prop_map(|(on_expiry, blocked)| Terms { on_expiry, blocked })
}

#[derive(Clone)]
struct Model {
    used: Lines,
    holds: Vec<Kept>,
    now: Millis,
    /// Of a user in one minute, of all in three minutes, of all ever in tokens.
    limits: [u64; 3],
    terms: Terms,
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

    /// What is used of each limit of a user, and the limit: two of cost, one of tokens.
    fn levels(&self, user: u8) -> [(u64, u64); 3] {
        let used = [self.counts(WINDOWS[0], Some(user)), self.counts(WINDOWS[1], None), self.tokens()];
        [0, 1, 2].map(|limit| (used[limit], self.limits[limit]))
    }

    fn tier(&self, user: u8) -> Tier {
        let reached =
            |tenths: u64| self.levels(user).iter().any(|&(used, limit)| 10 * used >= tenths * limit);
        if reached(self.terms.blocked) {
            Tier::Blocked
        } else if reached(7) {
            Tier::Reduced
        } else {
            Tier::Full
        }
    }

    /// How much cost and how many tokens there is room for.
    fn room(&self, user: u8) -> [u64; 2] {
        let [own, all, tokens] = self.levels(user).map(|(used, limit)| limit.saturating_sub(used));
        [own.min(all), tokens]
    }

    fn fits(&self, user: u8, [cost, tokens]: [u64; 2]) -> bool {
        let room = self.room(user);
        let blocked = self.tier(user) == Tier::Blocked;
        cost <= room[0] && tokens <= room[1] && !(blocked && cost > 0)
    }

    /// A refusal is right if so much does not fit, and fits when it says, not a millisecond earlier; or never.
    fn refuses(&self, user: u8, asked: [u64; 2], refusal: &Refusal) {
        let fits_after = |millis| Model { now: self.now + millis, ..self.clone() }.fits(user, asked);
        assert!(!fits_after(0), "refused {asked:?} of {user}: {refusal}");
        match refusal.retry_after {
            Some(wait) => {
                assert!(fits_after(wait), "{asked:?} of {user} after {wait} ms: {refusal}");
                assert!(!fits_after(wait - 1), "{asked:?} of {user} before {wait} ms: {refusal}");
            }
            None => assert!(!fits_after(2 * WINDOWS[1]), "{asked:?} of {user} at some time: {refusal}"),
        }
    }

    fn admits(&mut self, user: u8, granted: [u64; 2], hold: Hold) {
        assert!(self.fits(user, granted), "admitted {granted:?} of {user}");
        assert_eq!(hold.decision().tier, self.tier(user));
        let parts = vec![(self.now, granted)];
        let (name, deadline) = (hold.detach(), self.now + TTL);
        self.holds.push(Kept { name, user, parts, deadline, expired: false });
    }

    fn expire(&mut self) {
        for hold in self.holds.iter_mut().filter(|hold| !hold.expired && hold.deadline <= self.now) {
            hold.expired = true;
            if self.terms.on_expiry == OnExpiry::Released {
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

fn policy(limits: [u64; 3], terms: Terms) -> SpendPolicy {
    SpendPolicy::new()
        .scope(Scope::keyed("user").limit(Limit::cost(limits[0], rolling(WINDOWS[0]))))
        .scope(
            Scope::shared("all")
                .limit(Limit::cost(limits[1], rolling(WINDOWS[1])))
                .limit(Limit::tokens(limits[2], Window::Lifetime)),
        )
        .ttl(Duration::from_millis(TTL))
        .on_expiry(terms.on_expiry)
        .tiers(Tiers::new().blocked_at(100_000 * terms.blocked as u32))
}

fn of_user(user: u8) -> Call {
    Call::new().scope("user", format!("u{user}"))
}

/// Runs a history on what `opened` opens, at first and at every restart, and compares after every step.
fn run(opened: impl Fn() -> Arc<dyn Store>, ops: &[Op], terms: Terms) {
    let clock = ManualWallClock::at(START);
    let limits = [100, 180, 250];
    let mut model = Model { used: Vec::new(), holds: Vec::new(), now: START, limits, terms };
    let mut store = opened();
    let engine = |store: &Arc<dyn Store>, limits| {
        let builder = Spend::builder(policy(limits, terms)).shared_store(Arc::clone(store));
        builder.clock(clock.clone()).open().expect("a policy that makes sense")
    };
    let mut spend = engine(&store, limits);
    for op in ops {
        model.expire();
        match *op {
            Op::Hold { user, amount, tokens } => {
                let asked = [amount.unsigned_abs(), tokens.unsigned_abs()];
                match spend.hold(&of_user(user), &cost(amount).tokens(tokens)) {
                    Ok(hold) => model.admits(user, asked, hold),
                    Err(SpendError::Refused(refusal)) => model.refuses(user, asked, &refusal),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::HoldUpTo { user, amount, tokens } => {
                let asked = [amount.unsigned_abs(), tokens.unsigned_abs()];
                let room = model.room(user);
                match spend.hold_up_to(&of_user(user), &cost(amount).tokens(tokens), &Amounts::new()) {
                    Ok(hold) => {
                        let granted =
                            [Dimension::Cost, Dimension::Tokens].map(|of| hold.decision().granted[of]);
                        assert_eq!(granted, [asked[0].min(room[0]), asked[1].min(room[1])]);
                        model.admits(user, granted, hold);
                    }
                    Err(SpendError::Refused(refusal)) => {
                        model.refuses(user, asked.map(|amount| amount.min(1)), &refusal)
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Extend { hold, amount } => {
                let Some(kept) = model.holds.get(hold).cloned() else { continue };
                let asked = [amount.unsigned_abs(), 0];
                let handle = spend.resume(&kept.name).expect("it is open or expired");
                let extended = handle.extend(&cost(amount));
                handle.detach();
                match extended {
                    Ok(decision) => {
                        assert!(model.fits(kept.user, asked) && !kept.expired);
                        assert_eq!(decision.tier, model.tier(kept.user));
                        let hold = &mut model.holds[hold];
                        hold.parts.push((model.now, asked));
                        hold.deadline = model.now + TTL;
                    }
                    Err(SpendError::Refused(refusal)) => {
                        assert!(!kept.expired);
                        model.refuses(kept.user, asked, &refusal);
                    }
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
        terms in terms(),
    ) {
        let store = MemoryStore::new();
        run(|| Arc::new(store.clone()), &ops, terms);
    }
}

#[cfg(feature = "sqlite")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_counted_twice_in_a_file_that_is_opened_again_and_again(
        ops in proptest::collection::vec(op(), 1..40),
        terms in terms(),
    ) {
        let folder = tempfile::tempdir().expect("a place for files");
        let path = folder.path().join("budgets.db");
        run(|| Arc::new(SqliteStore::at(&path).expect("a store")), &ops, terms);
        let audit = sqlite::audit(&path).expect("a store");
        prop_assert!(audit.findings.is_empty(), "{}", audit.findings[0]);
    }
}
