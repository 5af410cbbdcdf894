//! Keyed limiters for anybody: one quota ([`Limiter`]), or several drawn on together ([`LimitSet`]).

use crate::quota::Quota;
use crate::time::Clock;
use crate::{ConfigError, Key, Plan, Refusal};
use std::marker::PhantomData;

/// One quota, a bucket for each key.
pub struct Limiter<K: ?Sized>(PhantomData<fn(&K)>);

/// Builds a [`Limiter`].
pub struct LimiterBuilder<K: ?Sized>(PhantomData<fn(&K)>);

impl<K: Key + ?Sized> Limiter<K> {
    /// Starts with a quota and the defaults: 65,536 buckets, the monotonic clock.
    pub fn builder(_quota: Quota) -> LimiterBuilder<K> {
        todo!()
    }
    /// Draws one token.
    pub fn check(&self, _key: &K) -> Result<(), Refusal> {
        todo!()
    }
    /// Draws `cost` tokens.
    pub fn check_n(&self, _key: &K, _cost: u64) -> Result<(), Refusal> {
        todo!()
    }
    /// Whole tokens that `key` could draw now.
    pub fn peek(&self, _key: &K) -> u64 {
        todo!()
    }
    /// Live buckets.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// Is there no live bucket?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
impl<K: Key + ?Sized> LimiterBuilder<K> {
    /// The most buckets.
    #[must_use]
    pub fn bucket_cap(self, _buckets: usize) -> Self {
        todo!()
    }
    /// The clock.
    #[must_use]
    pub fn clock<C: Clock>(self, _clock: C) -> Self {
        todo!()
    }
    /// Builds it.
    pub fn build(self) -> Result<Limiter<K>, ConfigError> {
        todo!()
    }
}

/// Several named limits that share one table; a call draws on those that apply, all or nothing.
pub struct LimitSet(());

/// Builds a [`LimitSet`].
pub struct LimitSetBuilder(());

impl LimitSet {
    /// Starts without limits: 65,536 buckets, the monotonic clock.
    pub fn builder() -> LimitSetBuilder {
        todo!()
    }
    /// Adds a draw of `cost` tokens of limit number `limit` (in the order of [`LimitSetBuilder::limit`]) for
    /// `key` to `plan`.
    pub fn plan<'t, K: Key + ?Sized>(&'t self, _limit: usize, _key: &K, _cost: u64, _plan: &mut Plan<'t>) {
        todo!()
    }
    /// Whole tokens that `key` could draw now from limit number `limit`.
    pub fn peek<K: Key + ?Sized>(&self, _limit: usize, _key: &K) -> u64 {
        todo!()
    }
    /// Live buckets.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// Is there no live bucket?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
impl LimitSetBuilder {
    /// Adds a limit; the first is number 0.
    #[must_use]
    pub fn limit(self, _name: impl Into<String>, _quota: Quota) -> Self {
        todo!()
    }
    /// The most buckets of all limits together.
    #[must_use]
    pub fn bucket_cap(self, _buckets: usize) -> Self {
        todo!()
    }
    /// The clock.
    #[must_use]
    pub fn clock<C: Clock>(self, _clock: C) -> Self {
        todo!()
    }
    /// Builds it.
    pub fn build(self) -> Result<LimitSet, ConfigError> {
        todo!()
    }
}
