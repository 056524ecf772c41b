//! The controllers of workloads: runs [`lazaret_workloads`] and carries out its effects.

use std::sync::Arc;

use lazaret_model::{ObjectKey, Text, Timestamp};
use lazaret_runtime::{Call, EffectId, News, Object, Outcome, PatchKind, Perform, Reply, Resource};
use lazaret_workloads::{
    Answer, Key, Limits, Note, Object as Read, PatchKind as Language, Resource as Kind, Selection, TYPED,
    Workloads, Write, resource as kinds,
};
use serde_json::json;

use crate::{
    content,
    custom::CustomKinds,
    disrupt::eviction,
    event::Event,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    writer::Writer,
};

pub(crate) const NAME: &str = "workload-controllers";

const DEFINITIONS: Resource = kinds::DEFINITIONS;

/// Resources that must be listed before it acts: the kinds that controllers read.
pub(crate) fn resources() -> Vec<Resource> {
    TYPED.iter().map(|kind| **kind).collect()
}

/// Resources that it watches where they are served: the other kinds that own, are owned, or are in namespaces.
pub(crate) fn optional() -> Vec<Resource> {
    kinds::KNOWN.iter().filter(|kind| !TYPED.contains(kind)).map(|kind| **kind).collect()
}

/// The objects that the cores have received.
#[derive(Debug, Default)]
pub(crate) struct WorkloadsShell {
    /// Only to know what a name meant when it changed hands.
    ledger: Ledger,
    /// Those that definitions brought.
    custom: CustomKinds,
    /// They are others than were asked for.
    follow: bool,
}

impl WorkloadsShell {
    pub(crate) fn agent(limits: Limits, chosen: Selection) -> MachineAgent<Self> {
        MachineAgent::new(Workloads::with_limits(&chosen.rules(), limits), Self::default())
    }

    fn kind(&self, resource: &Resource) -> Option<&'static Kind> {
        let known = |kind: &&&'static Kind| kind.plural == resource.plural && kind.group == resource.group;
        kinds::KNOWN.iter().find(known).copied().or_else(|| self.custom.find(resource.group, resource.plural))
    }

    /// A definition is there, has changed, or has gone: the kinds that are served are others perhaps.
    fn define(&mut self, workloads: &mut Workloads, now: Timestamp, change: &Change) {
        let (new, old) = match change {
            Change::Set(resource, definition) if *resource == DEFINITIONS => self.custom.set(definition),
            Change::Gone(resource, key, _) if *resource == DEFINITIONS => (None, self.custom.remove(key)),
            Change::Set(..) | Change::Gone(..) => return,
        };
        if let Some(old) = old {
            self.ledger.forget(old);
            workloads.forget(now, old, matches!(change, Change::Gone(..)));
        }
        if let Some(new) = new {
            workloads.learn(new);
        }
        self.follow |= new.is_some() || old.is_some();
    }
}

impl Shell for WorkloadsShell {
    type Machine = Workloads;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, workloads: &mut Workloads, now: Timestamp, news: News) {
        let (mut changes, mut ledger) = (Vec::new(), core::mem::take(&mut self.ledger));
        if let News::Listed(resource, objects, revision) = &news
            && *resource != DEFINITIONS
            && let Some(kind) = self.kind(resource)
        {
            let mut kept = Vec::new();
            let mut reading = |object: &Arc<Object>| {
                let read = read(kind, object);
                if read.is_none() {
                    kept.push(Key::new(&*object.key.namespace, &*object.key.name));
                }
                read
            };
            let objects = objects.iter().filter_map(&mut reading).collect();
            workloads.list_keeping(now, kind, objects, &kept, *revision);
            ledger.changes(news, |_| {});
        } else {
            ledger.changes(news, |change| changes.push(change));
        }
        self.ledger = ledger;
        for change in changes {
            self.define(workloads, now, &change);
            match change {
                Change::Set(resource, object) => {
                    if let Some(object) = self.kind(&resource).and_then(|kind| read(kind, &object)) {
                        workloads.put(now, object);
                    }
                }
                Change::Gone(resource, key, uid) => {
                    if let Some(kind) = self.kind(&resource) {
                        workloads.remove(now, kind, &Key::new(&*key.namespace, &*key.name), &uid);
                    }
                }
            }
        }
    }

    fn follow(&mut self, _: &Workloads) -> Option<Vec<Resource>> {
        core::mem::take(&mut self.follow).then(|| self.custom.all().copied().collect())
    }

    /// The object in the answer is used before the watch delivers it.
    fn acknowledge(&mut self, workloads: &mut Workloads, now: Timestamp, effect: EffectId, reply: Reply) {
        let object = reply.object.as_deref().map(<[u8]>::to_vec);
        workloads.acknowledge(now, effect, Answer { reply: reply.into(), object });
    }
}

/// Kinds that other agents read, too, are decoded once for all. `None`: it cannot be read, and what was known of it stays.
fn read(kind: &'static Kind, object: &Arc<Object>) -> Option<Read> {
    let read = match kind.plural {
        "namespaces" => object.read().map(Read::Namespace),
        "poddisruptionbudgets" => object.read().map(Read::PodDisruptionBudget),
        _ => Read::read(kind, object.json()),
    };
    let unread = |why| {
        object.cannot_be_read(
            &why,
            "its last good version if one was read: nothing is made or deleted in its place",
        )
    };
    read.map_err(unread).ok()
}

async fn delete(writer: &Writer, write: &Write) -> Reply {
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
    let call = Call::delete(kind, &key.namespace, &key.name, options.to_string());
    if resource_version.is_none() { writer.send_to_one(call).await } else { writer.send(call).await }.into()
}

fn post(writer: &Writer, note: &Note) -> Reply {
    writer.post(&Event {
        about: *note.resource,
        key: &ObjectKey::new(note.key.namespace.as_str(), note.key.name.as_str()),
        uid: &Text::from(note.uid.as_str()),
        severity: note.kind.as_str(),
        reason: note.reason,
        action: "Reconciling",
        message: &note.message,
        component: note.component,
    })
}

/// Writes what the controllers decide.
impl Perform<Write> for Writer {
    async fn perform(&self, write: Write) -> Reply {
        match &write {
            Write::Create { resource: kind, namespace, body } => {
                self.send(Call::create(kind, namespace, body.to_string())).await.into()
            }
            Write::Patch { resource: kind, key, subresource, kind: language, body } => {
                let language = match language {
                    Language::Merge => PatchKind::Merge,
                    Language::Json => PatchKind::Json,
                    Language::Apply => PatchKind::Apply { manager: NAME },
                    Language::Strategic => PatchKind::Strategic,
                };
                let call =
                    Call::patch(kind, &key.namespace, &key.name, subresource, language, body.to_string());
                self.send(call).await.into()
            }
            Write::Replace { resource: kind, key, body } => {
                let call = Call::replace(kind, &key.namespace, &key.name, "", body.to_string());
                self.send(call).await.into()
            }
            Write::Finalize { key, body } => match content::clear(self.client(), &key.name).await {
                Ok(true) => {
                    let call = Call::replace(&kinds::NAMESPACES, "", &key.name, "finalize", body.to_string());
                    self.send(call).await.into()
                }
                Ok(false) => Outcome::RetryLater.into(),
                Err(error) => Reply::from(&error),
            },
            Write::Delete { .. } => delete(self, &write).await,
            Write::Evict { key, uid } => {
                self.send(eviction(&key.namespace, &key.name, uid, false)).await.into()
            }
            Write::Confirm { resource: kind, key, .. } => {
                self.send(Call::get(kind, &key.namespace, &key.name)).await.into()
            }
            Write::ReadScale { resource: kind, key, .. } => {
                let call = Call::get_under(kind, &key.namespace, &key.name, "scale");
                self.send(call).await.into()
            }
            Write::Event(note) => post(self, note),
        }
    }
}
