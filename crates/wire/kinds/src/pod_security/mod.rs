//! Pod security standards: which pods a namespace takes, by its labels.

mod baseline;
mod policy;
mod restricted;
#[cfg(test)]
mod tests;
mod words;

use lazaret_json::Value;

use crate::{Kind, Release};

pub use policy::{Level, LevelVersion, Policy};

/// Kinds that make pods, and where each keeps the template.
const TEMPLATES: &[(&str, &str, &str)] = &[
    ("", "podtemplates", "/template"),
    ("", "replicationcontrollers", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
    ("batch", "jobs", "/spec/template"),
];

/// The pod template of an object whose kind makes pods.
#[must_use]
pub fn template<'a>(kind: &Kind, object: &'a Value) -> Option<&'a Value> {
    let (_, _, pointer) = TEMPLATES.iter().find(|(group, plural, _)| kind.is(group, plural))?;
    object.pointer(pointer)
}

/// A part of a pod that a level does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In a few words.
    pub reason: String,
    /// Which containers, and what they should say instead.
    pub detail: String,
}

impl Violation {
    fn new(reason: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { reason: reason.into(), detail: detail.into() }
    }
}

/// A pod, or the template of one.
#[derive(Clone, Copy, Debug)]
struct PodFields<'a> {
    annotations: &'a Value,
    spec: &'a Value,
}

/// A check as it has been since a minor release, and the check of the baseline in whose place it stands.
struct CheckVersion {
    minor: u8,
    check: fn(&PodFields<'_>) -> Option<Violation>,
}

struct Check {
    id: &'static str,
    /// Ascending.
    versions: &'static [CheckVersion],
    /// Of the baseline.
    replaces: Option<&'static str>,
}

impl Check {
    fn at(&self, minor: u8) -> Option<&CheckVersion> {
        self.versions.iter().rev().find(|since| since.minor <= minor)
    }
}

/// The violations of a level by a pod with these annotations and this spec. No version is newer than the release.
#[must_use]
pub fn violations(
    level: LevelVersion,
    annotations: &Value,
    spec: &Value,
    release: Release,
) -> Vec<Violation> {
    let minor = level.minor(release);
    let pod = PodFields { annotations, spec };
    let run = |check: &Check| check.at(minor).and_then(|since| (since.check)(&pod));
    match level.level() {
        Level::Privileged => Vec::new(),
        Level::Baseline => baseline::CHECKS.iter().filter_map(run).collect(),
        Level::Restricted => {
            let stronger = restricted::CHECKS.iter().filter(|check| check.at(minor).is_some());
            let replaced: Vec<&str> = stronger.filter_map(|check| check.replaces).collect();
            let kept = baseline::CHECKS.iter().filter(|check| !replaced.contains(&check.id));
            kept.chain(restricted::CHECKS).filter_map(run).collect()
        }
    }
}

/// The reasons of all violations, each with its detail.
#[must_use]
pub fn details(violations: &[Violation]) -> String {
    let one = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.clone(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The reasons of all violations.
#[must_use]
pub fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.reason.clone()).collect::<Vec<_>>().join(", ")
}
