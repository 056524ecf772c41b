//! Modules of the server depend on each other one way, but for those around `Server` and `Call`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use lazaret_tidy::{Workspace, files};

/// Modules in a circle: `Server` holds the state of each, and each takes a `Server` or a `Call`. A module that leaves the circle leaves this list.
const AROUND_SERVER: &[&str] = &[
    "admission",
    "alerts",
    "audit",
    "auth",
    "authorizer",
    "call",
    "definitions",
    "discovery",
    "disk",
    "limits",
    "long",
    "openapi",
    "proxy",
    "server",
    "service_pool",
    "signing",
    "table",
    "verbs",
];

/// The names that follow `crate::`, alone or in braces.
fn named(code: &str) -> BTreeSet<String> {
    let ident =
        |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(ident(rest));
            continue;
        };
        let (mut depth, mut item) = (0, String::new());
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.insert(ident(item.trim()));
                    item.clear();
                    continue;
                }
                _ => {}
            }
            item.push(c);
        }
        names.insert(ident(item.trim()));
    }
    names
}

/// The code of a file without comments and tests.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    product.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// For each name that the root re-exports, the module that it is from.
fn exported(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in root.split("pub use ").skip(1) {
        let Some((module, items)) = line.split(';').next().unwrap().split_once("::") else { continue };
        for item in items.trim_matches(['{', '}', '\n', ' ']).split(',') {
            names.insert(item.trim().to_owned(), module.to_owned());
        }
    }
    names
}

#[test]
fn modules_of_the_server_are_in_no_circle_but_the_one_around_it() {
    let source = Workspace::load().unwrap().root.join("crates/server/src");
    let exported = exported(&fs::read_to_string(source.join("lib.rs")).unwrap());
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files(&source, ".rs") {
        let file = path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
        if file == "lib.rs" || file.contains("tests") {
            continue;
        }
        let module = file.split(['/', '.']).next().unwrap().to_owned();
        let names = named(&code(&fs::read_to_string(&path).unwrap())).into_iter();
        let modules = names.map(|name| exported.get(&name).cloned().unwrap_or(name));
        needs.entry(module.clone()).or_default().extend(modules.filter(|name| *name != module));
    }
    assert!(needs.len() > 60, "{} modules", needs.len());
    let reaches_itself = |module: &&String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*module]);
        while let Some(at) = next.pop() {
            let new = needs.get(at).into_iter().flatten().filter(|name| needs.contains_key(*name));
            next.extend(new.filter(|name| seen.insert((*name).clone())));
        }
        seen.contains(*module)
    };
    let circle: Vec<&str> = needs.keys().filter(reaches_itself).map(String::as_str).collect();
    assert_eq!(circle, AROUND_SERVER);
}
