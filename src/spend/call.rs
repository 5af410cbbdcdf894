//! Whose budgets a call draws on.

/// Whose budgets a call draws on, and under which id.
///
/// ```
/// use tollgate::spend::Call;
///
/// let call = Call::new().scope("run", "r-17").scope("user", "alice").scope("team", "blue").id("r-17/step-3");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Call {
    pub(super) id: Option<String>,
    pub(super) scopes: Vec<(String, String)>,
    pub(super) grant: Option<String>,
}

impl Call {
    /// For nobody yet: name every scope of the policy that is not shared by everybody.
    pub fn new() -> Self {
        Self::default()
    }

    /// The call's key in a scope. The later one counts if a scope is named twice.
    pub fn scope(mut self, scope: impl Into<String>, key: impl Into<String>) -> Self {
        let scope = scope.into();
        self.scopes.retain(|(known, _)| *known != scope);
        self.scopes.push((scope, key.into()));
        self
    }

    /// The grant that the call uses: it draws on the cap of the grant's family too.
    pub fn grant(mut self, grant: impl Into<String>) -> Self {
        self.grant = Some(grant.into());
        self
    }

    /// An id of its own. Asked again under it, the same call gets the same answer, and nothing is set aside twice; a different
    /// call under it is a conflict. Without one every call is new, and an id is made that no caller can name.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}
