use lazaret_json::{Value, json};

use super::*;
use crate::testing::{World, kind};

fn range(limits: Value) -> Value {
    let ranges = kind("", "limitranges");
    World::new().create(ranges, json!({"metadata": {"name": "l"}, "spec": {"limits": limits}})).ok()
}

fn pod(resources: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
}

#[test]
fn defaults_follow_from_one_another() {
    let item = |item: Value| range(json!([item]))["spec"]["limits"][0].clone();
    let of_max = item(json!({"type": "Container", "max": {"cpu": "1000m"}}));
    assert_eq!((&of_max["default"], &of_max["defaultRequest"]), (&json!({"cpu": "1"}), &json!({"cpu": "1"})));
    let of_min = item(json!({"type": "Container", "min": {"cpu": "100m"}}));
    assert_eq!((of_min.get("default"), &of_min["defaultRequest"]), (None, &json!({"cpu": "100m"})));
    assert!(item(json!({"type": "Pod", "max": {"cpu": "1"}})).get("default").is_none());
}

#[test]
fn containers_get_what_they_do_not_have_and_an_annotation_says_so() {
    let range = range(
        json!([{"type": "Container", "default": {"cpu": "100m", "memory": "10Mi"}, "defaultRequest": {"cpu": "50m", "memory": "5Mi"}}]),
    );
    let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "2m", "memory": "9Mi"}}}],
        "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "1"}}}]}});
    default_pod(&range, &mut pod);
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "50m", "memory": "5Mi"}, "limits": {"cpu": "100m", "memory": "10Mi"}})
    );
    assert_eq!(pod["spec"]["containers"][1]["resources"]["requests"], json!({"cpu": "1m", "memory": "5Mi"}));
    assert_eq!(
        pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; memory request for container b; cpu, memory request for init container i; memory limit for init container i"
    );
    let once = pod.clone();
    default_pod(&range, &mut pod);
    assert_eq!(pod, once);
}

#[test]
fn what_is_too_much_too_little_or_missing_is_said_as_kubernetes_says_it() {
    let rows = [
        (
            json!({"type": "Container", "min": {"cpu": "100m"}}),
            json!({}),
            "minimum cpu usage per Container is 100m.  No request is specified",
        ),
        (
            json!({"type": "Container", "min": {"cpu": "100m"}}),
            json!({"requests": {"cpu": "50m"}}),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            json!({"type": "Container", "min": {"memory": "1Gi"}}),
            json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "512Mi"}}),
            "minimum memory usage per Container is 1Gi, but limit is 512Mi",
        ),
        (
            json!({"type": "Container", "max": {"cpu": "1"}}),
            json!({"requests": {"cpu": "1"}}),
            "maximum cpu usage per Container is 1.  No limit is specified",
        ),
        (
            json!({"type": "Container", "max": {"cpu": "1"}}),
            json!({"limits": {"cpu": "1500m"}}),
            "maximum cpu usage per Container is 1, but limit is 1500m",
        ),
        (
            json!({"type": "Container", "max": {"cpu": "1"}}),
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            "maximum cpu usage per Container is 1, but request is 2",
        ),
        (
            json!({"type": "Pod", "max": {"cpu": "1", "memory": "1Gi"}}),
            json!({"limits": {"cpu": "2"}}),
            "[maximum cpu usage per Pod is 1, but limit is 2, maximum memory usage per Pod is 1Gi.  No limit is specified]",
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
            json!({"limits": {"cpu": "1"}}),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
            json!({"requests": {"cpu": "1"}}),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2500m"}}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "1.5"}}),
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1500m"}}),
            "",
        ),
    ];
    for (item, resources, wanted) in rows {
        let said = check_pod(&range(json!([item])), &pod(resources)).err().unwrap_or_default();
        assert_eq!(said, wanted);
    }
    let storage = range(
        json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]),
    );
    let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    assert_eq!(check_claim(&storage, &claim("1Gi")), Ok(()));
    assert_eq!(
        check_claim(&storage, &claim("3Gi")).unwrap_err(),
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    );
    assert_eq!(
        check_claim(&storage, &json!({"spec": {}})).unwrap_err(),
        "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]"
    );
}

#[test]
fn limit_ranges_that_contradict_themselves_are_refused() {
    let wrong = |limits: Value| {
        let ranges = kind("", "limitranges");
        let made =
            World::new().create(ranges, json!({"metadata": {"name": "l"}, "spec": {"limits": limits}}));
        made.errors.list().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let rows = [
        (
            json!([{"type": "Thing"}]),
            r#"spec.limits[0].type: Invalid value: "Thing": must be a standard limit type or fully qualified"#,
        ),
        (json!([{"type": "Pod"}, {"type": "Pod"}]), r#"spec.limits[1].type: Duplicate value: "Pod""#),
        (
            json!([{"type": "Pod", "default": {"cpu": "1"}}]),
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        ),
        (
            json!([{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]),
            r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#,
        ),
        (
            json!([{"type": "Pod", "max": {"pods": "2"}}]),
            r#"spec.limits[0].max[pods]: Invalid value: "pods": must be a standard resource for containers"#,
        ),
        (
            json!([{"type": "PersistentVolumeClaim"}]),
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
        ),
        (
            json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}}]),
            r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1"#,
        ),
        (
            json!([{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}]),
            r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000"#,
        ),
        (
            json!([{"type": "Container", "default": {"hugepages-2Mi": "4Mi"}, "defaultRequest": {"hugepages-2Mi": "2Mi"}}]),
            r#"spec.limits[0].defaultRequest[hugepages-2Mi]: Invalid value: "2Mi": default value 4Mi must equal to defaultRequest value 2Mi in hugepages-2Mi"#,
        ),
        (
            json!([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}]),
            r#"spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default limit value 1"#,
        ),
    ];
    for (limits, wanted) in rows {
        assert_eq!(wrong(limits), wanted);
    }
}
