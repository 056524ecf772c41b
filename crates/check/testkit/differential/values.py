"""Values at the door: objects are written in several notations to a kube-apiserver and to another server, and what is stored is compared.

    python3 values.py prepare FOLDER OUT URL TOKEN                # kube-apiserver: makes of the objects in FOLDER some that it takes
    python3 values.py notations OUT URL TOKEN URL TOKEN           # kube-apiserver first
    python3 values.py clients OUT URL TOKEN URL TOKEN [PROGRAM…]  # read and replaced, by PROGRAM URL TOKEN API-PATH, or by the Python client
    python3 values.py defaults URL TOKEN URL TOKEN                # the smallest object of each kind

FOLDER has one JSON object in each file; of those no value need be one that a server takes. Objects are made, read and deleted in the namespace
`values`, or with names that begin with `values-`. The last line of each command counts the differences.
"""

import copy
import http.client
import json
import re
import ssl
import subprocess
import sys
import urllib.parse
from pathlib import Path

TABLES = Path(__file__).resolve().parents[2] / "schema/tables"
NAMESPACE = "values"
ROUNDS = 400
SCALARS = {"string", "int32", "int64", "bool", "quantity", "intorstring", "bytes", "time", "microtime", "duration", "double"}
# Plural names, and whether objects are in a namespace.
KINDS = {
    "apps/v1": {"Deployment": ("deployments", 1), "ReplicaSet": ("replicasets", 1), "StatefulSet": ("statefulsets", 1), "DaemonSet": ("daemonsets", 1), "ControllerRevision": ("controllerrevisions", 1)},
    "batch/v1": {"Job": ("jobs", 1), "CronJob": ("cronjobs", 1)},
    "coordination.k8s.io/v1": {"Lease": ("leases", 1)},
    "v1": {"ConfigMap": ("configmaps", 1), "Event": ("events", 1), "Namespace": ("namespaces", 0), "Node": ("nodes", 0), "Pod": ("pods", 1), "Secret": ("secrets", 1), "ServiceAccount": ("serviceaccounts", 1), "Service": ("services", 1), "Endpoints": ("endpoints", 1), "LimitRange": ("limitranges", 1), "ResourceQuota": ("resourcequotas", 1), "PersistentVolume": ("persistentvolumes", 0), "PersistentVolumeClaim": ("persistentvolumeclaims", 1)},
    "events.k8s.io/v1": {"Event": ("events", 1)},
    "policy/v1": {"PodDisruptionBudget": ("poddisruptionbudgets", 1)},
    "rbac.authorization.k8s.io/v1": {"ClusterRole": ("clusterroles", 0), "ClusterRoleBinding": ("clusterrolebindings", 0), "Role": ("roles", 1), "RoleBinding": ("rolebindings", 1)},
    "resource.k8s.io/v1": {"DeviceClass": ("deviceclasses", 0), "DeviceTaintRule": ("devicetaintrules", 0), "ResourceClaim": ("resourceclaims", 1), "ResourceClaimTemplate": ("resourceclaimtemplates", 1), "ResourceSlice": ("resourceslices", 0)},
    "scheduling.k8s.io/v1": {"PriorityClass": ("priorityclasses", 0)},
    "networking.k8s.io/v1": {"NetworkPolicy": ("networkpolicies", 1), "Ingress": ("ingresses", 1), "IngressClass": ("ingressclasses", 0)},
    "discovery.k8s.io/v1": {"EndpointSlice": ("endpointslices", 1)},
    "autoscaling/v2": {"HorizontalPodAutoscaler": ("horizontalpodautoscalers", 1)},
    "node.k8s.io/v1": {"RuntimeClass": ("runtimeclasses", 0)},
    "storage.k8s.io/v1": {"StorageClass": ("storageclasses", 0), "CSIDriver": ("csidrivers", 0), "CSINode": ("csinodes", 0)},
}
for version in ("v1beta1", "v1beta2"):
    KINDS[f"resource.k8s.io/{version}"] = {kind: known for kind, known in KINDS["resource.k8s.io/v1"].items() if (version, kind) != ("v1beta1", "DeviceTaintRule")}


# Types of fields.

def read_tables():
    types, aliases = {}, {}
    for file in TABLES.glob("*.txt"):
        package = file.stem
        current = None
        for line in file.read_text().splitlines():
            if not line.strip() or line.startswith("    ") or line.startswith("#"):
                continue
            if line.startswith("  "):
                words = line.split()
                types[current].append((words[0], words[2].lstrip("*"), words[2].startswith("*")))
            elif " = " in line:
                name, meaning = line.split(" = ", 1)
                aliases[f"{package}.{name}"] = meaning.split()[0]
            else:
                current = f"{package}.{line.split()[0]}"
                types[current] = []
    return types, aliases


TYPES, ALIASES = read_tables()


def resolve(name, package):
    """The full name of a type, or a scalar, a list or a map, and the package that names in it belong to."""
    if name in SCALARS or name.startswith(("[]", "{}")):
        return name, package
    if "/" in name:
        package, name = name.rsplit(".", 1)
        package = package.replace("/", "_")
    full = f"{package}.{name}"
    if full in ALIASES:
        return resolve(ALIASES[full].lstrip("*"), package)
    return full, package


def fields_of(full):
    package = full.rsplit(".", 1)[0]
    for name, ty, optional in TYPES.get(full, []):
        if name == "inline":
            yield from fields_of(resolve(ty, package)[0])
        else:
            yield name, ty, optional, package


def walk(value, ty, package, change, path=""):
    """Calls change(value, type, fields) from the inside out, and puts what it gives in the place of the value."""
    plain, package = resolve(ty.lstrip("*"), package)
    if isinstance(value, dict) and plain in TYPES:
        known = {name: (ty, package) for name, ty, _, package in fields_of(plain)}
        for name in list(value):
            if name in known and not path.startswith("metadata.managedFields"):
                value[name] = walk(value[name], known[name][0], known[name][1], change, f"{path}{name}.")
    elif isinstance(value, dict) and plain.startswith("{}"):
        for name in value:
            value[name] = walk(value[name], plain[2:], package, change, path)
    elif isinstance(value, list) and plain.startswith("[]"):
        value = [walk(item, plain[2:], package, change, path) for item in value]
    return change(value, plain, path)


def type_of(item):
    group, _, version = item["apiVersion"].rpartition("/")
    known = {"": "core", "rbac.authorization.k8s.io": "rbac"}.get(group, group.split(".")[0])
    return f"{known}_{version}.{item['kind']}"


# Notations.

def offset(value, ty, path):
    """Times with an offset, quantities as numbers, durations in other units, null wherever nothing is said."""
    if ty in ("time", "microtime") and isinstance(value, str) and value.endswith("Z"):
        return value[:-1] + "+00:00"
    if ty == "quantity" and isinstance(value, str) and value.isdigit():
        return int(value)
    if isinstance(value, dict) and ty in TYPES:
        return {**{name: None for name, _, _, _ in fields_of(ty)}, **value}
    return value


def digits(value, ty, path):
    """Times with parts of a second, quantities with another suffix, and empty values where nothing is said and no pointer is."""
    if ty == "time" and isinstance(value, str) and value.endswith("Z"):
        return value[:-1] + ".123456789Z"
    if ty == "microtime" and isinstance(value, str) and value.endswith("Z"):
        return value[:19] + ".123456Z"
    if ty == "quantity" and isinstance(value, str) and value.isdigit():
        return f"{value}000m"
    if isinstance(value, dict) and ty in TYPES:
        empty = {name: found for name, inner, optional, package in fields_of(ty) if not optional and (found := empty_of(inner, package)) is not None}
        return {**empty, **value}
    return value


def empty_of(ty, package):
    plain, _ = resolve(ty, package)
    return {"string": "", "int32": 0, "int64": 0, "bool": False, "bytes": ""}.get(plain, [] if plain.startswith("[]") else {} if plain.startswith("{}") else None)


def shifted(value, ty, path):
    """Times of another zone, quantities with exponents and with binary suffixes, structs without content."""
    if ty in ("time", "microtime") and isinstance(value, str) and (match := re.fullmatch(r"(.*T)(\d\d)(:.*)Z", value)) and int(match[2]) < 22:
        return f"{match[1]}{int(match[2]) + 2:02}{match[3]}+02:00"
    if ty == "quantity" and isinstance(value, str):
        if value.isdigit():
            return f"{value}e0"
        if match := re.fullmatch(r"(\d+)Gi", value):
            return f"{int(match[1]) * 1024}Mi"
    if isinstance(value, dict) and ty in TYPES:
        empty = {name: {} for name, inner, optional, package in fields_of(ty) if not optional and resolve(inner, package)[0] in TYPES}
        return {**empty, **value}
    return value


NOTATIONS = {"plain": lambda value, ty, path: value, "offset": offset, "digits": digits, "shifted": shifted}


def in_notation(item, notation):
    written = copy.deepcopy(item)
    ty = type_of(item)
    meta = written.pop("metadata")
    package, name = ty.rsplit(".", 1)
    written = walk(written, name, package, NOTATIONS[notation])
    meta = walk(meta, "ObjectMeta", "meta_v1", NOTATIONS[notation])
    # What a client may not say of a new object.
    for field in ("uid", "resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName"):
        meta.pop(field, None)
    return {**written, "apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": meta}


# Servers.

class Server:
    def __init__(self, url, token):
        self.base, self.token = url, token
        self.url = urllib.parse.urlsplit(url)
        self.secure = self.url.scheme == "https"

    def ask(self, method, path, body=None, kind="application/json"):
        options = {"context": ssl._create_unverified_context()} if self.secure else {}
        connection = (http.client.HTTPSConnection if self.secure else http.client.HTTPConnection)(self.url.hostname, self.url.port, timeout=60, **options)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        try:
            return response.status, json.loads(text or b"{}")
        except json.JSONDecodeError:
            return response.status, {"message": text.decode(errors="replace")}

    def remove(self, path):
        code, found = self.ask("GET", path)
        if code == 200 and found["metadata"].get("finalizers"):
            self.ask("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        self.ask("DELETE", path + "?gracePeriodSeconds=0&propagationPolicy=Background")


def place(item):
    version = item["apiVersion"]
    plural, namespaced = KINDS[version][item["kind"]]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    return f"{root}/namespaces/{NAMESPACE}/{plural}" if namespaced else f"{root}/{plural}"


def fields_refused(body):
    return sorted({cause.get("field", "") for cause in (body.get("details") or {}).get("causes") or []})


# Making objects that a server takes.

def lower(value):
    if isinstance(value, dict):
        return {lower(key) if key.endswith("Key") else key: lower(item) for key, item in value.items()}
    if isinstance(value, list):
        return [lower(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"[a-zA-Z0-9]+(Value|Key)", value):
        return value.lower()
    return value


# What no repair finds out: paths that are taken away or set first, below the spec of pods and elsewhere.
OF_PODS = {field: None for field in ("ephemeralContainers", "priorityClassName", "runtimeClassName", "overhead", "priority", "preemptionPolicy", "nodeName", "schedulingGroup", "serviceAccountName", "serviceAccount", "schedulingGates", "resources", "resourceClaims", "evictionResponders", "hostnameOverride")}
FIRST = {
    "Pod": {f"spec.{field}": value for field, value in OF_PODS.items()},
    **{kind: {f"spec.template.spec.{field}": value for field, value in OF_PODS.items()} for kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job")},
    "Event": {"involvedObject.namespace": NAMESPACE, "regarding.namespace": NAMESPACE, "type": "Normal", **{field: None for field in ("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "series")}},
    "Node": {"spec.taints": None, "spec.podCIDR": None, "spec.podCIDRs": None},
    "ResourceSlice": {f"spec.{field}": None for field in ("nodeSelector", "allNodes", "perDeviceNodeSelection", "sharedCounters")},
    "ResourceClaimTemplate": {f"spec.metadata.{field}": None for field in ("name", "namespace", "generateName", "uid", "resourceVersion", "finalizers", "ownerReferences", "managedFields", "selfLink", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")},
}
for kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job"):
    FIRST[kind].update({"spec.selector": None if kind == "Job" else {"matchLabels": {"labelskey": "labelsvalue"}}, "spec.template.metadata.labels": {"labelskey": "labelsvalue"}, "spec.manualSelector": None, "spec.volumeClaimTemplates": None, "spec.replicas": 0, "spec.template.spec.restartPolicy": "Never" if kind == "Job" else "Always", "spec.template.spec.activeDeadlineSeconds": None, "spec.maxFailedIndexes": None, "spec.managedBy": None, "spec.podFailurePolicy": None})


def without(value, field):
    if isinstance(value, dict):
        return {key: without(item, field) for key, item in value.items() if key != field}
    return [without(item, field) for item in value] if isinstance(value, list) else value


def put_first(item):
    spec = item.get("spec") or {}
    for request in ((spec.get("spec") or spec).get("devices") or {}).get("requests", []) if "Claim" in item["kind"] else []:
        for holder in (request, request.get("exactly", {})):
            holder.pop("adminAccess", None)
            holder.pop("firstAvailable", None)
    for path, value in FIRST.get(item["kind"], {}).items():
        *way, last = path.split(".")
        at = item
        for step in way:
            at = at.get(step, {})
        if value is None:
            at.pop(last, None)
        elif last in at or last in ("selector", "restartPolicy", "labels"):
            at[last] = value


def amounts(value, ty, path):
    return ("1Gi" if "memory" in path or "storage" in path else "2") if ty == "quantity" else value


def steps(path):
    """`a.b[0].c[key]` as the steps to it; keys may have points."""
    return [part for match in re.finditer(r"\[([^\]]*)\]|([^.\[\]]+)", path) for part in [match[1] if match[2] is None else match[2]]]


def mend(item, cause):
    """Does away with what is refused. Whether anything changed."""
    path, why = cause.get("field") or "", cause.get("message") or ""
    at, trail = item, []
    for step in steps(path):
        key = int(step) if isinstance(at, list) and step.isdigit() else step
        if isinstance(at, dict) and key not in at or isinstance(at, list) and (not isinstance(key, int) or key >= len(at)):
            break
        if not isinstance(at, (dict, list)):
            break
        trail.append((at, key))
        at = at[key]
    if not trail:
        return False
    holder, key = trail[-1]
    if (choices := re.search(r'supported values: "([^"]+)"', why)) and holder[key] != choices[1] and isinstance(holder[key], str):
        holder[key] = choices[1]
    elif isinstance(holder[key], str) and holder[key].isalpha() and re.search(r"domain|qualified|prefix", why):
        holder[key] = f"example.com/{holder[key]}"
    elif isinstance(holder[key], int) and not isinstance(holder[key], bool) and holder[key] != 1:
        holder[key] = 1
    elif holder is item:
        return False
    else:
        del holder[key]
    return True


def accepted(server, item, method="POST", at=""):
    """The object without what the server refuses, or why there is none."""
    trial = copy.deepcopy(item)
    why = ""
    for _ in range(ROUNDS):
        code, body = server.ask(method, (at or place(trial)) + "?dryRun=All&fieldValidation=Ignore", trial)
        if code in (200, 201):
            return trial, ""
        why = f"{code} {body.get('message', '')[:300]}"
        causes = (body.get("details") or {}).get("causes") or []
        if not causes and code in (403, 409):
            return None, why
        if not any([mend(trial, cause) for cause in sorted(causes, key=lambda cause: -len(cause.get("field", "")))[:1]]):
            return None, why
    return None, why


def accepted_status(server, item, status):
    """What the server takes as the object's status."""
    at = f"{place(item)}/{item['metadata']['name']}"
    server.remove(at)
    if server.ask("POST", place(item), item)[0] != 201:
        return {}
    stored = server.ask("GET", at)[1]
    for field in ("qosClass", "podIP", "podIPs", "hostIP", "hostIPs"):
        status.pop(field, None)
    found, why = accepted(server, {**stored, "status": status}, "PUT", f"{at}/status")
    server.remove(at)
    if found is None:
        print(f"{item['kind']}: no status of it is accepted: {why}")
    return {"status": found["status"]} if found and "status" in found else {}


def prepare(folder, out, server):
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted(folder.glob("*.json")):
        item = lower(json.loads(file.read_text()))
        if item["kind"] not in KINDS.get(item["apiVersion"], {}):
            print(f"{file.name}: not an object that is stored")
            continue
        meta = item["metadata"]
        item["metadata"] = {"name": f"values-{item['kind'].lower()}", **{field: meta[field] for field in ("labels", "annotations") if field in meta}}
        status = item.pop("status", None)
        package, name = type_of(item).rsplit(".", 1)
        item = walk(item, name, package, amounts)
        item = without(item, "windowsOptions")
        put_first(item)
        found, why = accepted(server, item)
        if found is None:
            print(f"{file.name}: no object of it is accepted: {why}")
        else:
            found.update(accepted_status(server, found, status) if status else {})
            (out / file.name).write_text(json.dumps(found, indent=1))
            print(f"{file.name}: {len(json.dumps(item))} bytes, {len(json.dumps(found))} are accepted")


# Comparing.

VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "clusterIP", "clusterIPs"}


def plain(value, path=""):
    """What is compared: without what differs from run to run, and without structs that say nothing."""
    if isinstance(value, dict):
        if path.endswith(".managedFields[]"):
            value = {key: found for key, found in value.items() if key != "time"}
        kept = {key: plain(item, f"{path}.{key}") for key, item in value.items() if not (path == ".metadata" and key in VOLATILE)}
        return {key: item for key, item in kept.items() if item not in (None, {}) or ".fieldsV1" in path}
    if isinstance(value, list):
        return [plain(item, f"{path}[]") for item in value]
    if isinstance(value, str) and re.fullmatch(r"kube-api-access-\w{5}", value):
        return "kube-api-access"
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "uid", value) if isinstance(value, str) else value


def differences(one, other, path=""):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, pair in enumerate(zip(one, other)):
            yield from differences(*pair, f"{path}[{at}]")
    elif one != other or type(one) is not type(other):
        yield f"{path}: {json.dumps(one)[:200]} and {json.dumps(other)[:200]}"


def report(title, found, count=0):
    for line in found:
        count += 1
        print(f"{title}: {line}")
    return count


def observe(server, item, relabel=True):
    """What becomes of an object that is written, read, replaced as it is, and given a label."""
    at = f"{place(item)}/{item['metadata']['name']}"
    server.remove(at)
    code, made = server.ask("POST", place(item), item)
    seen = {"created": code}
    if code != 201:
        seen["refused"] = fields_refused(made)
        return seen
    stored = server.ask("GET", at)[1]
    seen["stored"] = plain(stored)
    if "status" in item:
        code, body = server.ask("PUT", f"{at}/status", {**stored, "status": item["status"]})
        seen["status"] = [code, fields_refused(body)] if code != 200 else plain(body)
        stored = server.ask("GET", at)[1]
    code, again = server.ask("PUT", at, stored)
    seen["replaced as read"] = [code, again.get("metadata", {}).get("resourceVersion") != stored["metadata"]["resourceVersion"] if code == 200 else fields_refused(again)]
    if code == 200 and relabel:
        again["metadata"].setdefault("labels", {})["values"] = "a"
        code, labelled = server.ask("PUT", at, again)
        seen["relabelled"] = [code, labelled.get("metadata", {}).get("generation")]
        code, patched = server.ask("PATCH", at, {"metadata": {"labels": {"values": "b"}}}, "application/merge-patch+json")
        seen["patched"] = [code, patched.get("metadata", {}).get("generation")]
        # The notation that is sent, over what is stored.
        if code == 200:
            sent = copy.deepcopy(item)
            sent["metadata"]["resourceVersion"] = patched["metadata"]["resourceVersion"]
            sent["metadata"].setdefault("labels", {})["values"] = "b"
            code, written = server.ask("PUT", at, sent)
            seen["written again"] = [code, written.get("metadata", {}).get("generation") if code == 200 else fields_refused(written)]
    server.remove(at)
    return seen


def objects(folder):
    return [(file.name, json.loads(file.read_text())) for file in sorted(folder.glob("*.json"))]


def ready(server):
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    server.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})


def notations(folder, servers):
    count, compared = 0, 0
    for name, item in objects(folder):
        for notation in NOTATIONS:
            written = in_notation(item, notation)
            seen = [observe(server, written) for server in servers]
            compared += 1
            count = report(f"{name} {notation}", differences(*seen), count)
    print(f"{compared} writes compared, {count} differences")


# Clients.

def by_python(server, item):
    import warnings

    import kubernetes

    warnings.simplefilter("ignore")
    config = kubernetes.client.Configuration(host=server.base)
    config.verify_ssl = False
    config.api_key = {"authorization": f"Bearer {server.token}"}
    client = kubernetes.client.ApiClient(config)
    group, _, version = item["apiVersion"].rpartition("/")
    words = "".join(part.capitalize() for part in group.removesuffix(".k8s.io").split(".")) or "Core"
    api = getattr(kubernetes.client, f"{words}{version.capitalize().replace('beta', 'beta')}Api")(client)
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", item["kind"]).replace("C_S_I", "CSI").lower()
    _, namespaced = KINDS[item["apiVersion"]][item["kind"]]
    words = [item["metadata"]["name"], *([NAMESPACE] if namespaced else [])]
    middle = "namespaced_" if namespaced else ""
    found = getattr(api, f"read_{middle}{snake}")(*words)
    getattr(api, f"replace_{middle}{snake}")(*words, found)


def clients(folder, servers, programs):
    count, compared = 0, 0
    for name, item in objects(folder):
        for program in programs or [None]:
            seen = []
            for server in servers:
                at = f"{place(item)}/{item['metadata']['name']}"
                server.remove(at)
                code, _ = server.ask("POST", place(item), in_notation(item, "plain"))
                before = server.ask("GET", at)[1]
                error = ""
                try:
                    if program:
                        done = subprocess.run([*program.split(), server.base, server.token, at], capture_output=True, text=True, timeout=120)
                        error = "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-300:]
                    else:
                        by_python(server, item)
                except Exception as problem:
                    error = re.sub(r"\s+", " ", f"{type(problem).__name__} {problem}")[:300]
                after = server.ask("GET", at)[1]
                changed = list(differences(plain(before), plain(after)))
                changed = [line for line in changed if "managedFields" not in line]
                again = before.get("metadata", {}).get("resourceVersion") != after.get("metadata", {}).get("resourceVersion")
                seen.append({"created": code, "error": error, "changed": changed, "written": again, "after": plain(after)})
                server.remove(at)
            compared += 1
            if seen[0]["error"]:
                print(f"{name} {program or 'python'}: the first fails: {seen[0]['error']}")
            if seen[0]["written"] and not seen[0]["changed"]:
                print(f"{name} {program or 'python'}: the first has a new version of the same object")
            for line in seen[0]["changed"]:
                print(f"{name} {program or 'python'}: the client changes on the first: {line}")
            count = report(f"{name} {program or 'python'}", differences(*seen), count)
    print(f"{compared} objects read and replaced, {count} differences")


# Defaults.

POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
SPECS = {
    "Deployment": {"spec": {"selector": SELECTOR, "template": POD}},
    "ReplicaSet": {"spec": {"selector": SELECTOR, "template": POD}},
    "StatefulSet": {"spec": {"selector": SELECTOR, "template": POD}},
    "DaemonSet": {"spec": {"selector": SELECTOR, "template": POD}},
    "ControllerRevision": {"revision": 1, "data": {}},
    "Job": {"spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}}}},
    "Pod": {"spec": POD["spec"]},
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    "PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}},
    "PersistentVolumeClaim": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    "ClusterRoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}]},
    "RoleBinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}]},
    "DeviceTaintRule": {"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}}},
    "ResourceClaim": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}},
    "ResourceClaimTemplate": {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}},
    "ResourceSlice": {"spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [{"name": "d"}]}},
    "PriorityClass": {"value": 1},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "example.com/c"}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}]},
    "HorizontalPodAutoscaler": {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 2}},
    "RuntimeClass": {"handler": "h"},
    "StorageClass": {"provisioner": "example.com/p"},
    "CSIDriver": {"spec": {}},
    "CSINode": {"spec": {"drivers": []}},
    "Event": {"involvedObject": {"namespace": NAMESPACE}, "regarding": {"namespace": NAMESPACE}, "reportingController": "example.com/c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z"},
}


def minimal():
    for version, kinds in KINDS.items():
        for kind in kinds:
            item = {"apiVersion": version, "kind": kind, "metadata": {"name": f"values-{kind.lower()}"}, **copy.deepcopy(SPECS.get(kind, {}))}
            if version == "v1" and kind == "Event":
                item = {key: found for key, found in item.items() if key not in ("regarding", "reportingController", "reportingInstance", "action", "eventTime")}
            if version == "events.k8s.io/v1":
                item.pop("involvedObject")
            if version == "resource.k8s.io/v1beta1":
                text = json.dumps(item).replace('{"name": "r", "exactly": {"deviceClassName": "c"}}', '{"name": "r", "deviceClassName": "c"}').replace('{"name": "d"}', '{"name": "d", "basic": {}}')
                item = json.loads(text)
            yield item


def defaults(servers):
    count, compared = 0, 0
    for item in minimal():
        seen = [observe(server, item) for server in servers]
        compared += 1
        count = report(f"{item['apiVersion']} {item['kind']}", differences(*seen), count)
    print(f"{compared} objects compared, {count} differences")


def main():
    command, *words = sys.argv[1:]
    if command == "prepare":
        folder, out, url, token = words
        server = Server(url, token)
        ready(server)
        prepare(Path(folder), Path(out), server)
        return
    folder = None if command == "defaults" else Path(words.pop(0))
    servers = [Server(*words[:2]), Server(*words[2:4])]
    for server in servers:
        ready(server)
    if command == "notations":
        notations(folder, servers)
    elif command == "clients":
        clients(folder, servers, words[4:])
    else:
        defaults(servers)


if __name__ == "__main__":
    main()
