#![allow(missing_docs)]
use super::policy::*;
use super::window::Window;
use super::record::Millis;
impl SpendPolicy {
    pub fn validate(&self) -> Result<(), SpendPolicyError> { Ok(()) }
    pub fn resolve(&self, id: &str) -> Option<(&Family, Option<u64>)> { self.families.iter().find(|f| f.root == id).map(|f| (f, f.ceiling)) }
    pub fn same_unit(&self, other: &Self) -> bool { self.currency == other.currency && self.decimals == other.decimals }
    pub fn unit_name(&self) -> String { format!("{}/{}", self.currency, self.decimals) }
}
impl Limit { pub fn id(&self, scope: &str) -> String { format!("{scope}/{}/{}", self.dimension, self.window) } }
impl ReducedProfile { pub fn banner_at(&self, _r: Option<Millis>) -> Option<String> { self.banner.clone() } }
impl std::fmt::Display for Window { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{self:?}") } }
