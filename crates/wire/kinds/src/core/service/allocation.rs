//! Allocations for a Service before it is stored: IP families, cluster IPs, node ports. Addresses and ports come from a pool that the server
//! keeps; this decides which ones are requested, and words the refusals.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::{Value, json};

use super::{
    families::{self, default_families},
    is_headless, needs_cluster_ip, needs_health_check,
};
use crate::{
    Errors,
    path::Path,
    value::{field_mut, has, list, list_mut, number, put, put_or_remove, some, text},
};

/// Why a pool does not give something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// Nothing is left.
    Full,
    /// Another Service has it.
    Taken,
    /// It is not in the pool, which has this range.
    OutOfRange(String),
}

/// The source of cluster IPs and node ports. An allocation is held until the write that needed it has ended.
pub trait ServicePool {
    /// Takes this cluster IP, or any.
    ///
    /// # Errors
    /// Why there is none.
    fn take_address(&mut self, wanted: Option<&str>) -> Result<String, PoolError>;

    /// Takes this node port, or any.
    ///
    /// # Errors
    /// Why there is none.
    fn take_port(&mut self, wanted: Option<i64>) -> Result<i64, PoolError>;
}

/// Why a Service is given nothing.
#[derive(Debug)]
pub enum ServiceRefusal {
    /// Fields are wrong.
    Invalid(Errors),
    /// The cluster has nothing left, or what was asked for cannot be had.
    Internal(String),
}

/// Gives a new Service what it needs; gives a changed one what it needs beyond what it had.
///
/// # Errors
/// The allocation that failed. The object is then of no use.
pub fn allocate_service(
    service: &mut Value,
    old: Option<&Value>,
    pool: &mut dyn ServicePool,
) -> Result<(), ServiceRefusal> {
    let name = text(&service["metadata"], "name").to_owned();
    let Some(old) = old else {
        let spec = field_mut(service, "spec");
        if !text(spec, "clusterIP").is_empty() && list(spec, "clusterIPs").is_empty() {
            let address = spec["clusterIP"].clone();
            put(spec, "clusterIPs", json!([address]));
        }
        families::settle(spec, None)?;
        take_addresses(&name, spec, pool)?;
        if has_node_ports(spec) {
            take_first_ports(spec, pool)?;
        }
        if needs_health_check(spec) {
            take_health_check_port(spec, pool)?;
        }
        return Ok(());
    };
    let old = with_families(&old["spec"]);
    let spec = field_mut(service, "spec");
    keep_allocated(spec, &old);
    align_addresses(spec, &old);
    families::settle(spec, Some(&old))?;
    // A Service that was stored without an address by an older server gets one, as one that was a name does.
    if needs_cluster_ip(spec) && list(&old, "clusterIPs").is_empty() {
        take_addresses(&name, spec, pool)?;
    }
    if has_node_ports(spec) {
        take_changed_ports(spec, &old, pool)?;
    }
    if needs_health_check(spec) && !needs_health_check(&old) {
        take_health_check_port(spec, pool)?;
    }
    Ok(())
}

/// The spec as stored, with families and policy where it has none yet.
fn with_families(old: &Value) -> Value {
    let mut old = old.clone();
    if needs_cluster_ip(&old) && list(&old, "ipFamilies").is_empty() {
        default_families(&mut old);
    }
    old
}

/// Keeps the allocated values that the client left out.
fn keep_allocated(spec: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(spec) {
        if text(spec, "clusterIP").is_empty() {
            put_or_remove(spec, "clusterIP", some(old, "clusterIP").cloned());
        }
        if list(spec, "clusterIPs").is_empty() && !list(old, "clusterIPs").is_empty() {
            put(spec, "clusterIPs", old["clusterIPs"].clone());
        }
    }
    if allocates_node_ports(old) && allocates_node_ports(spec) {
        let used: BTreeSet<i64> = node_ports(old).intersection(&node_ports(spec)).copied().collect();
        // Of several with the same name the last counts.
        let by_name: BTreeMap<&str, i64> =
            list(old, "ports").iter().map(|port| (text(port, "name"), number(port, "nodePort"))).collect();
        for port in list_mut(spec, "ports").iter_mut().filter(|port| number(port, "nodePort") == 0) {
            let known = by_name.get(text(port, "name")).copied().unwrap_or_default();
            if known != 0 && !used.contains(&known) {
                put(port, "nodePort", known);
            }
        }
    }
    if needs_health_check(old) && needs_health_check(spec) && number(spec, "healthCheckNodePort") == 0 {
        put(spec, "healthCheckNodePort", number(old, "healthCheckNodePort"));
    }
}

/// Brings `clusterIP` and `clusterIPs` in line, whichever the client wrote.
fn align_addresses(spec: &mut Value, old: &Value) {
    let (one, before) = (text(spec, "clusterIP").to_owned(), text(old, "clusterIP"));
    if list(spec, "clusterIPs").is_empty() && one == before {
        put_or_remove(spec, "clusterIPs", some(old, "clusterIPs").cloned());
    }
    // Both must be as they were for the one that was written to speak for the other.
    let same_list = list(spec, "clusterIPs") == list(old, "clusterIPs");
    if one == before || !same_list {
        return;
    }
    if one.is_empty() {
        put_or_remove(spec, "clusterIPs", None);
    } else {
        put(spec, "clusterIPs", json!([one]));
    }
}

fn take_addresses(name: &str, spec: &mut Value, pool: &mut dyn ServicePool) -> Result<(), ServiceRefusal> {
    if !needs_cluster_ip(spec) || is_headless(spec) {
        return Ok(());
    }
    let wanted: Vec<Value> = list(spec, "clusterIPs").to_vec();
    let taken = match wanted.first().and_then(Value::as_str).filter(|wanted| !wanted.is_empty()) {
        Some(address) => pool.take_address(Some(address)).map_err(|error| {
            let why = match error {
                PoolError::Taken => "provided IP is already allocated",
                PoolError::OutOfRange(_) => "the provided network does not match the current range",
                PoolError::Full => "range is full",
            };
            invalid("spec.clusterIPs", json!(wanted), format!("failed to allocate IP {address}: {why}"))
        })?,
        None => pool.take_address(None).map_err(|_| {
            ServiceRefusal::Internal(format!(
                "failed to allocate a serviceIP for Service {name:?}: range is full"
            ))
        })?,
    };
    put(spec, "clusterIP", taken.as_str());
    put(spec, "clusterIPs", json!([taken]));
    Ok(())
}

/// The node ports of a new Service. Entries with the same port share a node port.
fn take_first_ports(spec: &mut Value, pool: &mut dyn ServicePool) -> Result<(), ServiceRefusal> {
    let allocates = allocates_node_ports(spec);
    // Of several with the same port the first that asks counts.
    let asked: BTreeMap<i64, i64> = list(spec, "ports")
        .iter()
        .rev()
        .map(|port| (number(port, "port"), number(port, "nodePort")))
        .filter(|(_, node)| *node != 0)
        .collect();
    let mut by_port: BTreeMap<i64, i64> = BTreeMap::new();
    for (at, port) in list_mut(spec, "ports").iter_mut().enumerate() {
        let (own, wanted) = (number(port, "port"), number(port, "nodePort"));
        if wanted == 0 && !allocates {
            continue;
        }
        match by_port.get(&own).copied() {
            None => {
                let taken = take_port(pool, at, asked.get(&own).copied())?;
                put(port, "nodePort", taken);
                by_port.insert(own, taken);
            }
            Some(taken) if wanted == 0 => put(port, "nodePort", taken),
            Some(taken) if wanted == taken => {}
            Some(_) => {
                take_port(pool, at, Some(wanted))?;
            }
        }
    }
    Ok(())
}

/// The node ports of a changed Service: those that it had are its own.
fn take_changed_ports(
    spec: &mut Value,
    old: &Value,
    pool: &mut dyn ServicePool,
) -> Result<(), ServiceRefusal> {
    let allocates = allocates_node_ports(spec);
    let mut own = node_ports(old);
    let mut seen: BTreeSet<(String, i64)> = BTreeSet::new();
    for (at, port) in list_mut(spec, "ports").iter_mut().enumerate() {
        let wanted = number(port, "nodePort");
        if wanted == 0 && !allocates {
            continue;
        }
        let taken = match wanted {
            0 => take_port(pool, at, None)?,
            wanted if own.contains(&wanted) => wanted,
            wanted => take_port(pool, at, Some(wanted))?,
        };
        own.insert(taken);
        put(port, "nodePort", taken);
        let entry = (text(port, "protocol").to_owned(), taken);
        if seen.contains(&entry) {
            return Err(ServiceRefusal::Internal(format!("duplicate nodePort: {{{} {}}}", entry.0, entry.1)));
        }
        seen.insert(entry);
    }
    Ok(())
}

fn take_port(pool: &mut dyn ServicePool, at: usize, wanted: Option<i64>) -> Result<i64, ServiceRefusal> {
    pool.take_port(wanted).map_err(|error| match wanted {
        Some(wanted) => {
            let (spec, ports) = (Path::root("spec"), "ports");
            let ports = spec.field(ports);
            invalid(ports.index(at).field("nodePort"), wanted, port_problem(&error))
        }
        None => ServiceRefusal::Internal(format!("failed to allocate a nodePort: {}", port_problem(&error))),
    })
}

fn take_health_check_port(spec: &mut Value, pool: &mut dyn ServicePool) -> Result<(), ServiceRefusal> {
    let wanted = Some(number(spec, "healthCheckNodePort")).filter(|wanted| *wanted != 0);
    let taken = pool.take_port(wanted).map_err(|error| {
        let problem = port_problem(&error);
        ServiceRefusal::Internal(match wanted {
            Some(port) => format!("failed to allocate requested HealthCheck NodePort {port}: {problem}"),
            None => format!("failed to allocate a HealthCheck NodePort 0: {problem}"),
        })
    })?;
    put(spec, "healthCheckNodePort", taken);
    Ok(())
}

fn port_problem(error: &PoolError) -> String {
    match error {
        PoolError::Full => "range is full".into(),
        PoolError::Taken => "provided port is already allocated".into(),
        PoolError::OutOfRange(range) => {
            format!("provided port is not in the valid range. The range of valid ports is {range}")
        }
    }
}

fn invalid(path: impl Into<String>, value: impl Into<Value>, why: String) -> ServiceRefusal {
    let mut errors = Errors::new();
    errors.invalid(path, value, why);
    ServiceRefusal::Invalid(errors)
}

/// Whether the type has node ports.
fn has_node_ports(spec: &Value) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

/// Whether ports get a node port although none was asked for.
fn allocates_node_ports(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => {
            !has(spec, "allocateLoadBalancerNodePorts") || spec["allocateLoadBalancerNodePorts"] == true
        }
        _ => false,
    }
}

fn node_ports(spec: &Value) -> BTreeSet<i64> {
    list(spec, "ports").iter().map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
}

/// All addresses and ports that a stored Service holds.
#[must_use]
pub fn service_holdings(service: &Value) -> (Vec<&str>, Vec<i64>) {
    let spec = &service["spec"];
    if !needs_cluster_ip(spec) {
        return (Vec::new(), Vec::new());
    }
    let addresses = list(spec, "clusterIPs").iter().filter_map(Value::as_str).filter(|text| *text != "None");
    let mut ports: Vec<i64> =
        if has_node_ports(spec) { node_ports(spec).into_iter().collect() } else { Vec::new() };
    if needs_health_check(spec) {
        ports.extend(Some(number(spec, "healthCheckNodePort")).filter(|port| *port != 0));
    }
    (addresses.collect(), ports)
}
