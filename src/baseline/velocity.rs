//! Calls and spend per grant, behind one lock.

use super::DEFAULT_BUCKET_CAP;
use super::table::{Draw, KeyBuffer, Limit, Mode, Table};
use crate::guard::limit_names::{INVOCATIONS, SPEND};
use crate::guard::{Details, Guard, GuardContext, GuardDecision, MemoryBudgetConfig, Refill};
use crate::guard::{VelocityConfig, VelocityRemaining};
use crate::kernel::KernelError;
use crate::quota::pair_arithmetic;
use crate::time::{Clock, EngineClock};
use crate::word::{LONE_MARK, PAIR_MARKS};
use crate::{ConfigError, Refusal};

const NAME: &str = "velocity";

/// [`crate::guard::VelocityGuard`] behind one lock: same limits, same answers.
pub struct VelocityGuard {
    /// A guard whose configuration is broken answers every call with what is wrong.
    table: Result<Buckets, ConfigError>,
    currency: Option<String>,
}

/// A key has a bucket for each configured limit.
enum Buckets {
    None,
    Invocations(Table<1>),
    Spend(Table<1>),
    Both(Table<2>),
}

/// Builds a [`VelocityGuard`].
#[must_use]
pub struct VelocityGuardBuilder {
    config: VelocityConfig,
    bucket_cap: usize,
    refill: Refill,
    currency: Option<String>,
    clock: EngineClock,
}

impl VelocityGuard {
    /// A guard with the default bucket cap and clock. If the configuration has an error, every evaluation
    /// returns it; [`try_new`](Self::try_new) says so at once.
    pub fn new(config: VelocityConfig) -> Self {
        Self::try_new(config).unwrap_or_else(|error| Self { table: Err(error), currency: None })
    }

    /// A guard with the default bucket cap and clock.
    ///
    /// # Errors
    /// As [`VelocityGuardBuilder::build`].
    pub fn try_new(config: VelocityConfig) -> Result<Self, ConfigError> {
        Self::builder(config).build()
    }

    /// A guard of at most `buckets` buckets.
    ///
    /// # Errors
    /// As [`VelocityGuardBuilder::build`].
    pub fn with_bucket_cap(config: VelocityConfig, buckets: usize) -> Result<Self, ConfigError> {
        Self::builder(config).bucket_cap(buckets).build()
    }

    /// A guard with the bucket cap of a memory budget.
    ///
    /// # Errors
    /// As [`VelocityGuardBuilder::build`].
    pub fn from_memory_budget(
        config: VelocityConfig,
        budget: &MemoryBudgetConfig,
    ) -> Result<Self, ConfigError> {
        Self::with_bucket_cap(config, budget.velocity_bucket_cap)
    }

    /// Starts from a configuration.
    pub fn builder(config: VelocityConfig) -> VelocityGuardBuilder {
        VelocityGuardBuilder {
            config,
            bucket_cap: DEFAULT_BUCKET_CAP,
            refill: Refill::default(),
            currency: None,
            clock: EngineClock::default(),
        }
    }

    /// Whole tokens left for the call's grant; a limit without a bucket shows its capacity. `None` where the
    /// limit is not configured or the call has no grant.
    pub fn remaining(&self, ctx: &GuardContext<'_>) -> VelocityRemaining {
        let Some(grant) = ctx.matched_grant_index else { return VelocityRemaining::default() };
        let key = key(ctx, grant);
        let (invocations, spend) = match &self.table {
            Err(_) | Ok(Buckets::None) => (None, None),
            Ok(Buckets::Invocations(table)) => (Some(table.available(&key, 0)[0]), None),
            Ok(Buckets::Spend(table)) => (None, Some(table.available(&key, 0)[0])),
            Ok(Buckets::Both(table)) => {
                let [invocations, spend] = table.available(&key, 0);
                (Some(invocations), Some(spend))
            }
        };
        VelocityRemaining { invocations, spend }
    }

    /// Live buckets: one for each configured limit of each key.
    pub fn bucket_count(&self) -> usize {
        match &self.table {
            Err(_) | Ok(Buckets::None) => 0,
            Ok(Buckets::Invocations(table) | Buckets::Spend(table)) => table.buckets(),
            Ok(Buckets::Both(table)) => table.buckets(),
        }
    }

    /// Forgets the keys whose buckets are full again, and returns how many buckets that were.
    pub fn prune_refilled(&self) -> usize {
        match &self.table {
            Err(_) | Ok(Buckets::None) => 0,
            Ok(Buckets::Invocations(table) | Buckets::Spend(table)) => table.prune_refilled(),
            Ok(Buckets::Both(table)) => table.prune_refilled(),
        }
    }

    /// The cost that the call's grant declares.
    fn planned_cost(&self, ctx: &GuardContext<'_>, grant: usize) -> Result<u64, KernelError> {
        let internal = |text: String| Err(KernelError::Internal(text));
        let Some(declared) = ctx.scope.grants.get(grant) else {
            let count = ctx.scope.grants.len();
            return internal(format!("matched_grant_index is {grant}, but the scope has {count} grants"));
        };
        let Some(amount) = &declared.max_cost_per_invocation else {
            return internal(format!(
                "grant {grant} declares no max_cost_per_invocation, which a spend limit needs"
            ));
        };
        match &self.currency {
            Some(currency) if *currency != amount.currency => internal(format!(
                "grant {grant} is priced in {}, but the spend limit counts {currency}",
                amount.currency
            )),
            _ => Ok(amount.units),
        }
    }
}

/// The grant's index has a fixed width, so no two keys have the same bytes.
fn key(ctx: &GuardContext<'_>, grant: usize) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(&grant.to_le_bytes());
    key.extend_from_slice(ctx.request.capability.id.as_bytes());
    key
}

fn pay<const L: usize>(
    table: &Table<L>,
    mode: Mode,
    key: KeyBuffer,
    costs: [u64; L],
) -> Result<u64, Refusal> {
    table.decide(mode, &mut [Draw::new(key, 0, costs)])
}

impl VelocityGuard {
    /// What [`evaluate`](Guard::evaluate) would answer now, without drawing: a model of an atomic pipeline asks
    /// every guard so before it evaluates any.
    ///
    /// # Errors
    /// As [`evaluate`](Guard::evaluate).
    pub fn preview(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        self.decide(ctx, Mode::Preview)
    }

    fn decide(&self, ctx: &GuardContext<'_>, mode: Mode) -> Result<GuardDecision, KernelError> {
        let buckets = match &self.table {
            Ok(Buckets::None) => return Ok(GuardDecision::allow()),
            Ok(buckets) => buckets,
            Err(error) => return Err(KernelError::Internal(format!("velocity guard: {error}"))),
        };
        let Some(grant) = ctx.matched_grant_index else {
            return Err(KernelError::Internal(
                "matched_grant_index is missing: velocity limits need the grant that covers the call".into(),
            ));
        };
        let key = key(ctx, grant);
        let paid = match buckets {
            Buckets::None => return Ok(GuardDecision::allow()),
            Buckets::Invocations(table) => pay(table, mode, key, [1]),
            Buckets::Spend(table) => pay(table, mode, key, [self.planned_cost(ctx, grant)?]),
            Buckets::Both(table) => pay(table, mode, key, [1, self.planned_cost(ctx, grant)?]),
        };
        Ok(match paid {
            Ok(_) => GuardDecision::allow(),
            Err(refusal) => GuardDecision::deny(NAME, Details::Refused(refusal)),
        })
    }
}

impl Guard for VelocityGuard {
    fn name(&self) -> &str {
        NAME
    }

    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        self.decide(ctx, Mode::Draw)
    }
}

impl VelocityGuardBuilder {
    /// The most buckets; a key takes one for each configured limit. 65,536 unless set.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.bucket_cap = buckets;
        self
    }

    /// Milli-token (documented, default) or exact.
    pub fn refill(mut self, refill: Refill) -> Self {
        self.refill = refill;
        self
    }

    /// Accept only this currency; costs in another are errors. Any currency unless set.
    pub fn currency(mut self, currency: impl Into<String>) -> Self {
        self.currency = Some(currency.into());
        self
    }

    /// The clock; the monotonic one unless set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.clock = EngineClock::new(clock);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// A window of 0 or above 18,446,744,073 seconds, a burst factor that is not finite or not above 0, a
    /// number too big to count for five years, or a bucket cap below one key's buckets.
    pub fn build(self) -> Result<VelocityGuard, ConfigError> {
        let Self { config, bucket_cap, refill, currency, clock } = self;
        let quota = |limit: u64| refill.quota(limit, config.window_secs, config.burst_factor);
        let invocations = config.max_invocations_per_window.map(|limit| quota(limit.into())).transpose()?;
        let spend = config.max_spend_per_window.map(quota).transpose()?;
        let buckets = match (invocations, spend) {
            (None, None) => {
                // Without a limit the other fields are unused; a broken one is a mistake all the same.
                quota(1)?;
                Buckets::None
            }
            (Some(quota), None) => {
                let limit = Limit { name: INVOCATIONS.into(), line: quota.arithmetic(LONE_MARK)? };
                Buckets::Invocations(Table::new(vec![limit], bucket_cap, 1, clock)?)
            }
            (None, Some(quota)) => {
                let limit = Limit { name: SPEND.into(), line: quota.arithmetic(LONE_MARK)? };
                Buckets::Spend(Table::new(vec![limit], bucket_cap, 1, clock)?)
            }
            (Some(first), Some(second)) => {
                // The baseline has no words; the width gives both the engine's resolution in time.
                let ([first, second], _) = pair_arithmetic(&first, &second, PAIR_MARKS)?;
                let limits = vec![
                    Limit { name: INVOCATIONS.into(), line: first },
                    Limit { name: SPEND.into(), line: second },
                ];
                Buckets::Both(Table::new(limits, bucket_cap, 1, clock)?)
            }
        };
        Ok(VelocityGuard { table: Ok(buckets), currency })
    }
}
