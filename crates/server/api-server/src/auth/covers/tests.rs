use lazaret_json::{Value, json};
use lazaret_kinds::Access;
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

fn rules(list: &Value) -> Vec<Rule> {
    list.as_array().unwrap().iter().map(Rule::parse).collect()
}

/// `GROUPS|RESOURCES|VERBS|NAMES`, lists with commas; a rule that starts with a slash or a star and has two parts is `PATHS|VERBS`.
fn rule(text: &str) -> Value {
    let parts: Vec<&str> = text.split('|').collect();
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    match parts[..] {
        [paths, verbs] => json!({"nonResourceURLs": list(paths), "verbs": list(verbs)}),
        [groups, resources, verbs] => {
            json!({"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)})
        }
        [groups, resources, verbs, names] => {
            json!({"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs), "resourceNames": list(names)})
        }
        _ => panic!("{text}"),
    }
}

/// Kubernetes' table of the same name as each row: held, wanted, what is missing.
#[test]
fn rules_cover_as_in_kubernetes() {
    for (name, held, wanted, missing) in [
        ("ExactMatch", &["v1|builds|get"][..], &["v1|builds|get"][..], &[][..]),
        ("SubresourceWildcard", &["v1|*/scale|get"], &["v1|foo/scale|get"], &[]),
        (
            "MultipleRulesCoveringSingleRule",
            &["v1|deployments|delete", "v1|builds|delete", "v1|builds,deployments|update"],
            &["v1|builds,deployments|delete,update"],
            &[],
        ),
        (
            "MultipleAPIGroupsCoveringSingleRule",
            &[
                "group1|deployments|delete",
                "group1|builds|delete",
                "group1|builds,deployments|update",
                "group2|deployments|delete",
                "group2|builds|delete",
                "group2|builds,deployments|update",
            ],
            &["group1,group2|builds,deployments|delete,update"],
            &[],
        ),
        (
            "SingleAPIGroupsCoveringMultiple",
            &["group1,group2|builds,deployments|delete,update"],
            &[
                "group1|deployments|delete",
                "group1|builds|delete",
                "group1|builds,deployments|update",
                "group2|deployments|delete",
                "group2|builds|delete",
                "group2|builds,deployments|update",
            ],
            &[],
        ),
        (
            "MultipleRulesMissingSingleVerbResourceCombination",
            &["v1|builds,deployments|delete,update", "v1|pods|delete"],
            &["v1|builds,deployments,pods|delete,update"],
            &["v1|pods|update"],
        ),
        ("APIGroupStarCoveringMultiple", &["*|roles|get"], &["group1,group2|roles|get"], &[]),
        ("EnumerationNotCoveringAPIGroupStar", &["dummy|roles|get"], &["*|roles|get"], &["*|roles|get"]),
        ("APIGroupStarCoveringStar", &["*|roles|get"], &["*|roles|get"], &[]),
        ("VerbStarCoveringMultiple", &["v1|roles|*"], &["v1|roles|watch,list"], &[]),
        (
            "EnumerationNotCoveringVerbStar",
            &["v1|roles|get,list,watch,create,update,delete,exec"],
            &["v1|roles|*"],
            &["v1|roles|*"],
        ),
        ("VerbStarCoveringStar", &["v1|roles|*"], &["v1|roles|*"], &[]),
        ("ResourceStarCoveringMultiple", &["v1|*|get"], &["v1|resourcegroup:deployments|get"], &[]),
        (
            "EnumerationNotCoveringResourceStar",
            &["v1|roles,resourcegroup:deployments|get"],
            &["v1|*|get"],
            &["v1|*|get"],
        ),
        ("ResourceStarCoveringStar", &["v1|*|get"], &["v1|*|get"], &[]),
        ("ResourceNameEmptyCoveringMultiple", &["v1|pods|get"], &["v1|pods|get|foo,bar"], &[]),
        (
            "EnumerationNotCoveringResourceNameEmpty",
            &["v1|pods|get|foo,bar"],
            &["v1|pods|get"],
            &["v1|pods|get"],
        ),
        ("NonResourceURLs", &["/apis|*"], &["/apis|*"], &[]),
        ("NonResourceURLsStar", &["*|*"], &["/apis,/apis/v1,/|*"], &[]),
        (
            "NonResourceURLsStarAfterPrefixDoesntCover",
            &["/apis/*|*"],
            &["/apis,/apis/v1|get"],
            &["/apis|get"],
        ),
        ("NonResourceURLsStarAfterPrefix", &["/apis/*|*"], &["/apis/v1/foo,/apis/v1|get"], &[]),
        ("nothing held", &[], &["|pods|get"], &["|pods|get"]),
        ("nothing wanted", &[], &[], &[]),
    ] {
        let of = |list: &[&str]| rules(&list.iter().map(|text| rule(text)).collect::<Vec<_>>().into());
        let expected = if missing.is_empty() { Ok(()) } else { Err(CoverError::Missing(of(missing))) };
        assert_eq!(covers(&of(held), &of(wanted)), expected, "{name}");
    }
}

/// Kubernetes' TestCoversNonResourceURLsWithOtherFields and …Failure.
#[test]
fn a_rule_of_both_kinds_is_two() {
    let both = json!([{"apiGroups": ["v1"], "verbs": ["get"], "resources": ["builds"], "nonResourceURLs": ["/apis"]}]);
    assert_eq!(covers(&rules(&both), &rules(&both)), Ok(()));
    let held = rules(&json!([rule("v1|builds|get")]));
    assert_eq!(covers(&held, &rules(&both)), Err(CoverError::Missing(rules(&json!([rule("/apis|get")])))));
}

#[test]
fn what_is_missing_is_shown_by_resource() {
    let missing = rules(&json!([
        rule("|pods|get"),
        rule("/metrics|get"),
        rule("|pods|get|a"),
        rule("|pods|list"),
        rule("apps|pods|get")
    ]));
    let shown: Vec<String> = compact(missing).iter().map(Rule::to_string).collect();
    assert_eq!(
        shown,
        [
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
            r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#,
            r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get"]}"#,
        ]
    );
}

#[test]
fn a_role_of_too_many_combinations_is_refused_unless_one_held_rule_covers_it() {
    let many = |letter: &str| (0..200).map(|at| format!("{letter}{at}")).collect::<Vec<_>>();
    let wanted = rules(
        &json!([{"apiGroups": many("g"), "resources": many("r"), "verbs": many("v"), "resourceNames": many("n")}]),
    );
    assert_eq!(covers(&[], &wanted), Err(CoverError::TooMany));
    assert_eq!(covers(&rules(&json!([rule("*|*|*")])), &wanted), Ok(()));
}

const VERBS: &[&str] = &["get", "create", "escalate", "new-verb"];
const GROUPS: &[&str] = &["", "apps", "new.group"];
const RESOURCES: &[(&str, &str)] =
    &[("pods", ""), ("pods", "log"), ("roles", ""), ("new", ""), ("new", "log"), ("new", "new")];
const NAMES: &[&str] = &["", "a", "b", "new-name"];
const PATHS: &[&str] = &["/", "/api", "/api/", "/api/v1", "/apis", "/metrics", "/new"];

fn random_rule() -> impl Strategy<Value = Rule> {
    let some = |from: &'static [&'static str]| vec(select(from).prop_map(str::to_owned), 1..3);
    let resources = (
        some(&["get", "create", "escalate", "*"]),
        some(&["", "apps", "*"]),
        some(&["pods", "pods/log", "*/log", "roles", "*"]),
        vec(select(&["a", "b"][..]).prop_map(str::to_owned), 0..3),
    )
        .prop_map(|(verbs, groups, resources, names)| Rule {
            verbs,
            groups,
            resources,
            names,
            paths: vec![],
        });
    let paths = (some(&["get", "*"]), some(&["/api", "/api*", "/api/*", "/metrics", "*"]))
        .prop_map(|(verbs, paths)| Rule { verbs, paths, ..Rule::default() });
    prop_oneof![4 => resources, 1 => paths]
}

/// Everything that rules allow: a world with at least one verb, group, resource, name and path that no rule names.
fn allowed(rules: &[Rule]) -> Vec<String> {
    let mut all = Vec::new();
    for verb in VERBS {
        for group in GROUPS {
            for (resource, subresource) in RESOURCES {
                for name in NAMES {
                    let access =
                        Access { verb, group, resource, subresource, namespace: "", name, fields: &[] };
                    if rules.iter().any(|rule| rule.allows(access)) {
                        all.push(format!("{access:?}"));
                    }
                }
            }
        }
        for path in PATHS.iter().filter(|path| rules.iter().any(|rule| rule.allows_path(verb, path))) {
            all.push(format!("{verb} {path}"));
        }
    }
    all
}

proptest! {
    /// The property that the whole check is for.
    #[test]
    fn whoever_passes_the_check_gains_nothing(held in vec(random_rule(), 0..4), wanted in vec(random_rule(), 0..3)) {
        let before = allowed(&held);
        let gained: Vec<String> = allowed(&wanted).into_iter().filter(|one| !before.contains(one)).collect();
        match covers(&held, &wanted) {
            Ok(()) => prop_assert!(gained.is_empty(), "{gained:?}"),
            Err(CoverError::Missing(missing)) => {
                prop_assert!(!gained.is_empty(), "refused although nothing is gained");
                let both = [held, missing].concat();
                prop_assert!(covers(&both, &wanted).is_ok(), "what is missing is all that is missing");
            }
            Err(CoverError::TooMany) => prop_assert!(false, "so few rules"),
        }
    }
}
