use lazaret_json::{Value, json};

use crate::testing::{World, kind, set};

#[test]
fn an_ingress_leads_somewhere() {
    let ingresses = kind("networking.k8s.io", "ingresses");
    let path = json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"rules": [{"host": "*.example.com", "http": {"paths": [path]}}], "tls": [{"hosts": ["a.example.com"], "secretName": "s"}]}});
    let stored = World::new().create(ingresses, ingress.clone()).ok();
    let row = World::new().row(ingresses, &stored);
    assert_eq!(row[..4], ["Class=<none>", "Hosts=*.example.com", "Address=", "Ports=80, 443"]);
    let at = "/spec/rules/0/http/paths/0";
    let rows: &[(String, Value, &str)] = &[
        ("/spec".into(), json!({}), "spec Invalid"),
        ("/spec/rules/0/host".into(), json!("10.0.0.1"), "spec.rules[0].host Invalid"),
        ("/spec/rules/0/host".into(), json!("a.*"), "spec.rules[0].host Invalid"),
        (format!("{at}/path"), json!("x"), "spec.rules[0].http.paths[0].path Invalid"),
        (format!("{at}/path"), json!("/a//b"), "spec.rules[0].http.paths[0].path Invalid"),
        (format!("{at}/pathType"), Value::Null, "spec.rules[0].http.paths[0].pathType Required"),
        (format!("{at}/pathType"), json!("Regex"), "spec.rules[0].http.paths[0].pathType NotSupported"),
        (format!("{at}/backend"), json!({}), "spec.rules[0].http.paths[0].backend Invalid"),
        (format!("{at}/backend/service/port"), json!({}), "spec.rules[0].http.paths[0].backend Required"),
        (
            format!("{at}/backend/service/port"),
            json!({"name": "a", "number": 1}),
            "spec.rules[0].http.paths[0].backend Invalid",
        ),
        ("/spec/tls/0/secretName".into(), json!("A"), "spec.tls[0].secretName Invalid"),
    ];
    for (pointer, value, wanted) in rows {
        assert_eq!(
            World::new().create(ingresses, set(&ingress, pointer, value.clone())).wrong(),
            [*wanted],
            "{pointer}"
        );
    }
    let old = set(&ingress, "/metadata/annotations", json!({"kubernetes.io/ingress.class": "nginx"}));
    assert_eq!(World::new().create(ingresses, old).errors.warnings().len(), 1);
}

#[test]
fn a_class_of_ingresses_names_its_controller() {
    let classes = kind("networking.k8s.io", "ingressclasses");
    let class = json!({"metadata": {"name": "c"}, "spec": {"controller": "example.com/ingress", "parameters": {"kind": "K", "name": "n"}}});
    let stored = World::new().create(classes, class.clone()).ok();
    assert_eq!(stored["spec"]["parameters"]["scope"], "Cluster");
    let wrong =
        |pointer: &str, value: Value| World::new().create(classes, set(&class, pointer, value)).wrong();
    assert_eq!(wrong("/spec/controller", json!("ingress")), ["spec.controller Invalid"]);
    assert_eq!(wrong("/spec/parameters/scope", json!("Namespace")), ["spec.parameters.namespace Required"]);
    assert_eq!(wrong("/spec/parameters/namespace", json!("n")), ["spec.parameters.namespace Forbidden"]);
    let changed = set(&stored, "/spec/controller", json!("example.com/other"));
    assert_eq!(World::new().update(classes, &stored, changed).wrong(), ["spec.controller Invalid"]);
}

#[test]
fn a_policy_names_its_peers_and_ports() {
    let policies = kind("networking.k8s.io", "networkpolicies");
    let policy = json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 80, "endPort": 90}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}]}});
    let stored = World::new().create(policies, policy.clone()).ok();
    assert_eq!(stored["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(stored["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    let rows: &[(&str, Value, &str)] = &[
        ("/spec/egress/0/to/0", json!({}), "spec.egress[0].to[0] Required"),
        ("/spec/egress/0/to/0/podSelector", json!({}), "spec.egress[0].to[0] Forbidden"),
        ("/spec/egress/0/to/0/ipBlock/cidr", json!("10.0.0.0"), "spec.egress[0].to[0].ipBlock.cidr Invalid"),
        (
            "/spec/egress/0/to/0/ipBlock/except",
            json!(["11.0.0.0/16"]),
            "spec.egress[0].to[0].ipBlock.except[0] Invalid",
        ),
        (
            "/spec/egress/0/to/0/ipBlock/except",
            json!(["10.0.0.0/8"]),
            "spec.egress[0].to[0].ipBlock.except[0] Invalid",
        ),
        ("/spec/egress/0/ports/0/endPort", json!(70), "spec.egress[0].ports[0].endPort Invalid"),
        ("/spec/egress/0/ports/0/port", json!("http"), "spec.egress[0].ports[0].endPort Invalid"),
        ("/spec/egress/0/ports/0/protocol", json!("ICMP"), "spec.egress[0].ports[0].protocol NotSupported"),
        ("/spec/policyTypes", json!(["Both"]), "spec.policyTypes[0] NotSupported"),
    ];
    for (pointer, value, wanted) in rows {
        assert_eq!(
            World::new().create(policies, set(&policy, pointer, value.clone())).wrong(),
            [*wanted],
            "{pointer}"
        );
    }
}
