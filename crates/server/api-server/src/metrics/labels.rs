//! The labels of metrics.

use std::borrow::Cow;

use lazaret_kinds::{Kind, Name};
use prometheus_client::encoding::EncodeLabelSet;

use crate::request::{Target, Verb};

/// Paths besides objects that are counted under their own name.
const PATHS: &[&str] =
    &["/healthz", "/livez", "/readyz", "/version", "/metrics", "/api", "/apis", "/openapi/v3"];

/// A word of a label.
type Word = Cow<'static, str>;

/// The labels of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    verb: &'static str,
    dry_run: &'static str,
    group: Word,
    version: Word,
    resource: Word,
    subresource: Word,
    scope: &'static str,
    component: &'static str,
}

impl RequestLabels {
    /// A request for objects.
    pub(crate) fn objects(
        kind: &Kind,
        version: &Name,
        target: &Target,
        verb: Verb,
        how: RequestMode,
    ) -> Self {
        Self {
            verb: match verb {
                Verb::Get => "GET",
                Verb::List => "LIST",
                Verb::Watch => "WATCH",
                Verb::Create => "POST",
                Verb::Update => "PUT",
                Verb::Patch if how.apply => "APPLY",
                Verb::Patch => "PATCH",
                Verb::Delete => "DELETE",
                Verb::DeleteCollection => "DELETECOLLECTION",
            },
            dry_run: if how.dry_run { "All" } else { "" },
            group: kind.group.clone(),
            version: version.clone(),
            resource: kind.plural.clone(),
            subresource: kind.subresource(&target.subresource).map_or("", |known| known.name).into(),
            scope: if !target.name.is_empty() || verb == Verb::Create {
                "resource"
            } else if target.namespace.is_empty() {
                "cluster"
            } else {
                "namespace"
            },
            component: "apiserver",
        }
    }

    /// A request for anything else.
    pub(crate) fn path(path: &str) -> Self {
        let below = |known: &&&str| {
            path.strip_prefix(**known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let subresource = Cow::Borrowed(PATHS.iter().find(below).copied().unwrap_or_default());
        Self { verb: "GET", subresource, component: "apiserver", ..Self::default() }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "WATCH"
    }

    /// Group and plural, if a definition brought the kind.
    pub(super) fn custom_kind(&self) -> Option<(&str, &str)> {
        matches!(self.resource, Cow::Owned(_)).then(|| (&*self.group, &*self.resource))
    }

    /// The same of another kind, without its subresources.
    pub(super) fn with_kind(self, group: Word, version: Word, resource: Word) -> Self {
        Self { group, version, resource, subresource: Word::default(), ..self }
    }

    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    /// The plural of the kind; empty if the request is for no object.
    pub(crate) fn resource(&self) -> &str {
        &self.resource
    }
}

/// How a request wants it done, as far as numbers care.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestMode {
    pub(crate) dry_run: bool,
    pub(crate) apply: bool,
}

/// A request and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Answered {
    #[prometheus(flatten)]
    pub(super) subject: RequestLabels,
    pub(super) code: Word,
}

/// A kind in a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResourceLabels {
    group: Word,
    version: Word,
    resource: Word,
}

impl ResourceLabels {
    pub(super) fn of(subject: &RequestLabels) -> Self {
        Self {
            group: subject.group.clone(),
            version: subject.version.clone(),
            resource: subject.resource.clone(),
        }
    }
}

/// A feature gate and its stage: `ALPHA`, `BETA`, nothing once it is stable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Feature {
    pub(super) name: &'static str,
    pub(super) stage: &'static str,
}

/// Requests by what they may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InFlight {
    pub(super) request_kind: &'static str,
}
