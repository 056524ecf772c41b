//! Helpers that the tests of this crate share.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod api;
pub mod rig;

use serde_json::{Value, json};

/// A pod template with one container.
pub fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
    })
}

/// A replica set.
pub fn replica_set(name: &str, replicas: u64) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    })
}
