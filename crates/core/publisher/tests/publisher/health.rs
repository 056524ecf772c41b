//! Conditions, taints and states.

use std::collections::BTreeMap;

use lazaret_model::{Effect, Timestamp};
use lazaret_publisher::{
    Condition, DeviceKey, DeviceState, Health, HealthRule, HealthTable, Observation, Pool, compose,
};

use crate::server::{device, taint};

const AT: Timestamp = Timestamp::from_secs(1_000);

fn key(device: &str) -> DeviceKey {
    DeviceKey { pool: "pool".into(), device: device.into() }
}

fn saw(device: &str, conditions: &[(&str, &str)]) -> Observation {
    let found =
        conditions.iter().map(|(name, detail)| Condition { name: (*name).into(), detail: (*detail).into() });
    Observation { device: key(device), found: Ok(found.collect()) }
}

fn health() -> Health {
    let table = HealthTable::new("gpu.example.com")
        .with("xid", HealthRule::new("gpu.example.com/xid", Effect::NoSchedule).after(100, 5_000))
        .unwrap()
        .with("lost", HealthRule::new("gpu.example.com/lost", Effect::NoExecute).value("gone").after(0, 0))
        .unwrap()
        .with("hot", HealthRule::new("gpu.example.com/hot", Effect::None))
        .unwrap();
    let mut health = Health::new(table);
    health.observe(AT, &[saw("a", &[]), saw("b", &[])]);
    health
}

fn shown(health: &Health, device: &str) -> Vec<String> {
    let taints = health.taints(&key(device));
    taints
        .iter()
        .map(|taint| format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or(""), taint.effect))
        .collect()
}

#[test]
fn a_condition_that_lasts_is_a_taint_and_goes_when_it_is_over_for_long_enough() {
    let mut health = health();
    assert_eq!(health.status(&key("a")).state, DeviceState::Healthy);
    health.observe(AT, &[saw("a", &[("xid", "79")])]);
    assert_eq!(shown(&health, "a"), [""; 0]);
    assert_eq!(health.wake(), Some(AT.plus_millis(100)));
    health.tick(AT.plus_millis(99));
    assert_eq!(shown(&health, "a"), [""; 0]);
    health.tick(AT.plus_millis(100));
    assert_eq!(shown(&health, "a"), ["gpu.example.com/xid=79:NoSchedule"]);
    let status = health.status(&key("a"));
    assert_eq!((status.state, status.message.as_str()), (DeviceState::Unhealthy, "xid: 79"));
    assert_eq!(shown(&health, "b"), [""; 0]);
    // Over; and again before it was over for long enough; and over.
    health.observe(AT.plus_secs(10), &[saw("a", &[])]);
    health.observe(AT.plus_secs(14), &[saw("a", &[("xid", "31")])]);
    assert_eq!(shown(&health, "a"), ["gpu.example.com/xid=31:NoSchedule"]);
    health.observe(AT.plus_secs(20), &[saw("a", &[])]);
    assert_eq!(health.status(&key("a")).state, DeviceState::Unhealthy);
    // Time alone does not heal: the device must have been observed.
    health.tick(AT.plus_secs(1_000));
    assert_eq!(shown(&health, "a").len(), 1);
    health.observe(AT.plus_secs(25), &[saw("a", &[])]);
    assert_eq!(shown(&health, "a"), [""; 0]);
    assert_eq!(health.status(&key("a")).state, DeviceState::Healthy);
    assert_eq!(health.wake(), None);
}

/// A count that rises with every look is one write in ten seconds, and the taint is as old as its condition.
#[test]
fn a_detail_that_changes_all_the_time_is_shown_from_time_to_time() {
    let mut health = health();
    health.observe(AT, &[saw("a", &[("xid", "0")])]);
    health.observe(AT.plus_millis(50), &[saw("a", &[("xid", "1")])]);
    health.tick(AT.plus_millis(100));
    assert_eq!(shown(&health, "a"), ["gpu.example.com/xid=1:NoSchedule"], "nothing was shown before");
    assert_eq!(health.taints(&key("a"))[0].time_added, None, "the server knows best");
    let mut changes = 0;
    let mut before = (shown(&health, "a"), health.status(&key("a")));
    for round in 2_i64..=30_000 {
        let now = AT.plus_millis(100 + round);
        health.observe(now, &[saw("a", &[("xid", &round.to_string())])]);
        let after = (shown(&health, "a"), health.status(&key("a")));
        changes += i32::from(std::mem::replace(&mut before, after.clone()) != after);
    }
    assert_eq!(changes, 3, "30 s of storm");
    let newest = AT.plus_millis(100 + 40_000);
    assert_eq!(health.wake(), None, "the newest is shown");
    health.observe(AT.plus_secs(31), &[saw("a", &[("xid", "31")])]);
    assert_eq!(shown(&health, "a"), ["gpu.example.com/xid=30000:NoSchedule"]);
    assert_eq!(health.wake(), Some(newest), "the last one is shown though nobody looks any more");
    health.tick(newest);
    assert_eq!(shown(&health, "a"), ["gpu.example.com/xid=31:NoSchedule"]);
    assert_eq!(health.wake(), None);
    let added = health.taints(&key("a"))[0].time_added.clone().unwrap();
    assert_eq!(added.0.as_second(), AT.as_secs(), "as old as the condition");
    // Back to what is shown: nothing is left to show.
    health.observe(newest.plus_secs(1), &[saw("a", &[("xid", "7")])]);
    health.observe(newest.plus_secs(2), &[saw("a", &[("xid", "31")])]);
    assert_eq!(health.wake(), None);
    // Over, and again: another one.
    health.observe(AT.plus_secs(100), &[saw("a", &[])]);
    health.observe(AT.plus_secs(200), &[saw("a", &[])]);
    health.observe(AT.plus_secs(300), &[saw("a", &[("xid", "5")])]);
    health.tick(AT.plus_secs(301));
    assert_eq!(shown(&health, "a"), ["gpu.example.com/xid=5:NoSchedule"]);
    assert_eq!(health.taints(&key("a"))[0].time_added, None);
}

#[test]
fn what_does_not_last_is_no_taint() {
    let mut health = health();
    for round in 0..50 {
        let now = AT.plus_millis(round * 60);
        let conditions: &[(&str, &str)] = if round % 2 == 0 { &[("xid", "1")] } else { &[] };
        health.observe(now, &[saw("a", conditions)]);
        assert_eq!(shown(&health, "a"), [""; 0]);
    }
}

#[test]
fn at_the_first_look_a_condition_is_a_taint_at_once() {
    let mut health = Health::new(HealthTable::new("d.com"));
    health.observe(
        AT,
        &[saw("a", &[("odd", "x y")]), Observation { device: key("b"), found: Err("no answer".into()) }],
    );
    assert_eq!(
        shown(&health, "a"),
        ["d.com/unhealthy=odd:NoSchedule"],
        "what is not in the table is not harmless"
    );
    let status = health.status(&key("b"));
    assert_eq!((status.state, status.message.as_str()), (DeviceState::Unknown, "no answer"));
    assert_eq!(health.status(&key("c")).state, DeviceState::Unknown);
    // It could not be asked since: nothing has recovered.
    health.observe(AT.plus_secs(100), &[Observation { device: key("a"), found: Err("no answer".into()) }]);
    assert_eq!(shown(&health, "a").len(), 1);
    assert_eq!(health.status(&key("a")).state, DeviceState::Unhealthy);
}

#[test]
fn effects_for_information_leave_a_device_healthy() {
    let mut health = health();
    health.observe(AT, &[saw("a", &[("hot", "91C"), ("lost", "")])]);
    health.tick(AT.plus_secs(1));
    assert_eq!(shown(&health, "a"), ["gpu.example.com/lost=gone:NoExecute", "gpu.example.com/hot=91C:None"]);
    health.observe(AT.plus_secs(2), &[saw("a", &[("hot", "91C")])]);
    assert_eq!(shown(&health, "a"), ["gpu.example.com/hot=91C:None"], "recovers at once");
    assert_eq!(health.status(&key("a")).state, DeviceState::Healthy);
}

#[test]
fn messages_and_conditions_are_bounded() {
    let mut health = Health::new(HealthTable::new("d.com"));
    let names: Vec<String> = (0..100).map(|number| format!("condition-{number}")).collect();
    let long = "ä".repeat(100);
    let conditions: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), long.as_str())).collect();
    health.observe(AT, &[saw("a", &conditions)]);
    let status = health.status(&key("a"));
    assert!(status.message.len() <= 1024 && status.message.ends_with("..."), "{}", status.message.len());
    let many: Vec<Observation> = (0..17_000).map(|number| saw(&number.to_string(), &[])).collect();
    health.observe(AT, &many);
    assert_eq!(health.devices().count(), 16_384);
    health.retain(&[key("a")].into());
    assert_eq!(health.devices().count(), 1);
}

#[test]
fn tables_refuse_what_cannot_be_a_taint() {
    let table = || HealthTable::new("d.com");
    assert!(table().with("x", HealthRule::new("no key", Effect::NoSchedule)).is_err());
    assert!(table().with("x", HealthRule::new("k", Effect::NoSchedule).value("a b")).is_err());
    assert!(table().with("x", HealthRule::new("k", Effect::from_name("Explode"))).is_err());
}

/// Every publication of a driver has the taints of health.
#[test]
fn no_publication_loses_a_taint() {
    let mut health = health();
    health.observe(AT, &[saw("a", &[("lost", "")])]);
    let mut own = device("a");
    own.taints = Some(vec![taint("admin", "x")]);
    for devices in [vec![device("a")], vec![device("b"), own.clone()]] {
        let pools: BTreeMap<String, Pool> = [("pool".to_owned(), Pool::of(devices))].into();
        let composed = compose(&pools, &health, |_| false);
        let device = composed["pool"].devices.iter().find(|device| device.name == "a").unwrap();
        let keys: Vec<&str> = device.taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
        assert_eq!(keys[0], "gpu.example.com/lost");
    }
    own.taints = Some((0..16).map(|number| taint(&format!("k{number}"), "")).collect());
    let pools: BTreeMap<String, Pool> = [("pool".to_owned(), Pool::of(vec![own]))].into();
    let taints = compose(&pools, &health, |_| false)["pool"].devices[0].taints.clone().unwrap();
    assert_eq!((taints.len(), taints[0].key.as_str()), (16, "gpu.example.com/lost"));
}
