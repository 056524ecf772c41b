//! Assumptions about the parts of an object that cannot be read.

use std::sync::Arc;

use lazaret_model::{
    Consumer, Device, DeviceClass, DevicePatch, DeviceSelector, DeviceTaintRule, Effect, NodeScope, Request,
    RequestKind, ResourceClaim, ResourceSlice, ResourceSlicePatch, Taint, Text, Toleration,
    TolerationOperator, V1ALPHA3_ONLY_DRIVER,
};
use serde_json::Value;

use crate::decode::Object;

/// The key of a taint whose own cannot be read, and the name of a request, a user of a claim and what else must be named.
const UNREADABLE: &str = "lazaret.dev/unreadable";
const RESULTS: &str = "status.allocation.devices.results";

/// The readable part of an object that cannot be decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIsKnown {
    /// The object without the parts that cannot be read.
    pub object: Object,
    /// It says all that the object holds, and says it newer than any version before: true of a claim whose devices and users were all read.
    pub says_what_is_held: bool,
}

/// The object with what is assumed of the parts that were lost. `whole` is the object as it was written.
pub(super) fn cautious(object: Object, lost: &[String], whole: &Value) -> Option<WhatIsKnown> {
    let known = |object| Some(WhatIsKnown { object, says_what_is_held: false });
    match object {
        Object::Claim(claim) => Some(self::claim(claim, lost)),
        Object::Rule(rule) => known(Object::Rule(self::rule(rule, lost, whole))),
        Object::Patch(patch) => known(Object::Patch(self::patch(patch, whole))),
        Object::Slice(slice) => known(Object::Slice(self::slice(slice, whole))),
        Object::Class(class) => known(Object::Class(self::class(class, lost))),
        Object::Pod(_) | Object::Node(_) => known(object),
        // Claims are made from a template, and pods are placed by a group, only when all of it can be read.
        Object::Template(_) | Object::Group(_) | Object::Other(_) => None,
    }
}

/// A rule or a patch of which no part can be decoded: its name, and the names of devices that it selects.
pub(super) fn bare(kind: &str, whole: &Value) -> Option<WhatIsKnown> {
    let name: Text = whole["metadata"]["name"].as_str().filter(|name| !name.is_empty())?.into();
    let uid: Text = whole["metadata"]["uid"].as_str().unwrap_or_default().into();
    let object = match kind {
        "DeviceTaintRule" | "DeviceTaintPolicy" => Object::Rule(DeviceTaintRule {
            name,
            uid,
            selector: selector(&whole["spec"]["deviceSelector"]),
            taint: taint(&whole["spec"]["taint"]),
            ..DeviceTaintRule::default()
        }),
        "ResourceSlicePatch" => {
            let devices = &whole["spec"]["devices"];
            let said =
                [&devices["filter"], &devices["deviceSelector"]].into_iter().find(|said| !said.is_null());
            Object::Patch(ResourceSlicePatch {
                name,
                uid,
                selector: said.and_then(selector),
                patch: DevicePatch { taints: taints(whole), ..DevicePatch::default() },
                ..ResourceSlicePatch::default()
            })
        }
        _ => return None,
    };
    Some(WhatIsKnown { object, says_what_is_held: false })
}

/// Whether a part was lost, or something in it, or what it is in.
fn is_lost(lost: &[String], part: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    lost.iter().any(|lost| within(lost, part) || within(part, lost))
}

/// A claim that asks for something that is not known gets no device. A toleration that cannot be read tolerates, and a user that cannot be read
/// uses the claim.
fn claim(mut claim: ResourceClaim, lost: &[String]) -> WhatIsKnown {
    let mut spec = (*claim.spec).clone();
    spec.requests.push(Request { name: UNREADABLE.into(), kind: RequestKind::Unknown });
    claim.spec = Arc::new(spec);
    if is_lost(lost, &format!("{RESULTS}.tolerations"))
        && let Some(allocation) = &mut claim.allocation
    {
        let everything = || Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
        let results = Arc::make_mut(allocation).results.iter_mut();
        results.for_each(|result| result.tolerations.push(everything()));
    }
    let users_lost = is_lost(lost, "status.reservedFor");
    if users_lost {
        claim.reserved_for.push(Consumer {
            api_group: "lazaret.dev".into(),
            resource: "unreadable".into(),
            name: UNREADABLE.into(),
            uid: UNREADABLE.into(),
        });
    }
    // Of an item that is missing only the list is named.
    let devices_lost = ["status.allocation", "status.allocation.devices", RESULTS]
        .iter()
        .any(|part| lost.iter().any(|lost| lost == part));
    let says_what_is_held = !devices_lost && !users_lost && !lost.iter().any(|lost| lost == "status");
    WhatIsKnown { object: Object::Claim(claim), says_what_is_held }
}

/// A rule keeps devices from being given out. It evicts nobody while it cannot be read, and what narrows it and cannot be read narrows it no
/// more.
fn rule(mut rule: DeviceTaintRule, lost: &[String], whole: &Value) -> DeviceTaintRule {
    rule.taint = without_eviction(rule.taint);
    if is_lost(lost, "spec.taint") {
        rule.taint = taint(&whole["spec"]["taint"]);
    }
    if rule.selector.is_none() {
        rule.selector = selector(&whole["spec"]["deviceSelector"]);
    }
    rule
}

fn patch(mut patch: ResourceSlicePatch, whole: &Value) -> ResourceSlicePatch {
    let devices = &whole["spec"]["devices"];
    if patch.selector.is_none() {
        let said = [&devices["filter"], &devices["deviceSelector"]].into_iter().find(|said| !said.is_null());
        patch.selector = said.and_then(selector);
    }
    let read = patch.patch.taints.into_iter().map(without_eviction);
    let read: Vec<Taint> = read.collect();
    let said = taints(whole);
    patch.patch.taints = if read.len() < said.len() { said } else { read };
    patch
}

/// Devices of a slice are there, and not given out: where they can be reached is taken as not known. Names in it that were lost are devices, too.
fn slice(mut slice: ResourceSlice, whole: &Value) -> ResourceSlice {
    slice.nodes = NodeScope::Unknown;
    let named = whole["spec"]["devices"].as_array().into_iter().flatten();
    for name in named.filter_map(|device| device["name"].as_str()).filter(|name| !name.is_empty()) {
        if !slice.devices.iter().any(|device| *device.name == *name) {
            slice.devices.push(Device { name: name.into(), ..Device::default() });
        }
    }
    slice
}

/// A class whose selectors or configuration cannot be read has a selector of a kind that is not known, and gives out no device.
fn class(mut class: DeviceClass, lost: &[String]) -> DeviceClass {
    if is_lost(lost, "spec") {
        class.selectors.push(None);
    }
    class
}

/// The names that a selector has and that can be read; `None` where there is no selector.
fn selector(said: &Value) -> Option<DeviceSelector> {
    if said.is_null() {
        return None;
    }
    let name = |field: &str| {
        said[field].as_str().filter(|name| !name.is_empty() && *name != V1ALPHA3_ONLY_DRIVER).map(Text::from)
    };
    Some(DeviceSelector {
        driver: name("driver"),
        pool: name("pool"),
        device: name("device"),
        ..DeviceSelector::default()
    })
}

/// All taints that a patch has, as far as each can be read.
fn taints(whole: &Value) -> Vec<Taint> {
    whole["spec"]["devices"]["taints"].as_array().into_iter().flatten().map(taint).collect()
}

fn taint(said: &Value) -> Taint {
    let text = |field: &str| said[field].as_str().unwrap_or_default();
    let key = if text("key").is_empty() { UNREADABLE } else { text("key") };
    let effect = if text("effect") == "None" { Effect::None } else { Effect::NoSchedule };
    Taint { key: key.into(), value: text("value").into(), effect, ..Taint::default() }
}

fn without_eviction(taint: Taint) -> Taint {
    let effect = if taint.effect.evicts() { Effect::NoSchedule } else { taint.effect };
    Taint { effect, ..taint }
}
