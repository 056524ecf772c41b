//! The downward API: fields and resources of a pod, for its own containers.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, ResourceFieldSelector};
use lazaret_model::Quantity;

use crate::{
    NodeFacts,
    amount::{self, amount, milli, units},
    pod::PodView,
    qos,
};

/// The value of a field for a variable. Beyond what [`field`] knows, a variable may have addresses and names of the node.
pub(crate) fn field_for_variable(
    selector: &ObjectFieldSelector,
    view: &PodView<'_>,
    facts: &NodeFacts,
    pod_ips: &[String],
) -> Result<String, String> {
    let version = selector.api_version.as_deref().unwrap_or("v1");
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    let path = selector.field_path.as_str();
    let pod_ips = preferred_first(pod_ips, facts);
    match path {
        "spec.nodeName" | "spec.host" => Ok(view.spec.node_name.clone().unwrap_or_default()),
        "spec.serviceAccountName" => Ok(view.spec.service_account_name.clone().unwrap_or_default()),
        "status.hostIP" => {
            facts.host_ips.first().cloned().ok_or_else(|| "the node has no address".to_owned())
        }
        "status.hostIPs" => Ok(facts.host_ips.join(",")),
        "status.podIP" => Ok(pod_ips.first().copied().unwrap_or_default().to_owned()),
        "status.podIPs" => Ok(pod_ips.join(",")),
        _ => match split_subscript(path) {
            Some(("metadata.annotations" | "metadata.labels", _)) => field(path, view),
            Some(_) => Err(format!("field label does not support subscript: {path}")),
            None if path.starts_with("metadata.") => field(path, view),
            None => Err(format!("field label not supported: {path}")),
        },
    }
}

/// The value of a field for a file.
pub(crate) fn field(path: &str, view: &PodView<'_>) -> Result<String, String> {
    let metadata = &view.pod.metadata;
    let get = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default()
    };
    match split_subscript(path) {
        Some(("metadata.annotations", key)) => {
            check_key(path, &key.to_lowercase())?;
            return Ok(get(&metadata.annotations, key));
        }
        Some(("metadata.labels", key)) => {
            check_key(path, key)?;
            return Ok(get(&metadata.labels, key));
        }
        Some(_) => return Err(format!("fieldPath {path:?} does not support subscript")),
        None => {}
    }
    match path {
        "metadata.annotations" => Ok(quoted_lines(metadata.annotations.as_ref())),
        "metadata.labels" => Ok(quoted_lines(metadata.labels.as_ref())),
        "metadata.name" => Ok(view.name.to_owned()),
        "metadata.namespace" => Ok(view.namespace.to_owned()),
        "metadata.uid" => Ok(view.uid.to_owned()),
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

/// `metadata.labels['KEY']`, taken apart.
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}

/// Refuses what cannot be a key of labels or annotations: `PREFIX/NAME`.
fn check_key(path: &str, key: &str) -> Result<(), String> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric();
    let is_name = (1..=63).contains(&name.len())
        && name.bytes().all(|byte| is_letter(byte) || matches!(byte, b'-' | b'_' | b'.'))
        && name.bytes().next().is_some_and(is_letter)
        && name.bytes().last().is_some_and(is_letter);
    if is_name && prefix.is_none_or(crate::names::is_subdomain) {
        return Ok(());
    }
    Err(format!("invalid key subscript in {path}: must be a qualified name"))
}

/// One `KEY="VALUE"` a line, quoted as Go quotes.
fn quoted_lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    lines.join("\n")
}

/// A text in double quotes, with the escapes of Go's `strconv.Quote`.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if is_printed(letter) => quoted.push(letter),
            _ if u32::from(letter) < 0x80 => quoted.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ if u32::from(letter) < 0x1_0000 => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => quoted.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    quoted.push('"');
    quoted
}

/// Rust's own escape leaves a letter alone when it can be printed, as Go's does. Of spaces, Go prints the plain one alone.
fn is_printed(letter: char) -> bool {
    letter == ' ' || letter == '\'' || (!letter.is_whitespace() && letter.escape_debug().eq([letter]))
}

/// Addresses of the family that the node prefers come first.
fn preferred_first<'a>(pod_ips: &'a [String], facts: &NodeFacts) -> Vec<&'a str> {
    let is_v6 = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
    let preferred = facts.host_ips.first().is_some_and(|address| is_v6(address));
    let mut sorted: Vec<&str> = pod_ips.iter().map(String::as_str).collect();
    sorted.sort_by_key(|address| is_v6(address) != preferred);
    sorted
}

/// An amount that a container asks for, in units of the divisor. Without a limit, it is what the node has.
pub(crate) fn resource(
    selector: &ResourceFieldSelector,
    view: &PodView<'_>,
    container: Option<&Container>,
    facts: &NodeFacts,
) -> Result<String, String> {
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let container = match (named, container) {
        (None, Some(container)) => Cow::Borrowed(container),
        (None, None) => return Err("container  not found".to_owned()),
        (Some(name), _) => crate::pod::long_running(view.spec)
            .find(|container| container.name == name)
            .map(Cow::Borrowed)
            .ok_or_else(|| format!("container {name} not found"))?,
    };
    let divisor = selector.divisor.as_ref().map(amount::parse).filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or_else(|| Quantity::from_i64(1));
    let divided = |quantity: &Quantity, count: fn(&Quantity) -> i64| {
        let (value, by) = (count(quantity), count(&divisor).max(1));
        (i128::from(value) + i128::from(by) - 1).div_euclid(i128::from(by)).to_string()
    };
    let unsupported = || Err(format!("unsupported container resource : {}", selector.resource));
    let Some((kind, name)) = selector.resource.split_once('.') else { return unsupported() };
    let is_huge = name.starts_with("hugepages-");
    if !is_huge && !matches!(name, "cpu" | "memory" | "ephemeral-storage") {
        return unsupported();
    }
    let quantity = match kind {
        "requests" => amount(amount::requests(&container), name),
        "limits" => {
            let limit = amount(amount::limits(&container), name);
            if limit.is_zero() && !is_huge { available(view, facts, name) } else { limit }
        }
        _ => return unsupported(),
    };
    Ok(if name == "cpu" { divided(&quantity, milli) } else { divided(&quantity, units) })
}

/// The amount available to a container without a limit: the pod's limit, or the node's allocatable.
fn available(view: &PodView<'_>, facts: &NodeFacts, name: &str) -> Quantity {
    let node = amount(Some(&facts.allocatable), name);
    let pod = qos::pod_level(view.spec).and_then(|resources| resources.limits.as_ref());
    let pod = if qos::counts(name) { amount(pod, name) } else { Quantity::zero() };
    if pod.is_zero() || !facts.allocatable.contains_key(name) { node } else { pod }
}
