//! The resource allocation flow of the enhancement.

use lazaret_example::FabricOptions;
use serde_json::json;

use crate::stage::{CLAIMS, PODS, Stage, TEMPLATE, claim, claim_path, named, pod};

/// The pod of "partial GPU allocation", as it is written there.
const PARTIAL_GPU: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: device-consumer
spec:
  resourceClaims:
  - name: "gpu" # this name gets referenced below under "claims"
    template:
      resourceClassName: "acme-gpu"
      parameters:
        memory: "2Gi"
  containers:
  - name: workload
    image: my-app
    command: ["/bin/program"]
    resources:
      requests:
        memory: "64Mi"
        cpu: "250m"
      limits:
        memory: "128Mi"
        cpu: "500m"
      claims:
        - "gpu"
  - name: monitor
    image: my-app
    command: ["/bin/other-program"]
    resources:
      requests:
        memory: "32Mi"
        cpu: "25m"
      limits:
        memory: "64Mi"
        cpu: "50m"
      claims:
      - "gpu"
"#;

/// From the pod to the device and back: the claim is made for the pod and belongs to it, the driver allocates for the node that the scheduler
/// selected, the pod runs there with the claim reserved, and everything goes with the pod.
#[test]
fn the_pod_of_the_enhancement_runs_as_it_is_written() {
    let stage = Stage::new(3, 0, FabricOptions::default());
    let (code, made) = stage.post(PODS, PARTIAL_GPU);
    assert_eq!(code, 200, "{made}");
    let node = stage.runs_on("device-consumer");
    let claim = stage.claim("device-consumer-gpu").unwrap();
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("Pod"), &json!("device-consumer"), &json!(true))
    );
    assert_eq!(claim["metadata"]["finalizers"], json!(["gpu.acme.com/deletion-protection"]));
    assert_eq!(claim["spec"]["parameters"], json!({"memory": "2Gi"}));
    let status = &claim["status"];
    assert_eq!((&status["phase"], &status["driverName"]), (&json!("Allocated"), &json!("gpu.acme.com")));
    assert!(status["attributes"]["device"].as_str().unwrap().starts_with("fabric-"), "{status}");
    assert_eq!(status["reservedFor"][0]["name"], "device-consumer");
    let terms = &status["scheduling"]["driver"]["availableOnNodes"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchFields"][0]["values"], json!([node]));
    assert!(status["scheduling"]["scheduler"].is_null(), "{status}");
    assert_eq!(stage.fabric.attached(), 1);
    stage.delete(&format!("{PODS}/device-consumer"));
    stage.eventually("claim and device gone", |stage| {
        (stage.claim("device-consumer-gpu").is_none() && stage.fabric.attached() == 0).then_some(())
    });
}

#[test]
fn a_claim_of_its_own_stays_allocated_and_is_used_by_one_pod_after_another() {
    let stage = Stage::new(2, 0, FabricOptions::default());
    assert_eq!(stage.post(CLAIMS, &claim("shared", "Delayed")).0, 200);
    stage.post(PODS, &pod("first", &[("gpu", &named("shared"))]));
    let node = stage.runs_on("first");
    stage.post(PODS, &pod("second", &[("gpu", &named("shared"))]));
    stage.delete(&format!("{PODS}/first"));
    assert_eq!(stage.runs_on("second"), node, "the device is attached to that node");
    let shared = stage.claim("shared").unwrap();
    assert_eq!(shared["status"]["reservedFor"].as_array().unwrap().len(), 1, "{shared}");
    assert_eq!(shared["status"]["reservedFor"][0]["name"], "second");
    stage.delete(&format!("{PODS}/second"));
    stage.eventually("no user", |stage| {
        stage.claim("shared").filter(|claim| claim["status"]["reservedFor"].is_null())
    });
    assert_eq!(stage.claim("shared").unwrap()["status"]["phase"], "Allocated");
    stage.delete(&claim_path("shared"));
    stage.eventually("deallocated", |stage| {
        (stage.claim("shared").is_none() && stage.fabric.attached() == 0).then_some(())
    });
}

#[test]
fn an_immediate_claim_is_allocated_before_any_pod_needs_it() {
    let stage = Stage::new(1, 0, FabricOptions { user_limit: -1, ..FabricOptions::default() });
    stage.post(CLAIMS, &claim("now", "Immediate"));
    let now = stage.eventually("allocated", |stage| {
        stage.claim("now").filter(|claim| claim["status"]["phase"] == "Allocated")
    });
    assert_eq!(now["status"]["userLimit"], -1);
    for name in ["a", "b", "c"] {
        stage.post(PODS, &pod(name, &[("gpu", &named("now"))]));
    }
    for name in ["a", "b", "c"] {
        stage.runs_on(name);
    }
    assert_eq!(stage.claim("now").unwrap()["status"]["reservedFor"].as_array().unwrap().len(), 3);
}

#[test]
fn a_claim_that_belongs_to_somebody_else_is_not_used_until_it_is_removed() {
    let stage = Stage::new(1, 0, FabricOptions::default());
    stage.post(CLAIMS, &claim("p-gpu", "Delayed"));
    stage.post(PODS, &pod("p", &[("gpu", TEMPLATE)]));
    stage.eventually("an event", |stage| {
        let (_, events) = stage.get("/api/v1/namespaces/default/events");
        let found =
            events["items"].as_array()?.iter().any(|event| event["reason"] == "FailedResourceClaimCreation");
        found.then_some(())
    });
    assert!(stage.pod("p")["spec"]["nodeName"].is_null());
    stage.delete(&claim_path("p-gpu"));
    stage.runs_on("p");
}

/// A controller that restarts goes on from the objects; a class that is gone does not keep devices from being freed.
#[test]
fn a_restarted_controller_frees_what_it_finds_although_the_class_is_gone() {
    let mut stage = Stage::new(2, 0, FabricOptions::default());
    stage.post(PODS, &pod("p", &[("gpu", TEMPLATE)]));
    stage.runs_on("p");
    stage.stop_controller();
    stage.delete("/apis/cdi.k8s.io/v1alpha1/resourceclasses/acme-gpu");
    stage.delete(&format!("{PODS}/p"));
    stage.eventually("deletion of the claim", |stage| {
        stage.claim("p-gpu").filter(|claim| claim["metadata"]["deletionTimestamp"].is_string())
    });
    assert_eq!(stage.fabric.attached(), 1, "the finalizer keeps the claim while the device is held");
    stage.start_controller();
    stage.eventually("freed", |stage| {
        (stage.claim("p-gpu").is_none() && stage.fabric.attached() == 0).then_some(())
    });
}

#[test]
fn users_need_not_be_pods_and_the_limit_holds() {
    let stage = Stage::new(1, 0, FabricOptions::default());
    stage.post(CLAIMS, &claim("c", "Immediate"));
    stage.eventually("allocated", |stage| {
        stage.claim("c").filter(|claim| claim["status"]["phase"] == "Allocated")
    });
    let user = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Job", "name": name, "uid": name});
    let (code, answer) = stage.patch_status(&claim_path("c"), json!({"reservedFor": [user("x")]}));
    assert!(code < 300, "{answer}");
    let (code, answer) = stage.patch_status(&claim_path("c"), json!({"reservedFor": [user("x"), user("y")]}));
    assert_eq!(code, 422, "{answer}");
    stage.post(PODS, &pod("p", &[("gpu", &named("c"))]));
    stage.eventually("the pod says that the claim is in use", |stage| {
        let pod = stage.pod("p");
        let message = pod["status"]["conditions"][0]["message"].as_str()?.to_owned();
        message.contains("as many users as it may have").then_some(())
    });
    let (code, answer) = stage.patch_status(&claim_path("c"), json!({"reservedFor": null}));
    assert!(code < 300, "{answer}");
    stage.runs_on("p");
}

/// A device that a claim names in its attributes is tainted like any other, and its pods leave.
#[test]
fn a_tainted_device_of_a_classic_claim_makes_its_pod_leave() {
    let stage = Stage::new(2, 0, FabricOptions::default());
    for name in ["ill", "well"] {
        stage.post(PODS, &pod(name, &[("gpu", TEMPLATE)]));
        stage.runs_on(name);
    }
    let device =
        stage.claim("ill-gpu").unwrap()["status"]["attributes"]["device"].as_str().unwrap().to_owned();
    let rule = format!(
        "apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {{name: ill}}
spec:
  deviceSelector: {{driver: gpu.acme.com, pool: fabric, device: {device}}}
  taint: {{key: acme.com/broken, value: \"yes\", effect: NoExecute}}
"
    );
    let (code, answer) = stage.post("/apis/resource.k8s.io/v1/devicetaintrules", &rule);
    assert_eq!(code, 200, "{answer}");
    stage.eventually("eviction, and the device free", |stage| {
        (stage.get(&format!("{PODS}/ill")).0 == 404 && stage.fabric.attached() == 1).then_some(())
    });
    assert_eq!(stage.pod("well")["status"]["phase"], "Running");
}

/// Controllers copy the entries of a template into the pods that they make.
#[test]
fn pods_of_every_workload_have_the_classic_claims_of_its_template() {
    let stage =
        Stage::new(1, 0, FabricOptions { ports_per_node: 8, user_limit: -1, ..FabricOptions::default() });
    stage.post(CLAIMS, &claim("shared", "Immediate"));
    let workload = |api: &str, kind: &str, spec: &str, restart: &str| {
        format!(
            "apiVersion: {api}
kind: {kind}
metadata: {{name: w}}
spec:
  {spec}
  template:
    metadata: {{labels: {{app: {kind}}}}}
    spec:
      restartPolicy: {restart}
      resourceClaims:
      - name: own
        {TEMPLATE}
      - name: shared
        classicClaimName: shared
      containers:
      - name: c
        image: i
        resources: {{claims: [own, shared]}}
"
        )
    };
    let selected = |kind: &str| format!("selector: {{matchLabels: {{app: {kind}}}}}");
    for (path, kind, spec, restart) in [
        ("apps/v1/namespaces/default/deployments", "Deployment", selected("Deployment"), "Always"),
        ("apps/v1/namespaces/default/statefulsets", "StatefulSet", selected("StatefulSet"), "Always"),
        ("apps/v1/namespaces/default/daemonsets", "DaemonSet", selected("DaemonSet"), "Always"),
        ("batch/v1/namespaces/default/jobs", "Job", "backoffLimit: 1".to_owned(), "Never"),
    ] {
        let group = path.split("/namespaces").next().unwrap();
        let (code, made) = stage.post(&format!("/apis/{path}"), &workload(group, kind, &spec, restart));
        assert_eq!(code, 200, "{made}");
        let name = stage.eventually(&format!("the pod of the {kind} runs"), |stage| {
            let (_, pods) = stage.get(&format!("{PODS}?labelSelector=app={kind}"));
            let pod = pods["items"].as_array()?.first()?.clone();
            let is_running = matches!(pod["status"]["phase"].as_str(), Some("Running" | "Succeeded"));
            is_running.then(|| pod["metadata"]["name"].as_str().map(str::to_owned)).flatten()
        });
        let entries = stage.pod(&name)["spec"]["resourceClaims"].clone();
        assert_eq!(entries[0]["template"]["spec"]["parameters"], json!({"memory": "2Gi"}), "{entries}");
        assert_eq!(entries[1]["classicClaimName"], "shared");
        assert_eq!(stage.claim(&format!("{name}-own")).unwrap()["status"]["phase"], "Allocated");
    }
}

/// The patch that `kubectl apply` 1.32 sends for an unchanged file: the short form beside what is stored.
#[test]
fn a_pod_in_the_short_form_can_be_applied_again() {
    let stage = Stage::new(1, 0, FabricOptions::default());
    assert_eq!(stage.post(PODS, PARTIAL_GPU).0, 200);
    stage.runs_on("device-consumer");
    let before = stage.pod("device-consumer");
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "workload"}, {"name": "monitor"}],
        "$setElementOrder/resourceClaims": [{"name": "gpu"}],
        "containers": [
            {"name": "workload", "resources": {"claims": ["gpu"]}},
            {"name": "monitor", "resources": {"claims": ["gpu"]}},
        ],
        "resourceClaims": [{
            "$retainKeys": ["name", "template"], "name": "gpu",
            "template": {"parameters": {"memory": "2Gi"}, "resourceClassName": "acme-gpu"},
        }],
    }});
    let path =
        format!("{PODS}/device-consumer?fieldManager=kubectl-client-side-apply&fieldValidation=Strict");
    let (code, after) = stage.strategic_patch(&path, &patch);
    assert_eq!(code, 200, "{after}");
    assert_eq!(before["spec"], after["spec"]);
}
