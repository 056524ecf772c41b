//! `POST /v1/alerts`: notifications of an alert manager, for whoever in this process takes them.

use std::{fmt, pin::Pin};

use bytes::Bytes;
use lazaret_kinds::{Access, User};

use crate::{ApiError, Server, respond::Answer};

/// Where notifications are sent, with POST.
pub(crate) const PATH: &str = "v1/alerts";
const GROUP: &str = "lazaret.dev";
const RESOURCE: &str = "devicesignals";
/// What a notification may come to: an alert that fires creates a signal, and one that is resolved deletes it.
const VERBS: [&str; 2] = ["create", "delete"];

/// The status and JSON that a notification is answered with.
pub type AlertAnswer = Pin<Box<dyn Future<Output = (u16, String)> + Send>>;

/// Takes notifications.
pub struct AlertSink {
    /// One of somebody who may write signals, and their name.
    pub receive: Box<dyn Fn(String, Bytes) -> AlertAnswer + Send + Sync>,
    /// One was refused: whether it is known who sent it.
    pub refused: Box<dyn Fn(bool) + Send + Sync>,
}

impl fmt::Debug for AlertSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AlertSink")
    }
}

impl Server {
    /// Takes a notification of somebody who may write the signals that it becomes.
    pub(crate) async fn receive_alerts(&self, user: &User, body: Bytes) -> Result<Answer, ApiError> {
        let Some(sink) = self.alerts() else { return Err(ApiError::no_such_path()) };
        let is_known = !user.groups.iter().any(|group| group == "system:unauthenticated");
        if !is_known {
            (sink.refused)(false);
            return Err(ApiError::unauthorized());
        }
        let may = |verb: &&str| {
            let access = Access {
                verb,
                group: GROUP,
                resource: RESOURCE,
                subresource: "",
                namespace: "",
                name: "",
                fields: &[],
            };
            self.may(user, access).is_ok()
        };
        if let Some(verb) = VERBS.iter().find(|verb| !may(verb)) {
            (sink.refused)(true);
            let why = format!("User {:?} cannot {verb} {RESOURCE}.{GROUP}", user.name);
            return Err(ApiError::forbidden_path(&format!("/{PATH}"), &why));
        }
        let (code, text) = (sink.receive)(user.name.clone(), body).await;
        Ok(Answer::json(code, text))
    }

    /// A request was refused because nobody knows who sent it.
    pub(crate) fn count_unauthenticated(&self, path: &str) {
        if path.trim_start_matches('/') == PATH
            && let Some(sink) = self.alerts()
        {
            (sink.refused)(false);
        }
    }
}
