//! The few names, taints, tolerations and expressions that worlds are made of. Few, so that things collide.
//!
//! Every expression that a world uses is listed here together with what it means, so that the reference can judge
//! selectors without an evaluator of expressions.

use lazaret_model::{
    AttrValue, DeviceSelector, Effect, Taint, Text, Timestamp, Toleration, TolerationOperator,
};

/// The drivers. Every node has a pool of each.
pub const DRIVERS: [&str; 2] = ["gpu.example.com", "nic.example.com"];
/// The classes, one per driver and one by attribute.
pub const CLASSES: [&str; 3] = ["gpu", "nic", "big-gpu"];
/// Where pods live.
pub const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
/// How many rules, and how many patches, exist at most at a time.
pub const NAMES: u32 = 6;

const KEYS: [&str; 3] = ["broken.example.com/ecc", "broken.example.com/link", "maintenance"];

/// What an expression means, said in Rust.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// The driver has this name.
    Driver(&'static str),
    /// The model is this one; an error where there is no model.
    Model(&'static str),
    /// The index is below this; an error where there is no index.
    IndexBelow(i64),
    /// No device has the attribute: an error on each.
    Missing,
    /// No expression at all: does not compile.
    Broken,
}

/// Expressions and their meaning.
pub const EXPRESSIONS: [(&str, Meaning); 7] = [
    (r#"device.driver == "gpu.example.com""#, Meaning::Driver("gpu.example.com")),
    (r#"device.driver == "nic.example.com""#, Meaning::Driver("nic.example.com")),
    (r#"device.attributes["gpu.example.com"].model == "big""#, Meaning::Model("big")),
    (r#"device.attributes["gpu.example.com"].model == "small""#, Meaning::Model("small")),
    (r#"device.attributes["gpu.example.com"].index < 2"#, Meaning::IndexBelow(2)),
    (r#"device.attributes["gpu.example.com"].serial == "7""#, Meaning::Missing),
    (r"device.attributes[", Meaning::Broken),
];

/// Whether the expression holds for a device; `None` is an error.
#[must_use]
pub fn holds(expression: &str, driver: &str, attributes: &[(Text, AttrValue)]) -> Option<bool> {
    let (_, meaning) = EXPRESSIONS.iter().find(|(text, _)| *text == expression)?;
    let attribute = |name: &str| attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
    let of_gpu = driver == DRIVERS[0];
    match meaning {
        Meaning::Driver(wanted) => Some(driver == *wanted),
        Meaning::Model(wanted) => match attribute("model").filter(|_| of_gpu) {
            Some(AttrValue::String(model)) => Some(*model == *wanted),
            _ => None,
        },
        Meaning::IndexBelow(bound) => match attribute("index").filter(|_| of_gpu) {
            Some(AttrValue::Int(index)) => Some(index < bound),
            _ => None,
        },
        Meaning::Missing | Meaning::Broken => None,
    }
}

/// The expressions of a class.
#[must_use]
pub fn class_selectors(class: usize, variant: u32) -> Vec<Option<Text>> {
    let expression = match (class % CLASSES.len(), variant % 4) {
        (_, 3) => EXPRESSIONS[6].0,
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
    if class == CLASSES[1] { DRIVERS[1] } else { DRIVERS[0] }
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

/// A selector by number. Kind and target are drawn apart so that an edit can change one.
#[must_use]
pub fn selector(number: u32, nodes: u32, devices: u32) -> Option<DeviceSelector> {
    let target = number / 16;
    let driver = Some(Text::from(DRIVERS[index(target, 2)]));
    let pool = Some(node(target % nodes.max(1)));
    let named = Some(device(target / 2 % devices.max(1)));
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
        12 => Some(DeviceSelector { cel: cel(index(target, EXPRESSIONS.len())), ..none }),
        13 => Some(DeviceSelector { pool, cel: cel(2), ..none }),
        14 => Some(DeviceSelector { class: Some(CLASSES[2].into()), cel: cel(4), driver, ..none }),
        _ => Some(DeviceSelector { cel: cel(3), ..none }),
    }
}

/// What a claim bears, by number. Half bear nothing.
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

/// The name of a node, which is also the name of its pools.
#[must_use]
pub fn node(number: u32) -> Text {
    format!("node-{number}").into()
}

/// The name of a device within its pool.
#[must_use]
pub fn device(number: u32) -> Text {
    format!("dev-{number}").into()
}
