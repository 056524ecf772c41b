//! Services.

mod allocation;
mod families;
#[cfg(test)]
mod tests;
mod validation;

use std::collections::BTreeSet;

use lazaret_json::{Value, json};
use lazaret_model::validate_dns_label;

pub use allocation::{PoolError, ServicePool, ServiceRefusal, allocate_service, service_holdings};
pub(in crate::core) use validation::protocol;

use crate::{
    Column, Context, Errors, Rules,
    check::name,
    kind::age,
    path::Path,
    rules::keep_status,
    value::{
        entries, field_mut, fill, has, is_filled, list, list_mut, number, put, remove, same_field, some, text,
    },
};

/// How long a client stays with one endpoint, unless said otherwise.
const AFFINITY_SECONDS: i64 = 10_800;

/// Services. Addresses and ports come from [`allocate_service`] before the rules here are asked.
#[derive(Debug)]
pub(crate) struct Service;

impl Rules for Service {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        fill(spec, "sessionAffinity", "None");
        match text(spec, "sessionAffinity") {
            "None" => remove(spec, "sessionAffinityConfig"),
            "ClientIP" if !has(&spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds") => {
                let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                put(spec, "sessionAffinityConfig", config);
            }
            _ => {}
        }
        fill(spec, "type", "ClusterIP");
        for port in list_mut(spec, "ports") {
            fill(port, "protocol", "TCP");
            if some(port, "targetPort").is_none_or(|target| *target == 0 || *target == "") {
                let port_number = number(port, "port");
                put(port, "targetPort", port_number);
            }
        }
        if is_externally_accessible(spec) {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(text(spec, "type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if text(spec, "type") != "LoadBalancer" {
            return;
        }
        fill(spec, "allocateLoadBalancerNodePorts", true);
        let Some(balancer) = object.get_mut("status").and_then(|status| status.get_mut("loadBalancer"))
        else {
            return;
        };
        for ingress in list_mut(balancer, "ingress") {
            if is_filled(ingress, "ip") {
                fill(ingress, "ipMode", "VIP");
            }
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({"loadBalancer": {}}));
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        name(errors, &Path::root("metadata.name"), text(&object["metadata"], "name"), validate_dns_label);
        validation::service(errors, object, None);
        validation::warnings(errors, object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep_status(new, old);
        drop_what_the_type_does_not_have(new, &old["spec"]);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validation::change(errors, &new["spec"], &old["spec"]);
        validation::service(errors, new, Some(old));
        validation::warnings(errors, new);
    }

    fn validate_status(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validation::status(errors, new, old);
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        match field {
            "spec.clusterIP" => Some(text(&object["spec"], "clusterIP").into()),
            "spec.type" => Some(text(&object["spec"], "type").into()),
            _ => None,
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Type"),
            Column::text("Cluster-IP"),
            Column::text("External-IP"),
            Column::text("Port(s)"),
            Column::AGE,
            Column::wide("Selector"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let spec = &object["spec"];
        let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
        let ports = list(spec, "ports").iter().map(port_text).collect::<Vec<_>>().join(",");
        let selector: Vec<String> = entries(spec, "selector")
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        vec![
            text(spec, "type").into(),
            or_none(text(spec, "clusterIP").to_owned()).into(),
            external(object).into(),
            or_none(ports).into(),
            age(object, context),
            or_none(selector.join(",")).into(),
        ]
    }
}

/// A change of type takes away what the new type does not have, unless the client changed that too: then validation refuses it.
fn drop_what_the_type_does_not_have(new: &mut Value, old: &Value) {
    let spec = field_mut(new, "spec");
    if needs_cluster_ip(old) && !needs_cluster_ip(spec) {
        if same_field(spec, old, "clusterIP") && same_field(spec, old, "clusterIPs") {
            remove(spec, "clusterIP");
            remove(spec, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same_field(spec, old, field) {
                remove(spec, field);
            }
        }
    }
    let node_ports = |spec: &Value| {
        list(spec, "ports").iter().map(|port| number(port, "nodePort")).collect::<BTreeSet<_>>()
    };
    let has_node_ports = |spec: &Value| matches!(text(spec, "type"), "NodePort" | "LoadBalancer");
    let known = node_ports(old);
    if has_node_ports(old)
        && !has_node_ports(spec)
        && node_ports(spec).iter().all(|port| *port == 0 || known.contains(port))
    {
        list_mut(spec, "ports").iter_mut().for_each(|port| remove(port, "nodePort"));
    }
    if needs_health_check(old)
        && !needs_health_check(spec)
        && number(spec, "healthCheckNodePort") == number(old, "healthCheckNodePort")
    {
        remove(spec, "healthCheckNodePort");
    }
    if text(old, "type") == "LoadBalancer" && text(spec, "type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same_field(spec, old, field) {
                remove(spec, field);
            }
        }
    }
    if is_externally_accessible(old)
        && !is_externally_accessible(spec)
        && same_field(spec, old, "externalTrafficPolicy")
    {
        remove(spec, "externalTrafficPolicy");
    }
    if text(spec, "type") != "LoadBalancer" {
        put(field_mut(new, "status"), "loadBalancer", json!({}));
    }
}

/// Whether the type has a cluster IP, `None` among them.
fn needs_cluster_ip(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

fn is_headless(spec: &Value) -> bool {
    matches!(list(spec, "clusterIPs"), [only] if *only == *"None")
}

fn is_externally_accessible(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

fn needs_health_check(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn port_text(port: &Value) -> String {
    let (own, node, protocol) = (number(port, "port"), number(port, "nodePort"), text(port, "protocol"));
    if node > 0 { format!("{own}:{node}/{protocol}") } else { format!("{own}/{protocol}") }
}

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let mut addresses: Vec<&str> = list(&service["status"]["loadBalancer"], "ingress")
        .iter()
        .map(|ingress| if is_filled(ingress, "ip") { text(ingress, "ip") } else { text(ingress, "hostname") })
        .collect();
    addresses.extend(list(spec, "externalIPs").iter().filter_map(Value::as_str));
    if text(spec, "type") == "ExternalName" {
        addresses.push(text(spec, "externalName"));
    }
    match (addresses.is_empty(), text(spec, "type")) {
        (true, "LoadBalancer") => "<pending>".into(),
        (true, _) => "<none>".into(),
        (false, _) => addresses.join(","),
    }
}
