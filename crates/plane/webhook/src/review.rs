//! The form of a question and of its answer: `admission.k8s.io/v1` AdmissionReview.

use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// On an object that is written with `dryRun`: it asks whether the webhook is reached, and is refused with [`PROBE_ANSWER`].
const PROBE: &str = "lazaret.dev/webhook-probe";
/// The answer to a probe, which `kubectl device check` looks for.
const PROBE_ANSWER: &str = "lazaret.dev/webhook-probe: the webhook answers";

/// A question of the API server.
#[derive(Clone, Debug)]
pub struct Question {
    /// The object as it would be, as JSON.
    pub object: String,
    /// The object as it was, where there was one.
    pub old_object: Option<String>,
    /// The author of the request, as JSON: its `userInfo`.
    pub user: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be written.
    Allowed,
    /// It may not, and why.
    Denied(String),
    /// Not known yet: the `failurePolicy` of the configuration decides.
    NotReady,
}

#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    #[serde(default)]
    dry_run: bool,
    object: Option<Box<RawValue>>,
    old_object: Option<Box<RawValue>>,
    user_info: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Probed {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// A question with what is needed to answer it.
#[derive(Debug)]
pub(crate) struct ReviewRequest {
    pub(crate) uid: String,
    pub(crate) question: Question,
    /// It only checks whether the webhook answers.
    pub(crate) is_probe: bool,
}

/// Reads a question.
///
/// # Errors
/// Why it is none.
pub(crate) fn read(body: &[u8]) -> Result<ReviewRequest, String> {
    let Review { request } =
        serde_json::from_slice(body).map_err(|error| format!("AdmissionReview: {error}"))?;
    let Some(object) = present(request.object) else {
        return Err(
            "AdmissionReview: request.object is missing: only CREATE and UPDATE are answered".to_owned()
        );
    };
    let probed: Probed = serde_json::from_str(object.get()).unwrap_or_default();
    let is_probe = request.dry_run
        && probed.metadata.annotations.is_some_and(|annotations| annotations.contains_key(PROBE));
    let old_object = present(request.old_object).map(|raw| raw.get().to_owned());
    let user = request.user_info.map_or_else(|| "{}".to_owned(), |raw| raw.get().to_owned());
    let question = Question { object: object.get().to_owned(), old_object, user };
    Ok(ReviewRequest { uid: request.uid, question, is_probe })
}

fn present(raw: Option<Box<RawValue>>) -> Option<Box<RawValue>> {
    raw.filter(|raw| raw.get() != "null")
}

/// The answer to a probe.
pub(crate) fn probed() -> Decision {
    Decision::Denied(PROBE_ANSWER.to_owned())
}

/// Writes an answer; `None` where there is none.
pub(crate) fn answer(uid: &str, decision: &Decision) -> Option<String> {
    let response = match decision {
        Decision::Allowed => json!({"uid": uid, "allowed": true}),
        Decision::Denied(why) => json!({
            "uid": uid, "allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": why},
        }),
        Decision::NotReady => return None,
    };
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Some(review.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_with_its_objects() {
        let asked = read(
            br#"{"request":{"uid":"7","operation":"UPDATE","object":{"metadata":{"name":"a"}},"oldObject":{"spec":1},"userInfo":{"username":"u"}}}"#,
        )
        .unwrap();
        assert_eq!((asked.uid.as_str(), asked.is_probe), ("7", false));
        assert_eq!(asked.question.object, r#"{"metadata":{"name":"a"}}"#);
        assert_eq!(asked.question.old_object.as_deref(), Some(r#"{"spec":1}"#));
        assert_eq!(asked.question.user, r#"{"username":"u"}"#);
        let created = read(br#"{"request":{"uid":"7","object":{},"oldObject":null}}"#).unwrap();
        assert_eq!(created.question.old_object, None);
        for body in ["", "{}", r#"{"request":{"uid":"7","object":null}}"#, r#"{"request":{"object":{}}}"#] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn only_a_dry_run_is_a_probe() {
        let body = |dry: bool| {
            format!(
                r#"{{"request":{{"uid":"7","dryRun":{dry},"object":{{"metadata":{{"annotations":{{"lazaret.dev/webhook-probe":""}}}}}}}}}}"#
            )
        };
        assert!(read(body(true).as_bytes()).unwrap().is_probe);
        assert!(!read(body(false).as_bytes()).unwrap().is_probe);
    }
}
