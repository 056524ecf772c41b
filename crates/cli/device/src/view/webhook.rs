//! Whether the webhook for rules is reached, and what keeps it from being.

use super::{
    check::{Check, State, check},
    installation::{SECTION, unseen},
};

/// Facts about the webhook of one installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhook {
    /// The name of its configuration.
    pub name: String,
    /// The API server was told whom to trust.
    pub is_trusted: bool,
    /// A pod of its Service is ready; `None`: unknown.
    pub has_endpoints: Option<bool>,
    /// The API server got an answer; `None`: unknown.
    pub answers: Option<bool>,
}

/// Nothing is said where there is none.
pub(super) fn webhooks(found: Option<&[Webhook]>) -> Vec<Check> {
    let name = "the webhook for rules answers";
    let Some(found) = found else { return vec![unseen(name, "validatingwebhookconfigurations")] };
    found.iter().map(|webhook| one(name, webhook)).collect()
}

fn one(name: &str, webhook: &Webhook) -> Check {
    let place = &webhook.name;
    let failed = |why: &str, hint: &str| {
        check(
            SECTION,
            name,
            State::Failed,
            format!("{place} ({why}), so rules are made whatever guards say"),
            hint,
        )
    };
    match webhook.answers {
        Some(true) => check(SECTION, name, State::Ok, place.clone(), ""),
        _ if !webhook.is_trusted => failed(
            "it has no caBundle",
            "the controllers write it: look at their log, and for their right to patch the configuration",
        ),
        _ if webhook.has_endpoints == Some(false) => failed(
            "no pod of its Service is ready",
            "look at the controllers: /readyz of a pod says what it waits for",
        ),
        Some(false) => failed(
            "the API server gets no answer",
            "its caBundle is not that of the Secret of the same name, or the network keeps the API server from the pods: the API server's log says which",
        ),
        None => check(
            SECTION,
            name,
            State::Skipped,
            format!("{place}: unknown, because this user may not make rules"),
            "",
        ),
    }
}
