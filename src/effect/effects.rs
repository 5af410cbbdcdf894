//! The effects of one engine: their budgets, one clock, one journal, one ledger.

use super::budget::Budget;
use super::error::EffectsError;
use super::gate::{Effect, Gate};
use super::journal::{Header, HeaderEffect, HeaderQuota, Journal, JournalError, Recorder, Seal};
use super::ledger::{Deferred, DeferredLedger, Ledger, LedgerError, Reopened, Ticket};
use super::rule::EffectPolicy;
use super::state::{Restored, Saved};
use super::toll::Toll;
use super::tool_budget::{Payer, ToolBudget};
use crate::key::KeyBytes;
use crate::quota::Arithmetic;
use crate::time::{Clock, EngineClock};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

/// The effects of one engine. A handle: clones share one state.
///
/// ```
/// use std::time::Duration;
/// use tollgate::effect::{Effect, EffectPolicy, EffectRule, Effects, Outcome, QuotaRule};
///
/// struct Search;
/// impl Effect for Search {
///     const TOOL: &'static str = "Search";
///     type Payload = String;
///     type Output = usize;
/// }
///
/// let rule = EffectRule::new("Search").quota(QuotaRule::rate(2, Duration::from_secs(60)));
/// let effects = Effects::builder(EffectPolicy::new().effect(rule)).declare::<Search>().build()?;
/// // The function is the gate's alone: nobody reaches it without a permit.
/// let search = effects.gate::<Search>(|query: &String| query.len())?;
///
/// let Outcome::Done(permit) = search.permit("alice", 1).unwrap() else { panic!("shed") };
/// assert_eq!(search.emit(permit, &"rust".into()).unwrap(), 4);
/// # Ok::<(), tollgate::effect::EffectsError>(())
/// ```
#[derive(Clone)]
pub struct Effects(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) budgets: Vec<Budget>,
    pub(super) clock: EngineClock,
    /// Where the clock's time 0 lies, in nanoseconds from the start of 1970.
    pub(super) epoch: u64,
    pub(super) journal: Option<Recorder>,
    pub(super) ledger: Ledger,
    restored: Restored,
    /// The number of the next grant.
    pub(super) grants: AtomicU64,
}

/// Builds [`Effects`].
#[derive(Debug)]
#[must_use]
pub struct EffectsBuilder {
    policy: EffectPolicy,
    declared: Vec<String>,
    clock: EngineClock,
    epoch: Option<u64>,
    journal: Option<Journal>,
    ledger: DeferredLedger,
    saved: Option<Vec<u8>>,
}

impl Effects {
    /// Starts with rules, the monotonic clock, no journal, and a ledger in memory.
    pub fn builder(policy: EffectPolicy) -> EffectsBuilder {
        EffectsBuilder {
            policy,
            declared: Vec::new(),
            clock: EngineClock::default(),
            epoch: None,
            journal: None,
            ledger: DeferredLedger::in_memory(),
            saved: None,
        }
    }

    /// The gate of effect `E`: the one way to `tool`, which it keeps to itself.
    ///
    /// # Errors
    /// `E` was not declared.
    pub fn gate<E: Effect>(
        &self,
        tool: impl Fn(&E::Payload) -> E::Output + Send + Sync + 'static,
    ) -> Result<Gate<E>, EffectsError> {
        Ok(Gate::new(Toll::new(self.clone(), self.number(E::TOOL)?), Box::new(tool)))
    }

    /// The budget of an effect for a kernel's tool: whoever `payer` says pays for each call of it, 1 token.
    ///
    /// # Errors
    /// There is no effect of that name.
    pub fn tool_budget(&self, tool: &str, payer: Payer) -> Result<ToolBudget, EffectsError> {
        Ok(ToolBudget::new(Toll::new(self.clone(), self.number(tool)?), payer))
    }

    /// The number of a declared effect.
    pub(super) fn number(&self, tool: &str) -> Result<usize, EffectsError> {
        self.0.budgets.iter().position(|budget| budget.tool == tool).ok_or_else(|| {
            EffectsError::UnknownTool {
                tool: tool.to_owned(),
                known: self.0.budgets.iter().map(|budget| budget.tool.clone()).collect(),
            }
        })
    }

    /// Writes everything out and ends the journal. Afterwards nothing is granted any more. Without a journal there is
    /// nothing to seal, and `None`.
    ///
    /// The end of the last handle seals too; a failure then shows in the journal alone.
    ///
    /// # Errors
    /// The sink failed: the journal is not sealed.
    pub fn seal_journal(&self) -> Result<Option<Seal>, JournalError> {
        self.0.journal.as_ref().map(Recorder::seal).transpose()
    }

    /// The deferred calls that wait, first those that are due first.
    pub fn deferred(&self) -> Vec<Deferred> {
        self.0.ledger.waiting()
    }

    /// Deferred calls whose emission had begun when the process ended, so that nobody knows whether they were emitted.
    /// They are not run again by themselves: see [`requeue`](Self::requeue) and [`forget`](Self::forget).
    pub fn uncertain(&self) -> Vec<Deferred> {
        self.0.ledger.uncertain()
    }

    /// Lets an uncertain call wait again. False if there is none with that ticket.
    ///
    /// # Errors
    /// The ledger's file cannot be written: the call stays uncertain.
    pub fn requeue(&self, ticket: Ticket) -> Result<bool, LedgerError> {
        self.0.ledger.requeue(ticket)
    }

    /// Forgets a call that waits or is uncertain. False if there is none with that ticket, or somebody is running it.
    ///
    /// # Errors
    /// The ledger's file cannot be written: the call stays as it is.
    pub fn forget(&self, ticket: Ticket) -> Result<bool, LedgerError> {
        self.0.ledger.drop_call(ticket)
    }

    /// What the ledger's file said when it was opened.
    pub fn reopened(&self) -> &Reopened {
        self.0.ledger.reopened()
    }

    /// What became of the state that was given to [`restore`](EffectsBuilder::restore).
    pub fn restored(&self) -> &Restored {
        &self.0.restored
    }

    /// The state of all budgets, for [`restore`](EffectsBuilder::restore) after a restart. Save it when nothing is granted
    /// any more: what is granted later is not in it.
    pub fn save(&self) -> Vec<u8> {
        super::state::save(&self.0.budgets, self.0.epoch, self.0.clock.now())
    }

    /// The engine's time in nanoseconds: what `retry_at` and `run_due` count in.
    pub fn now(&self) -> u64 {
        self.0.clock.now()
    }

    /// Whole tokens that `key` could spend now on each quota of the effect, in the order of its rule.
    ///
    /// # Errors
    /// There is no such effect.
    pub fn peek<K: crate::Key + ?Sized>(&self, tool: &str, key: &K) -> Result<Vec<u64>, EffectsError> {
        let budget = &self.0.budgets[self.number(tool)?];
        let mut buffer = KeyBytes::default();
        let key = crate::key::encoded(key, &mut buffer);
        let peek = |quota: &super::budget::Quota| {
            let (buckets, now) = quota.table.peek(&quota.table.pack(0, key), 0);
            buckets.available(0, now)
        };
        Ok(budget.quotas.iter().map(peek).collect())
    }
}

impl EffectsBuilder {
    /// Declares an effect: rules for others are refused.
    pub fn declare<E: Effect>(self) -> Self {
        self.declare_tool(E::TOOL)
    }

    /// Declares an effect by its name, as a kernel's tools are known.
    pub fn declare_tool(mut self, tool: impl Into<String>) -> Self {
        self.declared.push(tool.into());
        self
    }

    /// The clock; a [`MonotonicClock`](crate::time::MonotonicClock) if not set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.clock = EngineClock::new(clock);
        self
    }

    /// Where the clock's time 0 lies in wall-clock time: windows and allowed hours lie there. If not set it is computed from
    /// the system's clock when the effects are built; for a [`ManualClock`](crate::time::ManualClock) it is the start of
    /// 1970, in UTC.
    pub fn starts_at(mut self, start: SystemTime) -> Self {
        self.epoch = Some(unix_nanos(start));
        self
    }

    /// Records every decision.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Where deferred calls are kept; [in memory](DeferredLedger::in_memory) if not set.
    pub fn ledger(mut self, ledger: DeferredLedger) -> Self {
        self.ledger = ledger;
        self
    }

    /// Begins with a state that [`Effects::save`] made. Budgets are found by effect, key and the quota's own definition.
    ///
    /// What is not in the state, was changed since, or cannot be read begins *empty*, not full, and
    /// [`Effects::restored`] says so: tokens that may have been spent are not given again.
    pub fn restore(mut self, state: impl Into<Vec<u8>>) -> Self {
        self.saved = Some(state.into());
        self
    }

    /// Builds them.
    ///
    /// # Errors
    /// [`EffectsError`] says which effect and quota, what is wrong, and what is accepted.
    pub fn build(self) -> Result<Effects, EffectsError> {
        let Self { policy, declared, clock, epoch, journal, ledger, saved } = self;
        check_names(&policy, &declared)?;
        let epoch = epoch.unwrap_or_else(|| match clock.is_manual() {
            true => 0,
            false => unix_nanos(SystemTime::now()).saturating_sub(clock.now()),
        });
        let saved = saved.map(|bytes| Saved::read(&bytes));
        // One reading for all: buckets that begin empty do so when the journal begins.
        let now = clock.now();
        let budgets = policy.rules().iter().map(|rule| {
            let floor = |definition: &str, line: &Arithmetic| {
                saved.as_ref().map_or(0, |saved| saved.floor(rule.tool(), definition, line, epoch, now))
            };
            Budget::new(rule, &clock, epoch, floor)
        });
        let budgets: Vec<Budget> = budgets.collect::<Result<_, _>>()?;
        let ledger = ledger.open()?;
        let journal = journal.map(|journal| journal.begin(header(&budgets, epoch, now))).transpose()?;
        let (restored, seeds) = match &saved {
            Some(saved) => saved.seed(&budgets, epoch, now)?,
            None => Default::default(),
        };
        if let Some(journal) = &journal {
            let journal = journal.enter()?;
            for entry in seeds {
                let mut room = journal.reserve_patiently(1)?;
                journal.record(&mut room, entry);
            }
        }
        Ok(Effects(Arc::new(Inner {
            budgets,
            clock,
            epoch,
            journal,
            ledger,
            restored,
            grants: AtomicU64::new(0),
        })))
    }
}

/// Every rule has its effect, and every effect its rule.
fn check_names(policy: &EffectPolicy, declared: &[String]) -> Result<(), EffectsError> {
    for (index, rule) in policy.rules().iter().enumerate() {
        let tool = rule.tool().to_owned();
        if !declared.contains(&tool) {
            return Err(EffectsError::UnknownTool { tool, known: declared.to_vec() });
        }
        if policy.rules()[..index].iter().any(|other| other.tool() == tool) {
            return Err(EffectsError::TwoRules { tool });
        }
    }
    match declared.iter().find(|tool| policy.rule(tool).is_none()) {
        Some(tool) => Err(EffectsError::NoRule { tool: tool.clone() }),
        None => Ok(()),
    }
}

fn header(budgets: &[Budget], epoch: u64, now: u64) -> Header {
    let quota = |quota: &super::budget::Quota| {
        let line = quota.table.limits.arithmetic(0, 0);
        HeaderQuota {
            quota: quota.definition.clone(),
            on_exhausted: quota.on_exhausted.as_str(),
            floor: quota.table.limits.floor(),
            step: line.step(),
            phase: line.phase(),
            units_per_step: line.units_per_step(),
            units_per_token: line.units_per_token(),
            capacity: line.capacity_units(),
            most_refunded: quota.table.limits.most_refunded(),
        }
    };
    let effect = |budget: &Budget| HeaderEffect {
        effect: budget.tool.clone(),
        ttl: budget.ttl,
        hours: budget.hours.as_ref().map(|hours| format!("{hours} {}", hours.when_outside())),
        quotas: budget.quotas.iter().map(quota).collect(),
    };
    Header { format: 1, t: now, epoch, effects: budgets.iter().map(effect).collect() }
}

fn unix_nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, crate::time::nanos)
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: SmallVec<[&str; 4]> = self.0.budgets.iter().map(|budget| budget.tool.as_str()).collect();
        f.debug_struct("Effects")
            .field("effects", &tools)
            .field("journal", &self.0.journal.is_some())
            .finish_non_exhaustive()
    }
}
