//! `docs/served.md` lists the kinds of the registry. `UPDATE_SERVED=1` writes its tables anew and keeps the column with the component that acts
//! on a kind; a new kind then gets a question mark there, which fails until it is filled in.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeMap, env, fs, path::Path};

use lazaret_kinds::{Kind, Scope, Served, Verbs};

const HEADER: &str = "| kind | versions | scope | what acts on it |\n|---|---|---|---|\n";
const BEGIN: &str = "<!-- from the registry -->\n";
const END: &str = "<!-- end -->\n";

/// `v1`, `v1beta1 (off)`, `v1alpha3 (off; gate X; from 1.37)`.
fn version(served: &Served) -> String {
    let mut notes: Vec<String> = Vec::new();
    if !served.by_default {
        notes.push("off".to_owned());
    }
    notes.extend(served.since.map(|since| format!("from {since}")));
    notes.extend(served.feature.map(|feature| format!("gate {feature}")));
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    format!("{}{notes}", served.version)
}

fn name(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.kind.to_string() } else { format!("{} ({})", kind.kind, kind.group) }
}

/// A row up to what acts on the kind.
fn facts(kind: &Kind) -> String {
    let versions: Vec<String> = kind.versions.iter().map(version).collect();
    let scope = match (kind.scope, kind.verbs) {
        (_, Verbs::Create) => "answered, not stored",
        (Scope::Cluster, _) => "cluster",
        (Scope::Namespaced, _) => "namespace",
    };
    format!("| {} | {} | {scope} |", name(kind), versions.join(", "))
}

/// The last column of the table for each kind.
fn said(table: &str) -> BTreeMap<String, String> {
    let rows = table.lines().skip(2).filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some((cells.next()?.to_owned(), cells.next_back()?.to_owned()))
    });
    rows.collect()
}

#[test]
fn the_page_lists_every_kind_of_the_registry_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/served.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let said = said(table);
    let rows = lazaret_kinds::all().iter().map(|kind| {
        let acts = kind.unheeded.map(|warning| format!("stored only, with the warning \"{warning}\""));
        let acts = acts.or_else(|| said.get(&name(kind)).cloned()).unwrap_or_else(|| "?".to_owned());
        assert!(kind.unheeded.is_some() || !acts.contains("warning"), "{} gives no warning", name(kind));
        format!("{} {acts} |\n", facts(kind))
    });
    let wanted = format!("{HEADER}{}", rows.collect::<String>());
    if env::var_os("UPDATE_SERVED").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, wanted, "docs/served.md is not what is served: run this test with UPDATE_SERVED=1");
    }
    let open: Vec<&str> = wanted.lines().filter(|line| line.ends_with("| ? |")).collect();
    assert_eq!(open, [] as [&str; 0], "docs/served.md does not say what acts on these");
}
