//! From the wire to the model: defaults filled in, required fields and unions checked, every error with its path.

mod claim;
mod core;
mod from_wire;
mod limits;
mod meta;
mod own;
mod pod;
mod pod_amounts;
mod pod_spec;
mod rule;
mod slice;
mod superset;

use lazaret_model::Text;

use crate::field::{FieldError, Path};

pub(crate) use self::{
    claim::{claim, class, template},
    core::{node, pod_group},
    from_wire::{FromWire, named},
    meta::node_selector,
    pod::{pod, pod_template},
    rule::{eviction, patch, rule, selector},
    slice::{attribute_of, capacity_of, slice},
};
pub use claim::ClaimTemplate;
pub use pod::PodTemplate;

type Result<T> = std::result::Result<T, FieldError>;

/// The version of the API that an object is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V1Beta2,
    V1Beta1,
    /// The superset: rules by class and expression, pace, description and data of taints, slices of taints, patches.
    V1Alpha3,
}

impl Version {
    /// Refuses a field that only the superset has.
    ///
    /// DEVIATION(superset-fields): Kubernetes would drop it, and a rule without its restriction reaches devices that
    /// its author did not mean.
    fn superset_only(self, path: &Path<'_>) -> Result<()> {
        match self {
            Self::V1Alpha3 => Ok(()),
            Self::V1 | Self::V1Beta2 | Self::V1Beta1 => {
                Err(path.error("only exists in resource.k8s.io/v1alpha3: write that apiVersion to use it"))
            }
        }
    }
}

fn required(text: String, path: &Path<'_>) -> Result<Text> {
    if text.is_empty() { Err(path.error("is required")) } else { Ok(text.into()) }
}

fn some<T>(value: Option<T>, path: &Path<'_>) -> Result<T> {
    value.ok_or_else(|| path.error("is required"))
}

fn texts(list: Vec<String>) -> Vec<Text> {
    list.into_iter().map(Text::from).collect()
}

fn non_empty(text: String) -> Option<Text> {
    (!text.is_empty()).then(|| text.into())
}

/// Converts each item, with its place in the path.
fn each<W, M>(items: Vec<W>, path: &Path<'_>, convert: impl Fn(W, &Path<'_>) -> Result<M>) -> Result<Vec<M>> {
    items.into_iter().enumerate().map(|(at, item)| convert(item, &path.index(at))).collect()
}

/// Converts each value of a map, in the order of the keys.
fn each_value<W, M>(
    items: impl IntoIterator<Item = (String, W)>,
    path: &Path<'_>,
    convert: impl Fn(W, &Path<'_>) -> Result<M>,
) -> Result<Vec<(Text, M)>> {
    items
        .into_iter()
        .map(|(key, value)| {
            let value = convert(value, &path.key(&key))?;
            Ok((key.into(), value))
        })
        .collect()
}
