//! Admission plugins that a cluster can do without, by the names that Kubernetes gives them.

use std::{
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};

/// A plugin that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPlugin {
    /// Gives pods an account and its token.
    ServiceAccount,
    /// Taints new nodes until they are ready.
    TaintNodesByCondition,
    /// Refuses devices that another claim has. It has no name: only tests of nodes that are asked for a device twice do without it.
    DevicesOnce,
}

impl AdmissionPlugin {
    const ALL: &[(&str, Self)] =
        &[("ServiceAccount", Self::ServiceAccount), ("TaintNodesByCondition", Self::TaintNodesByCondition)];
}

impl FromStr for AdmissionPlugin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, plugin)| *plugin).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("{text:?} cannot be left out: the plugins that can are {}", names.join(" and "))
        })
    }
}

/// Which plugins are left out.
#[derive(Debug, Default)]
pub(crate) struct DisabledPlugins {
    service_account: AtomicBool,
    taint_nodes_by_condition: AtomicBool,
    devices_once: AtomicBool,
}

impl DisabledPlugins {
    fn of(&self, plugin: AdmissionPlugin) -> &AtomicBool {
        match plugin {
            AdmissionPlugin::ServiceAccount => &self.service_account,
            AdmissionPlugin::TaintNodesByCondition => &self.taint_nodes_by_condition,
            AdmissionPlugin::DevicesOnce => &self.devices_once,
        }
    }

    pub(crate) fn add(&self, plugin: AdmissionPlugin) {
        self.of(plugin).store(true, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, plugin: AdmissionPlugin) -> bool {
        self.of(plugin).load(Ordering::Relaxed)
    }
}
