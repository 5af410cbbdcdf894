//! Plans over several tables: sets and guards with clocks of their own, and tables that live for a few calls only.

use crate::costed::{context, request};
use crate::jolt;
use crate::ledger::{Bucket, Ledger};
use crate::limit::{Limit, bucket, guarded};
use crate::line::Fast;
use crate::race::{race, while_watching};
use crate::round::{AnyClock, Counts, Mix, Round};
use crate::with_clock;
use std::sync::Mutex;
use tollgate::guard::{
    AgentVelocityConfig, AgentVelocityGuard, Guard, Planned, ToolCallRequest, VelocityConfig, VelocityGuard,
};
use tollgate::{LimitSet, Plan};

pub fn mixes() -> Vec<Mix> {
    vec![
        Mix {
            name: "four-tables",
            proves: "a plan over two sets and two guards, each with its own clock, is one plan",
            round: four_tables,
        },
        Mix {
            name: "short-lived-tables",
            proves: "tables that are dropped right after a shared plan leave whoever helped it on firm ground",
            round: short_lived,
        },
    ]
}

fn set_of(limit: &Limit, cap: usize, clock: &AnyClock) -> LimitSet {
    let builder = LimitSet::builder().limit("limit", limit.quota).bucket_cap(cap);
    with_clock!(builder, clock).build().expect("a set")
}

const GRANTS: usize = 3;
const INVOCATIONS: u64 = 40_000;
const SPEND: u64 = 90_000;
const PER_AGENT: u64 = 50_000;
const PER_SESSION: u64 = 30_000;

struct Tables {
    sets: [LimitSet; 2],
    calls: VelocityGuard,
    agents: AgentVelocityGuard,
}

/// Longer than a cell: the pair's key has a tail, or is boxed.
fn long_id(grant: usize) -> String {
    let authority = [
        "an-authority-of-some-name",
        "an-authority-whose-name-is-longer-than-any-tail-has-room-for-whatever-comes-before-it",
    ];
    format!("capability-{grant}-issued-to-an-agent-by-{}", authority[grant % 2])
}

fn guards(clock: &AnyClock) -> (VelocityGuard, AgentVelocityGuard) {
    let calls = VelocityGuard::builder(VelocityConfig {
        max_invocations_per_window: Some(INVOCATIONS as u32),
        max_spend_per_window: Some(SPEND),
        window_secs: 1,
        burst_factor: 1.0,
    });
    let agents = AgentVelocityGuard::builder(AgentVelocityConfig {
        max_requests_per_agent: Some(PER_AGENT as u32),
        max_requests_per_session: Some(PER_SESSION as u32),
        window_secs: 1,
        burst_factor: 1.0,
    });
    let calls = with_clock!(calls.bucket_cap(16), clock).build().expect("a guard");
    (calls, with_clock!(agents.bucket_cap(16), clock).build().expect("a guard"))
}

fn four_tables(round: &mut Round) -> Result<Counts, String> {
    let clocks: [AnyClock; 3] = std::array::from_fn(|_| AnyClock::any(&mut round.random));
    let limits = [bucket(1, 1_500, 6), bucket(1, 700, 9)];
    let (calls, agents) = guards(&clocks[2]);
    let sets = [0, 1].map(|n| set_of(&limits[n], 12, &clocks[n]));
    let tables = Tables { sets, calls, agents };
    let requests: Vec<Vec<ToolCallRequest>> =
        (0..GRANTS).map(|grant| (0..4).map(|cost| request(long_id(grant), cost)).collect()).collect();
    let choices = round.split();
    let moves = Mutex::new(round.random.split());
    let watch = || {
        let mut moves = moves.lock().expect("one watcher");
        clocks.iter().for_each(|clock| clock.step(moves.below(3_000) as u64));
    };
    let ledger = Ledger::together(while_watching(watch, || {
        race(round.threads, |thread| {
            let mut random = choices[thread].clone();
            jolt::this_thread(random.split());
            let mut ledger = Ledger::default();
            for _ in 0..2_000 {
                if random.one_in(16) {
                    clocks[random.below(3)].step(random.below(3_000) as u64);
                }
                let (grant, cost, key) = (random.below(GRANTS), random.below(4), random.below(2) as u32);
                let ctx = context(&requests[grant][cost]);
                let (mut plan, mut draws) = (Plan::new(), Vec::new());
                let parts = 1 + random.below(15);
                for number in [0, 1u8] {
                    if parts >> number & 1 == 1 {
                        tables.sets[usize::from(number)].plan(0, &key, 1, &mut plan);
                        draws.push(((number, 0, key), 1));
                    }
                }
                if parts >> 2 & 1 == 1 {
                    assert_eq!(tables.calls.plan(&ctx, &mut plan), Ok(Planned::InPlan));
                    draws.push(((2, 0, grant as u32), 1));
                    if cost > 0 {
                        draws.push(((2, 1, grant as u32), cost as u64));
                    }
                }
                if parts >> 3 & 1 == 1 {
                    assert_eq!(tables.agents.plan(&ctx, &mut plan), Ok(Planned::InPlan));
                    draws.extend([((3, 0, 0), 1), ((3, 1, grant as u32), 1)]);
                }
                match plan.commit() {
                    Ok(admissions) => ledger.admitted(&draws, &admissions),
                    Err(_) => ledger.refused += 1,
                }
            }
            ledger
        })
    }));
    let guards = [INVOCATIONS, SPEND, PER_AGENT, PER_SESSION].map(|per_window| guarded(per_window, 1));
    let line_of = |&(table, limit, _): &Bucket| -> &Fast {
        match table {
            0 | 1 => &limits[usize::from(table)].line,
            _ => &guards[usize::from(table - 2) * 2 + usize::from(limit)],
        }
    };
    let peek = |&(table, limit, key): &Bucket| -> u64 {
        if table < 2 {
            return tables.sets[usize::from(table)].peek(0, &key);
        }
        let ctx = context(&requests[key as usize][0]);
        let (calls, agents) = (tables.calls.remaining(&ctx), tables.agents.remaining(&ctx));
        let left = match (table, limit) {
            (2, 0) => calls.invocations,
            (2, _) => calls.spend,
            (_, 0) => agents.agent,
            _ => agents.session,
        };
        left.expect("all limits are configured")
    };
    let clock_of = |bucket: &Bucket| clocks[usize::from(bucket.0.min(2))].as_dyn();
    ledger.check(line_of, clock_of, peek, &mut round.random)?;
    Ok(Counts { admitted: ledger.len(), refused: ledger.refused })
}

fn short_lived(round: &mut Round) -> Result<Counts, String> {
    let clock = AnyClock::any(&mut round.random);
    let limit = bucket(1, 800, 50);
    let long_lived = set_of(&limit, 4, &clock);
    let choices = round.split();
    let moves = Mutex::new(round.random.split());
    let watch = || clock.step(moves.lock().expect("one watcher").below(2_000) as u64);
    let ledger = Ledger::together(while_watching(watch, || {
        race(round.threads, |thread| {
            let mut random = choices[thread].clone();
            jolt::this_thread(random.split());
            let mut ledger = Ledger::default();
            for _ in 0..300 {
                clock.step(random.below(2_000) as u64);
                // Others may help this plan, and come too late to find the table still there.
                let passing = set_of(&limit, 2, &clock);
                for _ in 0..1 + random.below(4) {
                    let key = random.below(2) as u32;
                    let mut plan = Plan::new();
                    let draws = [((0, 0, key), 1), ((1, 0, 0), 1)];
                    let turned = random.one_in(2);
                    if turned {
                        passing.plan(0, "passing", 1, &mut plan);
                    }
                    long_lived.plan(0, &key, 1, &mut plan);
                    if !turned {
                        passing.plan(0, "passing", 1, &mut plan);
                    }
                    match plan.commit() {
                        Ok(admissions) => {
                            ledger.admitted(&draws[..1], &admissions[usize::from(turned)..][..1])
                        }
                        Err(_) => ledger.refused += 1,
                    }
                }
            }
            ledger
        })
    }));
    let time = clock.as_dyn();
    ledger.check(|_| &limit.line, |_| time, |bucket| long_lived.peek(0, &bucket.2), &mut round.random)?;
    Ok(Counts { admitted: ledger.len(), refused: ledger.refused })
}
