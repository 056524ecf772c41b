//! Classic claims of a pod: how far each is, and which nodes its driver refused.

use serde::Serialize;
use serde_json::Value;

/// This many nodes are named; the rest is counted.
const NODES_NAMED_MAX: usize = 3;

/// A classic claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassicWhy {
    /// Its name.
    pub claim: String,
    /// How far it is, in a line.
    pub state: String,
    /// The nodes for which its driver cannot allocate it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsuitable_nodes: Vec<String>,
    /// How many nodes the scheduler asked about.
    pub potential_nodes: usize,
}

impl ClassicWhy {
    /// Of a claim as the API has it; `None`: there is none of this name.
    #[must_use]
    pub fn of(name: &str, claim: Option<&Value>) -> Self {
        let status = claim.map_or(&Value::Null, |claim| &claim["status"]);
        let scheduling = &status["scheduling"];
        let names = |value: &Value| -> Vec<String> {
            let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        };
        Self {
            claim: name.to_owned(),
            state: claim.map_or_else(|| "not found".to_owned(), state),
            unsuitable_nodes: names(&scheduling["driver"]["unsuitableNodes"]),
            potential_nodes: names(&scheduling["scheduler"]["potentialNodes"]).len(),
        }
    }

    /// For people.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { claim, state, unsuitable_nodes, potential_nodes } = self;
        let mut line = format!("classic claim {claim}: {state}");
        if !unsuitable_nodes.is_empty() {
            let named = unsuitable_nodes.iter().take(NODES_NAMED_MAX).map(String::as_str);
            let named: Vec<&str> = named.collect();
            let more = match unsuitable_nodes.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            line += &format!("; its driver refused {}{more} of {potential_nodes} nodes", named.join(", "));
        }
        line
    }
}

fn state(claim: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let (driver, class) = (text(&status["driverName"]), text(&spec["resourceClassName"]));
    let selected = text(&status["scheduling"]["scheduler"]["selectedNode"]);
    let state = match text(&status["phase"]).as_str() {
        "Allocated" => {
            let users = status["reservedFor"].as_array().map_or(0, Vec::len);
            let limit = match status["userLimit"].as_i64() {
                Some(-1) => "any number of".to_owned(),
                limit => limit.unwrap_or(1).to_string(),
            };
            format!("allocated by {driver}, {users} of {limit} users")
        }
        "Reallocate" => format!("being deallocated by {driver}"),
        _ if spec["allocationMode"] == "Immediate" => {
            format!("waits for the driver of class {class} to allocate it immediately")
        }
        _ if !selected.is_empty() => {
            format!("waits for the driver of class {class} to allocate it for node {selected}")
        }
        _ => format!("pending, of class {class}"),
    };
    if claim["metadata"]["deletionTimestamp"].is_string() { format!("{state}, being deleted") } else { state }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(claim: &Value) -> String {
        ClassicWhy::of("c", Some(claim)).line()
    }

    #[test]
    fn a_negotiation_is_told_claim_by_claim() {
        assert_eq!(ClassicWhy::of("c", None).line(), "classic claim c: not found");
        let pending = json!({"spec": {"resourceClassName": "acme-gpu", "allocationMode": "Delayed"}, "status": {
            "phase": "Pending", "scheduling": {
                "scheduler": {"potentialNodes": ["a", "b", "c", "d", "e"]}, "driver": {"unsuitableNodes": ["a", "b", "c", "d"]},
            },
        }});
        assert_eq!(
            line(&pending),
            "classic claim c: pending, of class acme-gpu; its driver refused a, b, c and 1 more of 5 nodes"
        );
        let selected = json!({"spec": {"resourceClassName": "acme-gpu"}, "status": {
            "phase": "Pending", "scheduling": {"scheduler": {"selectedNode": "a", "potentialNodes": ["a"]}},
        }});
        assert_eq!(
            line(&selected),
            "classic claim c: waits for the driver of class acme-gpu to allocate it for node a"
        );
        let allocated = json!({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}, "status": {
            "phase": "Allocated", "driverName": "gpu.acme.com", "userLimit": -1, "reservedFor": [{"name": "p"}],
        }});
        assert_eq!(
            line(&allocated),
            "classic claim c: allocated by gpu.acme.com, 1 of any number of users, being deleted"
        );
        let freed = json!({"status": {"phase": "Reallocate", "driverName": "gpu.acme.com"}});
        assert_eq!(line(&freed), "classic claim c: being deallocated by gpu.acme.com");
        let immediate = json!({"spec": {"resourceClassName": "k", "allocationMode": "Immediate"}});
        assert_eq!(
            line(&immediate),
            "classic claim c: waits for the driver of class k to allocate it immediately"
        );
    }
}
