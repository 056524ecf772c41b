//! Writes what was decided, and says what became of it.

use lazaret_lifecycle::ChildKind;
use lazaret_model::{Text, Uid};
use lazaret_runtime::{
    CLAIMS, Call, CallError, HEALTH_POLICIES, INCIDENTS, JOBS, Outcome, Perform, Reply, Resource,
    TAINT_POLICIES,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::NAME;
use crate::{
    wire::is_controlled_by,
    writer::{Writer, made},
};

/// Something to be written.
#[derive(Debug)]
pub(crate) enum Operation {
    /// One call, as it is.
    Send(Box<Call>),
    /// Whether the policy of this name is acted on, as its status.
    Judge(Text, Value),
    /// Makes objects in this order, each unless it is there already and its controller has this UID.
    Make(Uid, Vec<New>),
    /// Makes an object of a kind that has to be asked for, unless it is there; what it says now.
    Request(Uid, Value),
    /// Cannot be written, and why.
    Impossible(String),
    /// A word for the log.
    Warn(String),
}

/// An object to be made.
#[derive(Debug)]
pub(crate) struct New {
    pub(super) resource: Resource,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) body: String,
}

/// Where objects made for incidents are, on a server with these rules.
pub(super) fn resource(kind: ChildKind, rules: Resource) -> Resource {
    match kind {
        ChildKind::Rule => rules,
        ChildKind::Drain => TAINT_POLICIES,
        ChildKind::Job => JOBS,
        ChildKind::Claim => CLAIMS,
    }
}

/// Deletes one incarnation of an object, and what belongs to it.
pub(super) fn delete(resource: &Resource, namespace: &str, name: &str, uid: &Uid) -> Call {
    let options = json!({"preconditions": {"uid": &**uid}, "propagationPolicy": "Background"});
    Call::delete(resource, namespace, name, options.to_string())
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

async fn make(writer: &Writer, owner: &Uid, new: &New) -> Reply {
    let New { resource, namespace, name, body } = new;
    let (create, get) =
        (Call::create(resource, namespace, body.clone()), Call::get(resource, namespace, name));
    let reply = made(writer.make(create, get, |found| is_controlled_by(found, owner)).await);
    if reply.outcome == Outcome::Done {
        info!(kind = resource.kind, namespace, name, "made for an incident");
    }
    reply
}

async fn request(writer: &Writer, owner: &Uid, object: &Value) -> Reply {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let found = match writer.send(Call::get_at(root.clone())).await {
        Ok(found) => found,
        Err(CallError::NotFound(_)) => return refused(format!("{version} is not served")),
        Err(error) => return Reply::from(&error),
    };
    let served = match serde_json::from_slice::<Discovered>(&found) {
        Ok(served) => served.resources,
        Err(error) => return Reply::from(&CallError::Unavailable(error.to_string())),
    };
    let Some(served) = served.into_iter().find(|one| one.kind == kind && !one.name.contains('/')) else {
        return refused(format!("{version} has no kind {kind}"));
    };
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let collection = match (served.namespaced, namespace.as_str()) {
        (true, "") => return refused(format!("{kind} needs metadata.namespace in its template")),
        (true, namespace) => format!("{root}/namespaces/{namespace}/{}", served.name),
        (false, _) => format!("{root}/{}", served.name),
    };
    match writer.send(Call::get_at(format!("{collection}/{name}"))).await {
        Ok(found) if !is_controlled_by(&found, owner) => {
            let why = Some(format!("{kind} {name} belongs to somebody else"));
            Reply { outcome: Outcome::Conflict, object: None, why }
        }
        Err(CallError::NotFound(_)) => {
            info!(%kind, namespace, name, "requested for an incident");
            writer.send(Call::create_at(collection, object.to_string())).await.into()
        }
        found => found.into(),
    }
}

fn refused(why: String) -> Reply {
    Reply { outcome: Outcome::Refused, object: None, why: Some(why) }
}

impl Perform<Operation> for Writer {
    async fn perform(&self, deed: Operation) -> Reply {
        match deed {
            Operation::Send(call) => self.send(*call).await.into(),
            Operation::Judge(policy, status) => {
                self.apply_status(&HEALTH_POLICIES, &policy, NAME, status).await.into()
            }
            Operation::Make(owner, all) => {
                let mut last = Reply::from(Outcome::Done);
                for new in &all {
                    last = make(self, &owner, new).await;
                    if last.outcome != Outcome::Done {
                        break;
                    }
                }
                last
            }
            Operation::Request(owner, object) => request(self, &owner, &object).await,
            Operation::Impossible(why) => refused(why),
            Operation::Warn(text) => {
                warn!("{text}");
                Outcome::Done.into()
            }
        }
    }
}

/// The call that writes a status of an incident of this incarnation and version.
pub(super) fn record(name: &Text, uid: &Uid, version: &Text, status: &Value) -> Call {
    let body = json!({
        "metadata": {"uid": &**uid, "resourceVersion": &**version},
        "status": status,
    });
    Call::patch(&INCIDENTS, "", name, "status", lazaret_runtime::PatchKind::Merge, body.to_string())
}
