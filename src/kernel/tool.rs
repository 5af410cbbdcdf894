//! Tools: what a kernel dispatches to.

use crate::guard::ToolCallRequest;

/// Something that a kernel can run for a call.
///
/// Any function of a request is a tool, if its output turns into a [`ToolOutput`] as text does:
///
/// ```
/// use tollgate::guard::ToolCallRequest;
/// use tollgate::kernel::{Kernel, ToolError};
///
/// let mut kernel = Kernel::new();
/// kernel.register_tool("math", "double", |request: &ToolCallRequest| {
///     let number: i64 = request.arguments.parse().map_err(|error| {
///         ToolError::InvalidArguments(format!("{:?} is not a number: {error}", request.arguments))
///     })?;
///     Ok((number * 2).to_string())
/// });
/// ```
pub trait Tool: Send + Sync {
    /// Runs it.
    ///
    /// # Errors
    /// Whatever kept it from its output.
    fn call(&self, request: &ToolCallRequest) -> Result<ToolOutput, ToolError>;
}

impl<F, O> Tool for F
where
    F: Fn(&ToolCallRequest) -> Result<O, ToolError> + Send + Sync,
    O: Into<ToolOutput>,
{
    fn call(&self, request: &ToolCallRequest) -> Result<ToolOutput, ToolError> {
        self(request).map(Into::into)
    }
}

/// What a tool gave back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// The content, opaque to the kernel.
    pub content: String,
}

impl From<String> for ToolOutput {
    fn from(content: String) -> Self {
        Self { content }
    }
}
impl From<&str> for ToolOutput {
    fn from(content: &str) -> Self {
        Self { content: content.into() }
    }
}

/// Why a tool gave nothing back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The caller must mend the arguments; the text says what is wrong with them.
    #[error("invalid arguments: {0}")]
    InvalidArguments(String),
    /// The tool could not do its work; the text says why.
    #[error("{0}")]
    Failed(String),
}

/// A tool whose every call is paid for: what a kernel gives away of a tool with a budget.
#[cfg(feature = "effects")]
pub(super) struct Paid {
    /// Its name: a deferred call is found by the name in the request.
    pub(super) server_id: String,
    pub(super) tool_name: String,
    pub(super) budget: crate::effect::ToolBudget,
    pub(super) tool: Box<dyn Tool>,
}

#[cfg(feature = "effects")]
impl Tool for Paid {
    fn call(&self, request: &ToolCallRequest) -> Result<ToolOutput, ToolError> {
        use crate::effect::Outcome;
        if (&request.server_id, &request.tool_name) != (&self.server_id, &self.tool_name) {
            let Self { server_id, tool_name, .. } = self;
            return Err(ToolError::InvalidArguments(format!(
                "the request is for another tool than {tool_name:?} on server {server_id:?}"
            )));
        }
        match self.budget.call(request, || self.tool.call(request)) {
            Ok(Outcome::Done(ran)) => ran,
            Ok(Outcome::Shed(shed)) => {
                Err(ToolError::Failed(format!("{}: shed, {} is exhausted", shed.effect, shed.quota)))
            }
            Err(error) => Err(ToolError::Failed(error.to_string())),
        }
    }
}
