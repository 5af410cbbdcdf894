//! The engine over this store: the same answers as over one in memory, whatever is archived or opened anew.

use super::*;
use crate::spend::{Amounts, Call, Hold, ManualWallClock, MemoryStore, Spend};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// The usual limits, and a day of a place whose midnight comes soon.
fn budgets() -> SpendPolicy {
    let day = Window::day("Europe/Berlin").unwrap();
    usual().scope(scope("group", &[(Dimension::Cost, day), (Dimension::Runs, Window::Lifetime)]))
}

#[derive(Debug, Clone)]
enum End {
    Dropped,
    LeftOpen,
    ChargedAndLeftOpen(i64),
    Extended(i64),
    Released,
    Settled(i64),
}

/// A call of one of two users: its id, if it has one, what it asks for, and how it ends.
#[derive(Debug, Clone)]
struct Step {
    after: Millis,
    user: usize,
    id: Option<u8>,
    cost: i64,
    end: End,
}

fn step() -> impl Strategy<Value = Step> {
    let cost = || prop_oneof![4 => 0..60_000i64, 1 => 0..900_000i64];
    let end = prop_oneof![
        Just(End::Dropped),
        Just(End::LeftOpen),
        cost().prop_map(End::ChargedAndLeftOpen),
        cost().prop_map(End::Extended),
        Just(End::Released),
        cost().prop_map(End::Settled),
    ];
    (0..900_000u64, 0..2usize, proptest::option::of(0..60u8), cost(), end)
        .prop_map(|(after, user, id, cost, end)| Step { after, user, id, cost, end })
}

fn end(hold: Hold, end: &End) -> String {
    let amounts = |cost: i64| Amounts::new().cost(cost).calls(1);
    match end {
        End::Dropped => {
            drop(hold);
            String::new()
        }
        End::LeftOpen => {
            hold.detach();
            String::new()
        }
        End::ChargedAndLeftOpen(cost) => {
            let answer = format!("{:?}", hold.charge(&amounts(*cost)));
            hold.detach();
            answer
        }
        End::Extended(cost) => format!("{:?}", hold.extend(&amounts(*cost))),
        End::Released => format!("{:?}", hold.release()),
        End::Settled(cost) => format!("{:?}", hold.settle(&amounts(*cost))),
    }
}

proptest! {
    #![proptest_config(Config { cases: 24, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_engine_answers_as_over_memory_through_restarts_and_archiving(
        rounds in proptest::collection::vec(proptest::collection::vec(step(), 1..30), 1..5),
        archived in any::<bool>(),
    ) {
        let (folder, path) = place();
        let memory = MemoryStore::new();
        let mut now = START;
        for steps in &rounds {
            let clock = ManualWallClock::at(now);
            let file = Arc::new(SqliteStore::at(&path).unwrap());
            let over_file = Spend::builder(budgets()).shared_store(file.clone()).clock(clock.clone()).open().unwrap();
            let over_memory = Spend::builder(budgets()).store(memory.clone()).clock(clock.clone()).open().unwrap();
            for step in steps {
                now += step.after;
                clock.set(now);
                let mut call = Call::new().scope("tenant", "t").scope("user", ["ann", "bob"][step.user]).scope("group", "g");
                if let Some(id) = step.id {
                    call = call.id(id.to_string());
                }
                let estimate = Amounts::new().cost(step.cost).calls(1).tokens(3).runs(1);
                let answers = [&over_file, &over_memory].map(|spend| match spend.hold(&call, &estimate) {
                    Ok(hold) => format!("{:?}, {}", hold.decision().clone(), end(hold, &step.end)),
                    Err(error) => format!("{error:?}"),
                });
                prop_assert_eq!(&answers[0], &answers[1]);
                prop_assert_eq!(over_file.books().unwrap(), over_memory.books().unwrap());
                for (scope, key) in [("user", "ann"), ("user", "bob"), ("group", "g")] {
                    prop_assert_eq!(file.usage(scope, key, now).unwrap(), memory.usage(scope, key, now).unwrap());
                }
            }
            prop_assert_eq!(over_file.expire_due(), over_memory.expire_due());
            whole(&path);
            drop((over_file, over_memory));
            if archived {
                file.archive(u64::MAX, folder.path().join("old.jsonl")).unwrap();
                whole(&path);
            }
        }
    }
}
