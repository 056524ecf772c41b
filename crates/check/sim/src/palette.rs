//! The few names, taints, tolerations and expressions that worlds are made of. Few, so that things collide.
//!
//! Every expression that a world uses is listed here together with what it means, so that the reference can judge
//! selectors without an evaluator of expressions.

use std::{cell::RefCell, sync::Arc};

use hashbrown::HashMap;
use lazaret_model::{
    AttrValue, CapacityMode, CapacityValue, DevicePatch, DeviceSelector, Effect, EvictionMode,
    EvictionPreference, EvictionSpec, GroupMode, Quantity, ResourceSlice, Taint, Text, Timestamp, Toleration,
    TolerationOperator, Window,
};
use rustc_hash::FxBuildHasher;

/// The drivers. Every node has a pool of each.
pub const DRIVERS: [&str; 2] = ["gpu.example.com", "nic.example.com"];
/// The classes, one per driver and one by attribute.
pub const CLASSES: [&str; 3] = ["gpu", "nic", "big-gpu"];
/// In wide worlds: the driver of devices that every node reaches, and the name of its one pool and of its class.
pub const FABRIC_DRIVER: &str = "fabric.example.com";
/// See [`FABRIC_DRIVER`].
pub const FABRIC: &str = "fabric";
/// The capacity of a fabric device that is allocated in shares.
pub const BANDWIDTH: &str = "bandwidth";
/// How much of it a device has.
pub const BANDWIDTH_MAX: i64 = 10;
/// The attribute that identifies the hardware of a device.
pub const IDENTITY: &str = "uuid";
/// Where pods live.
pub const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
/// How many rules, and how many patches, exist at most at a time.
pub const NAMES: u32 = 6;

/// The keys of taints.
pub const KEYS: [&str; 3] = ["broken.example.com/ecc", "broken.example.com/link", "maintenance"];

/// The meaning of an expression, in Rust.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// The driver has this name.
    Driver(&'static str),
    /// The model is this one; an error where there is no model.
    Model(&'static str),
    /// The index is below this; an error where there is no index.
    IndexBelow(i64),
    /// The serial number is this one; no driver publishes one, so an error unless a patch gives it.
    Serial(&'static str),
    /// There is at least so much memory; an error where none is stated.
    MemoryAtLeast(i64),
    /// No expression at all: does not compile.
    Broken,
}

/// Expressions and their meaning.
pub const EXPRESSIONS: [(&str, Meaning); 8] = [
    (r#"device.driver == "gpu.example.com""#, Meaning::Driver("gpu.example.com")),
    (r#"device.driver == "nic.example.com""#, Meaning::Driver("nic.example.com")),
    (r#"device.attributes["gpu.example.com"].model == "big""#, Meaning::Model("big")),
    (r#"device.attributes["gpu.example.com"].model == "small""#, Meaning::Model("small")),
    (r#"device.attributes["gpu.example.com"].index < 2"#, Meaning::IndexBelow(2)),
    (r#"device.attributes["gpu.example.com"].serial == "7""#, Meaning::Serial("7")),
    (r"device.attributes[", Meaning::Broken),
    (
        r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40")) >= 0"#,
        Meaning::MemoryAtLeast(40),
    ),
];
/// Those that worlds which are not wide draw from.
const NARROW_EXPRESSIONS: u32 = 7;

/// The properties of a device that an expression can read.
pub trait Traits {
    /// The driver that publishes it.
    fn driver(&self) -> &str;
    /// An attribute by domain and name.
    fn attribute(&self, domain: &str, name: &str) -> Option<&AttrValue>;
    /// A capacity by domain and name.
    fn capacity(&self, domain: &str, name: &str) -> Option<&CapacityValue>;
}

/// Whether the expression does not compile.
#[must_use]
pub fn is_broken(expression: &str) -> bool {
    EXPRESSIONS.iter().any(|(text, meaning)| *text == expression && matches!(meaning, Meaning::Broken))
}

/// Whether the expression holds for a device; `None` is an error.
#[must_use]
pub fn holds(expression: &str, device: &impl Traits) -> Option<bool> {
    let (_, meaning) = EXPRESSIONS.iter().find(|(text, _)| *text == expression)?;
    let text = |name: &str, wanted: &str| match device.attribute(DRIVERS[0], name) {
        Some(AttrValue::String(text)) => Some(*text == *wanted),
        _ => None,
    };
    match meaning {
        Meaning::Driver(wanted) => Some(device.driver() == *wanted),
        Meaning::Model(wanted) => text("model", wanted),
        Meaning::Serial(wanted) => text("serial", wanted),
        Meaning::IndexBelow(bound) => match device.attribute(DRIVERS[0], "index") {
            Some(AttrValue::Int(index)) => Some(index < bound),
            _ => None,
        },
        Meaning::MemoryAtLeast(least) => {
            device.capacity(DRIVERS[0], "memory").map(|memory| memory.value >= Quantity::from_i64(*least))
        }
        Meaning::Broken => None,
    }
}

/// The variant of a class whose expression is none.
pub const BROKEN: u32 = 3;

/// The expressions of a class.
#[must_use]
pub fn class_selectors(class: usize, variant: u32) -> Vec<Option<Text>> {
    let expression = match (class % CLASSES.len(), variant % 4) {
        (_, BROKEN) => EXPRESSIONS[6].0,
        (0, _) => EXPRESSIONS[0].0,
        (1, _) => EXPRESSIONS[1].0,
        (_, 0 | 1) => EXPRESSIONS[2].0,
        (_, _) => EXPRESSIONS[4].0,
    };
    vec![Some(expression.into())]
}

/// The driver whose devices a class is for, as requests use it.
#[must_use]
pub fn driver_of_class(class: &str) -> &'static str {
    match class {
        FABRIC => FABRIC_DRIVER,
        nic if nic == CLASSES[1] => DRIVERS[1],
        _ => DRIVERS[0],
    }
}

/// The place of a class among those that pods ask for.
#[must_use]
pub fn class_number(class: &str) -> usize {
    CLASSES.iter().position(|known| *known == class).unwrap_or(CLASSES.len())
}

/// Whether a key of a driver's device is this name of this domain: with the domain, or alone if the driver is the domain.
#[must_use]
pub fn is_key(driver: &str, key: &str, domain: &str, name: &str) -> bool {
    // Lengths tell most keys apart.
    match key.len().checked_sub(name.len()) {
        Some(0) => key == name && driver == domain,
        Some(before) if before == domain.len() + 1 => {
            key.split_once('/').is_some_and(|(of, rest)| of == domain && rest == name)
        }
        Some(_) | None => false,
    }
}

/// A number of the palette as an index.
fn index(number: u32, length: usize) -> usize {
    number as usize % length
}

/// A taint by number, set at `at`. Most evict; some only keep away, some do nothing, some come from the future.
#[must_use]
pub fn taint(number: u32, at: Timestamp) -> Taint {
    Taint {
        key: KEYS[index(number, 3)].into(),
        value: if (number / 3).is_multiple_of(3) { "v1".into() } else { Text::default() },
        effect: effect(number / 9),
        time_added: Some(
            match (number / 45) % 8 {
                0 => at.plus_secs(-20),
                1 => at.plus_secs(4),
                _ => at,
            }
            .truncated_to_secs(),
        ),
        evictions_per_second: None,
        description: None,
        eviction: None,
    }
}

/// An effect by number: two in five do not evict.
#[must_use]
pub fn effect(number: u32) -> Effect {
    match number % 5 {
        0 => Effect::None,
        1 => Effect::NoSchedule,
        2 | 3 => Effect::NoExecute,
        _ if number.is_multiple_of(25) => Effect::Unknown("NoExecuteGently".into()),
        _ => Effect::NoExecute,
    }
}

/// A pace by number.
#[must_use]
pub fn pace(number: u32) -> Option<i64> {
    [None, Some(1), Some(2), Some(5), Some(20)][index(number, 5)]
}

/// How pods leave because of a rule, by number. Some rules say nothing.
#[must_use]
pub fn eviction(number: u32, now: Timestamp) -> Option<Arc<EvictionSpec>> {
    let mode = match number % 5 {
        0 => return None,
        1 => EvictionMode::Delete,
        2 | 3 => EvictionMode::Evict,
        _ => EvictionMode::EvictThenDelete,
    };
    let deadline = (mode == EvictionMode::EvictThenDelete || number.is_multiple_of(2))
        .then_some([0, 5, 15, 40][index(number / 5, 4)]);
    let max_concurrent = [None, Some(1), Some(2), Some(5)][index(number / 20, 4)];
    let expires_at = match number / 80 % 4 {
        0 => Some(now.plus_secs(i64::from(number / 320 % 30)).truncated_to_secs()),
        _ => None,
    };
    let windows = if (number / 7).is_multiple_of(5) { vec![window(number / 64)] } else { Vec::new() };
    let groups = if (number / 11).is_multiple_of(3) { GroupMode::Together } else { GroupMode::Apart };
    let capacity = if (number / 13).is_multiple_of(3) { CapacityMode::Wait } else { CapacityMode::Ignore };
    let capacity_timeout_seconds = [None, None, Some(0), Some(12)][index(number / 39, 4)];
    let mut spec =
        EvictionSpec { mode, max_concurrent, windows, groups, capacity, ..EvictionSpec::default() };
    spec.deadline_seconds = deadline;
    spec.expires_at = expires_at;
    spec.capacity_timeout_seconds = capacity_timeout_seconds.filter(|_| capacity == CapacityMode::Wait);
    Some(Arc::new(spec))
}

/// A window by number. Worlds begin at 22:13:20 UTC and last a minute or two.
#[must_use]
pub fn window(number: u32) -> Window {
    Window {
        weekday: None,
        minute: u16::try_from(22 * 60 + 13 + number % 3).unwrap_or(0),
        seconds: 20,
        offset_seconds: 0,
        zone: None,
    }
}

/// A window that no world lives to see open.
#[must_use]
pub fn closed_window() -> Window {
    Window { minute: 12 * 60, ..window(0) }
}

/// The eviction setting of a pod: most have none. By its UID, so that worlds draw nothing for it.
#[must_use]
pub fn say(uid: &Text) -> Option<EvictionPreference> {
    match uid.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 7 {
        0 => Some(EvictionPreference::AllowCompletion),
        1 => Some(EvictionPreference::Seconds(7)),
        2 => Some(EvictionPreference::Immediate),
        _ => None,
    }
}

/// Whether the pods of a workload have a label by which they leave together. By its name, so that worlds draw nothing for it.
#[must_use]
pub fn is_grouped(workload: &Text) -> bool {
    workload.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 3 == 0
}

/// A selector by number. Kind and target are drawn apart so that an edit can change one.
#[must_use]
pub fn selector(number: u32, nodes: u32, devices: u32, wide: bool) -> Option<DeviceSelector> {
    let target = number / 16;
    let fabric = wide && target % 5 == 4;
    let driver = Some(Text::from(if fabric { FABRIC_DRIVER } else { DRIVERS[index(target, 2)] }));
    let pool = Some(if fabric { FABRIC.into() } else { node(target % nodes.max(1)) });
    let named = Some(device(target / 2 % devices.max(1)));
    let expressions = if wide { EXPRESSIONS.len() } else { NARROW_EXPRESSIONS as usize };
    let cel = |expression: usize| vec![Text::from(EXPRESSIONS[expression].0)];
    let none = DeviceSelector::default();
    match number % 16 {
        0 => None,
        1 => Some(none),
        2 | 3 => Some(DeviceSelector { driver, ..none }),
        4..=6 => Some(DeviceSelector { pool, ..none }),
        7..=9 => Some(DeviceSelector { driver, pool, device: named, ..none }),
        10 => Some(DeviceSelector { device: named, ..none }),
        11 => Some(DeviceSelector { class: Some(CLASSES[index(target, 3)].into()), ..none }),
        12 => Some(DeviceSelector { cel: cel(index(target, expressions)), ..none }),
        13 => Some(DeviceSelector { pool, cel: cel(2), ..none }),
        14 => Some(DeviceSelector { class: Some(CLASSES[2].into()), cel: cel(4), driver, ..none }),
        _ => Some(DeviceSelector { cel: cel(3), ..none }),
    }
}

/// The values of a patch, by number, apart from its taints: attributes and capacities given, changed and taken away, by keys with and without their
/// domain.
#[must_use]
pub fn values(number: u32) -> DevicePatch {
    let text = |value: &str| Some(AttrValue::String(value.into()));
    let amount = |value: i64| Some(CapacityValue { value: Quantity::from_i64(value), policy: None });
    let attributes = match number % 7 {
        0 => vec![("model", text("big"))],
        1 => vec![("gpu.example.com/model", text("small"))],
        2 => vec![("model", None)],
        3 => vec![("gpu.example.com/serial", text("7")), ("index", Some(AttrValue::Int(1)))],
        4 => vec![("gpu.example.com/index", None), ("model", text("big"))],
        5 => vec![("index", Some(AttrValue::Int(9))), ("serial", text("8"))],
        _ => Vec::new(),
    };
    let capacity = match number / 7 % 5 {
        0 => vec![("memory", amount(80))],
        1 => vec![("gpu.example.com/memory", amount(10))],
        2 => vec![("memory", None)],
        _ => Vec::new(),
    };
    DevicePatch {
        attributes: attributes.into_iter().map(|(key, value)| (key.into(), value)).collect(),
        capacity: capacity.into_iter().map(|(key, value)| (key.into(), value)).collect(),
        ..DevicePatch::default()
    }
}

/// The tolerations of a claim, by number. Half have none.
#[must_use]
pub fn tolerations(number: u32) -> Vec<Toleration> {
    let finite = |seconds: i64, effect| Toleration {
        operator: TolerationOperator::Exists,
        effect,
        seconds: Some(seconds),
        ..Toleration::default()
    };
    let seconds = [2, 5, 11, 30, -3, i64::MAX][index(number / 12, 6)];
    match number % 12 {
        0 => vec![finite(seconds, Some(Effect::NoExecute))],
        1 => vec![finite(seconds, None)],
        2 => vec![finite(40, Some(Effect::NoExecute)), finite(seconds, None)],
        3 => vec![Toleration {
            key: KEYS[0].into(),
            operator: TolerationOperator::Exists,
            ..Toleration::default()
        }],
        4 => vec![
            Toleration { key: KEYS[0].into(), value: "v1".into(), ..Toleration::default() },
            finite(seconds, Some(Effect::NoExecute)),
        ],
        5 => vec![Toleration {
            operator: TolerationOperator::Exists,
            effect: Some(Effect::NoSchedule),
            ..Toleration::default()
        }],
        _ => Vec::new(),
    }
}

thread_local! {
    /// Names that every world uses over and over: made once for all worlds of a thread, for a clone costs less.
    static NODES: RefCell<Vec<Text>> = const { RefCell::new(Vec::new()) };
    static DEVICES: RefCell<Vec<Text>> = const { RefCell::new(Vec::new()) };
    /// By address: each is written once in the program.
    static WORDS: RefCell<HashMap<(usize, usize), Text, FxBuildHasher>> = RefCell::default();
    /// Where texts are put together.
    static DRAFT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A text made of parts.
#[must_use]
pub fn text(parts: core::fmt::Arguments<'_>) -> Text {
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        // A string takes whatever is written to it.
        let _written = core::fmt::Write::write_fmt(draft, parts);
        draft.as_str().into()
    })
}

/// The name of a node, which is also the name of its pools.
#[must_use]
pub fn node(number: u32) -> Text {
    NODES.with_borrow_mut(|names| numbered(names, "node", number))
}

/// The number of a node by its name.
#[must_use]
pub fn node_number(name: &Text) -> Option<u32> {
    name.strip_prefix("node-")?.parse().ok()
}

/// Whether a slice is of another node than the pool: in a world the pool of a node has the node's name.
pub(crate) fn is_forged(slice: &ResourceSlice) -> bool {
    slice.nodes.own_node().is_some_and(|node| *node != slice.pool.name)
}

/// The name of a device within its pool.
#[must_use]
pub fn device(number: u32) -> Text {
    DEVICES.with_borrow_mut(|names| numbered(names, "dev", number))
}

/// The number of a device by its name.
#[must_use]
pub fn device_number(name: &Text) -> Option<u32> {
    name.strip_prefix("dev-")?.parse().ok()
}

/// One of the few dozen words that worlds are made of.
#[must_use]
pub fn word(text: &'static str) -> Text {
    let place = (text.as_ptr().addr(), text.len());
    WORDS.with_borrow_mut(|words| words.entry(place).or_insert_with(|| text.into()).clone())
}

fn numbered(names: &mut Vec<Text>, prefix: &str, number: u32) -> Text {
    let at = number as usize;
    while names.len() <= at {
        names.push(text(format_args!("{prefix}-{}", names.len())));
    }
    names[at].clone()
}
