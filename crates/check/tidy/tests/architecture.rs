//! Dependencies point one way, and cores stay pure.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use lazaret_tidy::{Package, Workspace, files};

/// The floors, lowest first: the folders of `crates/`. A crate stands on others of its own floor and on those of the floors that its row names.
const FLOORS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("core", &["base"]),
    ("wire", &["base"]),
    ("io", &["base", "wire"]),
    ("server", &["base", "core", "wire", "io"]),
    ("plane", &["base", "core", "wire", "io", "server"]),
    ("driver", &["base", "core", "wire", "io"]),
    ("node", &["base", "core", "wire", "io", "driver"]),
    ("cli", &["base", "core", "wire", "io", "server", "plane", "driver", "node"]),
    ("check", &["base", "core", "wire", "io", "server", "plane"]),
];
/// Arrows that no row permits. This list only gets shorter.
const AGAINST_FLOORS: &[(&str, &str)] = &[
    ("api", "classic"),
    ("api", "lifecycle"),
    ("api", "replacement"),
    ("kinds", "classic"),
    ("runtime", "classic"),
];

/// The floors of crates that decide and never do.
const FLOORS_OF_CORES: &[&str] = &["base", "core"];
/// A core on another floor: only the server needs it.
const CORE_OF_THE_SERVER: &str = "flow";

/// The crates that decide and never do.
fn cores(workspace: &Workspace) -> Vec<&Package> {
    let is_core = |package: &&Package| {
        FLOORS_OF_CORES.contains(&floor(package).as_str()) || package.short() == CORE_OF_THE_SERVER
    };
    workspace.crates.iter().filter(is_core).collect()
}

/// Libraries that cores are built from, each with its reason.
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

#[test]
fn every_crate_stands_on_its_own_floor_or_a_lower_one() {
    let workspace = Workspace::load().unwrap();
    let rows: BTreeMap<_, _> = FLOORS.iter().copied().collect();
    let floors: BTreeMap<&str, String> =
        workspace.crates.iter().map(|package| (package.name.as_str(), floor(package))).collect();
    let (mut wrong, mut against) = (Vec::new(), BTreeSet::new());
    for package in &workspace.crates {
        let own = &floors[package.name.as_str()];
        let Some(may) = rows.get(own.as_str()) else {
            wrong.push(format!("{}: {own} is no floor", package.name));
            continue;
        };
        for name in &package.dependencies {
            // A crate of another project.
            let Some(other) = floors.get(name.as_str()) else { continue };
            let below = lazaret_tidy::short(name);
            if other == own || may.contains(&other.as_str()) {
                continue;
            }
            match AGAINST_FLOORS.iter().find(|arrow| **arrow == (package.short(), below)) {
                Some(arrow) => drop(against.insert(*arrow)),
                None => wrong.push(format!("{} ({own}) must not depend on {below} ({other})", package.name)),
            }
        }
    }
    let gone = AGAINST_FLOORS.iter().filter(|arrow| !against.contains(*arrow));
    wrong.extend(gone.map(|(from, to)| format!("{from} does not depend on {to}: take the row away")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The floor of a crate: the folder that it is in.
fn floor(package: &Package) -> String {
    package.folder.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_folder_is_a_floor() {
    let workspace = Workspace::load().unwrap();
    let mut folders: Vec<String> = fs::read_dir(workspace.root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort_unstable();
    let mut floors: Vec<&str> = FLOORS.iter().map(|(name, _)| *name).collect();
    floors.sort_unstable();
    assert_eq!(folders, floors);
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
fn floors_stand_on_lower_floors() {
    let position: BTreeMap<_, _> = FLOORS.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
    for (name, may) in FLOORS {
        for below in *may {
            assert!(position[below] < position[name], "{name} stands before {below} in FLOORS");
        }
    }
}

#[test]
fn cores_are_built_from_pure_libraries_only() {
    let workspace = Workspace::load().unwrap();
    let mut wrong = Vec::new();
    let cores = cores(&workspace);
    for package in &cores {
        for dependency in &package.dependencies {
            let pure = cores.iter().any(|core| core.name == *dependency)
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
    for package in cores(&workspace) {
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
    let source = workspace.root.join("crates/plane/controllers/src");
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
    let gates = workspace.read("crates/wire/kinds/src/features.rs");
    let (_, table) = gates.split_once("static GATES").unwrap();
    let (table, _) = table.split_once("#[cfg(test)]").unwrap();
    let sources: Vec<String> = ["crates/wire/kinds/src", "crates/server/api-server/src"]
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
