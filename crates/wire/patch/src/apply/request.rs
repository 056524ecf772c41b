//! The manager that applies or writes, and how.

use std::fmt;

use lazaret_json::Value;

use crate::OtherNames;

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
    /// Versions that name fields otherwise than the form in which owners are compared: the record of a version has its own names.
    pub other_names: &'a [OtherNames<'a>],
    /// Brings an object of the endpoint's version into the form in which owners are compared.
    pub compared: Compared<'a>,
}

/// A conversion of objects.
#[derive(Clone, Copy)]
pub struct Compared<'a>(pub &'a dyn Fn(&mut Value));

impl fmt::Debug for Compared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compared")
    }
}
