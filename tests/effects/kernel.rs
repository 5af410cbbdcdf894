//! A kernel's tools with budgets: every public way to a tool is gated.

use crate::fixture::*;
use tollgate::guard::{Capability, Scope, ToolCallRequest, ToolGrant};
use tollgate::kernel::{Kernel, KernelError};

fn request(agent: &str, arguments: &str) -> ToolCallRequest {
    ToolCallRequest {
        capability: Capability { id: "cap".into(), scope: Scope { grants: vec![ToolGrant::new("*", "*")] } },
        server_id: "web".into(),
        tool_name: "search".into(),
        agent_id: agent.into(),
        arguments: arguments.into(),
        ..ToolCallRequest::default()
    }
}

fn paid(quota: QuotaRule, clock: &ManualClock) -> (Kernel, Effects, Arc<AtomicUsize>) {
    let effects = effects(rule([quota]), clock);
    let mut kernel = Kernel::new();
    kernel.set_budget("web", "search", effects.tool_budget("Search", Payer::Agent).unwrap());
    let runs = Arc::new(AtomicUsize::new(0));
    register(&mut kernel, &runs);
    (kernel, effects, runs)
}

fn register(kernel: &mut Kernel, runs: &Arc<AtomicUsize>) -> Option<Box<dyn tollgate::kernel::Tool>> {
    let runs = runs.clone();
    kernel.register_tool("web", "search", move |request: &ToolCallRequest| {
        runs.fetch_add(1, Ordering::Relaxed);
        Ok(format!("found {}", request.arguments))
    })
}

#[test]
fn a_dispatch_is_paid_for_by_the_agent_that_calls() {
    let clock = ManualClock::new();
    let (kernel, _, runs) = paid(QuotaRule::rate(1, MINUTE), &clock);
    assert_eq!(kernel.dispatch(&request("a", "x")).unwrap().content, "found x");
    let error = kernel.dispatch(&request("a", "x")).unwrap_err();
    assert!(matches!(
        error,
        KernelError::Effect(EffectError::EffectQuotaExhausted { retry_at: Some(_), .. })
    ));
    kernel.dispatch(&request("b", "x")).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[test]
fn a_shed_dispatch_has_no_output() {
    let clock = ManualClock::new();
    let (kernel, _, runs) = paid(QuotaRule::rate(1, MINUTE).on_exhausted(OnExhausted::Shed), &clock);
    kernel.dispatch(&request("a", "x")).unwrap();
    assert!(matches!(kernel.dispatch(&request("a", "x")), Err(KernelError::EffectShed(_))));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_deferred_dispatch_runs_when_it_is_due() {
    let clock = ManualClock::new();
    let (kernel, effects, runs) = paid(QuotaRule::rate(1, MINUTE).on_exhausted(OnExhausted::Defer), &clock);
    kernel.dispatch(&request("a", "x")).unwrap();
    let error = kernel.dispatch(&request("a", "later")).unwrap_err();
    assert!(matches!(error, KernelError::Effect(EffectError::EffectDeferred { .. })));
    assert!(kernel.run_due(effects.now()).emitted.is_empty());
    clock.advance(MINUTE);
    let report = kernel.run_due(effects.now());
    assert_eq!(report.emitted[0].1.as_ref().unwrap().content, "found later");
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[test]
fn a_due_call_whose_tool_is_not_registered_waits_and_pays_nothing() {
    let clock = ManualClock::new();
    let (kernel, effects, _) = paid(QuotaRule::rate(1, MINUTE).on_exhausted(OnExhausted::Defer), &clock);
    kernel.dispatch(&request("a", "x")).unwrap();
    kernel.dispatch(&request("a", "later")).unwrap_err();
    let mut empty = Kernel::new();
    empty.set_budget("web", "search", effects.tool_budget("Search", Payer::Agent).unwrap());
    clock.advance(MINUTE);
    let report = empty.run_due(effects.now());
    assert!(matches!(report.failed[0].1, DueError::NoTool { .. }));
    assert_eq!(effects.peek("Search", "a").unwrap(), [1]);
    clock.advance(SECOND);
    assert_eq!(kernel.run_due(effects.now()).emitted.len(), 1);
}

#[test]
fn who_pays_is_who_the_budget_names() {
    let other = |agent: &str, capability: &str| {
        let mut request = request(agent, "x");
        request.capability.id = capability.into();
        request
    };
    // Of calls by (a, c), (b, c), (a, d), (a, c): which are still paid for.
    let cases = [
        (Payer::Everybody, [true, false, false, false]),
        (Payer::Agent, [true, true, false, false]),
        (Payer::Capability, [true, false, true, false]),
        (Payer::Session, [true, true, true, false]),
    ];
    for (payer, expected) in cases {
        let effects = effects(rule([QuotaRule::rate(2, MINUTE)]), &ManualClock::new());
        let mut kernel = Kernel::new();
        register(&mut kernel, &Arc::default());
        kernel.set_budget("web", "search", effects.tool_budget("Search", payer).unwrap().cost(2));
        let calls = [("a", "c"), ("b", "c"), ("a", "d"), ("a", "c")];
        let answers = calls.map(|(agent, capability)| kernel.dispatch(&other(agent, capability)).is_ok());
        assert_eq!(answers, expected, "{payer:?}");
    }
}

#[test]
fn a_deferred_call_runs_no_tool_but_one_that_its_own_budget_pays_for() {
    let clock = ManualClock::new();
    let search = rule([QuotaRule::rate(1, MINUTE).on_exhausted(OnExhausted::Defer)]);
    let email = EffectRule::new("Email").quota(QuotaRule::max(1, DAY));
    let policy = EffectPolicy::new().effect(search).effect(email);
    let effects =
        Effects::builder(policy).declare::<Search>().declare::<Email>().clock(clock.clone()).build().unwrap();
    let mut kernel = Kernel::new();
    let mails = Arc::new(AtomicUsize::new(0));
    let count = mails.clone();
    kernel.register_tool("web", "mail", move |_: &ToolCallRequest| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok("")
    });
    register(&mut kernel, &Arc::default());
    kernel.set_budget("web", "search", effects.tool_budget("Search", Payer::Agent).unwrap());
    kernel.set_budget("web", "mail", effects.tool_budget("Email", Payer::Agent).unwrap());
    // Through the tool that is given back, with a request for another one.
    let before = register(&mut kernel, &Arc::default()).expect("there was one");
    let mut mail = request("a", "x");
    mail.tool_name = "mail".into();
    for _ in 0..3 {
        before.call(&mail).unwrap_err();
    }
    // And by a name that gets another budget while its call waits.
    kernel.dispatch(&request("a", "x")).unwrap();
    kernel.dispatch(&request("a", "later")).unwrap_err();
    kernel.set_budget("web", "search", effects.tool_budget("Email", Payer::Agent).unwrap());
    kernel.set_budget("web", "other", effects.tool_budget("Search", Payer::Agent).unwrap());
    clock.advance(MINUTE);
    let report = kernel.run_due(effects.now());
    assert!(report.emitted.is_empty() && matches!(report.failed[0].1, DueError::NoTool { .. }));
    assert_eq!((mails.load(Ordering::Relaxed), effects.peek("Email", "a").unwrap()), (0, vec![1]));
}

#[test]
fn a_gate_and_a_kernel_do_not_run_each_others_calls() {
    let clock = ManualClock::new();
    let (kernel, effects, _) = paid(QuotaRule::rate(2, MINUTE).on_exhausted(OnExhausted::Defer), &clock);
    let (gate, runs) = counted(&effects);
    kernel.dispatch(&request("alice", "x")).unwrap();
    kernel.dispatch(&request("alice", "x")).unwrap();
    kernel.dispatch(&request("alice", "the kernel's")).unwrap_err();
    gate.call(Call::of("alice"), &"the gate's".into()).unwrap_err();
    clock.advance(MINUTE);
    assert_eq!(gate.run_due(effects.now()).emitted[0].1, "the gate's".len());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let report = kernel.run_due(effects.now());
    assert_eq!(report.emitted[0].1.as_ref().unwrap().content, "found the kernel's");
}

/// Every public way to a tool's function, with a budget of one token that is spent already: none may reach it.
#[test]
fn no_public_way_reaches_an_unpaid_tool() {
    let clock = ManualClock::new();
    let defer = QuotaRule::rate(1, MINUTE).on_exhausted(OnExhausted::Defer);
    let (mut kernel, effects, runs) = paid(defer, &clock);
    let gate_runs = runs.clone();
    let gate = effects
        .gate::<Search>(move |query: &String| {
            gate_runs.fetch_add(1, Ordering::Relaxed);
            query.len()
        })
        .unwrap();
    kernel.dispatch(&request("alice", "paid")).unwrap();
    let ran = || runs.load(Ordering::Relaxed);
    assert_eq!(ran(), 1);

    let mut ways = 0;
    let mut unreached = |way: &str| {
        ways += 1;
        assert_eq!(runs.load(Ordering::Relaxed), 1, "reached by {way}");
    };
    kernel.dispatch(&request("alice", "x")).unwrap_err();
    unreached("Kernel::dispatch");
    assert!(gate.permit("alice", 1).is_err());
    unreached("Gate::permit");
    gate.call(Call::of("alice"), &"x".into()).unwrap_err();
    unreached("Gate::call");
    gate.clone().call(Call::of("alice"), &"x".into()).unwrap_err();
    unreached("a clone of the gate");
    gate.run_due(u64::MAX);
    unreached("Gate::run_due");
    kernel.run_due(u64::MAX);
    unreached("Kernel::run_due");
    let expired = {
        clock.advance(MINUTE);
        let permit = permit(&gate, 1);
        clock.advance(MINUTE + Duration::from_nanos(1));
        gate.emit(permit, &"x".into()).unwrap_err()
    };
    unreached("Gate::emit with an expired permit");
    drop(expired);
    let _all = permit(&gate, 1);
    // What a kernel gives away when a tool is registered anew.
    let nobody = Arc::new(AtomicUsize::new(0));
    let before = register(&mut kernel, &nobody).expect("there was one");
    before.call(&request("alice", "x")).unwrap_err();
    unreached("the tool that was replaced");
    kernel.dispatch(&request("alice", "x")).unwrap_err();
    assert_eq!(nobody.load(Ordering::Relaxed), 0, "the new tool has the name's budget");
    // A budget that is set after the tool was registered.
    let mut late = Kernel::new();
    register(&mut late, &runs);
    late.set_budget("web", "search", effects.tool_budget("Search", Payer::Agent).unwrap());
    late.dispatch(&request("alice", "x")).unwrap_err();
    unreached("a tool that was registered before its budget");
    assert_eq!(ways, 9);
}
