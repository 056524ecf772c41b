//! An operation on a pod: the plugins that it calls, and how far it is.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::{
    ClaimKind, NodeError,
    claims::{Entry, Key},
    effects::ClassicCall,
};

/// The plugin to call: for all claims at once, but for classic claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Callee {
    pub(crate) kind: ClaimKind,
    pub(crate) driver: String,
    /// The one classic claim that the call is about.
    pub(crate) only: Option<Key>,
}

impl Callee {
    pub(crate) fn of(key: &Key, driver: &str) -> Self {
        let only = Some(key.clone()).filter(|(kind, ..)| *kind == ClaimKind::Classic);
        Self { kind: key.0, driver: driver.into(), only }
    }
}

#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) pod: String,
    /// Claims for each plugin that is still to be called, and those that are called now.
    pub(crate) calls: BTreeMap<Callee, Vec<Key>>,
    pub(crate) calling: Option<(Callee, Vec<Key>)>,
    pub(crate) claims: Vec<Key>,
    pub(crate) step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The checkpoint is written before any plugin is called.
    NotePrepare,
    CallPrepare,
    CallUnprepare,
    /// A plugin does not know a classic claim that it is to unprepare. Is there one?
    FindClaim,
    /// The claims are gone from the checkpoint.
    Forget,
}

impl Work {
    /// The classic claim that a plugin is called for.
    pub(crate) fn called(&self) -> Option<&Key> {
        self.calling.as_ref().and_then(|(callee, _)| callee.only.as_ref())
    }

    pub(crate) fn failed(&mut self, why: String) -> NodeError {
        let driver = self.calling.take().map(|(callee, _)| callee.driver).unwrap_or_default();
        NodeError::Call { driver, why }
    }
}

impl Entry {
    /// The call to the plugin of a classic claim.
    pub(crate) fn classic_call(&self, driver: &str, step: Step) -> ClassicCall {
        if step == Step::CallPrepare {
            return ClassicCall::Prepare { attributes: self.attributes.clone() };
        }
        let devices = self.drivers.get(driver).into_iter().flat_map(|done| &done.devices);
        ClassicCall::Unprepare {
            cdi_ids: devices.flat_map(|device| device.cdi_ids.iter().cloned()).collect(),
        }
    }
}

pub(crate) fn not_registered(kind: ClaimKind, driver: &str) -> NodeError {
    match kind {
        ClaimKind::Structured => NodeError::NotRegistered(driver.into()),
        ClaimKind::Classic => NodeError::ClassicNotRegistered(driver.into()),
    }
}
