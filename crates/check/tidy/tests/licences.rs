//! Our dependencies: allowed licences, and one version of each library. The lists are those of `deny.toml`,
//! so `cargo deny check` says the same where it is installed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};

use lazaret_tidy::Workspace;

fn strings(table: &toml::Table, section: &str, key: &str) -> BTreeSet<String> {
    let entries = table[section].get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            let name = entry.as_str().or_else(|| entry.get("crate").and_then(toml::Value::as_str));
            name.unwrap_or_default().to_owned()
        })
        .collect()
}

/// `A OR (B AND C)`, read without precedence: enough if one alternative is allowed throughout.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    expression.split(" OR ").any(|side| side.split(" AND ").all(|name| allowed.contains(name.trim())))
}

#[test]
fn every_licence_is_allowed() {
    let workspace = Workspace::load().unwrap();
    let deny: toml::Table = workspace.read("deny.toml").parse().unwrap();
    let allowed = strings(&deny, "licenses", "allow");
    let wrong: Vec<String> = workspace
        .packages
        .iter()
        .filter(|package| !is_allowed(&package.license, &allowed))
        .map(|package| format!("{} {}: {:?}", package.name, package.version, package.license))
        .collect();
    assert!(wrong.is_empty(), "not allowed by deny.toml:\n{}", wrong.join("\n"));
}

#[test]
fn no_library_is_here_twice_without_a_reason() {
    let workspace = Workspace::load().unwrap();
    let deny: toml::Table = workspace.read("deny.toml").parse().unwrap();
    let excused = strings(&deny, "bans", "skip");
    let banned = strings(&deny, "bans", "deny");
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &workspace.packages {
        assert!(!banned.contains(&package.name), "{} is banned by deny.toml", package.name);
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let twice: Vec<String> = versions
        .iter()
        .filter(|(name, versions)| versions.len() > 1 && !excused.contains(**name))
        .map(|(name, versions)| format!("{name}: {versions:?}"))
        .collect();
    assert!(twice.is_empty(), "several versions, and deny.toml gives no reason:\n{}", twice.join("\n"));
}
