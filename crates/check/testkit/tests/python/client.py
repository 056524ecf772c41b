"""The API as the official Python client uses it. KUBECONFIG says where; ends with 0 if all is as it should be."""

import re
import sys
import threading
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException

PATIENCE_SECONDS = 120


def refused(code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == code, f"{error.status} {error.body}"
        return error
    raise AssertionError(f"{call} was not refused")


def pod(name):
    container = client.V1Container(name="c", image="registry.example/c:1")
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "a"}),
        spec=client.V1PodSpec(containers=[container]),
    )


def versions_and_discovery():
    assert client.VersionApi().get_code().minor == "37"
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    assert {"apps", "resource.k8s.io", "rbac.authorization.k8s.io"} <= groups, groups
    names = {resource.name for resource in client.CoreV1Api().get_api_resources().resources}
    assert {"pods", "pods/status", "pods/eviction", "namespaces"} <= names, names


def objects():
    core = client.CoreV1Api()
    made = core.create_namespaced_pod("default", pod("a"))
    assert made.spec.restart_policy == "Always" and made.status.phase == "Pending"
    assert made.metadata.creation_timestamp is not None
    refused(409, core.create_namespaced_pod, "default", pod("a"))
    error = refused(422, core.create_namespaced_pod, "default", pod("A_"))
    assert "metadata.name" in error.body
    core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"tier": "x"}}})
    found = core.list_namespaced_pod("default", label_selector="app=a,tier in (x)", field_selector="status.phase=Pending")
    assert [item.metadata.name for item in found.items] == ["a"]
    core.replace_namespaced_pod_status("a", "default", with_phase(core.read_namespaced_pod("a", "default"), "Running"))
    assert core.read_namespaced_pod_status("a", "default").status.phase == "Running"
    stale = core.read_namespaced_pod("a", "default")
    core.patch_namespaced_pod("a", "default", {"metadata": {"annotations": {"n": "1"}}})
    refused(409, core.replace_namespaced_pod, "a", "default", stale)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="a", namespace="default"))
    core.create_namespaced_pod_eviction("a", "default", eviction)
    left = core.read_namespaced_pod("a", "default") if core.list_namespaced_pod("default").items else None
    assert left is None or left.metadata.deletion_timestamp is not None
    core.delete_collection_namespaced_pod("default", grace_period_seconds=0)
    assert core.list_namespaced_pod("default").items == []


def with_phase(pod, phase):
    pod.status.phase = phase
    return pod


def devices():
    api = client.ResourceV1Api()
    exactly = client.V1ExactDeviceRequest(device_class_name="gpu")
    request = client.V1DeviceRequest(name="gpu", exactly=exactly)
    api.create_device_class({"metadata": {"name": "gpu"}, "spec": {}})
    claim = client.ResourceV1ResourceClaim(
        metadata=client.V1ObjectMeta(name="c"),
        spec=client.V1ResourceClaimSpec(devices=client.V1DeviceClaim(requests=[request])),
    )
    made = api.create_namespaced_resource_claim("default", claim)
    assert made.spec.devices.requests[0].exactly.count == 1
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": taint}}
    made = api.create_device_taint_rule(rule)
    assert made.spec.taint.time_added is not None
    assert [item.metadata.name for item in api.list_device_taint_rule().items] == ["r"]
    api.delete_device_taint_rule("r")
    refused(404, api.read_device_taint_rule, "r")


def pages():
    core = client.CoreV1Api()
    for number in range(25):
        core.create_namespaced_config_map("default", {"metadata": {"name": f"page-{number:02}"}})
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map("default", limit=10, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert [name for name in names if name.startswith("page-")] == [f"page-{number:02}" for number in range(25)]


def watches():
    core = client.CoreV1Api()
    version = core.list_namespaced_secret("default").metadata.resource_version

    def write():
        core.create_namespaced_secret("default", {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
        core.patch_namespaced_secret("s", "default", {"metadata": {"labels": {"a": "b"}}})
        core.delete_namespaced_secret("s", "default")

    threading.Thread(target=write).start()
    seen = []
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_secret, "default", resource_version=version, timeout_seconds=PATIENCE_SECONDS
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            stream.stop()
    assert seen == [("ADDED", "s"), ("MODIFIED", "s"), ("DELETED", "s")], seen


def dynamic_objects():
    every = dynamic.DynamicClient(client.ApiClient())
    leases = every.resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    applied = leases.server_side_apply(body=body, name="l", namespace="default", field_manager="python")
    assert applied.spec.holderIdentity == "me"
    body["spec"]["holderIdentity"] = "you"
    try:
        leases.server_side_apply(body=body, name="l", namespace="default", field_manager="another")
    except dynamic.exceptions.ConflictError:
        pass
    else:
        raise AssertionError("no conflict")
    taken = leases.server_side_apply(body=body, name="l", namespace="default", field_manager="another", force_conflicts=True)
    assert taken.spec.holderIdentity == "you"
    labels = leases.patch(
        body=[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}],
        name="l",
        namespace="default",
        content_type="application/json-patch+json",
    )
    assert labels.metadata.labels["a"] == "b"


def from_yaml():
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    utils.create_from_dict(client.ApiClient(), deployment)
    apps = client.AppsV1Api()
    apps.patch_namespaced_deployment_scale("d", "default", {"spec": {"replicas": 3}})
    assert apps.read_namespaced_deployment("d", "default").spec.replicas == 3


def reviews():
    review = client.AuthorizationV1Api().create_self_subject_access_review(
        {"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}}}
    )
    assert review.status.allowed
    core = client.CoreV1Api()
    core.create_namespaced_service_account("default", {"metadata": {"name": "robot"}})
    token = core.create_namespaced_service_account_token("robot", "default", {"spec": {"expirationSeconds": 600}})
    assert token.status.token.count(".") == 2


TIME = "2026-01-01T00:00:00Z"
MICRO_TIME = "9999-12-31T23:59:59.999999Z"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "args": [], "resources": {"limits": {"cpu": "1000m"}}}]}}
JOB = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
CLAIM = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "kept", "tolerations": [{"operator": "Exists"}]}}]}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
TAINT = {"key": "example.com/t", "value": "", "effect": "NoSchedule", "timeAdded": TIME}
REQUEST = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
WEBHOOK = {"name": "a.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": []}
ADDRESSES = [{"addresses": ["192.0.2.1"]}]

# An object of each kind, besides its name: with times, quantities in another notation, empty texts and empty lists.
BODIES = {
    "ConfigMap": {"data": {"k": ""}},
    "ControllerRevision": {"revision": 1, "data": {"a": []}},
    "CronJob": {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": JOB}}},
    "CSIDriver": {"spec": {}},
    "CSINode": {"spec": {"drivers": []}},
    "CSIStorageCapacity": {"storageClassName": "kept", "capacity": "1024Mi"},
    "ClusterRole": {"rules": []},
    "ClusterRoleBinding": {"roleRef": ROLE, "subjects": []},
    "CustomResourceDefinition": {"metadata": {"name": "kepts.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "kepts", "kind": "Kept"}, "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}},
    "DaemonSet": {"spec": WORKLOAD},
    "Deployment": {"spec": WORKLOAD},
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "DeviceTaintRule": {"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": TAINT}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": ADDRESSES, "ports": []},
    "Endpoints": {"subsets": []},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "kept", "apiVersion": "apps/v1"}}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "kept", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "example.com/c"}},
    "Job": {"spec": {**JOB, "suspend": True}},
    "Lease": {"spec": {"holderIdentity": "", "acquireTime": "2026-01-01T00:00:00.5Z", "renewTime": MICRO_TIME}},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "5000m"}}]}},
    "MutatingWebhookConfiguration": {"webhooks": [WEBHOOK]},
    "Namespace": {},
    "NetworkPolicy": {"spec": {"podSelector": {}, "ingress": []}},
    "Node": {"spec": {"taints": [{"key": "k", "value": "", "effect": "NoExecute", "timeAdded": TIME}]}, "status": {"capacity": {"cpu": "8000m"}}},
    "PersistentVolume": {"spec": {"capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d", "type": ""}}},
    "PersistentVolumeClaim": {"spec": REQUEST},
    "Pod": {"spec": TEMPLATE["spec"]},
    "PodDisruptionBudget": {"spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
    "PodTemplate": {"template": TEMPLATE},
    "PriorityClass": {"value": 7, "description": ""},
    "ReplicaSet": {"spec": WORKLOAD},
    "ReplicationController": {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
    "ResourceClaim": {"spec": CLAIM},
    "ResourceClaimTemplate": {"spec": {"spec": CLAIM}},
    "ResourceQuota": {"spec": {"hard": {"limits.cpu": "5000m"}}},
    "ResourceSlice": {"spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "d", "capacity": {"memory": {"value": "1024Mi"}}, "taints": [TAINT]}]}},
    "Role": {"rules": []},
    "RoleBinding": {"roleRef": ROLE, "subjects": []},
    "RuntimeClass": {"handler": "h", "overhead": {"podFixed": {"cpu": "1000m"}}},
    "Secret": {"data": {"k": ""}},
    "Service": {"spec": {"ports": [{"port": 80, "name": ""}]}},
    "ServiceAccount": {"secrets": []},
    "StatefulSet": {"spec": {**WORKLOAD, "serviceName": ""}},
    "StorageClass": {"provisioner": "d.example.com", "mountOptions": []},
    "ValidatingAdmissionPolicy": {"spec": {"validations": [{"expression": "true", "message": ""}], "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}}},
    "ValidatingAdmissionPolicyBinding": {"spec": {"policyName": "kept", "validationActions": ["Audit"]}},
    "ValidatingWebhookConfiguration": {"webhooks": [{**WEBHOOK, "name": "b.example.com"}]},
    "VolumeAttachment": {"spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "kept"}}},
}
# A request for a certificate needs a key, and an event names an object; the two kinds of events have no reader of their own here.
NO_BODY = {"CertificateSigningRequest", "Event"}


def typed_methods(group, version, kind, namespaced):
    """How the client reads and replaces a kind, or None where it has no type for it."""
    words = "".join(part.capitalize() for part in group.removesuffix(".k8s.io").split(".")) if group else "core".capitalize()
    api = getattr(client, f"{words}{version.capitalize()}Api", None)
    snake = re.sub("([a-z0-9])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", kind)).lower()
    scope = "namespaced_" if namespaced else ""
    if api is None or not hasattr(api, f"replace_{scope}{snake}"):
        return None
    place = ["default"] if namespaced else []
    call = lambda verb: lambda *arguments: getattr(api(), f"{verb}_{scope}{snake}")(*arguments)
    read = lambda name: call("read")(name, *place)
    replace = lambda name, body: call("replace")(name, *place, body)
    return read, replace


def replaced():
    """Each kind is read into the client's own types, which write times with an offset, and replaced as it is: nothing changes."""
    every = dynamic.DynamicClient(client.ApiClient())
    done, unknown = set(), set()
    for kind in every.resources.search():
        if not {"create", "get", "update"} <= set(kind.verbs or []) or "/" in kind.name or kind.kind in NO_BODY or kind.kind.endswith("List"):
            continue
        methods = typed_methods(kind.group, kind.api_version, kind.kind, kind.namespaced)
        if methods is None:
            continue
        if kind.kind not in BODIES:
            unknown.add(f"{kind.kind} ({kind.group_version})")
            continue
        read, replace = methods
        body = {"apiVersion": kind.group_version, "kind": kind.kind, **BODIES[kind.kind]}
        name = body.get("metadata", {}).get("name", "kept")
        body["metadata"] = {"name": name, "labels": {}}
        place = {"namespace": "default"} if kind.namespaced else {}
        if kind.kind not in done:
            kind.create(body=body, **place)
        before = kind.get(name=name, **place).to_dict()
        replace(name, read(name))
        after = kind.get(name=name, **place).to_dict()
        assert after == before, f"{kind.group_version} {kind.kind}:\n{before}\n{after}"
        done.add(kind.kind)
    assert not unknown, f"no object of these kinds is tried: {unknown}"
    assert done == set(BODIES), set(BODIES) - done


def replaced_status_of_a_claim():
    api = client.ResourceV1Api()
    path = ["kept-allocated", "default"]
    api.create_namespaced_resource_claim("default", {"metadata": {"name": path[0]}, "spec": CLAIM})
    claim = api.read_namespaced_resource_claim(*path).to_dict()
    results = [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"}]
    status = {"allocation": {"allocationTimestamp": TIME, "devices": {"results": results}}}
    api.patch_namespaced_resource_claim_status(*path, {"status": status})
    allocated = api.read_namespaced_resource_claim(*path)
    assert allocated.status.allocation.allocation_timestamp.year == 2026
    allocated.status.reserved_for = [{"resource": "pods", "name": "p", "uid": "u"}]
    reserved = api.replace_namespaced_resource_claim_status(*path, allocated)
    assert reserved.status.reserved_for[0].name == "p"
    assert reserved.metadata.generation == claim["metadata"]["generation"]
    assert reserved.status.allocation == allocated.status.allocation
    again = api.replace_namespaced_resource_claim_status(*path, reserved)
    assert again.metadata.resource_version == reserved.metadata.resource_version


def main():
    config.load_kube_config()
    for check in [versions_and_discovery, objects, devices, pages, watches, dynamic_objects, from_yaml, reviews, replaced, replaced_status_of_a_claim]:
        started = time.monotonic()
        check()
        print(f"{check.__name__}: {time.monotonic() - started:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
