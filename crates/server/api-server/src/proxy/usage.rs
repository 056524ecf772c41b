//! `metrics.k8s.io/v1beta1`: current usage of nodes and pods, read from each node on request.
//!
//! Nothing of it is stored. A node that cannot be reached, or is simulated, has no metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Limited};
use lazaret_json::{Value, json};
use lazaret_kinds::Kind;
use lazaret_storage::RangeOptions;
use serde::Deserialize;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use super::{
    connect,
    reach::{Reachability, reach},
};
use crate::{
    ApiError, Server, object,
    query::Query,
    request::{Target, Verb},
    respond::Answer,
    selector::Selector,
};

pub(crate) const GROUP: &str = "metrics.k8s.io";
pub(crate) const VERSION: &str = "v1beta1";
/// Its resources: the plural, the kind, and whether it is in a namespace.
pub(crate) const RESOURCES: [(&str, &str, bool); 2] =
    [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];
pub(crate) const VERBS: [&str; 2] = ["get", "list"];

/// Nodes that are asked at a time for one request.
const NODES_AT_ONCE_MAX: usize = 16;
/// For one node.
const NODE_WAIT: Duration = Duration::from_secs(5);
/// An answer of a node: 1,024 pods with 16 containers take 4 MiB.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// A node that was not asked before knows rates after a second look, this much later.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(1_200);
/// The window reported with rates: a node measures over at least this time.
const WINDOW: &str = "5s";

/// The fields that are read of a node's `/stats/summary`.
#[derive(Debug, Deserialize)]
struct Summary {
    node: UsagePart,
    #[serde(default)]
    pods: Vec<PodPart>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodPart {
    pod_ref: PodRef,
    #[serde(default)]
    containers: Vec<UsagePart>,
}

#[derive(Debug, Deserialize)]
struct PodRef {
    namespace: String,
    name: String,
}

/// A node or a container.
#[derive(Debug, Deserialize)]
struct UsagePart {
    #[serde(default)]
    name: String,
    cpu: Cpu,
    memory: Memory,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cpu {
    time: String,
    usage_nano_cores: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    working_set_bytes: u64,
}

impl UsagePart {
    /// As Kubernetes writes it; none while the rate is not known.
    fn usage(&self) -> Option<Value> {
        let cpu = format!("{}n", self.cpu.usage_nano_cores?);
        Some(json!({"cpu": cpu, "memory": format!("{}Ki", self.memory.working_set_bytes >> 10)}))
    }
}

/// Whether this server has it.
pub(crate) fn is_served(server: &Server) -> bool {
    server.node_connections().is_some()
}

/// Whether a path leads here.
pub(crate) fn takes(server: &Server, target: &Target) -> bool {
    target.group == GROUP && target.version == VERSION && is_served(server)
}

/// Answers a request that was authorized.
pub(crate) async fn answer(
    server: &Server,
    target: &Target,
    verb: Verb,
    query: &Query,
) -> Result<Answer, ApiError> {
    let is_known = RESOURCES.iter().any(|(plural, _, is_namespaced)| {
        target.plural == *plural && (*is_namespaced || target.namespace.is_empty())
    });
    let kind = lazaret_kinds::find("", &target.plural).filter(|_| is_known && target.subresource.is_empty());
    let kind = kind.ok_or_else(ApiError::no_such_path)?;
    let objects = match verb {
        Verb::Get => {
            let found = server.get(kind, &target.namespace, &target.name);
            vec![found.ok_or_else(|| ApiError::not_found(kind, &target.name))?]
        }
        Verb::List => select(server, kind, target, query)?,
        Verb::Watch | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            return Err(ApiError::method_not_allowed());
        }
    };
    let mut items = measure(server, kind, &objects).await;
    if verb == Verb::Get {
        let only = items.pop().ok_or_else(|| ApiError::not_found(kind, &target.name))?;
        return Ok(Answer::value(200, &only));
    }
    let list = if kind.is("", "nodes") { "NodeMetricsList" } else { "PodMetricsList" };
    let version = format!("{GROUP}/{VERSION}");
    Ok(Answer::value(200, &json!({"kind": list, "apiVersion": version, "metadata": {}, "items": items})))
}

fn select(server: &Server, kind: &Kind, target: &Target, query: &Query) -> Result<Vec<Value>, ApiError> {
    let selector = Selector::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let prefix = object::key(kind, &target.namespace, "");
    let prefix = prefix.trim_end_matches('/').to_owned() + "/";
    let range =
        server.store().range(prefix.as_bytes(), &RangeOptions::default()).map_err(ApiError::internal)?;
    let objects = range.items.iter().map(|item| server.object_cache().get(item));
    Ok(objects.filter(|object| selector.matches(kind, object)).collect())
}

/// Metrics of nodes or pods. Objects without metrics are left out.
async fn measure(server: &Server, kind: &Kind, objects: &[Value]) -> Vec<Value> {
    let is_nodes = kind.is("", "nodes");
    let node_of = |object: &Value| {
        let name = if is_nodes { &object["metadata"]["name"] } else { &object["spec"]["nodeName"] };
        name.as_str().unwrap_or_default().to_owned()
    };
    let nodes: BTreeSet<String> = objects.iter().map(node_of).filter(|node| !node.is_empty()).collect();
    let mut summaries = ask(server, nodes).await;
    let unsure: BTreeSet<String> =
        summaries.iter().filter(|(_, summary)| !is_complete(summary)).map(|(node, _)| node.clone()).collect();
    if !unsure.is_empty() {
        tokio::time::sleep(SAMPLE_INTERVAL).await;
        summaries.extend(ask(server, unsure).await);
    }
    let metrics = objects.iter().filter_map(|object| {
        let summary = summaries.get(&node_of(object))?;
        if is_nodes { of_node(object, summary) } else { of_pod(object, summary) }
    });
    metrics.collect()
}

fn is_complete(summary: &Summary) -> bool {
    let containers = summary.pods.iter().flat_map(|pod| &pod.containers);
    std::iter::once(&summary.node).chain(containers).all(|part| part.cpu.usage_nano_cores.is_some())
}

fn of_node(object: &Value, summary: &Summary) -> Option<Value> {
    let node = &summary.node;
    Some(json!({
        "kind": "NodeMetrics", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata(object, &node.cpu),
        "timestamp": node.cpu.time, "window": WINDOW, "usage": node.usage()?,
    }))
}

fn of_pod(object: &Value, summary: &Summary) -> Option<Value> {
    let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
    let pod = summary.pods.iter().find(|pod| {
        namespace.as_str() == Some(pod.pod_ref.namespace.as_str())
            && name.as_str() == Some(pod.pod_ref.name.as_str())
    })?;
    let first = pod.containers.first()?;
    let containers = pod
        .containers
        .iter()
        .map(|container| Some(json!({"name": container.name, "usage": container.usage()?})))
        .collect::<Option<Vec<Value>>>()?;
    Some(json!({
        "kind": "PodMetrics", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata(object, &first.cpu),
        "timestamp": first.cpu.time, "window": WINDOW, "containers": containers,
    }))
}

fn metadata(object: &Value, cpu: &Cpu) -> Value {
    let mut metadata = json!({"name": object["metadata"]["name"], "creationTimestamp": cpu.time});
    for field in ["namespace", "labels"] {
        if !object["metadata"][field].is_null() {
            metadata[field] = object["metadata"][field].clone();
        }
    }
    metadata
}

/// The answers of nodes, by name.
async fn ask(server: &Server, nodes: BTreeSet<String>) -> BTreeMap<String, Summary> {
    let places = Arc::new(Semaphore::new(NODES_AT_ONCE_MAX));
    let mut asking = JoinSet::new();
    for node in nodes {
        let (server, places) = (server.clone(), Arc::clone(&places));
        asking.spawn(async move {
            // It is never closed.
            let _place = places.acquire().await;
            let summary = timeout(NODE_WAIT, ask_one(&server, &node)).await.ok().flatten();
            (node, summary)
        });
    }
    let mut found = BTreeMap::new();
    while let Some(answered) = asking.join_next().await {
        if let Ok((node, Some(summary))) = answered {
            found.insert(node, summary);
        }
    }
    found
}

async fn ask_one(server: &Server, node: &str) -> Option<Summary> {
    let Ok(Reachability::Node(location)) = reach(server, node) else { return None };
    let stream = connect::open(server, &location, None).await;
    let stream = stream.inspect_err(|why| tracing::debug!(node, why, "ask a node what it uses")).ok()?;
    let request = connect::request(Method::GET, "/stats/summary", &location);
    let (response, _held) = stream.send(request, Bytes::new()).await.ok()?;
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok()
}
