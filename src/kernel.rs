//! A kernel: registered tools, and guards in front of every dispatch.

/// Why a kernel or a guard could not let a call through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The guard cannot judge this call; the text says what is missing.
    #[error("{0}")]
    Internal(String),
}
