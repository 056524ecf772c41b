"""The API as the official Python client uses it. KUBECONFIG says where; ends with 0 if all is as it should be."""

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


def main():
    config.load_kube_config()
    for check in [versions_and_discovery, objects, devices, pages, watches, dynamic_objects, from_yaml, reviews]:
        started = time.monotonic()
        check()
        print(f"{check.__name__}: {time.monotonic() - started:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
