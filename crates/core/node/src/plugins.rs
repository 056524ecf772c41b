//! Which plugins there are, and which of several endpoints of a driver is called.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::fmt;

use crate::ClaimKind;

/// Services that calls can go to, the shorter names that plugins announce.
const PLUGIN_SERVICES: &[&str] = &["v1.DRAPlugin", "v1beta1.DRAPlugin"];
/// Versions that plugins of classic claims announce, and the service that calls go to. The enhancement names neither.
const CLASSIC_VERSIONS: &[&str] = &["1.0.0"];
const CLASSIC_SERVICE: &str = "v1alpha1.Node";
/// Health services, the preferred first.
const HEALTH_SERVICES: &[&str] = &["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"];
/// Endpoints of one driver. A rolling update has two.
const ENDPOINTS_PER_DRIVER_MAX: usize = 8;
/// Drivers of one node.
const DRIVERS_MAX: usize = 256;

/// One endpoint of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Where it is.
    pub endpoint: String,
    /// The service that calls go to.
    pub service: &'static str,
    /// The service that health comes from.
    pub health: Option<&'static str>,
    is_connected: bool,
}

/// Why a plugin was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginError {
    /// It has no services.
    NoServices,
    /// It has none that we know.
    NoKnownService(Vec<String>),
    /// It has no version of the calls for classic claims that we know.
    NoKnownVersion(Vec<String>),
    /// There is one at this endpoint.
    SameEndpoint(String),
    /// There are too many.
    TooMany,
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServices => f.write_str("the plugin supports no services"),
            Self::NoKnownService(services) => {
                write!(f, "none of the services {services:?} is supported, want one of {PLUGIN_SERVICES:?}")
            }
            Self::NoKnownVersion(versions) => {
                write!(f, "none of the versions {versions:?} is supported, want one of {CLASSIC_VERSIONS:?}")
            }
            Self::SameEndpoint(endpoint) => write!(f, "endpoint {endpoint} is already registered"),
            Self::TooMany => f.write_str("too many plugins are registered"),
        }
    }
}

impl core::error::Error for PluginError {}

/// The service for calls: the first that the plugin names and we know. So a plugin names the newest first.
///
/// # Errors
/// When there is none.
pub fn choose_plugin(services: &[String]) -> Result<&'static str, PluginError> {
    if services.is_empty() {
        return Err(PluginError::NoServices);
    }
    let known = services.iter().find_map(|name| PLUGIN_SERVICES.iter().find(|known| **known == *name));
    known.copied().ok_or_else(|| PluginError::NoKnownService(services.to_vec()))
}

/// The service for calls about classic claims.
fn choose_classic(versions: &[String]) -> Result<&'static str, PluginError> {
    match versions.iter().any(|version| CLASSIC_VERSIONS.contains(&version.as_str())) {
        true => Ok(CLASSIC_SERVICE),
        false => Err(PluginError::NoKnownVersion(versions.to_vec())),
    }
}

/// The service for health: the one that we like best. There may be none.
#[must_use]
pub fn choose_health(services: &[String]) -> Option<&'static str> {
    HEALTH_SERVICES.iter().copied().find(|known| services.iter().any(|name| name == known))
}

/// The plugins of a node.
#[derive(Clone, Debug, Default)]
pub struct Plugins {
    /// Endpoints of each driver, the newest last.
    drivers: BTreeMap<(ClaimKind, String), Vec<Plugin>>,
}

impl Plugins {
    /// A plugin is there.
    ///
    /// # Errors
    /// When it is not one, or is there already.
    pub fn register(
        &mut self,
        kind: ClaimKind,
        driver: &str,
        endpoint: &str,
        services: &[String],
    ) -> Result<(), PluginError> {
        let (service, health) = match kind {
            ClaimKind::Structured => (choose_plugin(services)?, choose_health(services)),
            ClaimKind::Classic => (choose_classic(services)?, None),
        };
        let key = (kind, driver.into());
        if !self.drivers.contains_key(&key) && self.drivers.len() >= DRIVERS_MAX {
            return Err(PluginError::TooMany);
        }
        let plugins = self.drivers.entry(key).or_default();
        if plugins.iter().any(|plugin| plugin.endpoint == endpoint) {
            return Err(PluginError::SameEndpoint(endpoint.into()));
        }
        if plugins.len() >= ENDPOINTS_PER_DRIVER_MAX {
            return Err(PluginError::TooMany);
        }
        plugins.push(Plugin { endpoint: endpoint.into(), service, health, is_connected: false });
        Ok(())
    }

    /// A plugin is gone.
    pub fn deregister(&mut self, kind: ClaimKind, driver: &str, endpoint: &str) {
        let key = (kind, driver.into());
        if let Some(plugins) = self.drivers.get_mut(&key) {
            plugins.retain(|plugin| plugin.endpoint != endpoint);
            if plugins.is_empty() {
                self.drivers.remove(&key);
            }
        }
    }

    /// A connection is there, or is lost. A lost one deregisters nothing.
    pub fn connected(&mut self, kind: ClaimKind, driver: &str, endpoint: &str, is_connected: bool) {
        let plugins = self.drivers.get_mut(&(kind, driver.into())).into_iter().flatten();
        plugins
            .filter(|plugin| plugin.endpoint == endpoint)
            .for_each(|plugin| plugin.is_connected = is_connected);
    }

    /// The plugin to call for a driver: the newest that is connected, or else the newest.
    #[must_use]
    pub fn of(&self, kind: ClaimKind, driver: &str) -> Option<&Plugin> {
        let plugins = self.drivers.get(&(kind, driver.into()))?;
        plugins.iter().rev().find(|plugin| plugin.is_connected).or(plugins.last())
    }

    /// The plugin at an endpoint.
    #[must_use]
    pub fn at(&self, kind: ClaimKind, driver: &str, endpoint: &str) -> Option<&Plugin> {
        self.drivers.get(&(kind, driver.into()))?.iter().find(|plugin| plugin.endpoint == endpoint)
    }

    /// Whether slices of a driver may stay: one of its endpoints is connected.
    #[must_use]
    pub fn is_usable(&self, driver: &str) -> bool {
        let plugins = self.drivers.get(&(ClaimKind::Structured, driver.into()));
        plugins.is_some_and(|plugins| plugins.iter().any(|plugin| plugin.is_connected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    const STRUCTURED: ClaimKind = ClaimKind::Structured;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn no_services_and_unknown_services_are_rejected() {
        assert_eq!(choose_plugin(&[]), Err(PluginError::NoServices));
        assert!(matches!(
            choose_plugin(&names(&["1.0.0", "v9.DRAPlugin"])),
            Err(PluginError::NoKnownService(_))
        ));
        assert!(choose_plugin(&names(&["v1.DRAResourceHealth"])).is_err(), "health alone is no driver");
    }

    #[test]
    fn the_plugin_orders_its_services_and_we_order_those_of_health() {
        let both = names(&[
            "v1beta1.DRAPlugin",
            "v1.DRAPlugin",
            "v1alpha1.DRAResourceHealth",
            "v1.DRAResourceHealth",
        ]);
        assert_eq!(choose_plugin(&both), Ok("v1beta1.DRAPlugin"));
        assert_eq!(choose_health(&both), Some("v1.DRAResourceHealth"));
        assert_eq!(
            choose_health(&names(&["v1alpha1.DRAResourceHealth"])),
            Some("v1alpha1.DRAResourceHealth")
        );
        assert_eq!(choose_health(&names(&["v1.DRAPlugin"])), None);
    }

    #[test]
    fn second_registration_with_the_same_endpoint_is_rejected() {
        let (mut plugins, v1) = (Plugins::default(), names(&["v1.DRAPlugin"]));
        plugins.register(STRUCTURED, "d", "/a", &v1).unwrap();
        assert_eq!(plugins.register(STRUCTURED, "d", "/a", &v1), Err(PluginError::SameEndpoint("/a".into())));
        plugins.register(STRUCTURED, "e", "/a", &v1).unwrap();
        for number in 0..7 {
            plugins.register(STRUCTURED, "d", &alloc::format!("/{number}"), &v1).unwrap();
        }
        assert_eq!(plugins.register(STRUCTURED, "d", "/z", &v1), Err(PluginError::TooMany));
    }

    #[test]
    fn the_newest_connected_endpoint_is_called_and_a_failed_update_falls_back() {
        let (mut plugins, v1) = (Plugins::default(), names(&["v1.DRAPlugin"]));
        assert!(plugins.of(STRUCTURED, "d").is_none());
        plugins.register(STRUCTURED, "d", "/old", &v1).unwrap();
        plugins.register(STRUCTURED, "d", "/new", &v1).unwrap();
        let called = |plugins: &Plugins| plugins.of(STRUCTURED, "d").map(|plugin| plugin.endpoint.clone());
        assert_eq!(called(&plugins).as_deref(), Some("/new"), "nobody is connected");
        plugins.connected(STRUCTURED, "d", "/old", true);
        assert_eq!(called(&plugins).as_deref(), Some("/old"));
        plugins.connected(STRUCTURED, "d", "/new", true);
        assert_eq!(called(&plugins).as_deref(), Some("/new"));
        plugins.connected(STRUCTURED, "d", "/new", false);
        assert!(plugins.is_usable("d"));
        plugins.deregister(STRUCTURED, "d", "/new");
        assert_eq!(called(&plugins).as_deref(), Some("/old"));
        plugins.connected(STRUCTURED, "d", "/old", false);
        assert!(!plugins.is_usable("d"));
        plugins.deregister(STRUCTURED, "d", "/old");
        assert!(plugins.of(STRUCTURED, "d").is_none());
    }
}
