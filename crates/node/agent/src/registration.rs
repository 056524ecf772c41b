//! One registration: the plugin's identity, and the notification of the result.

use std::{path::Path, time::Duration};

use lazaret_driver::{
    Client,
    proto::{self, InfoRequest, RegistrationStatus, RegistrationStatusResponse},
};
use lazaret_node::{Outcome, PluginInfo};
use tokio::time::timeout;

/// As kubelet has them.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
const INFO_TIMEOUT: Duration = Duration::from_secs(1);
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a plugin's error text that are kept.
const TEXT_BYTES_MAX: usize = 1_024;

/// Asks who is there.
pub(crate) async fn ask(socket: &str) -> Outcome {
    let asked = async {
        let mut plugin = dial(socket).await?;
        let info = plugin.call(proto::GET_INFO, InfoRequest {});
        let info = timeout(INFO_TIMEOUT, info).await.map_err(|_| no_answer("GetInfo", INFO_TIMEOUT))?;
        info.map_err(|status| format!("GetInfo: {}", status_text(&status)))
    };
    match asked.await {
        Ok(proto::PluginInfo { r#type, name, endpoint, supported_versions }) => {
            Outcome::Plugin(PluginInfo { kind: r#type, driver: name, endpoint, services: supported_versions })
        }
        Err(why) => Outcome::Failed(why),
    }
}

/// Tells a plugin what became of its registration.
pub(crate) async fn notify(socket: &str, error: Option<String>) -> Outcome {
    let status = RegistrationStatus { plugin_registered: error.is_none(), error: error.unwrap_or_default() };
    let notified = async {
        let mut plugin = dial(socket).await?;
        let notified = timeout(NOTIFY_TIMEOUT, plugin.call(proto::NOTIFY, status)).await;
        let notified = notified.map_err(|_| no_answer("NotifyRegistrationStatus", NOTIFY_TIMEOUT))?;
        notified.map_err(|status| format!("NotifyRegistrationStatus: {}", status_text(&status)))
    };
    match notified.await {
        Ok(RegistrationStatusResponse {}) => Outcome::Done,
        Err(why) => Outcome::Failed(why),
    }
}

async fn dial(socket: &str) -> Result<Client, String> {
    let dialled = timeout(DIAL_TIMEOUT, Client::connect(Path::new(socket))).await;
    dialled.map_err(|_| no_answer("connect", DIAL_TIMEOUT))?.map_err(|error| format!("connect: {error}"))
}

fn no_answer(call: &str, after: Duration) -> String {
    format!("{call}: no answer within {} s", after.as_secs())
}

/// The text of a gRPC error, cut to the limit.
pub(crate) fn status_text(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), cut(status.message()))
}

/// The start of a text.
pub(crate) fn cut(text: &str) -> &str {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}
