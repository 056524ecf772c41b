//! In words, the devices and taints that are kept for an object that cannot be read.

use std::fmt::Write as _;

use lazaret_model::{DeviceSelector, ResourceClaim};

use super::cautious::WhatIsKnown;
use crate::decode::Object;

/// Devices that are named at most.
const NAMED_MAX: usize = 16;

/// Says which device is kept for which object while that cannot be read.
#[must_use]
pub fn kept_in_words(kind: &str, name: &str, known: Option<&WhatIsKnown>) -> String {
    match known.map(|known| &known.object) {
        Some(Object::Claim(claim)) => of_claim(claim),
        Some(Object::Rule(rule)) => {
            let devices = rule.selector.as_ref().map_or_else(|| "no device".to_owned(), selected);
            format!("its last good version if one was read, else the taint {} on {devices}", rule.taint)
        }
        Some(Object::Patch(patch)) => {
            let devices = patch.selector.as_ref().map_or_else(|| "no device".to_owned(), selected);
            let count = patch.patch.taints.len();
            format!("its last good version if one was read, else {count} taints on {devices}")
        }
        Some(Object::Slice(slice)) => format!(
            "its last good version if one was read, else {} devices of pool {}, for the claims that hold them and for no others",
            slice.devices.len(),
            slice.pool_id()
        ),
        Some(Object::Class(_)) => {
            "its last good version if one was read; without one no claim is allocated by it".to_owned()
        }
        Some(Object::Pod(pod)) => {
            let node = pod.node.as_ref().map_or_else(String::new, |node| format!(" on node {node}"));
            format!("its last good version if one was read, else the claims and the room that it has{node}")
        }
        Some(Object::Node(_)) => {
            "its last good version if one was read, else what can be read of it".to_owned()
        }
        Some(Object::Template(_) | Object::Group(_) | Object::Other(_)) | None => {
            format!("the last good version of {kind} {name} if one was read, else nothing")
        }
    }
}

fn of_claim(claim: &ResourceClaim) -> String {
    let results = claim.allocation.as_ref().map_or(&[][..], |allocation| &allocation.results);
    let Some(first) = results.first() else {
        return format!("claim {} gets no device while it cannot be read", claim.key);
    };
    let mut text = format!("device {}", first.device);
    for result in results.iter().skip(1).take(NAMED_MAX - 1) {
        // Writing to a String does not fail.
        let _ = write!(text, ", {}", result.device);
    }
    if results.len() > NAMED_MAX {
        let _ = write!(text, " and {} more", results.len() - NAMED_MAX);
    }
    format!("{text} for claim {}", claim.key)
}

fn selected(selector: &DeviceSelector) -> String {
    if selector.selects_everything() {
        return "every device".to_owned();
    }
    let name =
        |name: &Option<lazaret_model::Text>| name.as_ref().map_or("*", |name| name.as_str()).to_owned();
    let names = [&selector.driver, &selector.pool, &selector.device].map(name).join("/");
    if selector.by_names_only() {
        format!("devices {names}")
    } else {
        format!("devices {names} that it selects")
    }
}
