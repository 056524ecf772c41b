//! Reserves claims, binds pods, says why.

use lazaret_model::{Condition, ConditionStatus};
use lazaret_runtime::{CLAIMS, Call, Outcome, PODS, PatchKind, Perform, Reply, change_classic_claim};
use lazaret_scheduler::{
    Bind, CLAIM_FINALIZER, DeleteExtendedClaim, EffectKind, Event as SchedulerEvent, Evict, ReleaseClaim,
    ReserveClaim, SetExtendedClaim, SetNodeAllocatable, SetPodCondition,
};
use serde_json::{Value, json};

use super::{allocatable, claims};
use crate::{disrupt::Disruption, event::Event, wire, writer::Writer};

async fn reserve_claim(writer: &Writer, reserve: &ReserveClaim) -> Reply {
    let (namespace, name) = (&*reserve.claim.namespace, &*reserve.claim.name);
    let mut version = reserve.version.to_string();
    if reserve.add_finalizer {
        // No claim is allocated before it is protected from going.
        let body = json!({"metadata": {
            "uid": &*reserve.uid, "resourceVersion": version, "finalizers": [CLAIM_FINALIZER],
        }});
        let call = Call::patch(&CLAIMS, namespace, name, "", PatchKind::Strategic, body.to_string());
        match writer.send(call).await {
            Ok(written) => {
                version = wire::metadata(&written).map_or(version, |metadata| metadata.resource_version);
            }
            Err(error) => return Reply::from(&error),
        }
    }
    let mut status =
        json!({"reservedFor": reserve.reserve_for.iter().map(wire::consumer).collect::<Vec<_>>()});
    if let Some(allocation) = &reserve.allocation {
        status["allocation"] = lazaret_api::allocation_to_json(allocation);
    }
    claim_status(writer, &reserve.claim, &reserve.uid, &version, status).await
}

async fn release_claim(writer: &Writer, release: &ReleaseClaim) -> Reply {
    let status = if release.deallocate {
        json!({"allocation": null, "devices": null, "reservedFor": null})
    } else if let Some(consumer) = &release.consumer {
        json!({"reservedFor": [{"$patch": "delete", "uid": &**consumer}]})
    } else {
        return Outcome::Done.into();
    };
    claim_status(writer, &release.claim, &release.uid, &release.version.to_string(), status).await
}

async fn claim_status(
    writer: &Writer,
    claim: &lazaret_model::ObjectKey,
    uid: &str,
    version: &str,
    status: Value,
) -> Reply {
    let body = json!({"metadata": {"uid": uid, "resourceVersion": version}, "status": status});
    let kind = PatchKind::Strategic;
    writer
        .send(Call::patch(&CLAIMS, &claim.namespace, &claim.name, "status", kind, body.to_string()))
        .await
        .into()
}

async fn delete_extended(writer: &Writer, delete: &DeleteExtendedClaim) -> Reply {
    let (namespace, name) = (&*delete.claim.namespace, &*delete.claim.name);
    let body =
        json!({"metadata": {"uid": &*delete.uid, "$deleteFromPrimitiveList/finalizers": [CLAIM_FINALIZER]}});
    let call = Call::patch(&CLAIMS, namespace, name, "", PatchKind::Strategic, body.to_string());
    if let Err(error) = writer.send(call).await {
        return Reply::from(&error);
    }
    let options = json!({"preconditions": {"uid": &*delete.uid}});
    writer.send(Call::delete(&CLAIMS, namespace, name, options.to_string())).await.into()
}

async fn pod_status(writer: &Writer, pod: &lazaret_model::ObjectKey, uid: &str, status: Value) -> Reply {
    let body = json!({"metadata": {"uid": uid}, "status": status});
    let kind = PatchKind::Strategic;
    let call = Call::patch(&PODS, &pod.namespace, &pod.name, "status", kind, body.to_string());
    writer.send_to_one(call).await.into()
}

async fn set_extended(writer: &Writer, set: &SetExtendedClaim) -> Reply {
    let mappings: Vec<Value> = set
        .mappings
        .iter()
        .map(|mapping| {
            json!({
                "containerName": &*mapping.container,
                "resourceName": &*mapping.resource,
                "requestName": &*mapping.request,
            })
        })
        .collect();
    let status = json!({"extendedResourceClaimStatus": {
        "requestMappings": mappings, "resourceClaimName": &*set.claim,
    }});
    pod_status(writer, &set.pod, &set.uid, status).await
}

/// The list is written as a whole: an entry of an earlier decision must not stay.
async fn set_node_allocatable(writer: &Writer, set: &SetNodeAllocatable) -> Reply {
    let statuses: Vec<Value> = set.statuses.iter().map(allocatable::to_json).collect();
    let body = json!({
        "metadata": {"uid": &*set.uid}, "status": {"nodeAllocatableResourceClaimStatuses": statuses},
    });
    let (key, kind) = (&set.pod, PatchKind::Merge);
    writer.send(Call::patch(&PODS, &key.namespace, &key.name, "status", kind, body.to_string())).await.into()
}

async fn set_condition(writer: &Writer, set: &SetPodCondition) -> Reply {
    let mut status = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": set.reason, "message": &*set.message,
        "lastProbeTime": null, "lastTransitionTime": lazaret_api::format_time(set.at),
    }]});
    if let Some(node) = &set.nominated {
        status["nominatedNodeName"] = if node.is_empty() { Value::Null } else { Value::from(node.as_str()) };
    }
    pod_status(writer, &set.pod, &set.uid, status).await
}

async fn bind_pod(writer: &Writer, bind: &Bind) -> Reply {
    let body = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": &*bind.pod.name, "namespace": &*bind.pod.namespace, "uid": &*bind.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": &*bind.node},
    });
    writer
        .send(Call::create_under(&PODS, &bind.pod.namespace, &bind.pod.name, "binding", body.to_string()))
        .await
        .into()
}

async fn evict_pod(writer: &Writer, evict: &Evict) -> Reply {
    let condition = Condition {
        kind: "DisruptionTarget".into(),
        status: ConditionStatus::True,
        reason: "PreemptionByScheduler".into(),
        message: evict.message.clone(),
        observed_generation: 0,
        last_transition: Some(evict.at),
    };
    let disruption = Disruption { pod: &evict.victim, uid: &evict.uid, condition: &condition, mark: None };
    match disruption.delete(writer).await {
        Ok(outcome) => outcome.into(),
        Err(error) => Reply::from(&error),
    }
}

fn event(event: &SchedulerEvent) -> Event<'_> {
    Event {
        about: PODS,
        key: &event.pod,
        uid: &event.uid,
        severity: if event.kind.is_warning() { "Warning" } else { "Normal" },
        reason: event.kind.reason(),
        action: event.kind.action(),
        message: &event.message,
        component: super::NAME,
    }
}

impl Perform<EffectKind> for Writer {
    async fn perform(&self, effect: EffectKind) -> Reply {
        let reply = match &effect {
            EffectKind::ReserveClaim(reserve) => reserve_claim(self, reserve).await,
            EffectKind::ReleaseClaim(release) => release_claim(self, release).await,
            EffectKind::CreateExtendedClaim(create) => {
                let body = claims::extended_claim(create);
                self.send(Call::create(&CLAIMS, &create.pod.namespace, body)).await.into()
            }
            EffectKind::DeleteExtendedClaim(delete) => delete_extended(self, delete).await,
            EffectKind::SetExtendedClaim(set) => set_extended(self, set).await,
            EffectKind::SetNodeAllocatable(set) => set_node_allocatable(self, set).await,
            EffectKind::Bind(bind) => bind_pod(self, bind).await,
            EffectKind::SetPodCondition(set) => set_condition(self, set).await,
            EffectKind::Evict(evict) => evict_pod(self, evict).await,
            EffectKind::ChangeClassicClaim(change) => change_classic_claim(self.client(), change).await,
            EffectKind::Event(about) => self.post(&event(about)),
        };
        if let Some(why) = &reply.why {
            tracing::debug!(why, outcome = reply.outcome.name(), "an effect of the scheduler was not done");
        }
        reply
    }
}
