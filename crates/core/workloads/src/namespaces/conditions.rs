//! The conditions of a namespace that is being deleted: the content that remains in it.

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};

use crate::{graph::Node, meta, prelude::*};

/// The conditions in their order, with reason and message of each when nothing is wrong.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (CONTENT_FAILURE, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (CONTENT_REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS_REMAINING, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";

// DEVIATION(namespace-conditions)
/// The content that remains in a namespace.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// How many objects, by resource as Kubernetes writes it: `pods.`, `jobs.batch`.
    kinds: BTreeMap<String, usize>,
    /// How many objects, by finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Why something could not be deleted.
    failure: Option<String>,
}

impl Remaining {
    pub(super) fn of<'a>(nodes: impl Iterator<Item = &'a Node>, failure: Option<&str>) -> Self {
        let mut remaining = Self { failure: failure.map(str::to_owned), ..Self::default() };
        for node in nodes {
            let kind = format!("{}.{}", node.resource.plural, node.resource.group);
            *remaining.kinds.entry(kind).or_default() += 1;
            for finalizer in node.meta().finalizers.iter().flatten() {
                *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
        remaining
    }

    /// Reason and message of a condition that is true.
    fn trouble(&self, name: &str) -> Option<(&'static str, String)> {
        let counted = |counts: &BTreeMap<String, usize>, verb: &str| {
            let texts: Vec<String> = counts
                .iter()
                .map(|(name, count)| format!("{name} {verb} {count} resource instances"))
                .collect();
            texts.join(", ")
        };
        match name {
            CONTENT_FAILURE => self.failure.as_ref().map(|why| {
                ("ContentDeletionFailed", format!("Failed to delete all resource types, 1 remaining: {why}"))
            }),
            CONTENT_REMAINING if !self.kinds.is_empty() => Some((
                "SomeResourcesRemain",
                format!("Some resources are remaining: {}", counted(&self.kinds, "has")),
            )),
            FINALIZERS_REMAINING if !self.finalizers.is_empty() => Some((
                "SomeFinalizersRemain",
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    counted(&self.finalizers, "in")
                ),
            )),
            _ => None,
        }
    }

    /// The conditions that say so, with those of others before them; `None` when the namespace says it already.
    pub(super) fn status(&self, namespace: &Namespace, now: Timestamp) -> Option<Value> {
        let known = conditions(namespace);
        let mut changed = false;
        let own =
            |condition: &&NamespaceCondition| !CONDITIONS.iter().any(|(name, ..)| *name == condition.type_);
        let mut all: Vec<Value> = known.iter().filter(own).map(|condition| json!(condition)).collect();
        for (name, reason, message) in CONDITIONS {
            let trouble = self.trouble(name);
            let status = if trouble.is_some() { "True" } else { "False" };
            let (reason, message) = trouble.unwrap_or_else(|| (reason, message.to_owned()));
            let old = known.iter().find(|condition| condition.type_ == name);
            changed |= old.is_none_or(|old| {
                (old.status.as_str(), old.reason.as_deref(), old.message.as_deref())
                    != (status, Some(reason), Some(message.as_str()))
            });
            let since =
                old.filter(|old| old.status == status).and_then(|old| old.last_transition_time.clone());
            let since = since.unwrap_or_else(|| meta::wire_time(now));
            all.push(json!({"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}));
        }
        changed.then(|| json!({"conditions": all}))
    }
}

/// Whether the namespace says that something is wrong.
pub(super) fn is_any_true(namespace: &Namespace) -> bool {
    let ours = |condition: &&NamespaceCondition| CONDITIONS.iter().any(|(name, ..)| *name == condition.type_);
    conditions(namespace).iter().filter(ours).any(|condition| condition.status == "True")
}

fn conditions(namespace: &Namespace) -> &[NamespaceCondition] {
    let status = namespace.status.as_ref();
    status.and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}
