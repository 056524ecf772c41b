//! An API server, a node's API behind it, and pods on it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use lazaret_nodeapi::{
    ApiReviews, Certificate, Found, FoundSandbox, NodeApi, NotFound, Options, Pods, Tls, keep_certificate,
};
use lazaret_server::{Pem, User};
use lazaret_testkit::Cluster;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    process::Command,
    sync::watch,
    time::{sleep, timeout},
};

use crate::{played::Played, tools};

pub(crate) const NODE: &str = "node-a";
/// Only a test that hangs takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The containers of a node, as an agent would know them.
#[derive(Default)]
pub(crate) struct Known(Mutex<BTreeMap<(String, String, bool), Found>>);

impl Known {
    pub(crate) fn put(&self, pod: &str, container: &str, previous: bool, found: Found) {
        self.0.lock().unwrap().insert((pod.into(), container.into(), previous), found);
    }

    pub(crate) fn stop(&self, pod: &str, container: &str) {
        let mut known = self.0.lock().unwrap();
        known.get_mut(&(pod.into(), container.into(), false)).unwrap().is_running = false;
    }
}

impl Pods for Known {
    fn find(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        previous: bool,
    ) -> Result<Found, NotFound> {
        let known = self.0.lock().unwrap();
        let mut of_pod = known.iter().filter(|((name, _, _), _)| namespace == "default" && name == pod);
        let container = container.unwrap_or("main");
        if let Some(found) = known.get(&(pod.to_owned(), container.to_owned(), previous)) {
            return Ok(found.clone());
        }
        Err(match of_pod.next() {
            None => NotFound::Unknown(format!("pod {pod:?} does not exist")),
            Some(_) if previous => NotFound::NotStarted(format!(
                "previous terminated container {container:?} in pod {pod:?} not found"
            )),
            Some(_) => NotFound::NotStarted(format!(
                "container {container:?} in pod {pod:?} is waiting to start: ContainerCreating"
            )),
        })
    }

    fn find_sandbox(&self, namespace: &str, pod: &str) -> Result<FoundSandbox, NotFound> {
        let known = self.0.lock().unwrap();
        let mut of_pod = known.iter().filter(|((name, _, _), _)| namespace == "default" && name == pod);
        let (_, found) = of_pod.next().ok_or_else(|| NotFound::Unknown("pod does not exist".into()))?;
        Ok(FoundSandbox { id: "s1".into(), pod_uid: found.pod_uid.clone() })
    }

    fn all(&self) -> Vec<Value> {
        vec![json!({"metadata": {"name": "web", "namespace": "default"}})]
    }
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) pods: Arc<Known>,
    pub(crate) runtime: Arc<Played>,
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
    _stop: watch::Sender<bool>,
}

impl World {
    /// With a pod `web` that runs a container `app`.
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::start();
        let (pods, runtime) = (Arc::new(Known::default()), Arc::new(Played::default()));
        let user = User {
            name: format!("system:node:{NODE}"),
            groups: vec!["system:nodes".into(), "system:authenticated".into()],
            ..User::default()
        };
        let client = cluster.client_as(user);
        let api = NodeApi::new(Options {
            node: NODE.into(),
            pods: pods.clone(),
            runtime: runtime.clone(),
            reviews: Arc::new(ApiReviews::new(client.clone(), NODE)),
            machine: Arc::new(|| None),
            metrics: Arc::new(|| "lazaret_up 1\n".to_owned()),
        });
        let certificate = Certificate::default();
        let tls = Tls::new(&certificate, cluster.authority()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(async move { api.serve(listener, tls, stopped).await });
        let (server, signer) = (cluster.server().clone(), cluster.signer());
        tokio::spawn(async move { server.serve_certificate_requests(signer).await });
        tokio::spawn(keep_certificate(client, NODE.into(), vec![NODE.into()], certificate.clone()));
        let folder = tempfile::tempdir().unwrap();
        let world = Self { cluster, pods, runtime, port, folder, _stop: stop };
        world.make_node(NODE, "127.0.0.1", port).await;
        world.make_pod("web", NODE, &["app"]).await;
        world.container("web", "app", &[]);
        timeout(PATIENCE, async {
            while !certificate.is_there() {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap();
        world
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Value {
        self.send("POST", path, object).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, object: &Value) -> Value {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(object.to_string().into_bytes()).unwrap();
        self.cluster.client().request(request).await.unwrap()
    }

    pub(crate) async fn make_node(&self, name: &str, address: &str, port: u16) {
        let node = json!({"metadata": {"name": name}, "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        self.post("/api/v1/nodes", &node).await;
        self.send("PATCH", &format!("/api/v1/nodes/{name}/status"), &node).await;
    }

    pub(crate) async fn make_pod(&self, name: &str, node: &str, containers: &[&str]) {
        let containers: Vec<Value> =
            containers.iter().map(|name| json!({"name": name, "image": "registry.example/c:1"})).collect();
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": node, "containers": containers, "automountServiceAccountToken": false,
        }});
        self.post("/api/v1/namespaces/default/pods", &pod).await;
        // kubectl forwards no ports of a pod that does not run.
        let status = json!({"status": {"phase": "Running"}});
        self.send("PATCH", &format!("/api/v1/namespaces/default/pods/{name}/status"), &status).await;
    }

    /// A container that runs, with these lines in its log.
    pub(crate) fn container(&self, pod: &str, name: &str, lines: &[&str]) -> PathBuf {
        let log = self.folder.path().join(format!("{pod}-{name}.log"));
        write_lines(&log, lines);
        let found = Found {
            container: "c1".into(),
            name: name.into(),
            pod_uid: "uid-1".into(),
            log: log.clone(),
            is_running: true,
            tty: false,
            stdin: true,
        };
        self.pods.put(pod, name, false, found);
        log
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Command {
        self.kubectl_as(&self.cluster.kubeconfig(), arguments)
    }

    pub(crate) fn kubectl_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(tools::kubectl());
        command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
        command.env("HOME", self.folder.path()).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs kubectl to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        finish(self.kubectl(arguments)).await
    }

    /// The output of kubectl, which must succeed.
    pub(crate) async fn shown(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error of kubectl, which must fail.
    pub(crate) async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// A TLS connection to the node itself, by this certificate.
    pub(crate) async fn node(
        &self,
        certificate: Option<&Pem>,
    ) -> impl AsyncRead + AsyncWrite + Unpin + use<> {
        self.connect(self.port, certificate).await.unwrap()
    }

    pub(crate) async fn connect(
        &self,
        port: u16,
        certificate: Option<&Pem>,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.cluster.authority().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match certificate {
            Some(pem) => {
                let chain = vec![CertificateDer::from_pem_slice(pem.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let name = if port == self.port { NODE } else { "localhost" };
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect(name.try_into().unwrap(), stream).await
    }

    /// The code and the text of the node's answer to a GET.
    pub(crate) async fn ask_node(
        &self,
        certificate: Option<&Pem>,
        path: &str,
        headers: &str,
    ) -> (u16, String) {
        let stream = self.node(certificate).await;
        ask(stream, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n")).await
    }
}

/// Sends a request and reads the answer to its end.
pub(crate) async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    // A server need not say that it closes.
    let _ = read;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, text)
}

/// A port at which no process listens, and none can while the socket is there.
pub(crate) fn closed_port() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

pub(crate) async fn finish(mut command: Command) -> Output {
    timeout(PATIENCE, command.output()).await.unwrap().unwrap()
}

pub(crate) fn write_lines(log: &Path, lines: &[&str]) {
    let text: String = lines
        .iter()
        .enumerate()
        .map(|(at, line)| format!("2026-01-01T00:00:{:02}.000000000Z stdout F {line}\n", at % 60))
        .collect();
    std::fs::write(log, text).unwrap();
}
