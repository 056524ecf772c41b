//! Writes rules, and leaves a note of it where history is looked for.

use serde_json::{Value, json};

use super::Session;
use crate::{
    Error,
    api::{DryRun, EVENTS, Resource},
    view::{
        Change, Meta, REASON_ANNOTATION, REMOVED_REASON, RuleDraft, SET_BY_ANNOTATION, SET_REASON,
        describe_selector,
    },
};

/// As the definitions of guards, signals and incidents have it.
pub(super) const REASON_BYTES_MAX: usize = 1_024;
/// Events about objects of the cluster live in this namespace.
const EVENT_NAMESPACE: &str = "default";
const REVIEWS: Resource = Resource {
    group: "authentication.k8s.io",
    version: "v1",
    plural: "selfsubjectreviews",
    kind: "SelfSubjectReview",
    namespaced: false,
};

/// A write that was carried out.
#[derive(Debug)]
pub(super) struct Written {
    /// One line for people.
    pub(super) line: String,
    /// The rule as it is now, or would be; absent where it is gone.
    pub(super) object: Option<Value>,
}

pub(super) fn check_reason(reason: &str) -> Result<(), Error> {
    if reason.trim().is_empty() || reason.len() > REASON_BYTES_MAX {
        let message = format!("--reason must not be empty and have at most {REASON_BYTES_MAX} bytes");
        return Err(Error::usage(message));
    }
    Ok(())
}

/// As whom the server sees us, and when it made the answer.
pub(super) async fn self_review(session: &Session<'_>) -> Result<Value, Error> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    session.api.create(&REVIEWS, "", &review, DryRun::None).await
}

/// As whom the server sees us; nobody knows on servers that do not say.
pub(super) async fn whoami(session: &Session<'_>) -> Option<String> {
    let answer = self_review(session).await.ok()?;
    Some(answer["status"]["userInfo"]["username"].as_str()?.to_owned())
}

/// Carries out a change.
pub(super) async fn write(
    session: &mut Session<'_>,
    rules: &Resource,
    change: &Change,
    dry_run: DryRun,
) -> Result<Written, Error> {
    let suffix = dry_run.suffix();
    match change {
        Change::Create(draft) => {
            let object = draft.object(&rules.api_version(), rules.kind);
            let object = match dry_run {
                DryRun::Client => object,
                DryRun::None | DryRun::Server => session.api.create(rules, "", &object, dry_run).await?,
            };
            let line = tainted(draft, "tainted", suffix);
            note_set(session, rules, draft, &object, dry_run).await;
            Ok(Written { line, object: Some(object) })
        }
        Change::Update { draft, meta } => {
            let object = match dry_run {
                DryRun::Client => draft.object(&rules.api_version(), rules.kind),
                DryRun::None | DryRun::Server => {
                    session.api.patch(rules, &draft.name, &draft.patch(meta), dry_run).await?
                }
            };
            let line = tainted(draft, "now tainted", suffix);
            note_set(session, rules, draft, &object, dry_run).await;
            Ok(Written { line, object: Some(object) })
        }
        Change::Delete { name, uid, taint, devices } => {
            if dry_run != DryRun::Client {
                session.api.delete(rules, name, uid, dry_run).await?;
            }
            let line = format!("{devices} no longer tainted {taint} (rule {name} deleted){suffix}");
            if dry_run == DryRun::None {
                let by = whoami(session).await;
                let text = format!("{devices} no longer tainted {taint} (rule {name})");
                let about = About {
                    rules,
                    name,
                    uid,
                    reason: REMOVED_REASON,
                    text: &text,
                    by: by.as_deref(),
                    why: None,
                };
                post(session, &about).await;
            }
            Ok(Written { line, object: None })
        }
        Change::Absent { devices } => {
            Ok(Written { line: format!("{devices} unchanged{suffix}"), object: None })
        }
        Change::Unchanged { name } => Ok(Written {
            line: format!("rule {name} unchanged{suffix}"),
            object: Some(session.api.get(rules, "", name).await?),
        }),
    }
}

fn tainted(draft: &RuleDraft, how: &str, suffix: &str) -> String {
    format!("{} {how} {} (rule {}){suffix}", describe_selector(&draft.selector), draft.taint, draft.name)
}

async fn note_set(
    session: &mut Session<'_>,
    rules: &Resource,
    draft: &RuleDraft,
    object: &Value,
    dry_run: DryRun,
) {
    if dry_run != DryRun::None {
        return;
    }
    let text = tainted(draft, "tainted", "");
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let about = About {
        rules,
        name: &draft.name,
        uid,
        reason: SET_REASON,
        text: &text,
        by: draft.set_by.as_deref(),
        why: draft.reason.as_deref(),
    };
    post(session, &about).await;
}

struct About<'a> {
    rules: &'a Resource,
    name: &'a str,
    uid: &'a str,
    reason: &'static str,
    text: &'a str,
    by: Option<&'a str>,
    why: Option<&'a str>,
}

/// An event is a courtesy: the change was made, so that it cannot be written is only noted.
async fn post(session: &mut Session<'_>, about: &About<'_>) {
    let now = session.now();
    let time = lazaret_api::format_time(now);
    let mut annotations = serde_json::Map::new();
    for (key, value) in [(SET_BY_ANNOTATION, about.by), (REASON_ANNOTATION, about.why)] {
        if let Some(value) = value {
            annotations.insert(key.to_owned(), json!(value));
        }
    }
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "generateName": format!("{}.", about.name.chars().take(200).collect::<String>()),
            "namespace": EVENT_NAMESPACE,
            "annotations": annotations,
        },
        "involvedObject": {
            "apiVersion": about.rules.api_version(), "kind": about.rules.kind, "name": about.name, "uid": about.uid,
        },
        "type": "Normal",
        "reason": about.reason,
        "message": about.text,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": "kubectl-device"},
        "reportingComponent": "kubectl-device",
        "reportingInstance": "kubectl-device",
    });
    if let Err(error) = session.api.create(&EVENTS, EVENT_NAMESPACE, &event, DryRun::None).await {
        let first = error.to_string().lines().next().unwrap_or_default().to_owned();
        session
            .console
            .note(&format!("note: history will not show this, because no event could be written: {first}"));
    }
}

/// The rule as the server has it now, for the precondition of the next write.
pub(super) fn meta_of(object: &Value) -> Meta {
    serde_json::from_value(object["metadata"].clone()).unwrap_or_default()
}
