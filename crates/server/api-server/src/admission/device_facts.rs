//! Facts from stored claims and slices about which claims hold devices.

use lazaret_holdings::{DeviceFacts, Given, SliceFacts};
use lazaret_json::Value;
use lazaret_model::{CounterConsumption, CounterSet, DeviceId, PoolId, Quantity, Text};

/// The results of an allocation in a claim.
pub(super) fn results(claim: &Value) -> &Value {
    &claim["status"]["allocation"]["devices"]["results"]
}

/// The devices that the results of an allocation give.
pub(super) fn given(results: &Value) -> Vec<Given> {
    let takes = |result: &&Value| result["adminAccess"] != true;
    let read = |result: &Value| Given {
        device: DeviceId {
            driver: text(&result["driver"]),
            pool: text(&result["pool"]),
            device: text(&result["device"]),
        },
        share: result["shareID"].as_str().map(Text::from),
        consumed: amounts(&result["consumedCapacity"], |amount| amount),
    };
    list(results).filter(takes).map(read).collect()
}

/// Facts from a slice about devices that several claims may hold, or that draw from counters; `None`: nothing.
pub(super) fn slice_facts(slice: &Value) -> Option<SliceFacts> {
    let spec = &slice["spec"];
    let facts = |device: &Value| {
        let consumption = |one: &Value| CounterConsumption {
            counter_set: text(&one["counterSet"]),
            counters: amounts(&one["counters"], |counter| &counter["value"]),
            compatibility_groups: Vec::new(),
        };
        let facts = DeviceFacts {
            is_shared: device["allowMultipleAllocations"] == true,
            capacity: amounts(&device["capacity"], |capacity| &capacity["value"]),
            consumes: list(&device["consumesCounters"]).map(consumption).collect(),
        };
        (facts.is_shared || !facts.consumes.is_empty()).then(|| (text(&device["name"]), facts))
    };
    let set = |set: &Value| CounterSet {
        name: text(&set["name"]),
        counters: amounts(&set["counters"], |counter| &counter["value"]),
    };
    let facts = SliceFacts {
        pool: PoolId { driver: text(&spec["driver"]), pool: text(&spec["pool"]["name"]) },
        node: spec["nodeName"].as_str().filter(|node| !node.is_empty()).map(Text::from),
        generation: spec["pool"]["generation"].as_i64().unwrap_or(0),
        devices: list(&spec["devices"]).filter_map(facts).collect(),
        counters: list(&spec["sharedCounters"]).map(set).collect(),
    };
    (!facts.devices.is_empty() || !facts.counters.is_empty()).then_some(facts)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Text {
    value.as_str().unwrap_or_default().into()
}

/// Amounts by name, in the order of names.
fn amounts(value: &Value, amount: impl Fn(&Value) -> &Value) -> Vec<(Text, Quantity)> {
    let fields = value.as_object().into_iter().flat_map(lazaret_json::Map::iter);
    let read = fields.filter_map(|(name, value)| {
        let parsed = Quantity::parse(amount(value).as_str()?).ok()?;
        Some((Text::from(name.as_str()), parsed))
    });
    let mut amounts: Vec<(Text, Quantity)> = read.collect();
    amounts.sort_by(|one, other| one.0.cmp(&other.0));
    amounts
}
