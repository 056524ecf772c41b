//! Why a device stays in use: pods that tolerate the taint of its incident, by name, with the command that ends them.

use lazaret_model::{Allocation, Consumer, Toleration, TolerationOperator};

use super::{absent::claim, usage::publish, *};

const KEY: &str = "example.com/ecc";

/// A claim of pods that tolerate the taint of the incident, for ever or for some seconds.
fn borne(pods: &[&str], seconds: Option<i64>) -> Arc<ResourceClaim> {
    let mut claim = ResourceClaim::clone(&claim("gpu-0"));
    let mut given = Allocation::clone(claim.allocation.as_ref().unwrap());
    given.results[0].tolerations = vec![Toleration {
        key: "example.com/trouble".into(),
        operator: TolerationOperator::Exists,
        seconds,
        ..Toleration::default()
    }];
    claim.allocation = Some(Arc::new(given));
    let consumer = |name: &&str| Consumer {
        api_group: "".into(),
        resource: "pods".into(),
        name: (*name).into(),
        uid: format!("uid-{name}").into(),
    };
    claim.reserved_for = pods.iter().map(consumer).collect();
    Arc::new(claim)
}

/// Why the device of the incident stays in use, as its machine gets it.
fn stays(pods: &[&str], seconds: Option<i64>) -> String {
    let mut world = World::new(KEY);
    world.claim(borne(pods, seconds));
    let changes = world.fleet.take_changes();
    world.usage.changed(&changes);
    publish(&mut world, &[("gpu-0", "A")], "A");
    let told = world.usage.settle(&world.fleet, &world.lifecycle);
    let [CoreInput::InUse { stays, .. }] = &told[..] else { panic!("{told:?}") };
    stays.to_string()
}

#[test]
fn a_pod_that_tolerates_the_taint_is_named_with_the_command_that_ends_it() {
    assert_eq!(
        stays(&["trainer"], None),
        "pod default/trainer, which tolerates the taint example.com/trouble:NoExecute: it ends by itself, or with kubectl delete pod -n default trainer"
    );
    assert_eq!(
        stays(&["d", "c", "b", "a"], None),
        "pod default/a, pod default/b, pod default/c and 1 more, which tolerates the taint example.com/trouble:NoExecute: it ends by itself, or with kubectl delete pod -n default a"
    );
}

#[test]
fn a_pod_that_leaves_later_is_in_nobodys_way() {
    assert_eq!(stays(&["trainer"], Some(30)), "");
}
