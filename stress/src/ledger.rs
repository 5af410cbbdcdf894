//! What the threads of a round were told, and whether it adds up.

use crate::intervals::{Record, prove};
use crate::line::Fast;
use crate::random::Random;
use std::collections::{BTreeMap, HashMap};
use tollgate::Admission;
use tollgate::time::Clock;

/// Table, limit, key.
pub type Bucket = (u8, u8, u32);

/// One thread's ledger. Writing it must cost little, or threads would seldom meet in the engine.
#[derive(Debug, Default)]
pub struct Ledger {
    records: Vec<Record<Bucket>>,
    /// What the caller asked for, by record.
    costs: Vec<u64>,
    /// The latest time of this thread's calls so far, by table.
    last: HashMap<u8, u64>,
    pub refused: usize,
}

impl Ledger {
    /// Notes a call's admissions. Later calls of a thread are decided no earlier, by the clock of each table.
    pub fn admitted(&mut self, draws: &[(Bucket, u64)], admissions: &[Admission]) {
        assert_eq!(draws.len(), admissions.len(), "all or nothing");
        for (&(bucket, cost), &Admission { at, from, to, .. }) in draws.iter().zip(admissions) {
            let last = self.last.entry(bucket.0).or_default();
            assert!(at >= *last, "decided at {at}, after a call at {last}");
            *last = at;
            self.records.push(Record { bucket, at, from, to });
            self.costs.push(cost);
        }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn together(ledgers: Vec<Self>) -> Self {
        ledgers.into_iter().fold(Self::default(), |mut sum, one| {
            sum.records.extend(one.records);
            sum.costs.extend(one.costs);
            sum.refused += one.refused;
            sum
        })
    }

    /// The interval proof over the whole round, and what must be left in each bucket. Says what is wrong, with the
    /// records that show it.
    pub fn check<'l>(
        &self,
        line_of: impl Fn(&Bucket) -> &'l Fast,
        clock_of: impl Fn(&Bucket) -> &'l dyn Clock,
        peek: impl Fn(&Bucket) -> u64,
        random: &mut Random,
    ) -> Result<(), String> {
        let mut told: BTreeMap<Bucket, u64> = BTreeMap::new();
        let mut marks: BTreeMap<Bucket, u64> = BTreeMap::new();
        for (record, cost) in self.records.iter().zip(&self.costs) {
            *told.entry(record.bucket).or_default() += cost;
            let mark = marks.entry(record.bucket).or_default();
            *mark = record.to.max(*mark);
            let now = clock_of(&record.bucket).now();
            if record.at > now {
                return Err(format!("decided at {}, and now it is {now}: {record:?}", record.at));
            }
        }
        prove(self.records.clone(), &told, &line_of).map_err(|broken| broken.to_string())?;
        for (bucket, &mark) in &marks {
            let (line, clock) = (line_of(bucket), clock_of(bucket));
            // Between two readings of a clock that may run meanwhile.
            let least = line.left(mark, clock.now());
            let there = peek(bucket);
            let most = line.left(mark, clock.now());
            if !(least..=most).contains(&there) {
                return Err(format!("{bucket:?} shows {there} tokens, its records leave {least} to {most}"));
            }
        }
        for bucket in marks.keys().take(3) {
            line_of(bucket).compare(clock_of(bucket).now(), random);
        }
        Ok(())
    }
}
