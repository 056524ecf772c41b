//! Limits of the decoded value, and what is known of objects that cannot be decoded.

use lazaret_api::{Object, decode_as, kept_in_words, what_is_known};
use lazaret_model::{DeviceTaintRule, NodeScope, RequestKind, ResourceClaim, ResourceSlice};

const GROUP: &str = "resource.k8s.io";

fn claim_text(config: &str, allocation: &str, reserved: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"c","namespace":"n","uid":"u"}},"spec":{{"devices":{{
        "requests":[{{"name":"r","exactly":{{"deviceClassName":"gpu"}}}}],"config":{config}}}}},
        "status":{{"allocation":{allocation},"reservedFor":{reserved}}}}}"#
    )
}

fn opaque(parameters: &str) -> String {
    format!(r#"[{{"opaque":{{"driver":"d","parameters":{parameters}}}}}]"#)
}

fn results(devices: &str) -> String {
    format!(r#"{{"devices":{{"results":[{devices}]}}}}"#)
}

const DEVICE: &str = r#"{"request":"r","driver":"d","pool":"p","device":"x"}"#;
const USER: &str = r#"{"resource":"pods","name":"a","uid":"1"}"#;

#[track_caller]
fn known(kind: &str, text: &str) -> (Object, bool) {
    decode_as(GROUP, "v1", kind, text).expect_err("it cannot be decoded");
    let known = what_is_known(GROUP, "v1", kind, text).expect("something is known");
    (known.object, known.says_what_is_held)
}

#[track_caller]
fn claim(text: &str) -> (ResourceClaim, bool) {
    let (Object::Claim(claim), whole) = known("ResourceClaim", text) else { panic!("a claim") };
    (claim, whole)
}

#[track_caller]
fn rule(spec: &str) -> DeviceTaintRule {
    let text = format!(r#"{{"metadata":{{"name":"r","uid":"u"}},"spec":{spec}}}"#);
    let (Object::Rule(rule), _) = known("DeviceTaintRule", &text) else { panic!("a rule") };
    rule
}

#[track_caller]
fn slice(devices: &str) -> ResourceSlice {
    let pool = r#""driver":"d","nodeName":"n","pool":{"name":"p","generation":1,"resourceSliceCount":1}"#;
    let text = format!(r#"{{"metadata":{{"name":"s"}},"spec":{{{pool},"devices":{devices}}}}}"#);
    let (Object::Slice(slice), _) = known("ResourceSlice", &text) else { panic!("a slice") };
    slice
}

#[test]
fn parameters_are_bounded_by_their_value_however_they_are_written() {
    let decodes = |parameters: &str| {
        let text = claim_text(&opaque(parameters), "null", "null");
        decode_as(GROUP, "v1", "ResourceClaim", &text).is_ok()
    };
    // {"a":"…"} has eight bytes besides.
    let most = 10 * 1024 - 8;
    assert!(decodes(&format!(r#"{{"a":"{}"}}"#, "<".repeat(most))));
    assert!(decodes(&format!(r#"{{"a":"{}"}}"#, "\\u003c".repeat(most))));
    assert!(decodes(&format!(r#"{{"a": {} "{}"}}"#, " ".repeat(20_000), "x".repeat(most))));
    assert!(!decodes(&format!(r#"{{"a":"{}"}}"#, "<".repeat(most + 1))));
    assert!(!decodes(&format!(r#"{{"a":"{}"}}"#, "\\u003c".repeat(most + 1))));
}

#[test]
fn a_claim_keeps_its_devices_and_its_users_and_gets_no_further_device() {
    let long = opaque(&format!(r#"{{"a":"{}"}}"#, "x".repeat(11_000)));
    for text in [
        claim_text(&long, &results(DEVICE), &format!("[{USER}]")),
        claim_text("7", &results(DEVICE), &format!("[{USER}]")),
        claim_text("[]", &results(DEVICE), &format!("[{USER}]"))
            .replace(r#""requests":["#, r#""requests":[7,"#),
        claim_text("[]", &results(DEVICE), &format!("[{USER}]"))
            .replace(r#""uid":"u""#, r#""uid":"u","labels":7"#),
    ] {
        let (claim, whole) = claim(&text);
        let allocation = claim.allocation.clone().unwrap();
        assert_eq!(allocation.results[0].device.to_string(), "d/p/x", "{text}");
        assert_eq!((claim.reserved_for.len(), whole), (1, true), "{text}");
        assert!(claim.spec.requests.iter().any(|one| matches!(one.kind, RequestKind::Unknown)), "{text}");
        let known = what_is_known(GROUP, "v1", "ResourceClaim", &text);
        assert_eq!(kept_in_words("ResourceClaim", "n/c", known.as_ref()), "device d/p/x for claim n/c");
    }
}

#[test]
fn parts_of_a_status_that_cannot_be_read_do_the_least_harm() {
    let torn = r#"{"request":"r","driver":"d","pool":"p","device":"x","tolerations":[{"tolerationSeconds":"soon"}]}"#;
    let (claim_, whole) = claim(&claim_text("[]", &results(torn), "[]"));
    let allocation = claim_.allocation.unwrap();
    assert!(whole && !allocation.results[0].tolerations.is_empty(), "what cannot be read tolerates");
    let (claim_, whole) = claim(&claim_text("[]", &results(&format!(r#"{DEVICE},{{"device":7}}"#)), "[]"));
    assert_eq!((claim_.allocation.unwrap().results.len(), whole), (1, false));
    let (claim_, whole) = claim(&claim_text("[]", &results(DEVICE), r#"[{"name":7}]"#));
    assert_eq!((claim_.reserved_for.len(), whole), (1, false), "somebody uses it");
    let (claim_, whole) = claim(&claim_text("[]", "7", "[]"));
    assert_eq!((claim_.allocation, whole), (None, false));
}

#[test]
fn a_rule_keeps_devices_from_being_given_out_and_evicts_nobody() {
    let selector = r#""deviceSelector":{"driver":"d","device":"x"}"#;
    for spec in [
        format!(r#"{{{selector},"taint":{{"key":"k","effect":"NoExecute","timeAdded":7}}}}"#),
        format!(r#"{{{selector},"taint":{{"key":"k","effect":7}}}}"#),
        format!(r#"{{{selector},"taint":{{"key":"k","effect":"NoExecute"}},"eviction":7}}"#),
    ] {
        let rule = rule(&spec);
        assert_eq!((&*rule.taint.key, rule.taint.effect.name()), ("k", "NoSchedule"), "{spec}");
        assert_eq!(rule.selector.unwrap().device.as_deref(), Some("x"), "{spec}");
    }
    let rule_ = rule(&format!(r#"{{{selector},"taint":7}}"#));
    assert_eq!((&*rule_.taint.key, rule_.taint.effect.name()), ("lazaret.dev/unreadable", "NoSchedule"));
    let wide = rule(r#"{"deviceSelector":7,"taint":{"key":"k","effect":"NoExecute"}}"#);
    assert!(wide.selector.unwrap().selects_everything() && !wide.taint.effect.evicts());
}

#[test]
fn the_devices_of_a_slice_are_there_and_cannot_be_given_out() {
    let slice_ = slice(r#"[{"name":"x","attributes":{"a":{"string":7}}},{"name":"y"}]"#);
    let names =
        |slice: &ResourceSlice| slice.devices.iter().map(|one| one.name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (names(&slice_), slice_.nodes.clone()),
        (vec!["x".to_owned(), "y".to_owned()], NodeScope::Unknown)
    );
    let slice_ = slice(r#"[{"name":"x","attributes":7,"taints":7,"capacity":7},{"name":"y","taints":[{}]}]"#);
    assert_eq!(names(&slice_).len(), 2);
}

#[test]
fn other_kinds_say_what_they_can() {
    let pod = r#"{"metadata":{"name":"p","namespace":"n","uid":"u"},"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"requests":{"cpu":"x y"}}}]},"status":{"phase":"Running"}}"#;
    let Some(known) = what_is_known("", "v1", "Pod", pod) else { panic!("a pod") };
    let Object::Pod(pod) = known.object else { panic!("a pod") };
    assert_eq!((pod.node.as_deref(), pod.uid.as_str()), (Some("n1"), "u"));
    let class = r#"{"metadata":{"name":"c"},"spec":{"selectors":[{"cel":7}]}}"#;
    let (Object::Class(class), _) = known_class(class) else { panic!("a class") };
    assert!(!class.selectors.is_empty() && class.selectors.iter().all(Option::is_none), "{class:?}");
    for text in ["", "7", "{}", r#"{"metadata":7}"#, "{"] {
        assert_eq!(what_is_known(GROUP, "v1", "ResourceClaim", text), None, "{text}");
    }
}

fn known_class(text: &str) -> (Object, bool) {
    known("DeviceClass", text)
}

#[test]
fn no_damage_makes_the_reader_panic_or_lose_a_device_that_is_named() {
    let text = claim_text(&opaque("{}"), &results(DEVICE), &format!("[{USER}]"));
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    for path in paths(&whole, String::new()) {
        for damage in [
            serde_json::json!(7),
            serde_json::json!("x"),
            serde_json::json!([7]),
            serde_json::json!({"a": 7}),
        ] {
            let mut torn = whole.clone();
            *torn.pointer_mut(&path).unwrap() = damage;
            let text = torn.to_string();
            let read = decode_as(GROUP, "v1", "ResourceClaim", &text).ok();
            let read = read.or_else(|| Some(what_is_known(GROUP, "v1", "ResourceClaim", &text)?.object));
            let is_needed =
                path.starts_with("/status/allocation") || path.starts_with("/metadata") || path == "/status";
            if !is_needed && !path.is_empty() {
                let Some(Object::Claim(claim)) = read else { panic!("{path}: {text}") };
                assert_eq!(
                    claim.allocation.unwrap().results[0].device.to_string(),
                    "d/p/x",
                    "{path}: {text}"
                );
            }
        }
    }
}

/// A pointer to each value.
fn paths(value: &serde_json::Value, at: String) -> Vec<String> {
    let mut all = vec![at.clone()];
    let below: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        serde_json::Value::Array(list) => {
            list.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => Vec::new(),
    };
    for (name, value) in below {
        all.extend(paths(value, format!("{at}/{name}")));
    }
    all
}
