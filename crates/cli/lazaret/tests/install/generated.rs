//! Generated files are up to date.

use std::{collections::BTreeSet, env, fs, path::Path};

use serde_json::Value;

use crate::{
    render::{CRDS, deploy, documents, lazaret, try_template},
    support::Cluster,
};

const HEADER: &str =
    "# Written by `UPDATE_DEPLOY=1 cargo test -p lazaret --test install`; changes by hand are lost.\n";

/// Compares a file with what it should be, or writes it.
fn up_to_date(path: &Path, wanted: &str) {
    if env::var_os("UPDATE_DEPLOY").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, wanted).unwrap();
    } else {
        let found = fs::read_to_string(path).unwrap_or_default();
        let path = path.display();
        assert!(found == wanted, "{path} is out of date: run this test with UPDATE_DEPLOY=1, and again");
    }
}

#[test]
fn files_in_deploy_are_what_the_program_and_the_chart_make() {
    let mut names = BTreeSet::new();
    for text in lazaret(&["install", "--crds-only"]).split("---\n").skip(1) {
        let definition: Value = serde_saphyr::from_str(text).unwrap();
        let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
        let name = format!("{}_{}.yaml", group.as_str().unwrap(), plural.as_str().unwrap());
        for folder in ["crds", "chart/files/crds"] {
            up_to_date(&deploy(folder).join(&name), &format!("{HEADER}{text}"));
        }
        names.insert(name);
    }
    for folder in ["crds", "chart/files/crds"] {
        let there = fs::read_dir(deploy(folder)).unwrap();
        let there: BTreeSet<String> =
            there.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(there, names, "in {folder}");
    }
    for (from, to) in [
        ("kubectl-device.yaml", "chart/files/kubectl-device.yaml"),
        ("observability/rules.yaml", "chart/files/rules.yaml"),
        ("observability/dashboard.json", "chart/files/dashboard.json"),
    ] {
        up_to_date(&deploy(to), &fs::read_to_string(deploy(from)).unwrap());
    }
    up_to_date(&deploy("chart/files/controller-roles.json"), &controller_roles());
    let rendered = try_template(&["crds.install=false"]).unwrap();
    up_to_date(&deploy("lazaret.yaml"), &format!("{HEADER}{rendered}"));
}

/// Controllers that the chart runs.
const CONTROLLERS: &[&str] = &[
    "default-scheduler",
    "device-health",
    "device-taint-eviction",
    "device-taint-policies",
    "device-taint-policy-eviction",
    "resource-slice-patches",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "rule-reviews",
    "taint-replacement",
];

/// The lines of the table of controllers' roles that the chart needs. Classic claims are served by `lazaret up` alone.
fn controller_roles() -> String {
    fn rules(rules: &[impl ToString]) -> Vec<Value> {
        let rules = rules.iter().map(|rule| serde_json::from_str::<Value>(&rule.to_string()).unwrap());
        rules.filter(|rule| rule["apiGroups"][0] != "cdi.k8s.io").collect()
    }
    let mut all = serde_json::Map::new();
    for role in lazaret_server::controller_roles().iter().filter(|role| CONTROLLERS.contains(&&*role.name)) {
        let mut follows: Vec<(String, Vec<&str>)> = Vec::new();
        for (group, plural) in role.follows.iter().filter(|(group, _)| group != "cdi.k8s.io") {
            match follows.iter_mut().find(|(known, _)| known == group) {
                Some((_, plurals)) => plurals.push(plural),
                None => follows.push((group.clone(), vec![plural])),
            }
        }
        let follows: Vec<Value> = follows
            .iter()
            .map(|(group, plurals)| serde_json::json!({"apiGroups": [group], "resources": plurals}))
            .collect();
        let own = serde_json::json!({"follows": follows, "may": rules(&role.may), "here": rules(&role.here)});
        all.insert(role.name.clone(), own);
    }
    assert_eq!(all.len(), CONTROLLERS.len(), "each has its lines in the table");
    format!("{:#}\n", Value::Object(all))
}

/// The definition of each kind of our own that the embedded server has is the one that other clusters are given.
#[test]
fn definitions_apply_unchanged_where_they_are_built_in() {
    let cluster = Cluster::start(&["--api-only"]);
    for object in documents(&lazaret(&["install", "--crds-only"])) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let built_in = cluster.get(&format!("{CRDS}/{name}"));
        assert_eq!(built_in["spec"]["versions"], object["spec"]["versions"], "{name}");
        assert_eq!(built_in["metadata"]["annotations"], object["metadata"]["annotations"], "{name}");
    }
}
