//! Guards in pipelines, in series and atomic, judged by what their callers may count.

use crate::costed::{context, request};
use crate::jolt;
use crate::race::race;
use crate::round::{Counts, Mix, Round};
use crate::shared::Shared;
use std::sync::Arc;
use tollgate::guard::{
    AgentVelocityConfig, AgentVelocityGuard, Guard, GuardPipeline, ToolCallRequest, VelocityConfig,
    VelocityGuard, Verdict,
};
use tollgate::time::ManualClock;

pub fn mixes() -> Vec<Mix> {
    vec![
        Mix {
            name: "atomic-pipeline",
            proves: "an atomic pipeline takes from all its guards or from none: they agree with the callers' count",
            round: |round| run(round, true),
        },
        Mix {
            name: "series-pipeline",
            proves: "in a series the first guard gives what it gave, and the second what the callers were allowed",
            round: |round| run(round, false),
        },
    ]
}

const GRANTS: usize = 3;

/// Calls and spend that a thread was allowed, by grant; and how many calls it was denied.
#[derive(Default)]
struct Allowed {
    calls: [u64; GRANTS],
    spend: [u64; GRANTS],
    denied: usize,
}

fn run(round: &mut Round, atomic: bool) -> Result<Counts, String> {
    // The clock stands still: what is gone was taken.
    let clock = ManualClock::at(1_000_000_007);
    let random = &mut round.random;
    let (invocations, spend) = (200 + random.below(2_000) as u32, 300 + random.below(4_000) as u64);
    let (agent, session) = (500 + random.below(5_000) as u32, 200 + random.below(2_000) as u32);
    let calls = VelocityGuard::builder(VelocityConfig {
        max_invocations_per_window: Some(invocations),
        max_spend_per_window: Some(spend),
        window_secs: 3_600,
        burst_factor: 1.0,
    });
    let agents = AgentVelocityGuard::builder(AgentVelocityConfig {
        max_requests_per_agent: Some(agent),
        max_requests_per_session: Some(session),
        window_secs: 3_600,
        burst_factor: 1.0,
    });
    let calls = Arc::new(calls.bucket_cap(64).clock(clock.clone()).build().expect("a guard"));
    let agents = Arc::new(agents.bucket_cap(64).clock(clock.clone()).build().expect("a guard"));
    let mut pipeline = if atomic { GuardPipeline::atomic() } else { GuardPipeline::new() };
    pipeline.add(Box::new(Shared(calls.clone())));
    pipeline.add(Box::new(Shared(agents.clone())));
    let requests: Vec<Vec<ToolCallRequest>> =
        (0..GRANTS).map(|grant| (0..4).map(|cost| request(format!("cap-{grant}"), cost)).collect()).collect();
    let choices = round.split();
    let told = race(round.threads, |thread| {
        let mut random = choices[thread].clone();
        jolt::this_thread(random.split());
        let mut told = Allowed::default();
        for _ in 0..2_000 {
            let (grant, cost) = (random.below(GRANTS), random.below(4));
            let decision =
                pipeline.evaluate(&context(&requests[grant][cost])).expect("it can judge these calls");
            if decision.verdict == Verdict::Allow {
                told.calls[grant] += 1;
                told.spend[grant] += cost as u64;
            } else {
                told.denied += 1;
            }
        }
        told
    });
    let sum =
        |of: fn(&Allowed) -> &[u64; GRANTS], grant: usize| told.iter().map(|one| of(one)[grant]).sum::<u64>();
    let mut admitted = 0;
    for (grant, by_cost) in requests.iter().enumerate() {
        let ctx = context(&by_cost[0]);
        let (allowed, spent) = (sum(|one| &one.calls, grant), sum(|one| &one.spend, grant));
        admitted += allowed;
        let left = calls.remaining(&ctx);
        let taken = [
            u64::from(invocations) - left.invocations.expect("a limit"),
            spend - left.spend.expect("a limit"),
        ];
        // In a series the first guard also gave to calls that the second denied.
        let right = if atomic { taken == [allowed, spent] } else { taken[0] >= allowed && taken[1] >= spent };
        if !right {
            return Err(format!("grant {grant}: taken {taken:?}, allowed {:?}", [allowed, spent]));
        }
        let of_session = u64::from(session) - agents.remaining(&ctx).session.expect("a limit");
        if of_session != allowed {
            return Err(format!("session of grant {grant}: taken {of_session}, allowed {allowed}"));
        }
    }
    let of_agent = u64::from(agent) - agents.remaining(&context(&requests[0][0])).agent.expect("a limit");
    if of_agent != admitted {
        return Err(format!("agent: taken {of_agent}, allowed {admitted}"));
    }
    let refused = told.iter().map(|one| one.denied).sum();
    Ok(Counts { admitted: admitted as usize, refused })
}
