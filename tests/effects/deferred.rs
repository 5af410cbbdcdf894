//! Deferred calls.

use crate::fixture::*;

fn deferring(quota: QuotaRule) -> EffectRule {
    rule([quota.on_exhausted(OnExhausted::Defer)])
}

fn ticket(answer: Result<Outcome<usize>, EffectError>) -> Ticket {
    match answer {
        Err(EffectError::EffectDeferred { ticket, .. }) => ticket,
        other => panic!("not deferred: {other:?}"),
    }
}

/// A folder for one test, which goes with it.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_deferred_call_is_emitted_when_it_is_due_and_not_before() {
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(1, MINUTE)), &clock);
    let (gate, runs) = counted(&effects);
    gate.call(Call::of("alice"), &"now".into()).unwrap().done().unwrap();
    let ticket = ticket(gate.call(Call::of("alice"), &"later".into()));
    assert_eq!(gate.next_due(), Some(ns(MINUTE)));
    clock.advance(MINUTE - Duration::from_nanos(1));
    assert!(gate.run_due(effects.now()).emitted.is_empty());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(gate.run_due(effects.now()).emitted, [(ticket, 5)]);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert!(effects.deferred().is_empty() && gate.run_due(u64::MAX).emitted.is_empty());
}

#[test]
fn due_calls_take_their_permits_like_anyone_else_so_no_more_is_emitted_than_the_quota_has() {
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(2, MINUTE)), &clock);
    let (gate, runs) = counted(&effects);
    let call = || gate.call(Call::of("alice"), &"q".into());
    call().unwrap().done().unwrap();
    call().unwrap().done().unwrap();
    let tickets: Vec<Ticket> = (0..5).map(|_| ticket(call())).collect();
    clock.advance(MINUTE);
    let _somebody_else = permit(&gate, 1);
    let report = gate.run_due(effects.now());
    assert_eq!(report.emitted, [(tickets[0], 1)]);
    let later: Vec<Ticket> = report.postponed.iter().map(|&(ticket, _)| ticket).collect();
    assert_eq!(later, tickets[1..]);
    assert!(report.postponed.iter().all(|&(_, at)| at == ns(MINUTE) + ns(SECOND * 30)));
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    // Asked for a time that has not come yet, it finds the quota still exhausted.
    assert!(gate.run_due(u64::MAX).emitted.is_empty());
}

#[test]
fn calls_are_one_only_under_one_id_and_two_different_calls_never() {
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(1, MINUTE)), &clock);
    let (gate, runs) = counted(&effects);
    let _first = permit(&gate, 1);
    let call = |id: Option<&str>, text: &str| {
        let call = Call::of("alice");
        gate.call(id.into_iter().fold(call, |call, id| call.coalesce(id)), &text.to_owned())
    };
    let (a, b) = (ticket(call(None, "same")), ticket(call(None, "same")));
    assert_ne!(a, b, "without an id");
    let c = ticket(call(Some("id"), "same"));
    assert_eq!(c, ticket(call(Some("id"), "same")));
    let conflict = call(Some("id"), "another").unwrap_err();
    let is_conflict = |error: &EffectError| matches!(error, EffectError::NotDeferred { error: LedgerError::Conflict { ticket, .. }, .. } if *ticket == c);
    assert!(is_conflict(&conflict), "{conflict}");
    let other_key = gate.call(Call::of("bob").coalesce("id"), &"same".into());
    assert_eq!(other_key.unwrap(), Outcome::Done(4), "another key's id is another id");
    // Tokens are there again, and the kept call is still the one.
    clock.advance(MINUTE);
    assert_eq!(c, ticket(call(Some("id"), "same")));
    let ran = runs.load(Ordering::Relaxed);
    gate.run_due(effects.now());
    assert_eq!(runs.load(Ordering::Relaxed), ran + 1);
}

#[test]
fn a_full_ledger_refuses_and_forgets_nobody() {
    let clock = ManualClock::new();
    let by_rows = DeferredLedger::in_memory().capacity(2);
    let by_bytes = DeferredLedger::in_memory().capacity_bytes(2 * ("Search".len() + "alice".len() + 1));
    for ledger in [by_rows, by_bytes] {
        let effects = builder(deferring(QuotaRule::rate(1, MINUTE)), &clock).ledger(ledger).build().unwrap();
        let (gate, _) = counted(&effects);
        let _first = permit(&gate, 1);
        let call = || gate.call(Call::of("alice"), &"q".into());
        let kept = [ticket(call()), ticket(call())];
        let error = call().unwrap_err();
        assert!(
            matches!(
                error,
                EffectError::NotDeferred { error: LedgerError::Full { rows: 2, .. }, retry_at: Some(_), .. }
            ),
            "{error}"
        );
        assert_eq!(effects.deferred().iter().map(|call| call.ticket).collect::<Vec<_>>(), kept);
    }
}

#[test]
fn what_can_never_be_due_is_blocked_instead_of_kept() {
    let clock = ManualClock::new();
    let hours = AllowedHours::new("09:00", "10:00", "UTC").unwrap().outside(OnExhausted::Defer);
    let gate = gate(deferring(QuotaRule::rate(1, MINUTE)).hours(hours), &clock);
    clock.set(u64::MAX - 1);
    let answer = gate.call(Call::of("alice"), &"q".into()).unwrap_err();
    assert!(!matches!(answer, EffectError::EffectDeferred { .. }), "{answer}");
}

#[test]
fn a_ledger_in_a_file_survives_a_restart_with_its_payloads() {
    let folder = folder();
    let path = folder.path().join("deferred.log");
    let at = std::time::UNIX_EPOCH;
    let kept = {
        let clock = ManualClock::new();
        let ledger = DeferredLedger::at(&path);
        let effects = builder(deferring(QuotaRule::rate(1, MINUTE)), &clock).ledger(ledger).build().unwrap();
        let (gate, _) = counted(&effects);
        let _first = permit(&gate, 1);
        ["one", "three"].map(|text| ticket(gate.call(Call::of("alice"), &text.to_owned())))
    };
    // The next process begins 30 s later, on a clock of its own; the calls are due at 60 s of wall-clock time.
    let clock = ManualClock::new();
    let effects = builder(deferring(QuotaRule::rate(5, MINUTE)), &clock)
        .ledger(DeferredLedger::at(&path))
        .starts_at(at + SECOND * 30)
        .build()
        .unwrap();
    assert_eq!(effects.reopened(), &Reopened { waiting: 2, uncertain: 0, cut: 0 });
    let (gate, _) = counted(&effects);
    assert_eq!(gate.next_due(), Some(ns(SECOND * 30)));
    assert!(gate.run_due(ns(SECOND * 30) - 1).emitted.is_empty());
    clock.advance(SECOND * 30);
    assert_eq!(gate.run_due(effects.now()).emitted, [(kept[0], 3), (kept[1], 5)]);
    drop((gate, effects));
    let again = builder(deferring(QuotaRule::rate(5, MINUTE)), &clock).ledger(DeferredLedger::at(&path));
    assert_eq!(again.build().unwrap().reopened(), &Reopened::default());
}

#[test]
fn a_torn_last_line_is_cut_and_damage_elsewhere_is_named() {
    let folder = folder();
    let path = folder.path().join("deferred.log");
    let clock = ManualClock::new();
    let open = || {
        let ledger = DeferredLedger::at(&path);
        builder(deferring(QuotaRule::rate(1, MINUTE)), &clock).ledger(ledger).build()
    };
    {
        let effects = open().unwrap();
        let (gate, _) = counted(&effects);
        let _first = permit(&gate, 1);
        for text in ["a", "b", "c"] {
            ticket(gate.call(Call::of("alice"), &text.to_owned()));
        }
    }
    let whole = std::fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    for cut in last..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let reopened = open().unwrap().reopened().clone();
        assert_eq!(reopened, Reopened { waiting: 2, uncertain: 0, cut: (cut - last) as u64 });
    }
    for at in [3, last / 2, last - 3] {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        std::fs::write(&path, &altered).unwrap();
        let error = open().unwrap_err();
        assert!(matches!(error, EffectsError::Ledger(LedgerError::Damaged { .. })), "{error}");
    }
}

#[test]
fn an_emission_that_began_and_did_not_end_is_uncertain_and_not_run_again_by_itself() {
    let folder = folder();
    let path = folder.path().join("deferred.log");
    let clock = ManualClock::new();
    let open = || {
        let ledger = DeferredLedger::at(&path);
        builder(deferring(QuotaRule::rate(1, MINUTE)), &clock).ledger(ledger).build().unwrap()
    };
    let uncertain =
        |effects: &Effects| effects.uncertain().iter().map(|call| call.ticket).collect::<Vec<_>>();
    let kept = {
        let effects = open();
        let gate = effects.gate::<Search>(|_| panic!("dies in the middle")).unwrap();
        drop(permit(&gate, 1));
        let ticket = ticket(gate.call(Call::of("alice"), &"q".into()));
        clock.advance(MINUTE);
        let failed = gate.run_due(effects.now()).failed;
        assert_eq!(failed, [(ticket, DueError::Panicked("dies in the middle".into()))]);
        assert_eq!(uncertain(&effects), [ticket]);
        ticket
    };
    let effects = open();
    let (gate, runs) = counted(&effects);
    assert_eq!(uncertain(&effects), [kept]);
    clock.advance(MINUTE);
    assert!(gate.run_due(effects.now()).emitted.is_empty());
    assert!(effects.requeue(kept).unwrap() && !effects.requeue(kept).unwrap());
    assert_eq!(gate.run_due(effects.now()).emitted, [(kept, 1)]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert!(!effects.forget(kept).unwrap());
}

#[test]
fn a_call_that_waits_can_be_forgotten() {
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(1, MINUTE)), &clock);
    let (gate, runs) = counted(&effects);
    let _now = permit(&gate, 1);
    let kept = ticket(gate.call(Call::of("alice").coalesce("id"), &"q".into()));
    assert!(effects.forget(kept).unwrap() && !effects.forget(kept).unwrap());
    assert_ne!(ticket(gate.call(Call::of("alice").coalesce("id"), &"q".into())), kept);
    clock.advance(MINUTE);
    gate.run_due(effects.now());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_payload_that_cannot_be_read_keeps_its_call_and_holds_nobody_up() {
    struct Picky(bool);
    impl Payload for Picky {
        fn to_bytes(&self) -> Vec<u8> {
            vec![u8::from(self.0)]
        }
        fn from_bytes(bytes: &[u8]) -> Result<Self, PayloadError> {
            match bytes {
                [1] => Ok(Picky(true)),
                _ => Err(PayloadError::new("another version's")),
            }
        }
    }
    struct Pick;
    impl Effect for Pick {
        const TOOL: &'static str = "Search";
        type Payload = Picky;
        type Output = ();
    }
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(9, MINUTE)), &clock);
    let gate = effects.gate::<Pick>(|_| ()).unwrap();
    let _all = gate.permit("alice", 9).unwrap();
    let [odd, good] = [false, true].map(|readable| match gate.call(Call::of("alice"), &Picky(readable)) {
        Err(EffectError::EffectDeferred { ticket, .. }) => ticket,
        other => panic!("{other:?}"),
    });
    clock.advance(MINUTE);
    let report = gate.run_due(effects.now());
    assert_eq!(report.emitted, [(good, ())]);
    assert!(matches!(report.failed[..], [(ticket, DueError::Payload(_))] if ticket == odd));
    assert_eq!(effects.deferred()[0].ticket, odd);
    assert_eq!(gate.next_due(), Some(ns(MINUTE + SECOND)), "looked at again a little later");
}

/// A payload whose reading runs a hook: what happens between the claim of a call and the beginning of its emission.
mod between {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    struct Hooked;
    impl Payload for Hooked {
        fn to_bytes(&self) -> Vec<u8> {
            Vec::new()
        }
        fn from_bytes(_: &[u8]) -> Result<Self, PayloadError> {
            if let Some(hook) = HOOK.with(|hook| hook.borrow_mut().take()) {
                hook();
            }
            Ok(Hooked)
        }
    }

    struct Slow;
    impl Effect for Slow {
        const TOOL: &'static str = "Slow";
        type Payload = Hooked;
        type Output = ();
    }

    fn both(clock: &ManualClock, ledger: DeferredLedger) -> Effects {
        let defer = |quota: QuotaRule| quota.on_exhausted(OnExhausted::Defer);
        let slow = EffectRule::new("Slow").quota(defer(QuotaRule::rate(1, MINUTE)));
        let search = EffectRule::new("Search").quota(defer(QuotaRule::rate(1, MINUTE).burst(2_000)));
        let policy = EffectPolicy::new().effect(slow).effect(search);
        let builder = Effects::builder(policy).declare::<Slow>().declare::<Search>().clock(clock.clone());
        builder.ledger(ledger).build().unwrap()
    }

    /// The ledger is compacted while a call is claimed, which is then emitted, or put off.
    fn compacted_meanwhile(put_off: bool) {
        let folder = folder();
        let path = folder.path().join("deferred.log");
        let clock = ManualClock::new();
        let ledger = || DeferredLedger::at(&path).capacity(5_000);
        let effects = both(&clock, ledger());
        let slow = effects.gate::<Slow>(|_| ()).unwrap();
        let (search, _) = counted(&effects);
        drop(slow.permit("k", 1).unwrap());
        slow.call(Call::of("k"), &Hooked).unwrap_err();
        drop(permit(&search, 2_000));
        for _ in 0..400 {
            ticket(search.call(Call::of("alice"), &"q".into()));
        }
        clock.advance(MINUTE * 3_000);
        if put_off {
            drop(slow.permit("k", 1).unwrap());
        }
        let (inner, now, lines) = (search.clone(), effects.now(), path.clone());
        let hook = move || {
            assert_eq!(inner.run_due(now).emitted.len(), 400);
            let lines = std::fs::read_to_string(lines).unwrap().lines().count();
            assert!(lines < 1_100, "{lines} lines: it was not compacted");
        };
        HOOK.with(|place| *place.borrow_mut() = Some(Box::new(hook)));
        assert_eq!(slow.run_due(now).emitted.len(), usize::from(!put_off));
        drop((slow, search, effects));
        let reopened = both(&ManualClock::new(), ledger()).reopened().clone();
        assert_eq!(reopened, Reopened { waiting: usize::from(put_off), uncertain: 0, cut: 0 });
    }

    #[test]
    fn a_claim_and_an_emission_a_compaction_does_no_harm() {
        compacted_meanwhile(false);
    }

    #[test]
    fn a_claim_and_a_postponement_a_compaction_does_no_harm() {
        compacted_meanwhile(true);
    }

    #[test]
    fn a_claim_and_a_postponement_a_worker_that_looks_is_woken_afterwards() {
        let clock = ManualClock::new();
        let effects = both(&clock, DeferredLedger::in_memory());
        let gate = effects.gate::<Slow>(|_| ()).unwrap();
        let _one = gate.permit("k", 1).unwrap();
        gate.call(Call::of("k"), &Hooked).unwrap_err();
        clock.advance(MINUTE);
        let _another = gate.permit("k", 1).unwrap();
        let (sender, reports) = std::sync::mpsc::channel();
        let (started, worker) = std::sync::mpsc::channel();
        let inner = gate.clone();
        // The worker starts while the only call is claimed, so it finds nothing to wait for.
        let hook = move || {
            started.send(inner.spawn_worker(move |report| sender.send(report).unwrap()).unwrap()).unwrap();
        };
        HOOK.with(|place| *place.borrow_mut() = Some(Box::new(hook)));
        assert_eq!(gate.run_due(effects.now()).postponed.len(), 1);
        let _worker = worker.recv().unwrap();
        clock.advance(MINUTE);
        assert_eq!(reports.recv().unwrap().emitted.len(), 1);
    }

    #[test]
    fn a_claim_and_an_emission_an_id_belongs_to_its_call() {
        let clock = ManualClock::new();
        let effects = both(&clock, DeferredLedger::in_memory());
        let gate = effects.gate::<Slow>(|_| ()).unwrap();
        let _one = gate.permit("k", 1).unwrap();
        let call = || gate.call(Call::of("k").coalesce("id"), &Hooked);
        let Err(EffectError::EffectDeferred { ticket: kept, .. }) = call() else { panic!("not deferred") };
        clock.advance(MINUTE);
        let (inner, (sender, answers)) = (gate.clone(), std::sync::mpsc::channel());
        let hook = move || {
            let another = inner.call(Call::of("k").coalesce("id").cost(1), &Hooked);
            sender.send(another.map(|_| ())).unwrap();
        };
        HOOK.with(|place| *place.borrow_mut() = Some(Box::new(hook)));
        assert_eq!(gate.run_due(effects.now()).emitted, [(kept, ())]);
        let answer = answers.recv().unwrap();
        assert!(
            matches!(answer, Err(EffectError::EffectDeferred { ticket, .. }) if ticket == kept),
            "{answer:?}"
        );
    }
}

#[test]
fn a_file_does_not_grow_with_what_is_put_off() {
    let folder = folder();
    let path = folder.path().join("deferred.log");
    let clock = ManualClock::new();
    let ledger = DeferredLedger::at(&path);
    let effects =
        builder(deferring(QuotaRule::rate(1, MINUTE).burst(2)), &clock).ledger(ledger).build().unwrap();
    let (gate, _) = counted(&effects);
    let _both = permit(&gate, 2);
    ticket(gate.call(Call::of("alice").cost(2), &"q".into()));
    for _ in 0..1_500 {
        clock.advance(MINUTE);
        let _taken = permit(&gate, 1);
        gate.run_due(effects.now());
    }
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert!(lines < 1_100, "{lines} lines for one call");
}

#[test]
fn a_whole_line_that_nobody_wrote_is_damage_wherever_it_stands() {
    let folder = folder();
    let path = folder.path().join("deferred.log");
    let clock = ManualClock::new();
    let put = |ticket: &str| {
        format!(
            r#"{{"op":"put","call":{{"ticket":{ticket},"effect":"Search","key":"61","cost":1,"due":0,"payload":"","kept_by":"gate"}}}}"#
        )
    };
    let content = |lines: &[String]| {
        let whole = |line: &String| format!("{line}\t{:08x}\n", crc32fast::hash(line.as_bytes()));
        lines.iter().map(whole).collect::<String>()
    };
    let open = |lines: &[String]| {
        std::fs::write(&path, content(lines)).unwrap();
        builder(deferring(QuotaRule::rate(1, MINUTE)), &clock).ledger(DeferredLedger::at(&path)).build()
    };
    assert_eq!(open(&[put("7")]).unwrap().deferred()[0].ticket.number(), 7);
    let damaged = [
        vec![put("18446744073709551615")],
        vec![r#"{"op":"next","ticket":18446744073709551615}"#.to_owned()],
        vec![put("7"), put("7")],
        vec![put("7"), r#"{"op":"done","ticket":8}"#.to_owned()],
        vec![r#"{"op":"begin","ticket":1}"#.to_owned()],
        vec![put("7"), r#"{"op":"sing","ticket":7}"#.to_owned()],
        vec![put("7"), r#"{"op":"move","ticket":7,"due":1,"by":2}"#.to_owned()],
        vec![put("-7")],
    ];
    for lines in damaged {
        let error = open(&lines).map(|_| ()).unwrap_err();
        assert!(matches!(error, EffectsError::Ledger(LedgerError::Damaged { .. })), "{lines:?}: {error}");
    }
    // Steps that a process repeats which could not write one down before are no damage.
    let step = |op: &str| format!(r#"{{"op":"{op}","ticket":7}}"#);
    let moved = r#"{"op":"move","ticket":7,"due":9}"#.to_owned();
    let odd = [put("7"), step("begin"), step("begin"), step("again"), step("begin"), moved];
    assert_eq!(open(&odd).unwrap().reopened(), &Reopened { waiting: 1, uncertain: 0, cut: 0 });
}

#[cfg(target_os = "linux")]
#[test]
fn a_ledger_has_one_owner() {
    let folder = folder();
    let path = folder.path().join("deferred.log");
    let clock = ManualClock::new();
    let open =
        || builder(deferring(QuotaRule::rate(1, MINUTE)), &clock).ledger(DeferredLedger::at(&path)).build();
    let first = open().unwrap();
    assert!(matches!(open().unwrap_err(), EffectsError::Ledger(LedgerError::InUse { .. })));
    drop(first);
    open().unwrap();
}

#[test]
fn a_file_that_cannot_be_written_keeps_nothing_and_says_so() {
    let folder = folder();
    let path = folder.path().join("missing").join("deferred.log");
    let clock = ManualClock::new();
    let ledger = DeferredLedger::at(path);
    let error = builder(deferring(QuotaRule::rate(1, MINUTE)), &clock).ledger(ledger).build().unwrap_err();
    assert!(matches!(error, EffectsError::Ledger(LedgerError::Io { .. })), "{error}");
}

#[test]
fn many_threads_that_run_what_is_due_emit_each_call_once() {
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(100, MINUTE)), &clock);
    let (gate, runs) = counted(&effects);
    let _all = permit(&gate, 100);
    for _ in 0..50 {
        ticket(gate.call(Call::of("alice"), &"q".into()));
    }
    clock.advance(MINUTE);
    let emitted: usize = std::thread::scope(|scope| {
        let run = || gate.run_due(effects.now()).emitted.len();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((emitted, runs.load(Ordering::Relaxed)), (50, 50));
}

#[test]
fn a_worker_runs_what_is_due_and_what_comes_in_while_it_waits() {
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(1, MINUTE)), &clock);
    let (gate, _) = counted(&effects);
    let (sender, reports) = std::sync::mpsc::channel();
    let worker = gate.spawn_worker(move |report| sender.send(report).unwrap()).unwrap();
    drop(permit(&gate, 1));
    let call = |text: &str| ticket(gate.call(Call::of("alice"), &text.to_owned()));
    let (first, second) = (call("one"), call("three"));
    clock.advance(MINUTE);
    let report = reports.recv().unwrap();
    assert_eq!((report.emitted, report.postponed), (vec![(first, 3)], vec![(second, ns(MINUTE * 2))]));
    clock.advance(MINUTE);
    assert_eq!(reports.recv().unwrap().emitted, [(second, 5)]);
    let third = call("four");
    clock.advance(MINUTE);
    assert_eq!(reports.recv().unwrap().emitted, [(third, 4)]);
    drop(worker);
    call("nobody runs it");
    clock.advance(MINUTE);
    assert!(reports.recv().is_err(), "the worker is gone, and its report with it");
    assert_eq!(effects.deferred().len(), 1);
}

#[test]
fn a_worker_may_be_dropped_by_its_own_report() {
    let clock = ManualClock::new();
    let effects = effects(deferring(QuotaRule::rate(1, MINUTE)), &clock);
    let (gate, _) = counted(&effects);
    let slot: Arc<Mutex<Option<DueWorker>>> = Arc::default();
    let (sender, done) = std::sync::mpsc::channel();
    let its_own = slot.clone();
    let worker = gate.spawn_worker(move |_| {
        drop(its_own.lock().unwrap().take());
        sender.send(()).unwrap();
    });
    *slot.lock().unwrap() = Some(worker.unwrap());
    drop(permit(&gate, 1));
    ticket(gate.call(Call::of("alice"), &"q".into()));
    clock.advance(MINUTE);
    done.recv().unwrap();
}
