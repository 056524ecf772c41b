//! One object: which kind it is, and what it says.

use lazaret_model::{
    DeviceClass, DeviceTaintRule, Node, POD_GROUP_API, Pod, PodGroup, ResourceClaim, ResourceSlice,
    ResourceSlicePatch,
};

use crate::{
    convert::{self, ClaimTemplate, Version},
    field::{FieldError, Path},
    fields,
    wire::{self, Nullable, Place, Read, Trail},
};

/// An object of a kind that matters here, or the mention of one that does not.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// Devices that a driver publishes.
    Slice(ResourceSlice),
    /// A class of devices.
    Class(DeviceClass),
    /// A claim.
    Claim(ResourceClaim),
    /// A template of claims.
    Template(ClaimTemplate),
    /// A rule that taints.
    Rule(DeviceTaintRule),
    /// A patch of devices.
    Patch(ResourceSlicePatch),
    /// A pod.
    Pod(Pod),
    /// A group of pods.
    Group(PodGroup),
    /// A node.
    Node(Node),
    /// Anything else, by its kind.
    Other(String),
}

/// Reads one object from JSON.
///
/// # Errors
/// When it is not an object with `apiVersion` and `kind`, or when a field is wrong.
pub fn decode_json(text: &str) -> Result<Object, FieldError> {
    let header = Header::read(text)?;
    decode(&header, text)
}

fields! {
    /// The part that decides how the rest is read.
    pub(crate) struct Header {
        pub(crate) api_version: Nullable<String> = "apiVersion",
        pub(crate) kind: Nullable<String> = "kind",
        pub(crate) metadata: Nullable<Identity> = "metadata",
    }

    pub(crate) struct Identity {
        pub(crate) namespace: Nullable<String> = "namespace",
        pub(crate) name: Nullable<String> = "name",
    }
}

impl Header {
    pub(crate) fn read(text: &str) -> Result<Self, FieldError> {
        if !text.trim_start().starts_with('{') {
            return Err(Path::ROOT.error("is not an object"));
        }
        parse(text)
    }
}

pub(crate) fn decode(header: &Header, text: &str) -> Result<Object, FieldError> {
    let kind = header.kind.0.as_str();
    if kind.is_empty() {
        return Err(Path::ROOT.field("kind").error("is required"));
    }
    if header.api_version.0.is_empty() {
        return Err(Path::ROOT.field("apiVersion").error("is required"));
    }
    let (group, version) = header.api_version.0.rsplit_once('/').unwrap_or(("", &header.api_version.0));
    decode_as(group, version, kind, text)
}

/// Reads one object from JSON, whose version and kind are known already.
///
/// # Errors
/// When a field is wrong.
pub fn decode_as(group: &str, version: &str, kind: &str, text: &str) -> Result<Object, FieldError> {
    match (group, kind) {
        ("", "Pod") => Ok(Object::Pod(decode_pod(text)?)),
        ("", "Node") => Ok(Object::Node(convert::node(parse(text)?)?)),
        (POD_GROUP_API, "PodGroup") => Ok(Object::Group(convert::pod_group(parse(text)?)?)),
        ("resource.k8s.io", _) => decode_resource(kind, version, text),
        ("lazaret.dev", "DeviceTaintPolicy") => decode_superset("DeviceTaintRule", version, text),
        ("lazaret.dev", "DeviceTaintRule" | "ResourceSlicePatch") => decode_superset(kind, version, text),
        _ => Ok(Object::Other(kind.to_owned())),
    }
}

fn decode_pod(text: &str) -> Result<Pod, FieldError> {
    let wire::Pod { metadata, spec, status } = parse(text)?;
    let mut spec = spec.0;
    let node = std::mem::take(&mut spec.node_name.0);
    let template = convert::pod_template(&metadata.0, spec)?;
    convert::pod(metadata.0, node, &template, status.0)
}

fn decode_resource(kind: &str, version: &str, text: &str) -> Result<Object, FieldError> {
    use Version::{V1, V1Alpha3, V1Beta1, V1Beta2};
    let among = |versions: &[Version]| pick(kind, version, versions);
    match kind {
        "ResourceSlice" => {
            let version = among(&[V1, V1Beta2, V1Beta1, V1Alpha3])?;
            Ok(Object::Slice(convert::slice(parse(text)?, version)?))
        }
        "ResourceClaim" => Ok(Object::Claim(convert::claim(parse(text)?, among(&[V1, V1Beta2, V1Beta1])?)?)),
        "ResourceClaimTemplate" => {
            Ok(Object::Template(convert::template(parse(text)?, among(&[V1, V1Beta2, V1Beta1])?)?))
        }
        "DeviceClass" => {
            among(&[V1, V1Beta2, V1Beta1])?;
            Ok(Object::Class(convert::class(parse(text)?)?))
        }
        "DeviceTaintRule" => Ok(Object::Rule(convert::rule(parse(text)?, among(&[V1, V1Beta2, V1Alpha3])?)?)),
        "ResourceSlicePatch" => Ok(Object::Patch(convert::patch(parse(text)?, among(&[V1Alpha3])?)?)),
        _ => Ok(Object::Other(kind.to_owned())),
    }
}

/// Where the superset is offered as a custom resource, it has a group of its own.
fn decode_superset(kind: &str, version: &str, text: &str) -> Result<Object, FieldError> {
    match version {
        "v1alpha1" => decode_resource(kind, Version::V1Alpha3.name(), text),
        _ => Err(unknown_version(kind, version, "v1alpha1")),
    }
}

fn pick(kind: &str, name: &str, versions: &[Version]) -> Result<Version, FieldError> {
    versions.iter().copied().find(|version| version.name() == name).ok_or_else(|| {
        let known: Vec<_> = versions.iter().map(|version| version.name()).collect();
        unknown_version(kind, name, &known.join(", "))
    })
}

fn unknown_version(kind: &str, name: &str, known: &str) -> FieldError {
    Path::ROOT.field("apiVersion").error(format!("{kind} is not known in version {name}, only in {known}"))
}

impl Version {
    const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta2 => "v1beta2",
            Self::V1Beta1 => "v1beta1",
            Self::V1Alpha3 => "v1alpha3",
        }
    }
}

/// Reads an object, or says which field is wrong.
pub(crate) fn parse<T: Read + Default>(text: &str) -> Result<T, FieldError> {
    let mut value = T::default();
    if read_into(text, value.place()).is_err() {
        // The path is kept track of only when there is something to say about it: that costs more than reading.
        value = T::default();
        read_with_path(text, value.place())?;
    }
    Ok(value)
}

/// Reads a text whose errors are not reported.
pub(crate) fn parse_quietly<T: Read + Default>(text: &str) -> Option<T> {
    let mut value = T::default();
    read_into(text, value.place()).ok().map(|()| value)
}

/// Reads an object whose errors are not reported.
pub(crate) fn read_quietly<T: Read + Default>(json: &[u8]) -> Option<T> {
    parse_quietly(std::str::from_utf8(json).ok()?)
}

fn read_into(text: &str, place: Place<'_>) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    place.read(&mut deserializer, &mut Trail::default())?;
    deserializer.end()
}

fn read_with_path(text: &str, place: Place<'_>) -> Result<(), FieldError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut trail = Trail { is_kept: true, ..Trail::default() };
    place.read(&mut deserializer, &mut trail).map_err(|error| FieldError::at(&trail, &error))
}
