//! One row a device: what it is, where it is, who has it, what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_fleet::{ClaimIx, DeviceRef, EffectiveTaint, Fleet, Origin, Presence, Snapshot};
use lazaret_model::{AttrValue, DeviceId, NodeScope, ResourceClaim, Text};
use serde::Serialize;

use super::{
    cluster::{Cluster, Meta},
    gates::is_off,
    reference::Reference,
    rule::{REASON_ANNOTATION, SET_BY_ANNOTATION},
    unprepare::AwaitRow,
};

/// A device as a person wants to see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRow {
    /// `driver/pool/device`.
    pub name: String,
    /// The driver.
    pub driver: Name,
    /// The pool.
    pub pool: Name,
    /// The device's name in the pool.
    pub device: Name,
    /// The node from which it can be reached, where there is just one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// The model, from the attributes that drivers use for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it can be allocated.
    pub state: State,
    /// Every taint that counts for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<TaintRow>,
    /// The claims that hold it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// The unprepare that must happen before another claim gets it, where its pod was removed before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaiting_unprepare: Option<AwaitRow>,
    /// The slice that publishes it; absent when none does any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Name>,
}

/// A [`Text`] that serialises.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub Text);

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a device can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// No claim holds it, and no taint keeps claims away.
    Free,
    /// A claim holds it.
    InUse,
    /// No claim holds it, and a taint keeps claims away.
    Tainted,
    /// A claim holds it, and a taint keeps others away.
    InUseTainted,
    /// A claim holds it, and its driver publishes it no more.
    Gone,
    /// Nothing keeps claims away; whether one holds it this user may not see.
    Unknown,
    /// A taint keeps claims away; whether one holds it this user may not see.
    UnknownTainted,
}

impl State {
    /// For tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Free => "Free",
            Self::InUse => "InUse",
            Self::Tainted => "Tainted",
            Self::InUseTainted => "InUse,Tainted",
            Self::Gone => "InUse,Gone",
            Self::Unknown => "Unknown",
            Self::UnknownTainted => "Unknown,Tainted",
        }
    }
}

/// A taint and where it comes from.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaintRow {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect.
    pub effect: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
    /// The kind of object that carries it: ResourceSlice, DeviceTaintRule or ResourceSlicePatch.
    pub origin: &'static str,
    /// The name of that object.
    pub origin_name: String,
    /// Why, as the user that set it wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The user that set it, as that user's command recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
    /// Why it is as if it were not set: a feature gate is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_effect: Option<String>,
}

impl TaintRow {
    /// Whether it keeps pods away or evicts them.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.effect != "None" && self.no_effect.is_none()
    }

    /// `key=value:effect`.
    #[must_use]
    pub fn taint(&self) -> String {
        let equals = if self.value.is_empty() { "" } else { "=" };
        format!("{}{equals}{}:{}", self.key, self.value, self.effect)
    }

    /// The object that carries it, in one or two words.
    #[must_use]
    pub fn by(&self) -> String {
        match self.origin {
            "ResourceSlice" => "driver".to_owned(),
            "ResourceSlicePatch" => format!("patch {}", self.origin_name),
            _ => format!("rule {}", self.origin_name),
        }
    }
}

/// A claim that holds a device.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The claim's namespace.
    pub namespace: Name,
    /// The claim's name.
    pub claim: Name,
    /// The pods that the claim is reserved for.
    pub pods: Vec<Name>,
    /// Only looks at the device, and does not keep others away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub admin_access: bool,
}

/// Which devices.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// One of these; none means any.
    pub references: Vec<Reference>,
    /// Of this driver.
    pub driver: Option<String>,
    /// On one of these nodes.
    pub nodes: Option<BTreeSet<String>>,
    /// With a taint.
    pub tainted: bool,
    /// Held by a claim of this namespace.
    pub namespace: Option<String>,
    /// Among these, which an expression matched.
    pub matched: Option<BTreeSet<DeviceId>>,
}

impl Filter {
    /// Whether it may leave a device out.
    #[must_use]
    pub fn selects(&self) -> bool {
        let Self { references, driver, nodes, tainted, namespace, matched } = self;
        !references.is_empty()
            || driver.is_some()
            || nodes.is_some()
            || *tainted
            || namespace.is_some()
            || matched.is_some()
    }
}

/// The rows of the devices that `filter` lets through, by name.
pub fn rows(cluster: &mut Cluster, filter: &Filter) -> Vec<DeviceRow> {
    let snapshot = cluster.fleet.snapshot();
    let cluster = &*cluster;
    let mut rows = Vec::new();
    for device in published(&snapshot) {
        if !filter.may_pass(&device.id(), node_of(device)) {
            continue;
        }
        let row = published_row(cluster, device);
        if filter.passes(&row) {
            rows.push(row);
        }
    }
    for id in vanished(&cluster.fleet) {
        if filter.may_pass(&id, None) {
            let row = vanished_row(cluster, &id);
            if filter.passes(&row) {
                rows.push(row);
            }
        }
    }
    rows.sort_by(|a, b| (&a.driver, &a.pool, &a.device).cmp(&(&b.driver, &b.pool, &b.device)));
    rows
}

/// The row of one device, if anything is known of it.
pub fn row(cluster: &Cluster, id: &DeviceId) -> Option<DeviceRow> {
    match cluster.fleet.device(id) {
        Some(device) => Some(published_row(cluster, device)),
        None => cluster.fleet.holders(id).next().map(|_| vanished_row(cluster, id)),
    }
}

/// Whether a device says that its driver makes it fail on command.
pub fn fails_on_command(cluster: &Cluster, id: &DeviceId) -> bool {
    let attributes = cluster.fleet.device(id).into_iter().flat_map(|device| device.attributes());
    attributes.into_iter().any(|(key, _, value)| {
        key.as_str() == "driver.lazaret.dev/failsOnCommand" && matches!(value, AttrValue::Bool(true))
    })
}

/// Every device that is published or held, by name.
pub fn device_ids(cluster: &mut Cluster) -> Vec<DeviceId> {
    let snapshot = cluster.fleet.snapshot();
    let mut ids: Vec<DeviceId> = published(&snapshot).map(DeviceRef::id).collect();
    ids.extend(vanished(&cluster.fleet));
    ids.sort();
    ids.dedup();
    ids
}

pub(super) fn published(snapshot: &Snapshot) -> impl Iterator<Item = DeviceRef<'_>> {
    snapshot
        .pools()
        .flat_map(move |pool| pool.current().flat_map(move |slice| slice.devices(snapshot.names())))
}

/// Devices that claims hold although nobody publishes them.
fn vanished(fleet: &Fleet) -> BTreeSet<DeviceId> {
    let held = fleet.claims().flat_map(|(claim, _)| fleet.held(claim));
    held.filter(|held| held.presence != Presence::Published).map(|held| held.device.clone()).collect()
}

fn published_row(cluster: &Cluster, device: DeviceRef<'_>) -> DeviceRow {
    let id = device.id();
    let taints: Vec<TaintRow> = if cluster.gates_missed.is_empty() {
        device.taints().map(|taint| taint_row(cluster, &taint)).collect()
    } else {
        cluster.everything().effective_taints(&id).map(|taint| taint_row(cluster, &taint)).collect()
    };
    DeviceRow {
        holders: holders(&cluster.fleet, &id),
        name: id.to_string(),
        awaiting_unprepare: cluster.awaited(&id),
        driver: Name(id.driver),
        pool: Name(id.pool),
        device: Name(id.device),
        node: node_of(device).cloned().map(Name),
        model: model_of(device),
        state: state(cluster, device),
        taints,
        slice: Some(Name(device.slice().name().clone())),
    }
}

/// The state of a published device.
pub(super) fn state(cluster: &Cluster, device: DeviceRef<'_>) -> State {
    let (fleet, id) = (&cluster.fleet, device.id());
    let tainted = device.is_out_of_service();
    let mut claims = fleet.holders(&id).filter_map(|claim| fleet.claim(claim));
    match (claims.any(|claim| !is_for_admin(claim, &id)), tainted) {
        (false, false) if cluster.hidden.claims => State::Unknown,
        (false, true) if cluster.hidden.claims => State::UnknownTainted,
        (false, false) => State::Free,
        (true, false) => State::InUse,
        (false, true) => State::Tainted,
        (true, true) => State::InUseTainted,
    }
}

fn vanished_row(cluster: &Cluster, id: &DeviceId) -> DeviceRow {
    DeviceRow {
        name: id.to_string(),
        driver: Name(id.driver.clone()),
        pool: Name(id.pool.clone()),
        device: Name(id.device.clone()),
        node: None,
        model: None,
        state: State::Gone,
        taints: cluster.everything().effective_taints(id).map(|taint| taint_row(cluster, &taint)).collect(),
        holders: holders(&cluster.fleet, id),
        awaiting_unprepare: cluster.awaited(id),
        slice: None,
    }
}

pub(super) fn node_of(device: DeviceRef<'_>) -> Option<&Text> {
    match device.nodes().unwrap_or(device.slice().nodes()) {
        NodeScope::Node(name) => Some(name),
        NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => None,
    }
}

/// Names that drivers use for the attribute with the model of a device, the best first.
const MODEL_ATTRIBUTES: [&str; 6] = ["productName", "model", "product", "family", "type", "kind"];

fn model_of(device: DeviceRef<'_>) -> Option<String> {
    let texts: BTreeMap<&str, &str> = device
        .attributes()
        .filter_map(|(key, _, value)| match value {
            AttrValue::String(text) => {
                Some((key.rsplit_once('/').map_or(key.as_str(), |(_, id)| id), text.as_str()))
            }
            AttrValue::Int(_)
            | AttrValue::Bool(_)
            | AttrValue::Version(_)
            | AttrValue::Ints(_)
            | AttrValue::Bools(_)
            | AttrValue::Strings(_)
            | AttrValue::Versions(_)
            | AttrValue::Unsupported => None,
        })
        .collect();
    MODEL_ATTRIBUTES.iter().find_map(|name| texts.get(name)).map(|text| (*text).to_owned())
}

fn holders(fleet: &Fleet, id: &DeviceId) -> Vec<Holder> {
    let mut holders: Vec<Holder> = fleet.holders(id).filter_map(|claim| holder(fleet, claim, id)).collect();
    holders.sort_by(|a, b| (&a.namespace, &a.claim).cmp(&(&b.namespace, &b.claim)));
    holders
}

fn holder(fleet: &Fleet, ix: ClaimIx, id: &DeviceId) -> Option<Holder> {
    let claim = fleet.claim(ix)?;
    let mut pods: Vec<Name> = claim.reserved_for.iter().map(|consumer| Name(consumer.name.clone())).collect();
    pods.sort();
    Some(Holder {
        namespace: Name(claim.key.namespace.clone()),
        claim: Name(claim.key.name.clone()),
        pods,
        admin_access: is_for_admin(claim, id),
    })
}

/// Whether a claim that holds a device has admin access to it alone.
fn is_for_admin(claim: &ResourceClaim, id: &DeviceId) -> bool {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    results.filter(|result| result.device == *id).all(|result| result.admin_access)
}

pub(super) fn taint_row(cluster: &Cluster, effective: &EffectiveTaint<'_>) -> TaintRow {
    let taint = effective.taint;
    let (origin, name) = match effective.origin {
        Origin::Device { slice, .. } | Origin::TaintSlice { slice, .. } => ("ResourceSlice", slice),
        Origin::Patch { name, .. } => ("ResourceSlicePatch", name),
        Origin::Rule { name, .. } => ("DeviceTaintRule", name),
    };
    let rule =
        Some(()).filter(|()| origin == "DeviceTaintRule").and_then(|()| cluster.rules.get(name.as_str()));
    let annotation = |key: &str| rule.and_then(|rule: &Meta| rule.annotations.get(key).cloned());
    TaintRow {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.to_string(),
        time_added: taint.time_added.map(lazaret_api::format_time),
        origin,
        origin_name: name.to_string(),
        reason: annotation(REASON_ANNOTATION).or_else(|| taint.description.as_ref().map(ToString::to_string)),
        set_by: annotation(SET_BY_ANNOTATION),
        no_effect: cluster.gates.stops(&effective.origin).map(is_off),
    }
}

impl Filter {
    /// The part of the filter that needs no taints and holders.
    fn may_pass(&self, id: &DeviceId, node: Option<&Text>) -> bool {
        (self.references.is_empty() || self.references.iter().any(|reference| reference.matches(id)))
            && self.driver.as_ref().is_none_or(|driver| *id.driver == *driver)
            && self.nodes.as_ref().is_none_or(|nodes| node.is_some_and(|node| nodes.contains(node.as_str())))
            && self.matched.as_ref().is_none_or(|matched| matched.contains(id))
    }

    fn passes(&self, row: &DeviceRow) -> bool {
        (!self.tainted || !row.taints.is_empty())
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| row.holders.iter().any(|holder| *holder.namespace.0 == **namespace))
    }
}
