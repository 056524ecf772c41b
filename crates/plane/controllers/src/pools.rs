//! Status of resource pools: runs [`lazaret_pools`] and does what it decides.

use lazaret_fleet::Fleet;
use lazaret_machine::Machine;
use lazaret_model::{Text, Timestamp};
use lazaret_pools::{
    CapacityStatus, EffectKind, Input, PartitionStatus, PoolStatus, Pools, Progress, Request, SetStatus,
    ShareableStatus, Slice, Status,
};
use lazaret_runtime::{
    AgentOptions, CLAIMS, CLASSES, Call, Model, News, Object, PATCHES, POOL_STATUS_REQUESTS, PatchKind,
    Perform, Precedence, Reply, Resource, ViewWish,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use crate::{
    context::PartContext,
    feed::{Sources, feed},
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    writer::Writer,
};

/// The controller's name in logs and metrics, as in Kubernetes.
pub(crate) const NAME: &str = "resourcepoolstatusrequest-controller";

/// Resources that it watches besides requests: slices, claims, and the sources of taints.
fn devices(sources: Sources) -> Vec<Resource> {
    let mut resources = vec![CLASSES, CLAIMS, sources.slices()];
    if sources.has_patches() {
        resources.push(PATCHES);
    }
    if sources.gates().has_rules() {
        resources.push(sources.rules());
    }
    resources
}

/// The resources that it watches.
fn resources(sources: Sources) -> Vec<Resource> {
    let mut resources = devices(sources);
    resources.push(POOL_STATUS_REQUESTS);
    resources
}

/// Works as soon as there is a request. Until then nothing is kept in memory for it.
pub(crate) async fn serve(context: PartContext, sources: Sources) {
    tokio::select! {
        biased;
        () = context.stopped() => return,
        () = context.first_object(&[POOL_STATUS_REQUESTS], "ResourcePoolStatusRequests") => {}
    }
    let (inbox, writer) = (context.listen(&resources(sources)), context.writer(NAME));
    let options = AgentOptions { name: NAME, in_flight_max: 8, precedence: Precedence::Patient };
    context.run(options, inbox, move || PoolsShell::agent(sources), writer).await;
}

/// The objects of the core.
#[derive(Debug)]
struct PoolsShell {
    fleet: Fleet,
    ledger: Ledger,
    /// Of which a view is wanted.
    devices: Vec<Resource>,
}

impl PoolsShell {
    fn agent(sources: Sources) -> MachineAgent<Self> {
        let shell = Self {
            fleet: Fleet::with_gates(sources.gates()),
            ledger: Ledger::of_models(),
            devices: devices(sources),
        };
        MachineAgent::new(Pools::default(), shell)
    }
}

impl Shell for PoolsShell {
    type Machine = Pools;

    fn view(&self) -> &Fleet {
        &self.fleet
    }

    fn hear(&mut self, pools: &mut Pools, now: Timestamp, news: News) {
        feed(&mut self.fleet, &news);
        let Self { fleet, ledger, .. } = self;
        // The changes have no other reader.
        let _ = fleet.take_changes();
        ledger.changes(news, |change| {
            if let Some(input) = input(&change) {
                pools.handle(now, fleet, input);
            }
        });
    }

    fn wants_view(&mut self, pools: &mut Pools) -> Option<ViewWish> {
        let number = pools.poll_view()?;
        Some(ViewWish { number, resources: self.devices.clone() })
    }

    fn view_reached(&mut self, pools: &mut Pools, now: Timestamp, number: u64) {
        pools.handle(now, &self.fleet, Input::ViewReached(number));
    }
}

/// The input that a change becomes; claims and taints reach the core through the fleet.
fn input(change: &Change) -> Option<Input> {
    match change {
        Change::Set(resource, object) if resource.plural == "resourceslices" => {
            let Ok(Model::Slice(slice)) = object.model() else { return None };
            Some(Input::Slice(Slice {
                slice: slice.clone(),
                partition_attribute: partition_attribute(object),
            }))
        }
        Change::Gone(resource, key, _) if resource.plural == "resourceslices" => {
            Some(Input::SliceGone(key.name.clone()))
        }
        Change::Set(resource, object) if *resource == POOL_STATUS_REQUESTS => {
            request(object).map(Input::Request)
        }
        Change::Gone(resource, key, uid) if *resource == POOL_STATUS_REQUESTS => {
            Some(Input::RequestGone(key.name.clone(), uid.clone()))
        }
        Change::Set(..) | Change::Gone(..) => None,
    }
}

#[derive(Deserialize)]
struct WireSlice {
    spec: WireSliceSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSliceSpec {
    partition_type_attribute: Option<String>,
}

fn partition_attribute(object: &Object) -> Option<Text> {
    let slice: WireSlice = serde_json::from_slice(object.json()).ok()?;
    slice.spec.partition_type_attribute.map(Text::from)
}

#[derive(Deserialize)]
struct WireRequest {
    metadata: WireMetadata,
    spec: WireSpec,
    #[serde(default)]
    status: Option<WireStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata {
    creation_timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    driver: String,
    pool_name: Option<String>,
    limit: Option<usize>,
    default_partition_type_attribute: Option<String>,
}

#[derive(Deserialize)]
struct WireStatus {
    #[serde(default)]
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition {
    #[serde(rename = "type")]
    kind: String,
    last_transition_time: Option<String>,
}

/// Pools that are listed when a request does not say how many; servers fill it in.
const POOLS_BY_DEFAULT: usize = 100;

fn request(object: &Object) -> Option<Request> {
    let WireRequest { metadata, spec, status } = serde_json::from_slice(object.json())
        .inspect_err(|error| warn!(request = %object.key, %error, "a request cannot be read"))
        .ok()?;
    let time = |text: Option<String>| text.and_then(|text| lazaret_api::parse_time(&text).ok());
    let answered = |status: WireStatus| {
        let ends = |condition: &WireCondition| matches!(condition.kind.as_str(), "Complete" | "Failed");
        let condition = status.conditions.into_iter().find(ends);
        Progress::Answered(condition.and_then(|condition| time(condition.last_transition_time)))
    };
    Some(Request {
        name: object.key.name.clone(),
        uid: object.uid.clone(),
        version: object.resource_version.clone(),
        created: time(metadata.creation_timestamp),
        driver: spec.driver.into(),
        pool: spec.pool_name.map(Text::from),
        pools_max: spec.limit.unwrap_or(POOLS_BY_DEFAULT),
        partition_attribute: spec.default_partition_type_attribute.map(Text::from),
        progress: status.map_or(Progress::Pending, answered),
    })
}

async fn set_status(writer: &Writer, write: &SetStatus) -> Reply {
    let SetStatus { request, uid, version, status } = write;
    let metadata = json!({"uid": &**uid, "resourceVersion": &**version});
    let body = json!({"metadata": metadata, "status": wire_status(status)}).to_string();
    let call = Call::patch(&POOL_STATUS_REQUESTS, "", request, "status", PatchKind::Merge, body);
    let answered = writer.send(call).await;
    if answered.is_ok() {
        info!(%request, pools = status.pool_count, "answered");
    }
    answered.into()
}

/// Writes answers, deletes requests.
impl Perform<EffectKind> for Writer {
    async fn perform(&self, effect: EffectKind) -> Reply {
        match &effect {
            EffectKind::SetStatus(write) => set_status(self, write).await,
            EffectKind::Delete(delete) => {
                let options = json!({"preconditions": {"uid": &*delete.uid}}).to_string();
                let call = Call::delete(&POOL_STATUS_REQUESTS, "", &delete.request, options);
                self.send_to_one(call).await.into()
            }
        }
    }
}

fn wire_status(status: &Status) -> Value {
    let mut wire = json!({
        "poolCount": status.pool_count,
        "conditions": [{
            "type": "Complete",
            "status": "True",
            "reason": "CalculationComplete",
            "message": status.message,
            "lastTransitionTime": lazaret_api::format_time(status.at),
        }],
    });
    if !status.pools.is_empty() {
        wire["pools"] = status.pools.iter().map(wire_pool).collect();
    }
    wire
}

fn wire_pool(pool: &PoolStatus) -> Value {
    let mut wire = Map::from_iter([
        ("driver".to_owned(), json!(&*pool.driver)),
        ("poolName".to_owned(), json!(&*pool.pool)),
        ("generation".to_owned(), json!(pool.generation)),
        ("resourceSliceCount".to_owned(), json!(pool.counts.slices)),
        ("totalDevices".to_owned(), json!(pool.counts.total)),
        ("allocatedDevices".to_owned(), json!(pool.counts.allocated)),
        ("availableDevices".to_owned(), json!(pool.counts.available)),
        ("unavailableDevices".to_owned(), json!(pool.counts.unavailable)),
    ]);
    let optional = [
        ("nodeName", pool.node.as_ref().map(|node| json!(&**node))),
        ("validationError", pool.error.as_ref().map(|error| json!(error))),
        (
            "partitionSummary",
            (!pool.partitions.is_empty()).then(|| pool.partitions.iter().map(wire_partition).collect()),
        ),
        ("shareableSummary", pool.shareable.as_ref().map(wire_shareable)),
    ];
    wire.extend(optional.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))));
    wire.into()
}

fn wire_partition(partition: &PartitionStatus) -> Value {
    json!({
        "attribute": &*partition.attribute,
        "type": &*partition.kind,
        "total": partition.total,
        "allocatable": partition.allocatable,
    })
}

fn wire_shareable(shareable: &ShareableStatus) -> Value {
    let capacity = |capacity: &CapacityStatus| {
        json!({
            "name": &*capacity.name,
            "total": capacity.total.to_string(),
            "consumed": capacity.consumed.to_string(),
            "available": capacity.available.to_string(),
        })
    };
    json!({
        "fullyAvailableDevices": shareable.untouched,
        "partiallyAvailableDevices": shareable.touched,
        "capacity": shareable.capacity.iter().map(capacity).collect::<Value>(),
    })
}
