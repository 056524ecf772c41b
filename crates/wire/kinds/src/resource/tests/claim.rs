use lazaret_json::{Value, json};

use super::super::compile_budget::{COMPILE_UNITS_MAX, compile_units};
use crate::testing::{World, kind, set};

pub(super) fn claims() -> &'static crate::Kind {
    kind("resource.k8s.io", "resourceclaims")
}

fn templates() -> &'static crate::Kind {
    kind("resource.k8s.io", "resourceclaimtemplates")
}

pub(super) fn claim() -> Value {
    json!({
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "req-0", "exactly": {"deviceClassName": "gpu"}}]}},
    })
}

fn alternatives() -> Value {
    let mut claim = claim();
    claim["spec"]["devices"]["requests"][0] = json!({
        "name": "req-0",
        "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}, {"name": "small", "deviceClassName": "gpu", "allocationMode": "All"}],
    });
    claim
}

fn wrong(object: &Value) -> Vec<String> {
    World::new().create(claims(), object.clone()).wrong()
}

const EXACTLY: &str = "/spec/devices/requests/0/exactly";

#[test]
fn defaults() {
    let created = World::new().create(claims(), alternatives()).ok();
    assert_eq!(
        created["spec"]["devices"]["requests"][0]["firstAvailable"],
        json!([
            {"name": "big", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
            {"name": "small", "deviceClassName": "gpu", "allocationMode": "All"},
        ])
    );
    let tolerating = set(&claim(), &format!("{EXACTLY}/tolerations"), json!([{"key": "k", "value": "v"}]));
    let created = World::new().create(claims(), set(&tolerating, "/status/reservedFor", json!([]))).ok();
    assert_eq!(
        created["spec"]["devices"]["requests"][0]["exactly"],
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "tolerations": [{"key": "k", "value": "v", "operator": "Equal"}]})
    );
    assert_eq!(created["status"], json!({}), "what a client says of it does not count");
    let capacity = set(&claim(), &format!("{EXACTLY}/capacity/requests/memory"), json!("1024Mi"));
    let created = World::new().create(claims(), capacity).ok();
    assert_eq!(created.pointer(&format!("{EXACTLY}/capacity/requests/memory")).unwrap(), "1Gi");
}

#[test]
fn requests() {
    assert!(wrong(&claim()).is_empty());
    assert!(wrong(&alternatives()).is_empty());
    let at = "spec.devices.requests[0]";
    for (pointer, value, expected) in [
        ("", json!({"name": "req-0"}), vec![format!("{at} Required")]),
        ("/name", json!("A"), vec![format!("{at}.name Invalid")]),
        ("/exactly/deviceClassName", json!(""), vec![format!("{at}.exactly.deviceClassName Required")]),
        ("/exactly/deviceClassName", json!("A"), vec![format!("{at}.exactly.deviceClassName Invalid")]),
        ("/exactly/allocationMode", json!("Some"), vec![format!("{at}.exactly.allocationMode NotSupported")]),
        ("/exactly/count", json!(-1), vec![format!("{at}.exactly.count Invalid")]),
        (
            "/exactly",
            json!({"deviceClassName": "gpu", "allocationMode": "All", "count": 1}),
            vec![format!("{at}.exactly.count Invalid")],
        ),
        ("/firstAvailable", json!([{"name": "a", "deviceClassName": "gpu"}]), vec![format!("{at} Invalid")]),
        (
            "/exactly/capacity",
            json!({"requests": {"memory": "much"}}),
            vec![format!("{at}.exactly.capacity.requests[memory] Invalid")],
        ),
        ("/exactly/selectors", json!([{}]), vec![format!("{at}.exactly.selectors[0].cel Required")]),
        (
            "/exactly/selectors",
            json!(vec![json!({"cel": {"expression": "true"}}); 33]),
            vec![format!("{at}.exactly.selectors TooMany")],
        ),
    ] {
        assert_eq!(wrong(&set(&claim(), &format!("/spec/devices/requests/0{pointer}"), value)), expected);
    }
    let many = |count: usize| -> Value {
        let named = |at: usize| json!({"name": format!("r{at}"), "exactly": {"deviceClassName": "gpu"}});
        (0..count).map(named).collect()
    };
    assert!(wrong(&set(&claim(), "/spec/devices/requests", many(32))).is_empty());
    assert_eq!(wrong(&set(&claim(), "/spec/devices/requests", many(33))), ["spec.devices.requests TooMany"]);
    let mut twice = many(2);
    twice[1]["name"] = json!("r0");
    assert_eq!(
        wrong(&set(&claim(), "/spec/devices/requests", twice)),
        ["spec.devices.requests[1] Duplicate"]
    );
    let sub = |count: usize| -> Value {
        (0..count).map(|at| json!({"name": format!("s{at}"), "deviceClassName": "gpu"})).collect()
    };
    let pointer = "/spec/devices/requests/0/firstAvailable";
    assert_eq!(
        wrong(&set(&alternatives(), pointer, sub(9))),
        ["spec.devices.requests[0].firstAvailable TooMany"]
    );
    assert_eq!(
        wrong(&set(&alternatives(), &format!("{pointer}/0/deviceClassName"), json!(""))),
        ["spec.devices.requests[0].firstAvailable[0].deviceClassName Required"]
    );
}

#[test]
fn expressions() {
    let selecting = |expression: &str| {
        set(&claim(), &format!("{EXACTLY}/selectors"), json!([{"cel": {"expression": expression}}]))
    };
    let at = "spec.devices.requests[0].exactly.selectors[0].cel.expression";
    assert!(wrong(&selecting("device.attributes['a.b'].x == 'y'")).is_empty());
    assert_eq!(wrong(&selecting("noSuchVariable")), [format!("{at} Invalid")]);
    assert_eq!(wrong(&selecting("device.driver")), [format!("{at} Invalid")], "not a bool");
    assert_eq!(wrong(&selecting("")), [format!("{at} Invalid")]);
    assert_eq!(wrong(&selecting(&format!("true{}", " ".repeat(10_240)))), [format!("{at} TooLong")]);
    let dear = "device.attributes['a.b'].map(s, s.lowerAscii().upperAscii().replace(s, s)).map(s, s.lowerAscii().upperAscii().replace(s, s)).all(a, device.attributes['a.b'].all(b, device.attributes['a.b'].all(c, device.attributes['a.b'].all(d, a + b + c == d))))";
    assert_eq!(wrong(&selecting(dear)), [format!("{at} Forbidden")]);
    let refused = World::new().create(claims(), selecting(dear)).errors;
    assert_eq!(refused.list()[0].message(), "Forbidden: too complex, exceeds cost limit");
}

/// A claim of 31 requests with 32 selectors each, none of which is too dear alone.
fn with_selectors(expression: impl Fn(usize) -> String) -> Value {
    let mut requests = Vec::new();
    for request in 0..31 {
        let selectors: Vec<Value> =
            (0..32).map(|at| json!({"cel": {"expression": expression(32 * request + at)}})).collect();
        let exactly = json!({"deviceClassName": "gpu", "selectors": selectors});
        requests.push(json!({"name": format!("r-{request}"), "exactly": exactly}));
    }
    set(&claim(), "/spec/devices/requests", requests.into())
}

#[test]
fn many_expressions_that_are_hard_to_evaluate_are_compiled() {
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let inner = |at| format!("device.driver.size() + x + y + z + {at} > 0");
    let hard = with_selectors(|at| format!("{list}.all(x, {list}.all(y, {list}.all(z, {})))", inner(at)));
    assert_eq!(wrong(&hard), Vec::<String>::new());
}

/// Those before it take no more units than the budget has.
#[test]
fn expressions_that_take_too_long_to_compile_are_refused_by_name() {
    for expression in [
        "device.driver.matches('(a{30}|b{30}|c{30}){30}')".to_owned(),
        format!("device.driver != '{}'", "x".repeat(10_000)),
    ] {
        let compiled = COMPILE_UNITS_MAX / compile_units(&expression);
        assert!((1..31 * 32).contains(&compiled), "{compiled} are compiled");
        let refused = World::new().create(claims(), with_selectors(|_| expression.clone())).errors;
        let (request, at) = (compiled / 32, compiled % 32);
        let path = format!("spec.devices.requests[{request}].exactly.selectors[{at}].cel.expression: ");
        let said: Vec<String> = refused.list().iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(&path) && said[0].contains("units of work: shorten"), "{said:?}");
    }
}

#[test]
fn tolerations() {
    let with = |tolerations: Value| set(&claim(), &format!("{EXACTLY}/tolerations"), tolerations);
    let at = "spec.devices.requests[0].exactly.tolerations";
    for (toleration, expected) in [
        (json!({"operator": "Exists"}), vec![]),
        (json!({"operator": "Exists", "key": "k", "effect": "NoExecute", "tolerationSeconds": -1}), vec![]),
        (json!({"key": "k", "value": "v"}), vec![]),
        (json!({"key": "k", "effect": "None"}), vec![]),
        (json!({"key": "k", "operator": "Like"}), vec![format!("{at}[0].operator NotSupported")]),
        (json!({"key": "k", "operator": "Exists", "value": "v"}), vec![format!("{at}[0].value Invalid")]),
        (json!({"key": "a b"}), vec![format!("{at}[0].key Invalid")]),
        (json!({"key": "k", "value": "a b"}), vec![format!("{at}[0].value Invalid")]),
        (json!({"key": "k", "effect": "Never"}), vec![format!("{at}[0].effect NotSupported")]),
        (json!({}), vec![format!("{at}[0].operator Invalid")]),
    ] {
        assert_eq!(wrong(&with(json!([toleration]))), expected, "{toleration}");
    }
    assert!(wrong(&with(json!(vec![json!({"operator": "Exists"}); 16]))).is_empty());
    assert_eq!(wrong(&with(json!(vec![json!({"operator": "Exists"}); 17]))), [format!("{at} TooMany")]);
    let unsaid = json!([{"key": "k", "operator": "Like"}]);
    assert_eq!(
        wrong(&set(&alternatives(), "/spec/devices/requests/0/firstAvailable/0/tolerations", unsaid)),
        ["spec.devices.requests[0].firstAvailable[0].tolerations[0].operator NotSupported"]
    );
}

#[test]
fn constraints_and_config() {
    let constrained =
        |constraint: Value| wrong(&set(&alternatives(), "/spec/devices/constraints", json!([constraint])));
    let at = "spec.devices.constraints[0]";
    assert!(constrained(json!({"requests": ["req-0"], "matchAttribute": "a.b/c"})).is_empty());
    assert!(constrained(json!({"requests": ["req-0/big"], "distinctAttribute": "a.b/c"})).is_empty());
    assert_eq!(constrained(json!({"matchAttribute": "c"})), [format!("{at}.matchAttribute Invalid")]);
    assert_eq!(constrained(json!({"matchAttribute": "a.b/c/d"})), [format!("{at}.matchAttribute Invalid")]);
    assert_eq!(constrained(json!({"requests": ["req-0"]})), [format!("{at} Required")]);
    assert_eq!(
        constrained(json!({"requests": ["x"], "matchAttribute": "a.b/c"})),
        [format!("{at}.requests[0] Invalid")]
    );
    assert_eq!(
        constrained(json!({"requests": ["a/b/c"], "matchAttribute": "a.b/c"})),
        [format!("{at}.requests[0] Invalid")]
    );
    assert_eq!(
        constrained(json!({"requests": ["req-0", "req-0"], "matchAttribute": "a.b/c"})),
        [format!("{at}.requests[1] Duplicate")]
    );
    let configured =
        |opaque: Value| wrong(&set(&claim(), "/spec/devices/config", json!([{"opaque": opaque}])));
    let at = "spec.devices.config[0].opaque";
    assert!(configured(json!({"driver": "a.b", "parameters": {}})).is_empty());
    assert_eq!(configured(Value::Null), [format!("{at} Required")]);
    assert_eq!(configured(json!({"driver": "a.b"})), [format!("{at}.parameters Required")]);
    assert_eq!(configured(json!({"driver": "a.b", "parameters": [1]})), [format!("{at}.parameters Invalid")]);
    assert_eq!(configured(json!({"parameters": {}})), [format!("{at}.driver Required")]);
    let large = json!({"x": "a".repeat(10 * 1024)});
    assert_eq!(
        configured(json!({"driver": "a.b", "parameters": large})),
        [format!("{at}.parameters TooLong")]
    );
}

#[test]
fn derived_attributes() {
    let world = World::new().with("DRADerivedAttributes", true);
    let deriving = |name: &str, expression: &str| {
        let attributes = json!([{"name": name, "expression": expression}]);
        let object = set(&claim(), &format!("{EXACTLY}/derivedAttributes"), attributes);
        set(&object, "/spec/devices/constraints", json!([{"matchAttribute": "a.b/c"}]))
    };
    let at = "spec.devices.requests[0].exactly.derivedAttributes[0]";
    let wrong = |object: Value| world.create(claims(), object).wrong();
    assert!(wrong(deriving("a.b/c", "device.driver")).is_empty());
    assert_eq!(wrong(deriving("a.b/d", "device.driver")), [format!("{at}.name Invalid")], "no constraint");
    assert_eq!(wrong(deriving("", "device.driver")), [format!("{at}.name Required")]);
    assert_eq!(wrong(deriving("a.b/c", "")), [format!("{at}.expression Required")]);
    assert_eq!(wrong(deriving("a.b/c", "?")), [format!("{at}.expression Invalid")]);
    let dropped = World::new().create(claims(), deriving("a.b/d", "?")).ok();
    assert!(dropped.pointer(&format!("{EXACTLY}/derivedAttributes")).is_none());
}

#[test]
fn the_spec_is_immutable() {
    let stored = World::new().create(claims(), claim()).ok();
    let update = |new: Value| World::new().update(claims(), &stored, new);
    assert!(update(claim()).wrong().is_empty(), "defaults are no change");
    assert!(update(set(&claim(), "/metadata/labels/a", json!("b"))).wrong().is_empty());
    let changed = update(set(&claim(), &format!("{EXACTLY}/count"), json!(2)));
    assert_eq!(changed.wrong(), ["spec Invalid"]);
    assert!(changed.errors.list()[0].message().ends_with("field is immutable"));
    let old = World::new().create(templates(), template()).ok();
    let template = set(&template(), "/spec/spec/devices/requests/0/name", json!("other"));
    assert_eq!(World::new().update(templates(), &old, template).wrong(), ["spec Invalid"]);
}

fn template() -> Value {
    json!({"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": claim()["spec"]}})
}

#[test]
fn templates_are_claims_one_level_down() {
    let wrong = |object: Value| World::new().create(templates(), object).wrong();
    assert!(wrong(template()).is_empty());
    assert_eq!(
        wrong(set(&template(), "/spec/spec/devices/requests/0/name", json!(""))),
        ["spec.spec.devices.requests[0].name Invalid"]
    );
    assert_eq!(
        wrong(set(&template(), "/spec/metadata/labels", json!({"a b": "c"}))),
        ["spec.metadata.labels Invalid"]
    );
    assert_eq!(wrong(set(&template(), "/spec/metadata/name", json!("x"))), ["spec.metadata.name Forbidden"]);
}

#[test]
fn admin_access_needs_a_namespace_that_allows_it() {
    let asking = set(&claim(), &format!("{EXACTLY}/adminAccess"), json!(true));
    let refused = World::new().create(claims(), asking.clone());
    assert_eq!(refused.wrong(), ["spec.devices.requests[0].adminAccess Forbidden"]);
    let text = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    assert!(refused.errors.list()[0].to_string().ends_with(text));
    let mut world = World::new();
    world.namespace = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    world.create(claims(), asking.clone()).ok();
    let in_template = set(&template(), "/spec/spec", asking["spec"].clone());
    assert_eq!(
        World::new().create(templates(), in_template.clone()).wrong(),
        ["spec.devices.requests[0].adminAccess Forbidden"]
    );
    world.create(templates(), in_template).ok();
}

#[test]
fn fields_of_features_that_are_off_are_dropped_unless_in_use() {
    let exact = |field: &str, value: Value| {
        (set(&claim(), &format!("{EXACTLY}/{field}"), value), format!("{EXACTLY}/{field}"))
    };
    let first = |field: &str, value: Value| {
        let pointer = format!("/spec/devices/requests/0/firstAvailable/0/{field}");
        (set(&alternatives(), &pointer, value), pointer)
    };
    let tolerations = json!([{"key": "k", "operator": "Exists"}]);
    for (gate, (object, pointer)) in [
        ("DRADeviceTaints", exact("tolerations", tolerations.clone())),
        ("DRADeviceTaints", first("tolerations", tolerations)),
        ("DRAAdminAccess", exact("adminAccess", json!(false))),
        ("DRAConsumableCapacity", exact("capacity", json!({"requests": {"m": "1"}}))),
        ("DRAConsumableCapacity", first("capacity", json!({"requests": {"m": "1"}}))),
    ] {
        let on = World::new().with(gate, true).create(claims(), object.clone()).ok();
        assert!(on.pointer(&pointer).is_some(), "{gate}: keep");
        let off = World::new().with(gate, false);
        let dropped = off.create(claims(), object.clone()).ok();
        assert!(dropped.pointer(&pointer).is_none(), "{gate}: drop");
        let kept = off.update(claims(), &on, on.clone()).ok();
        assert!(kept.pointer(&pointer).is_some(), "{gate}: keep-existing-disabled-feature");
    }
    let off = World::new().with("DRAPrioritizedList", false).create(claims(), alternatives());
    assert_eq!(off.wrong(), ["spec.devices.requests[0] Required"]);
}

#[test]
fn classes() {
    let classes = kind("resource.k8s.io", "deviceclasses");
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "example.com/gpu"}});
    let world = World::new();
    let stored = world.create(classes, class.clone()).ok();
    for name in ["gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "", "a/b/c"] {
        let wrong = world.create(classes, set(&class, "/spec/extendedResourceName", json!(name))).wrong();
        assert_eq!(wrong, ["spec.extendedResourceName Invalid"], "{name}");
    }
    let broken = set(&class, "/spec/selectors/0/cel/expression", json!("?"));
    let at = "spec.selectors[0].cel.expression Invalid";
    assert_eq!(world.create(classes, broken.clone()).wrong(), [at]);
    assert_eq!(world.update(classes, &stored, broken.clone()).wrong(), [at]);
    assert!(world.update(classes, &broken, broken.clone()).wrong().is_empty(), "what is stored stays");
    let mut more = broken.clone();
    more["spec"]["selectors"].as_array_mut().unwrap().push(json!({"cel": {"expression": "true"}}));
    assert_eq!(world.update(classes, &broken, more).wrong(), [at], "a changed list is new as a whole");
}
