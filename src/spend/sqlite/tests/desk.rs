//! A small engine that makes valid records, and a model of what a store of them must answer.

use super::*;
use crate::spend::books::Books;
use crate::spend::record::{Kind, Move, Part, Phase, Settlement};
use crate::spend::refusal::{Reason, Refusal};
use std::collections::BTreeMap;

/// Makes records and remembers all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Desk {
    pub(super) records: Vec<Record>,
    pub(super) holds: BTreeMap<String, HoldState>,
    generation: u64,
    pub(super) now: Millis,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self { now: START, ..Self::default() }
    }

    fn record(&mut self, kind: Kind, moves: Vec<Move>, hold: HoldState) -> Record {
        let path = if kind == Kind::Deny { Arc::from([]) } else { hold.path.clone() };
        let record = Record { at: self.now, kind, path, moves, hold: hold.clone(), note: String::new() };
        self.holds.insert(hold.id.clone(), hold);
        self.records.push(record.clone());
        record
    }

    pub(super) fn hold(&mut self, id: &str, named: bool, path: Vec<Account>, amounts: Quantities) -> Record {
        self.generation += 1;
        let mut books = Books::default();
        books.add(&amounts, |entry| &mut entry.reserved);
        let hold = HoldState {
            id: id.into(),
            named,
            generation: self.generation,
            input: format!("input of {id}"),
            path: path.into(),
            at: self.now,
            deadline: self.now + HOUR,
            ceiling: None,
            parts: vec![Part { at: self.now, left: amounts }],
            used: Quantities::NONE,
            overrun: Quantities::NONE,
            steps: Vec::new(),
            phase: Phase::Open,
            decision: Default::default(),
        };
        self.record(Kind::Hold, vec![Move { at: self.now, books }], hold)
    }

    pub(super) fn deny(&mut self, id: &str) -> Record {
        let refusal = Refusal {
            scope: "user".into(),
            key: "ann".into(),
            dimension: Dimension::Cost,
            window: "lifetime".into(),
            reason: Reason::Exhausted,
            limit: 1,
            spent: 1,
            held: 0,
            needed: 1,
            resets_at: None,
            retry_after: None,
        };
        let mut record = self.hold(id, true, path("t", "ann"), cost(1));
        self.records.pop();
        record.hold.phase = Phase::Denied(Box::new(refusal));
        record.hold.parts.clear();
        self.record(Kind::Deny, Vec::new(), record.hold)
    }

    pub(super) fn extend(&mut self, id: &str, amounts: Quantities) -> Record {
        let mut hold = self.holds[id].clone();
        let mut books = Books::default();
        books.add(&amounts, |entry| &mut entry.reserved);
        hold.parts.push(Part { at: self.now, left: amounts });
        self.record(Kind::Extend, vec![Move { at: self.now, books }], hold)
    }

    /// Takes `used` from the parts, oldest first, and what is more as an overrun.
    fn take(&self, hold: &mut HoldState, used: &Quantities) -> Vec<Move> {
        let was_expired = hold.phase == Phase::Expired;
        let (mut moves, mut rest) = (Vec::new(), *used);
        for part in &mut hold.parts {
            let taken = part.left.min(&rest);
            rest = rest.saturating_sub(&taken);
            part.left = part.left.saturating_sub(&taken);
            let mut books = Books::default();
            books.add(&taken, |entry| &mut entry.settled);
            if was_expired {
                books.take(&taken, |entry| &mut entry.expired);
            }
            moves.push(Move { at: part.at, books });
        }
        if !rest.is_none() {
            let mut books = Books::default();
            books.add(&rest, |entry| &mut entry.overrun);
            books.add(&rest, |entry| &mut entry.settled);
            moves.push(Move { at: self.now, books });
            hold.overrun = hold.overrun.checked_add(&rest).unwrap();
        }
        hold.used = hold.used.checked_add(used).unwrap();
        moves
    }

    pub(super) fn charge(&mut self, id: &str, used: Quantities) -> Record {
        let mut hold = self.holds[id].clone();
        let moves = self.take(&mut hold, &used);
        self.record(Kind::Charge, moves, hold)
    }

    pub(super) fn settle(&mut self, id: &str, used: Quantities) -> Record {
        let mut hold = self.holds[id].clone();
        let late = hold.phase == Phase::Expired;
        let mut moves = self.take(&mut hold, &used);
        let mut released = Quantities::NONE;
        for part in std::mem::take(&mut hold.parts) {
            let mut books = Books::default();
            books.add(&part.left, |entry| &mut entry.released);
            if late {
                books.take(&part.left, |entry| &mut entry.expired);
            }
            moves.push(Move { at: part.at, books });
            released = released.checked_add(&part.left).unwrap();
        }
        let settlement =
            Settlement { stated: used, used: hold.used, released, overrun: hold.overrun, late, at: self.now };
        let (kind, phase) = match used.is_none() {
            true => (Kind::Release, Phase::Released(settlement)),
            false => (Kind::Settle, Phase::Settled(settlement)),
        };
        hold.phase = phase;
        self.record(kind, moves, hold)
    }

    pub(super) fn release(&mut self, id: &str) -> Record {
        self.settle(id, Quantities::NONE)
    }

    pub(super) fn expire(&mut self, id: &str) -> Record {
        let mut hold = self.holds[id].clone();
        let mut moves = Vec::new();
        for part in &hold.parts {
            let mut books = Books::default();
            books.add(&part.left, |entry| &mut entry.expired);
            moves.push(Move { at: part.at, books });
        }
        hold.phase = Phase::Expired;
        self.record(Kind::Expire, moves, hold)
    }

    pub(super) fn ids(&self, phase: Phase) -> Vec<String> {
        self.holds.values().filter(|hold| hold.phase == phase).map(|hold| hold.id.clone()).collect()
    }

    /// One record by dice: an operation that is possible now.
    pub(super) fn any(&mut self, dice: u32) -> Record {
        let byte = |shift: u32| (dice >> shift) & 0xff;
        self.now += u64::from(byte(8)) * u64::from(byte(8)) * 50;
        let (open, expired) = (self.ids(Phase::Open), self.ids(Phase::Expired));
        let pick = |ids: &[String]| ids[byte(16) as usize % ids.len()].clone();
        let amounts = cost(u64::from(byte(24)) + 1);
        match byte(0) % 10 {
            0 => self.deny(&format!("denied {}", self.generation)),
            1 | 2 if !open.is_empty() => self.charge(&pick(&open), amounts),
            3 if !open.is_empty() => self.extend(&pick(&open), amounts),
            4 | 5 if !open.is_empty() => self.settle(&pick(&open), amounts),
            6 if !open.is_empty() => self.release(&pick(&open)),
            7 if !open.is_empty() => self.expire(&pick(&open)),
            8 if !expired.is_empty() => self.settle(&pick(&expired), amounts),
            other => {
                let mut path =
                    path(["t", "u"][byte(16) as usize % 2], ["ann", "bob", ""][byte(24) as usize % 3]);
                if other == 9 {
                    path.push(Account { scope: crate::spend::record::FAMILY.into(), key: "root".into() });
                }
                self.hold(&format!("hold {}", self.generation), byte(16) % 3 != 0, path, amounts)
            }
        }
    }

    /// The books that a store must have.
    pub(super) fn books(&self) -> BTreeMap<(String, String), Books> {
        let mut all: BTreeMap<_, Books> = BTreeMap::new();
        for record in &self.records {
            for (account, moved) in record.path.iter().flat_map(|a| record.moves.iter().map(move |m| (a, m)))
            {
                let books = all.entry((account.scope.clone(), account.key.clone())).or_default();
                books.add_books(&moved.books).unwrap();
            }
        }
        all
    }

    /// What counts of one account, by limit and slot.
    fn usage(
        &self,
        limits: &[(Dimension, Window)],
        account: &Account,
        at: Millis,
    ) -> BTreeMap<(usize, u32), i128> {
        let mut all = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.path.contains(account)) {
            for moved in &record.moves {
                for (index, (dimension, window)) in limits.iter().enumerate() {
                    let slot = window.slot(moved.at);
                    if slot + window.reach() >= window.slot(at) {
                        *all.entry((index, slot)).or_default() += moved.books.entry(*dimension).used();
                    }
                }
            }
        }
        all.retain(|_, used| *used != 0);
        all
    }

    pub(super) fn open(&self) -> Vec<HoldState> {
        let mut open: Vec<_> =
            self.holds.values().filter(|hold| hold.phase == Phase::Open).cloned().collect();
        open.sort_by_key(|hold| hold.generation);
        open
    }

    /// The store answers as the records say.
    pub(super) fn agrees(&self, store: &SqliteStore, policy: &SpendPolicy) {
        let found = store.books().unwrap().into_iter().map(|books| ((books.scope, books.key), books.books));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), self.books());
        assert_eq!(store.open_holds().unwrap(), self.open());
        for (scope, key) in self.books().into_keys() {
            let limits = match policy.scopes.iter().find(|known| known.name == scope) {
                Some(scope) => scope.limits.iter().map(|l| (l.dimension, l.window.clone())).collect(),
                None if scope == "family" => {
                    vec![(Dimension::Cost, Window::Lifetime), (Dimension::Calls, Window::Lifetime)]
                }
                None => Vec::new(),
            };
            let found = store.usage(&scope, &key, self.now).unwrap();
            let found: BTreeMap<_, _> =
                found.into_iter().map(|u| ((u.limit, u.slot), i128::from(u.used))).collect();
            let account = Account { scope, key };
            assert_eq!(found, self.usage(&limits, &account, self.now), "{account:?} at {}", self.now);
        }
        for (id, hold) in &self.holds {
            let last = self.records.iter().rev().find(|record| record.hold.id == *id).unwrap();
            let found = store.hold(id).unwrap();
            let must = hold.phase == Phase::Open || last.at + policy.answers_for > self.now;
            match found {
                Some(found) => assert_eq!(found, *hold),
                None => assert!(!(must && verify::is_kept(hold)), "{id} was forgotten"),
            }
        }
    }
}
