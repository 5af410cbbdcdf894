//! What the threads of each search do.

use crate::machine::{CELLS, Call, Draw};
use std::ops::Range;

pub struct Scenario {
    pub name: &'static str,
    pub shows: &'static str,
    pub threads: Vec<Vec<Call>>,
    pub capacities: [u8; CELLS],
    /// How many calls that draw are admitted, whatever the interleaving.
    pub admitted: Option<usize>,
    /// Two cells that only plans on both draw on: no reader may see one move without the other.
    pub move_together: Option<[usize; 2]>,
    /// Descriptors of each thread.
    leases: usize,
    /// Descriptors change hands: any thread may begin on any that is idle.
    shared: bool,
}

impl Scenario {
    fn new(name: &'static str, shows: &'static str, threads: Vec<Vec<Call>>) -> Self {
        let draws = |call: &&Call| !matches!(call, Call::Reclaim(_));
        let admitted = Some(threads.iter().flatten().filter(draws).count());
        let capacities = [9; CELLS];
        Self { name, shows, threads, capacities, admitted, move_together: None, leases: 3, shared: false }
    }

    /// The descriptors that a thread may begin on, in the order in which it tries them.
    pub fn leases(&self, thread: usize) -> Range<u8> {
        let all = match self.shared {
            true => 0..self.descriptors(),
            false => thread * self.leases..(thread + 1) * self.leases,
        };
        all.start as u8..all.end as u8
    }

    pub fn descriptors(&self) -> usize {
        self.threads.len() * self.leases
    }
}

fn draw(cell: u8) -> Draw {
    Draw { cell, generation: 0, cost: 1 }
}
fn plan<const N: usize>(cells: [u8; N]) -> Call {
    Call::Plan(cells.into_iter().map(draw).collect())
}
fn single(cell: u8) -> Call {
    Call::Single(draw(cell))
}
/// A draw on the next life of a cell.
fn later(cell: u8) -> Call {
    Call::Single(Draw { generation: 1, ..draw(cell) })
}

pub fn all() -> Vec<Scenario> {
    let together = |scenario: Scenario| Scenario { move_together: Some([0, 1]), ..scenario };
    vec![
        together(Scenario::new(
            "opposite-plans",
            "plans (0, 1) and (1, 0) at once both commit, and are seen whole",
            vec![vec![plan([0, 1])], vec![plan([1, 0])]],
        )),
        together(Scenario::new(
            "plan-after-plan",
            "a thread's second plan reuses the first one's descriptor under a helper",
            vec![vec![plan([0, 1]), plan([0, 1])], vec![plan([1, 0])]],
        )),
        together(Scenario::new(
            "three-plans",
            "three plans on the same two cells all commit, and are seen whole",
            vec![vec![plan([0, 1])], vec![plan([1, 0])], vec![plan([0, 1])]],
        )),
        together(Scenario {
            capacities: [1, 1, 9],
            admitted: Some(1),
            ..Scenario::new(
                "one-plan-fits",
                "of three plans for which there is one token exactly one commits",
                vec![vec![plan([0, 1])], vec![plan([1, 0])], vec![plan([0, 1])]],
            )
        }),
        Scenario::new(
            "ring",
            "plans (0, 1), (1, 2) and (2, 0) at once all commit",
            vec![vec![plan([0, 1])], vec![plan([1, 2])], vec![plan([2, 0])]],
        ),
        Scenario::new(
            "plan-against-two",
            "a plan with a drawer on each of its cells loses nothing",
            vec![vec![plan([0, 1])], vec![single(0)], vec![single(1)]],
        ),
        Scenario::new(
            "late-helper",
            "a helper that comes late, when the owner is at its next plan, does no harm",
            vec![vec![plan([0, 1]), plan([1, 2])], vec![single(1), single(0)]],
        ),
        Scenario::new(
            "two-late-helpers",
            "two late helpers of one thread's plans, which share a cell, do no harm",
            vec![vec![plan([0, 1]), plan([0, 2])], vec![single(0)], vec![single(1)]],
        ),
        Scenario {
            shared: true,
            ..Scenario::new(
                "descriptors-change-hands",
                "a descriptor that another thread leases next is not mistaken for its former operation",
                vec![vec![plan([0, 1])], vec![single(1), plan([0, 1])]],
            )
        },
        Scenario::new(
            "nested",
            "a plan on three cells and one on two help each other",
            vec![vec![plan([0, 1, 2])], vec![plan([2, 0]), single(1)]],
        ),
        Scenario::new(
            "three-cells",
            "plans on three cells and on two of them, and draws, all commit",
            vec![vec![plan([0, 1, 2])], vec![plan([0, 1])], vec![single(2), single(0)]],
        ),
        Scenario {
            admitted: None,
            ..Scenario::new(
                "plan-against-reclaim",
                "a plan whose cell goes to another key meanwhile draws on neither life wrongly",
                vec![vec![plan([0, 1])], vec![Call::Reclaim(0), later(0)], vec![single(1)]],
            )
        },
        Scenario {
            admitted: None,
            ..Scenario::new(
                "late-install",
                "a marker installed after its operation ended, in a cell reclaimed since, leaves no trace",
                vec![vec![plan([0, 1]), plan([1, 2])], vec![Call::Reclaim(0), later(0)], vec![single(1)]],
            )
        },
    ]
}
