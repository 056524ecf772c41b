//! The claims of pods: runs [`lazaret_claims`] and does what it decides.

use std::sync::Arc;

use lazaret_api::{awaiting_to_text, read_node_report};
use lazaret_claims::{
    AskNode, CLAIM_NAME_ANNOTATION, ChangeClaim, ClaimStep, Claims, CreateClaim, EffectKind, FINALIZER,
    HolderKind, Input, Options, SeenClaim, SetClaimNames, Template,
};
use lazaret_machine::Turn;
use lazaret_model::{AWAITING_UNPREPARE, Consumer, ObjectKey, Text, Timestamp};
use lazaret_runtime::{
    CLAIM_TEMPLATES, CLAIMS, Call, CallError, Model, NODES, News, Object, Outcome, POD_GROUPS, PODS,
    PatchKind, Perform, Reply, Resource, read_metadata,
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    Sources,
    event::Event,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    telemetry::ClaimsMetrics,
    wire,
    writer::{Writer, made},
};

pub(crate) const NAME: &str = "resourceclaim-controller";
/// Resources that it can run without: where nodes cannot be read, it waits for none.
pub(crate) const OPTIONAL: &[Resource] = &[NODES];
/// The resources that it watches.
pub(crate) fn resources(sources: Sources) -> Vec<Resource> {
    let mut resources = vec![PODS, CLAIMS, CLAIM_TEMPLATES];
    if sources.has_groups() {
        resources.push(POD_GROUPS);
    }
    resources
}

/// The objects that the core has received.
#[derive(Debug)]
pub(crate) struct ClaimsShell {
    ledger: Ledger,
    metrics: ClaimsMetrics,
}

impl ClaimsShell {
    pub(crate) fn agent(options: Options, metrics: ClaimsMetrics) -> MachineAgent<Self> {
        MachineAgent::new(Claims::new(options), Self { ledger: Ledger::of_models(), metrics })
    }
}

impl Shell for ClaimsShell {
    type Machine = Claims;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, claims: &mut Claims, now: Timestamp, news: News) {
        // How a pod ended is said by its last state, which may have come with the news that it is gone.
        let mut last_told = false;
        if let News::Gone(PODS, object) = &news
            && let Ok(Model::Pod(pod)) = object.model()
        {
            claims.handle(now, Input::Pod(Arc::clone(pod)));
            last_told = true;
        }
        self.ledger.changes(news, |change| {
            if let Some(input) = input(change, last_told) {
                claims.handle(now, input);
            }
        });
    }

    fn think(&mut self, claims: &mut Claims, now: Timestamp) {
        claims.handle(now, Input::Tick);
        self.metrics.report(claims.counters(), claims.census());
        self.metrics.report_awaiting(claims.awaiting());
    }

    fn lead(&mut self, claims: &mut Claims, now: Timestamp, leads: bool) {
        if leads {
            claims.handle(now, Input::Synced);
        }
        claims.handle(now, Turn::leads(leads).into());
    }
}

fn input(change: Change, last_told: bool) -> Option<Input> {
    match change {
        Change::Gone(resource, key, uid) => Some(match resource.plural {
            "pods" => Input::PodGone { key, uid, last_told },
            "resourceclaims" => Input::ClaimGone(key),
            "podgroups" => Input::GroupGone { key, uid },
            "nodes" => Input::NodeGone(key.name),
            _ => Input::TemplateGone(key),
        }),
        Change::Set(_, object) => match object.model() {
            Ok(Model::Pod(pod)) => Some(Input::Pod(Arc::clone(pod))),
            Ok(Model::Group(group)) => Some(Input::Group(Arc::clone(group))),
            Ok(Model::Claim(claim)) => Some(Input::Claim(seen(Arc::clone(claim), &object))),
            Ok(Model::Node(_)) => read_node_report(object.json()).map(|report| Input::Node(Arc::new(report))),
            Ok(Model::Template(_)) => template(&object).map(|template| Input::Template(Arc::new(template))),
            // The object says why nothing is known of it; what the core holds of it stays.
            Ok(_) | Err(_) => None,
        },
    }
}

/// Another encoder may write null for what is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Housekeeping {
    finalizers: Option<Vec<String>>,
    annotations: Option<std::collections::BTreeMap<String, String>>,
    labels: Option<std::collections::BTreeMap<String, String>>,
}

fn seen(claim: Arc<lazaret_model::ResourceClaim>, object: &Object) -> SeenClaim {
    let metadata = housekeeping(object);
    let annotations = metadata.annotations.unwrap_or_default();
    SeenClaim {
        claim,
        version: object.resource_version.clone(),
        finalizers: metadata.finalizers.unwrap_or_default().into_iter().map(Text::from).collect(),
        entry: annotations.get(CLAIM_NAME_ANNOTATION).map(|entry| entry.as_str().into()),
        awaiting: annotations.get(AWAITING_UNPREPARE).map(|nodes| nodes.as_str().into()),
    }
}

/// The metadata of an object; of those that have not the usual form, the fields that can be read.
fn housekeeping(object: &Object) -> Housekeeping {
    read_metadata(object.json()).unwrap_or_else(|_| {
        let metadata: Value = read_metadata(object.json()).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let finalizers = metadata["finalizers"].as_array().into_iter().flatten().filter_map(text);
        let annotations = metadata["annotations"].as_object().into_iter().flatten();
        Housekeeping {
            finalizers: Some(finalizers.collect()),
            annotations: Some(
                annotations.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect(),
            ),
            labels: None,
        }
    })
}

#[derive(Deserialize)]
struct WireTemplate {
    spec: WireTemplateSpec,
}

#[derive(Deserialize)]
struct WireTemplateSpec {
    #[serde(default)]
    metadata: Housekeeping,
    spec: Box<RawValue>,
}

fn template(object: &Object) -> Option<Template> {
    let wire: WireTemplate = serde_json::from_slice(object.json()).ok()?;
    let pairs = |map: Option<std::collections::BTreeMap<String, String>>| {
        map.into_iter().flatten().map(|(key, value)| (Text::from(key), Text::from(value))).collect()
    };
    let spec = serde_json::from_str::<Value>(wire.spec.spec.get()).ok()?;
    let requests = spec["devices"]["requests"].as_array().map_or(&[][..], Vec::as_slice);
    let admin_access = requests.iter().any(|request| request["exactly"]["adminAccess"] == true);
    Some(Template {
        key: object.key.clone(),
        labels: pairs(wire.spec.metadata.labels),
        annotations: pairs(wire.spec.metadata.annotations),
        spec: wire.spec.spec.get().into(),
        admin_access,
    })
}

async fn create_claim(writer: &Writer, create: &CreateClaim) -> Reply {
    let ObjectKey { namespace, name } = &create.claim;
    let (make, get) =
        (Call::create(&CLAIMS, namespace, new_claim(create)), Call::get(&CLAIMS, namespace, name));
    made(writer.make(make, get, |found| wire::is_controlled_by(found, &create.holder.uid)).await)
}

async fn set_claim_names(writer: &Writer, set: &SetClaimNames) -> Reply {
    let (holder, resource) = (&set.holder, resource(set.holder.kind));
    let names: Vec<Value> = set
        .names
        .iter()
        .map(|(entry, claim)| json!({"name": &**entry, "resourceClaimName": &**claim}))
        .collect();
    let body = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"name": &*holder.key.name, "namespace": &*holder.key.namespace, "uid": &*holder.uid},
        "status": {"resourceClaimStatuses": names},
    });
    // DEVIATION(claim-name-patch): Kubernetes applies it.
    let kind = PatchKind::Strategic;
    let (namespace, name) = (&holder.key.namespace, &holder.key.name);
    let call = Call::patch(&resource, namespace, name, "status", kind, body.to_string());
    // There is nothing else to conflict over than the UID.
    writer.send_to_one(call).await.into()
}

async fn change_claim(writer: &Writer, change: &ChangeClaim) -> Reply {
    let (namespace, name) = (&*change.claim.namespace, &*change.claim.name);
    let mut version = change.version.as_str().to_owned();
    for (at, step) in change.steps.iter().enumerate() {
        let metadata = json!({"uid": &*change.uid, "resourceVersion": version});
        let patch = |subresource, body: Value| {
            Call::patch(&CLAIMS, namespace, name, subresource, PatchKind::Merge, body.to_string())
        };
        let call = match step {
            ClaimStep::SetStatus { reserved_for, deallocate } => patch(
                "status",
                json!({"metadata": metadata, "status": new_status(reserved_for, *deallocate)}),
            ),
            ClaimStep::SetFinalizers(finalizers) => {
                let mut metadata = metadata;
                metadata["finalizers"] = finalizers.iter().map(|name| Value::from(&**name)).collect();
                patch("", json!({"metadata": metadata}))
            }
            ClaimStep::SetAwaiting(nodes) => {
                let mut metadata = metadata;
                metadata["annotations"] = json!({AWAITING_UNPREPARE: nodes.as_deref()});
                patch("", json!({"metadata": metadata}))
            }
            ClaimStep::Delete => {
                let options = json!({"preconditions": metadata});
                Call::delete(&CLAIMS, namespace, name, options.to_string())
            }
        };
        match writer.send(call).await {
            // The next step expects the version that this one made.
            Ok(written) if at + 1 < change.steps.len() => {
                version = wire::metadata(&written).map_or(version, |metadata| metadata.resource_version);
            }
            Ok(_) => {}
            Err(error) => return Reply::from(&error),
        }
    }
    Outcome::Done.into()
}

async fn ask_node(writer: &Writer, ask: &AskNode) -> Reply {
    let text = (!ask.awaiting.is_empty()).then(|| awaiting_to_text(&ask.awaiting));
    let body = json!({"metadata": {
        "uid": &*ask.uid, "resourceVersion": &*ask.version, "annotations": {AWAITING_UNPREPARE: text},
    }});
    let call = Call::patch(&NODES, "", &ask.node, "", PatchKind::Merge, body.to_string());
    writer.send(call).await.into()
}

async fn confirm_node(writer: &Writer, node: &Text) -> Reply {
    match writer.send(Call::get(&NODES, "", node)).await {
        Ok(found)
            if read_node_report(&found).is_some_and(|report| report.reports && !report.out_of_service) =>
        {
            Outcome::Done.into()
        }
        Ok(_) | Err(CallError::NotFound(_)) => Outcome::Gone.into(),
        Err(error) => Reply::from(&error),
    }
}

/// Makes claims, writes who uses them.
impl Perform<EffectKind> for Writer {
    async fn perform(&self, effect: EffectKind) -> Reply {
        match &effect {
            EffectKind::CreateClaim(create) => create_claim(self, create).await,
            EffectKind::SetClaimNames(set) => set_claim_names(self, set).await,
            EffectKind::ChangeClaim(change) => change_claim(self, change).await,
            EffectKind::Confirm(holder) => {
                self.confirm(&resource(holder.kind), &holder.key, &holder.uid).await
            }
            EffectKind::ConfirmNode(node) => confirm_node(self, node).await,
            EffectKind::AskNode(ask) => ask_node(self, ask).await,
            EffectKind::Event(event) => {
                let event = Event {
                    about: resource(event.holder.kind),
                    key: &event.holder.key,
                    uid: &event.holder.uid,
                    severity: "Warning",
                    reason: event.reason,
                    action: "CreatingClaim",
                    message: &event.message,
                    component: NAME,
                };
                self.post(&event)
            }
            EffectKind::ClaimEvent(event) => {
                let event = Event {
                    about: CLAIMS,
                    key: &event.claim,
                    uid: &event.uid,
                    severity: "Warning",
                    reason: event.reason,
                    action: "ReleasingClaim",
                    message: &event.message,
                    component: NAME,
                };
                self.post(&event)
            }
        }
    }
}

/// The API resource of a kind that holds claims.
fn resource(kind: HolderKind) -> Resource {
    match kind {
        HolderKind::Pod => PODS,
        HolderKind::Group => POD_GROUPS,
    }
}

fn new_claim(create: &CreateClaim) -> String {
    let map = |pairs: &[(Text, Text)]| -> Map<String, Value> {
        pairs.iter().map(|(key, value)| (key.as_str().to_owned(), Value::from(value.as_str()))).collect()
    };
    let owner = resource(create.holder.kind);
    let mut annotations = map(&create.template.annotations);
    annotations.insert(CLAIM_NAME_ANNOTATION.to_owned(), create.entry.as_str().into());
    let metadata = json!({
        "name": &*create.claim.name,
        "namespace": &*create.claim.namespace,
        "generateName": &*create.generate_name,
        "labels": map(&create.template.labels),
        "annotations": annotations,
        // DEVIATION(claims-born-protected): the scheduler need not write that before it allocates.
        "finalizers": [FINALIZER],
        "ownerReferences": [{
            "apiVersion": owner.api_version(), "kind": owner.kind,
            "name": &*create.holder.key.name, "uid": &*create.holder.uid, "controller": true,
        }],
    });
    // The spec is handed on as the template has it.
    format!(
        r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{metadata},"spec":{}}}"#,
        create.template.spec
    )
}

fn new_status(reserved_for: &[Consumer], deallocate: bool) -> Value {
    let mut status = json!({"reservedFor": reserved_for.iter().map(wire::consumer).collect::<Vec<_>>()});
    if deallocate {
        status["allocation"] = Value::Null;
        status["devices"] = Value::Null;
    }
    status
}
