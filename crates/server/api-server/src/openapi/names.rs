//! The names of schemas.

use lazaret_kinds::{Kind, Served};
use lazaret_schema::{TypeId, builtin};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The name of a kind's schema.
pub(super) fn schema_name(kind: &Kind, served: &Served) -> String {
    match served.shape.builtin_name() {
        Some(shape) => shape_name(shape),
        None => {
            let mut parts: Vec<&str> = kind.group.split('.').collect();
            parts.reverse();
            format!("{}.{}.{}", parts.join("."), served.version, kind.kind)
        }
    }
}

/// The name of the schema of a kind's list.
pub(super) fn list_name(kind: &Kind, one: &str) -> String {
    let package = one.strip_suffix(&*kind.kind).unwrap_or(one);
    format!("{package}{}", kind.list_kind)
}

/// A kind of the table by group, version and name.
pub(super) fn shape_of(group: &str, version: &str, kind: &str) -> Option<(TypeId, String)> {
    let package = match group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    let shape = format!("{package}/{version}.{kind}");
    builtin().find(&shape).map(|id| (id, shape))
}

/// The name of the schema of such a kind.
pub(super) fn schema_of(group: &str, version: &str, kind: &str) -> Option<String> {
    shape_of(group, version, kind).map(|(_, shape)| shape_name(&shape))
}

/// `resource/v1.ResourceClaim` as `io.k8s.api.resource.v1.ResourceClaim`.
pub(super) fn shape_name(shape: &str) -> String {
    let (package, name) = shape.split_once('.').unwrap_or(("", shape));
    if package == "meta/v1" {
        return format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
    }
    if let Some(version) = package.strip_prefix("apiextensions/") {
        return format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{name}");
    }
    format!("io.k8s.api.{}.{name}", package.replace('/', "."))
}
