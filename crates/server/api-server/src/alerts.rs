//! `POST /v1/alerts`: notifications of an Alertmanager, for the receiver in this process.

use std::{fmt, pin::Pin};

use bytes::Bytes;
use lazaret_kinds::{Access, User};

use crate::{ApiError, respond::Answer};

/// Where notifications are sent, with POST.
pub(crate) const PATH: &str = "v1/alerts";
const GROUP: &str = "lazaret.dev";
const RESOURCE: &str = "devicesignals";
/// The verbs that a notification needs: an alert that fires creates a signal, and one that is resolved deletes it.
const VERBS: [&str; 2] = ["create", "delete"];

/// The status and JSON that a notification is answered with.
pub type AlertAnswer = Pin<Box<dyn Future<Output = (u16, String)> + Send>>;

/// Takes notifications.
pub struct AlertSink {
    /// Takes a notification of a user who may write signals, and the user's name.
    pub receive: Box<dyn Fn(String, Bytes) -> AlertAnswer + Send + Sync>,
    /// One was refused: whether it is known who sent it.
    pub refused: Box<dyn Fn(bool) + Send + Sync>,
}

impl fmt::Debug for AlertSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AlertSink")
    }
}

impl AlertSink {
    /// Takes a notification of a user who `may` write the signals that it becomes.
    pub(crate) async fn notify(
        &self,
        user: &User,
        may: impl Fn(Access<'_>) -> bool,
        body: Bytes,
    ) -> Result<Answer, ApiError> {
        let is_known = !user.groups.iter().any(|group| group == "system:unauthenticated");
        if !is_known {
            (self.refused)(false);
            return Err(ApiError::unauthorized());
        }
        let may = |verb: &&str| {
            may(Access {
                verb,
                group: GROUP,
                resource: RESOURCE,
                subresource: "",
                namespace: "",
                name: "",
                fields: &[],
            })
        };
        if let Some(verb) = VERBS.iter().find(|verb| !may(verb)) {
            (self.refused)(true);
            let why = format!("User {:?} cannot {verb} {RESOURCE}.{GROUP}", user.name);
            return Err(ApiError::forbidden_path(&format!("/{PATH}"), &why));
        }
        let (code, text) = (self.receive)(user.name.clone(), body).await;
        Ok(Answer::json(code, text))
    }

    /// A request to `path` was refused because its user is not known.
    pub(crate) fn count_unauthenticated(&self, path: &str) {
        if path.trim_start_matches('/') == PATH {
            (self.refused)(false);
        }
    }
}
