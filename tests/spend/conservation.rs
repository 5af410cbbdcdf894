//! Random histories under random policies, against the [plain model](crate::model).

use crate::model::*;
use crate::support::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tollgate::spend::*;

#[derive(Debug, Clone)]
enum Op {
    Hold {
        user: u8,
        asked: Amount,
        named: bool,
    },
    HoldUpTo {
        user: u8,
        asked: Amount,
    },
    /// The call of that number is made again.
    Again {
        call: usize,
    },
    Extend {
        hold: usize,
        more: Amount,
    },
    Charge {
        hold: usize,
        used: Amount,
    },
    Settle {
        hold: usize,
        used: Amount,
    },
    Release {
        hold: usize,
    },
    Wait {
        millis: Millis,
    },
    Restart,
    /// With other limits from here on.
    RestartWith {
        policy: usize,
    },
    Change {
        limit: usize,
        amount: u64,
    },
}

/// Up to so much cost, often with tokens, sometimes with a run.
fn amount(most: u64) -> impl Strategy<Value = Amount> {
    let tokens = prop_oneof![Just(0), 0..most];
    let runs = prop_oneof![3 => Just(0), 1 => Just(1u64)];
    (prop_oneof![1 => Just(0), 4 => 0..most], tokens, runs)
        .prop_map(|(cost, tokens, runs)| [cost, tokens, runs])
}

/// Of what is used no runs are told.
fn used(most: u64) -> impl Strategy<Value = Amount> {
    amount(most).prop_map(|[cost, tokens, _]| [cost, tokens, 0])
}

fn op() -> impl Strategy<Value = Op> {
    let (user, hold) = (0..3_u8, 0..6_usize);
    prop_oneof![
        5 => (user.clone(), amount(60), any::<bool>()).prop_map(|(user, asked, named)| Op::Hold { user, asked, named }),
        1 => (user, amount(60)).prop_map(|(user, asked)| Op::HoldUpTo { user, asked }),
        2 => (0..20_usize).prop_map(|call| Op::Again { call }),
        2 => (hold.clone(), amount(40)).prop_map(|(hold, more)| Op::Extend { hold, more }),
        2 => (hold.clone(), used(80)).prop_map(|(hold, used)| Op::Charge { hold, used }),
        3 => (hold.clone(), used(90)).prop_map(|(hold, used)| Op::Settle { hold, used }),
        1 => hold.prop_map(|hold| Op::Release { hold }),
        3 => (0..90_000_u64).prop_map(|millis| Op::Wait { millis }),
        1 => Just(Op::Restart),
        1 => (0..2_usize).prop_map(|policy| Op::RestartWith { policy }),
        1 => (0..8_usize, 50..200_u64).prop_map(|(limit, amount)| Op::Change { limit, amount }),
    ]
}

/// A limit of each of some kinds.
fn lines() -> impl Strategy<Value = Vec<Line>> {
    let fixed = |length, anchor| Window::fixed(Duration::from_millis(length), anchor).expect("a length");
    let windows = [Window::Lifetime, rolling(MINUTE), rolling(3 * MINUTE), fixed(MINUTE, START + 17_000)];
    let kinds = [false, true].into_iter().flat_map(move |shared| {
        let windows = windows.clone();
        let of_amounts = [0, 1].into_iter().flat_map(move |dimension| {
            windows.clone().into_iter().map(move |window| (shared, dimension, window))
        });
        of_amounts.chain([(shared, 2, Window::Lifetime)])
    });
    let picked = proptest::sample::subsequence(kinds.collect::<Vec<_>>(), 1..6);
    let line = |(shared, dimension, window)| {
        let amount = if dimension == 2 { 1..4_u64 } else { 60..250 };
        amount.prop_map(move |amount| Line { shared, dimension, window: Window::clone(&window), amount })
    };
    picked.prop_flat_map(move |kinds| kinds.into_iter().map(line).collect::<Vec<_>>())
}

fn terms() -> impl Strategy<Value = Terms> {
    let on_expiry = prop_oneof![Just(OnExpiry::Spent), Just(OnExpiry::Released)];
    (on_expiry, prop_oneof![Just(10), Just(8)]).prop_map(|(on_expiry, blocked)| Terms { on_expiry, blocked })
}

#[derive(Debug, Clone)]
struct History {
    policies: [Vec<Line>; 2],
    terms: Terms,
    ops: Vec<Op>,
}

fn history(steps: usize) -> impl Strategy<Value = History> {
    let ops = proptest::collection::vec(op(), 1..steps);
    ([lines(), lines()], terms(), ops).prop_map(|(policies, terms, ops)| History { policies, terms, ops })
}

fn amounts(of: Amount) -> Amounts {
    let each = COUNTED.into_iter().zip(of);
    each.fold(Amounts::new(), |amounts, (dimension, amount)| amounts.of(dimension, amount as i64))
}

fn of_user(user: u8) -> Call {
    Call::new().scope("user", format!("u{user}"))
}

/// A call with an id, and what came of it.
#[derive(Debug)]
struct Made {
    call: Call,
    asked: Amount,
    answer: Result<(HoldRef, Decision), Refusal>,
}

/// Runs a history on what `opened` opens, at first and at every restart, and compares after every step. A store with
/// `ledger` adds up for new limits what was used before; another may refuse them.
fn run(opened: impl Fn() -> Arc<dyn Store>, ledger: bool, history: &History) {
    let clock = ManualWallClock::at(START);
    let mut model = Model::new(history.policies[0].clone(), history.terms);
    let mut calls: Vec<Made> = Vec::new();
    let mut store = opened();
    let open = |store: &Arc<dyn Store>, lines: &[Line]| {
        let builder = Spend::builder(policy(lines, history.terms)).shared_store(Arc::clone(store));
        builder.clock(clock.clone()).open()
    };
    let mut spend = open(&store, &model.lines).expect("a policy that makes sense");
    for op in &history.ops {
        model.at(clock.unix_millis());
        match *op {
            Op::Hold { user, asked, named } => {
                let id = format!("call-{}", calls.len());
                let call = if named { of_user(user).id(id) } else { of_user(user) };
                let answer = match spend.hold(&call, &amounts(asked)) {
                    Ok(hold) => {
                        assert!(!hold.is_replayed());
                        let answer = (hold.name().clone(), hold.decision().clone());
                        model.holds(user, asked, hold);
                        Ok(answer)
                    }
                    Err(SpendError::Refused(refusal)) => {
                        model.refuses(user, asked, &refusal);
                        Err(*refusal)
                    }
                    Err(error) => panic!("{error}"),
                };
                if named {
                    calls.push(Made { call, asked, answer });
                }
            }
            Op::Again { call } => {
                let Some(Made { call, asked, answer }) = calls.get(call) else { continue };
                match spend.hold(call, &amounts(*asked)) {
                    Ok(hold) => {
                        assert!(hold.is_replayed());
                        assert_eq!(&Ok((hold.name().clone(), hold.decision().clone())), answer);
                    }
                    Err(SpendError::Refused(refusal)) => assert_eq!(&Err(*refusal), answer),
                    Err(error) => panic!("{error}"),
                }
            }
            Op::HoldUpTo { user, asked } => {
                match spend.hold_up_to(&of_user(user), &amounts(asked), &Amounts::new()) {
                    Ok(hold) => model.holds(user, model.part_of(user, asked), hold),
                    Err(SpendError::Refused(refusal)) => {
                        model.refuses(user, asked.map(|amount| amount.min(1)), &refusal)
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Extend { hold, more } => {
                let Some(kept) = model.holds.get(hold) else { continue };
                let handle = spend.resume(&kept.name).expect("it is open or expired");
                match handle.extend(&amounts(more)) {
                    Ok(decision) => model.extends(hold, more, &decision),
                    Err(SpendError::Refused(refusal)) => {
                        assert!(!kept.expired);
                        model.refuses(kept.user, more, &refusal);
                    }
                    Err(SpendError::Over { phase: "expired", .. }) => assert!(kept.expired),
                    Err(error) => panic!("{error}"),
                }
                handle.detach();
            }
            Op::Charge { hold, used } => {
                let Some(kept) = model.holds.get(hold) else { continue };
                let handle = spend.resume(&kept.name).expect("it is open or expired");
                handle.charge(&amounts(used)).expect("a charge is recorded in full");
                handle.detach();
                model.charges(hold, used);
            }
            Op::Settle { hold, used } => {
                let Some(kept) = model.holds.get(hold) else { continue };
                let settlement = spend.settle(&kept.name, &amounts(used)).expect("it is not over");
                assert_eq!(settlement.late, kept.expired);
                model.charges(hold, used);
                model.ends(hold);
            }
            Op::Release { hold } => {
                let Some(kept) = model.holds.get(hold) else { continue };
                spend.release(&kept.name).expect("it is not over");
                model.ends(hold);
            }
            Op::Wait { millis } => clock.advance(millis),
            Op::Restart => {
                drop((spend, store));
                store = opened();
                spend = open(&store, &model.lines).expect("the same policy");
            }
            Op::RestartWith { policy } => {
                drop((spend, store));
                store = opened();
                let lines = &history.policies[policy];
                spend = match open(&store, lines) {
                    Err(OpenError::Store(StoreError::NoHistory { .. })) if !ledger => {
                        open(&store, &model.lines).expect("the policy before")
                    }
                    opened => {
                        model.lines = lines.clone();
                        opened.expect("a policy that makes sense")
                    }
                };
            }
            Op::Change { limit, amount } => {
                let Some(line) = model.lines.get_mut(limit) else { continue };
                let scope = if line.shared { "all" } else { "user" };
                spend.set_limit(scope, COUNTED[line.dimension], &line.window, amount).expect("a limit");
                line.amount = amount;
            }
        }
        model.at(clock.unix_millis());
        for (user, shared) in [(0, false), (1, false), (2, false), (0, true)] {
            let key = if shared { String::new() } else { format!("u{user}") };
            let status = spend.status(if shared { "all" } else { "user" }, &key).expect("a scope");
            let lines = model.lines.iter().filter(|line| line.shared == shared);
            for (line, status) in lines.zip(status) {
                let counts = model.counts(line, user);
                let held = model.held(line, user).min(counts);
                assert_eq!(
                    (status.spent, status.held),
                    (counts - held, held),
                    "{line:?} of {user} after {op:?}"
                );
            }
        }
        balances(&*store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_counted_twice_in_any_history(history in history(60)) {
        let store = MemoryStore::new();
        run(|| Arc::new(store.clone()), false, &history);
    }
}

#[cfg(feature = "sqlite")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_counted_twice_in_a_file_that_is_opened_again_and_again(history in history(40)) {
        let folder = tempfile::tempdir().expect("a place for files");
        let path = folder.path().join("budgets.db");
        run(|| Arc::new(SqliteStore::at(&path).expect("a store")), true, &history);
        let audit = sqlite::audit(&path).expect("a store");
        prop_assert!(audit.findings.is_empty(), "{}", audit.findings[0]);
    }
}
