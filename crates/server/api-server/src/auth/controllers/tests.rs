use std::collections::BTreeSet;

use lazaret_json::Value;

use super::{controller_roles, objects, table::ControllerRole};

fn texts<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn rules(role: &ControllerRole) -> impl Iterator<Item = &Value> {
    role.may.iter().chain(&role.here).chain(&role.repairs)
}

#[test]
fn every_line_of_the_table_is_a_controller_or_a_rule_about_kinds_that_there_are() {
    let roles = controller_roles();
    let names: BTreeSet<&str> = roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(names.len(), roles.len());
    let is_known = |group: &str, plural: &str| {
        lazaret_kinds::find(group, plural).is_some()
            || group == "lazaret.dev" && (plural == "marks" || is_own(plural))
    };
    for role in roles {
        for (group, plural) in &role.follows {
            assert!(is_known(group, plural), "{} follows {plural} of {group:?}", role.name);
        }
        for rule in rules(role) {
            let (groups, resources) = (texts(rule, "apiGroups"), texts(rule, "resources"));
            assert!(
                !groups.is_empty() && !resources.is_empty() && !texts(rule, "verbs").is_empty(),
                "{rule}"
            );
            for resource in resources {
                let plural = resource.split('/').next().unwrap();
                assert!(groups.iter().all(|group| is_known(group, plural)), "{}: {rule}", role.name);
            }
        }
    }
}

fn is_own(plural: &str) -> bool {
    lazaret_kinds::own_definitions().iter().any(|one| one["spec"]["names"]["plural"] == plural)
}

#[test]
fn no_controller_may_do_everything_to_anything_or_give_itself_more() {
    let own_words = ["*", "escalate", "bind", "approve", "sign"];
    for role in controller_roles() {
        for rule in rules(role) {
            let all = ["verbs", "apiGroups", "resources"].into_iter().flat_map(|field| texts(rule, field));
            let wide: Vec<&str> = all.filter(|word| own_words.contains(word) || word.contains('*')).collect();
            assert!(wide.is_empty(), "{}: {rule}", role.name);
        }
        let impersonates = rules(role).any(|rule| texts(rule, "verbs").contains(&"impersonate"));
        assert_eq!(impersonates, role.name == "device-health", "{}", role.name);
        assert!(role.may.iter().all(|rule| !texts(rule, "verbs").contains(&"impersonate")), "{}", role.name);
    }
    for granted in objects() {
        let subjects = &granted.object["subjects"];
        if !subjects.is_null() {
            assert_eq!(subjects.as_array().unwrap().len(), 1);
            assert_eq!(subjects[0]["kind"], "User", "no group has the role of a controller");
        }
    }
}
