//! From a method and a path to what is asked for.

use http::Method;
use lazaret_kinds::Scope;
use percent_encoding::percent_decode_str;

use crate::{ApiError, query::Query};

/// A request for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty across namespaces and for the cluster.
    pub(crate) namespace: String,
    pub(crate) plural: String,
    /// Empty for a collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Target {
    /// Whether objects of this scope are found here: those of the cluster in no namespace, each of the others in one.
    pub(crate) fn fits(&self, scope: Scope) -> bool {
        match scope {
            Scope::Cluster => self.namespace.is_empty(),
            Scope::Namespaced => !self.namespace.is_empty() || self.name.is_empty(),
        }
    }
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Objects.
    Objects(Target),
    /// Objects to be watched, by a path of the time before `?watch=true`.
    Watch(Target),
    /// Anything else, without the leading slash.
    Other(String),
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// As authorization knows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    pub(crate) fn writes(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch => false,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection => true,
        }
    }

    pub(crate) fn of(method: &Method, target: &Target, query: &Query) -> Result<Self, ApiError> {
        let one = !target.name.is_empty();
        Ok(match *method {
            Method::GET if one => Self::Get,
            Method::GET if query.flag("watch") => Self::Watch,
            Method::GET => Self::List,
            Method::POST => Self::Create,
            Method::PUT if one => Self::Update,
            Method::PATCH if one => Self::Patch,
            Method::DELETE if one => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return Err(ApiError::method_not_allowed()),
        })
    }
}

impl Path {
    // DEVIATION(escaped-slash): a path is split before its parts are decoded.
    /// Reads a path. `/api/v1/…` and `/apis/GROUP/VERSION/…` lead to objects, if anything follows; `watch/` before the rest asks to
    /// watch them.
    pub(crate) fn parse(path: &str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let decoded: Vec<String> = path
            .strip_suffix('/')
            .unwrap_or(path)
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::Other(decoded.join("/")),
        };
        if decoded.iter().any(String::is_empty) {
            return Self::Other(decoded.join("/"));
        }
        let (path, rest): (fn(Target) -> Self, _) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (Self::Watch, rest),
            _ => (Self::Objects, rest),
        };
        let (namespace, rest) = match rest {
            // The subresources of a namespace itself.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", String::new()),
            [plural, name] => (*plural, *name, String::new()),
            [plural, name, subresource @ ..] => (*plural, *name, subresource.join("/")),
            [] => return Self::Other(decoded.join("/")),
        };
        path(Target {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            plural: plural.to_owned(),
            name: name.to_owned(),
            subresource,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> String {
        let text = |t: Target| {
            format!("{}|{}|{}|{}|{}|{}", t.group, t.version, t.namespace, t.plural, t.name, t.subresource)
        };
        match Path::parse(path) {
            Path::Objects(target) => text(target),
            Path::Watch(target) => format!("watch {}", text(target)),
            Path::Other(path) => format!("other {path}"),
        }
    }

    #[test]
    fn paths_lead_where_kubernetes_says() {
        for (path, expected) in [
            ("/api/v1/pods", "|v1||pods||"),
            ("/api/v1/namespaces/a/pods/b", "|v1|a|pods|b|"),
            ("/api/v1/namespaces/a/pods/b/status", "|v1|a|pods|b|status"),
            ("/api/v1/namespaces", "|v1||namespaces||"),
            ("/api/v1/namespaces/a", "|v1||namespaces|a|"),
            ("/api/v1/namespaces/a/finalize", "|v1||namespaces|a|finalize"),
            ("/apis/resource.k8s.io/v1/resourceslices/x%2Dy", "resource.k8s.io|v1||resourceslices|x-y|"),
            ("/apis/apps/v1/namespaces/a/deployments/b/scale", "apps|v1|a|deployments|b|scale"),
            ("/api/v1/watch/pods", "watch |v1||pods||"),
            ("/api/v1/watch/namespaces/a/pods/b", "watch |v1|a|pods|b|"),
            ("/api/v1/watch/namespaces/a", "watch |v1||namespaces|a|"),
            ("/apis/apps/v1/watch/namespaces/a/deployments", "watch apps|v1|a|deployments||"),
            ("/api/v1/watch", "|v1||watch||"),
            ("/api/v1", "other api/v1"),
            ("/apis/apps", "other apis/apps"),
            ("/healthz", "other healthz"),
            ("/api/v1/pods/", "|v1||pods||"),
            ("/api//v1/pods", "other api//v1/pods"),
            ("/api/v1//pods", "other api/v1//pods"),
            ("/api/v1/namespaces//pods", "other api/v1/namespaces//pods"),
            ("/api/v1/namespaces/a%2Fpods", "|v1||namespaces|a/pods|"),
            ("/", "other "),
        ] {
            assert_eq!(target(path), expected, "{path}");
        }
    }
}
