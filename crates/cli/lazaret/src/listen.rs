//! Where to listen, as flags have it: an address or a host name, and a port.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::TcpListener;

/// A host and a port; the host is looked up when it is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen(String);

impl Listen {
    /// Reads `HOST:PORT`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "write it as 127.0.0.1:7443, [::1]:7443 or localhost:7443".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let is_address = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || host.contains(':') && !is_address || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Self(text.to_owned()))
    }

    /// Listens on the first address of the host that is free; `flag` is part of the error.
    pub(crate) async fn bind(&self, flag: &str) -> Result<TcpListener> {
        let Self(listen) = self;
        let found = tokio::net::lookup_host(listen).await;
        let addresses: Vec<SocketAddr> =
            found.with_context(|| format!("look up the host of {flag} {listen}"))?.collect();
        TcpListener::bind(addresses.as_slice())
            .await
            .with_context(|| format!("listen on {listen}: is the port in use? choose another with {flag}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port() {
        for text in ["127.0.0.1:7443", "[::1]:0", "localhost:7443", "node-1.example.com:65535"] {
            assert_eq!(Listen::parse(text), Ok(Listen(text.to_owned())));
        }
        for text in ["", "7443", ":7443", "localhost", "localhost:", "localhost:70000", "::1:7443", "a:b"] {
            assert!(Listen::parse(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_host_name_is_looked_up() {
        let listener = Listen::parse("localhost:0").unwrap().bind("--listen").await.unwrap();
        assert!(listener.local_addr().unwrap().ip().is_loopback());
        let taken = Listen::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        assert!(taken.bind("--listen").await.unwrap_err().to_string().contains("is the port in use?"));
    }
}
