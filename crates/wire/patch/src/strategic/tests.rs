use super::*;
use lazaret_json::json;
use lazaret_schema::builtin;

fn merge(ty: &str, object: Value, patch: Value) -> Result<Value, PatchError> {
    strategic_merge(builtin(), builtin().find(ty).unwrap(), object, &patch)
}

/// Object, patch, result.
#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn patches_do_what_kubectl_and_controllers_expect() {
    let pod = "core/v1.Pod";
    let claim = "resource/v1.ResourceClaim";
    let cases = [
        (
            "maps merge and null removes",
            pod,
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            json!({"metadata": {"labels": {"b": null, "c": "3"}}}),
            json!({"metadata": {"labels": {"a": "1", "c": "3"}}}),
        ),
        (
            "keyed lists merge by key",
            pod,
            json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}),
            json!({"spec": {"containers": [{"name": "b", "image": "z"}, {"name": "c", "image": "w"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "z"}, {"name": "c", "image": "w"}]}}),
        ),
        (
            "an item is deleted by its key",
            claim,
            json!({"status": {"reservedFor": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}}),
            json!({"metadata": {"uid": "u"}, "status": {"reservedFor": [{"$patch": "delete", "uid": "1"}]}}),
            json!({"metadata": {"uid": "u"}, "status": {"reservedFor": [{"uid": "2", "name": "b"}]}}),
        ),
        (
            "lists without a key are replaced",
            claim,
            json!({"spec": {"devices": {"requests": [{"name": "a"}]}}}),
            json!({"spec": {"devices": {"requests": [{"name": "b"}]}}}),
            json!({"spec": {"devices": {"requests": [{"name": "b"}]}}}),
        ),
        (
            "a list is replaced on request",
            pod,
            json!({"spec": {"containers": [{"name": "a"}]}}),
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "b"}]}}),
        ),
        (
            "a map is replaced on request",
            pod,
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}),
            json!({"metadata": {"labels": {"b": "2"}}}),
        ),
        (
            "scalars form a union and can be taken out",
            pod,
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["b", "c"]}}),
        ),
        (
            "scalars can be taken out alone",
            pod,
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
        ),
        (
            "order is set and strangers stay behind whom they followed",
            pod,
            json!({"status": {"conditions": [{"type": "A"}, {"type": "X"}, {"type": "B"}]}}),
            json!({"status": {"$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}], "conditions": [{"type": "B", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "B", "status": "True"}, {"type": "A"}, {"type": "X"}]}}),
        ),
        (
            "only retained keys stay",
            "apps/v1.Deployment",
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            "a new item sheds its directives and nulls",
            pod,
            json!({}),
            json!({"spec": {"containers": [{"name": "a", "env": [{"name": "E", "value": null, "$patch": "merge"}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "env": [{"name": "E"}]}]}}),
        ),
        (
            "owner references are keyed by uid",
            pod,
            json!({"metadata": {"ownerReferences": [{"uid": "1", "kind": "A"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "2", "kind": "B"}, {"uid": "1", "$patch": "delete"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "2", "kind": "B"}]}}),
        ),
    ];
    for (name, ty, object, patch, expected) in cases {
        assert_eq!(merge(ty, object, patch), Ok(expected), "{name}");
    }
}

#[test]
fn bad_patches_are_refused_with_the_reason() {
    let cases = [
        (json!([]), "must be an object"),
        (json!({"spec": {"$patch": "remove"}}), "unknown $patch"),
        (json!({"spec": {"$foo": 1}}), "unknown directive $foo"),
        (json!({"spec": {"containers": [{"image": "x"}]}}), "lacks its merge key name"),
        (json!({"spec": {"containers": ["x"]}}), "must be objects"),
        (json!({"metadata": {"finalizers": ["a"], "$setElementOrder/finalizers": 3}}), "must be a list"),
    ];
    for (patch, expected) in cases {
        let error = merge("core/v1.Pod", json!({}), patch.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{patch}: {error}");
    }
}
