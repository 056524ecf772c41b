//! Services through all that the server does with them, with a pool of a few addresses and ports.

use std::collections::BTreeSet;

use lazaret_json::{Value, json};

use super::{PoolError, ServicePool, ServiceRefusal, allocate_service};
use crate::testing::{World, kind, set};

/// Addresses 10.0.0.1 to 10.0.0.9 and ports 30000 to 30009; the lowest free one is given.
#[derive(Clone, Default)]
struct Pool {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl ServicePool for Pool {
    fn take_address(&mut self, wanted: Option<&str>) -> Result<String, PoolError> {
        let all: Vec<String> = (1..10).map(|number| format!("10.0.0.{number}")).collect();
        let taken = match wanted {
            Some(wanted) if !all.iter().any(|known| known == wanted) => {
                return Err(PoolError::OutOfRange("10.0.0.0/28".into()));
            }
            Some(wanted) if self.addresses.contains(wanted) => return Err(PoolError::Taken),
            Some(wanted) => wanted.to_owned(),
            None => all.into_iter().find(|one| !self.addresses.contains(one)).ok_or(PoolError::Full)?,
        };
        self.addresses.insert(taken.clone());
        Ok(taken)
    }

    fn take_port(&mut self, wanted: Option<i64>) -> Result<i64, PoolError> {
        let taken = match wanted {
            Some(wanted) if !(30_000..30_010).contains(&wanted) => {
                return Err(PoolError::OutOfRange("30000-30009".into()));
            }
            Some(wanted) if self.ports.contains(&wanted) => return Err(PoolError::Taken),
            Some(wanted) => wanted,
            None => (30_000..30_010).find(|one| !self.ports.contains(one)).ok_or(PoolError::Full)?,
        };
        self.ports.insert(taken);
        Ok(taken)
    }
}

/// The stored object, or all errors.
fn write(pool: &mut Pool, old: Option<&Value>, object: Value) -> Result<Value, Vec<String>> {
    let (world, services) = (World::new(), kind("", "services"));
    world.context(|context| {
        let (mut object, mut errors) = (object, crate::Errors::new());
        services.rules.default(&mut object, context);
        match allocate_service(&mut object, old, pool) {
            Ok(()) => {}
            Err(ServiceRefusal::Internal(why)) => return Err(vec![why]),
            Err(ServiceRefusal::Invalid(errors)) => {
                return Err(errors.list().iter().map(ToString::to_string).collect());
            }
        }
        match old {
            None => {
                services.rules.prepare_create(&mut object, context);
                services.rules.validate_create(&object, context, &mut errors);
            }
            Some(old) => {
                services.rules.prepare_update(&mut object, old, context);
                services.rules.validate_update(&object, old, context, &mut errors);
            }
        }
        let wrong: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        if wrong.is_empty() { Ok(object) } else { Err(wrong) }
    })
}

fn service(spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": "s"}, "spec": spec});
    if object["spec"].get("ports").is_none() {
        object["spec"]["ports"] = json!([{"port": 80}]);
    }
    object
}

fn spec(result: Result<Value, Vec<String>>) -> Value {
    result.unwrap_or_else(|wrong| panic!("{wrong:?}"))["spec"].clone()
}

#[test]
fn a_service_is_given_what_its_type_needs() {
    let mut pool = Pool::default();
    let plain = spec(write(&mut pool, None, service(json!({}))));
    assert_eq!(
        plain,
        json!({
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        })
    );
    let node = spec(write(
        &mut pool,
        None,
        service(json!({"type": "NodePort", "ports": [
            {"name": "a", "port": 53, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"}, {"name": "c", "port": 80, "nodePort": 30_005},
        ]})),
    ));
    let ports: Vec<i64> =
        node["ports"].as_array().unwrap().iter().map(|port| port["nodePort"].as_i64().unwrap()).collect();
    assert_eq!(ports, [30_000, 30_000, 30_005], "one port for two protocols, and what was asked for");
    let balanced = spec(write(
        &mut pool,
        None,
        service(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
    ));
    assert_eq!(
        (&balanced["ports"][0]["nodePort"], &balanced["healthCheckNodePort"]),
        (&json!(30_001), &json!(30_002))
    );
    let without = spec(write(
        &mut pool,
        None,
        service(json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false})),
    ));
    assert_eq!(without["ports"][0].get("nodePort"), None);
    let headless =
        spec(write(&mut pool, None, service(json!({"clusterIP": "None", "selector": {"a": "b"}}))));
    assert_eq!((&headless["clusterIPs"], &headless["ipFamilies"]), (&json!(["None"]), &json!(["IPv4"])));
    let selectorless = spec(write(&mut pool, None, service(json!({"clusterIP": "None"}))));
    assert_eq!(
        (&selectorless["ipFamilyPolicy"], &selectorless["ipFamilies"]),
        (&json!("RequireDualStack"), &json!(["IPv4", "IPv6"]))
    );
    let name = spec(write(
        &mut pool,
        None,
        service(json!({"type": "ExternalName", "externalName": "x.example.com."})),
    ));
    assert_eq!(
        (name.get("clusterIP"), name.get("ipFamilies"), name.get("internalTrafficPolicy")),
        (None, None, None)
    );
}

/// Services and their refusals: Kubernetes' own words, to the byte.
const REFUSED: &[(&str, &[&str])] = &[
    (
        r#"{"clusterIP": "10.0.0.1"}"#,
        &[
            r#"spec.clusterIPs: Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: provided IP is already allocated"#,
        ],
    ),
    (
        r#"{"clusterIP": "1.2.3.4"}"#,
        &[
            r#"spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the provided network does not match the current range"#,
        ],
    ),
    (
        r#"{"clusterIP": "x"}"#,
        &[
            r#"spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
        ],
    ),
    (
        r#"{"clusterIP": "fd00::1"}"#,
        &[r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#],
    ),
    (
        r#"{"clusterIPs": ["10.0.0.2"]}"#,
        &[r#"spec.clusterIPs: Invalid value: ["10.0.0.2"]: must be empty when `clusterIP` is not specified"#],
    ),
    (
        r#"{"ipFamilyPolicy": "RequireDualStack"}"#,
        &[
            r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
        ],
    ),
    (
        r#"{"ipFamilies": ["IPv6"]}"#,
        &[r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#],
    ),
    (
        r#"{"ipFamilies": ["IPv4", "IPv6"]}"#,
        &[
            r#"spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"#,
        ],
    ),
    (
        r#"{"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}"#,
        &["spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated"],
    ),
    (
        r#"{"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}"#,
        &[
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-30009",
        ],
    ),
    (
        r#"{"ports": [{"port": 80, "nodePort": 30001}]}"#,
        &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    (
        r#"{"type": "NodePort", "clusterIP": "None"}"#,
        &[r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#],
    ),
    (
        r#"{"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}"#,
        &[
            r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
        ],
    ),
    (
        r#"{"ports": [{"port": 80}, {"port": 81}]}"#,
        &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    (r#"{"ports": []}"#, &["spec.ports: Required value"]),
    (r#"{"type": "ExternalName"}"#, &["spec.externalName: Required value"]),
    (
        r#"{"type": "x"}"#,
        &[
            r#"spec.type: Unsupported value: "x": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#,
        ],
    ),
    (
        r#"{"healthCheckNodePort": 30001}"#,
        &[
            "spec.healthCheckNodePort: Invalid value: 30001: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ],
    ),
    (
        r#"{"externalTrafficPolicy": "Local"}"#,
        &[
            r#"spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services"#,
        ],
    ),
    (
        r#"{"loadBalancerClass": "a/b"}"#,
        &["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        r#"{"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}"#,
        &[
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
        ],
    ),
];

#[test]
fn refusals_are_worded_as_in_kubernetes() {
    let mut pool = Pool::default();
    write(
        &mut pool,
        None,
        service(
            json!({"clusterIP": "10.0.0.1", "type": "NodePort", "ports": [{"port": 1, "nodePort": 30_000}]}),
        ),
    )
    .unwrap();
    for (wanted, said) in REFUSED {
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        // A refused Service holds nothing: the server returns its allocations.
        let wrong = write(&mut pool.clone(), None, service(wanted.clone())).unwrap_err();
        assert_eq!(wrong, *said, "{wanted}");
    }
    while pool.take_address(None).is_ok() {}
    assert_eq!(
        write(&mut pool, None, service(json!({}))).unwrap_err(),
        [r#"failed to allocate a serviceIP for Service "s": range is full"#]
    );
}

#[test]
fn addresses_and_ports_stay_unless_the_type_has_none() {
    let mut pool = Pool::default();
    let made = write(&mut pool, None, service(json!({"clusterIP": "10.0.0.1"}))).unwrap();
    let kept = spec(write(&mut pool, Some(&made), service(json!({}))));
    assert_eq!((&kept["clusterIP"], &kept["clusterIPs"]), (&json!("10.0.0.1"), &json!(["10.0.0.1"])));
    let moved = [r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set"#];
    assert_eq!(write(&mut pool, Some(&made), service(json!({"clusterIP": "10.0.0.2"}))).unwrap_err(), moved);
    assert_eq!(
        write(&mut pool, Some(&made), service(json!({"clusterIP": "None"}))).unwrap_err(),
        [r#"spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set"#]
    );
    let open = write(&mut pool, Some(&made), set(&made, "/spec/type", json!("NodePort"))).unwrap();
    assert_eq!(
        (&open["spec"]["ports"][0]["nodePort"], &open["spec"]["externalTrafficPolicy"]),
        (&json!(30_000), &json!("Cluster"))
    );
    let again = spec(write(&mut pool, Some(&open), service(json!({"type": "NodePort"}))));
    assert_eq!(again["ports"][0]["nodePort"], 30_000, "what was given stays where it is left out");
    let closed = spec(write(&mut pool, Some(&open), set(&open, "/spec/type", json!("ClusterIP"))));
    assert_eq!((closed["ports"][0].get("nodePort"), closed.get("externalTrafficPolicy")), (None, None));
    let mut name = set(&made, "/spec/type", json!("ExternalName"));
    name["spec"]["externalName"] = "x.example.com".into();
    let name = write(&mut pool, Some(&made), name).unwrap();
    assert_eq!(
        (name["spec"].get("clusterIP"), name["spec"].get("clusterIPs"), name["spec"].get("ipFamilies")),
        (None, None, None)
    );
    let back = spec(write(&mut pool, Some(&name), service(json!({"type": "ClusterIP"}))));
    assert_eq!(back["clusterIPs"], json!(["10.0.0.2"]), "another address");
    // Stored by a server that gave out none.
    let bare =
        service(json!({"type": "ClusterIP", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None"}));
    assert_eq!(spec(write(&mut pool, Some(&bare), bare.clone()))["clusterIPs"], json!(["10.0.0.3"]));
}

#[test]
fn a_health_check_port_stays_and_goes_with_the_policy() {
    let mut pool = Pool::default();
    let local =
        write(&mut pool, None, service(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})))
            .unwrap();
    assert_eq!(local["spec"]["healthCheckNodePort"], 30_001);
    let changed = set(&local, "/spec/healthCheckNodePort", json!(30_005));
    assert_eq!(
        write(&mut pool, Some(&local), changed).unwrap_err(),
        ["spec.healthCheckNodePort: Forbidden: field is immutable"]
    );
    let cluster =
        write(&mut pool, Some(&local), set(&local, "/spec/externalTrafficPolicy", json!("Cluster"))).unwrap();
    assert_eq!(cluster["spec"].get("healthCheckNodePort"), None);
    let class = set(&cluster, "/spec/loadBalancerClass", json!("a.example/b"));
    assert_eq!(
        write(&mut pool, Some(&cluster), class).unwrap_err(),
        [r#"spec.loadBalancerClass: Invalid value: "a.example/b": may not change once set"#]
    );
}
