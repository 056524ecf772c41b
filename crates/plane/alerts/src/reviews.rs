//! Asks the API server for the sender of alerts and for its permission.

use lazaret_runtime::{Call, CallError, Client, SIGNALS};
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509Certificate};

/// A longer token is refused without a review.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: String,
    groups: Vec<String>,
}

impl Caller {
    /// The caller in a verified certificate (as DER): the common name is the user, the organisations are the groups.
    pub(crate) fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
        let organisations = subject.iter_organization().filter_map(|entry| entry.as_str().ok());
        let groups = organisations.map(str::to_owned).chain(["system:authenticated".to_owned()]).collect();
        Some(Self { name, groups })
    }
}

/// The owner of a token; `None` if it has none.
pub(crate) async fn token(client: &Client, token: &str) -> Result<Option<Caller>, CallError> {
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        return Ok(None);
    }
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let answer = post(client, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
    let status = &answer["status"];
    let name = status["user"]["username"].as_str().unwrap_or_default().to_owned();
    let groups = status["user"]["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let caller = Caller { groups: groups.map(str::to_owned).collect(), name };
    Ok((status["authenticated"] == true && !caller.name.is_empty()).then_some(caller))
}

/// The verbs that a notification needs: an alert that fires creates a signal, and one that is resolved deletes it.
const VERBS: [&str; 2] = ["create", "delete"];

/// The first verb on signals that the caller lacks; `None` if it may write them.
pub(crate) async fn lacks(client: &Client, caller: &Caller) -> Result<Option<&'static str>, CallError> {
    for verb in VERBS {
        if !may(client, caller, verb).await? {
            return Ok(Some(verb));
        }
    }
    Ok(None)
}

async fn may(client: &Client, caller: &Caller, verb: &str) -> Result<bool, CallError> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": caller.name, "groups": caller.groups,
            "resourceAttributes": {
                "group": SIGNALS.group, "version": SIGNALS.version, "resource": SIGNALS.plural, "verb": verb,
            },
        },
    });
    let answer = post(client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
    Ok(answer["status"]["allowed"] == true && answer["status"]["denied"] != true)
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<Value, CallError> {
    let answer = client.send(Call::create_at(path.to_owned(), body.to_string())).await?;
    serde_json::from_slice(&answer).map_err(|error| CallError::Unknown(error.to_string()))
}
