//! Which plugins there are, and which of several endpoints of a driver is called.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::fmt;

/// Services that calls can go to, the shorter names that plugins announce.
const PLUGIN_SERVICES: &[&str] = &["v1.DRAPlugin", "v1beta1.DRAPlugin"];
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

/// The service for health: the one that we like best. There may be none.
#[must_use]
pub fn choose_health(services: &[String]) -> Option<&'static str> {
    HEALTH_SERVICES.iter().copied().find(|known| services.iter().any(|name| name == known))
}

/// The plugins of a node.
#[derive(Clone, Debug, Default)]
pub struct Plugins {
    /// Endpoints of each driver, the newest last.
    drivers: BTreeMap<String, Vec<Plugin>>,
}

impl Plugins {
    /// A plugin is there.
    ///
    /// # Errors
    /// When it is not one, or is there already.
    pub fn register(&mut self, driver: &str, endpoint: &str, services: &[String]) -> Result<(), PluginError> {
        let service = choose_plugin(services)?;
        if !self.drivers.contains_key(driver) && self.drivers.len() >= DRIVERS_MAX {
            return Err(PluginError::TooMany);
        }
        let plugins = self.drivers.entry(driver.into()).or_default();
        if plugins.iter().any(|plugin| plugin.endpoint == endpoint) {
            return Err(PluginError::SameEndpoint(endpoint.into()));
        }
        if plugins.len() >= ENDPOINTS_PER_DRIVER_MAX {
            return Err(PluginError::TooMany);
        }
        let health = choose_health(services);
        plugins.push(Plugin { endpoint: endpoint.into(), service, health, is_connected: false });
        Ok(())
    }

    /// A plugin is gone.
    pub fn deregister(&mut self, driver: &str, endpoint: &str) {
        if let Some(plugins) = self.drivers.get_mut(driver) {
            plugins.retain(|plugin| plugin.endpoint != endpoint);
            if plugins.is_empty() {
                self.drivers.remove(driver);
            }
        }
    }

    /// A connection is there, or is lost. A lost one deregisters nothing.
    pub fn connected(&mut self, driver: &str, endpoint: &str, is_connected: bool) {
        let plugins = self.drivers.get_mut(driver).into_iter().flatten();
        plugins
            .filter(|plugin| plugin.endpoint == endpoint)
            .for_each(|plugin| plugin.is_connected = is_connected);
    }

    /// The plugin to call for a driver: the newest that is connected, or else the newest.
    #[must_use]
    pub fn of(&self, driver: &str) -> Option<&Plugin> {
        let plugins = self.drivers.get(driver)?;
        plugins.iter().rev().find(|plugin| plugin.is_connected).or(plugins.last())
    }

    /// The plugin at an endpoint.
    #[must_use]
    pub fn at(&self, driver: &str, endpoint: &str) -> Option<&Plugin> {
        self.drivers.get(driver)?.iter().find(|plugin| plugin.endpoint == endpoint)
    }

    /// Whether slices of a driver may stay: one of its endpoints is connected.
    #[must_use]
    pub fn is_usable(&self, driver: &str) -> bool {
        self.drivers.get(driver).is_some_and(|plugins| plugins.iter().any(|plugin| plugin.is_connected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

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
        plugins.register("d", "/a", &v1).unwrap();
        assert_eq!(plugins.register("d", "/a", &v1), Err(PluginError::SameEndpoint("/a".into())));
        plugins.register("e", "/a", &v1).unwrap();
        for number in 0..7 {
            plugins.register("d", &alloc::format!("/{number}"), &v1).unwrap();
        }
        assert_eq!(plugins.register("d", "/z", &v1), Err(PluginError::TooMany));
    }

    #[test]
    fn the_newest_connected_endpoint_is_called_and_a_failed_update_falls_back() {
        let (mut plugins, v1) = (Plugins::default(), names(&["v1.DRAPlugin"]));
        assert!(plugins.of("d").is_none());
        plugins.register("d", "/old", &v1).unwrap();
        plugins.register("d", "/new", &v1).unwrap();
        let called = |plugins: &Plugins| plugins.of("d").map(|plugin| plugin.endpoint.clone());
        assert_eq!(called(&plugins).as_deref(), Some("/new"), "nobody is connected");
        plugins.connected("d", "/old", true);
        assert_eq!(called(&plugins).as_deref(), Some("/old"));
        plugins.connected("d", "/new", true);
        assert_eq!(called(&plugins).as_deref(), Some("/new"));
        plugins.connected("d", "/new", false);
        assert!(plugins.is_usable("d"));
        plugins.deregister("d", "/new");
        assert_eq!(called(&plugins).as_deref(), Some("/old"));
        plugins.connected("d", "/old", false);
        assert!(!plugins.is_usable("d"));
        plugins.deregister("d", "/old");
        assert!(plugins.of("d").is_none());
    }
}
