//! The options of a hollow fleet.

use lazaret_model::{Text, validate_dns_label, validate_dns_subdomain};
use serde_json::Value;
use thiserror::Error;

/// The fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HollowOptions {
    /// How many nodes: `node-1`, `node-2`, … At most 131,072.
    pub nodes: usize,
    /// How many devices each has: `gpu-0`, `gpu-1`, … At most 64, what a slice holds when any of them is tainted.
    pub devices: usize,
    /// The name of the driver, of the class of its devices, and a part of the names of its slices.
    pub driver: Text,
    /// The prefix of the names of nodes.
    pub node_prefix: Text,
    /// The number of zones that nodes are spread over: `zone-a`, `zone-b`, … At most 26.
    pub zones: usize,
    /// How often each node renews its lease.
    pub lease_interval_ms: i64,
    /// How long a pod runs that is meant to end and does not say when.
    pub job_run_ms: i64,
    /// Requests in flight at a time.
    pub in_flight_max: usize,
    /// Labels that everything it makes has besides its own.
    pub labels: Vec<(Text, Text)>,
}

impl Default for HollowOptions {
    fn default() -> Self {
        Self {
            nodes: 3,
            devices: 8,
            driver: "gpu.example.com".into(),
            node_prefix: "node-".into(),
            zones: 3,
            lease_interval_ms: 10_000,
            job_run_ms: 1_000,
            in_flight_max: 32,
            labels: Vec::new(),
        }
    }
}

/// An option that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {why}")]
pub struct OptionsError {
    /// Which option.
    pub field: &'static str,
    /// The values that it may have.
    pub why: String,
}

/// Each node has 128 addresses for its pods, out of 10.0.0.0/8.
const NODES_MAX: usize = 131_072;
/// The API's limit on devices with taints in one slice.
const DEVICES_MAX: usize = 64;
const ZONES_MAX: usize = 26;
const WHY_NODES: &str = "each simulated node has 128 of the pod addresses in 10.0.0.0/8";
const WHY_DEVICES: &str = "one slice holds no more devices with taints";

fn too_many(most: usize, why: &str) -> String {
    format!("must be at most {most}: {why}")
}

/// [`HollowOptions::nodes`] from a command line.
///
/// # Errors
/// The text is not a number in the range.
pub fn parse_node_count(text: &str) -> Result<usize, String> {
    parse_count(text, NODES_MAX, WHY_NODES)
}

/// [`HollowOptions::devices`] from a command line.
///
/// # Errors
/// The text is not a number in the range.
pub fn parse_device_count(text: &str) -> Result<usize, String> {
    parse_count(text, DEVICES_MAX, WHY_DEVICES)
}

fn parse_count(text: &str, most: usize, why: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|error| format!("{error}"))?;
    if count > most { Err(too_many(most, why)) } else { Ok(count) }
}

impl HollowOptions {
    /// Whether such a fleet can be.
    ///
    /// # Errors
    /// The first option that is wrong.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let wrong = |field, why: &str| Err(OptionsError { field, why: why.to_owned() });
        if self.nodes > NODES_MAX {
            return wrong("nodes", &too_many(NODES_MAX, WHY_NODES));
        }
        if self.devices > DEVICES_MAX {
            return wrong("devices", &too_many(DEVICES_MAX, WHY_DEVICES));
        }
        if !(1..=ZONES_MAX).contains(&self.zones) {
            return wrong("zones", "must be from 1 to 26");
        }
        if self.lease_interval_ms < 100 {
            return wrong("lease_interval_ms", "must be at least 100");
        }
        if self.job_run_ms < 0 {
            return wrong("job_run_ms", "must not be negative");
        }
        if self.in_flight_max == 0 {
            return wrong("in_flight_max", "must be at least 1");
        }
        if let Err(error) = validate_dns_subdomain(&self.driver) {
            return wrong("driver", &error.to_string());
        }
        if let Err(error) = validate_dns_label(&self.node_name(self.nodes)) {
            return wrong("node_prefix", &format!("makes node names that are none: {error}"));
        }
        Ok(())
    }

    /// The name of a node, counted from zero.
    pub(crate) fn node_name(&self, index: usize) -> String {
        format!("{}{}", self.node_prefix, index + 1)
    }

    /// An object with the labels that everything has.
    pub(crate) fn labelled(&self, mut object: Value) -> Value {
        for (key, value) in &self.labels {
            object["metadata"]["labels"][key.as_str()] = value.as_str().into();
        }
        object
    }

    /// The zone of a node, counted from zero.
    pub(crate) fn zone(&self, index: usize) -> char {
        char::from(b"abcdefghijklmnopqrstuvwxyz"[index % self.zones.clamp(1, ZONES_MAX)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_from_a_command_line_has_the_same_limit() {
        assert_eq!(parse_node_count("131072"), Ok(131_072));
        assert_eq!(parse_node_count("131073"), Err(too_many(131_072, WHY_NODES)));
        assert_eq!(parse_device_count("65"), Err(too_many(64, WHY_DEVICES)));
        assert!(parse_node_count("-1").is_err());
    }

    #[test]
    fn wrong_options_say_which() {
        let good = HollowOptions::default();
        assert_eq!(good.validate(), Ok(()));
        let bad = [
            ("nodes", HollowOptions { nodes: NODES_MAX + 1, ..good.clone() }),
            ("devices", HollowOptions { devices: 65, ..good.clone() }),
            ("zones", HollowOptions { zones: 0, ..good.clone() }),
            ("driver", HollowOptions { driver: "GPU".into(), ..good.clone() }),
            ("node_prefix", HollowOptions { node_prefix: "-".into(), ..good.clone() }),
            ("lease_interval_ms", HollowOptions { lease_interval_ms: 0, ..good.clone() }),
            ("in_flight_max", HollowOptions { in_flight_max: 0, ..good }),
        ];
        for (field, options) in bad {
            assert_eq!(options.validate().map_err(|error| error.field), Err(field));
        }
    }
}
