//! Network policies.

use std::net::IpAddr;

use lazaret_json::{Value, json};

use crate::{
    Column, Context, Errors, Rules,
    addresses::{NO_CIDR, cidr},
    check::{label_selector, not_supported, selector_text},
    core::{port_name, port_number},
    kind::age,
    path::Path,
    value::{field_mut, fill, has, is_filled, list, list_mut, put, some, text, texts},
};

/// Network policies.
#[derive(Debug)]
pub(crate) struct NetworkPolicy;

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const TYPES: &[&str] = &["Ingress", "Egress"];
/// The rules of each direction, and where each names its peers.
const DIRECTIONS: &[(&str, &str)] = &[("ingress", "from"), ("egress", "to")];

impl Rules for NetworkPolicy {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        if !is_filled(spec, "policyTypes") {
            let types =
                if is_filled(spec, "egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            put(spec, "policyTypes", types);
        }
        for (direction, _) in DIRECTIONS {
            for rule in list_mut(spec, direction) {
                list_mut(rule, "ports").iter_mut().for_each(|port| fill(port, "protocol", "TCP"));
            }
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (spec, path) = (&object["spec"], Path::root("spec"));
        label_selector(errors, &path.field("podSelector"), &spec["podSelector"]);
        for (direction, peers) in DIRECTIONS {
            for (at, rule) in list(spec, direction).iter().enumerate() {
                let path = path.field(direction);
                let path = path.index(at);
                for (at, port) in list(rule, "ports").iter().enumerate() {
                    self::port(errors, &path.field("ports").index(at), port);
                }
                for (at, peer) in list(rule, peers).iter().enumerate() {
                    self::peer(errors, &path.field(peers).index(at), peer);
                }
            }
        }
        let types = list(spec, "policyTypes");
        if types.len() > TYPES.len() {
            let why = "may not specify more than two policyTypes";
            errors.invalid(path.field("policyTypes"), spec["policyTypes"].clone(), why);
            return;
        }
        for (at, kind) in texts(spec, "policyTypes").enumerate().filter(|(_, kind)| !TYPES.contains(kind)) {
            errors.push(path.field("policyTypes").index(at), not_supported(kind, TYPES));
        }
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Pod-Selector"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![selector_text(&object["spec"]["podSelector"]).into(), age(object, context)]
    }
}

fn port(errors: &mut Errors, path: &Path<'_>, port: &Value) {
    let protocol = text(port, "protocol");
    if !protocol.is_empty() && !PROTOCOLS.contains(&protocol) {
        errors.push(path.field("protocol"), not_supported(protocol, PROTOCOLS));
    }
    let end = some(port, "endPort").and_then(Value::as_i64);
    match some(port, "port") {
        None => {
            if let Some(end) = end {
                errors.invalid(
                    path.field("endPort"),
                    end,
                    "may not be specified when `port` is not specified",
                );
            }
        }
        Some(said) => match said.as_i64() {
            Some(number) => {
                port_number(errors, &path.field("port"), number);
                if let Some(end) = end {
                    if end < number {
                        errors.invalid(path.field("endPort"), end, "must be greater than or equal to `port`");
                    }
                    port_number(errors, &path.field("endPort"), end);
                }
            }
            None => {
                if let Some(end) = end {
                    let why = "may not be specified when `port` is non-numeric";
                    errors.invalid(path.field("endPort"), end, why);
                }
                port_name(errors, &path.field("port"), said.as_str().unwrap_or_default());
            }
        },
    }
}

fn peer(errors: &mut Errors, path: &Path<'_>, peer: &Value) {
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = some(peer, field) {
            label_selector(errors, &path.field(field), selector);
        }
    }
    let selects = has(peer, "podSelector") || has(peer, "namespaceSelector");
    match some(peer, "ipBlock") {
        Some(block) => {
            ip_block(errors, &path.field("ipBlock"), block);
            if selects {
                errors.forbidden(path, "may not specify both ipBlock and another peer");
            }
        }
        None if !selects => errors.required(path, "must specify a peer"),
        None => {}
    }
}

/// The first `bits` bits of an address.
fn prefix(address: IpAddr, bits: u32) -> u128 {
    let (value, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    value.checked_shr(width - bits).unwrap_or(0)
}

fn ip_block(errors: &mut Errors, path: &Path<'_>, block: &Value) {
    let said = text(block, "cidr");
    if said.is_empty() {
        errors.required(path.field("cidr"), "");
        return;
    }
    let Some((address, bits)) = cidr(said) else {
        errors.invalid(path.field("cidr"), said, NO_CIDR);
        return;
    };
    for (at, except) in texts(block, "except").enumerate() {
        let path = path.field("except");
        let path = path.index(at);
        match cidr(except) {
            None => errors.invalid(path, except, NO_CIDR),
            Some((inner, inner_bits)) => {
                let inside = inner.is_ipv4() == address.is_ipv4()
                    && bits < inner_bits
                    && prefix(inner, bits) == prefix(address, bits);
                if !inside {
                    errors.invalid(path, except, "must be a strict subset of `cidr`");
                }
            }
        }
    }
}
