//! The admission policies of the chart.

use serde_json::{Value, json};

use crate::{
    render::{collection, template},
    support::Cluster,
};

/// All admission policies.
pub(crate) const ADMISSION: &str = "admissionPolicies.enabled=true,admissionPolicies.tolerations.enabled=true,admissionPolicies.tolerations.keys.example\\.com/hot=true";

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
