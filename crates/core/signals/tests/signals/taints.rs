//! Taints of devices, which a slice of its own may have.

use std::sync::Arc;

use lazaret_model::{ResourceSlice, SliceTaint, Taint};

use super::{NODE, NONE, World, slice};

const KEY: &str = "example.com/ecc";

/// The taints of the pool, in a slice of their own.
fn taints(devices: &[&str]) -> Arc<ResourceSlice> {
    let taint = |device: &&str| SliceTaint {
        device: (*device).into(),
        taint: Taint { key: KEY.into(), value: "bad".into(), ..Taint::default() },
    };
    let taints = devices.iter().map(taint).collect();
    Arc::new(ResourceSlice { taints, ..ResourceSlice::clone(&slice("t", (1, 2), &[])) })
}

fn raised(device: &str) -> String {
    format!("{device} bad: the driver reports {KEY}=bad:")
}

#[test]
fn a_taint_of_another_slice_is_a_signal_until_it_is_gone_whatever_else_is_heard_with_it() {
    for with_news in [false, true] {
        let mut world = World::new(KEY);
        world.node(NODE);
        let publish = |world: &mut World, tainted: &[&str]| {
            if with_news {
                world.publish(slice("a", (1, 2), &["gpu-0", "gpu-1"]));
            }
            world.publish(taints(tainted));
        };
        world.publish(slice("a", (1, 2), &["gpu-0", "gpu-1"]));
        publish(&mut world, &[]);
        assert_eq!(world.told(0), NONE);
        publish(&mut world, &["gpu-1"]);
        let told = world.told(0);
        assert!(told.len() == 1 && told[0].starts_with(&raised("gpu-1")), "{told:?}");
        publish(&mut world, &["gpu-0"]);
        let told = world.told(0);
        assert!(told.len() == 2 && told[0].starts_with(&raised("gpu-0")), "{told:?}");
        assert_eq!(told[1], "gpu-1 is over");
        publish(&mut world, &[]);
        assert_eq!(world.told(0), ["gpu-0 is over"]);
    }
}

/// The Node was deleted and made again, and its slices went and came back in between, but for the one with the taint.
#[test]
fn a_taint_of_another_slice_is_over_although_the_device_came_back_as_it_was() {
    let mut world = World::new(KEY);
    world.node(NODE);
    world.publish(slice("a", (1, 2), &["gpu-0"]));
    world.publish(taints(&["gpu-0"]));
    assert_eq!(world.told(0).len(), 1);
    world.withdraw("a");
    world.withdraw("t");
    world.publish(slice("a", (1, 2), &["gpu-0"]));
    assert_eq!(world.told(0), ["gpu-0 is over"]);
}
