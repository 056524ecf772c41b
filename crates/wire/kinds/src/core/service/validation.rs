//! Validation of a Service.

use std::collections::BTreeSet;

use lazaret_json::{Map, Value, json};
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use super::{is_externally_accessible, is_headless, needs_cluster_ip, needs_health_check};
use crate::{
    Errors, FieldProblem, addresses as ip,
    check::{label_name, label_value, name, not_supported},
    core::pod_validation::{port_number, port_or_name},
    path::Path,
    value::{entries, has, list, number, same_field, some, text, texts},
};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const TRAFFIC: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

/// Everything that holds for new and changed Services.
pub(super) fn service(errors: &mut Errors, object: &Value, old: Option<&Value>) {
    let (spec, path) = (&object["spec"], Path::root("spec"));
    let old = old.map(|old| &old["spec"]);
    let kind = text(spec, "type");
    if list(spec, "ports").is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required(path.field("ports"), "");
    }
    by_type(errors, &path, spec);
    ports(errors, &path, spec);
    for (key, value) in entries(spec, "selector") {
        let path = path.field("selector");
        label_name(errors, &path, key);
        label_value(errors, &path, value.as_str().unwrap_or_default());
    }
    affinity(errors, &path, spec);
    addresses(errors, spec, old);
    let accepted = old.map(|old| texts(old, "externalIPs").collect()).unwrap_or_default();
    for (at, address) in list(spec, "externalIPs").iter().enumerate() {
        let (path, address) = (path.field("externalIPs"), address.as_str().unwrap_or_default());
        if ip::address(errors, &path.index(at), address, &accepted) {
            ip::endpoint_address(errors, &path.index(at), address, false);
        }
    }
    if !TYPES.contains(&kind) {
        errors.push(path.field("type"), not_supported(kind, TYPES));
    }
    repeated_ports(errors, &path, spec);
    source_ranges(errors, &path, object, spec);
    if has(spec, "allocateLoadBalancerNodePorts") && kind != "LoadBalancer" {
        errors.forbidden(path.field("allocateLoadBalancerNodePorts"), ONLY_LOAD_BALANCER);
    }
    load_balancer_class(errors, &path, spec);
    traffic(errors, &path, spec);
}

/// Checks the fields that may not change.
pub(super) fn change(errors: &mut Errors, new: &Value, old: &Value) {
    if needs_cluster_ip(new) && needs_cluster_ip(old) {
        same_addresses(errors, new, old);
        same_families(errors, new, old);
    }
    let balanced = |spec: &Value| text(spec, "type") == "LoadBalancer";
    if balanced(new) && balanced(old) && !same_field(new, old, "loadBalancerClass") {
        let class = new.get("loadBalancerClass").cloned().unwrap_or_default();
        errors.invalid("spec.loadBalancerClass", class, "may not change once set");
    }
    if needs_health_check(old)
        && needs_health_check(new)
        && number(new, "healthCheckNodePort") != number(old, "healthCheckNodePort")
    {
        errors.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
}

/// `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`, as far as they can be looked at without the cluster.
pub(super) fn addresses(errors: &mut Errors, spec: &Value, old: Option<&Value>) {
    if !needs_cluster_ip(spec) {
        return;
    }
    let (path, all) = (Path::root("spec.clusterIPs"), list(spec, "clusterIPs"));
    let shown = || json!(all.to_vec());
    match text(spec, "clusterIP") {
        "" if !all.is_empty() => {
            errors.invalid(path, shown(), "must be empty when `clusterIP` is not specified");
        }
        "" => {}
        _ if all.is_empty() => errors.required(path, ""),
        first if all[0] != *first => errors.invalid(path, shown(), "first value must match `clusterIP`"),
        _ => {}
    }
    let families = list(spec, "ipFamilies");
    let mut seen = BTreeSet::new();
    for (at, family) in families.iter().enumerate() {
        let path = Path::root("spec.ipFamilies");
        if !FAMILIES.contains(&family.as_str().unwrap_or_default()) {
            errors.push(path.index(at), not_supported(family.as_str().unwrap_or_default(), FAMILIES));
        }
        if !seen.insert(family.as_str().unwrap_or_default()) {
            errors.push(path.index(at), FieldProblem::Duplicate(family.clone()));
        }
    }
    if has(spec, "ipFamilyPolicy") && !POLICIES.contains(&text(spec, "ipFamilyPolicy")) {
        errors.push("spec.ipFamilyPolicy", not_supported(text(spec, "ipFamilyPolicy"), POLICIES));
    }
    let accepted = old.map(|old| texts(old, "clusterIPs").collect()).unwrap_or_default();
    let mut good = true;
    for (at, address) in all.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        if at == 0 && address == "None" {
            if all.len() > 1 {
                good = false;
                errors.invalid(path, shown(), "'None' must be the first and only value");
            }
        } else {
            good &= ip::address(errors, &path.index(at), address, &accepted);
        }
    }
    if all.len() > 2 {
        errors.invalid(path, shown(), "may only hold up to 2 values");
    }
    if !good {
        return;
    }
    let is_ipv6 = |address: &Value| ip::is_ipv6(address.as_str().unwrap_or_default());
    if all.len() > 1 && all.iter().map(is_ipv6).all(|six| six == is_ipv6(&all[0])) {
        errors.invalid(path, shown(), "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (at, (address, family)) in all.iter().zip(families).enumerate() {
        let expected = if *family == *"IPv4" { false } else { *family == *"IPv6" };
        if FAMILIES.iter().any(|known| *family == **known) && is_ipv6(address) != expected {
            let why = format!(
                "expected an {} value as indicated by `ipFamilies[{at}]`",
                family.as_str().unwrap_or_default()
            );
            errors.invalid(path.index(at), address.clone(), why);
        }
    }
}

fn by_type(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    match text(spec, "type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.invalid(path.field("clusterIPs").index(0), "None", why);
        }
        "ExternalName" => {
            const NOT_FOR_NAMES: &str = "may not be set for ExternalName services";
            for field in ["clusterIPs", "ipFamilies"] {
                if !list(spec, field).is_empty() {
                    errors.forbidden(path.field(field), NOT_FOR_NAMES);
                }
            }
            if has(spec, "ipFamilyPolicy") {
                errors.forbidden(path.field("ipFamilyPolicy"), NOT_FOR_NAMES);
            }
            let target = text(spec, "externalName");
            match target.strip_suffix('.').unwrap_or(target) {
                "" => errors.required(path.field("externalName"), ""),
                target => name(errors, &path.field("externalName"), target, validate_dns_subdomain),
            }
        }
        _ => {}
    }
}

fn ports(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let ports = list(spec, "ports");
    let path = path.field("ports");
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        let own = text(port, "name");
        if own.is_empty() {
            if ports.len() > 1 {
                errors.required(path.field("name"), "");
            }
        } else {
            name(errors, &path.field("name"), own, validate_dns_label);
            if !names.insert(own) {
                errors.push(path.field("name"), FieldProblem::Duplicate(own.into()));
            }
        }
        port_number(errors, &path.field("port"), number(port, "port"));
        protocol(errors, &path, port);
        port_or_name(errors, &path.field("targetPort"), &port["targetPort"]);
        if let Some(application) = some(port, "appProtocol").and_then(Value::as_str) {
            label_name(errors, &path.field("appProtocol"), application);
        }
    }
}

/// TCP, UDP or SCTP.
pub(in crate::core) fn protocol(errors: &mut Errors, path: &Path<'_>, port: &Value) {
    match text(port, "protocol") {
        "" => errors.required(path.field("protocol"), ""),
        known if PROTOCOLS.contains(&known) => {}
        other => errors.push(path.field("protocol"), not_supported(other, PROTOCOLS)),
    }
}

fn affinity(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let config = some(spec, "sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let path = path.field("sessionAffinityConfig").to_string();
            let why = "when session affinity type is ClientIP";
            let Some(config) = config else { return errors.required(path, why) };
            let Some(client) = some(config, "clientIP") else {
                return errors.required(format!("{path}.clientIP"), why);
            };
            let Some(seconds) = some(client, "timeoutSeconds").and_then(Value::as_i64) else {
                return errors.required(format!("{path}.clientIP.timeoutSeconds"), why);
            };
            if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) {
                let why = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                errors.invalid(format!("{path}.clientIP.timeoutSeconds"), seconds, why);
            }
        }
        "None" => {
            if config.is_some() {
                let why = "must not be set when session affinity is None";
                errors.forbidden(path.field("sessionAffinityConfig"), why);
            }
        }
        other => errors.push(path.field("sessionAffinity"), not_supported(other, &["ClientIP", "None"])),
    }
}

fn repeated_ports(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let (ports, path) = (list(spec, "ports"), path.field("ports"));
    if text(spec, "type") == "ClusterIP" {
        for (at, _) in ports.iter().enumerate().filter(|(_, port)| number(port, "nodePort") != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(path.index(at).field("nodePort"), why);
        }
    }
    let protocol_and = |port: &Value, field: &str| (text(port, "protocol").to_owned(), number(port, field));
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate().filter(|(_, port)| number(port, "nodePort") != 0) {
        let key = protocol_and(port, "nodePort");
        let problem = FieldProblem::Duplicate(key.1.into());
        if !seen.insert(key) {
            errors.push(path.index(at).field("nodePort"), problem);
        }
    }
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let key = protocol_and(port, "port");
        if seen.contains(&key) {
            errors.push(path.index(at), FieldProblem::Duplicate(as_key(&key.0, key.1)));
        }
        seen.insert(key);
    }
}

/// A port as Kubernetes shows it when it stands twice: its internal form, with everything but protocol and port left out.
fn as_key(protocol: &str, port: i64) -> Value {
    let fields: [(&str, Value); 6] = [
        ("Name", "".into()),
        ("Protocol", protocol.into()),
        ("AppProtocol", Value::Null),
        ("Port", port.into()),
        ("TargetPort", 0.into()),
        ("NodePort", 0.into()),
    ];
    Value::Object(Map::spelled(fields.into_iter().map(|(name, value)| (name.into(), value)).collect()))
}

fn source_ranges(errors: &mut Errors, path: &Path<'_>, object: &Value, spec: &Value) {
    let balanced = text(spec, "type") == "LoadBalancer";
    let ranges = list(spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let path = path.field("LoadBalancerSourceRanges");
        if !balanced {
            errors.forbidden(path, ONLY_LOAD_BALANCER);
        }
        for (at, range) in ranges.iter().enumerate() {
            ip::network(errors, &path.index(at), range.as_str().unwrap_or_default().trim());
        }
    } else if let Some(ranges) = some(&object["metadata"]["annotations"], SOURCE_RANGES) {
        let path = Path::root("metadata.annotations");
        let path = path.key(SOURCE_RANGES);
        if !balanced {
            errors.forbidden(path, ONLY_LOAD_BALANCER);
        }
        let ranges = ranges.as_str().unwrap_or_default().trim();
        for range in ranges.split(',').filter(|_| !ranges.is_empty()) {
            ip::network(errors, &path, range.trim());
        }
    }
}

fn load_balancer_class(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let Some(class) = some(spec, "loadBalancerClass") else { return };
    if text(spec, "type") == "LoadBalancer" {
        label_name(errors, &path.field("loadBalancerClass"), class.as_str().unwrap_or_default());
    } else {
        errors.forbidden(path.field("loadBalancerClass"), ONLY_LOAD_BALANCER);
    }
}

fn traffic(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let external = text(spec, "externalTrafficPolicy");
    if !is_externally_accessible(spec) {
        if !external.is_empty() {
            let why = "may only be set for externally-accessible services";
            errors.invalid(path.field("externalTrafficPolicy"), external, why);
        }
    } else if external.is_empty() {
        errors.required(path.field("externalTrafficPolicy"), "");
    } else if !TRAFFIC.contains(&external) {
        errors.push(path.field("externalTrafficPolicy"), not_supported(external, TRAFFIC));
    }
    let health_check = number(spec, "healthCheckNodePort");
    if needs_health_check(spec) {
        if health_check == 0 {
            errors.required(path.field("healthCheckNodePort"), "");
        } else {
            port_number(errors, &path.field("healthCheckNodePort"), health_check);
        }
    } else if health_check != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(path.field("healthCheckNodePort"), health_check, why);
    }
    let internal = text(spec, "internalTrafficPolicy");
    if has(spec, "internalTrafficPolicy") && !TRAFFIC.contains(&internal) {
        errors.push(path.field("internalTrafficPolicy"), not_supported(internal, TRAFFIC));
    }
    let distribution = text(spec, "trafficDistribution");
    if has(spec, "trafficDistribution") && !DISTRIBUTIONS.contains(&distribution) {
        errors.push(path.field("trafficDistribution"), not_supported(distribution, DISTRIBUTIONS));
    }
}

/// Addresses stay once they are set.
fn same_addresses(errors: &mut Errors, new: &Value, old: &Value) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let (path, now, before) =
        (Path::root("spec.clusterIPs"), list(new, "clusterIPs"), list(old, "clusterIPs"));
    if now.is_empty() && !before.is_empty() {
        errors.invalid(path.index(0), json!([]), "primary clusterIP can not be unset");
    }
    let compared = if now.len() == before.len() { now.len() } else { 1 };
    for (at, (now_at, before_at)) in now.iter().zip(before).enumerate().take(compared) {
        if now_at != before_at {
            errors.invalid(path.index(at), now.to_vec(), "may not change once set");
        }
    }
    if now.len() == 1 && before.len() > 1 && text(new, "ipFamilyPolicy") != "SingleStack" {
        let why = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.invalid("spec.ipFamilyPolicy", new["ipFamilyPolicy"].clone(), why);
    }
}

/// The first family stays once it is set.
fn same_families(errors: &mut Errors, new: &Value, old: &Value) {
    if is_headless(new) || is_headless(old) {
        return;
    }
    let (now, before) = (list(new, "ipFamilies"), list(old, "ipFamilies"));
    if let (Some(first), Some(known)) = (now.first(), before.first())
        && first != known
    {
        let shown = if now.len() == before.len() { now.to_vec() } else { list(new, "clusterIPs").to_vec() };
        errors.invalid("spec.ipFamilies[0]", shown, "may not change once set");
    }
    if now.len() == 1 && before.len() > 1 && text(new, "ipFamilyPolicy") != "SingleStack" {
        let why = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errors.invalid("spec.ipFamilyPolicy", new["ipFamilyPolicy"].clone(), why);
    }
}

/// The addresses that a load balancer reports.
pub(super) fn status(errors: &mut Errors, new: &Value, old: &Value) {
    let ingress = list(&new["status"]["loadBalancer"], "ingress");
    let path = Path::root("status.loadBalancer.ingress");
    if text(&new["spec"], "type") != "LoadBalancer" && !ingress.is_empty() {
        return errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let accepted: BTreeSet<&str> =
        list(&old["status"]["loadBalancer"], "ingress").iter().map(|entry| text(entry, "ip")).collect();
    for (at, entry) in ingress.iter().enumerate() {
        let (path, address, mode) = (path.index(at), text(entry, "ip"), some(entry, "ipMode"));
        if !address.is_empty() {
            ip::address(errors, &path.field("ip"), address, &accepted);
        }
        match mode.and_then(Value::as_str) {
            None if !address.is_empty() => {
                errors.required(path.field("ipMode"), "must be specified when `ip` is set");
            }
            None => {}
            Some(_) if address.is_empty() => {
                errors.forbidden(path.field("ipMode"), "may not be specified when `ip` is not set");
            }
            Some("Proxy" | "VIP") => {}
            Some(other) => errors.push(path.field("ipMode"), not_supported(other, &["Proxy", "VIP"])),
        }
        let host = text(entry, "hostname");
        if !host.is_empty() {
            name(errors, &path.field("hostname"), host, validate_dns_subdomain);
            if host.parse::<std::net::IpAddr>().is_ok() {
                errors.invalid(path.field("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}

/// Warns of values that are allowed and probably not meant.
pub(super) fn warnings(errors: &mut Errors, object: &Value) {
    const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = &object["spec"];
    let (kind, headless) = (text(spec, "type"), is_headless(spec) && text(spec, "type") == "ClusterIP");
    if has(&object["metadata"]["annotations"], TOPOLOGY_HINTS) {
        errors.warn(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let external = !list(spec, "externalIPs").is_empty();
    if headless {
        for (is_set, field) in [
            (!text(spec, "loadBalancerIP").is_empty(), "loadBalancerIP"),
            (external, "externalIPs"),
            (text(spec, "sessionAffinity") != "None", "SessionAffinity"),
        ] {
            if is_set {
                errors.warn(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    if external && !headless && kind != "ExternalName" {
        errors.warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if external && kind == "ExternalName" {
        errors.warn("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if kind != "ExternalName" && !text(spec, "externalName").is_empty() {
        errors.warn("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        errors.warn("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
    // Nothing here is a cloud: the address that people wait for never comes.
    if kind == "LoadBalancer" && !has(spec, "loadBalancerClass") {
        errors.warn("a Service of type LoadBalancer gets no external address: no load balancer is simulated");
    }
}
