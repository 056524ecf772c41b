//! Quotas: checked right before a write, and charged in the transaction that writes the object. A failed write is never charged,
//! and a delete is credited at once; the controller only corrects other differences.

use std::sync::Arc;

use lazaret_json::{Value, json};
use lazaret_kinds::{Kind, Scope};
use lazaret_quota::{Amounts, Change, Classes, Counted, DeviceClaim, Facts, Quota, Timestamp, Usage, settle};
use lazaret_storage::{Committed, Item, Op, RangeOptions, TxnError};

use super::device_holdings::ReservedDevices;
use crate::{
    ApiError,
    call::{Call, Write},
    clock, object,
};

/// Where quotas are stored.
const QUOTAS: &str = "/core/resourcequotas/";
/// A write that conflicts with this number of quota writes gives up. Writers of one namespace take turns, so that only writes of quotas conflict.
const RETRIES_MAX: usize = 32;
/// Why nothing was written.
pub(crate) enum Refused {
    /// The request has to change, or what is in its way.
    Request(ApiError),
    Store(TxnError),
}

// DEVIATION(quota-with-the-write): charged and given back in the transaction that writes the object.
/// Commits a write of one object, and its charge. `own`: the write is the server's own addition to an object of a client.
pub(super) async fn commit(
    call: &Call<'_>,
    write: Write<'_>,
    ops: Vec<Op>,
    own: bool,
    devices: Option<&Arc<ReservedDevices>>,
) -> Result<Committed, Refused> {
    let Some(kind) = counted(call, write) else {
        return recorded(call, write, ops, own, devices).await.map_err(Refused::Store);
    };
    let _turn = call.server.quota_locks().take(&call.target.namespace).await;
    for _ in 0..RETRIES_MAX {
        let charged = charge(call, &kind, write).map_err(Refused::Request)?;
        let mut all = ops.clone();
        for (item, quota) in &charged {
            let value = object::encode(quota).map_err(|error| Refused::Request(error.into()))?;
            all.push(Op::update(item.key.clone(), item.modified, value));
        }
        match recorded(call, write, all, own, devices).await {
            Ok(committed) => return Ok(without_quotas(call, committed, ops.len(), charged)),
            // Another client has written a quota in between.
            Err(TxnError::Conflict { op, .. }) if op >= ops.len() => {}
            Err(error) => return Err(Refused::Store(error)),
        }
    }
    let why = "too many changes of quotas at once; try again";
    Err(Refused::Request(ApiError::conflict(&call.kind, write.name, why)))
}

/// Whether quotas allow a write that is only tried.
pub(super) fn check(call: &Call<'_>, write: Write<'_>) -> Result<(), ApiError> {
    counted(call, write).map_or(Ok(()), |kind| charge(call, &kind, write).map(drop))
}

/// Commits a write together with the record of what it decides.
async fn recorded(
    call: &Call<'_>,
    write: Write<'_>,
    ops: Vec<Op>,
    own: bool,
    devices: Option<&Arc<ReservedDevices>>,
) -> Result<Committed, TxnError> {
    let count = ops.len();
    let audit = call.server.audit();
    let ops = audit.with_records(call.store(), &call.kind, &call.user.name, write.old, write.new, ops);
    let done = match devices {
        Some(devices) => call.server.commit_giving(ops, devices).await,
        None if own => call.server.commit_own(ops).await,
        None => call.server.commit(ops).await,
    };
    done.map(|committed| audit.without_records(&call.kind, committed, count))
}

/// The kind of what is written, if a quota may count it. Almost always nothing does, so that nothing else is looked at first.
fn counted(call: &Call<'_>, write: Write<'_>) -> Option<Counted> {
    let store = call.store();
    if store.count_in(QUOTAS.as_bytes()) == 0 || call.kind.scope == Scope::Cluster {
        return None;
    }
    if store.count_in([QUOTAS, call.target.namespace.as_str(), "/"].concat().as_bytes()) == 0 {
        return None;
    }
    let kind = Counted::of(&call.kind.group, &call.kind.plural)?;
    let changed = write.old.is_some() && write.new.is_some();
    (!changed || kind.changes()).then_some(kind)
}

/// The quotas that have used another amount after the write, each as it will be.
fn charge(call: &Call<'_>, kind: &Counted, write: Write<'_>) -> Result<Vec<(Arc<Item>, Value)>, ApiError> {
    let now = Timestamp::from_millis(clock::now().as_millisecond());
    let own_key = call.key(write.name);
    let prefix = [QUOTAS, call.target.namespace.as_str(), "/"].concat();
    let range =
        call.store().range(prefix.as_bytes(), &RangeOptions::default()).map_err(ApiError::internal)?;
    let items: Vec<Arc<Item>> =
        range.items.into_iter().filter(|item| *item.key != *own_key.as_bytes()).collect();
    let quotas: Result<Vec<Quota>, _> = items.iter().map(|item| Quota::read(&item.value)).collect();
    let quotas = quotas.map_err(ApiError::internal)?;
    let classes = if kind.asks_classes() { call.server.device_classes() } else { Arc::default() };
    let measure =
        |object: Option<&Value>| object.map(|object| measured(call, kind, object, &classes, now)).transpose();
    let (old, new) = (measure(write.old)?, measure(write.new)?);
    let change = Change {
        kind,
        old: old.as_ref().map(|(facts, usage)| (facts, usage)),
        new: new.as_ref().map(|(facts, usage)| (facts, usage)),
        subresource: &call.target.subresource,
    };
    let after = settle(now, &quotas, &change, &classes)
        .map_err(|why| ApiError::forbidden(&call.kind, write.name, &why))?;
    let charged = items.into_iter().zip(after).filter_map(|(item, used)| {
        let mut quota = call.server.object_cache().get(&item);
        quota["status"]["used"] = written(&used?);
        Some((item, quota))
    });
    Ok(charged.collect())
}

fn written(amounts: &Amounts) -> Value {
    let mut written = json!({});
    for (name, amount) in amounts.iter() {
        written[name] = amount.to_string().into();
    }
    written
}

fn measured(
    call: &Call<'_>,
    kind: &Counted,
    object: &Value,
    classes: &Classes,
    now: Timestamp,
) -> Result<(Facts, Usage), ApiError> {
    let text = if kind.changes() { object.to_string() } else { String::new() };
    let facts = Facts::read(kind, text.as_bytes()).map_err(ApiError::internal)?;
    let pod = match &facts {
        Facts::DeviceClaim(claim) => usage_of_pod(call, claim, now),
        Facts::Pod(_) | Facts::Service(_) | Facts::VolumeClaim(_) | Facts::Other => None,
    };
    let usage = Usage::of(kind, &facts, classes, pod.as_ref());
    Ok((facts, usage))
}

/// The usage of the pod for whose extended resources a claim was made. Of several such claims only one is the pod's: the one that it names,
/// or the first.
fn usage_of_pod(call: &Call<'_>, claim: &DeviceClaim, now: Timestamp) -> Option<Amounts> {
    let (name, uid) = claim.extended_for()?;
    let pods = lazaret_kinds::find("", "pods")?;
    let pod = call.server.get(pods, &call.target.namespace, name)?;
    if object::meta(&pod, "uid") != uid {
        return None;
    }
    match pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str() {
        Some(named) if named != claim.name() => return None,
        None if has_earlier_claim(call, &call.kind, claim) => return None,
        Some(_) | None => {}
    }
    let kind = Counted::of("", "pods")?;
    let facts = Facts::read(&kind, pod.to_string().as_bytes()).ok()?;
    Some(Usage::of(&kind, &facts, &Classes::default(), None).at(now))
}

fn has_earlier_claim(call: &Call<'_>, claims: &Kind, claim: &DeviceClaim) -> bool {
    let prefix = object::key(claims, &call.target.namespace, "");
    let range = call.store().range(prefix.as_bytes(), &RangeOptions::default());
    let items = range.map(|range| range.items).unwrap_or_default();
    items.iter().any(|item| {
        let other: Option<DeviceClaim> = serde_json::from_slice(&item.value).ok();
        other.is_some_and(|other| other.extended_for() == claim.extended_for() && other.is_before(claim))
    })
}

/// The outcome for the object alone; the quotas are cached as they were written.
fn without_quotas(
    call: &Call<'_>,
    mut committed: Committed,
    own: usize,
    charged: Vec<(Arc<Item>, Value)>,
) -> Committed {
    let quotas = committed.events.split_off(own.min(committed.events.len()));
    for (event, (_, quota)) in quotas.into_iter().zip(charged) {
        if let Some(item) = event.and_then(|event| event.new.clone()) {
            call.server.object_cache().put(&item, quota);
        }
    }
    if let Some(event) = committed.events.iter().flatten().next() {
        committed.revision = event.revision;
    }
    committed
}
