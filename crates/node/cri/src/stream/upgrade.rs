//! The HTTP request that becomes a session.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The carrier of a stream, and Kubernetes' protocol in it.
const CARRIER: &str = "SPDY/3.1";
const PROTOCOL_HEADER: &str = "x-stream-protocol-version";
const PROTOCOL: &str = "v4.channel.k8s.io";
/// Bytes of a refusal that are shown.
const REFUSAL_BYTES_MAX: usize = 4 << 10;

/// Connects to an address that a runtime named.
pub(super) async fn connect(url: &str) -> Result<TokioIo<Upgraded>, String> {
    let uri: Uri = url.parse().map_err(|_| format!("{url:?} is no address"))?;
    if uri.scheme_str() != Some("http") {
        return Err(format!("{url:?}: only http is supported, on an address of this machine"));
    }
    let authority = uri.authority().ok_or_else(|| format!("{url:?} names no host"))?.clone();
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await;
    let stream = stream.map_err(|error| format!("connect to {authority}: {error}"))?;
    let said = |error: hyper::Error| format!("{authority}: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, authority.as_str())
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, CARRIER)
        .header(PROTOCOL_HEADER, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(said)?;
        accepted(response).await?.await.map_err(said)
    };
    // The connection drives the exchange, and gives itself up with the upgrade.
    let driving = connection.with_upgrades();
    tokio::pin!(exchange, driving);
    let upgraded = tokio::select! {
        upgraded = &mut exchange => upgraded,
        _ = &mut driving => exchange.await,
    };
    upgraded.map(TokioIo::new)
}

/// The upgrade, if the answer is one.
async fn accepted(response: Response<Incoming>) -> Result<OnUpgrade, String> {
    let code = response.status();
    if code != StatusCode::SWITCHING_PROTOCOLS {
        let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
        let text = body.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(format!("{code}: {}", String::from_utf8_lossy(&text).trim()));
    }
    let spoken = response.headers().get(PROTOCOL_HEADER).map(|value| value.as_bytes());
    if spoken != Some(PROTOCOL.as_bytes()) {
        return Err(format!("the runtime does not speak {PROTOCOL}"));
    }
    Ok(hyper::upgrade::on(response))
}
