//! What `deploy/` holds is what the program and the chart make; it is accepted by a server, lives a whole life there and leaves nothing behind.
//!
//! `UPDATE_DEPLOY=1` writes the generated files anew: `deploy/crds`, `deploy/lazaret.yaml`, `deploy/chart/files`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "what could not be tested is said")]

mod support;
#[path = "../../testkit/tests/tools/mod.rs"]
mod tools;

use std::{
    collections::BTreeSet,
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{Cluster, LAZARET};

/// Longer than a slow machine takes for any step.
const TIMEOUT: &str = "--timeout=170s";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const HEADER: &str =
    "# Written by `UPDATE_DEPLOY=1 cargo test -p lazaret --test install`; changes by hand are lost.\n";

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

fn helm_in(folder: &Path) -> Command {
    let mut command = Command::new(tools::helm());
    for home in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(home, folder.join("helm"));
    }
    command
}

/// What the chart makes of these settings, without a cluster.
fn try_template(settings: &[&str]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = helm_in(folder.path());
    command.args(["template", "lazaret"]).arg(deploy("chart"));
    command.args(["--namespace", "lazaret-system", "--kube-version", "1.37.0"]);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn template(settings: &[&str]) -> Vec<Value> {
    documents(&try_template(settings).unwrap())
}

fn documents(text: &str) -> Vec<Value> {
    let all = text.split("---\n").filter(|document| !document.trim().is_empty());
    all.map(|document| serde_saphyr::from_str::<Value>(document).unwrap())
        .filter(|object| !object.is_null())
        .collect()
}

fn lazaret(words: &[&str]) -> String {
    tools::run(Command::new(LAZARET).args(words))
}

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
    let rendered = try_template(&["crds.install=false"]).unwrap();
    up_to_date(&deploy("lazaret.yaml"), &format!("{HEADER}{rendered}"));
}

/// Leaves a cluster without Lazaret's own kinds, as any other is.
fn forget_own_kinds(cluster: &Cluster) {
    for name in cluster.names(CRDS) {
        cluster.send("DELETE", &format!("{CRDS}/{name}"), &Value::Null);
    }
    cluster.until("the definitions are gone", |cluster| cluster.names(CRDS).is_empty());
}

/// Every switch of the chart, alone and with all others.
const SWITCHES: &[&[&str]] = &[
    &[],
    &["controllers.parts.eviction=true,controllers.parts.claims=true,controllers.parts.poolStatus=true"],
    &["controllers.parts.health=true"],
    &["controllers.enabled=false,scheduler.enabled=true"],
    &["scheduler.enabled=true,scheduler.schedulerName=second,scheduler.replicas=3"],
    &["drivers.example.enabled=true,drivers.example.devices=2"],
    &["drivers.nvidia.enabled=true,drivers.nvidia.partitions=dynamic,drivers.nvidia.evictOn.lost=true"],
    &["nodeAgent.enabled=true"],
    &["networkPolicy.metricsFrom.team=monitoring,networkPolicy.apiServerPorts.server=7443"],
    &["networkPolicy.enabled=false,controllers.podDisruptionBudget.enabled=false,rbac.create=false"],
    &["kubectlDevice.roles=false,crds.install=false"],
    &[
        "crds.keep=false,image.repository=registry.example.com/lazaret,image.tag=next,imagePullSecrets.pull=true",
    ],
    &["commonLabels.team=gpu,commonAnnotations.note=x,serviceAccount.annotations.iam=y"],
    &[
        "controllers.flags.feature-gates=DRADeviceTaintRules=false,controllers.env.A=b,controllers.verbosity=0",
    ],
    &["controllers.tolerations.all.operator=Exists,controllers.tolerations.control-plane=null"],
    &["controllers.podLabels.a=b,controllers.podAnnotations.c=d,controllers.priorityClassName="],
    &["monitoring.podMonitor.enabled=true,monitoring.podMonitor.labels.release=prometheus"],
    &["monitoring.serviceMonitor.enabled=true,scheduler.enabled=true,commonAnnotations.note=x"],
    &["monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true"],
    &[ADMISSION],
    &["webhook.enabled=true"],
    &["webhook.enabled=true,webhook.port=8443,webhook.timeoutSeconds=2,webhook.failurePolicy=Fail"],
];

/// All admission policies.
const ADMISSION: &str = "admissionPolicies.enabled=true,admissionPolicies.tolerations.enabled=true,admissionPolicies.tolerations.keys.example\\.com/hot=true";

/// The path of an object's collection.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("/namespaces/{name}"));
    format!("/{root}/{version}{}/{plural}", namespace.unwrap_or_default())
}

#[test]
fn the_chart_makes_valid_objects_with_every_switch() {
    let folder = tempfile::tempdir().unwrap();
    tools::run(helm_in(folder.path()).args(["lint", "--strict"]).arg(deploy("chart")));
    let cluster = Cluster::start(&["--api-only"]);
    cluster.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lazaret-system"}}));
    forget_own_kinds(&cluster);
    let mut kinds = BTreeSet::new();
    for settings in SWITCHES {
        for object in template(settings) {
            kinds.insert(object["kind"].as_str().unwrap().to_owned());
            if object["apiVersion"].as_str().unwrap().starts_with("monitoring.coreos.com/") {
                continue;
            }
            let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(&object));
            let answer = cluster.try_send("POST", &path, &object);
            assert!(answer.is_ok(), "{settings:?}: {answer:?}\n{object:#}");
        }
    }
    let wanted = "ClusterRole ClusterRoleBinding ConfigMap CustomResourceDefinition DaemonSet Deployment DeviceClass NetworkPolicy PodDisruptionBudget PodMonitor PrometheusRule Role RoleBinding Service ServiceAccount ServiceMonitor ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), wanted);
}

/// The policies of the chart, in force: what each refuses and what it lets through.
#[test]
fn admission_policies_refuse_what_they_say() {
    let cluster = Cluster::start(&["--api-only"]);
    for namespace in ["tenant", "kube-system"] {
        let _ = cluster.try_send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
    }
    for object in template(&[ADMISSION, "controllers.enabled=false,kubectlDevice.roles=false"]) {
        if object["apiVersion"] == "admissionregistration.k8s.io/v1" {
            cluster.send("POST", &collection(&object), &object);
        }
    }
    let rule = |annotations: Value, selector: Value| {
        json!({"metadata": {"generateName": "r-", "annotations": annotations},
            "spec": {"deviceSelector": selector, "taint": {"key": "example.com/x", "effect": "NoSchedule"}}})
    };
    let claim = |tolerations: Value| {
        let exactly = json!({"deviceClassName": "gpu", "tolerations": tolerations});
        json!({"metadata": {"generateName": "c-"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
    };
    let template = |tolerations: Value| {
        let part = json!({"name": "p", "deviceClassName": "gpu", "tolerations": tolerations});
        let spec = json!({"devices": {"requests": [{"name": "r", "firstAvailable": [part]}]}});
        json!({"metadata": {"generateName": "t-"}, "spec": {"spec": spec}})
    };
    let rules = "/apis/resource.k8s.io/v1/devicetaintrules";
    let claims = |namespace: &str| format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims");
    let templates = "/apis/resource.k8s.io/v1/namespaces/tenant/resourceclaimtemplates".to_owned();
    let (why, hot) =
        (json!({"lazaret.dev/reason": "ecc"}), json!([{"key": "example.com/hot", "operator": "Exists"}]));
    let anything = json!([{"operator": "Exists"}]);
    let driver = json!({"driver": "gpu.example.com"});
    let cases = [
        (rules.to_owned(), rule(why.clone(), json!({})), Some("selects every device")),
        (rules.to_owned(), rule(why.clone(), Value::Null), Some("selects every device")),
        (rules.to_owned(), rule(json!({}), driver.clone()), Some("lazaret.dev/reason is missing")),
        (rules.to_owned(), rule(json!({"lazaret.dev/reason": " "}), driver.clone()), Some("say why")),
        (rules.to_owned(), rule(why, driver), None),
        (claims("tenant"), claim(anything.clone()), Some("they may tolerate: example.com/hot")),
        (
            claims("tenant"),
            claim(json!([{"key": "example.com/cold", "operator": "Exists"}])),
            Some("may not tolerate"),
        ),
        (claims("tenant"), claim(hot.clone()), None),
        (claims("tenant"), claim(json!([])), None),
        (claims("kube-system"), claim(anything.clone()), None),
        (templates.clone(), template(anything), Some("may not tolerate")),
        (templates, template(hot), None),
    ];
    // Policies are in force a moment after they were written.
    cluster.until("policies are in force", |cluster| {
        let path = format!("{}?dryRun=All", claims("tenant"));
        cluster.try_send("POST", &path, &claim(json!([{"operator": "Exists"}]))).is_err()
    });
    for (path, object, refused) in cases {
        match (cluster.try_send("POST", &path, &object), refused) {
            (Ok(_), None) => {}
            (Err(answer), Some(words)) => assert!(answer.contains(words), "{words}: {answer}"),
            (answer, wanted) => panic!("{path} {object}: {answer:?}, not {wanted:?}"),
        }
    }
}

#[test]
fn values_that_make_no_sense_are_refused_before_anything_is_made() {
    for (setting, complaint) in [
        ("controllers.replica=3", "replica"),
        ("controllers.replicas=0", "controllers.replicas"),
        ("controllers.logFormat=xml", "logFormat"),
        ("drivers.example.devices=2000", "devices"),
        ("drivers.nvidia.partitions=some", "partitions"),
        ("networkPolicy.apiServerPorts.x=70000", "apiServerPorts"),
        ("admissionPolicies.action=deny", "action"),
        ("controllers.parts.replacement=false,controllers.parts.policies=false", "turn one on"),
        ("nodeAgent.enabled=true,nodeAgent.root=/var/lib/kubelet", "belongs to the kubelet"),
    ] {
        let refused = try_template(&[setting]).unwrap_err();
        assert!(refused.contains(complaint), "{setting}: {refused}");
    }
}

#[test]
fn every_component_runs_with_as_little_as_it_needs() {
    let settings = "scheduler.enabled=true,drivers.example.enabled=true,nodeAgent.enabled=true,controllers.parts.eviction=true,controllers.parts.claims=true,controllers.parts.poolStatus=true";
    let objects = template(&[settings]);
    let verbs_of = |role: &Value| -> BTreeSet<String> {
        let rules = role["rules"].as_array().unwrap().iter();
        rules
            .flat_map(|rule| rule["verbs"].as_array().unwrap().iter())
            .map(|verb| verb.as_str().unwrap().to_owned())
            .collect()
    };
    let (mut roles, mut pods) = (0, 0);
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        match object["kind"].as_str().unwrap() {
            "ClusterRole" if name.ends_with("-see") => {
                roles += 1;
                let reads = BTreeSet::from(["get", "list", "watch"].map(str::to_owned));
                assert!(verbs_of(object).is_subset(&reads), "{name}");
            }
            "ClusterRole" if name.ends_with("-act") && name.starts_with("lazaret-") => {
                roles += 1;
                let text = object["rules"].to_string();
                assert!(
                    !text.contains('*') && !text.contains("secrets") && !text.contains("escalate"),
                    "{name}"
                );
            }
            "Deployment" => {
                pods += 1;
                let pod = &object["spec"]["template"]["spec"];
                let container = &pod["containers"][0]["securityContext"];
                assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
                assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
                assert_eq!(container["readOnlyRootFilesystem"], true);
                assert_eq!(container["allowPrivilegeEscalation"], false);
                assert_eq!(container["capabilities"]["drop"], json!(["ALL"]));
            }
            "DaemonSet" => {
                pods += 1;
                let container = &object["spec"]["template"]["spec"]["containers"][0]["securityContext"];
                assert_eq!(container["readOnlyRootFilesystem"], true, "{name}");
                assert_eq!(container.get("privileged"), None, "{name}");
            }
            _ => {}
        }
    }
    assert_eq!((roles, pods), (8, 4));
}

/// All objects there are, but for those that a cluster makes and forgets by itself.
fn all_objects(cluster: &Cluster) -> BTreeSet<String> {
    let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    for group in cluster.get("/apis")["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap().to_owned();
        versions.push((format!("/apis/{version}"), version));
    }
    let mut found = BTreeSet::new();
    for (path, _) in versions {
        for resource in cluster.get(&path)["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let lists = resource["verbs"].as_array().unwrap().contains(&json!("list"));
            if !lists || ["events", "leases", "controllerrevisions"].contains(&name) {
                continue;
            }
            let list = cluster.get(&format!("{path}/{name}"));
            for item in list["items"].as_array().unwrap() {
                let metadata = &item["metadata"];
                let namespace = metadata["namespace"].as_str().unwrap_or_default();
                found.insert(format!("{path}/{name} {namespace}/{}", metadata["name"].as_str().unwrap()));
            }
        }
    }
    found
}

fn helm(cluster: &Cluster, words: &[&str]) -> String {
    let folder = cluster.folder.path();
    let mut command = helm_in(folder);
    tools::run(command.args(words).current_dir(folder).env("KUBECONFIG", folder.join("kubeconfig")))
}

/// A cluster of somebody else.
fn foreign_cluster() -> Cluster {
    let cluster = Cluster::start(&["--nodes", "2"]);
    cluster.until("nodes are there", |cluster| {
        cluster.names("/apis/resource.k8s.io/v1/resourceslices").len() == 2
    });
    // The own objects of a cluster exist before the added ones are counted.
    cluster.until("every namespace has its account and its certificate", |cluster| {
        cluster.names("/api/v1/namespaces").iter().all(|namespace| {
            let has = |plural: &str, name: &str| {
                cluster
                    .names(&format!("/api/v1/namespaces/{namespace}/{plural}"))
                    .iter()
                    .any(|one| one == name)
            };
            has("serviceaccounts", "default") && has("configmaps", "kube-root-ca.crt")
        })
    });
    forget_own_kinds(&cluster);
    cluster
}

#[test]
fn helm_installs_upgrades_rolls_back_and_leaves_nothing() {
    let cluster = foreign_cluster();
    let before = all_objects(&cluster);
    let chart = deploy("chart").canonicalize().unwrap();
    let chart = chart.to_str().unwrap();
    let place = ["--namespace", "lazaret-system", "--wait", TIMEOUT];
    let run = |words: &[&str]| helm(&cluster, &[words, &place[..]].concat());
    run(&["install", "lazaret", chart, "--create-namespace", "--set", "crds.keep=false"]);
    let deployments = "/apis/apps/v1/namespaces/lazaret-system/deployments";
    let ready = |name: &str, replicas: i64| {
        cluster.until("its replicas are ready", |cluster| {
            cluster.get(&format!("{deployments}/{name}"))["status"]["readyReplicas"] == replicas
        });
    };
    ready("lazaret-controllers", 2);
    assert_eq!(
        cluster.names(CRDS),
        [
            "devicehealthpolicies.lazaret.dev",
            "deviceincidents.lazaret.dev",
            "devicesignals.lazaret.dev",
            "devicetaintpolicies.lazaret.dev",
            "disruptionguards.lazaret.dev",
            "resourceslicepatches.lazaret.dev",
            "taintreplacementpolicies.lazaret.dev",
        ]
    );
    let more = "crds.keep=false,scheduler.enabled=true,drivers.example.enabled=true,drivers.example.deviceClass=false,nodeAgent.enabled=true,controllers.replicas=3";
    run(&["upgrade", "lazaret", chart, "--set", more]);
    ready("lazaret-controllers", 3);
    ready("lazaret-scheduler", 2);
    assert_eq!(
        cluster.names("/apis/apps/v1/namespaces/lazaret-system/daemonsets"),
        ["lazaret-driver-example", "lazaret-node"]
    );
    run(&["rollback", "lazaret", "1"]);
    assert_eq!(cluster.names(deployments), ["lazaret-controllers"]);
    ready("lazaret-controllers", 2);
    helm(&cluster, &["uninstall", "lazaret", "--namespace", "lazaret-system", "--wait", TIMEOUT]);
    cluster.send("DELETE", "/api/v1/namespaces/lazaret-system", &Value::Null);
    cluster.until("nothing is left", |cluster| all_objects(cluster) == before);
}

fn kubectl(cluster: &Cluster, words: &[&str], input: &str) -> String {
    let folder = cluster.folder.path();
    let mut command = Command::new(tools::kubectl());
    command.args(words).env("KUBECONFIG", folder.join("kubeconfig")).env("HOME", folder);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn one_command_installs_and_the_same_one_removes() {
    let cluster = foreign_cluster();
    let before = all_objects(&cluster);
    let manifest = lazaret(&["install", "--namespace", "gpu-ops"]);
    let applied = kubectl(&cluster, &["apply", "-f", "-"], &manifest);
    assert!(applied.contains("deployment.apps/lazaret-controllers created"), "{applied}");
    let again = kubectl(&cluster, &["apply", "-f", "-"], &manifest);
    // kubectl replaces the selector of a budget as a whole, and calls that a change although none comes of it.
    let is_unchanged =
        |line: &str| line.ends_with(" unchanged") || line.starts_with("poddisruptionbudget.policy/");
    assert!(again.lines().all(is_unchanged), "{again}");
    cluster.until("its replicas are ready", |cluster| {
        let path = "/apis/apps/v1/namespaces/gpu-ops/deployments/lazaret-controllers";
        cluster.get(path)["status"]["readyReplicas"] == 2
    });
    kubectl(&cluster, &["delete", "--ignore-not-found", "-f", "-"], &manifest);
    cluster.until("nothing is left", |cluster| all_objects(cluster) == before);
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

fn source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source(&path, text);
        } else {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Alerts and the dashboard speak of metrics that there are.
#[test]
fn metrics_that_are_watched_exist() {
    let mut code = String::new();
    for name in ["runtime", "controllers"] {
        source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut code);
    }
    let mut watched = BTreeSet::new();
    for file in ["rules.yaml", "dashboard.json"] {
        let text = fs::read_to_string(deploy("observability").join(file)).unwrap();
        let words = text.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
        let is_metric = |word: &&str| {
            ["lazaret_", "device_taint_", "dynamic_resource_"].iter().any(|start| word.starts_with(start))
        };
        watched.extend(words.filter(is_metric).map(str::to_owned));
    }
    assert!(watched.len() >= 15, "{watched:?}");
    for name in watched {
        let base = name.strip_suffix("_total").or(name.strip_suffix("_bucket")).unwrap_or(&name);
        let prefixes = ["device_taint_eviction_controller", "dynamic_resource_allocation"];
        let rest = prefixes.iter().find_map(|prefix| base.strip_prefix(prefix));
        let literal = rest.map_or_else(|| format!("\"{base}\""), |rest| format!("\"{{prefix}}{rest}\""));
        assert!(code.contains(&literal), "nothing counts {name}");
    }
}

/// Where a program is, if there is one.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The expressions of the dashboard, as rules that record them: promtool reads rules and no dashboards.
fn expressions(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| expressions(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Prometheus itself accepts every alert, and every expression of the dashboard.
#[test]
fn prometheus_accepts_the_alerts_and_the_dashboard() {
    let Some(promtool) = program("promtool") else {
        return eprintln!(
            "NOT RUN: prometheus_accepts_the_alerts_and_the_dashboard: there is no promtool here"
        );
    };
    let check = |file: &Path| tools::run(Command::new(&promtool).args(["check", "rules"]).arg(file));
    let alerts = check(&deploy("observability/rules.yaml"));
    assert!(alerts.contains("SUCCESS: 9 rules found"), "{alerts}");
    let board = fs::read_to_string(deploy("observability/dashboard.json")).unwrap();
    let mut found = BTreeSet::new();
    expressions(&serde_json::from_str(&board).unwrap(), &mut found);
    assert!(found.len() >= 10, "{found:?}");
    // Variables of Grafana stand where Prometheus wants a text or a time.
    let rules: Vec<Value> = found
        .iter()
        .enumerate()
        .map(|(at, text)| {
            let text =
                text.replace("$__rate_interval", "5m").replace("$__interval", "1m").replace("$__range", "1h");
            json!({"record": format!("board:{at}"), "expr": text})
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("board.yaml");
    fs::write(&file, json!({"groups": [{"name": "board", "rules": rules}]}).to_string()).unwrap();
    let boards = check(&file);
    assert!(boards.contains(&format!("SUCCESS: {} rules found", found.len())), "{boards}");
    // It would have found a mistake.
    fs::write(
        &file,
        json!({"groups": [{"name": "board", "rules": [{"record": "a", "expr": "sum by (lazaret_leading"}]}]})
            .to_string(),
    )
    .unwrap();
    let refused = Command::new(&promtool).args(["check", "rules"]).arg(&file).output().unwrap();
    assert!(!refused.status.success());
}

/// The scripts of a release work: an image whose files run without those of this machine, and a bill of materials of what is linked in.
#[test]
fn an_image_holds_what_the_binary_needs_and_a_bill_of_materials_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    // Debug information is most of a binary that was built for tests.
    let small = folder.path().join("lazaret");
    let stripped = Command::new("strip").arg("-o").arg(&small).arg(LAZARET).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(LAZARET, &small).unwrap();
    }
    let image = |program: &Path, name: &str| {
        let to = folder.path().join(name);
        let script = deploy("release/image.py");
        tools::run(Command::new("python3").arg(script).arg(program).arg(&to).args(["--tag", "lazaret:test"]));
        fs::read(&to).unwrap()
    };
    // A small one shows it as well, and is packed in no time.
    let shell = Path::new("/bin/sh");
    assert!(image(shell, "b.tar") == image(shell, "c.tar"), "the same binary makes the same image");
    image(&small, "a.tar");
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    tools::run(Command::new("tar").arg("-xf").arg(folder.path().join("a.tar")).arg("-C").arg(&layout));
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        let path = layout.join("blobs/sha256").join(&digest);
        let sum = tools::run(Command::new("sha256sum").arg(&path));
        assert!(sum.starts_with(&digest), "{sum}");
        path
    };
    let manifest = read(&blob(&read(&layout.join("index.json"))["manifests"][0]));
    let config = read(&blob(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/local/bin/lazaret"]));
    assert_eq!(config["config"]["User"], "65532");
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    tools::run(Command::new("tar").arg("-xzf").arg(blob(&manifest["layers"][0])).arg("-C").arg(&root));
    // With the image's own loader, which finds libraries in the image alone.
    let loader = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"].map(|path| root.join(path));
    let loader = loader.iter().find(|path| path.exists()).unwrap();
    let libraries = ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib"]
        .map(|path| root.join(path).display().to_string());
    let said = tools::run(
        Command::new(loader)
            .args(["--inhibit-cache", "--library-path", &libraries.join(":")])
            .arg(root.join("usr/local/bin/lazaret"))
            .arg("--version"),
    );
    assert!(said.starts_with("lazaret "), "{said}");

    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut metadata = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    let host = tools::run(Command::new("rustc").arg("-vV"));
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    metadata.args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host]);
    let metadata = tools::run(metadata.current_dir(&workspace));
    let mut script = Command::new("python3");
    script.arg(deploy("release/sbom.py")).arg(workspace.join("Cargo.lock"));
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = script.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(metadata.as_bytes()).unwrap());
    let output = script.wait_with_output().unwrap();
    writer.join().unwrap();
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named =
        |name: &str| bill["components"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    assert_eq!(bill["metadata"]["component"]["name"], "lazaret");
    assert!(named("tokio").unwrap()["hashes"][0]["content"].is_string());
    assert_eq!(named("lazaret-eviction").unwrap()["licenses"][0]["expression"], "Apache-2.0");
    assert_eq!(named("expect-test"), None, "only tests need it");
}
