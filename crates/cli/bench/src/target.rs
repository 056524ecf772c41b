//! The server under measurement: where it is, how to speak to it, what requests to it look like as bytes.

use std::{
    net::ToSocketAddrs as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use kube::{
    client::ConfigExt as _,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustls::{ClientConfig, pki_types::ServerName};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::{
    clock,
    connection::{Answer, Connection},
};

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    address: std::net::SocketAddr,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    /// The lines that every request has.
    head: Arc<str>,
    /// The configuration that it was made from.
    cluster: Arc<kube::Config>,
}

impl Target {
    /// The server of a kubeconfig, or the one that kubectl would find.
    pub(crate) async fn find(kubeconfig: Option<&Path>) -> Result<Self> {
        let config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
                kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
            }
            None => kube::Config::infer().await.context("find a cluster: give --kubeconfig")?,
        };
        Self::of_config(config)
    }

    fn of_config(config: kube::Config) -> Result<Self> {
        let url = &config.cluster_url;
        ensure!(url.scheme_str() == Some("https"), "{url}: only https can be measured");
        let host = url.host().context("the server's address has no host")?;
        let port = url.port_u16().unwrap_or(443);
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        let name = config.tls_server_name.clone().unwrap_or_else(|| plain.to_owned());
        let address = (plain, port)
            .to_socket_addrs()
            .with_context(|| format!("look up {host}"))?
            .next()
            .with_context(|| format!("{host} has no address"))?;
        let token = token(&config)?;
        let authorization =
            token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        Ok(Self {
            address,
            name: ServerName::try_from(name).context("read the server's name")?,
            tls: Arc::new(config.rustls_client_config().context("read certificates")?),
            head: format!(
                "Host: {host}:{port}\r\nAccept: application/json\r\nUser-Agent: lazaret-bench\r\n{authorization}"
            )
            .into(),
            cluster: Arc::new(config),
        })
    }

    /// The same server, without credentials.
    pub(crate) fn without_credentials(&self) -> Result<Self> {
        let mut config = kube::Config::clone(&self.cluster);
        config.auth_info = kube::config::AuthInfo::default();
        Self::of_config(config)
    }

    /// The same connections, and requests with this token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { head: format!("{}Authorization: Bearer {token}\r\n", self.head).into(), ..self.clone() }
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, self.name.clone(), Arc::clone(&self.tls)).await
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\n{}\r\n", self.head).into_bytes()
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Vec<u8> {
        self.with_body("POST", path, "application/json", body)
    }

    pub(crate) fn delete(&self, path: &str, body: &str) -> Vec<u8> {
        self.with_body("DELETE", path, "application/json", body)
    }

    pub(crate) fn patch(&self, path: &str, body: &str) -> Vec<u8> {
        self.with_body("PATCH", path, "application/merge-patch+json", body)
    }

    /// The head of a request whose body follows.
    pub(crate) fn announce(&self, path: &str, bytes: usize) -> Vec<u8> {
        format!(
            "POST {path} HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n",
            self.head
        )
        .into_bytes()
    }

    fn with_body(&self, method: &str, path: &str, kind: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}",
            self.head
        )
        .into_bytes()
    }
}

/// The caller's token, if it has one. A certificate is part of the connection.
fn token(config: &kube::Config) -> Result<Option<String>> {
    let auth = &config.auth_info;
    if let Some(token) = &auth.token {
        return Ok(Some(token.expose_secret().to_owned()));
    }
    if let Some(path) = &auth.token_file {
        return Ok(Some(std::fs::read_to_string(path).context("read the token")?.trim().to_owned()));
    }
    if auth.exec.is_some() && auth.client_certificate.is_none() && auth.client_certificate_data.is_none() {
        bail!("this kubeconfig asks a program for credentials: make one with a token or a certificate");
    }
    Ok(None)
}

/// A connection that was not used for longer is not used again: servers close idle ones, Lazaret after 30 s.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// One call after the other, for what is not measured.
#[derive(Debug)]
pub(crate) struct Caller {
    target: Target,
    connection: Connection,
    used: Instant,
}

impl Caller {
    pub(crate) async fn new(target: &Target) -> Result<Self> {
        Ok(Self { target: target.clone(), connection: target.connect().await?, used: clock::now() })
    }

    async fn fetch(&mut self, request: &[u8]) -> Result<Answer> {
        if self.used.elapsed() > IDLE_MAX {
            self.connection = self.target.connect().await?;
        }
        let answer = self.connection.fetch(request).await;
        self.used = clock::now();
        answer
    }

    /// Creates an object that must not exist yet: an existing one belongs to another client.
    pub(crate) async fn create(&mut self, path: &str, object: &Value) -> Result<Value> {
        let request = self.target.post(path, &object.to_string());
        let answer = self.fetch(&request).await?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match answer.code {
            200..300 => serde_json::from_slice(&answer.body).context("read an answer"),
            409 => bail!("{path}/{name} is there already and was not made by this run: it is left alone"),
            _ => bail!("make {path}/{name}: {}", answer.refusal()),
        }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Option<Value>> {
        let answer = self.fetch(&self.target.get(path)).await?;
        match answer.code {
            200 => Ok(Some(serde_json::from_slice(&answer.body).context("read an answer")?)),
            404 => Ok(None),
            _ => bail!("get {path}: {}", answer.refusal()),
        }
    }

    /// Sends a request, and returns the response whatever its code.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<Answer> {
        self.fetch(request).await
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}
