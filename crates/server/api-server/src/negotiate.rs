//! Which form a client wants, and which form it sends.

use crate::ApiError;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Objects as they are.
    Json,
    /// A table, as `kubectl get` prints it.
    Table,
    /// Metadata alone.
    Metadata,
    /// Discovery in one piece.
    AggregatedDiscovery,
}

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
    Protobuf,
    JsonPatch,
    MergePatch,
    StrategicMergePatch,
    ApplyPatch,
}

// DEVIATION(json-answers): one form of answer; all clients take it.
const ANSWERS: &str = "application/json";
const BODIES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const PATCHES: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

/// The patches that a defined kind takes: how its lists would be merged is not known.
pub(crate) const PATCHES_OF_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// The first form in order of preference that can be served; clauses that cannot are passed over.
pub(crate) fn accept(header: Option<&str>) -> Result<Form, ApiError> {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else { return Ok(Form::Json) };
    let mut clauses: Vec<(u32, Clause<'_>)> = header.split(',').map(clause).collect();
    // A stable sort keeps the client's order among equals.
    clauses.sort_by_key(|(quality, _)| std::cmp::Reverse(*quality));
    clauses.iter().find_map(|(_, clause)| clause.form()).ok_or_else(|| ApiError::not_acceptable(ANSWERS))
}

/// The form of a body that is an object.
pub(crate) fn body(header: Option<&str>) -> Result<Media, ApiError> {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else { return Ok(Media::Json) };
    match essence(header) {
        "application/json" => Ok(Media::Json),
        "application/yaml" | "application/x-yaml" => Ok(Media::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Media::Protobuf),
        _ => Err(ApiError::unsupported_media_type(BODIES)),
    }
}

/// The form of a body that is a patch.
pub(crate) fn patch(header: Option<&str>) -> Result<Media, ApiError> {
    match essence(header.unwrap_or_default()) {
        "application/json-patch+json" => Ok(Media::JsonPatch),
        "application/merge-patch+json" => Ok(Media::MergePatch),
        "application/strategic-merge-patch+json" => Ok(Media::StrategicMergePatch),
        "application/apply-patch+yaml" => Ok(Media::ApplyPatch),
        _ => Err(ApiError::unsupported_media_type(PATCHES)),
    }
}

fn essence(header: &str) -> &str {
    header.split(';').next().unwrap_or_default().trim()
}

struct Clause<'a> {
    media: &'a str,
    transform: &'a str,
    group: &'a str,
    version: &'a str,
}

fn clause(text: &str) -> (u32, Clause<'_>) {
    let mut parts = text.split(';').map(str::trim);
    let mut clause =
        Clause { media: parts.next().unwrap_or_default(), transform: "", group: "", version: "" };
    let mut quality = 1000;
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key.trim() {
            "as" => clause.transform = value,
            "g" => clause.group = value,
            "v" => clause.version = value,
            "q" => quality = thousandths(value),
            _ => {}
        }
    }
    (quality, clause)
}

/// `0.5` as 500, without floating point.
fn thousandths(text: &str) -> u32 {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let value = whole.parse::<u32>().unwrap_or(0).saturating_mul(1000) + digits.parse::<u32>().unwrap_or(0);
    value.min(1000)
}

impl Clause<'_> {
    fn form(&self) -> Option<Form> {
        if !matches!(self.media, "application/json" | "*/*" | "application/*") {
            return None;
        }
        match (self.transform, self.group, self.version) {
            ("", _, _) => Some(Form::Json),
            ("Table", "meta.k8s.io", "v1") => Some(Form::Table),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                Some(Form::Metadata)
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Form::AggregatedDiscovery),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_best_form_that_is_served() {
        for (header, expected) in [
            (None, Ok(Form::Json)),
            (Some("*/*"), Ok(Form::Json)),
            (Some("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Json)),
            (Some("application/vnd.kubernetes.protobuf, */*"), Ok(Form::Json)),
            (
                Some(
                    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                ),
                Ok(Form::Table),
            ),
            (Some("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"), Ok(Form::Json)),
            (
                Some(
                    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                ),
                Ok(Form::Metadata),
            ),
            (
                Some("application/json;q=0.5,application/json;as=Table;g=meta.k8s.io;v=v1;q=0.9"),
                Ok(Form::Table),
            ),
            (Some("text/html"), Err(406)),
        ] {
            assert_eq!(accept(header).map_err(|error| error.code), expected, "{header:?}");
        }
    }
}
