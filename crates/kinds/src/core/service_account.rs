//! Service accounts.

use crate::Rules;

/// The identity of pods.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Rules for ServiceAccount {}
