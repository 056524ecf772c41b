//! Alertmanager's webhook: part of the API server of `up`, and of `run` where it is asked for.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use lazaret_alerts::{Outcome, Receiver, Serving};
use lazaret_runtime::{Client, Metrics};
use lazaret_server::{AlertSink, Server};
use tokio::net::TcpListener;

use crate::{listen::Listen, output};

/// The name in the table of controllers' roles.
pub(crate) const CONTROLLER: &str = "alerts";

/// Lets a server take alerts.
pub(crate) fn take(server: &Server, client: Client, metrics: &Metrics) {
    let receiver = Receiver::new(client, metrics);
    let refusing = receiver.clone();
    server.take_alerts(AlertSink {
        receive: Box::new(move |by, body| {
            let receiver = receiver.clone();
            Box::pin(async move {
                let answer = receiver.receive(&by, &body).await;
                (answer.code, answer.body)
            })
        }),
        refused: Box::new(move |is_known| {
            refusing.refuse(if is_known { Outcome::Forbidden } else { Outcome::Unauthenticated });
        }),
    });
}

/// Flags about alerts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AlertArgs {
    /// Take alerts of Alertmanager at this address, as POST /v1/alerts over HTTPS [default: not at all]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Listen::parse, requires = "alerts_cert", requires = "alerts_key")]
    alerts_listen: Option<Listen>,
    /// The certificate to serve with, PEM
    #[arg(long, value_name = "FILE", requires = "alerts_listen")]
    alerts_cert: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "alerts_listen")]
    alerts_key: Option<PathBuf>,
    /// Whose certificates name a sender of alerts, PEM [default: senders show a token]
    #[arg(long, value_name = "FILE", requires = "alerts_listen")]
    alerts_client_ca: Option<PathBuf>,
}

/// A place where alerts are taken.
pub(crate) type AlertListener = Option<(TcpListener, Serving, Receiver)>;

impl AlertArgs {
    /// Listens, where that was asked for.
    pub(crate) async fn listen(&self, client: &Client, metrics: &Metrics) -> Result<AlertListener> {
        let (Some(listen), Some(certificate), Some(key)) =
            (&self.alerts_listen, &self.alerts_cert, &self.alerts_key)
        else {
            return Ok(None);
        };
        let read =
            |file: &PathBuf| fs::read_to_string(file).with_context(|| format!("read {}", file.display()));
        let authorities = self.alerts_client_ca.as_ref().map(read).transpose()?;
        let serving = Serving::new(&read(certificate)?, &read(key)?, authorities.as_deref())
            .context("--alerts-cert, --alerts-key, --alerts-client-ca")?;
        let listener = listen.bind("--alerts-listen").await?;
        let address = listener.local_addr().context("find out where it listens")?;
        output::note(&format!("alerts: https://{address}/v1/alerts"));
        Ok(Some((listener, serving, Receiver::new(client.clone(), metrics))))
    }
}

/// Takes alerts; never ends.
pub(crate) async fn serve(taking: AlertListener) {
    match taking {
        Some((listener, serving, receiver)) => lazaret_alerts::serve(listener, serving, receiver).await,
        None => std::future::pending().await,
    }
}
