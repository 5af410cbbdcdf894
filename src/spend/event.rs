//! Events: everything that happens to budgets, to `tracing` and to subscribers.

use super::amount::Quantities;
use super::record::{Account, Settlement};
use super::refusal::{Refusal, Tier};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Something that happened to a budget. It is durable already when it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpendEvent {
    /// Set aside, by a hold or an extension.
    Held {
        /// The hold's id.
        id: String,
        /// Whose budgets.
        path: Arc<[Account]>,
        /// How much.
        amounts: Quantities,
        /// How much the caller may do from here on.
        tier: Tier,
        /// Was it more for a hold that was there already?
        extended: bool,
    },
    /// Part of a call was used.
    Charged {
        /// The hold's id.
        id: String,
        /// Whose budgets.
        path: Arc<[Account]>,
        /// How much.
        amounts: Quantities,
    },
    /// A call is over, and what it used is known.
    Settled {
        /// The hold's id.
        id: String,
        /// Whose budgets.
        path: Arc<[Account]>,
        /// What it came to.
        settlement: Settlement,
    },
    /// What a hold had left was given back.
    Released {
        /// The hold's id.
        id: String,
        /// Whose budgets.
        path: Arc<[Account]>,
        /// What it came to.
        settlement: Settlement,
    },
    /// A hold outlived its time to live.
    Expired {
        /// The hold's id.
        id: String,
        /// Whose budgets.
        path: Arc<[Account]>,
        /// What was still set aside.
        amounts: Quantities,
    },
    /// A limit refused.
    Refused {
        /// The call's id, if it had one.
        id: Option<String>,
        /// Which limit, and why.
        refusal: Box<Refusal>,
    },
    /// More was used than was held: debt.
    Overrun {
        /// The hold's id.
        id: String,
        /// Whose budgets.
        path: Arc<[Account]>,
        /// How much beyond the hold.
        amounts: Quantities,
    },
    /// An account's tier is another than at the call before.
    TierChanged {
        /// The account.
        account: Account,
        /// Before.
        from: Tier,
        /// From now on.
        to: Tier,
    },
}

/// Whoever is told.
pub(crate) type Subscriber = Arc<dyn Fn(&SpendEvent) + Send + Sync>;

/// All that are told.
#[derive(Clone, Default)]
pub(crate) struct Subscribers(pub(crate) Vec<Subscriber>);

impl fmt::Debug for Subscribers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} subscribers", self.0.len())
    }
}

impl Subscribers {
    pub(crate) fn tell(&self, event: &SpendEvent) {
        trace(event);
        for subscriber in &self.0 {
            // Somebody else's code: the budgets are consistent by now, and what it does to itself is not ours to pass on.
            if catch_unwind(AssertUnwindSafe(|| subscriber(event))).is_err() {
                tracing::error!(target: "tollgate::spend", "a subscriber of spend events panicked");
            }
        }
    }
}

/// Accounts as one field of a line.
struct Path<'a>(&'a [Account]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Account { scope, key }) in self.0.iter().enumerate() {
            write!(f, "{}{scope}={key}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Amounts as one field of a line: those above 0.
struct Above0<'a>(&'a Quantities);

impl fmt::Display for Above0<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (dimension, amount) in self.0.iter().filter(|&(_, amount)| amount > 0) {
            write!(f, "{separator}{dimension}={amount}")?;
            separator = " ";
        }
        Ok(())
    }
}

fn trace(event: &SpendEvent) {
    use tracing::{debug, info, warn};
    const TARGET: &str = "tollgate::spend";
    match event {
        SpendEvent::Held { id, path, amounts, tier, extended } => {
            debug!(target: TARGET, id, path = %Path(path), amounts = %Above0(amounts), %tier, extended, "held");
        }
        SpendEvent::Charged { id, path, amounts } => {
            debug!(target: TARGET, id, path = %Path(path), amounts = %Above0(amounts), "charged");
        }
        SpendEvent::Settled { id, path, settlement } => {
            let (used, released) = (Above0(&settlement.used), Above0(&settlement.released));
            debug!(target: TARGET, id, path = %Path(path), %used, %released, late = settlement.late, "settled");
        }
        SpendEvent::Released { id, path, settlement } => {
            debug!(target: TARGET, id, path = %Path(path), released = %Above0(&settlement.released), "released");
        }
        SpendEvent::Expired { id, path, amounts } => {
            warn!(target: TARGET, id, path = %Path(path), amounts = %Above0(amounts), "expired");
        }
        SpendEvent::Refused { id, refusal } => {
            info!(target: TARGET, id, "refused: {refusal}");
        }
        SpendEvent::Overrun { id, path, amounts } => {
            warn!(target: TARGET, id, path = %Path(path), amounts = %Above0(amounts), "used more than was held");
        }
        SpendEvent::TierChanged { account, from, to } => {
            info!(target: TARGET, scope = account.scope, key = account.key, %from, %to, "tier changed");
        }
    }
}
