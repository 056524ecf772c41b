//! The manager that applies or writes, and how.

/// The manager and the version of an apply or a write, and how it is done.
#[derive(Clone, Copy, Debug)]
pub struct ApplyRequest<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// The version of the endpoint.
    pub api_version: &'a str,
    /// The subresource of the endpoint, or empty.
    pub subresource: &'a str,
    /// Take fields from others.
    pub force: bool,
    /// The time recorded for the change.
    pub time: &'a str,
    /// Paths that this endpoint never changes: `status` on the object, `spec` and perhaps `metadata.labels` on its status.
    pub ignored: &'a [&'a str],
}
