//! Containers that are asked how they are.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, Pod, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};
use lazaret_containers::Exec;
use lazaret_pods::{Outcome, PodRef, ProbeKind};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    grpc_health,
    shared::Shared,
    unverified,
    work::{failed, pod_of},
};

/// Bytes of an answer that are kept, as in kubelet.
const ANSWER_BYTES_MAX: u64 = 10 << 10;
/// Time for the runtime to kill a program after its caller has given up: the caller's timeout is reported first.
const END_TIME: Duration = Duration::from_secs(1);

/// The container that is asked.
#[derive(Debug)]
pub(super) struct TargetContainer<'a> {
    pub(super) shared: &'a Shared,
    pub(super) uid: &'a str,
    pub(super) container: &'a Container,
    pub(super) id: &'a str,
    /// How long an answer may take.
    pub(super) limit: Duration,
}

/// Asks once.
pub(super) async fn probe(
    shared: &Shared,
    pod: &PodRef,
    name: &str,
    id: &str,
    kind: ProbeKind,
    limit: Duration,
) -> Outcome {
    let object = match pod_of(shared, pod) {
        Ok(object) => object,
        Err(outcome) => return outcome,
    };
    let Some(container) = container_of(&object, name) else {
        return failed("", "there is no such container");
    };
    let probe = match kind {
        ProbeKind::Startup => &container.startup_probe,
        ProbeKind::Readiness => &container.readiness_probe,
        ProbeKind::Liveness => &container.liveness_probe,
    };
    let Some(probe) = probe else { return failed("", "there is no such probe") };
    let asked = TargetContainer { shared, uid: &pod.uid, container, id, limit };
    let result = match timeout(limit, asked.by(probe)).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    };
    match result {
        Ok(message) => Outcome::Probed { is_success: true, message },
        Err(message) => Outcome::Probed { is_success: false, message },
    }
}

pub(super) fn container_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.into_iter().find(|container| container.name == name)
}

impl TargetContainer<'_> {
    async fn by(&self, probe: &Probe) -> Result<String, String> {
        if let Some(exec) = &probe.exec {
            self.exec(exec).await
        } else if let Some(get) = &probe.http_get {
            self.http(get).await
        } else if let Some(tcp) = &probe.tcp_socket {
            let port = self.port(&tcp.port)?;
            self.connect(tcp.host.as_deref(), port).await.map(|_| String::new())
        } else if let Some(grpc) = &probe.grpc {
            let port = self.port(&IntOrString::Int(grpc.port))?;
            let address = format!("{}:{port}", self.ip().unwrap_or_default());
            let stream = self.connect(None, port).await;
            let stream = stream
                .map_err(|error| format!("error: failed to connect service at {address:?}: {error}"))?;
            grpc_health::check(&address, stream, grpc.service.as_deref().unwrap_or_default()).await
        } else {
            Err("the probe has no handler that this node knows".into())
        }
    }

    /// Runs a program in the container; it says no by any exit code but 0.
    pub(super) async fn exec(&self, exec: &ExecAction) -> Result<String, String> {
        let command = exec.command.clone().unwrap_or_default();
        let limit = self.limit.saturating_add(END_TIME);
        let exec = Exec { command, limit: Some(limit), ..Exec::default() };
        let mut running = self.shared.runtime.exec(self.id, exec).await.map_err(|error| error.to_string())?;
        let output = running.streams.stdout.take();
        let errors = running.streams.stderr.take();
        let (output, errors) = tokio::join!(read(output), read(errors));
        let code = running.exit.await.map_err(|_| "its end was lost".to_owned())?;
        let code = code.map_err(|error| error.to_string())?;
        let text = format!("{output}{errors}");
        if code == 0 { Ok(text) } else { Err(format!("command exited with {code}: {text}")) }
    }

    /// Asks by HTTP or HTTPS; 200 to 399 is a yes. Whose certificate it is does not matter.
    pub(super) async fn http(&self, get: &HTTPGetAction) -> Result<String, String> {
        let is_https = get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("HTTPS"));
        let port = self.port(&get.port)?;
        let headers = get.http_headers.iter().flatten();
        let mut headers: BTreeMap<String, String> =
            headers.map(|header| (header.name.to_ascii_lowercase(), header.value.clone())).collect();
        headers.entry("user-agent".into()).or_insert_with(|| "kube-probe/1.37".into());
        headers.entry("accept".into()).or_insert_with(|| "*/*".into());
        let named = get.host.clone().filter(|host| !host.is_empty());
        let host = named.or_else(|| self.ip()).unwrap_or_else(|| "localhost".into());
        headers.entry("host".into()).or_insert_with(|| format!("{host}:{port}"));
        headers.insert("connection".into(), "close".into());
        let path = get.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("GET {slash}{path} HTTP/1.1\r\n{lines}\r\n");
        if request.matches('\n').count() != headers.len() + 2 {
            return Err("a path or header of the probe has line breaks".into());
        }
        let stream = self.connect(get.host.as_deref(), port).await?;
        let answer = match is_https {
            true => exchange(unverified::begin(&host, stream).await?, &request).await?,
            false => exchange(stream, &request).await?,
        };
        let code: u16 = answer
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|code| code.trim().parse().ok())
            .ok_or("it does not answer by HTTP")?;
        if (200..400).contains(&code) {
            Ok(String::new())
        } else {
            Err(format!("HTTP probe failed with statuscode: {code}"))
        }
    }

    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let found = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let mut ports = self.container.ports.iter().flatten();
                let named = ports.find(|port| port.name.as_ref() == Some(name));
                named.map(|port| port.container_port).or_else(|| name.parse().ok())
            }
        };
        found.and_then(|port| u16::try_from(port).ok()).ok_or_else(|| format!("there is no port {port:?}"))
    }

    fn ip(&self) -> Option<String> {
        let table = self.shared.table();
        let sandbox = table.entries.get(self.uid)?.sandbox.as_ref()?;
        self.shared.ips(sandbox).into_iter().next()
    }

    /// To the host that the probe names, else to the pod's address.
    async fn connect(&self, host: Option<&str>, port: u16) -> Result<TcpStream, String> {
        let host = host.filter(|host| !host.is_empty()).map(str::to_owned).or_else(|| self.ip());
        let host = host.ok_or("the pod has no address")?;
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
        Ok(stream)
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Result<String, String> {
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    stream.flush().await.map_err(|error| error.to_string())?;
    Ok(read(Some(stream)).await)
}

async fn read(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // The bytes that arrived before an error are the answer.
        let _ = (&mut from).take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).await;
        // A program with more output is not blocked by a full pipe.
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
