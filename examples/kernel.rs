//! Two guards in front of a kernel's tools, and callers on threads who want more than they may have.
//!
//! `cargo run --release --example kernel` prints who was let through and which limit refused the others, and
//! ends after about a second: the wait that a refused caller is told to make.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use tollgate::guard::{
    AgentVelocityConfig, AgentVelocityGuard, Capability, GuardPipeline, Scope, ToolCallRequest, ToolGrant,
    VelocityConfig, VelocityGuard,
};
use tollgate::kernel::{Kernel, KernelError};

/// The refusing limits and their columns' widths in the table.
const LIMITS: [(&str, usize); 4] = [
    ("agent_velocity.agent", 7),
    ("agent_velocity.session", 8),
    ("velocity.invocations", 12),
    ("velocity.spend", 6),
];

fn main() -> Result<(), KernelError> {
    let runs = Arc::new(AtomicU64::new(0));
    let mut kernel = kernel_with_tools(&runs);

    let mut pipeline = GuardPipeline::new();
    pipeline.add(Box::new(AgentVelocityGuard::new(AgentVelocityConfig {
        max_requests_per_agent: Some(600),
        max_requests_per_session: Some(120),
        window_secs: 60,
        burst_factor: 1.0,
    })));
    pipeline.add(Box::new(VelocityGuard::new(VelocityConfig {
        max_invocations_per_window: Some(60),
        max_spend_per_window: Some(1_000),
        window_secs: 60,
        burst_factor: 1.5,
    })));
    kernel.add_guard(Box::new(pipeline));

    // Each caller is an agent with some sessions (one capability each), every one on a thread of its own.
    let callers = [
        Caller { agent: "searcher", sessions: 1, tool: "search", calls: 200 },
        Caller { agent: "painter", sessions: 2, tool: "render", calls: 60 },
        Caller { agent: "crawler", sessions: 8, tool: "search", calls: 100 },
    ];
    let tallies = run(&kernel, &callers);
    print_table(&callers, &tallies);

    let dispatched: u64 = tallies.iter().map(|tally| tally.dispatched).sum();
    println!("\nThe tools ran {} times for {dispatched} dispatched calls.", runs.load(Ordering::Relaxed));

    wait_as_told(&kernel, callers[1].request(0))
}

/// The kernel that is there already: two tools that count their runs.
fn kernel_with_tools(runs: &Arc<AtomicU64>) -> Kernel {
    let mut kernel = Kernel::new();
    for (tool, verb) in [("search", "found"), ("render", "painted")] {
        let runs = runs.clone();
        kernel.register_tool("studio", tool, move |request: &ToolCallRequest| {
            runs.fetch_add(1, Ordering::Relaxed);
            Ok(format!("{verb} {}", request.arguments))
        });
    }
    kernel
}

/// An agent, and what it wants.
struct Caller {
    agent: &'static str,
    sessions: usize,
    tool: &'static str,
    /// Per session.
    calls: usize,
}

impl Caller {
    /// A call under the capability of one of its sessions.
    fn request(&self, session: usize) -> ToolCallRequest {
        let grants = vec![
            ToolGrant::new("studio", "search").costing(5, "USD"),
            ToolGrant::new("studio", "render").costing(40, "USD"),
        ];
        ToolCallRequest {
            request_id: format!("{}-{session}", self.agent),
            capability: Capability { id: format!("{}/{session}", self.agent), scope: Scope { grants } },
            tool_name: self.tool.into(),
            server_id: "studio".into(),
            agent_id: self.agent.into(),
            arguments: "a heron at dawn".into(),
        }
    }
}

/// What became of one caller's calls.
#[derive(Default)]
struct Tally {
    dispatched: u64,
    refused: BTreeMap<String, u64>,
    example: Option<KernelError>,
}

impl Tally {
    fn add(&mut self, error: KernelError) {
        let limit = error.refusal().map_or("other", |refusal| refusal.limit.as_str());
        *self.refused.entry(limit.to_owned()).or_default() += 1;
        self.example.get_or_insert(error);
    }

    fn merge(&mut self, other: Tally) {
        self.dispatched += other.dispatched;
        for (limit, count) in other.refused {
            *self.refused.entry(limit).or_default() += count;
        }
        self.example = self.example.take().or(other.example);
    }
}

/// Runs every session of every caller on a thread of its own, all at once.
fn run(kernel: &Kernel, callers: &[Caller]) -> Vec<Tally> {
    let start = Barrier::new(callers.iter().map(|caller| caller.sessions).sum());
    let session = |caller: &Caller, session: usize| {
        let request = caller.request(session);
        let mut tally = Tally::default();
        start.wait();
        for _ in 0..caller.calls {
            match kernel.dispatch(&request) {
                Ok(_) => tally.dispatched += 1,
                Err(error) => tally.add(error),
            }
        }
        tally
    };
    thread::scope(|scope| {
        let threads: Vec<Vec<_>> = callers
            .iter()
            .map(|caller| {
                let session = &session;
                (0..caller.sessions).map(|n| scope.spawn(move || session(caller, n))).collect()
            })
            .collect();
        let join = |threads: Vec<thread::ScopedJoinHandle<'_, Tally>>| {
            let mut all = Tally::default();
            threads.into_iter().for_each(|thread| all.merge(thread.join().expect("no caller panics")));
            all
        };
        threads.into_iter().map(join).collect()
    })
}

fn print_table(callers: &[Caller], tallies: &[Tally]) {
    println!("{:43}refused by", "");
    println!("agent     tool    sessions  calls  passed   agent  session  invocations  spend");
    for (caller, tally) in callers.iter().zip(tallies) {
        let Caller { agent, tool, sessions, calls } = caller;
        print!("{agent:<9} {tool:<7} {sessions:>8} {:>6} {:>7}", sessions * calls, tally.dispatched);
        for (limit, width) in LIMITS {
            print!(" {:>width$}", tally.refused.get(limit).unwrap_or(&0));
        }
        println!();
    }
    println!();
    for (caller, tally) in callers.iter().zip(tallies) {
        if let Some(example) = &tally.example {
            println!("{}: {example}", caller.agent);
        }
    }
}

/// Calls again after a refusal, once the time it names has passed.
fn wait_as_told(kernel: &Kernel, request: ToolCallRequest) -> Result<(), KernelError> {
    let Err(error) = kernel.dispatch(&request) else { return Ok(()) };
    let Some(wait) = error.refusal().and_then(|refusal| refusal.retry_after) else { return Err(error) };
    println!("\n{} waits for {wait:.2?}, as told, ...", request.agent_id);
    thread::sleep(wait);
    let output = kernel.dispatch(&request)?;
    println!("... and gets its answer: {}.", output.content);
    Ok(())
}
