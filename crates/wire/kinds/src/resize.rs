//! Whether a pod's node can do what a resize asks for.

use lazaret_json::Value;
use lazaret_model::Quantity;

use crate::{
    limit_range::pod_requests,
    value::{quantity, same, text, texts},
};

/// The label by which a node says what its system is.
const OS: &str = "kubernetes.io/os";
/// The feature that a node must declare before the resources of a pod as a whole can change.
const POD_LEVEL: &str = "InPlacePodLevelResourcesVerticalScaling";

/// Why a resize is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeRefusal {
    /// For people.
    pub why: String,
    /// For programs, if there is a word for it.
    pub cause: Option<&'static str>,
}

impl ResizeRefusal {
    /// There is no such node.
    #[must_use]
    pub fn no_node(name: &str) -> Self {
        Self { why: format!("node {name:?} not found"), cause: None }
    }
}

/// Holds the new resources of a pod against its node.
///
/// # Errors
/// When the node cannot do it, or has too few resources left.
pub fn check_resize(new: &Value, old: &Value, node: &Value) -> Result<(), ResizeRefusal> {
    let name = text(&node["metadata"], "name");
    let declares = |feature: &str| texts(&node["status"], "declaredFeatures").any(|known| known == feature);
    if !same(&new["spec"]["resources"], &old["spec"]["resources"]) && !declares(POD_LEVEL) {
        let why =
            format!("pod update requires features {POD_LEVEL} which are not available on node {name:?}");
        return Err(ResizeRefusal { why, cause: None });
    }
    let system = text(&node["metadata"]["labels"], OS);
    if !["", "linux"].contains(&system) {
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Err(ResizeRefusal { why, cause: Some("UnsupportedPlatform") });
    }
    let requests = pod_requests(&new["spec"]);
    let lacks = |resource: &str, units: i64| {
        let there = quantity(&node["status"]["allocatable"][resource]).unwrap_or_else(Quantity::zero);
        let wanted = requests.get(resource).filter(|wanted| **wanted > there)?;
        let whole = |amount: &Quantity| amount.mul_i64(units).value_i64_rounded_up().unwrap_or(i64::MAX);
        Some(format!("{resource}, requested: {}, allocatable: {}", whole(wanted), whole(&there)))
    };
    let lacking: Vec<String> = lacks("cpu", 1_000).into_iter().chain(lacks("memory", 1)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
    Err(ResizeRefusal { why, cause: Some("NodeCapacity") })
}
