"""Pods, field by field: writes one row a case with what a kube-apiserver says of it, or compares another server with such rows.

    python3 pods.py record URL TOKEN >rows      # URL of a kube-apiserver
    python3 pods.py compare URL TOKEN <rows     # URL of another server: prints the rows that differ

A row is `CHANGES -> VERDICT`. Changes are `path = JSON` over the pod below, separated by ` ; `. The verdict is `ok`, or the code and the
fields that are refused. Nothing is stored: every request is a dry run.
"""

import http.client
import json
import ssl
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "schema/tables/core_v1.txt"
META = Path(__file__).resolve().parents[2] / "schema/tables/meta_v1.txt"

POD = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "initContainers": [{"name": "i", "image": "i"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}

# Words that a field knows; every text field also gets some that none knows.
WORDS = {
    "restartPolicy": ["Always", "OnFailure", "Never", "NotRequired", "RestartContainer"],
    "dnsPolicy": ["ClusterFirst", "Default", "None", "ClusterFirstWithHostNet"],
    "procMount": ["Default", "Unmasked", "unmasked"],
    "preemptionPolicy": ["Never", "PreemptLowerPriority"],
    "imagePullPolicy": ["Always", "Never", "IfNotPresent"],
    "terminationMessagePolicy": ["File", "FallbackToLogsOnError"],
    "fsGroupChangePolicy": ["Always", "OnRootMismatch"],
    "supplementalGroupsPolicy": ["Merge", "Strict"],
    "seLinuxChangePolicy": ["MountOption", "Recursive"],
    "type": ["Localhost", "RuntimeDefault", "Unconfined", "Directory", "Opaque"],
    "protocol": ["TCP", "UDP", "SCTP", "HTTP1", "tcp"],
    "scheme": ["HTTP", "HTTPS", "http"],
    "operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"],
    "effect": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
    "whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway"],
    "nodeAffinityPolicy": ["Honor", "Ignore"],
    "nodeTaintsPolicy": ["Honor", "Ignore"],
    "mountPropagation": ["None", "HostToContainer", "Bidirectional"],
    "recursiveReadOnly": ["Disabled", "Enabled", "IfPossible"],
    "medium": ["Memory", "HugePages", "HugePages-2Mi"],
    "pullPolicy": ["Always", "Never", "IfNotPresent"],
    "stopSignal": ["SIGTERM", "SIGNONE"],
    "name": ["linux", "windows", "net.core.somaxconn", "kernel.shm_rmid_forced", "v", "c"],
    "resourceName": ["cpu", "memory"],
    "action": ["Restart", "RestartAllContainers"],
    "fieldPath": ["metadata.name", "spec.nodeName", "metadata.labels['a']", "status.phase"],
    "resource": ["limits.cpu", "requests.memory", "cpu"],
    "mountPath": ["/a", "a", "/a:b"],
    "path": ["a", "/a", "../a", "..a", "a/../b"],
    "subPath": ["a", "/a", "../a", "..a"],
    "subPathExpr": ["a", "/a", "../a"],
    "localhostProfile": ["a", "/a", "../a", " a "],
    "runAsUserName": ["a", "a\\b", "a\\b\\c", "..", "a/b", "a\tb", "\\b", "a\\"],
    "ip": ["1.2.3.4", "::1", "1.2.3", "01.2.3.4"],
    "hostIP": ["1.2.3.4", "x"],
    "devicePath": ["/dev/a", "../a"],
    "keyType": ["RSA3072", "ECDSAP256"],
    "signerName": ["example.com/s", "s"],
    "mode": ["Plaintext", "TLS"],
    "cachingMode": ["None", "ReadOnly", "x"],
    "kind": ["Shared", "Dedicated", "Managed"],
    "storageMode": ["ThickProvisioned", "ThinProvisioned"],
}
TEXTS = ["", "a", "A b!", "a" * 300]
SCALARS = {
    "int32": [0, 1, -1, 65536, 2**31 - 1, 2**31],
    "int64": [0, 1, -1, 2**31 - 1, 2**31, 2**63 - 1],
    "bool": [True, False],
    "quantity": ["0", "-1", "1", "1.5", "1m", "1Gi", "x", 1],
    "intorstring": [0, 1, 65535, 65536, "", "http", "Bad_", "80"],
    "bytes": ["", "YQ==", "!"],
    "time": ["2026-01-02T15:04:05Z", "x"],
    "duration": ["1s", "x"],
}
DEPTH_MAX = 9


def tables():
    types, aliases = {}, {}
    for package, file in (("core/v1", TABLE), ("meta/v1", META)):
        current = None
        for line in file.read_text().splitlines():
            if not line.strip() or line.startswith("    ") or line.startswith("#"):
                continue
            if line.startswith("  "):
                words = line.split()
                types[current].append((words[0], words[2].lstrip("*")))
            elif " = " in line:
                name, meaning = line.split(" = ", 1)
                aliases[f"{package}.{name}"] = meaning.split()[0]
            else:
                current = f"{package}.{line.split()[0]}"
                types[current] = []
    return types, aliases


TYPES, ALIASES = tables()


def resolve(name):
    full = name if "/" in name else f"core/v1.{name}"
    return ALIASES.get(full, name), full


def fields_of(full):
    for name, ty in TYPES.get(full, []):
        if name == "inline":
            yield from fields_of(resolve(ty)[1])
        else:
            yield name, ty


def values(field, ty):
    """Values to try for a field, as they are."""
    ty, _ = resolve(ty)
    if ty == "string":
        return [*TEXTS, *WORDS.get(field, [])]
    if ty in SCALARS:
        return SCALARS[ty]
    if ty.startswith("[]"):
        inner = resolve(ty[2:].lstrip("*"))[0]
        one = values(field, inner) if inner == "string" or inner in SCALARS else [{}]
        return [[], *[[value] for value in one], [one[0], one[0]]]
    if ty.startswith("{}"):
        inner = resolve(ty[2:].lstrip("*"))[0]
        one = values(field, inner)
        return [{}, *[{key: value} for key in ("a", "A b!", "cpu", "example.com/a") for value in one[:4]]]
    return [{}]


# What makes a field matter: with the beginning of its path, what is set before.
COMPANIONS = [
    ("spec.ephemeralContainers[0].", [("spec.ephemeralContainers[0]", {"name": "e", "image": "i"})]),
    ("spec.volumes[0].", [("spec.volumes[0]", {"name": "v"})]),
    ("spec.topologySpreadConstraints[0].", [("spec.topologySpreadConstraints[0]", {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"})]),
    *[(f"spec.{of}.ports[0].", [(f"spec.{of}.ports[0].containerPort", 80)]) for of in ("containers[0]", "initContainers[0]")],
    *[(f"spec.{of}.env[0].", [(f"spec.{of}.env[0].name", "A")]) for of in ("containers[0]", "initContainers[0]")],
    *[(f"spec.{of}.volumeMounts[0].", [(f"spec.{of}.volumeMounts[0]", {"name": "v", "mountPath": "/a"})]) for of in ("containers[0]", "initContainers[0]")],
    *[(f"spec.{of}.{probe}.", [(f"spec.{of}.{probe}.exec.command", ["x"])]) for of in ("containers[0]", "initContainers[0]") for probe in ("livenessProbe", "readinessProbe", "startupProbe")],
    *[(f"spec.initContainers[0].{probe}", [("spec.initContainers[0].restartPolicy", "Always")]) for probe in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")],
]
HANDLERS = ("httpGet", "tcpSocket", "grpc", "exec", "sleep")


def alone():
    """One change for each value of each field of a pod, and what makes it matter."""
    for case in cases("core/v1.PodSpec", "spec"):
        path = case[0][0]
        handled = path.split("Probe.")[-1].split(".")[0] in HANDLERS
        before = [change for start, changes in COMPANIONS if path.startswith(start) for change in changes]
        yield [change for change in before if not (handled and change[0].endswith("exec.command"))] + case


def cases(full, path, depth=0, seen=()):
    """One change for each value of each field below a type."""
    if depth > DEPTH_MAX or seen.count(full) > 1:
        return
    for field, ty in fields_of(full):
        at = f"{path}.{field}"
        for value in values(field, ty):
            yield [(at, value)]
        plain = resolve(ty)
        if plain[1] in TYPES:
            yield from cases(plain[1], at, depth + 1, (*seen, full))
        elif ty.startswith("[]") and resolve(ty[2:].lstrip("*"))[1] in TYPES:
            yield from cases(resolve(ty[2:].lstrip("*"))[1], f"{at}[0]", depth + 1, (*seen, full))


def together():
    """Changes that matter to each other."""
    containers = ["containers[0]", "initContainers[0]", "ephemeralContainers[0]"]
    named = {"ephemeralContainers[0]": [("spec.ephemeralContainers[0]", {"name": "e", "image": "i"})]}
    for of in containers:
        base = named.get(of, [])
        context = f"spec.{of}.securityContext"
        for users in ([], [("spec.hostUsers", True)], [("spec.hostUsers", False)]):
            for mount in ("Default", "Unmasked", ""):
                yield [*base, *users, (f"{context}.procMount", mount)]
        for privileged in (True, False):
            yield [*base, (f"{context}.privileged", privileged), (f"{context}.allowPrivilegeEscalation", False)]
            yield [*base, (f"{context}.privileged", privileged), (f"spec.{of}.volumeMounts", [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}])]
        yield [*base, (f"{context}.capabilities.add", ["CAP_SYS_ADMIN"]), (f"{context}.allowPrivilegeEscalation", False)]
        for system in ("linux", "windows"):
            for case in cases("core/v1.SecurityContext", context):
                yield [*base, ("spec.os.name", system), *case]
        for host in (True, False):
            for own in (True, False):
                yield [*base, ("spec.hostNetwork", host), (f"{context}.windowsOptions.hostProcess", own), ("spec.securityContext.windowsOptions.hostProcess", True)]
        yield [*base, ("spec.hostUsers", False), ("spec.volumes[0]", {"name": "v", "persistentVolumeClaim": {"claimName": "x"}}), (f"spec.{of}.volumeDevices", [{"name": "v", "devicePath": "/dev/x"}])]
        for policy in ("Always", "Never", "OnFailure"):
            yield [*base, (f"spec.{of}.restartPolicy", policy)]
            yield [*base, (f"spec.{of}.restartPolicy", policy), (f"spec.{of}.livenessProbe", {"exec": {"command": ["x"]}}), (f"spec.{of}.lifecycle.preStop.exec.command", ["x"])]
            yield [*base, (f"spec.{of}.restartPolicy", policy), (f"spec.{of}.restartPolicyRules", [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}])]
            for restart in ("NotRequired", "RestartContainer"):
                yield [*base, ("spec.restartPolicy", policy), (f"spec.{of}.resizePolicy", [{"resourceName": "cpu", "restartPolicy": restart}])]
        yield [*base, (f"spec.{of}.resizePolicy", [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2)]
        yield [*base, ("spec.hostNetwork", True), (f"spec.{of}.ports", [{"containerPort": 80, "hostPort": 81}])]
        yield [*base, (f"spec.{of}.ports", [{"containerPort": 80, "hostPort": 81}, {"containerPort": 82, "hostPort": 81}])]
        for signal in ("SIGTERM", "SIGHUP", "SIGRTMIN+15", "SIGRTMAX-14", "SIGNONE"):
            for system in ("linux", "windows"):
                yield [*base, ("spec.os.name", system), (f"spec.{of}.lifecycle.stopSignal", signal)]
        for limit, request in (("1", "2"), ("2", "1"), ("1", "1")):
            for resource in ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/a", "a"):
                yield [*base, (f"spec.{of}.resources", {"limits": {resource: limit}, "requests": {resource: request}})]
                yield [*base, (f"spec.{of}.resources", {"requests": {resource: request}})]
    for case in cases("core/v1.PodSecurityContext", "spec.securityContext"):
        for system in ("linux", "windows"):
            yield [("spec.os.name", system), *case]
    for field in ("hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace", "hostUsers", "setHostnameAsFQDN"):
        for value in (True, False):
            yield [("spec.os.name", "windows"), (f"spec.{field}", value)]
            yield [("spec.hostUsers", False), (f"spec.{field}", value)]
            yield [("spec.hostPID", True), (f"spec.{field}", value)]
            yield [("spec.hostnameOverride", "a"), (f"spec.{field}", value)]
            for control in ("net.a", "net/a", "kernel.sem", "kernel.msg", "fs.mqueue.a", "user.a", "Net.a", "net..a"):
                yield [(f"spec.{field}", value), ("spec.securityContext.sysctls", [{"name": control, "value": "1"}])]
    for level in ({"cpu": "1"}, {"memory": "1Gi"}, {"hugepages-2Mi": "2Mi"}, {"ephemeral-storage": "1"}, {"example.com/a": "1"}):
        yield [("spec.resources", {"limits": level})]
        yield [("spec.resources", {"requests": level})]
        yield [("spec.resources", {"limits": level}), ("spec.os.name", "windows")]
    yield [("spec.resources", {"claims": [{"name": "x"}]})]
    yield [("spec.dnsPolicy", "None")]
    yield [("spec.dnsPolicy", "None"), ("spec.dnsConfig", {"nameservers": ["1.2.3.4"]})]
    yield [("spec.serviceAccountName", "a"), ("spec.serviceAccount", "b")]
    yield [("spec.nodeName", "n"), ("spec.schedulingGates", [{"name": "a.b/c"}])]
    for mode in ("Localhost", "RuntimeDefault", "Unconfined", "", "x"):
        for profile in ("seccompProfile", "appArmorProfile"):
            for name in ("a", "", " a", "/a", "../a", "a" * 5000):
                yield [(f"spec.securityContext.{profile}", {"type": mode, "localhostProfile": name})]
    for key in ("container.apparmor.security.beta.kubernetes.io/c", "container.apparmor.security.beta.kubernetes.io/x", "seccomp.security.alpha.kubernetes.io/pod"):
        for value in ("runtime/default", "localhost/a", "unconfined", "x"):
            yield [("metadata.annotations", {key: value})]


def put(pod, path, value):
    steps = []
    for part in path.split("."):
        name, _, rest = part.partition("[")
        steps.append(name)
        if rest:
            steps.append(int(rest.rstrip("]")))
    at = pod
    for step, following in zip(steps, steps[1:]):
        empty = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            while len(at) <= step:
                at.append({})
        elif not isinstance(at.get(step), (dict, list)):
            at[step] = empty
        at = at[step]
    last = steps[-1]
    if isinstance(last, int):
        while len(at) <= last:
            at.append({})
    at[last] = json.loads(json.dumps(value))


class Server:
    def __init__(self, url, token):
        self.url, self.token = urllib.parse.urlsplit(url), token
        self.context = ssl._create_unverified_context()

    def verdict(self, changes):
        pod = json.loads(json.dumps(POD))
        for path, value in changes:
            put(pod, path, value)
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        options = {"context": self.context} if self.url.scheme == "https" else {}
        connection = kind(self.url.hostname, self.url.port, timeout=60, **options)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", json.dumps(pod), headers)
        response = connection.getresponse()
        body = json.loads(response.read() or b"{}")
        connection.close()
        if response.status == 201:
            return "ok"
        causes = (body.get("details") or {}).get("causes") or []
        fields = sorted({cause.get("field", "") for cause in causes})
        return f"{response.status} {' '.join(fields)}".strip()


def row(changes):
    return " ; ".join(f"{path} = {json.dumps(value)}" for path, value in changes)


def read(line):
    changes, _, verdict = line.rstrip("\n").rpartition(" -> ")
    return [(part.split(" = ", 1)[0], json.loads(part.split(" = ", 1)[1])) for part in changes.split(" ; ")], verdict


def main():
    command, url, token = sys.argv[1:]
    server = Server(url, token)
    with ThreadPoolExecutor(4) as pool:
        if command == "record":
            wanted = {row(case): case for case in [*alone(), *together()]}
            for text, verdict in zip(wanted, pool.map(server.verdict, wanted.values())):
                print(f"{text} -> {verdict}")
        else:
            rows = [read(line) for line in sys.stdin]
            different = 0
            for (changes, wanted), found in zip(rows, pool.map(lambda known: server.verdict(known[0]), rows)):
                if found != wanted:
                    different += 1
                    print(f"{row(changes)}\n    wanted {wanted}\n    found  {found}")
            print(f"{different} of {len(rows)} rows differ")


if __name__ == "__main__":
    main()
