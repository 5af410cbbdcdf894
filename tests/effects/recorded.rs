//! The journal: what is in it, and that nothing is decided that is not.

use crate::fixture::*;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn lines(journal: &Shared) -> Vec<Value> {
    journal.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(journal: &Shared) -> Vec<String> {
    lines(journal).iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect()
}

fn journalled(rule: EffectRule, clock: &ManualClock) -> (Effects, Shared) {
    let sink = Shared::default();
    let effects = builder(rule, clock).journal(Journal::to(sink.clone())).build().unwrap();
    (effects, sink)
}

#[test]
fn every_decision_and_every_end_of_a_permit_is_a_line() {
    let clock = ManualClock::at(5);
    let quota = QuotaRule::rate(4, SECOND).on_exhausted(OnExhausted::Defer);
    let (effects, journal) = journalled(rule([quota]), &clock);
    let (gate, _) = counted(&effects);
    gate.emit(permit(&gate, 1), &"q".into()).unwrap();
    permit(&gate, 1).refund();
    drop(permit(&gate, 1));
    let _ = permit(&gate, 2);
    refused(&gate, 1);
    gate.call(Call::of("alice"), &"q".into()).unwrap_err();
    clock.advance(SECOND);
    gate.run_due(effects.now());
    refused(&gate, 9);
    let seal = effects.seal_journal().unwrap().unwrap();
    let expected = "open grant emit grant refund grant forfeit grant forfeit deny defer grant emit deny seal";
    assert_eq!(kinds(&journal).join(" "), expected);
    let lines = lines(&journal);
    assert_eq!(lines[0]["effects"][0]["quotas"][0]["quota"], "rate 4 per 1000000000ns burst 4");
    let grant = &lines[1];
    assert_eq!((&grant["t"], &grant["key"], &grant["cost"]), (&5.into(), &"616c696365".into(), &1.into()));
    let units = lines[0]["effects"][0]["quotas"][0]["units_per_token"].as_u64().unwrap();
    let states = &grant["draws"][0];
    assert_eq!(states["after"][0].as_u64().unwrap() - 5 * units / 250_000_000, units);
    assert_eq!(lines[4]["draws"][0]["after"][1], units, "what was refunded is counted");
    assert_eq!(lines[11]["ticket"], lines[10]["ticket"]);
    let last = lines.last().unwrap();
    assert_eq!((last["count"].as_u64(), last["hash"].as_str()), (Some(seal.count), Some(seal.hash.as_str())));
}

#[test]
fn lines_are_chained_from_the_first_to_the_seal() {
    let clock = ManualClock::new();
    let (effects, journal) = journalled(rule([QuotaRule::rate(4, SECOND)]), &clock);
    let (gate, _) = counted(&effects);
    for _ in 0..4 {
        gate.call(Call::of("alice"), &"q".into()).unwrap().done().unwrap();
    }
    effects.seal_journal().unwrap();
    let text = journal.text();
    assert!(text.ends_with("\"}\n"));
    let mut before = [0u8; 32];
    for (number, line) in text.lines().enumerate() {
        let (body, hash) = line.split_once(",\"hash\":\"").unwrap();
        before = Sha256::new().chain_update(before).chain_update(body).finalize().into();
        let hex: String = before.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, format!("{hex}\"}}"));
        assert!(line.starts_with(&format!("{{\"seq\":{number},")));
    }
}

#[test]
fn the_last_handle_seals_and_a_held_permit_ends_before_it() {
    let clock = ManualClock::new();
    let (effects, journal) = journalled(rule([QuotaRule::rate(4, SECOND)]), &clock);
    let (gate, _) = counted(&effects);
    let held = permit(&gate, 1);
    drop((gate, effects));
    assert!(!kinds(&journal).contains(&"seal".to_owned()));
    drop(held);
    assert_eq!(kinds(&journal), ["open", "grant", "forfeit", "seal"]);
}

#[test]
fn after_the_seal_nothing_is_granted_or_emitted() {
    let clock = ManualClock::new();
    let (effects, _) = journalled(rule([QuotaRule::rate(4, SECOND)]), &clock);
    let (gate, runs) = counted(&effects);
    let held = permit(&gate, 1);
    let seal = effects.seal_journal().unwrap();
    assert_eq!(effects.seal_journal().unwrap(), seal, "sealing again says the same");
    assert!(matches!(refused(&gate, 1), EffectError::Unrecorded { error: JournalError::Sealed, .. }));
    let unsent = gate.emit(held, &"q".into()).unwrap_err();
    assert_eq!(unsent.reason, UnsentReason::Unrecorded(JournalError::Sealed));
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

/// A sink that takes nothing until it is opened, and fails when told to.
#[derive(Clone, Default)]
struct Valve(Arc<(Mutex<(bool, bool)>, std::sync::Condvar)>);

impl Valve {
    fn set(&self, open: bool, failing: bool) {
        *self.0.0.lock().unwrap() = (open, failing);
        self.0.1.notify_all();
    }
}

impl std::io::Write for Valve {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut state = self.0.0.lock().unwrap();
        while !state.0 {
            state = self.0.1.wait(state).unwrap();
        }
        if state.1 { Err(std::io::Error::other("disk full")) } else { Ok(bytes.len()) }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_journal_refuses_if_told_to_and_nothing_is_drawn() {
    let valve = Valve::default();
    let clock = ManualClock::new();
    let journal = Journal::to(valve.clone()).capacity(5).when_full(WhenFull::Refuse);
    let effects = builder(rule([QuotaRule::rate(9, SECOND)]), &clock).journal(journal).build().unwrap();
    let (gate, _) = counted(&effects);
    // Each grant takes two places: its own, and one for its end.
    let held = [permit(&gate, 1), permit(&gate, 1)];
    let error = refused(&gate, 1);
    assert!(
        matches!(error, EffectError::Unrecorded { error: JournalError::Full { capacity: 5 }, .. }),
        "{error}"
    );
    assert_eq!(effects.peek("Search", "alice").unwrap(), [7]);
    for held in held {
        gate.emit(held, &"q".into()).unwrap(); // room for its end was set aside
    }
    valve.set(true, false);
    effects.seal_journal().unwrap();
}

#[test]
fn a_full_journal_makes_decisions_wait_and_loses_none() {
    let valve = Valve::default();
    let sink = Shared::default();
    struct Both(Valve, Shared);
    impl std::io::Write for Both {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.write(bytes)?;
            self.1.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let clock = ManualClock::new();
    let journal = Journal::to(Both(valve.clone(), sink.clone())).capacity(2);
    let effects = builder(rule([QuotaRule::rate(100, SECOND)]), &clock).journal(journal).build().unwrap();
    let (gate, runs) = counted(&effects);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    gate.call(Call::of("alice"), &"q".into()).unwrap().done().unwrap();
                }
            });
        }
        valve.set(true, false);
    });
    effects.seal_journal().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 40);
    let kinds = kinds(&sink);
    let count = |kind: &str| kinds.iter().filter(|k| *k == kind).count();
    assert_eq!((count("grant"), count("emit"), count("seal")), (40, 40, 1));
}

#[test]
fn nobody_waits_for_room_that_only_the_end_of_a_permit_would_give_back() {
    let sink = Shared::default();
    let clock = ManualClock::new();
    let journal = Journal::to(sink.clone()).capacity(3);
    let effects = builder(rule([QuotaRule::rate(9, SECOND)]), &clock).journal(journal).build().unwrap();
    let (gate, _) = counted(&effects);
    let held = [permit(&gate, 1), permit(&gate, 1)];
    let error = refused(&gate, 1);
    assert!(
        matches!(error, EffectError::Unrecorded { error: JournalError::Full { capacity: 3 }, .. }),
        "{error}"
    );
    for held in held {
        gate.emit(held, &"q".into()).unwrap();
    }
    drop(permit(&gate, 1));
    effects.seal_journal().unwrap();
    assert_eq!(kinds(&sink).len(), 1 + 3 + 3 + 1);
}

#[test]
fn a_sink_that_fails_stops_every_decision_after_it() {
    let valve = Valve::default();
    valve.set(true, false);
    let clock = ManualClock::new();
    let journal = Journal::to(valve.clone()).capacity(2);
    let effects = builder(rule([QuotaRule::rate(1_000, SECOND)]), &clock).journal(journal).build().unwrap();
    let (gate, _) = counted(&effects);
    gate.call(Call::of("alice"), &"q".into()).unwrap().done().unwrap();
    valve.set(true, true);
    // With room for one grant at a time, the next but one waits for the failure of the one before.
    let error = (0..3).find_map(|_| gate.call(Call::of("alice"), &"q".into()).err()).expect("refused");
    assert!(
        matches!(&error, EffectError::Unrecorded { error: JournalError::Sink(why), .. } if why.contains("disk full"))
    );
    assert!(matches!(effects.seal_journal(), Err(JournalError::Sink(_))));
}

#[test]
fn a_sink_that_panics_leaves_nobody_waiting() {
    /// After the first line.
    struct Panics(bool);
    impl std::io::Write for Panics {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "a sink's own fault");
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let clock = ManualClock::new();
    let journal = Journal::to(Panics(false)).capacity(2);
    let effects = builder(rule([QuotaRule::rate(1_000, SECOND)]), &clock).journal(journal).build().unwrap();
    let (gate, _) = counted(&effects);
    let error = (0..3).find_map(|_| gate.call(Call::of("alice"), &"q".into()).err()).expect("refused");
    assert!(matches!(error, EffectError::Unrecorded { .. }));
    assert!(effects.seal_journal().is_err());
}

#[test]
fn a_journal_without_room_for_a_grant_and_its_end_is_refused() {
    let clock = ManualClock::new();
    let journal = Journal::to(Vec::new()).capacity(1);
    let error = builder(rule([QuotaRule::rate(1, SECOND)]), &clock).journal(journal).build().unwrap_err();
    assert_eq!(error, EffectsError::Journal(JournalError::Capacity(1)));
}

#[test]
fn what_is_decided_while_it_is_sealed_is_in_it_or_was_not_decided() {
    for _ in 0..100 {
        let clock = ManualClock::new();
        let (effects, journal) = journalled(rule([QuotaRule::rate(1_000_000, SECOND)]), &clock);
        let (gate, runs) = counted(&effects);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| while gate.call(Call::of("alice"), &"q".into()).is_ok() {});
            }
            while runs.load(Ordering::Relaxed) < 10 {
                std::thread::yield_now();
            }
            effects.seal_journal().unwrap();
        });
        let emitted = kinds(&journal).iter().filter(|kind| *kind == "emit").count();
        assert_eq!(emitted, runs.load(Ordering::Relaxed));
    }
}
