//! Services, endpoints, service accounts.

use lazaret_json::{Value, json};
use lazaret_model::validate_dns_label;

use crate::{
    Column, Context, Errors, Rules,
    check::{each_named, name, not_supported},
    kind::age,
    path::Path,
    rules::keep_status,
    value::{
        entries, field_mut, fill, is_filled, list, list_mut, number, put, put_or_remove, remove, some, text,
    },
};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// Services. Addresses are not given out here: a service without one is headless.
#[derive(Debug)]
pub(crate) struct Service;

/// Where a service leads.
#[derive(Debug)]
pub(crate) struct Endpoints;

/// Who pods are.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Rules for Service {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        fill(spec, "sessionAffinity", "None");
        fill(spec, "type", "ClusterIP");
        for port in list_mut(spec, "ports") {
            fill(port, "protocol", "TCP");
            if some(port, "targetPort").is_none_or(|target| *target == 0 || *target == "") {
                let port_number = number(port, "port");
                put(port, "targetPort", port_number);
            }
        }
        if text(spec, "type") != "ExternalName" {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if matches!(text(spec, "type"), "NodePort" | "LoadBalancer") {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({"loadBalancer": {}}));
        addresses(field_mut(object, "spec"), None);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let spec = &object["spec"];
        let path = Path::root("spec");
        name(errors, &Path::root("metadata.name"), text(&object["metadata"], "name"), validate_dns_label);
        let kind = text(spec, "type");
        if !TYPES.contains(&kind) {
            errors.push(path.field("type"), not_supported(kind, TYPES));
        }
        let ports = list(spec, "ports");
        if ports.is_empty() && kind != "ExternalName" && text(spec, "clusterIP") != "None" {
            errors.required(path.field("ports"), "");
        }
        let several = ports.len() > 1;
        each_named(errors, &path.field("ports"), ports, usize::MAX, "name", |errors, path, port| {
            if several && !is_filled(port, "name") {
                errors.required(path.field("name"), "");
            }
            let port_number = number(port, "port");
            if !(1..=65_535).contains(&port_number) {
                errors.invalid(path.field("port"), port_number, "must be between 1 and 65535, inclusive");
            }
        });
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep_status(new, old);
        addresses(field_mut(new, "spec"), Some(&old["spec"]));
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        same_addresses(errors, &new["spec"], &old["spec"]);
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

fn has_address(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

/// Brings `clusterIP` and `clusterIPs` in line: a write of one sets the other, a write of neither keeps both, and a service that becomes
/// a name gives them back.
fn addresses(spec: &mut Value, old: Option<&Value>) {
    let nothing = Value::Null;
    let old = old.unwrap_or(&nothing);
    let same = |spec: &Value, field: &str| some(spec, field) == some(old, field);
    if has_address(spec) && has_address(old) {
        if text(spec, "clusterIP").is_empty() && list(spec, "clusterIPs").is_empty() {
            put_or_remove(spec, "clusterIP", some(old, "clusterIP").cloned());
        }
        if list(spec, "clusterIPs").is_empty() && same(spec, "clusterIP") {
            put_or_remove(spec, "clusterIPs", some(old, "clusterIPs").cloned());
        }
    } else if has_address(old) && same(spec, "clusterIP") && same(spec, "clusterIPs") {
        remove(spec, "clusterIP");
        remove(spec, "clusterIPs");
    }
    let address = text(spec, "clusterIP").to_owned();
    if address.is_empty() {
        if let Some(first) = list(spec, "clusterIPs").first().cloned() {
            put(spec, "clusterIP", first);
        }
    } else if list(spec, "clusterIPs").is_empty() || !same(spec, "clusterIP") && same(spec, "clusterIPs") {
        put(spec, "clusterIPs", json!([address]));
    }
}

/// Addresses stay once they are set, unless the service is or was a name.
fn same_addresses(errors: &mut Errors, new: &Value, old: &Value) {
    let headless = |spec: &Value| text(spec, "clusterIP") == "None";
    if !has_address(new) || !has_address(old) || headless(new) && headless(old) {
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

impl Rules for Endpoints {
    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Endpoints"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        const SHOWN_MAX: usize = 3;
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

impl Rules for ServiceAccount {}
