//! How long a change takes from what the driver wants to the writes that bring it about. `cargo bench -p lazaret-publisher`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::collections::BTreeMap;

use divan::Bencher;
use k8s_openapi::{
    api::resource::v1::{Device, DeviceAttribute, DeviceCapacity},
    apimachinery::pkg::api::resource::Quantity,
};
use lazaret_machine::{Effect, Machine, Turn};
use lazaret_model::{Effect as TaintEffect, Timestamp};
use lazaret_publisher::{
    Answer, Condition, DeviceKey, EffectKind, Health, HealthRule, HealthTable, Observation, Pool, Publisher,
    Scope, compose,
};

// As the shipped binary does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DRIVER: &str = "gpu.example.com";
const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn main() {
    divan::main();
}

fn device(number: usize) -> Device {
    let text = |text: String| DeviceAttribute { string: Some(text), ..DeviceAttribute::default() };
    let index = i64::try_from(number).unwrap_or_default();
    Device {
        name: format!("gpu-{number}"),
        attributes: Some(BTreeMap::from([
            ("uuid".into(), text(format!("gpu-{number:032x}"))),
            ("model".into(), text("Simulated-80G".into())),
            ("index".into(), DeviceAttribute { int: Some(index), ..DeviceAttribute::default() }),
        ])),
        capacity: Some(
            [("memory".into(), DeviceCapacity { value: Quantity("80Gi".into()), request_policy: None })]
                .into(),
        ),
        ..Device::default()
    }
}

fn observation(number: usize, is_failing: bool) -> Observation {
    let condition = Condition { name: "xid".into(), detail: "79".into() };
    Observation {
        device: DeviceKey { pool: "node-1".into(), device: format!("gpu-{number}") },
        found: Ok(is_failing.then_some(condition).into_iter().collect()),
    }
}

/// Carries effects out on a server that takes everything. How many PUTs and other requests there were.
fn settle(publisher: &mut Publisher, version: &mut u64) -> (usize, usize) {
    let (mut puts, mut others) = (0, 0);
    loop {
        publisher.handle(NOW, &(), Turn::BecameLeader);
        let Some(Effect { id, kind: effect }) = publisher.poll_effect() else { return (puts, others) };
        *version += 1;
        let answer = match effect {
            EffectKind::ReadOwner { .. } => Answer::Owner("uid".into()),
            EffectKind::Create(mut slice) => {
                others += 1;
                let prefix = slice.metadata.generate_name.clone().unwrap_or_default();
                slice.metadata.name = Some(format!("{prefix}{version}"));
                slice.metadata.resource_version = Some(version.to_string());
                Answer::Stored(slice)
            }
            EffectKind::Update(mut slice) => {
                puts += 1;
                slice.metadata.resource_version = Some(version.to_string());
                Answer::Stored(slice)
            }
            EffectKind::Delete { .. } => {
                others += 1;
                Answer::Gone
            }
        };
        publisher.acknowledge(NOW, id, answer);
    }
}

/// A device of many fails: observed, composed with what the driver wants, planned, and written with one PUT.
#[divan::bench(args = [64, 1_000, 10_000], sample_count = 50)]
fn one_taint_changes(bencher: Bencher, devices: usize) {
    let rule = HealthRule::new(format!("{DRIVER}/xid"), TaintEffect::NoSchedule).after(0, 0);
    let table = HealthTable::new(DRIVER).with("xid", rule).unwrap();
    let mut health = Health::new(table);
    let pools = BTreeMap::from([("node-1".to_owned(), Pool::of((0..devices).map(device).collect()))]);
    let mut publisher = Publisher::new(DRIVER, Scope::Node { name: "node-1".into() });
    let mut version = 1;
    publisher.list(NOW, vec![], "1");
    let all: Vec<Observation> = (0..devices).map(|number| observation(number, false)).collect();
    health.observe(NOW, &all);
    let wanted = publisher.want(compose(&pools, &health, |_| false));
    assert!(wanted.is_ok());
    settle(&mut publisher, &mut version);
    let mut is_failing = false;
    bencher.bench_local(|| {
        is_failing = !is_failing;
        health.observe(NOW, &[observation(devices / 2, is_failing)]);
        let wanted = publisher.want(compose(&pools, &health, |_| false));
        assert!(wanted.is_ok());
        assert_eq!(settle(&mut publisher, &mut version), (1, 0));
    });
}
