//! A connection to a webhook, and the error when there is none.

use std::{error::Error, io, sync::Arc};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, ClientConfig, pki_types::ServerName};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

/// Connects to `to` and makes sure that who answers there is `name`.
///
/// # Errors
/// Why that is not possible, as Kubernetes says it.
#[allow(clippy::disallowed_methods, reason = "the task ends with the connection, which its sender keeps")]
pub(super) async fn open(
    to: &str,
    name: &str,
    tls: Arc<ClientConfig>,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = dial(to).await?;
    let server_name = ServerName::try_from(name.to_owned()).map_err(|error| format!("tls: {error}"))?;
    let stream = TlsConnector::from(tls)
        .connect(server_name, stream)
        .await
        .map_err(|error| handshake_failed(&error, name))?;
    let (sender, connection) =
        handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn dial(to: &str) -> Result<TcpStream, String> {
    let host = to.rsplit_once(':').map_or(to, |(host, _)| host);
    let addresses = lookup_host(to).await.map_err(|_| format!("dial tcp: lookup {host}: no such host"))?;
    let mut first = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Small messages one after the other: waiting to fill packets would cost each of them.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => {
                first.get_or_insert_with(|| format!("dial tcp {address}: connect: {}", system_text(&error)));
            }
        }
    }
    Err(first.unwrap_or_else(|| format!("dial tcp: lookup {host}: no such host")))
}

/// The system's words for an error without the number that Rust puts behind it.
fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

// DEVIATION(webhook-words)
#[allow(clippy::wildcard_enum_match_arm, reason = "what has no words of its own has those of the library")]
fn handshake_failed(error: &io::Error, name: &str) -> String {
    let Some(found) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return if error.kind() == io::ErrorKind::UnexpectedEof { "EOF".into() } else { system_text(error) };
    };
    let certificate = |why: &str| format!("tls: failed to verify certificate: x509: {why}");
    match found {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => certificate("certificate signed by unknown authority"),
        rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })
            if presented.is_empty() =>
        {
            certificate(&format!("certificate is not valid for any names, but wanted to match {name}"))
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) => {
            let names: Vec<&str> = presented.iter().map(|name| plain_name(name)).collect();
            certificate(&format!("certificate is valid for {}, not {name}", names.join(", ")))
        }
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => certificate("certificate has expired or is not yet valid"),
        rustls::Error::InvalidCertificate(other) => certificate(&other.to_string()),
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        other => format!("tls: {other}"),
    }
}

/// `DnsName("a.b")` and `IpAddress(127.0.0.1)` without what stands around them.
fn plain_name(shown: &str) -> &str {
    let inner = shown.split_once('(').map_or(shown, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"')
}

/// The message about a connection that ended before an answer came.
pub(super) fn broken(error: &hyper::Error) -> String {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return if io.kind() == io::ErrorKind::ConnectionReset {
                "read: connection reset by peer".to_owned()
            } else if io.kind() == io::ErrorKind::UnexpectedEof {
                "EOF".to_owned()
            } else {
                system_text(io)
            };
        }
        source = inner.source();
    }
    if error.is_parse() || error.is_parse_too_large() {
        return format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}");
    }
    "EOF".to_owned()
}
