//! Cells that several kinds have.

use lazaret_json::Value;

use crate::{
    check::selector_text,
    value::{list, text},
};

/// Names of the containers, their images, and the selector.
pub(super) fn wide(spec: &Value) -> Vec<Value> {
    let mut cells = containers(&spec["template"]["spec"]);
    cells.push(selector_text(&spec["selector"]).into());
    cells
}

/// Names of the containers and their images.
pub(super) fn containers(pod: &Value) -> Vec<Value> {
    let joined = |field: &str| {
        list(pod, "containers").iter().map(|container| text(container, field)).collect::<Vec<_>>().join(",")
    };
    vec![joined("name").into(), joined("image").into()]
}
