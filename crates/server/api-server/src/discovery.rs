//! Discovery: the groups, versions and resources that are served.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_json::{Value, json};
use lazaret_kinds::{Kind, Name, Release, Scope, Subresource, Verbs};
use serde::Serialize;

use crate::{Server, kind_ref::KindRef, negotiate::Form, proxy::usage, respond::Answer};

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The version that clients take this server for.
pub(crate) fn version(emulated: Release) -> Value {
    json!({
        "major": "1", "minor": "37", "gitVersion": concat!("v1.37.0+lazaret-", env!("CARGO_PKG_VERSION")), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go1.27", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, architecture()),
        "emulationMajor": "1", "emulationMinor": emulated.minor().to_string(),
        "minCompatibilityMajor": "1", "minCompatibilityMinor": emulated.compatible_from().minor().to_string(),
    })
}

/// The processor by the name that Kubernetes has for it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Where there is something to find, whatever form is asked for.
pub(crate) fn index(server: &Server) -> Answer {
    Answer::value(200, &json!({"paths": paths(server)}))
}

pub(crate) fn answer(server: &Server, path: &str, form: Form) -> Option<Answer> {
    let parts: Vec<&str> = path.split('/').collect();
    let value = match parts.as_slice() {
        ["api"] if form == Form::AggregatedDiscovery => return Some(aggregated(server, true)),
        ["apis"] if form == Form::AggregatedDiscovery => return Some(aggregated(server, false)),
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        }),
        ["apis"] => {
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(server).iter().map(|group| group_value(server, group)).collect::<Vec<_>>()})
        }
        ["apis", group] => {
            let mut value =
                groups(server).iter().any(|known| known == group).then(|| group_value(server, group))?;
            value["kind"] = "APIGroup".into();
            value["apiVersion"] = "v1".into();
            value
        }
        ["api", version] => return resources(server, "", version),
        ["apis", group, version] => return resources(server, group, version),
        _ => return None,
    };
    Some(Answer::value(200, &value))
}

fn paths(server: &Server) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in groups(server) {
        let below = versions(server, &group).into_iter().map(|version| format!("/apis/{group}/{version}"));
        paths.extend(std::iter::once(format!("/apis/{group}")).chain(below));
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned),
    );
    paths.sort();
    paths
}

/// Groups but the core, in order of appearance.
fn groups(server: &Server) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for kind in server.kinds().iter().filter(|kind| !kind.group.is_empty()) {
        let served = kind.versions.iter().any(|served| server.serves(kind, served));
        if served && !groups.iter().any(|known| *known == kind.group) {
            groups.push(kind.group.to_string());
        }
    }
    // Where a definition has kinds of that group, those are served.
    if usage::is_served(server) && !groups.iter().any(|known| known == usage::GROUP) {
        groups.push(usage::GROUP.to_owned());
    }
    groups
}

/// Versions of a group, the preferred one first.
fn versions(server: &Server, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for kind in server.kinds().iter().filter(|kind| kind.group == group) {
        for served in kind.versions.iter().filter(|served| server.serves(kind, served)) {
            if !versions.iter().any(|known| *known == served.version) {
                versions.push(served.version.to_string());
            }
        }
    }
    if group == usage::GROUP
        && usage::is_served(server)
        && !versions.iter().any(|known| known == usage::VERSION)
    {
        versions.push(usage::VERSION.to_owned());
    }
    versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    versions
}

/// Orders versions as Kubernetes does: v2 over v1 over v1beta2 over v1beta1 over v1alpha3, and over all that are named otherwise.
fn priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let name = std::cmp::Reverse(version.to_owned());
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let split = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        (rest[..end].to_owned(), rest[end..].to_owned())
    };
    let parsed = version.strip_prefix('v').map(split).and_then(|(major, rest)| {
        let major = number(&major)?;
        let (stability, minor) = match rest.as_str() {
            "" => return Some((3, major, 0)),
            rest if rest.starts_with("beta") => (2, &rest[4..]),
            rest if rest.starts_with("alpha") => (1, &rest[5..]),
            _ => return None,
        };
        Some((stability, major, number(minor)?))
    });
    match parsed {
        Some((stability, major, minor)) => (stability, major, minor, name),
        None => (0, 0, 0, name),
    }
}

fn group_value(server: &Server, group: &str) -> Value {
    let versions: Vec<Value> = versions(server, group)
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

fn served(server: &Server, group: &str, version: &str) -> Vec<KindRef> {
    let mut kinds = server.kinds();
    kinds.retain(|kind| {
        kind.group == group && kind.served(version).is_some_and(|served| server.serves(kind, served))
    });
    kinds
}

fn verbs(kind: &Kind) -> Vec<&'static str> {
    match kind.verbs {
        Verbs::All => ALL_VERBS.to_vec(),
        Verbs::OneByOne => ALL_VERBS.iter().copied().filter(|verb| *verb != "deletecollection").collect(),
        Verbs::Create => vec!["create"],
        Verbs::Ending => ALL_VERBS.iter().copied().filter(|verb| *verb != "create").collect(),
    }
}

/// The resources of a version of a group. The order of the fields is Kubernetes' own: clients read this with text tools as well.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    kind: &'static str,
    api_version: &'static str,
    group_version: String,
    resources: Vec<Resource>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    name: String,
    singular_name: String,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'static str,
    kind: String,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<Name>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

impl Resource {
    fn of(kind: &Kind) -> Self {
        Self {
            name: kind.plural.to_string(),
            singular_name: kind.singular.to_string(),
            namespaced: kind.scope == Scope::Namespaced,
            group: "",
            version: "",
            kind: kind.kind.to_string(),
            verbs: verbs(kind),
            short_names: kind.short.clone(),
            categories: kind.categories.clone(),
            storage_version_hash: (kind.verbs != Verbs::Create).then(|| storage_hash(kind)),
        }
    }

    fn of_usage((plural, kind, namespaced): &(&str, &str, bool)) -> Self {
        Self {
            name: (*plural).to_owned(),
            singular_name: String::new(),
            namespaced: *namespaced,
            group: "",
            version: "",
            kind: (*kind).to_owned(),
            verbs: usage::VERBS.to_vec(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: None,
        }
    }

    fn under(kind: &Kind, subresource: &Subresource) -> Self {
        let elsewhere = subresource.takes.filter(|(group, ..)| !group.is_empty());
        let (group, version, _) = elsewhere.unwrap_or_default();
        Self {
            name: format!("{}/{}", kind.plural, subresource.name),
            singular_name: String::new(),
            group,
            version,
            kind: subresource.takes.map_or(&*kind.kind, |(_, _, kind)| kind).to_owned(),
            verbs: subresource.verbs.to_vec(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: None,
            ..Self::of(kind)
        }
    }
}

fn resources(server: &Server, group: &str, version: &str) -> Option<Answer> {
    let kinds = served(server, group, version);
    let is_usage = group == usage::GROUP && version == usage::VERSION && usage::is_served(server);
    if kinds.is_empty() && !is_usage {
        return None;
    }
    let resources = kinds.iter().flat_map(|kind| {
        let below = kind.subresources.iter().map(|subresource| Resource::under(kind, subresource));
        std::iter::once(Resource::of(kind)).chain(below)
    });
    let resources = resources.chain(usage::RESOURCES.iter().filter(|_| is_usage).map(Resource::of_usage));
    let list = ResourceList {
        kind: "APIResourceList",
        api_version: "v1",
        group_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
        resources: resources.collect(),
    };
    Some(Answer::json(200, serde_json::to_string(&list).ok()?))
}

/// The hash by which clients see that the stored form changes. It need only be the same for the same form.
fn storage_hash(kind: &Kind) -> String {
    let text = format!("{}/{}/{}", kind.group, kind.hub().version, kind.kind);
    STANDARD.encode(fingerprint(text.as_bytes()).to_be_bytes())
}

/// The same for the same bytes, and hardly ever for others.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn aggregated(server: &Server, core: bool) -> Answer {
    let names = if core { vec![String::new()] } else { groups(server) };
    let mut items = Vec::new();
    for group in names {
        let versions: Vec<Value> = versions(server, &group)
            .iter()
            .map(|version| {
                let kinds = served(server, &group, version);
                let of_usage = usage::RESOURCES.iter().filter(|_| group == usage::GROUP);
                let resources = kinds.iter().map(|kind| aggregated_resource(kind));
                let resources: Vec<Value> = resources.chain(of_usage.map(aggregated_usage)).collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            })
            .collect();
        items.push(json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions}));
    }
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    let text = list.to_string();
    Answer { content_type: AGGREGATED, tag: Some(fingerprint(text.as_bytes())), ..Answer::json(200, text) }
}

fn aggregated_usage((plural, kind, namespaced): &(&str, &str, bool)) -> Value {
    json!({
        "resource": plural, "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": if *namespaced { "Namespaced" } else { "Cluster" }, "singularResource": "", "verbs": usage::VERBS,
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let mut by_name: BTreeMap<&str, Value> = BTreeMap::new();
    for subresource in &kind.subresources {
        let (group, version, name) = subresource.takes.unwrap_or(("", "", &kind.kind));
        // The group and version of the surrounding list are not repeated.
        let version = if group.is_empty() { "" } else { version };
        let response = json!({"group": group, "version": version, "kind": name});
        by_name.insert(
            subresource.name,
            json!({"subresource": subresource.name, "responseKind": response, "verbs": subresource.verbs}),
        );
    }
    let mut entry = json!({
        "resource": kind.plural, "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": if kind.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": verbs(kind),
    });
    for (name, list) in [("shortNames", &kind.short), ("categories", &kind.categories)] {
        if !list.is_empty() {
            entry[name] = json!(list);
        }
    }
    if !by_name.is_empty() {
        entry["subresources"] = by_name.into_values().collect();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut versions =
            ["foo10", "v1", "v11alpha2", "v2", "v10beta3", "v1beta1", "v12", "foo1", "v3beta1", "v11", "v10"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(
            versions,
            ["v12", "v11", "v10", "v2", "v1", "v10beta3", "v3beta1", "v1beta1", "v11alpha2", "foo1", "foo10"]
        );
    }
}
