//! Whether a DeviceHealthPolicy may be written where the API server is not ours: whoever describes an object to a policy must be permitted to create it.
//! Asks the API server itself, by SubjectAccessReviews for the author.

use lazaret_api::{Described, account_refusal, read_health_policy};
use lazaret_runtime::{Call, CallError, Client};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::RuleReview;

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const ROLES: &str = "rbac.authorization.k8s.io";

/// Answers questions about health policies.
#[derive(Clone, Debug)]
pub struct PolicyReviews {
    client: Client,
    repair_namespaces: Vec<String>,
}

/// Why no permission was found.
enum Refusal {
    /// For people.
    Denied(String),
    /// The server could not be asked.
    Failed(CallError),
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

#[derive(Deserialize)]
struct Discovered {
    resources: Vec<Served>,
}

#[derive(Deserialize)]
struct Served {
    name: String,
    kind: String,
    namespaced: bool,
}

impl PolicyReviews {
    /// Asks with this client; accounts of these namespaces may be named.
    #[must_use]
    pub fn new(client: Client, repair_namespaces: Vec<String>) -> Self {
        Self { client, repair_namespaces }
    }

    /// Whether `user` (the `userInfo` of a request, as JSON) may write this policy in the place of the old one. Whoever leaves the spec as it is
    /// describes nothing.
    pub async fn review(&self, policy: &str, old: Option<&str>, user: &str) -> RuleReview {
        if old.is_some_and(|old| spec(old).is_some() && spec(old) == spec(policy)) {
            return RuleReview::Permitted;
        }
        let policy = match read_health_policy(policy) {
            Ok(policy) => policy,
            Err(error) => return RuleReview::Refused(error.to_string()),
        };
        let described = policy.describes();
        if described.is_empty() {
            return RuleReview::Permitted;
        }
        let Ok(user) = serde_json::from_str::<Value>(user) else { return RuleReview::NotReady };
        if let Some(why) = account_refusal(policy.account.as_ref(), &self.repair_namespaces) {
            return RuleReview::Refused(why);
        }
        for one in &described {
            match self.may_describe(one, &user).await {
                Ok(()) => {}
                Err(Refusal::Denied(why)) => {
                    info!(policy = %policy.policy.name, why, "a DeviceHealthPolicy is refused");
                    return RuleReview::Refused(why);
                }
                Err(Refusal::Failed(error)) => {
                    warn!(%error, "the API server cannot be asked what the author of a DeviceHealthPolicy may do");
                    return RuleReview::NotReady;
                }
            }
        }
        RuleReview::Permitted
    }

    async fn may_describe(&self, described: &Described, user: &Value) -> Result<(), Refusal> {
        if described.is_policy() {
            let why = format!("{}: a policy may not describe another DeviceHealthPolicy", described.field);
            return Err(Refusal::Denied(why));
        }
        let served = self.served(described).await?;
        // Of a kind that is not served the resource is unknown: it takes the permission for all of its group.
        let resource = served.as_ref().map_or("*", |served| served.name.as_str());
        let namespace = match &served {
            Some(Served { namespaced: false, .. }) => "",
            Some(_) | None => described.namespace.as_str(),
        };
        let group = described.group();
        let asked =
            |verb: &str| json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace});
        let asked = described.verbs.iter().map(|verb| asked(verb)).chain(grant(described, namespace));
        for attributes in asked {
            if !self.is_allowed(&attributes, user).await? {
                let why = format!(
                    "{}: who describes a {} to a policy must be permitted to create it: user {} cannot {} resource {} in API group {group:?}, namespace {namespace:?}",
                    described.field,
                    described.kind,
                    user["username"],
                    attributes["verb"].as_str().unwrap_or_default(),
                    attributes["resource"],
                );
                return Err(Refusal::Denied(why));
            }
        }
        Ok(())
    }

    async fn is_allowed(&self, attributes: &Value, user: &Value) -> Result<bool, CallError> {
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "resourceAttributes": attributes, "user": user["username"], "groups": user["groups"],
                "uid": user["uid"], "extra": user["extra"],
            },
        });
        let answer = self.client.send(Call::create_at(ACCESS_REVIEWS.to_owned(), body.to_string())).await?;
        let answer: Value =
            serde_json::from_slice(&answer).map_err(|error| CallError::Unavailable(error.to_string()))?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// The resource of a described kind; `None` where it is not served.
    async fn served(&self, described: &Described) -> Result<Option<Served>, CallError> {
        let version = &described.api_version;
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let found = match self.client.send(Call::get_at(root)).await {
            Err(CallError::NotFound(_)) => return Ok(None),
            found => found?,
        };
        let found: Discovered =
            serde_json::from_slice(&found).map_err(|error| CallError::Unavailable(error.to_string()))?;
        let is_it = |served: &Served| served.kind == described.kind && !served.name.contains('/');
        Ok(found.resources.into_iter().find(is_it))
    }
}

/// The further permission for a role or a binding: the rights that the author holds are not known here, so it is the one to grant anything.
fn grant(described: &Described, namespace: &str) -> Option<Value> {
    if described.group() != ROLES {
        return None;
    }
    let plural = |kind: &str| if kind == "Role" { "roles" } else { "clusterroles" };
    let reference = &described.object["roleRef"];
    let asked = |verb: &str, resource: &str, name: &Value| json!({"verb": verb, "group": ROLES, "resource": resource, "namespace": namespace, "name": name});
    match described.kind.as_str() {
        kind @ ("Role" | "ClusterRole") => Some(asked("escalate", plural(kind), &Value::Null)),
        "RoleBinding" | "ClusterRoleBinding" => {
            let of = plural(reference["kind"].as_str().unwrap_or_default());
            Some(asked("bind", of, &reference["name"]))
        }
        _ => None,
    }
}

fn spec(object: &str) -> Option<Value> {
    let object: Value = serde_json::from_str(object).ok()?;
    object.get("spec").cloned()
}
