//! Rules as one reads them aloud.

/// Rules of effects, in words: an [`EffectPolicy`].
///
/// Each clause is `rate: N per PERIOD on EFFECT` or `max: N per PERIOD on EFFECT`, where the period is `second`, `minute`,
/// `hour`, `day` or `week`, and the effect a type that implements [`Effect`](crate::effect::Effect). A rate may have a
/// `burst B` before `on`. A last clause `on_exhausted: block`, `defer` or `shed` is the answer of all quotas; one of a single
/// quota follows it after a comma.
///
/// ```
/// use tollgate::budget;
/// use tollgate::effect::{Effect, OnExhausted};
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// # struct Email;
/// # impl Effect for Email { const TOOL: &'static str = "Email"; type Payload = String; type Output = (); }
///
/// let policy = budget! {
///     rate: 100 per minute burst 150 on Search;
///     rate: 1_000 per day on Search, on_exhausted: shed;
///     max: 50 per day on Email;
///     on_exhausted: defer
/// };
/// assert_eq!(policy.rule("Search").unwrap().quotas()[1].when_exhausted(), OnExhausted::Shed);
/// assert_eq!(policy.rule("Email").unwrap().quotas()[0].when_exhausted(), OnExhausted::Defer);
/// ```
///
/// What can be wrong is found when the program is compiled: an effect that is no effect, a limit of 0 or below, a period or
/// an answer that is not known.
///
/// ```compile_fail,E0080
/// # use tollgate::{budget, effect::Effect};
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// let policy = budget! { rate: 0 per minute on Search };
/// ```
///
/// ```compile_fail
/// # use tollgate::{budget, effect::Effect};
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// let policy = budget! { rate: 10 per fortnight on Search };
/// ```
///
/// ```compile_fail
/// # use tollgate::{budget, effect::Effect};
/// # struct Search;
/// # impl Effect for Search { const TOOL: &'static str = "Search"; type Payload = String; type Output = (); }
/// let policy = budget! { rate: 10 per minute on Search; on_exhausted: ignore };
/// ```
///
/// ```compile_fail,E0277
/// # use tollgate::budget;
/// struct NoEffect;
/// let policy = budget! { rate: 10 per minute on NoEffect };
/// ```
#[macro_export]
macro_rules! budget {
    // The answer of all quotas, if there is one, is read first.
    (@split [$($clauses:tt)*] on_exhausted: $answer:ident $(;)?) => {
        $crate::budget!(@clauses ($crate::budget!(@answer $answer)) [] $($clauses)* ;)
    };
    (@split [$($clauses:tt)*]) => {
        $crate::budget!(@clauses ($crate::effect::OnExhausted::Block) [] $($clauses)* ;)
    };
    (@split [$($clauses:tt)*] , on_exhausted: $answer:ident $($rest:tt)*) => {
        $crate::budget!(@split [$($clauses)* , on_exhausted: $answer] $($rest)*)
    };
    (@split [$($clauses:tt)*] $next:tt $($rest:tt)*) => {
        $crate::budget!(@split [$($clauses)* $next] $($rest)*)
    };

    // One clause after the other.
    (@clauses ($default:expr) [$($made:tt)*] $(;)*) => {
        $crate::effect::__gather([$($made)*])
    };
    (@clauses ($default:expr) [$($made:tt)*] ; $($rest:tt)+) => {
        $crate::budget!(@clauses ($default) [$($made)*] $($rest)+)
    };
    (@clauses ($default:expr) [$($made:tt)*]
        rate: $limit:literal per $period:ident burst $burst:literal on $effect:ty $(, on_exhausted: $answer:ident)? ; $($rest:tt)*
    ) => {
        $crate::budget!(@clauses ($default) [$($made)* {
            const { assert!($burst > 0, "a burst is at least 1") };
            let quota = $crate::budget!(@quota rate $limit $period).burst($burst);
            $crate::budget!(@made ($default) $effect, quota $(, $answer)?)
        },] $($rest)*)
    };
    (@clauses ($default:expr) [$($made:tt)*]
        $kind:ident: $limit:literal per $period:ident on $effect:ty $(, on_exhausted: $answer:ident)? ; $($rest:tt)*
    ) => {
        $crate::budget!(@clauses ($default) [$($made)* {
            let quota = $crate::budget!(@quota $kind $limit $period);
            $crate::budget!(@made ($default) $effect, quota $(, $answer)?)
        },] $($rest)*)
    };
    (@clauses $($unknown:tt)*) => {
        ::core::compile_error!(
            "a clause is `rate: N per PERIOD [burst B] on EFFECT[, on_exhausted: ANSWER]` or `max: N per PERIOD on EFFECT[, ...]`"
        )
    };

    (@quota rate $limit:literal $period:ident) => {{
        const { assert!($limit > 0, "a limit is at least 1") };
        $crate::effect::QuotaRule::rate($limit, $crate::budget!(@period $period))
    }};
    (@quota max $limit:literal $period:ident) => {{
        const { assert!($limit > 0, "a limit is at least 1") };
        $crate::effect::QuotaRule::max($limit, $crate::budget!(@period $period))
    }};
    (@quota $kind:ident $limit:literal $period:ident) => {
        ::core::compile_error!(::core::concat!("`", ::core::stringify!($kind), "` is no quota, accepted: rate, max"))
    };

    (@made ($default:expr) $effect:ty, $quota:ident) => {
        (<$effect as $crate::effect::Effect>::TOOL, $quota.on_exhausted($default))
    };
    (@made ($default:expr) $effect:ty, $quota:ident, $answer:ident) => {
        (<$effect as $crate::effect::Effect>::TOOL, $quota.on_exhausted($crate::budget!(@answer $answer)))
    };

    (@period second) => { ::core::time::Duration::from_secs(1) };
    (@period minute) => { ::core::time::Duration::from_secs(60) };
    (@period hour) => { ::core::time::Duration::from_secs(3_600) };
    (@period day) => { ::core::time::Duration::from_secs(86_400) };
    (@period week) => { ::core::time::Duration::from_secs(604_800) };
    (@period $unknown:ident) => {
        ::core::compile_error!(::core::concat!(
            "`", ::core::stringify!($unknown), "` is no period, accepted: second, minute, hour, day, week"
        ))
    };

    (@answer block) => { $crate::effect::OnExhausted::Block };
    (@answer defer) => { $crate::effect::OnExhausted::Defer };
    (@answer shed) => { $crate::effect::OnExhausted::Shed };
    (@answer $unknown:ident) => {
        ::core::compile_error!(::core::concat!(
            "`", ::core::stringify!($unknown), "` is no answer, accepted: block, defer, shed"
        ))
    };

    ($($clauses:tt)+) => { $crate::budget!(@split [] $($clauses)+) };
}

use super::{EffectPolicy, EffectRule, QuotaRule};

/// What the macro ends in: quotas of one effect, wherever they stand, make one rule.
#[doc(hidden)]
pub fn gather<const N: usize>(quotas: [(&'static str, QuotaRule); N]) -> EffectPolicy {
    let mut rules: Vec<EffectRule> = Vec::new();
    for (tool, quota) in quotas {
        match rules.iter().position(|rule| rule.tool() == tool) {
            Some(known) => rules[known] = rules[known].clone().quota(quota),
            None => rules.push(EffectRule::new(tool).quota(quota)),
        }
    }
    rules.into_iter().fold(EffectPolicy::new(), EffectPolicy::effect)
}
