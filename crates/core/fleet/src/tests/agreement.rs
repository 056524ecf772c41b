//! Random lives of a fleet, compared with the naive reference after every step.

use alloc::{sync::Arc, vec, vec::Vec};

use lazaret_model::{
    Allocation, AttrValue, CapacityValue, ClaimSource, Consumer, CounterConsumption, CounterSet, Device,
    DeviceClass, DeviceId, DevicePatch, DeviceResult, DeviceSelector, DeviceTaintRule, Effect, Node,
    NodeScope, ObjectKey, Owner, Pod, PodClaim, PoolSpec, Quantity, ResourceClaim, ResourceSlice,
    ResourceSlicePatch, SliceTaint, Taint, Text, Timestamp, VersionValue,
};
use proptest::prelude::*;

use super::build::on_node;
use crate::{
    Fleet, Input, Kind,
    reference::{Numbers, Observation, Reference},
};

/// A source of choices: the same number, the same choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % below
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[usize::try_from(self.roll(items.len() as u64)).unwrap()]
    }

    fn text(&mut self, items: &[&str]) -> Text {
        (*self.pick(items)).into()
    }

    fn maybe<T>(&mut self, one_in: u64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(one_in).then(|| make(self))
    }

    fn several<T>(&mut self, max: u64, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.roll(max + 1)).map(|_| make(self)).collect()
    }
}

const DRIVERS: [&str; 2] = ["d0", "d1"];
const POOLS: [&str; 2] = ["p0", "p1"];
const DEVICES: [&str; 4] = ["a", "b", "c", "e"];
const CLASSES: [&str; 3] = ["c0", "c1", "c2"];
const CLAIMS: [&str; 4] = ["k0", "k1", "k2", "k3"];
const PODS: [&str; 4] = ["o0", "o1", "o2", "o3"];
const UIDS: [&str; 3] = ["u0", "u1", "u2"];
const EXPRESSIONS: [&str; 7] = [
    "true",
    "false",
    "device.driver == \"d0\"",
    "device.attributes[\"d0\"].model == \"x\"",
    "device.attributes[\"d1\"].model == \"y\"",
    "device.attributes[\"other\"].level == 1",
    "this is ? no expression",
];

fn input(dice: &mut Dice) -> Input {
    match dice.roll(22) {
        0..=6 => Input::Slice(Arc::new(slice(dice))),
        7 => Input::SliceGone(dice.text(&["s0", "s1", "s2", "s3", "s4"])),
        8..=9 => Input::Rule(Arc::new(rule(dice))),
        10 => Input::RuleGone(dice.text(&["r0", "r1", "r2"])),
        11..=12 => Input::Patch(Arc::new(patch(dice))),
        13 => Input::PatchGone(dice.text(&["x0", "x1", "x2"])),
        14 => Input::Class(Arc::new(class(dice))),
        15 => Input::ClassGone(dice.text(&CLASSES)),
        16..=18 => Input::Claim(Arc::new(claim(dice))),
        19 => match dice.roll(4) {
            0 => Input::ClaimGone(key(dice, &CLAIMS)),
            1 => Input::PodGone(key(dice, &PODS)),
            2 => Input::NodeGone(dice.text(&["n0", "n1"])),
            _ => Input::Node(Arc::new(Node { name: dice.text(&["n0", "n1"]), ..Node::default() })),
        },
        _ => Input::Pod(Arc::new(pod(dice))),
    }
}

fn key(dice: &mut Dice, names: &[&str]) -> ObjectKey {
    ObjectKey { namespace: "ns".into(), name: dice.text(names) }
}

fn slice(dice: &mut Dice) -> ResourceSlice {
    let name = dice.text(&["s0", "s1", "s2", "s3", "s4"]);
    let by_name = usize::from(name.as_bytes()[1] - b'0');
    let odd = dice.one_in(12);
    let kind = dice.roll(8);
    let generation = [1, 1, 1, 2, 3][usize::try_from(dice.roll(5)).unwrap()];
    ResourceSlice {
        uid: dice.text(&UIDS),
        driver: DRIVERS[(by_name / 4 + usize::from(odd)) % 2].into(),
        pool: PoolSpec {
            name: POOLS[by_name % 2].into(),
            generation,
            slice_count: i64::try_from(1 + dice.roll(3)).unwrap(),
        },
        nodes: match dice.roll(4) {
            0 => NodeScope::All,
            1 => NodeScope::Node("n1".into()),
            _ => NodeScope::Node("n0".into()),
        },
        devices: if kind < 6 { devices(dice) } else { vec![] },
        shared_counters: if kind == 6 || dice.one_in(15) {
            let counters = vec![("m".into(), Quantity::from_i64(8))];
            vec![CounterSet { name: dice.text(&["cs", "ct"]), counters }]
        } else {
            vec![]
        },
        taints: if kind >= 5 {
            dice.several(3, |dice| SliceTaint { device: dice.text(&DEVICES), taint: taint(dice) })
        } else {
            vec![]
        },
        name,
        ..ResourceSlice::default()
    }
}

fn devices(dice: &mut Dice) -> Vec<Device> {
    let start = dice.roll(4);
    let mut devices: Vec<Device> = Vec::new();
    for at in 0..dice.roll(4) {
        let name = DEVICES[usize::try_from((start + at) % 4).unwrap()];
        devices.push(device(dice, name));
    }
    if dice.one_in(20) && !devices.is_empty() {
        devices.push(devices[0].clone());
    }
    devices
}

fn device(dice: &mut Dice, name: &str) -> Device {
    let mut attributes = vec![];
    if !dice.one_in(4) {
        attributes.push(("model".into(), AttrValue::String(dice.text(&["x", "y"]))));
    }
    if dice.one_in(6) {
        attributes.push(("d0/model".into(), AttrValue::String(dice.text(&["x", "y"]))));
    }
    if dice.one_in(3) {
        attributes.push(("other/level".into(), AttrValue::Int(i64::try_from(dice.roll(2)).unwrap())));
    }
    if dice.one_in(12) {
        attributes.push(("zz".into(), AttrValue::Version(VersionValue::new(&dice.text(&["1.0.0", "bad"])))));
    }
    attributes.sort_by(|a: &(Text, AttrValue), b| a.0.cmp(&b.0));
    Device {
        name: name.into(),
        attributes,
        capacity: dice.several(1, |dice| ("mem".into(), amount(dice))),
        taints: if dice.one_in(3) { dice.several(2, taint) } else { vec![] },
        consumes_counters: if dice.one_in(12) {
            let counters = vec![(dice.text(&["m", "n"]), Quantity::from_i64(1))];
            let counter_set = dice.text(&["cs", "ct"]);
            vec![CounterConsumption { counter_set, counters, compatibility_groups: vec![] }]
        } else {
            vec![]
        },
        allow_multiple_allocations: dice.maybe(4, |dice| dice.one_in(2)),
        ..Device::default()
    }
}

fn amount(dice: &mut Dice) -> CapacityValue {
    CapacityValue { value: Quantity::parse(&dice.text(&["1", "1000m", "1Gi"])).unwrap(), policy: None }
}

fn taint(dice: &mut Dice) -> Taint {
    Taint {
        key: dice.text(&["sick", "old"]),
        value: dice.text(&["", "v"]),
        effect: Effect::from_name(&dice.text(&["None", "NoSchedule", "NoExecute", "Odd"])),
        time_added: dice.maybe(2, |dice| Timestamp::from_secs(i64::try_from(dice.roll(3)).unwrap())),
        ..Taint::default()
    }
}

fn selector(dice: &mut Dice) -> Option<DeviceSelector> {
    if dice.one_in(8) {
        return None;
    }
    Some(DeviceSelector {
        class: dice.maybe(4, |dice| dice.text(&CLASSES)),
        driver: dice.maybe(2, |dice| dice.text(&DRIVERS)),
        pool: dice.maybe(2, |dice| dice.text(&POOLS)),
        device: dice.maybe(2, |dice| dice.text(&DEVICES)),
        cel: if dice.one_in(3) { dice.several(2, |dice| dice.text(&EXPRESSIONS)) } else { vec![] },
    })
}

fn rule(dice: &mut Dice) -> DeviceTaintRule {
    DeviceTaintRule {
        name: dice.text(&["r0", "r1", "r2"]),
        uid: dice.text(&UIDS),
        generation: i64::try_from(dice.roll(3)).unwrap(),
        selector: selector(dice),
        taint: taint(dice),
        ..DeviceTaintRule::default()
    }
}

fn patch(dice: &mut Dice) -> ResourceSlicePatch {
    let attribute = |dice: &mut Dice| {
        let key = dice.text(&["model", "d0/model", "other/level", "new"]);
        (key, dice.maybe(2, |dice| AttrValue::String(dice.text(&["x", "y", "patched"]))))
    };
    ResourceSlicePatch {
        name: dice.text(&["x0", "x1", "x2"]),
        uid: dice.text(&UIDS),
        selector: selector(dice),
        patch: DevicePatch {
            priority: i64::try_from(dice.roll(3)).unwrap(),
            attributes: dice.several(2, attribute),
            capacity: dice.several(1, |dice| ("mem".into(), dice.maybe(2, amount))),
            taints: dice.several(2, taint),
        },
        ..ResourceSlicePatch::default()
    }
}

fn class(dice: &mut Dice) -> DeviceClass {
    DeviceClass {
        name: dice.text(&CLASSES),
        selectors: dice.several(2, |dice| (!dice.one_in(10)).then(|| dice.text(&EXPRESSIONS))),
        ..DeviceClass::default()
    }
}

fn claim(dice: &mut Dice) -> ResourceClaim {
    let consumer = |dice: &mut Dice| {
        let group = dice.one_in(3);
        Consumer {
            api_group: if group { "scheduling.k8s.io".into() } else { Text::default() },
            resource: if group { "podgroups".into() } else { "pods".into() },
            name: if group { "g".into() } else { dice.text(&PODS) },
            uid: dice.text(&UIDS),
        }
    };
    ResourceClaim {
        key: key(dice, &CLAIMS),
        uid: dice.text(&UIDS),
        owner: dice.maybe(2, owner),
        allocation: (!dice.one_in(4)).then(|| Arc::new(allocation(dice))),
        reserved_for: dice.several(2, consumer),
        ..ResourceClaim::default()
    }
}

fn result(dice: &mut Dice) -> DeviceResult {
    DeviceResult {
        request: "r".into(),
        device: DeviceId::new(dice.text(&DRIVERS), dice.text(&POOLS), dice.text(&DEVICES)),
        admin_access: dice.one_in(5),
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: dice.maybe(3, |dice| dice.text(&["h0", "h1"])),
        consumed_capacity: dice.several(1, |dice| ("mem".into(), amount(dice).value)),
        skip_node_operations: vec![],
    }
}

/// Mostly that of the devices of one node.
fn allocation(dice: &mut Dice) -> Allocation {
    let results = dice.several(3, result);
    let node_selector = dice.maybe(2, |dice| on_node(&dice.text(&["n0", "n1"])));
    Allocation { results, node_selector, ..Allocation::default() }
}

fn owner(dice: &mut Dice) -> Owner {
    if dice.one_in(3) {
        Owner {
            group: "scheduling.k8s.io".into(),
            kind: "PodGroup".into(),
            name: "g".into(),
            uid: "gu".into(),
        }
    } else {
        Owner { group: Text::default(), kind: "Pod".into(), name: dice.text(&PODS), uid: dice.text(&UIDS) }
    }
}

fn pod(dice: &mut Dice) -> Pod {
    let entry = |dice: &mut Dice| PodClaim {
        name: "e".into(),
        source: match dice.roll(5) {
            0 => ClaimSource::Unknown,
            1 => ClaimSource::Template { template: "t".into(), resolved: dice.maybe(2, |_| None) },
            2 => ClaimSource::Template { template: "t".into(), resolved: Some(Some(dice.text(&CLAIMS))) },
            _ => ClaimSource::Claim(dice.text(&CLAIMS)),
        },
    };
    Pod {
        key: key(dice, &PODS),
        uid: dice.text(&UIDS),
        node: dice.maybe(2, |_| "n0".into()),
        claims: dice.several(2, entry),
        extended_claim: dice.maybe(4, |dice| dice.text(&CLAIMS)),
        group: dice.maybe(3, |_| "g".into()),
        ..Pod::default()
    }
}

/// One step: usually an object, sometimes a repetition of everything, sometimes a list with gaps.
fn step(dice: &mut Dice, fleet: &mut Fleet, reference: &mut Reference) {
    match dice.roll(30) {
        0 => {
            let kind = *dice.pick(&Kind::ALL);
            let listed: Vec<Input> = reference
                .objects()
                .into_iter()
                .filter(|object| object.kind() == kind && !dice.one_in(4))
                .collect();
            reference.relist(kind, &listed);
            fleet.relist(kind, listed);
        }
        1 => {
            let revision = fleet.revision();
            reference.objects().into_iter().for_each(|object| fleet.apply(object));
            assert_eq!(fleet.revision(), revision, "saying it again changes nothing");
        }
        _ => {
            let input = input(dice);
            reference.apply(&input);
            fleet.apply(input);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn every_step_agrees_with_the_reference(seeds in proptest::collection::vec(any::<u64>(), 1..60)) {
        let (mut fleet, mut reference) = (Fleet::new(), Reference::default());
        let (mut taken, mut numbers) = (Observation::default(), Numbers::default());
        for seed in seeds {
            let mut dice = Dice(seed);
            step(&mut dice, &mut fleet, &mut reference);
            let seen = Observation::of(&mut fleet);
            prop_assert_eq!(&seen, &reference.observe());
            for driver in DRIVERS {
                for pool in POOLS {
                    for device in DEVICES {
                        let id = DeviceId::new(driver, pool, device);
                        let count = fleet.effective_taints(&id).count();
                        prop_assert_eq!(count, reference.effective_taints(&id).len(), "taints of {}", id);
                    }
                }
            }
            if dice.one_in(2) {
                let changes = fleet.take_changes();
                let missed = seen.unannounced(&taken, &changes, &fleet, &numbers);
                prop_assert!(missed.is_empty(), "not announced: {:?}", missed);
                prop_assert!(fleet.take_changes().is_empty());
                (taken, numbers) = (seen, Numbers::of(&fleet));
            }
        }
    }

    #[test]
    fn order_does_not_matter(seeds in proptest::collection::vec(any::<u64>(), 1..40), order in any::<u64>()) {
        let mut reference = Reference::default();
        let mut dice = Dice(0);
        for seed in seeds {
            dice.0 = seed;
            reference.apply(&input(&mut dice));
        }
        prop_assume!(!reference.depends_on_memory());
        let mut objects = reference.objects();
        objects.extend(reference.objects());
        dice.0 = order;
        for at in (1..objects.len()).rev() {
            let other = usize::try_from(dice.roll(at as u64 + 1)).unwrap();
            objects.swap(at, other);
        }
        let mut fleet = Fleet::new();
        objects.into_iter().for_each(|object| fleet.apply(object));
        prop_assert_eq!(Observation::of(&mut fleet), reference.observe());
    }
}
