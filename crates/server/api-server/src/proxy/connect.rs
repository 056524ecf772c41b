//! A connection to a node: TCP, TLS with both certificates, one request.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    net::{TcpStream, lookup_host},
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    location::{Location, is_own, is_unroutable},
    trust::NodeTrust,
};
use crate::Server;

/// How long a node may take to accept a connection, with its certificate.
const DIAL_WAIT: Duration = Duration::from_secs(10);
/// How long a node may take to begin its answer.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// Bytes that are read at once of an answer, and the limit of its head.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
const USER_AGENT: &str = "lazaret-apiserver";

/// The permit that a connection holds as long as it lasts.
pub(super) type Permit = OwnedSemaphorePermit;

/// A connection over which one request may be sent.
pub(super) struct NodeStream {
    sender: SendRequest<Full<Bytes>>,
    permit: Permit,
}

/// Connects to a node. `trust` is the server's own unless the request sets another.
///
/// # Errors
/// Why that is not possible.
#[allow(clippy::disallowed_methods, reason = "the task ends with the connection, which its sender keeps")]
pub(super) async fn open(
    server: &Server,
    location: &Location,
    trust: Option<NodeTrust>,
) -> Result<NodeStream, String> {
    let connections = server.node_connections().ok_or("this server connects to no nodes")?;
    let trust = trust.as_ref().unwrap_or(connections.trust());
    let permit = Arc::clone(connections.places())
        .try_acquire_owned()
        .map_err(|_| "there are too many connections to nodes; try again later".to_owned())?;
    let config = connections.config(&location.node, trust)?;
    let name = ServerName::try_from(location.host.clone()).map_err(|error| error.to_string())?;
    let opened = timeout(DIAL_WAIT, async {
        let stream = dial(location, *trust == NodeTrust::Nobody).await?;
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(|error| refused(location, &error))
    });
    let stream = opened.await.map_err(|_| format!("dial tcp {}: i/o timeout", location.authority()))??;
    let (sender, connection) = Builder::new()
        .max_buf_size(BUFFER_BYTES_MAX)
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(connection.with_upgrades());
    Ok(NodeStream { sender, permit })
}

/// Why TLS failed, and what to do about it.
fn refused(location: &Location, error: &io::Error) -> String {
    let (node, at) = (&location.node, location.authority());
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            "tls: failed to verify certificate of {at}: {error}: the node's serving certificate must be of the cluster's authority and \
             name system:node:{node} (kubectl get csr), unless the server trusts others (--kubelet-certificate-authority, \
             --kubelet-skip-tls-verify)"
        ),
        // A kubelet without a serving certificate says so.
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::InternalError)) => format!(
            "remote error: tls: internal error: has the serving certificate of node {node} been approved? (kubectl get csr)"
        ),
        Some(other) => format!("tls: {other}"),
        None => format!("tls: {at}: {error}"),
    }
}

async fn dial(location: &Location, is_unverified: bool) -> Result<TcpStream, String> {
    let (host, port) = (location.host.as_str(), location.port);
    let found = lookup_host((host, port)).await;
    let found: Vec<SocketAddr> =
        found.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?.take(ADDRESSES_MAX).collect();
    let mut why = format!("dial tcp: lookup {host}: no such host");
    for address in found {
        // A name may lead anywhere, whatever an address may not.
        if is_unroutable(address.ip()) || is_unverified && is_own(address.ip()) {
            why = format!("dial tcp {address}: address not allowed");
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Answers are small and waited for.
                let _ = stream.set_nodelay(true);
                keep_alive(&stream);
                return Ok(stream);
            }
            Err(error) => {
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
                why = format!("dial tcp {address}: connect: {text}");
            }
        }
    }
    Err(why)
}

/// A node that is gone without a word is noticed after two minutes, however quiet its stream.
#[cfg(unix)]
fn keep_alive(stream: &TcpStream) {
    use rustix::net::sockopt;
    const IDLE: Duration = Duration::from_secs(60);
    const BETWEEN: Duration = Duration::from_secs(15);
    const PROBES: u32 = 4;
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, BETWEEN);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
}

#[cfg(not(unix))]
fn keep_alive(_: &TcpStream) {}

/// A request to a node, with nothing of the client in it yet.
pub(super) fn request(method: Method, path: &str, location: &Location) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = path.parse::<Uri>().unwrap_or_default();
    let headers = request.headers_mut();
    if let Ok(host) = HeaderValue::from_str(&location.authority()) {
        headers.insert(header::HOST, host);
    }
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    request
}

impl NodeStream {
    /// Sends the request; the answer has begun when this returns. The permit is held as long as the connection is used.
    pub(super) async fn send(
        mut self,
        request: Request<()>,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Permit), String> {
        let request = request.map(|()| Full::new(body));
        match timeout(ANSWER_WAIT, self.sender.send_request(request)).await {
            Ok(Ok(response)) => Ok((response, self.permit)),
            Ok(Err(error)) => Err(format!("the node's answer is none: {error}")),
            Err(_) => Err("the node does not answer: i/o timeout".to_owned()),
        }
    }
}
