//! The rules of the pipeline, one event after another, with maps and no engine.

use super::quota::Quota;
use std::collections::BTreeMap;

/// A limit that an event draws on.
#[derive(Debug, Clone)]
pub struct Draw {
    pub limit: String,
    pub quota: Quota,
    /// The bucket's key, and with it its cell: the two limits of one grant share one. Of an event without a key
    /// nobody's.
    pub cell: String,
    /// `None`: the limit cannot be judged, only what is left be told.
    pub cost: Option<i128>,
}

/// What an event asks of one stage.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Which of the tables.
    pub table: usize,
    pub draws: Vec<Draw>,
    /// The first limit that cannot be judged, and why.
    pub flaw: Option<(String, &'static str)>,
}

/// A decision, as the tool tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// `None` is an admission, otherwise verdict, limit, reason and wait.
    pub refused: Option<(&'static str, String, &'static str, Option<i128>)>,
    pub remaining: BTreeMap<String, i128>,
}

/// A table: at most `cells` cells, each with the marks of its limits.
#[derive(Debug, Default)]
pub struct Table {
    pub cells: usize,
    marks: BTreeMap<String, BTreeMap<String, (Quota, i128)>>,
}

impl Table {
    pub fn new(cells: usize) -> Self {
        Self { cells, ..Self::default() }
    }

    fn mark(&self, draw: &Draw) -> Option<i128> {
        Some(self.marks.get(&draw.cell)?.get(&draw.limit)?.1)
    }

    /// Cells that are not full again, so that they cannot give way.
    fn busy(&self, t: i128) -> Vec<&String> {
        let busy =
            self.marks.iter().filter(|(_, limits)| limits.values().any(|(q, mark)| !q.is_full(*mark, t)));
        busy.map(|(cell, _)| cell).collect()
    }

    fn judge(&self, stage: &Stage, t: i128) -> Option<(&'static str, String, &'static str, Option<i128>)> {
        if let Some((limit, reason)) = &stage.flaw {
            return Some(("error", limit.clone(), reason, None));
        }
        let draws: Vec<_> = stage.draws.iter().filter(|draw| draw.cost.unwrap_or(0) > 0).collect();
        let cost = |draw: &Draw| draw.cost.unwrap_or(0);
        if let Some(draw) = draws.iter().find(|draw| cost(draw) > draw.quota.capacity) {
            return Some(("never", draw.limit.clone(), "impossible", None));
        }
        let mut longest: Option<(Option<i128>, &Draw)> = None;
        for draw in &draws {
            if let Err(wait) = draw.quota.draw(self.mark(draw), t, cost(draw)) {
                let rank = |wait: Option<i128>| wait.unwrap_or(i128::MAX);
                if longest.is_none_or(|(most, _)| rank(wait) > rank(most)) {
                    longest = Some((wait, draw));
                }
            }
        }
        if let Some((wait, draw)) = longest {
            return Some(("deny", draw.limit.clone(), "exhausted", wait));
        }
        let mut cells: Vec<_> = draws.iter().map(|draw| &draw.cell).collect();
        cells.sort();
        cells.dedup();
        let others = self.busy(t).into_iter().filter(|cell| !cells.contains(cell)).count();
        if !cells.is_empty() && cells.len() + others > self.cells {
            return Some(("deny", String::new(), "table-full", None));
        }
        None
    }

    fn draw(&mut self, stage: &Stage, t: i128) {
        for draw in stage.draws.iter().filter(|draw| draw.cost.unwrap_or(0) > 0) {
            let mark = draw.quota.draw(self.mark(draw), t, draw.cost.unwrap_or(0)).expect("judged before");
            let limits = self.marks.entry(draw.cell.clone()).or_default();
            limits.insert(draw.limit.clone(), (draw.quota, mark));
        }
        // What is full again is as good as forgotten.
        let busy: Vec<_> = self.busy(t).into_iter().cloned().collect();
        self.marks.retain(|cell, _| busy.contains(cell));
    }
}

/// Decides one event.
pub fn decide(tables: &mut [Table], stages: &[Stage], atomic: bool, t: i128) -> Told {
    let mut refused = None;
    let mut evaluated = 0;
    for stage in stages {
        evaluated += 1;
        refused = tables[stage.table].judge(stage, t);
        if refused.is_some() {
            break;
        }
        if !atomic {
            tables[stage.table].draw(stage, t);
        }
    }
    if atomic && refused.is_none() {
        stages.iter().for_each(|stage| tables[stage.table].draw(stage, t));
    }
    let shown =
        stages[..evaluated].iter().flat_map(|stage| stage.draws.iter().map(move |draw| (stage, draw)));
    let left = |(stage, draw): (&Stage, &Draw)| {
        (draw.limit.clone(), draw.quota.left(tables[stage.table].mark(draw), t))
    };
    Told { refused, remaining: shown.map(left).collect() }
}
