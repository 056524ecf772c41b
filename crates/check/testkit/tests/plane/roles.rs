//! No controller asks for more than its role has, and no role has more than its controller asks for.

use std::{collections::BTreeSet, fs, path::Path};

use lazaret_server::controller_roles;

/// Requests of controllers while the tests of this folder ran, each line a controller, a verb, a group and a resource. To record them again:
/// `LAZARET_ROLES_ASKED=/tmp/asked cargo test -p lazaret-testkit --test plane`, and then `sort -u`.
const ASKED: &str = include_str!("roles_asked.txt");
/// Requests that these tests do not bring about: the request, the file that sends it, and words of it there.
const ELSEWHERE: &str = include_str!("roles_elsewhere.txt");
/// Controllers whose rules are spread over all kinds: each verb is used on some of them.
const OF_ALL_KINDS: [&str; 3] = ["disruption", "garbage-collector", "namespace"];

/// A line of what a controller asked for, and whether its role is about all kinds.
fn kinds_left_out(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_wide = OF_ALL_KINDS.contains(&words[0]);
    let own = ["poddisruptionbudgets/status", "namespaces/status", "namespaces/finalize"];
    if is_wide && !own.contains(&words[3]) { format!("{} {}", words[0], words[1]) } else { line.to_owned() }
}

/// Each request that the roles permit.
fn permitted() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for role in controller_roles().iter().filter(|role| !role.name.is_empty()) {
        for rule in role.may.iter().chain(&role.here).chain(&role.repairs) {
            let words = |field: &str| -> Vec<String> {
                let all = rule[field].as_array().unwrap();
                all.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
            };
            let (groups, resources) = (words("apiGroups"), words("resources"));
            for verb in words("verbs") {
                for group in &groups {
                    let group = if group.is_empty() { "core" } else { group };
                    let each =
                        resources.iter().map(|resource| format!("{} {verb} {group} {resource}", role.name));
                    lines.extend(each.map(|line| kinds_left_out(&line)));
                }
            }
        }
        for (verbs, _) in &role.custom {
            lines.extend(verbs.iter().map(|verb| format!("{} {verb}", role.name)));
        }
    }
    lines
}

fn asked() -> BTreeSet<String> {
    ASKED.lines().map(kinds_left_out).collect()
}

#[test]
fn controllers_ask_for_nothing_that_their_roles_do_not_permit() {
    let permitted = permitted();
    let more: Vec<String> = asked().into_iter().filter(|line| !permitted.contains(line)).collect();
    assert!(more.is_empty(), "{more:#?}");
}

#[test]
fn no_role_has_a_rule_that_its_controller_does_not_use() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (asked, mut elsewhere) = (asked(), BTreeSet::new());
    for line in ELSEWHERE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let parts: Vec<&str> = line.split(" | ").collect();
        let &[request, file, words] = parts.as_slice() else { panic!("three parts: {line}") };
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(source.contains(words), "{request}: {file} does not say {words}");
        elsewhere.insert(request.to_owned());
    }
    let permitted = permitted();
    let unused: Vec<&String> =
        permitted.iter().filter(|line| !asked.contains(*line) && !elsewhere.contains(*line)).collect();
    assert!(unused.is_empty(), "no controller asks for this: {unused:#?}");
    let stale: Vec<&String> = elsewhere.iter().filter(|line| !permitted.contains(*line)).collect();
    assert!(stale.is_empty(), "no role has this any more: {stale:#?}");
}
