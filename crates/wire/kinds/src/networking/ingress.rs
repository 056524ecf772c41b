//! Ingresses.

use std::{collections::BTreeSet, net::IpAddr};

use lazaret_json::Value;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use super::ingress_class::object_reference;
use crate::{
    Column, Context, Errors, Rules,
    check::{name, not_supported},
    core::{port_name, port_number},
    kind::age,
    path::Path,
    value::{has, is_filled, list, number, remove, some, text, texts},
};

/// Ingresses.
#[derive(Debug)]
pub(crate) struct Ingress;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const HOSTS_SHOWN_MAX: usize = 3;
const ADDRESS_CHARS_MAX: usize = 16;

impl Rules for Ingress {
    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        remove(object, "status");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        spec(errors, &object["spec"]);
        let class = some(&object["spec"], "ingressClassName").and_then(Value::as_str);
        let said = some(&object["metadata"]["annotations"], CLASS_ANNOTATION).and_then(Value::as_str);
        match (said, class) {
            (Some(said), Some(class)) if said != class => errors.invalid(
                format!("annotations.{CLASS_ANNOTATION}"),
                said,
                "must match `ingressClassName` when both are specified",
            ),
            (Some(_), None) => errors.warn(format!(
                "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
            )),
            _ => {}
        }
    }

    fn validate_update(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        spec(errors, &new["spec"]);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Class"),
            Column::text("Hosts"),
            Column::text("Address"),
            Column::text("Ports"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let spec = &object["spec"];
        let class = some(spec, "ingressClassName").and_then(Value::as_str).unwrap_or("<none>");
        let ports = if is_filled(spec, "tls") { "80, 443" } else { "80" };
        let address = address(&object["status"]["loadBalancer"]);
        vec![
            class.into(),
            hosts(list(spec, "rules")).into(),
            address.into(),
            ports.into(),
            age(object, context),
        ]
    }
}

fn hosts(rules: &[Value]) -> String {
    let named: Vec<&str> =
        rules.iter().map(|rule| text(rule, "host")).filter(|host| !host.is_empty()).collect();
    match named.get(..HOSTS_SHOWN_MAX) {
        _ if named.is_empty() => "*".into(),
        Some(shown) if rules.len() > HOSTS_SHOWN_MAX => {
            format!("{} + {} more...", shown.join(","), rules.len() - HOSTS_SHOWN_MAX)
        }
        _ => named.join(","),
    }
}

fn address(balancer: &Value) -> String {
    let of = |ingress: &Value| match text(ingress, "ip") {
        "" => text(ingress, "hostname").to_owned(),
        ip => ip.to_owned(),
    };
    let all: BTreeSet<String> =
        list(balancer, "ingress").iter().map(of).filter(|address| !address.is_empty()).collect();
    let text = all.into_iter().collect::<Vec<_>>().join(",");
    if text.chars().count() <= ADDRESS_CHARS_MAX {
        return text;
    }
    text.chars().take(ADDRESS_CHARS_MAX - 3).chain("...".chars()).collect()
}

fn spec(errors: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    if !is_filled(spec, "rules") && !has(spec, "defaultBackend") {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(path, spec["rules"].clone(), why);
    }
    if let Some(backend) = some(spec, "defaultBackend") {
        self::backend(errors, &path.field("defaultBackend"), backend);
    }
    for (at, rule) in list(spec, "rules").iter().enumerate() {
        self::rule(errors, &path.field("rules").index(at), rule);
    }
    for (at, tls) in list(spec, "tls").iter().enumerate() {
        let path = path.field("tls");
        let path = path.index(at);
        for (at, host) in texts(tls, "hosts").enumerate() {
            self::host(errors, &path.field("hosts").index(at), host);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            name(errors, &path.field("secretName"), secret, validate_dns_subdomain);
        }
    }
    if has(spec, "ingressClassName") {
        let class = text(spec, "ingressClassName");
        name(errors, &path.field("ingressClassName"), class, validate_dns_subdomain);
    }
}

/// A name, or `*.` and a name.
fn host(errors: &mut Errors, path: &Path<'_>, host: &str) {
    if host.contains('*') {
        let rest = host.strip_prefix("*.").filter(|rest| validate_dns_subdomain(rest).is_ok());
        if rest.is_none() {
            errors.invalid(
                path,
                host,
                "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            );
        }
    } else {
        name(errors, path, host, validate_dns_subdomain);
    }
}

fn rule(errors: &mut Errors, path: &Path<'_>, rule: &Value) {
    let host = text(rule, "host");
    if !host.is_empty() {
        if host.parse::<IpAddr>().is_ok() {
            errors.invalid(path.field("host"), host, "must be a DNS name, not an IP address");
        }
        self::host(errors, &path.field("host"), host);
    }
    if let Some(http) = some(rule, "http") {
        let path = path.field("http");
        let path = path.field("paths");
        if !is_filled(http, "paths") {
            errors.required(path, "");
        }
        for (at, item) in list(http, "paths").iter().enumerate() {
            http_path(errors, &path.index(at), item);
        }
    }
}

fn http_path(errors: &mut Errors, path: &Path<'_>, item: &Value) {
    if !has(item, "pathType") {
        errors.required(path.field("pathType"), "pathType must be specified");
        return;
    }
    let (kind, said) = (text(item, "pathType"), text(item, "path"));
    let absolute = said.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.invalid(path.field("path"), said, "must be an absolute path");
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| said.contains(**part)) {
                errors.invalid(path.field("path"), said, format!("must not contain '{sequence}'"));
            }
            for suffix in ["/..", "/."].iter().filter(|suffix| said.ends_with(**suffix)) {
                errors.invalid(path.field("path"), said, format!("cannot end with '{suffix}'"));
            }
        }
        "ImplementationSpecific" if !said.is_empty() && !absolute => {
            errors.invalid(path.field("path"), said, "must be an absolute path");
        }
        "ImplementationSpecific" => {}
        other => errors.push(path.field("pathType"), not_supported(other, PATH_TYPES)),
    }
    backend(errors, &path.field("backend"), &item["backend"]);
}

fn backend(errors: &mut Errors, path: &Path<'_>, backend: &Value) {
    match (some(backend, "resource"), some(backend, "service")) {
        (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (Some(resource), None) => object_reference(errors, &path.field("resource"), resource),
        (None, Some(service)) => self::service(errors, path, service),
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

fn service(errors: &mut Errors, path: &Path<'_>, service: &Value) {
    let at = path.field("service");
    match text(service, "name") {
        "" => errors.required(at.field("name"), ""),
        said => name(errors, &at.field("name"), said, validate_dns_label),
    }
    let port = &service["port"];
    let at = at.field("port");
    match (text(port, "name"), number(port, "number")) {
        ("", 0) => errors.required(path, "port name or number is required"),
        ("", port) => port_number(errors, &at.field("number"), port),
        (said, 0) => port_name(errors, &at.field("name"), said),
        _ => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}
