//! Commands of users, with a kubectl that is installed for the test; `KUBECTL` names another.

use std::{
    fs,
    io::{BufRead, BufReader, Read as _},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_testkit::{Cluster, Plane};
use tempfile::TempDir;

use crate::tools;

/// Longer than anything takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: a}}
spec: {containers: [{name: c, image: 'registry.example/c:1'}]}
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'registry.example/c:1'}]}
";

/// A cluster and a person with kubectl.
struct Console {
    program: PathBuf,
    folder: TempDir,
    cluster: Cluster,
}

impl Console {
    fn open() -> Self {
        let cluster = Cluster::options().durable().start().unwrap();
        Self { program: tools::kubectl(), folder: tempfile::tempdir().unwrap(), cluster }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // A cache of its own: another server at the same port must not be mistaken for this one.
        command.arg("--cache-dir").arg(self.folder.path().join("cache")).args(arguments);
        command.env("KUBECONFIG", self.cluster.kubeconfig()).env("HOME", self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output of a command, which must succeed.
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {}: {}\n{text}", arguments.join(" "), output.status);
        text
    }

    /// A command works and says something with these words in it.
    #[track_caller]
    fn says(&self, arguments: &[&str], words: &[&str]) {
        let text = self.ok(arguments);
        for word in words {
            assert!(text.contains(word), "kubectl {}: no {word:?} in\n{text}", arguments.join(" "));
        }
    }

    /// A command says these words sooner or later.
    #[track_caller]
    #[allow(clippy::disallowed_methods, reason = "patience needs a clock")]
    fn until(&self, arguments: &[&str], words: &[&str]) {
        let started = std::time::Instant::now();
        loop {
            let output = self.run(arguments);
            let text = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            if output.status.success() && words.iter().all(|word| text.contains(word)) {
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "kubectl {}: never {words:?} in\n{text}",
                arguments.join(" ")
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A command fails and says why.
    #[track_caller]
    fn fails(&self, arguments: &[&str], words: &[&str]) {
        let output = self.run(arguments);
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success(), "kubectl {} worked:\n{text}", arguments.join(" "));
        for word in words {
            assert!(text.contains(word), "kubectl {}: no {word:?} in\n{text}", arguments.join(" "));
        }
    }
}

#[test]
fn people_look_around() {
    let console = Console::open();
    console.says(&["version"], &["v1.37.0"]);
    console.says(&["cluster-info"], &["is running at"]);
    console.says(&["get", "--raw", "/readyz?verbose"], &["[+]etcd ok", "readyz check passed"]);
    console.says(
        &["api-resources", "--api-group=resource.k8s.io"],
        &["deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices"],
    );
    console.says(&["api-versions"], &["apps/v1", "resource.k8s.io/v1"]);
    console.says(&["explain", "pod.spec.containers.image"], &["FIELD: image <string>"]);
    console.says(&["explain", "devicetaintrule.spec", "--recursive"], &["deviceSelector", "taint", "effect"]);
    console.says(&["get", "namespaces"], &["NAME", "STATUS", "AGE", "default", "kube-system"]);
    console.says(&["get", "pods", "-A"], &["No resources found"]);
    console.says(&["auth", "whoami"], &["kubernetes-admin", "system:masters"]);
    console.says(&["auth", "can-i", "create", "pods"], &["yes"]);
    console.fails(&["auth", "can-i", "create", "pods", "--as", "alice"], &["no"]);
    console.fails(&["get", "pods", "--as", "alice"], &["Forbidden", "alice"]);
    console.fails(&["get", "pod", "nobody"], &["NotFound"]);
    console.fails(&["get", "nothings"], &["the server doesn't have a resource type"]);
}

#[test]
fn people_make_change_and_delete_objects() {
    let console = Console::open();
    let pod = console.file("pod.yaml", POD);
    console.says(&["create", "-f", &pod, "--dry-run=server"], &["created (server dry run)"]);
    console.says(&["get", "pods"], &["No resources found"]);
    console.says(&["create", "-f", &pod], &["pod/p created"]);
    console.fails(&["create", "-f", &pod], &["AlreadyExists"]);
    let typo = console.file("typo.yaml", &POD.replace("name: p,", "name: q,").replace("image:", "imag:"));
    console.fails(&["create", "-f", &typo], &["unknown field", "imag"]);
    console.says(&["get", "pods"], &["NAME", "READY", "STATUS", "RESTARTS", "AGE", "0/1", "Pending"]);
    console.says(&["get", "pods", "-o", "wide"], &["NOMINATED NODE", "READINESS GATES"]);
    console.says(&["get", "pod", "p", "-o", "jsonpath={.spec.restartPolicy}"], &["Always"]);
    console.says(
        &["get", "pod", "p", "-o", "custom-columns=N:.metadata.name,I:.spec.containers[0].image"],
        &["registry.example/c:1"],
    );
    console.says(&["get", "pods", "--sort-by=.metadata.name", "--show-labels"], &["app=a"]);
    console.says(&["label", "pod", "p", "tier=x"], &["labeled"]);
    console.says(&["annotate", "pod", "p", "note=1"], &["annotated"]);
    console.says(&["get", "pods", "-l", "tier=x", "-o", "name"], &["pod/p"]);
    console.says(&["describe", "pod", "p"], &["registry.example/c:1", "tier=x", "QoS Class"]);
    let editor = console.file("edit.sh", "#!/bin/sh\nsed -i 's/c:1/c:2/' \"$1\"\n");
    let mut edit = console.command(&["edit", "pod", "p"]);
    let edited = edit.env("KUBE_EDITOR", format!("sh {editor}")).output().unwrap();
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    console
        .says(&["get", "pod", "p", "-o", "jsonpath={.spec.containers[0].image}"], &["registry.example/c:2"]);
    // A pod as it was written lacks what it was given, and that may not be taken away.
    console.fails(&["replace", "-f", &pod], &["pod updates may not change fields other than"]);
    console.says(
        &[
            "patch",
            "pod",
            "p",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Running"}}"#,
        ],
        &["patched"],
    );
    console.says(&["get", "pods", "--field-selector=status.phase=Running", "-o", "name"], &["pod/p"]);
    console.says(&["delete", "pod", "p", "--grace-period=0", "--force"], &["force deleted"]);
    console.says(&["run", "r", "--image=registry.example/r"], &["pod/r created"]);
    console.says(&["delete", "pods", "--all"], &[r#"pod "r" deleted"#]);
    console.says(&["create", "configmap", "m", "--from-literal=a=b"], &["created"]);
    console.says(
        &["patch", "cm", "m", "--type=json", "-p", r#"[{"op":"replace","path":"/data/a","value":"c"}]"#],
        &["patched"],
    );
    console.says(&["get", "cm", "m", "-o", "yaml"], &["a: c"]);
    let map =
        console.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {d: e}\n");
    console.says(&["replace", "-f", &map], &["replaced"]);
    console.says(&["get", "cm", "m", "-o", "jsonpath={.data}"], &[r#"{"d":"e"}"#]);
}

#[test]
fn people_apply() {
    let console = Console::open();
    let two = console.file("two.yaml", DEPLOYMENT);
    let three = console.file("three.yaml", &DEPLOYMENT.replace("replicas: 2", "replicas: 3"));
    console.says(&["apply", "-f", &two], &["deployment.apps/web created"]);
    console.says(&["apply", "-f", &two], &["unchanged"]);
    console.says(&["diff", "-f", &two], &[]);
    console.fails(&["diff", "-f", &three], &["-  replicas: 2", "+  replicas: 3"]);
    console.says(&["apply", "-f", &three, "--dry-run=server"], &["configured (server dry run)"]);
    console.says(&["apply", "-f", &three], &["configured"]);
    console.says(&["scale", "deployment", "web", "--replicas=5"], &["scaled"]);
    console.says(&["get", "deployment", "web"], &["0/5"]);
    console
        .says(&["get", "deployment", "web", "-o", "yaml", "--show-managed-fields"], &["subresource: scale"]);
    console.fails(
        &["apply", "--server-side", "-f", &three],
        &["conflict", ".spec.replicas", "subresource \"scale\""],
    );
    console.says(&["apply", "--server-side", "--force-conflicts", "-f", &three], &["serverside-applied"]);
    console.says(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"], &["3"]);
    console.fails(&["diff", "--server-side", "-f", &two], &["-  replicas: 3", "+  replicas: 2"]);
    console.says(&["delete", "-f", &two], &["deleted"]);
}

#[test]
fn people_go_over_to_server_side_apply() {
    let console = Console::open();
    // Not in braces from the first letter on: kubectl before 1.33 takes that for JSON.
    let map = |data: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {data}\n");
    let both = console.file("both.yaml", &map("{a: '1', b: '1'}"));
    let one = console.file("one.yaml", &map("{a: '1'}"));
    console.says(&["apply", "-f", &both], &["configmap/m created"]);
    console.says(&["apply", "--server-side", "-f", &one], &["configmap/m serverside-applied"]);
    let left = console.ok(&["get", "configmap", "m", "-o", "jsonpath={.data}"]);
    assert_eq!(left, r#"{"a":"1"}"#, "what was applied before and is not now goes");
    let managers =
        console.ok(&["get", "configmap", "m", "-o", "jsonpath={.metadata.managedFields[*].manager}"]);
    assert!(!managers.contains("client-side"), "{managers}");
    console.says(&["label", "configmap", "m", "l=1"], &["labeled"]);
    let reset = r#"{"metadata": {"managedFields": [{}]}}"#;
    console.says(&["patch", "configmap", "m", "--type=merge", "-p", reset], &["patched"]);
    console.says(&["apply", "--server-side", "-f", &one], &["serverside-applied"]);
}

#[test]
fn people_manage_namespaces_accounts_and_tokens() {
    let console = Console::open();
    console.says(&["create", "namespace", "lab"], &["namespace/lab created"]);
    console.says(&["create", "serviceaccount", "robot", "-n", "lab"], &["created"]);
    let token = console.ok(&["create", "token", "robot", "-n", "lab"]);
    assert_eq!(token.trim().matches('.').count(), 2, "{token}");
    console
        .says(&["create", "role", "reader", "--verb=get,list", "--resource=pods", "-n", "lab"], &["created"]);
    console.says(
        &["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=lab:robot", "-n", "lab"],
        &["created"],
    );
    let robot = "--as=system:serviceaccount:lab:robot";
    console.says(&["auth", "can-i", "list", "pods", "-n", "lab", robot], &["yes"]);
    console.fails(&["auth", "can-i", "list", "pods", "-n", "default", robot], &["no"]);
    console.says(&["get", "pods", "-n", "lab", robot], &["No resources found"]);
}

/// A command that goes on, and what it has said.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(console: &Console, arguments: &[&str]) -> Self {
        let mut child =
            console.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).all(|line| send.send(line).is_ok());
        });
        Self { child, lines }
    }

    /// The next line with this word in it.
    #[track_caller]
    fn line(&mut self, word: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(word) => return line,
                Ok(_) => {}
                Err(why) => panic!("no line with {word:?}: {why}; {}", self.complaint()),
            }
        }
    }

    /// All that a command that is over, or is ended now, has complained about.
    fn complaint(&mut self) -> String {
        let _ = self.child.kill();
        let mut said = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut said);
        said
    }

    /// Waits until it has said all it has to say.
    #[track_caller]
    fn end(&mut self) -> ExitStatus {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn people_wait_and_watch() {
    let mut console = Console::open();
    let pod = console.file("pod.yaml", POD);
    console.ok(&["create", "-f", &pod]);
    let mut waiting = Running::start(&console, &["wait", "--for=condition=Ready", "pod/p", "--timeout=100s"]);
    let mut watching = Running::start(&console, &["get", "pods", "-w"]);
    watching.line("Pending");
    let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    console.ok(&["patch", "pod", "p", "--subresource=status", "--type=merge", "-p", ready]);
    watching.line("Running");
    waiting.line("condition met");
    assert!(waiting.child.wait().unwrap().success());
    // A restart ends the command, without an error, as that of a kube-apiserver does; a new one goes on, and nothing was lost.
    console.cluster.restart().unwrap();
    assert!(watching.end().success());
    let mut again = Running::start(&console, &["get", "pods", "-w"]);
    again.line("Running");
    console.ok(&["delete", "pod", "p", "--grace-period=0", "--force"]);
    console.fails(&["get", "pod", "p"], &["NotFound"]);
}

const DEVICE_POD: &str = "
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers: [{name: c, image: 'registry.example/c:1', resources: {claims: [{name: gpu}]}}]
";

const RULE: &str = "
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: my-taint-rule}
spec: {deviceSelector: {driver: gpu.example.com}, taint: {key: example.com/fan, effect: None}}
";

/// The story of a safe eviction: a rule without effect is described, then given its effect and waited for.
#[test]
fn people_look_before_they_evict() {
    let cluster = Cluster::options().plane(Plane::simulated(1, 1)).start().unwrap();
    let console = Console { program: tools::kubectl(), folder: tempfile::tempdir().unwrap(), cluster };
    let (pod, rule) = (console.file("pod.yaml", DEVICE_POD), console.file("rule.yaml", RULE));
    // A new cluster makes the account of its pods and the class of its devices on its own time.
    console.until(&["apply", "-f", &pod], &["pod/p"]);
    console.ok(&["wait", "--for=condition=Ready", "pod/p", "--timeout=100s"]);
    console.ok(&["apply", "-f", &rule]);
    let previewed = "1 pod would be evicted in 1 namespace if the effect was NoExecute";
    console.until(&["describe", "devicetaintrule", "my-taint-rule"], &["EvictionInProgress", previewed]);
    console.says(&["get", "pod", "p"], &["Running"]);
    let effect = r#"{"spec":{"taint":{"effect":"NoExecute"}}}"#;
    console.ok(&["patch", "devicetaintrule", "my-taint-rule", "--type=merge", "-p", effect]);
    console.says(
        &[
            "wait",
            "--for=condition=EvictionInProgress=false",
            "DeviceTaintRule/my-taint-rule",
            "--timeout=100s",
        ],
        &["condition met"],
    );
    console.ok(&["wait", "--for=delete", "pod/p", "--timeout=100s"]);
    console.until(
        &["describe", "devicetaintrule", "my-taint-rule"],
        &["1 pod evicted since the rule was created"],
    );
}

#[test]
fn people_empty_a_node() {
    let console = Console::open();
    let node = console.file("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n");
    console.ok(&["create", "-f", &node]);
    let pod = console.file("pod.yaml", &POD.replace("spec: {", "spec: {nodeName: n1, "));
    console.ok(&["create", "-f", &pod]);
    console.says(&["cordon", "n1"], &["cordoned"]);
    console.says(&["get", "nodes"], &["SchedulingDisabled"]);
    console.fails(&["drain", "n1", "--dry-run=server"], &["cannot delete Pods"]);
    console.says(&["drain", "n1", "--force", "--dry-run=server"], &["drained"]);
    console.says(&["uncordon", "n1"], &["uncordoned"]);
    console.says(&["taint", "node", "n1", "example.com/x=y:NoSchedule"], &["tainted"]);
    console.says(&["describe", "node", "n1"], &["example.com/x=y:NoSchedule"]);
}

const SCALE: &str = "
apiVersion: autoscaling/v1
kind: Scale
metadata: {name: web, namespace: default}
spec: {replicas: 3}
";

const CONTROLLER: &str = "
apiVersion: v1
kind: ReplicationController
metadata: {name: rc}
spec:
  replicas: 1
  template:
    metadata: {labels: {app: rc}}
    spec: {containers: [{name: c, image: 'registry.example/c:1', ports: [{containerPort: 80}]}]}
";

#[test]
fn people_expose_what_they_run() {
    let cluster = Cluster::options().plane(Plane::simulated(1, 1)).start().unwrap();
    let console = Console { program: tools::kubectl(), folder: tempfile::tempdir().unwrap(), cluster };
    let (deployment, controller) =
        (console.file("web.yaml", DEPLOYMENT), console.file("rc.yaml", CONTROLLER));
    console.until(&["apply", "-f", &deployment], &["deployment.apps/web"]);
    console.ok(&["apply", "-f", &controller]);
    console.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=100s"]);
    console
        .says(&["expose", "deployment", "web", "--port=80", "--target-port=8080"], &["service/web exposed"]);
    console.says(&["expose", "rc", "rc", "--type=NodePort", "--name=rc"], &["service/rc exposed"]);
    console
        .until(&["describe", "service", "web"], &["IP Family Policy:", "SingleStack", "Endpoints:", ":8080"]);
    console.until(&["get", "endpointslices"], &["web-", "rc-", "IPv4"]);
    console.says(&["scale", "rc", "rc", "--replicas=2"], &["replicationcontroller/rc scaled"]);
    console.until(&["get", "rc", "rc"], &["rc     2         2         2"]);
    console.says(&["get", "svc", "kubernetes"], &["10.96.0.1", "443/TCP"]);
    console
        .says(&["create", "service", "nodeport", "np", "--tcp=80:8080", "--node-port=31234"], &["created"]);
    console.fails(
        &["create", "service", "nodeport", "np2", "--tcp=80", "--node-port=31234"],
        &["provided port is already allocated"],
    );
    console
        .says(&["create", "service", "externalname", "ext", "--external-name=x.example.com"], &["created"]);
    console.says(&["create", "service", "clusterip", "head", "--clusterip=None"], &["created"]);
    console.says(
        &["create", "service", "loadbalancer", "lb", "--tcp=80"],
        &["created", "gets no external address"],
    );
    console.says(&["get", "svc"], &["80:31234/TCP", "x.example.com", "<pending>", "None"]);
    console.says(&["patch", "svc", "web", "-p", r#"{"spec":{"type":"NodePort"}}"#], &["patched"]);
    console.says(&["apply", "-f", &deployment], &["unchanged"]);
    console.ok(&["delete", "rc", "rc"]);
    console.until(&["get", "pods", "-l", "app=rc", "--no-headers"], &[]);
    // A kind that is no resource of its own, and one that is not defined.
    let scale = console.file("scale.yaml", SCALE);
    console.fails(&["apply", "-f", &scale], &["no matches for kind \"Scale\" in version \"autoscaling/v1\""]);
    let unknown =
        console.file("unknown.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n");
    console.fails(&["apply", "-f", &unknown], &["ensure CRDs are installed first"]);
}

const REQUEST: &str = include_str!("../../../../wire/kinds/src/certificates/testdata/two-groups.csr");

#[test]
fn certificates_are_approved_and_denied() {
    let console = Console::open();
    for name in ["alice", "mallory"] {
        let request = STANDARD.encode(REQUEST);
        let text = format!(
            "
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: {name}}}
spec:
  signerName: kubernetes.io/kube-apiserver-client
  expirationSeconds: 86400
  usages: [client auth, digital signature]
  request: {request}
"
        );
        let file = console.file(name, &text);
        console.ok(&["create", "-f", &file]);
    }
    console.says(
        &["get", "csr"],
        &["SIGNERNAME", "REQUESTOR", "REQUESTEDDURATION", "CONDITION", "kubernetes-admin", "24h", "Pending"],
    );
    console.says(&["certificate", "approve", "alice"], &["alice approved"]);
    console.says(&["certificate", "deny", "mallory"], &["mallory denied"]);
    console.says(&["get", "csr", "alice"], &["Approved"]);
    console.says(&["get", "csr", "mallory"], &["Denied"]);
    console.says(&["get", "csr", "alice", "-o", "yaml"], &["KubectlApprove"]);
    console.says(&["describe", "csr", "alice"], &["Requesting User:", "kubernetes-admin", "developers"]);
    // The second way reads the document of version 2, in protobuf.
    for arguments in [
        &["explain", "csr.spec.signerName"][..],
        &["explain", "csr.spec.signerName", "--output=plaintext-openapiv2"],
    ] {
        console.says(arguments, &["CertificateSigningRequest", "signerName"]);
    }
}

#[test]
fn people_limit_what_a_namespace_uses() {
    let cluster = Cluster::options().plane(Plane::simulated(1, 1)).start().unwrap();
    let console = Console { program: tools::kubectl(), folder: tempfile::tempdir().unwrap(), cluster };
    // The Service kubernetes is one.
    console.says(&["create", "quota", "small", "--hard=pods=1,services=1"], &["resourcequota/small created"]);
    console.until(&["get", "quota"], &["pods: 0/1, services: 1/1"]);
    console.says(&["describe", "quota", "small"], &["Resource", "Used", "Hard", "pods", "services"]);
    console.says(&["run", "one", "--image=registry.example/c:1"], &["pod/one created"]);
    console.fails(
        &["run", "two", "--image=registry.example/c:1"],
        &[r#"pods "two" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"#],
    );
    console.fails(
        &["create", "service", "clusterip", "web", "--tcp=80"],
        &["exceeded quota: small, requested: services=1, used: services=1, limited: services=1"],
    );
    console.says(&["get", "quota"], &["pods: 1/1, services: 1/1"]);
    console.says(&["delete", "pod", "one", "--now"], &["deleted"]);
    console.until(&["run", "two", "--image=registry.example/c:1"], &["pod/two created"]);
    console.says(&["get", "quota"], &["pods: 1/1, services: 1/1"]);
    console.says(&["describe", "namespace", "default"], &["Resource Quotas", "small"]);
}

#[test]
fn people_are_told_what_nothing_acts_on() {
    let console = Console::open();
    console.ok(&["create", "deployment", "web", "--image=registry.example/c:1"]);
    console.says(
        &["autoscale", "deployment", "web", "--max=3", "--cpu=50%"],
        &[
            "horizontalpodautoscaler.autoscaling/web autoscaled",
            "a HorizontalPodAutoscaler is stored and scales nothing",
        ],
    );
    console.says(&["get", "hpa"], &["Deployment/web", "cpu: <unknown>/50%"]);
    console.says(
        &["create", "ingress", "web", "--rule=web.example.com/*=web:80"],
        &["ingress.networking.k8s.io/web created", "an Ingress is stored and routes no traffic"],
    );
    console.says(&["get", "ingress"], &["web.example.com"]);
    let class = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: kata\n";
    let class = console.file("class.yaml", class);
    console
        .says(&["apply", "-f", &class], &["runtimeclass.node.k8s.io/kata created", "simulated nodes do not"]);
    console.says(&["get", "runtimeclass"], &["NAME", "HANDLER", "kata"]);
    console.ok(&["label", "namespace", "default", "pod-security.kubernetes.io/enforce=baseline"]);
    console.ok(&["run", "p", "--image=registry.example/c:1"]);
    console.fails(
        &["run", "q", "--image=registry.example/c:1", "--privileged"],
        &[r#"violates PodSecurity "baseline:latest": privileged (container "q" must not set securityContext.privileged=true)"#],
    );
}
