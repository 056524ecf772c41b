//! Fields that only v1alpha3 has, of an object that was read in another version: JSON in an annotation.

use lazaret_model::V1ALPHA3_FIELDS_ANNOTATION;
use serde::de::DeserializeOwned;

use super::{Result, Version};
use crate::{
    field::{FieldError, Path},
    wire,
};

/// The fields in the annotation, in their places in a spec.
pub(super) fn annotated<T: DeserializeOwned>(
    metadata: &wire::ObjectMeta,
    version: Version,
) -> Result<Option<T>> {
    let said =
        metadata.annotations.0.get(V1ALPHA3_FIELDS_ANNOTATION).filter(|_| version != Version::V1Alpha3);
    let parsed = said.map(|said| serde_json::from_str(&said.0)).transpose();
    parsed.map_err(|problem| error(&format!("is not what a server wrote: {problem}")))
}

/// Something is wrong with the annotation.
pub(super) fn error(why: &str) -> FieldError {
    let metadata = Path::ROOT.field("metadata");
    let annotations = metadata.field("annotations");
    annotations.key(V1ALPHA3_FIELDS_ANNOTATION).error(why)
}
