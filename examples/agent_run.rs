//! An agent's run with a budget in a file: it starts inside its budget, makes do with less from 70 % on, and stops before the
//! step that would leave it.
//!
//! ```sh
//! cargo run --example agent_run -- --db budgets.db
//! cargo run -- budget status --db budgets.db
//! cargo run -- budget audit --db budgets.db
//! ```
//! What a step does not use of its estimate stays set aside until the run is settled. (A hold of its own for each step would give
//! it back at once.) Without `--db` the budget is in memory, and ends with the process. With it, every run adds to what its user spent, and a
//! process that is killed leaves a hold that expires.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use tollgate::spend::{
    Amounts, Call, Dimension, Hold, Limit, MoneyUnit, ReducedProfile, Scope, Spend, SpendError, SpendEvent,
    SpendPolicy, SqliteStore, Window,
};

/// Half a dollar for each run, three in an hour for each user, and 30 runs at once.
fn policy() -> Result<SpendPolicy, Box<dyn Error>> {
    let hour = Window::rolling(Duration::from_secs(3_600))?;
    let run = Scope::keyed("run")
        .limit(Limit::cost(500_000, Window::Lifetime)) // micro-dollars
        .limit(Limit::tokens(120_000, Window::Lifetime))
        .limit(Limit::calls(25, Window::Lifetime));
    let user = Scope::keyed("user").limit(Limit::cost(3_000_000, hour.clone()));
    let global =
        Scope::shared("global").limit(Limit::cost(40_000_000, hour)).limit(Limit::concurrent_runs(30));
    let reduced = ReducedProfile {
        max_steps: Some(5),
        subagents: Some(false),
        model: Some("small".to_owned()),
        banner: Some("This budget is nearly used up: shorter answers until {reset}.".to_owned()),
    };
    Ok(SpendPolicy::new().scope(run).scope(user).scope(global).reduced(reduced).ttl(Duration::from_secs(120)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = Spend::builder(policy()?).subscribe(|event| {
        if let SpendEvent::TierChanged { account, from, to } = event {
            println!("  ({} {} goes from {from} to {to})", account.scope, account.key);
        }
    });
    if let Some(path) = db()? {
        builder = builder.store(SqliteStore::at(path)?);
    }
    let spend = builder.open()?;

    // Nobody else's: the run's budget is for its lifetime.
    let run = format!("run-{}-{}", std::process::id(), spend.books()?.len());
    let call = Call::new().scope("run", run.as_str()).scope("user", "alice");
    // Before it starts: is there room for another run at all?
    let hold = match spend.hold(&call, &Amounts::new().runs(1)) {
        Err(SpendError::Refused(refusal)) => {
            println!("{run} does not start: {refusal}");
            return Ok(());
        }
        started => started?,
    };
    println!("{run} starts");
    let steps = work(&hold)?;
    let settlement = hold.settle(&Amounts::new())?; // its steps were charged as they went
    let money = |amount: u64| MoneyUnit::default().show(amount);
    println!(
        "{run} ends after {steps} steps: {} USD and {} tokens used, {} USD given back",
        money(settlement.used[Dimension::Cost]),
        settlement.used[Dimension::Tokens],
        money(settlement.released[Dimension::Cost]),
    );
    for status in spend.status("user", "alice")? {
        println!(
            "alice has spent {} of {} USD in the {}",
            money(status.spent),
            money(status.limit.unwrap_or_default()),
            status.window
        );
    }
    Ok(())
}

/// Takes steps until the next one has no room. How many there were.
fn work(hold: &Hold) -> Result<u64, Box<dyn Error>> {
    let (mut steps, mut reduced_steps, mut small) = (0, 0, false);
    loop {
        // What the step costs at most, before it is known what it really costs.
        let estimate = if small {
            Amounts::new().cost(30_000).tokens(4_000)
        } else {
            Amounts::new().cost(60_000).tokens(9_000)
        };
        match hold.extend(&estimate.calls(1)) {
            Err(SpendError::Refused(refusal)) => {
                println!("  no further step: {refusal}");
                return Ok(steps);
            }
            Err(error) => return Err(error.into()),
            Ok(decision) => {
                if let Some(profile) = decision.reduced {
                    if !small {
                        println!("  {}", profile.banner.as_deref().unwrap_or("less from here on"));
                    }
                    reduced_steps += 1;
                    small = true; // the next estimate is the smaller model's
                    if profile.max_steps.is_some_and(|most| reduced_steps > most) {
                        println!("  no further step: as many as a reduced run has");
                        return Ok(steps);
                    }
                }
            }
        }
        let used = if small {
            Amounts::new().cost(21_000).tokens(2_900)
        } else {
            Amounts::new().cost(52_000).tokens(7_400)
        };
        hold.charge(&used.calls(1))?;
        steps += 1;
        println!("  step {steps}, with the {} model", if small { "small" } else { "large" });
    }
}

/// The value of `--db`, if it was given.
fn db() -> Result<Option<PathBuf>, String> {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (None, ..) => Ok(None),
        (Some(flag), Some(path), None) if flag == "--db" => Ok(Some(path.into())),
        _ => Err("usage: agent_run [--db FILE]".into()),
    }
}
