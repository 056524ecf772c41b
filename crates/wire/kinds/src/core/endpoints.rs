//! Where a Service leads: Endpoints, and EndpointSlices.

use std::collections::BTreeSet;

use lazaret_json::Value;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use super::{pod_validation::port_number, service::protocol};
use crate::{
    Column, Context, Errors, FieldProblem, Rules, addresses as ip,
    check::{immutable, label_name, label_value, name, not_supported},
    kind::age,
    path::Path,
    value::{fill, list, list_mut, number, same_field, some, text},
};

const ENDPOINTS_MAX: usize = 1_000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const HINTS_MAX: usize = 8;
const ADDRESS_TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
/// Cells show this many entries of a list.
const SHOWN_MAX: usize = 3;

/// All addresses of a Service in one object.
#[derive(Debug)]
pub(crate) struct Endpoints;

/// Some of them.
#[derive(Debug)]
pub(crate) struct EndpointSlice;

impl Rules for Endpoints {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        for subset in list_mut(object, "subsets") {
            list_mut(subset, "ports").iter_mut().for_each(|port| fill(port, "protocol", "TCP"));
        }
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        subsets(errors, object, context);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        if !same_field(new, old, "subsets") {
            subsets(errors, new, context);
        }
    }

    fn deprecation(&self) -> Option<&str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Endpoints"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let mut all = Vec::new();
        for subset in list(object, "subsets") {
            for address in list(subset, "addresses") {
                let ip = text(address, "ip");
                let ports = list(subset, "ports");
                if ports.is_empty() {
                    all.push(ip.to_owned());
                }
                all.extend(ports.iter().map(|port| format!("{ip}:{}", number(port, "port"))));
            }
        }
        let shown = all.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(",");
        let text = match all.len() {
            0 => "<none>".to_owned(),
            1..=SHOWN_MAX => shown,
            more => format!("{shown} + {} more...", more - SHOWN_MAX),
        };
        vec![text.into(), age(object, context)]
    }
}

/// DEVIATION(loopback-endpoint): the server's own endpoints may be on loopback, where it listens unless it was told otherwise.
fn may_be_loopback(object: &Value, context: &Context<'_>) -> bool {
    let metadata = &object["metadata"];
    context.user.name == "system:apiserver"
        && (text(metadata, "namespace"), text(metadata, "name")) == ("default", "kubernetes")
}

fn subsets(errors: &mut Errors, object: &Value, context: &Context<'_>) {
    let path = Path::root("subsets");
    let loopback = may_be_loopback(object, context);
    for (at, subset) in list(object, "subsets").iter().enumerate() {
        let path = path.index(at);
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            errors.required(path, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in ["addresses", "notReadyAddresses"] {
            let path = path.field(field);
            for (at, address) in list(subset, field).iter().enumerate() {
                subset_address(errors, &path.index(at), address, loopback);
            }
        }
        let (path, ports) = (path.field("ports"), list(subset, "ports"));
        for (at, port) in ports.iter().enumerate() {
            let path = path.index(at);
            match text(port, "name") {
                "" if ports.len() > 1 => errors.required(path.field("name"), ""),
                "" => {}
                own => name(errors, &path.field("name"), own, validate_dns_label),
            }
            port_number(errors, &path.field("port"), number(port, "port"));
            protocol(errors, &path, port);
            application(errors, &path, port);
        }
    }
}

fn subset_address(errors: &mut Errors, path: &Path<'_>, address: &Value, loopback: bool) {
    ip::address(errors, &path.field("ip"), text(address, "ip"), &BTreeSet::new());
    if !text(address, "hostname").is_empty() {
        name(errors, &path.field("hostname"), text(address, "hostname"), validate_dns_label);
    }
    if let Some(node) = some(address, "nodeName").and_then(Value::as_str) {
        name(errors, &path.field("nodeName"), node, validate_dns_subdomain);
    }
    ip::endpoint_address(errors, &path.field("ip"), text(address, "ip"), loopback);
}

fn application(errors: &mut Errors, path: &Path<'_>, port: &Value) {
    if let Some(application) = some(port, "appProtocol").and_then(Value::as_str) {
        label_name(errors, &path.field("appProtocol"), application);
    }
}

impl Rules for EndpointSlice {
    fn labels_are_contents(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        for port in list_mut(object, "ports") {
            if some(port, "name").is_none() {
                fill(port, "name", "");
            }
            fill(port, "protocol", "TCP");
        }
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        slice_head(errors, object);
        endpoints(errors, object, context);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        slice_head(errors, new);
        if !same_field(new, old, "endpoints") {
            endpoints(errors, new, context);
        }
        immutable(errors, &Path::root("addressType"), new, old, "addressType");
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[Column::text("AddressType"), Column::text("Ports"), Column::text("Endpoints"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let ports: Vec<String> = list(object, "ports")
            .iter()
            .map(|port| some(port, "port").map_or_else(|| text(port, "name").to_owned(), Value::to_string))
            .collect();
        let addresses: Vec<String> = list(object, "endpoints")
            .iter()
            .flat_map(|endpoint| list(endpoint, "addresses"))
            .map(|address| address.as_str().unwrap_or_default().to_owned())
            .collect();
        let ports = if ports.is_empty() { "<unset>".to_owned() } else { first_few(&ports) };
        let addresses = if addresses.is_empty() { "<unset>".to_owned() } else { first_few(&addresses) };
        vec![text(object, "addressType").into(), ports.into(), addresses.into(), age(object, context)]
    }
}

fn first_few(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(",");
    match all.len().checked_sub(SHOWN_MAX) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} + {more} more..."),
    }
}

fn slice_head(errors: &mut Errors, object: &Value) {
    match text(object, "addressType") {
        "" => errors.required("addressType", ""),
        known if ADDRESS_TYPES.contains(&known) => {}
        other => errors.push("addressType", not_supported(other, ADDRESS_TYPES)),
    }
    let (path, ports) = (Path::root("ports"), list(object, "ports"));
    if ports.len() > PORTS_MAX {
        return errors.push(path, FieldProblem::TooMany(ports.len(), PORTS_MAX));
    }
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (path, own) = (path.index(at), text(port, "name"));
        if !own.is_empty() {
            name(errors, &path.field("name"), own, validate_dns_label);
        }
        if !names.insert(own) {
            errors.push(path.field("name"), FieldProblem::Duplicate(own.into()));
        }
        protocol(errors, &path, port);
        application(errors, &path, port);
    }
}

fn endpoints(errors: &mut Errors, object: &Value, context: &Context<'_>) {
    let (path, all) = (Path::root("endpoints"), list(object, "endpoints"));
    if all.len() > ENDPOINTS_MAX {
        return errors.push(path, FieldProblem::TooMany(all.len(), ENDPOINTS_MAX));
    }
    let kind = text(object, "addressType");
    let loopback = may_be_loopback(object, context);
    for (at, endpoint) in all.iter().enumerate() {
        let path = path.index(at);
        let addresses = list(endpoint, "addresses");
        if addresses.is_empty() {
            errors.required(path.field("addresses"), "must contain at least 1 address");
        } else if addresses.len() > ADDRESSES_MAX {
            errors.push(path.field("addresses"), FieldProblem::TooMany(addresses.len(), ADDRESSES_MAX));
        }
        for (at, address) in addresses.iter().enumerate() {
            let path = path.field("addresses");
            slice_address(errors, &path, at, kind, (address.as_str().unwrap_or_default(), loopback));
        }
        if let Some(node) = some(endpoint, "nodeName").and_then(Value::as_str) {
            name(errors, &path.field("nodeName"), node, validate_dns_subdomain);
        }
        if let Some(host) = some(endpoint, "hostname").and_then(Value::as_str) {
            name(errors, &path.field("hostname"), host, validate_dns_label);
        }
        hints(errors, &path, &endpoint["hints"]);
    }
}

fn slice_address(errors: &mut Errors, path: &Path<'_>, at: usize, kind: &str, address: (&str, bool)) {
    let (address, loopback) = address;
    let item = path.index(at);
    match kind {
        "IPv4" | "IPv6" => {
            if !ip::address(errors, &item, address, &BTreeSet::new()) {
                return;
            }
            if ip::is_ipv6(address) != (kind == "IPv6") {
                errors.invalid(path, address, format!("must be an {kind} address"));
            }
            ip::endpoint_address(errors, &item, address, loopback);
        }
        "FQDN" => name(errors, &item, address.trim_end_matches('.'), validate_dns_subdomain),
        _ => {}
    }
}

fn hints(errors: &mut Errors, path: &Path<'_>, hints: &Value) {
    for field in ["forZones", "forNodes"] {
        let (path, all) = (path.field("hints"), list(hints, field));
        let path = path.field(field);
        if all.len() > HINTS_MAX {
            errors.push(path, FieldProblem::TooMany(all.len(), HINTS_MAX));
            return;
        }
        for (at, hint) in all.iter().enumerate() {
            let (path, own) = (path.index(at), text(hint, "name"));
            if all[..at].iter().any(|other| text(other, "name") == own) {
                errors.push(path.field("name"), FieldProblem::Duplicate(own.into()));
            }
            if field == "forZones" {
                label_value(errors, &path.field("name"), own);
            } else {
                name(errors, &path.field("name"), own, validate_dns_subdomain);
            }
        }
    }
}
