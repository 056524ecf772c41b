//! The objects of each workload.

use serde_json::{Map, Value, json};

use super::catalog::{Claim, Test};
use crate::objects::meta;

/// Names that all objects of a workload share.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) test: Test,
    pub(crate) run: String,
    pub(crate) driver: String,
}

/// The name of the template of claims, in every namespace.
const TEMPLATE: &str = "devices";
const TAINT: &str = "lazaret.dev/bench";
/// Pods that share a claim.
const SHARERS: usize = 5;

impl Shape {
    pub(crate) fn node_name(&self, number: usize) -> String {
        format!("{}-{number}", self.run)
    }

    /// A node that is there, ready, and never says anything: nothing runs on it.
    pub(crate) fn node(&self, number: usize, devices: bool) -> Value {
        let name = self.node_name(number);
        let room = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
        let mut node = json!({
            "metadata": meta(&self.run, &name),
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True", "reason": "Bench"}]},
        });
        node["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
        node["metadata"]["labels"]["lazaret.dev/bench-devices"] = devices.to_string().into();
        node
    }

    /// The slices of a node.
    pub(crate) fn slices(&self, node: usize) -> Vec<Value> {
        let one = |devices: Vec<Value>| vec![self.slice(node, 1, "", &json!({"devices": devices}))];
        let two = |counters: Value, devices: Value| {
            vec![
                self.slice(node, 2, "-counters", &json!({"sharedCounters": counters})),
                self.slice(node, 2, "", &json!({"devices": devices})),
            ]
        };
        match self.test {
            Test::SharedClaim => one((0..2).map(|at| self.device(at)).collect()),
            Test::PublishResourceSlices
            | Test::ClaimTemplate(_)
            | Test::DeviceTaintToleration
            | Test::ExtendedResource { .. }
            | Test::ExtendedResourceScoring { .. }
            | Test::FirstAvailable => one((0..10).map(|at| self.device(at)).collect()),
            Test::ListAttributes => one((0..64).map(list_device).collect()),
            Test::ConsumableCapacity => one((0..4).map(shared_device).collect()),
            // Theirs belong to no node: see `common_slice`.
            Test::PodGroupClaim { .. } | Test::PodGroupClaimTemplate { .. } => Vec::new(),
            Test::CompatibilityGroups => two(quarters(), halves(Some("half"))),
            Test::Partitionable => two(quarters(), halves(None)),
            Test::PartitionableBacktracking => two(eighths(), uneven()),
        }
    }

    /// A slice with one device for all nodes with devices.
    pub(crate) fn common_slice(&self, number: usize) -> Value {
        let name = format!("{}-common-{number}", self.run);
        let requirement = json!({"key": "lazaret.dev/bench-devices", "operator": "In", "values": ["true"]});
        json!({
            "metadata": meta(&self.run, &name),
            "spec": {
                "driver": self.driver,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]},
                "devices": [{"name": "link"}],
            },
        })
    }

    fn slice(&self, node: usize, count: usize, suffix: &str, part: &Value) -> Value {
        let pool = self.node_name(node);
        let mut slice = json!({
            "metadata": meta(&self.run, &format!("{pool}{suffix}")),
            "spec": {
                "driver": self.driver, "nodeName": pool,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": count},
            },
        });
        for (key, value) in part.as_object().into_iter().flatten() {
            slice["spec"][key] = value.clone();
        }
        slice
    }

    /// A device with as many attributes and capacities as a real accelerator has.
    fn device(&self, number: usize) -> Value {
        let root = number % 2;
        let address = format!("0000:{number:02x}:00.0");
        json!({
            "name": format!("accelerator-{number}"),
            "attributes": {
                "architecture": {"string": "hollow"},
                "driverVersion": {"version": "1.2.3"},
                "firmware": {"string": "2026.1"},
                "family": {"string": "bench"},
                "health": {"string": "good"},
                "model": {"string": "H-24"},
                "address": {"string": address},
                "vendor": {"string": "0x1e7a"},
                "root": {"string": format!("{root:02}")},
                "virtualFunctions": {"bool": true},
                "kind": {"string": "gpu"},
                "resource.kubernetes.io/pciBusID": {"string": address},
                "resource.kubernetes.io/pcieRoot": {"string": format!("pci0000:{root:02}")},
            },
            "capacity": {"memory": {"value": "24Gi"}, "cores": {"value": "1k"}},
        })
    }

    /// The classes that pods name.
    pub(crate) fn classes(&self) -> Vec<Value> {
        let class = |name: &str, expression: String, resource: Option<String>| {
            let mut class = json!({"metadata": meta(&self.run, name), "spec": {"selectors": [{"cel": {"expression": expression}}]}});
            if let Some(resource) = resource {
                class["spec"]["extendedResourceName"] = resource.into();
            }
            class
        };
        let ours = format!("device.driver == '{}'", self.driver);
        match self.test {
            Test::ExtendedResource { classes, explicit } => (0..classes)
                .map(|at| {
                    let resource = explicit.then(|| self.resource(at));
                    class(&format!("{}-{at}", self.run), ours.clone(), resource)
                })
                .collect(),
            Test::ExtendedResourceScoring { classes } => (0..classes)
                .map(|at| class(&format!("{}-{at}", self.run), ours.clone(), Some(self.resource(0))))
                .collect(),
            Test::ConsumableCapacity => {
                vec![class(&self.run, format!("{ours} && device.allowMultipleAllocations == true"), None)]
            }
            Test::FirstAvailable => {
                let none = format!("{}-none", self.run);
                vec![
                    class(&self.run, ours, None),
                    class(&none, "device.driver == 'nobody.lazaret.dev'".into(), None),
                ]
            }
            Test::PublishResourceSlices
            | Test::ClaimTemplate(_)
            | Test::SharedClaim
            | Test::ListAttributes
            | Test::DeviceTaintToleration
            | Test::PodGroupClaim { .. }
            | Test::PodGroupClaimTemplate { .. }
            | Test::CompatibilityGroups
            | Test::Partitionable
            | Test::PartitionableBacktracking => vec![class(&self.run, ours, None)],
        }
    }

    /// The extended resource by which pods request a class.
    fn resource(&self, number: usize) -> String {
        format!("{}.lazaret.dev/device-{number}", self.run)
    }

    /// A rule that all claims tolerate.
    pub(crate) fn rule(&self) -> Option<Value> {
        let rule = json!({
            "metadata": meta(&self.run, &self.run),
            "spec": {"deviceSelector": {"driver": self.driver}, "taint": {"key": TAINT, "value": "yes", "effect": "NoSchedule"}},
        });
        (self.test == Test::DeviceTaintToleration).then_some(rule)
    }

    /// The spec of a claim.
    fn claim_spec(&self) -> Value {
        let request = |name: &str, more: Value| {
            let mut exactly = json!({"deviceClassName": self.run});
            for (key, value) in more.as_object().into_iter().flatten() {
                exactly[key] = value.clone();
            }
            json!({"name": name, "exactly": exactly})
        };
        let several =
            |count: usize| (0..count).map(|at| request(&format!("r-{at}"), json!({}))).collect::<Vec<_>>();
        let one = |more: Value| json!({"requests": [request("r-0", more)]});
        let devices = match self.test {
            Test::ClaimTemplate(Claim::Selected) => {
                let driver = &self.driver;
                let expression = format!(
                    "device.attributes[\"{driver}\"].driverVersion.major() >= 1 && device.capacity[\"{driver}\"].memory.isGreaterThan(quantity(\"1Mi\"))"
                );
                one(json!({"selectors": [{"cel": {"expression": expression}}]}))
            }
            Test::ClaimTemplate(Claim::Matching) => {
                json!({"requests": several(5), "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]})
            }
            Test::ListAttributes => {
                json!({"requests": several(32), "constraints": [{"matchAttribute": "lists.lazaret.dev/match"}]})
            }
            Test::DeviceTaintToleration => {
                one(json!({"tolerations": [{"key": TAINT, "operator": "Exists"}]}))
            }
            Test::FirstAvailable => json!({"requests": [{"name": "r-0", "firstAvailable": [
                {"name": "none", "deviceClassName": format!("{}-none", self.run)},
                {"name": "any", "deviceClassName": self.run},
            ]}]}),
            Test::CompatibilityGroups | Test::Partitionable => one(json!({"count": 2})),
            Test::PartitionableBacktracking => one(json!({"count": 7})),
            Test::ConsumableCapacity => {
                let mut devices = one(json!({"count": 2, "capacity": {"requests": {"bandwidth": "2500M"}}}));
                devices["constraints"] =
                    json!([{"requests": ["r-0"], "distinctAttribute": "shares.lazaret.dev/index"}]);
                devices
            }
            Test::PublishResourceSlices
            | Test::ClaimTemplate(Claim::Any)
            | Test::SharedClaim
            | Test::PodGroupClaim { .. }
            | Test::PodGroupClaimTemplate { .. }
            | Test::ExtendedResource { .. }
            | Test::ExtendedResourceScoring { .. } => one(json!({})),
        };
        json!({"devices": devices})
    }

    pub(crate) fn template(&self) -> Value {
        json!({"metadata": meta(&self.run, TEMPLATE), "spec": {"spec": self.claim_spec()}})
    }

    /// A claim that several pods name, or that holds devices beforehand.
    pub(crate) fn claim(&self, number: usize) -> Value {
        json!({"metadata": meta(&self.run, &claim_name(number)), "spec": self.claim_spec()})
    }

    /// The number of claims for `pods` pods that name them.
    pub(crate) fn claims_for(&self, pods: usize) -> usize {
        if let Test::PodGroupClaim { groups } = self.test {
            groups
        } else if self.test == Test::SharedClaim {
            pods.div_ceil(SHARERS)
        } else {
            0
        }
    }

    /// How many groups of pods there are.
    pub(crate) fn groups(&self) -> usize {
        if let Test::PodGroupClaim { groups } | Test::PodGroupClaimTemplate { groups } = self.test {
            groups
        } else {
            0
        }
    }

    /// A group of pods that have one claim together.
    pub(crate) fn group(&self, number: usize) -> Value {
        let claim = if matches!(self.test, Test::PodGroupClaim { .. }) {
            json!({"name": "device", "resourceClaimName": claim_name(number)})
        } else {
            json!({"name": "device", "resourceClaimTemplateName": TEMPLATE})
        };
        json!({
            "metadata": meta(&self.run, &format!("group-{number}")),
            "spec": {"resourceClaims": [claim], "schedulingPolicy": {"basic": {}}},
        })
    }

    /// The allocation of a claim that holds devices beforehand: the claims are dealt out to the nodes.
    pub(crate) fn allocation(&self, number: usize, nodes: usize) -> Value {
        let node = self.node_name(number % nodes.max(1));
        let names: Vec<String> = if matches!(self.test, Test::CompatibilityGroups | Test::Partitionable) {
            vec!["half-0".into(), "half-1".into()]
        } else if self.test == Test::PartitionableBacktracking {
            (1..8).map(|at| format!("part-{at}")).collect()
        } else {
            vec![format!("accelerator-{}", number / nodes.max(1))]
        };
        let results: Vec<Value> = names
            .iter()
            .map(|device| json!({"request": "r-0", "driver": self.driver, "pool": node, "device": device}))
            .collect();
        let here = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        json!({"status": {"allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
        }}})
    }

    /// A pod with a number.
    pub(crate) fn pod(&self, name: &str, number: usize) -> Value {
        let claim = |claim: Value| {
            let mut claim = claim;
            claim["name"] = "device".into();
            json!({
                "containers": [{"name": "work", "image": "work", "resources": {"claims": [{"name": "device"}]}}],
                "resourceClaims": [claim],
            })
        };
        let extended = |resource: String| {
            let amounts: Map<String, Value> = [(resource, "1".into())].into_iter().collect();
            json!({"containers": [{"name": "work", "image": "work", "resources": {"requests": amounts, "limits": amounts}}]})
        };
        let from_template = json!({"resourceClaimTemplateName": TEMPLATE});
        let mut spec = match self.test {
            Test::SharedClaim => claim(json!({"resourceClaimName": claim_name(number / SHARERS)})),
            Test::PodGroupClaim { groups } => {
                claim(json!({"resourceClaimName": claim_name(number % groups.max(1))}))
            }
            Test::ExtendedResource { classes, explicit } => {
                let at = number % classes.max(1);
                let implicit = format!("deviceclass.resource.kubernetes.io/{}-{at}", self.run);
                extended(if explicit { self.resource(at) } else { implicit })
            }
            Test::ExtendedResourceScoring { .. } => extended(self.resource(0)),
            Test::PublishResourceSlices
            | Test::ClaimTemplate(_)
            | Test::ListAttributes
            | Test::DeviceTaintToleration
            | Test::PodGroupClaimTemplate { .. }
            | Test::FirstAvailable
            | Test::CompatibilityGroups
            | Test::Partitionable
            | Test::PartitionableBacktracking
            | Test::ConsumableCapacity => claim(from_template),
        };
        if self.groups() > 0 {
            spec["schedulingGroup"] = json!({"podGroupName": format!("group-{}", number % self.groups())});
        }
        spec["terminationGracePeriodSeconds"] = 0.into();
        json!({"metadata": meta(&self.run, name), "spec": spec})
    }
}

pub(crate) fn claim_name(number: usize) -> String {
    format!("claim-{number}")
}

/// The first half of 64 devices have nothing in common with any other; the second half share a value.
fn list_device(number: usize) -> Value {
    let mut values: Vec<String> = (0..47).map(|value| format!("device-{number}-value-{value}")).collect();
    if number >= 32 {
        values.insert(0, "common".into());
    }
    json!({"name": format!("device-{number}"), "attributes": {"lists.lazaret.dev/match": {"strings": values}}})
}

/// A device of which many may have a share.
fn shared_device(number: usize) -> Value {
    let bandwidth = json!({
        "value": "10G",
        "requestPolicy": {"default": "1M", "validRange": {"min": "1M", "step": "8"}},
    });
    json!({
        "name": format!("share-{number}"),
        "allowMultipleAllocations": true,
        "attributes": {"shares.lazaret.dev/index": {"int": number}},
        "capacity": {"bandwidth": bandwidth},
    })
}

/// One counter set of four.
fn quarters() -> Value {
    let counters: Map<String, Value> =
        (0..4).map(|at| (format!("quarter-{at}"), json!({"value": "1"}))).collect();
    json!([{"name": "whole", "counters": counters}])
}

/// Two devices of two counters each.
fn halves(group: Option<&str>) -> Value {
    let half = |at: usize| {
        let counters: Map<String, Value> =
            (at * 2..at * 2 + 2).map(|at| (format!("quarter-{at}"), json!({"value": "1"}))).collect();
        let mut consumes = json!({"counterSet": "whole", "counters": counters});
        if let Some(group) = group {
            consumes["compatibilityGroups"] = json!([group]);
        }
        json!({"name": format!("half-{at}"), "consumesCounters": [consumes]})
    };
    json!([half(0), half(1)])
}

/// Eight processors, and memory for seven small parts.
fn eighths() -> Value {
    let cores: Map<String, Value> = (0..8).map(|at| (format!("core-{at}"), json!({"value": "1"}))).collect();
    json!([{"name": "cores", "counters": cores}, {"name": "memory", "counters": {"bytes": {"value": "70Gi"}}}])
}

/// Eight parts, the first with twice the memory: seven fit, if it is not among them.
fn uneven() -> Value {
    let part = |at: usize| {
        let core: Map<String, Value> = [(format!("core-{at}"), json!({"value": "1"}))].into_iter().collect();
        let bytes = if at == 0 { "20Gi" } else { "10Gi" };
        json!({"name": format!("part-{at}"), "consumesCounters": [
            {"counterSet": "cores", "counters": core},
            {"counterSet": "memory", "counters": {"bytes": {"value": bytes}}},
        ]})
    };
    Value::from((0..8).map(part).collect::<Vec<_>>())
}
