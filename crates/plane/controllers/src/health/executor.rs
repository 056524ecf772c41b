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
    proof::Proofs,
    wire::{self, is_controlled_by},
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
    /// Makes objects that a policy describes in this order, each unless this installation made it before.
    Run(Task, Vec<New>),
    /// Makes an object of a kind that has to be asked for, unless this installation made it before; what it says now.
    Request(Task, Value),
    /// Cannot be written, and why.
    Impossible(String),
    /// Cannot be written now, and why.
    Blocked(String),
    /// A word for the log.
    Warn(String),
}

/// For whom and as whom objects are made that a policy describes.
#[derive(Debug)]
pub(crate) struct Task {
    /// The incarnation of the incident.
    pub(super) incident: Uid,
    /// The user whose rights count.
    pub(super) user: String,
    /// The incarnation of the object that was made before, as the incident has it.
    pub(super) known: Option<Uid>,
}

/// Writes for incidents.
#[derive(Clone, Debug)]
pub(super) struct Executor {
    pub(super) writer: Writer,
    pub(super) proofs: Proofs,
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

/// Deletes one incarnation of an object, and what belongs to it. A Job goes last: as long as it is there its pod may run.
pub(super) fn delete(resource: &Resource, namespace: &str, name: &str, uid: &Uid) -> Call {
    let policy = if *resource == JOBS { "Foreground" } else { "Background" };
    let options = json!({"preconditions": {"uid": &**uid}, "propagationPolicy": policy});
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

/// Makes an object that a policy describes, by the rights of the account that the policy names.
async fn run(writer: &Writer, proofs: &Proofs, task: &Task, (new, known): (&New, Option<&Uid>)) -> Reply {
    let New { resource, namespace, name, body } = new;
    let (create, get) =
        (Call::create(resource, namespace, body.clone()), Call::get(resource, namespace, name));
    let is_ours = |found: &[u8]| is_made_for(proofs, task, resource.kind, known, found);
    match writer.make(create, get, is_ours).await {
        Err(CallError::AlreadyExists(_)) => blocked(foreign(resource.kind, namespace, name)),
        Err(error) => not_made(task, &error),
        done => {
            if let Ok(Some(_)) = &done {
                info!(kind = resource.kind, namespace, name, user = task.user, "made for an incident");
            }
            made(done)
        }
    }
}

/// Whether this installation made an object for an incident, and the incident names no other incarnation.
fn is_made_for(proofs: &Proofs, task: &Task, kind: &str, known: Option<&Uid>, found: &[u8]) -> bool {
    let is_known = |uid: &Uid| wire::metadata(found).is_some_and(|metadata| metadata.uid == **uid);
    is_controlled_by(found, &task.incident)
        && proofs.has_made(kind, found, &task.incident)
        && known.is_none_or(is_known)
}

fn foreign(kind: &str, namespace: &str, name: &str) -> String {
    format!(
        "{kind} {namespace}/{name} is there and was not made for this incident: nothing runs before it is deleted"
    )
}

/// The account may be permitted more later, and a namespace may be made.
fn not_made(task: &Task, error: &CallError) -> Reply {
    if let CallError::Forbidden(why) | CallError::NotFound(why) = error {
        return blocked(format!("as {}: {why}", task.user));
    }
    Reply::from(error)
}

fn blocked(why: String) -> Reply {
    Reply { outcome: Outcome::Conflict, object: None, why: Some(why) }
}

async fn request(writer: &Writer, proofs: &Proofs, task: &Task, object: &Value) -> Reply {
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
        (false, namespace) if !namespace.is_empty() => {
            return refused(format!("{kind} has no namespace: leave metadata.namespace out of its template"));
        }
        (false, _) => format!("{root}/{}", served.name),
    };
    match writer.send(Call::get_at(format!("{collection}/{name}"))).await {
        Ok(found) if !is_made_for(proofs, task, &kind, task.known.as_ref(), &found) => {
            blocked(foreign(&kind, &namespace, &name))
        }
        Err(CallError::NotFound(_)) => {
            match writer.send(Call::create_at(collection, object.to_string())).await {
                Err(error) => not_made(task, &error),
                made => {
                    info!(%kind, namespace, name, user = task.user, "requested for an incident");
                    made.into()
                }
            }
        }
        Err(error) => not_made(task, &error),
        Ok(found) => Ok(found).into(),
    }
}

fn refused(why: String) -> Reply {
    Reply { outcome: Outcome::Refused, object: None, why: Some(why) }
}

impl Perform<Operation> for Executor {
    async fn perform(&self, deed: Operation) -> Reply {
        let Self { writer, proofs } = self;
        match deed {
            Operation::Send(call) => writer.send(*call).await.into(),
            Operation::Judge(policy, status) => {
                writer.apply_status(&HEALTH_POLICIES, &policy, NAME, status).await.into()
            }
            Operation::Make(owner, all) => {
                let mut last = Reply::from(Outcome::Done);
                for new in &all {
                    last = make(writer, &owner, new).await;
                    if last.outcome != Outcome::Done {
                        break;
                    }
                }
                last
            }
            Operation::Run(task, all) => {
                let mut last = Reply::from(Outcome::Done);
                let writer = &writer.acting_as(&task.user);
                for (at, new) in all.iter().enumerate() {
                    // The last one is what runs; what comes before it is needed for that.
                    let known = task.known.as_ref().filter(|_| at + 1 == all.len());
                    last = run(writer, proofs, &task, (new, known)).await;
                    if last.outcome != Outcome::Done {
                        break;
                    }
                }
                last
            }
            Operation::Request(task, object) => {
                request(&writer.acting_as(&task.user), proofs, &task, &object).await
            }
            Operation::Impossible(why) => refused(why),
            Operation::Blocked(why) => blocked(why),
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
