//! Feature gates and what each release of Kubernetes makes of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use self::{
    Part::{Scheduler, Server},
    Stage::{Alpha, Beta, Stable},
};

/// A release of Kubernetes that the server can be like: 1.37, which it is made after, and the three before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    minor: u8,
}

impl Release {
    /// The oldest one that can be had.
    pub const OLDEST: Self = Self { minor: 34 };
    /// The one whose behaviour this is.
    pub const NEWEST: Self = Self { minor: 37 };

    pub(crate) const V1_35: Self = Self { minor: 35 };
    pub(crate) const V1_36: Self = Self { minor: 36 };
    pub(crate) const V1_37: Self = Self { minor: 37 };

    /// The number behind `1.`.
    #[must_use]
    pub const fn minor(self) -> u8 {
        self.minor
    }

    /// The oldest release that can run beside this one, by the default of Kubernetes: the one before, if it can be had.
    #[must_use]
    pub fn compatible_from(self) -> Self {
        Self { minor: self.minor - 1 }.max(Self::OLDEST)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl FromStr for Release {
    type Err = String;

    /// Reads `1.36`; `v1.36` and `kube=1.36`, as Kubernetes' own flag takes them, are the same.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.strip_prefix("kube=").unwrap_or(text);
        let plain = plain.strip_prefix('v').unwrap_or(plain);
        plain
            .strip_prefix("1.")
            .and_then(|minor| minor.parse().ok())
            .map(|minor| Self { minor })
            .filter(|release| (Self::OLDEST..=Self::NEWEST).contains(release))
            .ok_or_else(|| format!("{text:?} is no release from {} to {}", Self::OLDEST, Self::NEWEST))
    }
}

/// Which optional features are on, by gate name, at a release. A gate that is not named is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    release: Release,
    on: BTreeSet<String>,
}

impl Default for Features {
    /// Everything off.
    fn default() -> Self {
        Self { release: Release::NEWEST, on: BTreeSet::new() }
    }
}

impl Features {
    /// The defaults of Kubernetes 1.37.
    #[must_use]
    pub fn kubernetes_1_37() -> Self {
        Self::of(Release::NEWEST)
    }

    /// The defaults of a release.
    #[must_use]
    pub fn of(release: Release) -> Self {
        let on = GATES.iter().filter(|gate| gate.at(release).is_some_and(|step| step.on));
        Self { release, on: on.map(|gate| gate.name.to_owned()).collect() }
    }

    /// The release whose gates these are.
    #[must_use]
    pub fn release(&self) -> Release {
        self.release
    }

    /// Every gate of the newest release, and whether it is on by default.
    pub fn known() -> impl Iterator<Item = (&'static str, bool)> {
        GATES.iter().filter_map(|gate| Some((gate.name, gate.at(Release::NEWEST)?.on)))
    }

    /// Every gate: its name, its stage as Kubernetes' metrics write it (`ALPHA`, `BETA`, nothing once it is stable), and whether it is on.
    /// A gate that came after this release is off: a client that does not find it would think of an older server, which had no such gate
    /// and the feature all the same.
    pub fn gates(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        GATES.iter().map(|gate| {
            let stage = match gate.at(self.release).map(|step| step.stage) {
                Some(Alpha) | None => "ALPHA",
                Some(Beta) => "BETA",
                Some(Stable) => "",
            };
            (gate.name, stage, self.is_on(gate.name))
        })
    }

    /// Whether a gate is on. Before taints by rules had a gate of their own, that of taints was for both.
    #[must_use]
    pub fn is_on(&self, gate: &str) -> bool {
        let gate = if gate == TAINT_RULES && self.release < Release::V1_35 { TAINTS } else { gate };
        self.on.contains(gate)
    }

    /// Turns a gate on or off.
    pub fn set(&mut self, gate: &str, on: bool) {
        if on {
            self.on.insert(gate.to_owned());
        } else {
            self.on.remove(gate);
        }
    }

    /// Reads `A=true,B=false`. `AllAlpha` and `AllBeta` set whatever is not named itself.
    ///
    /// # Errors
    /// When a pair is malformed, a gate does not exist at this release or can no longer be turned, or one that is on needs one that is
    /// off; the text names it.
    pub fn parse(&mut self, text: &str) -> Result<(), String> {
        let mut wanted = BTreeMap::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (gate, on) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?}: write GATE=true or GATE=false"))?;
            wanted.insert(gate.trim(), truth(gate, on.trim())?);
        }
        for (all, stage) in [("AllAlpha", Alpha), ("AllBeta", Beta)] {
            if let Some(on) = wanted.remove(all) {
                self.set_all(stage, on);
            }
        }
        for (name, on) in &wanted {
            let (name, on) = (*name, *on);
            let step = find(name).and_then(|gate| gate.at(self.release)).ok_or_else(|| self.unknown(name))?;
            if step.fixed && step.on != on {
                return Err(format!(
                    "{name} is {} for good since it is part of {}: leave it out",
                    step.on, self.release
                ));
            }
            self.set(name, on);
        }
        self.follow_needs(|name| wanted.contains_key(name));
        self.check_needs()
    }

    /// Turns gates that no release of Kubernetes has off with what they need, unless they are named: who turns everything off that
    /// Kubernetes has does not know of them.
    fn follow_needs(&mut self, is_named: impl Fn(&str) -> bool) {
        for gate in GATES.iter().filter(|gate| gate.is_own && !is_named(gate.name)) {
            if gate.needs.iter().any(|need| !self.is_on(need)) {
                self.set(gate.name, false);
            }
        }
    }

    /// The gates that a text for [`Features::parse`] names and that make no difference in any of these parts.
    #[must_use]
    pub fn without_effect<'a>(text: &'a str, parts: &[Part]) -> Vec<&'a str> {
        let named = text.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.trim());
        let acts =
            |name: &&str| find(name).is_some_and(|gate| gate.parts.iter().any(|part| parts.contains(part)));
        named.filter(|name| find(name).is_some() && !acts(name)).collect()
    }

    /// The parts in which a gate makes a difference.
    #[must_use]
    pub fn parts_of(gate: &str) -> &'static [Part] {
        find(gate).map_or(&[], |gate| gate.parts)
    }

    fn set_all(&mut self, stage: Stage, on: bool) {
        let release = self.release;
        for gate in GATES.iter().filter(|gate| gate.at(release).is_some_and(|step| step.stage == stage)) {
            self.set(gate.name, on);
        }
    }

    fn check_needs(&self) -> Result<(), String> {
        let lacks = |gate: &'static FeatureGate| {
            gate.needs.iter().find(|need| !self.is_on(need)).map(|need| (gate.name, need))
        };
        match GATES.iter().filter(|gate| self.is_on(gate.name)).find_map(lacks) {
            Some((gate, need)) => {
                Err(format!("{gate} is on and needs {need}, which is off: turn both on or both off"))
            }
            None => Ok(()),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> =
            GATES.iter().filter(|gate| gate.at(self.release).is_some()).map(|gate| gate.name).collect();
        format!("unknown feature gate {name:?} at {}: the gates are {}", self.release, names.join(", "))
    }
}

fn truth(gate: &str, text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("{gate}: {other:?} is neither true nor false")),
    }
}

fn find(name: &str) -> Option<&'static FeatureGate> {
    GATES.iter().find(|gate| gate.name == name)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    Stable,
}

/// The state of a gate from a release on.
#[derive(Clone, Copy, Debug)]
struct GateStage {
    since_minor: u8,
    stage: Stage,
    on: bool,
    /// It can no longer be changed.
    fixed: bool,
}

/// Where a gate makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// In what the API server serves, keeps and admits.
    Server,
    /// In what the scheduler or a controller does.
    Scheduler,
}

struct FeatureGate {
    name: &'static str,
    /// Oldest first.
    steps: &'static [GateStage],
    /// Of no use without these.
    needs: &'static [&'static str],
    /// Where it makes a difference; nowhere: Kubernetes has it, and nothing here depends on it.
    parts: &'static [Part],
    /// No release of Kubernetes has it.
    is_own: bool,
}

impl FeatureGate {
    fn at(&self, release: Release) -> Option<GateStage> {
        self.steps.iter().rev().find(|step| step.since_minor <= release.minor).copied()
    }
}

const fn off(since_minor: u8, stage: Stage) -> GateStage {
    GateStage { since_minor, stage, on: false, fixed: false }
}

const fn on(since_minor: u8, stage: Stage) -> GateStage {
    GateStage { since_minor, stage, on: true, fixed: false }
}

const fn fixed(since_minor: u8) -> GateStage {
    GateStage { since_minor, stage: Stable, on: true, fixed: true }
}

const fn gate(
    name: &'static str,
    steps: &'static [GateStage],
    needs: &'static [&'static str],
) -> FeatureGate {
    FeatureGate { name, steps, needs, parts: &[], is_own: false }
}

impl FeatureGate {
    const fn acts_in(self, parts: &'static [Part]) -> Self {
        Self { parts, ..self }
    }

    const fn own(self) -> Self {
        Self { is_own: true, ..self }
    }
}

const DRA: &[&str] = &["DynamicResourceAllocation"];

const TAINTS: &str = "DRADeviceTaints";
const TAINT_RULES: &str = "DRADeviceTaintRules";

/// Whether a taint that is written in v1alpha3 and names no pace has one.
pub(crate) const DEFAULT_PACE: &str = "DRADeviceTaintDefaultPace";

static GATES: &[FeatureGate] = &[
    gate("DynamicResourceAllocation", &[on(34, Stable), fixed(35)], &[]).acts_in(&[Server]),
    gate("DRAAdminAccess", &[on(34, Beta), fixed(36)], DRA).acts_in(&[Server, Scheduler]),
    gate("DRAPrioritizedList", &[on(34, Beta), on(36, Stable), fixed(37)], DRA).acts_in(&[Server, Scheduler]),
    gate("DRAResourceClaimDeviceStatus", &[on(33, Beta), fixed(37)], &[]).acts_in(&[Server, Scheduler]),
    gate("DRAExtendedResource", &[off(34, Alpha), on(36, Beta), fixed(37)], DRA)
        .acts_in(&[Server, Scheduler]),
    gate("DRADeviceTaints", &[off(33, Alpha), on(36, Beta), on(37, Stable)], DRA)
        .acts_in(&[Server, Scheduler]),
    gate("DRADeviceTaintRules", &[off(35, Alpha), off(36, Beta), on(37, Stable)], &["DRADeviceTaints"])
        .acts_in(&[Scheduler]),
    gate("DRAPartitionableDevices", &[off(33, Alpha), on(36, Beta)], DRA).acts_in(&[Server, Scheduler]),
    gate("DRAConsumableCapacity", &[off(34, Alpha), on(36, Beta)], DRA).acts_in(&[Server, Scheduler]),
    gate(
        "DRADeviceBindingConditions",
        &[off(34, Alpha), on(36, Beta)],
        &["DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"],
    )
    .acts_in(&[Server, Scheduler]),
    gate("DRASchedulerFilterTimeout", &[on(34, Beta)], DRA),
    gate(
        "DRAResourceClaimGranularStatusAuthorization",
        &[on(36, Beta)],
        &["DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"],
    )
    .acts_in(&[Server]),
    // On only where nothing older than 1.37 can be beside it, which is not so by default.
    gate("DRAFractionalCapacityRange", &[off(37, Beta)], &["DRAConsumableCapacity"])
        .acts_in(&[Server, Scheduler]),
    gate("GenericWorkload", &[off(35, Alpha), off(37, Beta)], &[]).acts_in(&[Server]),
    gate(
        "DRAWorkloadResourceClaims",
        &[off(36, Alpha), off(37, Beta)],
        &["DynamicResourceAllocation", "GenericWorkload"],
    )
    .acts_in(&[Server]),
    gate("DRAListTypeAttributes", &[off(36, Alpha)], DRA).acts_in(&[Server, Scheduler]),
    gate("DRANodeAllocatableResources", &[off(36, Alpha)], DRA).acts_in(&[Server, Scheduler]),
    gate("DRAResourcePoolStatus", &[off(36, Alpha)], DRA).acts_in(&[Server]),
    gate("DRADerivedAttributes", &[off(37, Alpha)], DRA).acts_in(&[Server, Scheduler]),
    gate(
        "DRADeviceCompatibilityGroups",
        &[off(37, Alpha)],
        &["DynamicResourceAllocation", "DRAPartitionableDevices"],
    )
    .acts_in(&[Server, Scheduler]),
    gate(
        "DRAOptionalNodeOperations",
        &[off(37, Alpha)],
        &["DynamicResourceAllocation", "NodeDeclaredFeatures"],
    )
    .acts_in(&[Server, Scheduler]),
    gate("NodeDeclaredFeatures", &[off(35, Alpha), on(36, Beta), fixed(37)], &[]).acts_in(&[Server]),
    gate(
        "DRAPartitionableDevicesType",
        &[off(37, Alpha)],
        &["DynamicResourceAllocation", "DRAPartitionableDevices", "DRAResourcePoolStatus"],
    )
    .acts_in(&[Server]),
    gate("KubeletServiceAccountTokenForCredentialProviders", &[on(34, Beta)], &[]).acts_in(&[Server]),
    gate("PodTopologyLabelsAdmission", &[off(33, Alpha), on(35, Beta)], &[]).acts_in(&[Server]),
    gate("ServiceAccountNodeAudienceRestriction", &[on(33, Beta)], &[]).acts_in(&[Server]),
    // DEVIATION(patch-gate): of the first design of device taints; no release has it, and ResourceSlicePatch is served only where it is asked for.
    gate("DRAAdminControlledDeviceAttributes", &[on(34, Alpha)], DRA).acts_in(&[Server, Scheduler]).own(),
    // DEVIATION(default-pace): no release has it; without it a taint of v1alpha3 has no pace unless it names one.
    gate(DEFAULT_PACE, &[on(34, Alpha)], &["DRADeviceTaints"]).acts_in(&[Server]).own(),
    // DEVIATION(classic-claims): of the first design of claims; no release has the gate.
    gate("ClassicDRA", &[on(34, Alpha)], DRA).acts_in(&[Server, Scheduler]).own(),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(release: &str, text: &str) -> Result<Features, String> {
        let mut features = Features::of(release.parse()?);
        features.parse(text)?;
        Ok(features)
    }

    #[test]
    fn a_release_brings_its_own_defaults() {
        let on = |release: &str, gate: &str| at(release, "").unwrap().is_on(gate);
        assert!(on("1.37", "DRADeviceTaintRules"));
        assert!(!on("1.36", "DRADeviceTaintRules"));
        assert!(on("1.36", "DRADeviceTaints"));
        assert!(!on("1.35", "DRADeviceTaints"));
        assert!(!on("1.34", "DRAConsumableCapacity"));
        assert!(on("1.34", "DRAAdminAccess"));
        assert!(!on("1.37", "DRAFractionalCapacityRange"));
    }

    #[test]
    fn gates_are_told_with_their_stage_at_the_release() {
        let told = |release: &str, text: &str, gate: &str| {
            let features = at(release, text).unwrap();
            features.gates().find(|(name, ..)| *name == gate).map(|(_, stage, on)| (stage, on))
        };
        assert_eq!(told("1.37", "", "DRADeviceTaintRules"), Some(("", true)));
        assert_eq!(told("1.36", "", "DRADeviceTaintRules"), Some(("BETA", false)));
        assert_eq!(told("1.36", "DRADeviceTaintRules=true", "DRADeviceTaintRules"), Some(("BETA", true)));
        assert_eq!(told("1.35", "", "DRADeviceTaints"), Some(("ALPHA", false)));
        assert_eq!(told("1.34", "DRADeviceTaints=true", "DRADeviceTaintRules"), Some(("ALPHA", true)));
        assert_eq!(told("1.34", "", "DRADeviceTaintRules"), Some(("ALPHA", false)));
        assert_eq!(told("1.37", "", "NoSuchGate"), None);
    }

    #[test]
    fn releases_are_read_as_kubernetes_reads_them() {
        for text in ["1.36", "v1.36", "kube=1.36"] {
            assert_eq!(text.parse::<Release>().unwrap().minor(), 36, "{text}");
        }
        for text in ["1.33", "1.38", "2.36", "1.36.1", "", "36", "1.-4", "1.999"] {
            assert!(text.parse::<Release>().is_err(), "{text}");
        }
        assert_eq!(Release::NEWEST.compatible_from().to_string(), "1.36");
        assert_eq!(Release::OLDEST.compatible_from(), Release::OLDEST);
    }

    #[test]
    fn what_cannot_be_set_is_named() {
        let refused = |release: &str, text: &str| at(release, text).unwrap_err();
        assert!(refused("1.36", "DRADerivedAttributes=true").contains("DRADerivedAttributes"));
        assert!(refused("1.37", "DRAAdminAccess=false").contains("for good"));
        assert!(refused("1.37", "DRAAdminAccess").contains("GATE=true"));
        assert!(refused("1.37", "DRAAdminAccess=yes").contains("neither"));
        assert!(
            refused("1.37", "DRADeviceTaints=false")
                .contains("DRADeviceTaintRules is on and needs DRADeviceTaints")
        );
        at("1.37", "DRADeviceTaints=false,DRADeviceTaintRules=false").unwrap();
        at("1.37", "DRAAdminAccess=true").unwrap();
        at("1.34", "DRAAdminAccess=false").unwrap();
    }

    #[test]
    fn gates_that_change_nothing_are_named() {
        let without = |text: &'static str, parts: &[Part]| Features::without_effect(text, parts);
        let text = "DRASchedulerFilterTimeout=false, GenericWorkload=true,DRADeviceTaintRules=false,DRAAdminAccess=true,AllAlpha=true";
        assert_eq!(without(text, &[Server, Scheduler]), ["DRASchedulerFilterTimeout"]);
        assert_eq!(without(text, &[Scheduler]), ["DRASchedulerFilterTimeout", "GenericWorkload"]);
        assert_eq!(without(text, &[Server]), ["DRASchedulerFilterTimeout", "DRADeviceTaintRules"]);
        assert_eq!(without("", &[]), [""; 0]);
    }

    #[test]
    fn a_gate_that_kubernetes_does_not_have_goes_off_with_what_it_needs() {
        let off = "DynamicResourceAllocation=false,DRAAdminAccess=false,DRAPrioritizedList=false,DRASchedulerFilterTimeout=false";
        assert!(!at("1.34", off).unwrap().is_on("DRAAdminControlledDeviceAttributes"));
        let named = format!("{off},DRAAdminControlledDeviceAttributes=true");
        assert!(
            at("1.34", &named).unwrap_err().contains("DRAAdminControlledDeviceAttributes is on and needs")
        );
    }

    #[test]
    fn declared_features_are_a_gate_that_others_need() {
        assert!(!at("1.35", "").unwrap().is_on("NodeDeclaredFeatures"));
        assert!(at("1.36", "NodeDeclaredFeatures=false").is_ok());
        assert!(at("1.37", "NodeDeclaredFeatures=false").unwrap_err().contains("for good"));
        assert!(at("1.37", "DRAOptionalNodeOperations=true").unwrap().is_on("NodeDeclaredFeatures"));
    }

    #[test]
    fn all_gates_of_a_stage_yield_to_a_name() {
        let features = at("1.37", "DRAListTypeAttributes=false,AllAlpha=true").unwrap();
        assert!(features.is_on("DRADerivedAttributes"));
        assert!(!features.is_on("DRAListTypeAttributes"));
        let features = at("1.37", "AllBeta=false").unwrap();
        assert!(!features.is_on("DRAPartitionableDevices"));
        assert!(features.is_on("DRADeviceTaints"));
    }
}
