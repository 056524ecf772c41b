//! What keeps a cluster going: runs [`lazaret_workloads`] and does what it decides.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use lazaret_model::{ObjectKey, Text, Timestamp};
use lazaret_runtime::{
    Agent, CLAIM_TEMPLATES, CLAIMS, Call, CallError, Client, EVENTS, News, Object, Outcome, PODS, PatchKind,
    Perform, Postbox, Reply, Resource, SLICES,
};
use lazaret_workloads::{
    ALL, Effect, Key, Limits, Note, Object as Read, Outcome as Answer, PatchKind as Language,
    Resource as Kind, TYPED, Workloads, Write, resource as kinds,
};
use serde_json::json;
use tracing::warn;

use crate::{
    custom,
    event::Event,
    ledger::{Change, Ledger},
};

/// What it calls itself.
pub(crate) const NAME: &str = "workload-controllers";

macro_rules! owned {
    ($($name:ident: $group:literal $version:literal $plural:literal $kind:literal $namespaced:literal;)*) => {
        $(static $name: Kind = Kind {
            group: $group, version: $version, plural: $plural, kind: $kind, namespaced: $namespaced,
        };)*
        /// Kinds that matter only for who owns them and which namespace they are in.
        static OWNED: &[&Kind] = &[$(&$name),*];
    };
}

owned! {
    CLAIM: "resource.k8s.io" "v1" "resourceclaims" "ResourceClaim" true;
    TEMPLATE: "resource.k8s.io" "v1" "resourceclaimtemplates" "ResourceClaimTemplate" true;
    SLICE: "resource.k8s.io" "v1" "resourceslices" "ResourceSlice" false;
    CSI_NODE: "storage.k8s.io" "v1" "csinodes" "CSINode" false;
    SECRET: "" "v1" "secrets" "Secret" true;
    ROLE: "rbac.authorization.k8s.io" "v1" "roles" "Role" true;
    ROLE_BINDING: "rbac.authorization.k8s.io" "v1" "rolebindings" "RoleBinding" true;
}

const fn resource(kind: &Kind) -> Resource {
    Resource {
        group: kind.group,
        version: kind.version,
        plural: kind.plural,
        kind: kind.kind,
        namespaced: kind.namespaced,
    }
}

/// What it hears of.
pub(crate) fn resources() -> Vec<Resource> {
    debug_assert_eq!(
        (resource(&CLAIM), resource(&TEMPLATE), resource(&SLICE)),
        (CLAIMS, CLAIM_TEMPLATES, SLICES)
    );
    TYPED.iter().chain(OWNED).map(|kind| resource(kind)).collect()
}

fn kind(resource: &Resource) -> Option<&'static Kind> {
    let known = |kind: &&&'static Kind| kind.plural == resource.plural && kind.group == resource.group;
    TYPED.iter().chain(OWNED).find(known).copied()
}

/// The cores with what they have been told.
#[derive(Debug)]
pub(crate) struct WorkloadsAgent {
    workloads: Workloads,
    /// Only to know what a name meant when it changed hands.
    ledger: Ledger,
    leading: bool,
    /// Decided and not taken yet: bounded by what the controllers let be under way.
    ready: VecDeque<Effect>,
}

impl WorkloadsAgent {
    pub(crate) fn new(limits: Limits) -> Self {
        let mut workloads = Workloads::with_limits(ALL, limits);
        for kind in OWNED {
            workloads.learn(kind);
        }
        Self { workloads, ledger: Ledger::default(), leading: false, ready: VecDeque::new() }
    }
}

impl Agent for WorkloadsAgent {
    type Effect = Write;

    fn hear(&mut self, now: Timestamp, news: News) {
        let Self { workloads, ledger, .. } = self;
        if let News::Listed(resource, objects, revision) = &news
            && let Some(kind) = kind(resource)
        {
            let objects = objects.iter().filter_map(|object| read(kind, object)).collect();
            workloads.list(now, kind, objects, *revision);
            ledger.changes(news, |_| {});
            return;
        }
        ledger.changes(news, |change| match change {
            Change::Set(resource, object) => {
                if let Some(object) = kind(&resource).and_then(|kind| read(kind, &object)) {
                    workloads.put(now, object);
                }
            }
            Change::Gone(resource, key, uid) => {
                if let Some(kind) = kind(&resource) {
                    workloads.remove(now, kind, &Key::new(&*key.namespace, &*key.name), &uid);
                }
            }
        });
    }

    fn think(&mut self, now: Timestamp) {
        if self.leading {
            self.ready.extend(self.workloads.poll(now));
        }
    }

    fn lead(&mut self, now: Timestamp, leading: bool) {
        self.leading = leading;
        if !leading {
            for effect in core::mem::take(&mut self.ready) {
                self.workloads.acknowledge(now, effect.id, Answer::RetryLater(None));
            }
        }
    }

    fn acknowledge(&mut self, now: Timestamp, effect: u64, reply: Reply) {
        let object = || reply.object.as_deref().map(<[u8]>::to_vec);
        let answer = match reply.outcome {
            Outcome::Done => Answer::Done(object()),
            Outcome::Gone => Answer::Gone,
            Outcome::Conflict => Answer::Conflict,
            Outcome::Refused => Answer::Invalid(reply.why.unwrap_or_default()),
            Outcome::RetryLater => Answer::RetryLater(reply.why),
            Outcome::Unknown => Answer::Unknown,
        };
        self.workloads.acknowledge(now, effect, answer);
    }

    fn poll(&mut self) -> Option<(u64, Write)> {
        self.ready.pop_front().map(|Effect { id, write }| (id, write))
    }

    fn wake(&self) -> Option<Timestamp> {
        self.workloads.next_wake()
    }
}

/// What others read, too, is read once for everybody.
fn read(kind: &'static Kind, object: &Arc<Object>) -> Option<Read> {
    let read = match kind.plural {
        "namespaces" => object.read().map(Read::Namespace),
        "poddisruptionbudgets" => object.read().map(Read::PodDisruptionBudget),
        _ => Read::read(kind, object.json()),
    };
    read.inspect_err(|error| warn!(kind = kind.kind, key = %object.key, %error, "left out")).ok()
}

/// Writes what the controllers decide.
#[derive(Debug)]
pub(crate) struct Executor {
    client: Client,
    events: Postbox,
    serial: AtomicU64,
}

impl Executor {
    pub(crate) fn new(client: Client, events: Postbox) -> Self {
        Self { client, events, serial: AtomicU64::new(0) }
    }

    async fn delete(&self, write: &Write) -> Reply {
        let Write::Delete { resource: kind, key, uid, resource_version, propagation, grace } = write else {
            return Outcome::Done.into();
        };
        let mut preconditions = json!({"uid": uid});
        if let Some(version) = resource_version {
            preconditions["resourceVersion"] = version.as_str().into();
        }
        let mut options = json!({"preconditions": preconditions, "propagationPolicy": propagation.as_str()});
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = (*grace).into();
        }
        let call = Call::delete(&resource(kind), &key.namespace, &key.name, options.to_string());
        match self.client.send(call).await {
            // Without a version the only precondition is the UID.
            Err(CallError::Conflict(_)) if resource_version.is_none() => Outcome::Gone.into(),
            reply => reply.into(),
        }
    }

    async fn evict(&self, key: &Key, uid: &str) -> Reply {
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        self.client
            .send(Call::create_under(&PODS, &key.namespace, &key.name, "eviction", body.to_string()))
            .await
            .into()
    }

    /// Events are not watched, for there are too many; a namespace takes its own with it.
    async fn clear_events(&self, namespace: &str) {
        let call = Call::delete(&EVENTS, namespace, "", "{}");
        if let Err(error) = self.client.send(call).await {
            warn!(namespace, %error, "events of a namespace that goes are left behind");
        }
    }

    fn event(&self, note: &Note) -> Reply {
        let key = ObjectKey::new(note.key.namespace.as_str(), note.key.name.as_str());
        let event = Event {
            about: resource(note.resource),
            key: &key,
            uid: &Text::from(note.uid.as_str()),
            severity: note.kind.as_str(),
            reason: note.reason,
            action: "Reconciling",
            message: &note.message,
            component: note.component,
        };
        self.events
            .post(event.call(self.client.clock().now(), self.serial.fetch_add(1, Ordering::Relaxed)))
            .into()
    }
}

impl Perform<Write> for Executor {
    async fn perform(&self, write: Write) -> Reply {
        match &write {
            Write::Create { resource: kind, namespace, body } => {
                self.client.send(Call::create(&resource(kind), namespace, body.to_string())).await.into()
            }
            Write::Patch { resource: kind, key, subresource, kind: language, body } => {
                let language = match language {
                    Language::Merge => PatchKind::Merge,
                    Language::Json => PatchKind::Json,
                    Language::Apply => PatchKind::Apply { manager: NAME },
                    Language::Strategic => PatchKind::Strategic,
                };
                let call = Call::patch(
                    &resource(kind),
                    &key.namespace,
                    &key.name,
                    subresource,
                    language,
                    body.to_string(),
                );
                self.client.send(call).await.into()
            }
            Write::Replace { resource: kind, key, subresource, body } => {
                if **kind == kinds::NAMESPACES && *subresource == "finalize" {
                    match custom::clear(&self.client, &key.name).await {
                        Ok(true) => {}
                        Ok(false) => return Outcome::RetryLater.into(),
                        Err(error) => return Reply::from(&error),
                    }
                    self.clear_events(&key.name).await;
                }
                let call =
                    Call::replace(&resource(kind), &key.namespace, &key.name, subresource, body.to_string());
                self.client.send(call).await.into()
            }
            Write::Delete { .. } => self.delete(&write).await,
            Write::Evict { key, uid } => self.evict(key, uid).await,
            Write::Confirm { resource: kind, key, .. } => {
                self.client.send(Call::get(&resource(kind), &key.namespace, &key.name)).await.into()
            }
            Write::Event(note) => self.event(note),
        }
    }
}
