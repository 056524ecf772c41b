//! The roles of every cluster, as a table: those of Kubernetes, and what Lazaret adds to them.

use lazaret_json::{Value, json};

const TABLE: &str = include_str!("default_roles.txt");

// DEVIATION(role-additions): kinds that Kubernetes does not have, and what nodes need here.
/// Rules that Kubernetes' roles do not have.
const ADDED: &str = "
system:aggregate-to-edit to edit
  write | cdi.k8s.io | resourceclaims
system:aggregate-to-view to view
  read | cdi.k8s.io | resourceclaims
system:certificates.k8s.io:certificatesigningrequests:selfnodeserver
  create | certificates.k8s.io | certificatesigningrequests/selfnodeserver
system:kube-scheduler
  read | cdi.k8s.io | resourceclaims resourceclasses
  patch update | cdi.k8s.io | resourceclaims/status
  read | resource.k8s.io | resourceslicepatches
";

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

/// Says of a default role that its rules are those of the table, and are brought up to date.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const SELECTED: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// All of them, as objects.
pub(super) fn cluster_roles() -> Vec<Value> {
    let mut roles: Vec<Value> = Vec::new();
    for line in TABLE.lines().chain(ADDED.lines()).filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("  ") {
            Some(said) => roles.last_mut().into_iter().for_each(|role| add(role, rule(said))),
            None => open(&mut roles, line),
        }
    }
    roles
}

/// Makes the role that the line names the last one; a role that is there goes on.
fn open(roles: &mut Vec<Value>, line: &str) {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    if let Some(at) = roles.iter().position(|role| role["metadata"]["name"] == name) {
        let known = roles.remove(at);
        roles.push(known);
        return;
    }
    let mut role = json!({
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {AUTO_UPDATE: "true"},
        },
        "rules": [],
    });
    while let (Some(word), Some(group)) = (words.next(), words.next()) {
        let label = format!("{SELECTED}{group}");
        if word == "to" {
            role["metadata"]["labels"][label.as_str()] = "true".into();
        } else {
            let mut labels = json!({});
            labels[label.as_str()] = "true".into();
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        }
    }
    roles.push(role);
}

fn add(role: &mut Value, rule: Value) {
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.push(rule);
    }
}

/// `VERBS | GROUPS | RESOURCES | NAMES`, or `VERBS | PATHS`.
fn rule(said: &str) -> Value {
    let parts: Vec<Vec<&str>> = said.split(" | ").map(|part| part.split(' ').collect()).collect();
    let mut verbs = Vec::new();
    for verb in &parts[0] {
        match *verb {
            "read" => verbs.extend(READ),
            "write" => verbs.extend(WRITE),
            verb => verbs.push(verb),
        }
    }
    verbs.sort_unstable();
    let named = |words: &[&str]| -> Vec<String> {
        let meaning = |word: &&str| match *word {
            "core" => String::new(),
            "everywhere" => "*".to_owned(),
            word => word.to_owned(),
        };
        words.iter().map(meaning).collect()
    };
    match &parts[1..] {
        [paths] => json!({"nonResourceURLs": named(paths), "verbs": verbs}),
        [groups, resources] => json!({"apiGroups": named(groups), "resources": resources, "verbs": verbs}),
        [groups, resources, names, ..] => {
            json!({"apiGroups": named(groups), "resources": resources, "resourceNames": names, "verbs": verbs})
        }
        [] => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_role_or_a_rule() {
        let roles = cluster_roles();
        let name = |role: &Value| role["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> = roles.iter().map(name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), roles.len());
        for role in &roles {
            let rules = role["rules"].as_array().map_or(0, |rules| rules.len());
            assert_ne!(rules == 0, role.get("aggregationRule").is_none(), "{role}");
            for rule in role["rules"].as_array().into_iter().flatten() {
                assert!(rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()), "{rule}");
            }
        }
    }
}
