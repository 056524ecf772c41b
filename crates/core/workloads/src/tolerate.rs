//! Which taints of a node a pod tolerates.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::prelude::*;

/// Whether a toleration fits a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let effect = set(&toleration.effect).is_none_or(|effect| effect == taint.effect);
    let key = set(&toleration.key).is_none_or(|key| key == taint.key);
    let (own, its) =
        (toleration.value.as_deref().unwrap_or_default(), taint.value.as_deref().unwrap_or_default());
    let value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => own == its,
        Some(_) => false,
    };
    effect && key && value
}
