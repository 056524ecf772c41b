//! The workloads of Kubernetes' scheduler_perf that use devices, by the names that they have there. Sizes are facts; the objects are ours.

/// A workload: what kind, and how large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) test: Test,
    pub(crate) case: &'static str,
    /// Nodes with devices, and nodes without.
    pub(crate) nodes: usize,
    pub(crate) plain_nodes: usize,
    /// Objects before the measurement: claims with devices, or pods that were placed.
    pub(crate) initial: usize,
    pub(crate) pods: usize,
    /// Each pod that was placed is deleted and another made, for ten seconds.
    pub(crate) steady: bool,
    /// The least that Kubernetes asks of itself, in pods a second.
    pub(crate) least: Option<f64>,
}

/// The kind of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    PublishResourceSlices,
    ClaimTemplate(Claim),
    SharedClaim,
    ListAttributes,
    DeviceTaintToleration,
    PodGroupClaim { groups: usize },
    PodGroupClaimTemplate { groups: usize },
    ExtendedResource { classes: usize, explicit: bool },
    ExtendedResourceScoring { classes: usize },
    FirstAvailable,
    CompatibilityGroups,
    Partitionable,
    PartitionableBacktracking,
    ConsumableCapacity,
}

/// The request of a template's claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// One device.
    Any,
    /// One that an expression matches: all do.
    Selected,
    /// Five under one PCI root, of devices that alternate between two.
    Matching,
}

impl Test {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PublishResourceSlices => "PublishResourceSlices",
            Self::ClaimTemplate(_) => "SchedulingWithResourceClaimTemplate",
            Self::SharedClaim => "SchedulingWithResourceClaim",
            Self::ListAttributes => "SchedulingWithResourceClaimTemplateListAttributes",
            Self::DeviceTaintToleration => "DeviceTaintToleration",
            Self::PodGroupClaim { .. } => "SharedPodGroupResourceClaim",
            Self::PodGroupClaimTemplate { .. } => "SharedPodGroupResourceClaimTemplate",
            Self::ExtendedResource { .. } => "ExtendedResource",
            Self::ExtendedResourceScoring { .. } => "ExtendedResourceScoring",
            Self::FirstAvailable => "FirstAvailable",
            Self::CompatibilityGroups => "CompatibilityGroups",
            Self::Partitionable => "Partitionable",
            Self::PartitionableBacktracking => "PartitionableBacktracking",
            Self::ConsumableCapacity => "ConsumableCapacity",
        }
    }

    /// Features that a server must have on for it.
    pub(crate) fn gates(self) -> &'static str {
        match self {
            Self::PublishResourceSlices
            | Self::ClaimTemplate(_)
            | Self::SharedClaim
            | Self::FirstAvailable => "",
            Self::ListAttributes => "DRAListTypeAttributes=true",
            Self::DeviceTaintToleration => "DRADeviceTaints=true,DRADeviceTaintRules=true",
            Self::PodGroupClaim { .. } | Self::PodGroupClaimTemplate { .. } => {
                "GenericWorkload=true,DRAWorkloadResourceClaims=true"
            }
            Self::ExtendedResource { .. } | Self::ExtendedResourceScoring { .. } => {
                "DRAExtendedResource=true"
            }
            Self::CompatibilityGroups => "DRAPartitionableDevices=true,DRADeviceCompatibilityGroups=true",
            Self::Partitionable | Self::PartitionableBacktracking => "DRAPartitionableDevices=true",
            Self::ConsumableCapacity => "DRAConsumableCapacity=true",
        }
    }

    /// Whether the initial objects are pods, not claims.
    pub(crate) fn begins_with_pods(self) -> bool {
        match self {
            Self::SharedClaim
            | Self::DeviceTaintToleration
            | Self::ExtendedResource { .. }
            | Self::ExtendedResourceScoring { .. }
            | Self::ConsumableCapacity => true,
            Self::PublishResourceSlices
            | Self::ClaimTemplate(_)
            | Self::ListAttributes
            | Self::PodGroupClaim { .. }
            | Self::PodGroupClaimTemplate { .. }
            | Self::FirstAvailable
            | Self::CompatibilityGroups
            | Self::Partitionable
            | Self::PartitionableBacktracking => false,
        }
    }
}

impl Workload {
    /// As it is asked for.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.test.name(), self.case)
    }

    pub(crate) fn gates(&self) -> &'static str {
        self.test.gates()
    }

    /// Versions of the API that a server must serve for it.
    pub(crate) fn versions(&self) -> &'static str {
        match self.test {
            Test::PodGroupClaim { .. } | Test::PodGroupClaimTemplate { .. } => {
                "scheduling.k8s.io/v1beta1=true"
            }
            Test::PublishResourceSlices
            | Test::ClaimTemplate(_)
            | Test::SharedClaim
            | Test::ListAttributes
            | Test::DeviceTaintToleration
            | Test::ExtendedResource { .. }
            | Test::ExtendedResourceScoring { .. }
            | Test::FirstAvailable
            | Test::CompatibilityGroups
            | Test::Partitionable
            | Test::PartitionableBacktracking
            | Test::ConsumableCapacity => "",
        }
    }
}

const fn burst(test: Test, case: &'static str, nodes: [usize; 2], initial: usize, pods: usize) -> Workload {
    let [nodes, plain_nodes] = nodes;
    Workload { test, case, nodes, plain_nodes, initial, pods, steady: false, least: None }
}

const fn steady(test: Test, case: &'static str, nodes: usize, initial: usize) -> Workload {
    Workload { test, case, nodes, plain_nodes: 0, initial, pods: 10, steady: true, least: None }
}

const fn at_least(workload: Workload, least: f64) -> Workload {
    Workload { least: Some(least), ..workload }
}

const ANY: Test = Test::ClaimTemplate(Claim::Any);
const SELECTED: Test = Test::ClaimTemplate(Claim::Selected);
const MATCHING: Test = Test::ClaimTemplate(Claim::Matching);
const EXPLICIT_25: Test = Test::ExtendedResource { classes: 25, explicit: true };
const EXPLICIT_50: Test = Test::ExtendedResource { classes: 50, explicit: true };
const IMPLICIT_25: Test = Test::ExtendedResource { classes: 25, explicit: false };

/// Four tests have the same nine cases: how full the cluster is, and how large.
const fn cases(test: Test, per_node: usize) -> [Workload; 9] {
    [
        burst(test, "fast", [1, 1], 0, 1),
        steady(test, "empty_100nodes", 100, 0),
        steady(test, "half_100nodes", 100, 50 * per_node),
        steady(test, "empty_500nodes", 500, 0),
        steady(test, "half_500nodes", 500, 250 * per_node),
        steady(test, "full_500nodes", 500, 500 * per_node - 10),
        steady(test, "empty_1000nodes", 1_000, 0),
        steady(test, "half_1000nodes", 1_000, 500 * per_node),
        steady(test, "full_1000nodes", 1_000, 1_000 * per_node - 10),
    ]
}

const FIXED: &[Workload] = &[
    burst(Test::PublishResourceSlices, "500nodes", [500, 0], 0, 1),
    burst(Test::PublishResourceSlices, "5000nodes", [5_000, 0], 0, 1),
    burst(ANY, "fast", [1, 1], 0, 10),
    burst(ANY, "2000pods_200nodes", [200, 0], 1_000, 1_000),
    at_least(burst(ANY, "5000pods_500nodes", [500, 0], 2_500, 2_500), 56.0),
    steady(ANY, "empty_100nodes", 100, 0),
    steady(ANY, "empty_200nodes", 200, 0),
    at_least(steady(ANY, "empty_500nodes", 500, 0), 64.0),
    steady(ANY, "half_100nodes", 100, 500),
    steady(ANY, "half_200nodes", 200, 1_000),
    at_least(steady(ANY, "half_500nodes", 500, 2_500), 60.0),
    steady(ANY, "full_100nodes", 100, 990),
    steady(ANY, "full_200nodes", 200, 1_990),
    at_least(steady(ANY, "full_500nodes", 500, 4_990), 60.0),
    burst(SELECTED, "selector_fast", [1, 1], 0, 10),
    at_least(steady(SELECTED, "selector_empty_500nodes", 500, 0), 64.0),
    burst(MATCHING, "match_fast", [1, 1], 0, 2),
    at_least(steady(MATCHING, "match_empty_500nodes", 500, 0), 64.0),
    burst(Test::SharedClaim, "fast", [1, 1], 0, 10),
    burst(Test::SharedClaim, "2000pods_200nodes", [200, 0], 1_000, 1_000),
    burst(Test::SharedClaim, "5000pods_500nodes", [500, 0], 2_500, 2_500),
    burst(Test::ListAttributes, "fast", [1, 0], 0, 1),
    Workload { pods: 500, ..steady(Test::ListAttributes, "empty_500nodes", 500, 0) },
    burst(Test::DeviceTaintToleration, "fast", [1, 1], 0, 10),
    burst(Test::PodGroupClaim { groups: 10 }, "fast", [1, 0], 0, 10),
    burst(Test::PodGroupClaim { groups: 1 }, "1podgroup_1000pods", [10, 0], 0, 1_000),
    burst(Test::PodGroupClaim { groups: 100 }, "100podgroups_5000pods", [50, 0], 0, 5_000),
    burst(Test::PodGroupClaimTemplate { groups: 10 }, "fast", [1, 0], 0, 10),
    burst(Test::PodGroupClaimTemplate { groups: 1 }, "1podgroup_1000pods", [10, 0], 0, 1_000),
    burst(Test::PodGroupClaimTemplate { groups: 100 }, "100podgroups_5000pods", [50, 0], 0, 5_000),
    burst(Test::ExtendedResource { classes: 10, explicit: true }, "fast", [1, 1], 0, 10),
    burst(EXPLICIT_25, "Explicit_25classes_2000pods_200nodes", [200, 0], 1_000, 1_000),
    at_least(burst(EXPLICIT_25, "Explicit_25classes_5000pods_500nodes", [500, 0], 2_500, 2_500), 120.0),
    burst(EXPLICIT_50, "Explicit_50classes_2000pods_200nodes", [200, 0], 1_000, 1_000),
    at_least(burst(EXPLICIT_50, "Explicit_50classes_5000pods_500nodes", [500, 0], 2_500, 2_500), 130.0),
    burst(IMPLICIT_25, "Implicit_25classes_2000pods_200nodes", [200, 0], 1_000, 1_000),
    at_least(burst(IMPLICIT_25, "Implicit_25classes_5000pods_500nodes", [500, 0], 2_500, 2_500), 130.0),
    burst(Test::ExtendedResourceScoring { classes: 2 }, "fast", [3, 1], 0, 10),
    burst(Test::ExtendedResourceScoring { classes: 10 }, "2000pods_200nodes", [200, 0], 0, 2_000),
    at_least(
        burst(Test::ExtendedResourceScoring { classes: 20 }, "5000pods_500nodes", [500, 0], 0, 5_000),
        70.0,
    ),
    burst(Test::FirstAvailable, "fast", [1, 1], 0, 10),
    burst(Test::ConsumableCapacity, "fast_with_DRAPartitionableDevices", [1, 1], 0, 1),
];

/// All of them.
pub(crate) fn all() -> Vec<Workload> {
    let mut all = FIXED.to_vec();
    all.extend(cases(Test::CompatibilityGroups, 1));
    all.extend(cases(Test::Partitionable, 1));
    all.extend(cases(Test::PartitionableBacktracking, 1));
    all.extend(cases(Test::ConsumableCapacity, 8));
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_mean_one_workload_each() {
        let all = all();
        let names: BTreeSet<String> = all.iter().map(Workload::name).collect();
        assert_eq!((names.len(), all.len()), (78, 78));
    }

    #[test]
    fn every_workload_has_room_for_its_pods() {
        for workload in all() {
            let per_node = match workload.test {
                Test::ClaimTemplate(Claim::Matching) => 2,
                Test::ClaimTemplate(Claim::Any | Claim::Selected)
                | Test::DeviceTaintToleration
                | Test::ExtendedResource { .. }
                | Test::ExtendedResourceScoring { .. }
                | Test::FirstAvailable
                | Test::PublishResourceSlices => 10,
                // Five share one of two devices.
                Test::SharedClaim => 10,
                Test::ListAttributes
                | Test::CompatibilityGroups
                | Test::Partitionable
                | Test::PartitionableBacktracking => 1,
                Test::ConsumableCapacity => 8,
                // Limited by what a node takes, not by devices.
                Test::PodGroupClaim { .. } | Test::PodGroupClaimTemplate { .. } => 110,
            };
            assert!(workload.initial + workload.pods <= workload.nodes * per_node, "{}", workload.name());
        }
    }
}
