//! Dependencies point one way, and cores stay pure.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use lazaret_tidy::{Workspace, files};

/// For each crate, which of ours it may stand on. A crate that is not here has no place yet: give it one, here and
/// in `docs/architecture.md`.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    (EVERYWHERE, &[]),
    ("model", &[]),
    ("machine", &["model"]),
    ("leader", &["model", "machine"]),
    ("regex", &[]),
    ("cel", &["model", "regex"]),
    ("fleet", &["model", "cel"]),
    ("allocator", &["model", "cel", "fleet"]),
    ("eviction", &["model", "machine", "fleet", "allocator"]),
    ("replacement", &["model", "machine", "fleet"]),
    ("claims", &["model", "machine"]),
    ("classic", &["model", "machine"]),
    ("policies", &["model", "machine", "fleet"]),
    ("lifecycle", &["model", "machine", "cel"]),
    ("signals", &["model", "fleet", "lifecycle"]),
    ("pools", &["model", "machine", "fleet"]),
    ("quota", &["model", "machine"]),
    ("holdings", &["model"]),
    ("scheduler", &["model", "machine", "cel", "fleet", "allocator", "classic", "holdings"]),
    ("workloads", &["model", "machine"]),
    ("conflict", &[]),
    ("kubelet", &["conflict", "model", "machine"]),
    ("api", &["model", "cel", "lifecycle", "replacement", "classic"]),
    ("json", &[]),
    ("schema", &["model", "json"]),
    ("patch", &["json", "schema"]),
    ("fields", &["model", "json", "schema"]),
    ("crd", &["model", "cel", "json", "schema", "fields"]),
    ("kinds", &["model", "cel", "json", "schema", "fields", "crd", "api", "classic"]),
    ("storage", &[]),
    ("store", &["storage"]),
    ("memory", &["storage"]),
    ("missing", &[]),
    ("print", &[]),
    ("dashboard", &[]),
    ("cdi", &[]),
    ("publisher", &["model", "machine"]),
    ("node", &["conflict", "machine"]),
    ("flow", &[]),
    ("trust", &[]),
    ("host", &[]),
    (
        "server",
        &[
            "model", "json", "schema", "patch", "kinds", "quota", "holdings", "storage", "flow", "trust",
            "host",
        ],
    ),
    ("runtime", &["model", "machine", "leader", "api", "classic"]),
    (
        "controllers",
        &[
            "model",
            "machine",
            "fleet",
            "eviction",
            "replacement",
            "claims",
            "classic",
            "policies",
            "lifecycle",
            "signals",
            "pools",
            "quota",
            "scheduler",
            "workloads",
            "api",
            "runtime",
        ],
    ),
    ("webhook", &["host", "server", "runtime"]),
    ("hollow", &["model", "machine", "kubelet", "api", "runtime"]),
    ("alerts", &["host", "runtime"]),
    ("driver", &["conflict", "model", "machine", "cdi", "publisher", "api", "classic", "runtime"]),
    ("containers", &["cdi"]),
    ("images", &[]),
    ("pods", &["machine"]),
    ("spdy", &[]),
    ("cri", &["driver", "containers", "images", "spdy"]),
    ("provision", &["model", "containers", "images"]),
    ("nodeapi", &["containers", "host", "spdy"]),
    (
        "agent",
        &[
            "model",
            "api",
            "runtime",
            "trust",
            "node",
            "driver",
            "pods",
            "containers",
            "images",
            "provision",
            "nodeapi",
        ],
    ),
    ("example", &["cdi", "driver"]),
    ("nvml", &[]),
    ("nvml-double", &[]),
    ("nvidia", &["cdi", "driver", "nvml"]),
    ("testkit", &["store", "server", "runtime", "controllers", "hollow"]),
    (
        "sim",
        &[
            "model",
            "machine",
            "leader",
            "kubelet",
            "cel",
            "fleet",
            "eviction",
            "lifecycle",
            "signals",
            "allocator",
            "claims",
            "replacement",
            "scheduler",
            "holdings",
            "workloads",
            "api",
        ],
    ),
    (
        "device",
        &[
            "model",
            "cel",
            "fleet",
            "allocator",
            "eviction",
            "api",
            "kinds",
            "print",
            "host",
            "dashboard",
            "runtime",
        ],
    ),
    ("whatif", &["model", "eviction", "api", "device"]),
    ("bench", &["runtime", "hollow", "print", "driver", "example"]),
    ("heap", &[]),
    (
        "cli",
        &[
            "heap",
            "host",
            "model",
            "cel",
            "fleet",
            "allocator",
            "eviction",
            "api",
            "print",
            "store",
            "server",
            "device",
            "dashboard",
            "scheduler",
            "runtime",
            "controllers",
            "alerts",
            "hollow",
            "bench",
            "cdi",
            "driver",
            "example",
            "nvidia",
            "agent",
            "containers",
            "cri",
            "images",
            "lifecycle",
            "webhook",
        ],
    ),
    ("instructions", &["model", "cel", "fleet", "allocator", "eviction", "lifecycle", "store", "server"]),
    ("tidy", &[]),
];

/// Every crate may stand on this one.
const EVERYWHERE: &str = "invariant";

/// Crates that decide and never do. Their dependencies besides each other are listed with the reason.
const CORES: &[&str] = &[
    EVERYWHERE,
    "model",
    "machine",
    "leader",
    "regex",
    "cel",
    "fleet",
    "allocator",
    "eviction",
    "replacement",
    "claims",
    "classic",
    "conflict",
    "policies",
    "lifecycle",
    "signals",
    "pools",
    "quota",
    "holdings",
    "scheduler",
    "workloads",
    "kubelet",
    "flow",
    "publisher",
    "node",
    "pods",
];
const PURE_LIBRARIES: &[(&str, &str)] = &[
    ("hashbrown", "hash maps without std's random seed"),
    ("once_cell", "what is worked out when first asked for, without a lock"),
    ("rustc-hash", "a fast hash that is the same in every run"),
    ("siphasher", "a hash of 128 bits without collisions that anybody could construct"),
    ("smallvec", "short lists without an allocation"),
    ("num-bigint", "amounts beyond 128 bits"),
    ("num-traits", "comes with num-bigint"),
    ("regex", "linear-time regular expressions for CEL"),
    ("libm", "floating-point functions that core lacks"),
    ("jiff", "calendar arithmetic for CEL timestamps, without its clock"),
    ("thiserror", "error texts"),
    ("smallvec", "short lists without an allocation"),
    ("k8s-openapi", "the shapes of Kubernetes' own objects, no client"),
    ("serde", "reads those shapes"),
    ("serde_json", "bodies of writes, as values"),
];

/// Paths that give a core a clock, a file, a socket, a thread or a random number.
const FORBIDDEN_IN_CORES: &[&str] = &[
    "std::time",
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "std::process",
    "std::io",
    "std::collections",
    "Instant::now",
    "SystemTime",
    "Timestamp::now",
    "Zoned::now",
    "rand::",
    "getrandom",
    "tokio",
    "extern crate std",
];

fn short(name: &str) -> &str {
    name.strip_prefix("lazaret-").unwrap_or(if name == "lazaret" { "cli" } else { name })
}

#[test]
fn every_crate_has_a_place_and_depends_only_downwards() {
    let workspace = Workspace::load().unwrap();
    let allowed: BTreeMap<_, _> = MAY_DEPEND_ON.iter().copied().collect();
    let ours: Vec<&str> = workspace.crates.iter().map(|package| package.name.as_str()).collect();
    let mut wrong = Vec::new();
    for package in &workspace.crates {
        let Some(may) = allowed.get(short(&package.name)) else {
            wrong.push(format!("{} has no place in MAY_DEPEND_ON", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|name| ours.contains(&name.as_str())) {
            if short(dependency) != EVERYWHERE && !may.contains(&short(dependency)) {
                wrong.push(format!("{} must not depend on {dependency}", package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_version_of_a_library_stands_in_one_place() {
    let workspace = Workspace::load().unwrap();
    let mut wrong = Vec::new();
    for package in &workspace.crates {
        let path = package.folder.join("Cargo.toml");
        let mut is_dependencies = false;
        for (at, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            if line.starts_with('[') {
                is_dependencies = line.contains("dependencies");
                continue;
            }
            let says = line.split_once('=').map(|(_, value)| value.trim());
            let has_version = says.is_some_and(|value| value.starts_with('"') || value.contains("version ="));
            if is_dependencies && has_version {
                wrong.push(format!("{}:{}: {line}", path.display(), at + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "versions stand in the workspace's Cargo.toml:\n{}", wrong.join("\n"));
}

#[test]
fn the_table_of_places_has_no_cycle() {
    let position: BTreeMap<_, _> =
        MAY_DEPEND_ON.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
    for (name, may) in MAY_DEPEND_ON {
        for below in *may {
            assert!(position[below] < position[name], "{name} stands before {below} in MAY_DEPEND_ON");
        }
    }
}

#[test]
fn cores_are_built_from_pure_libraries_only() {
    let workspace = Workspace::load().unwrap();
    let mut wrong = Vec::new();
    for package in workspace.crates.iter().filter(|package| CORES.contains(&short(&package.name))) {
        for dependency in &package.dependencies {
            let pure = CORES.contains(&short(dependency))
                || PURE_LIBRARIES.iter().any(|(library, _)| library == dependency);
            if !pure {
                wrong.push(format!("{}: {dependency} is not known to be pure", package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cores_reach_for_no_clock_no_io_and_no_randomness() {
    let workspace = Workspace::load().unwrap();
    let mut wrong = Vec::new();
    for package in workspace.crates.iter().filter(|package| CORES.contains(&short(&package.name))) {
        let source = package.folder.join("src");
        let root = fs::read_to_string(source.join("lib.rs")).unwrap();
        if !root.contains("\n#![no_std]\n") {
            wrong.push(format!("{}: src/lib.rs does not say #![no_std]", package.name));
        }
        for path in files(&source, ".rs") {
            let text = fs::read_to_string(&path).unwrap();
            for (number, line) in without_tests(&text) {
                let code = line.split("//").next().unwrap_or_default();
                for word in FORBIDDEN_IN_CORES.iter().filter(|word| code.contains(**word)) {
                    wrong.push(format!("{}:{number}: {word}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lines of a file before its first item for tests, with their numbers. The `extern crate std` of a test build
/// is an item for tests too.
fn without_tests(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut skip_next = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#[cfg(test)]") || line.trim_start().starts_with("#[cfg(any(test") {
            skip_next = true;
            continue;
        }
        if skip_next && line.trim_start().starts_with("mod tests {") {
            break;
        }
        if !skip_next {
            lines.push((at + 1, line));
        }
        skip_next = false;
    }
    lines
}

/// The files of `controllers` that make a client, a writer or an event. `PartContext` puts its client under the lease of its part; a plane discovers
/// the resources of the server and takes the leases; events go through the postbox in one form.
const WRITES_BEGIN_IN: &[(&str, &[&str])] = &[
    ("hub.client()", &["context.rs", "plane.rs"]),
    ("Client::new(", &[]),
    ("Client::direct(", &[]),
    ("Writer::new(", &["context.rs"]),
    ("Events::new(", &["context.rs"]),
    (".postbox()", &["context.rs"]),
    ("EVENTS", &["event.rs"]),
    ("/events", &[]),
];

#[test]
fn controllers_write_under_a_lease_and_post_events_through_the_postbox() {
    let workspace = Workspace::load().unwrap();
    let source = workspace.root.join("crates/controllers/src");
    let mut found = BTreeSet::new();
    for path in files(&source, ".rs") {
        let text = fs::read_to_string(&path).unwrap();
        let file = path.strip_prefix(&source).unwrap().to_str().unwrap();
        for (_, line) in without_tests(&text) {
            let code = line.split("//").next().unwrap_or_default();
            let words = WRITES_BEGIN_IN.iter().filter(|(word, _)| code.contains(word));
            found.extend(words.map(|(word, _)| (*word, file.to_owned())));
        }
    }
    let expected = WRITES_BEGIN_IN
        .iter()
        .flat_map(|(word, places)| places.iter().map(|place| (*word, (*place).to_owned())));
    assert_eq!(found, expected.collect());
}

/// A gate that is documented to act in the API server is used there, and no other is.
#[test]
fn gates_act_in_the_server_where_they_are_said_to() {
    let workspace = Workspace::load().unwrap();
    let gates = workspace.read("crates/kinds/src/features.rs");
    let (_, table) = gates.split_once("static GATES").unwrap();
    let (table, _) = table.split_once("#[cfg(test)]").unwrap();
    let sources: Vec<String> = ["crates/kinds/src", "crates/server/src"]
        .iter()
        .flat_map(|folder| files(&workspace.root.join(folder), ".rs"))
        .filter(|path| !path.ends_with("features.rs") && !path.to_string_lossy().contains("tests"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut known = 0;
    for gate in table.split("gate(").skip(1) {
        let name = gate.split('"').nth(1).unwrap();
        let literal = format!("\"{name}\"");
        let asked_for = sources.iter().any(|source| source.contains(&literal));
        assert_eq!(asked_for, gate.contains("Server"), "{name}");
        known += 1;
    }
    assert!(known > 20, "{known} gates");
}
