//! Service accounts.

use crate::Rules;

/// Who pods are.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Rules for ServiceAccount {}
