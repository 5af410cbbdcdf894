//! Effects: a permit and its emission, with and without a journal.

use super::{Clock, built};
use crate::call::Call;
use crate::subject::Build;
use std::io;
use std::time::Duration;
use tollgate::ConfigError;
use tollgate::effect::{self, Effect, EffectPolicy, EffectRule, Effects, EffectsError, Journal, QuotaRule};

/// An effect whose tool does nothing.
struct Nothing;

impl Effect for Nothing {
    const TOOL: &'static str = "nothing";
    type Payload = ();
    type Output = ();
}

/// One token a second for each capability; every call is granted and emitted.
///
/// A journal goes to a sink that takes everything: what is left is the record's way to the thread that writes, and that
/// thread's work.
pub fn emitted(clock: Clock, cap: usize, journalled: bool) -> Build {
    Box::new(move |capacity| {
        let quota = QuotaRule::rate(1, Duration::from_secs(1)).burst(capacity.key);
        let rule = EffectRule::new(Nothing::TOOL).quota(quota).bucket_cap(cap);
        let effects = effects(rule, clock, journalled).map_err(|error| match error {
            EffectsError::Quota { error, .. } => error,
            // The rule above has nothing else that could be wrong.
            other => ConfigError { field: "effects", value: other.to_string(), accepted: String::new() },
        })?;
        let gate = effects.gate::<Nothing>(|()| ()).expect("declared");
        Ok(Box::new(move |call: &Call| gate.call(effect::Call::of(call.id()), &()).is_ok()))
    })
}

fn effects(rule: EffectRule, clock: Clock, journalled: bool) -> Result<Effects, EffectsError> {
    let mut builder = Effects::builder(EffectPolicy::new().effect(rule)).declare::<Nothing>();
    if journalled {
        builder = builder.journal(Journal::to(io::sink()));
    }
    Ok(built!(builder, clock))
}
