//! Orders of an administrator by `kubectl device fail`: an annotation of the Node, from device to taint.
//!
//! `{"gpu.example.com/gpu-3": {"effect": "NoExecute", "reason": "xid-79"}}`

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, WatchEvent, WatchParams};
use serde::Deserialize;
use tracing::{debug, warn};

use crate::faults::Order;

/// On a Node: which of its devices fail.
pub const FAIL_ANNOTATION: &str = "driver.lazaret.dev/fail";
/// Between two reads of the Node when it cannot be watched.
const READ_EVERY: Duration = Duration::from_secs(5);
/// A watch is opened anew after this.
const WATCH_SECONDS: u32 = 290;
/// Without a word for longer than a watch lasts, it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);
/// Devices that can be ordered to fail. An annotation has at most 256 KiB.
const ORDERS_MAX: usize = 4_096;
/// Effects that a taint can have.
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "no_execute")]
    effect: String,
    #[serde(default)]
    reason: String,
}

fn no_execute() -> String {
    EFFECTS[0].to_owned()
}

/// The orders for devices of this driver, by name.
///
/// # Errors
/// A sentence when the annotation is something else.
pub(crate) fn read(annotation: Option<&str>, driver: &str) -> Result<BTreeMap<String, Order>, String> {
    let text = annotation.unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let written: BTreeMap<String, Written> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if written.len() > ORDERS_MAX {
        return Err(format!("more than {ORDERS_MAX} devices"));
    }
    let mut orders = BTreeMap::new();
    for (device, Written { effect, reason }) in written {
        if !EFFECTS.contains(&effect.as_str()) {
            return Err(format!("{device}: {effect:?} is none of {}", EFFECTS.join(", ")));
        }
        let name = device.strip_prefix(driver).and_then(|rest| rest.strip_prefix('/'));
        orders.extend(name.map(|name| (name.to_owned(), Order { effect, reason })));
    }
    Ok(orders)
}

/// Hands on what the Node says, again and again. Never ends.
pub(crate) async fn follow(
    client: kube::Client,
    node: String,
    driver: String,
    order: impl Fn(BTreeMap<String, Order>) + Send,
) {
    let api: Api<Node> = Api::all(client);
    let hear = |node: &Node| {
        let annotation = node.metadata.annotations.as_ref().and_then(|all| all.get(FAIL_ANNOTATION));
        match read(annotation.map(String::as_str), &driver) {
            Ok(orders) => order(orders),
            Err(error) => warn!(error, "annotation {FAIL_ANNOTATION} cannot be understood"),
        }
    };
    loop {
        let version = match api.get(&node).await {
            Ok(object) => {
                hear(&object);
                object.metadata.resource_version.unwrap_or_default()
            }
            Err(error) => {
                debug!(%error, "read the Node");
                tokio::time::sleep(READ_EVERY).await;
                continue;
            }
        };
        let params = WatchParams::default().fields(&format!("metadata.name={node}")).timeout(WATCH_SECONDS);
        match api.watch(&params, &version).await {
            Ok(events) => {
                tokio::pin!(events);
                while let Ok(Some(event)) = tokio::time::timeout(SILENCE_MAX, events.next()).await {
                    match event {
                        Ok(WatchEvent::Added(node) | WatchEvent::Modified(node)) => hear(&node),
                        Ok(WatchEvent::Bookmark(_)) => {}
                        Ok(WatchEvent::Deleted(_) | WatchEvent::Error(_)) | Err(_) => break,
                    }
                }
            }
            Err(error) => debug!(%error, "watch the Node"),
        }
        tokio::time::sleep(READ_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_of_this_driver_and_mistakes_are_named() {
        let text = r#"{"gpu.example.com/gpu-1":{"reason":"fan"},"other.com/gpu-2":{"effect":"None"}}"#;
        let orders = read(Some(text), "gpu.example.com").unwrap();
        let order = Order { effect: "NoExecute".into(), reason: "fan".into() };
        assert_eq!(orders, [("gpu-1".to_owned(), order)].into());
        assert_eq!(read(None, "d"), Ok(BTreeMap::new()));
        for (text, part) in [
            ("[]", "invalid type"),
            (r#"{"d/a":{"effect":"Explode"}}"#, "none of NoExecute"),
            (r#"{"d/a":{"x":1}}"#, "unknown field"),
        ] {
            assert!(read(Some(text), "d").unwrap_err().contains(part), "{text}");
        }
    }
}
