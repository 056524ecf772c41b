//! Reads the table of what controllers may do.

use std::{collections::BTreeMap, sync::LazyLock};

use lazaret_json::{Value, json};
use lazaret_kinds::{Scope, Verbs};

const TABLE: &str = include_str!("roles.txt");
/// The name in the table of the identity that reads for all controllers and posts their events.
const ALL: &str = "-";

/// The permissions of one controller.
#[derive(Clone, Debug, Default)]
pub struct ControllerRole {
    /// As in metrics, events and the user's name; empty for the identity that reads for all.
    pub name: String,
    /// The kinds that it follows, as group and plural.
    pub follows: Vec<(String, String)>,
    /// Rules of its ClusterRole.
    pub may: Vec<Value>,
    /// Rules of its Role in the namespace of leases.
    pub here: Vec<Value>,
    /// Rules in the namespaces of accounts that health policies may name.
    pub repairs: Vec<Value>,
    /// Verbs on kinds that definitions bring, with the subresource.
    pub custom: Vec<(Vec<String>, String)>,
}

/// The agent of all workload controllers, with the kinds that they follow.
const OF_WORKLOADS: &str = "workload-controllers";
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "impersonate",
    "list",
    "patch",
    "update",
    "watch",
    "write",
];

/// The permissions of each controller, in the order of the table. The one without a name reads for all of them.
pub fn controller_roles() -> &'static [ControllerRole] {
    static ROLES: LazyLock<Vec<ControllerRole>> = LazyLock::new(|| read(TABLE));
    &ROLES
}

fn read(text: &str) -> Vec<ControllerRole> {
    let mut roles: Vec<ControllerRole> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match (line.strip_prefix("  "), roles.last_mut()) {
            (Some(said), Some(role)) => add(role, said),
            _ => {
                let name = if line == ALL { String::new() } else { line.to_owned() };
                roles.push(ControllerRole { name, ..ControllerRole::default() });
            }
        }
    }
    let followed = roles.iter().find(|role| role.name == OF_WORKLOADS).map(|role| role.follows.clone());
    for role in &mut roles {
        role.may =
            role.may.drain(..).flat_map(|rule| spread(rule, followed.as_deref().unwrap_or(&[]))).collect();
    }
    roles
}

fn add(role: &mut ControllerRole, said: &str) {
    let parts: Vec<Vec<&str>> = said.split(" | ").map(|part| part.split(' ').collect()).collect();
    let words = |at: usize| parts.get(at).map_or(&[][..], Vec::as_slice);
    if words(0) == ["follows"] {
        let each = words(1)
            .iter()
            .flat_map(|group| words(2).iter().map(|plural| (named(group), (*plural).to_owned())));
        role.follows.extend(each);
        return;
    }
    let (place, verbs) = match words(0) {
        [place @ ("here" | "repairs" | "custom"), verbs @ ..] => (*place, verbs),
        verbs => ("", verbs),
    };
    if place == "custom" {
        let is_verb = |word: &&&str| VERBS.contains(*word);
        let own = verbs.iter().filter(is_verb).map(|verb| (*verb).to_owned()).collect();
        let subresource = verbs.iter().find(|word| !is_verb(word)).copied().unwrap_or_default();
        role.custom.push((own, subresource.to_owned()));
        return;
    }
    let mut rule = json!({"apiGroups": words(1).iter().map(|group| named(group)).collect::<Vec<_>>(), "resources": words(2), "verbs": verbs});
    if !words(3).is_empty() {
        rule["resourceNames"] = json!(words(3));
    }
    match place {
        "here" => role.here.push(rule),
        "repairs" => role.repairs.push(rule),
        _ => role.may.push(rule),
    }
}

/// The core group has no name.
fn named(group: &str) -> String {
    if group == "core" { String::new() } else { group.to_owned() }
}

/// A rule about `followed` or `namespaced` kinds as one rule for each group.
fn spread(rule: Value, followed: &[(String, String)]) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meant = |index: usize| rule["apiGroups"].as_array().and_then(|words| words.get(index)).map(text);
    let kinds: Vec<(String, String)> = match meant(0).as_deref() {
        Some("followed") => followed.to_vec(),
        Some("namespaced") => namespaced(),
        _ => return vec![rule],
    };
    let part = meant(1).map(|part| format!("/{part}")).unwrap_or_default();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, plural) in kinds {
        groups.entry(group).or_default().push(format!("{plural}{part}"));
    }
    let verbs: Vec<String> = rule["verbs"].as_array().into_iter().flatten().map(text).collect();
    let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
    groups.iter().map(|(group, plurals)| rule_of(group, plurals.iter().map(String::as_str), &verbs)).collect()
}

/// All kinds of this server in namespaces whose objects can be listed and deleted.
fn namespaced() -> Vec<(String, String)> {
    let usable = |kind: &&lazaret_kinds::Kind| {
        matches!(kind.scope, Scope::Namespaced) && !matches!(kind.verbs, Verbs::Create)
    };
    let names = |kind: &lazaret_kinds::Kind| (kind.group.to_string(), kind.plural.to_string());
    lazaret_kinds::all().iter().filter(usable).map(names).collect()
}

pub(super) fn rule_of<'a>(group: &str, plurals: impl Iterator<Item = &'a str>, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": plurals.collect::<Vec<_>>(), "verbs": verbs})
}
