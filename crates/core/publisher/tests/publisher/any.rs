//! Any order of wishes, faults and foreign changes ends with the last wish, and consumers see nothing else in between.

use lazaret_publisher::Answer;
use proptest::prelude::*;

use crate::server::{World, devices, pools, taint};

#[derive(Clone, Debug)]
enum Step {
    /// The driver wants this many devices, some of them tainted.
    Want {
        count: usize,
        tainted: Vec<usize>,
    },
    Work,
    Fail(u8),
    Wait(i64),
    Edit(usize),
    Delete(usize),
    Restart,
    Relist,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_usize..200, prop::collection::vec(0_usize..200, 0..4)).prop_map(|(count, tainted)| Step::Want { count, tainted }),
        4 => Just(Step::Work),
        2 => (0_u8..3).prop_map(Step::Fail),
        2 => (1_i64..100_000).prop_map(Step::Wait),
        1 => (0_usize..4).prop_map(Step::Edit),
        1 => (0_usize..4).prop_map(Step::Delete),
        1 => Just(Step::Restart),
        1 => Just(Step::Relist),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_last_wish_is_published(steps in prop::collection::vec(step(), 1..30)) {
        let mut world = World::new();
        world.list();
        let mut wished = vec![];
        let mut meddled = false;
        for step in steps.into_iter().chain([Step::Want { count: 3, tainted: vec![1] }]) {
            match step {
                Step::Want { count, tainted } => {
                    let mut devices = devices(count);
                    for index in tainted.into_iter().filter(|index| *index < count) {
                        devices[index].taints = Some(vec![taint("k", "v")]);
                    }
                    wished.push(devices.clone());
                    world.want(pools(&[("pool", devices)]));
                }
                Step::Work => drop(world.settle()),
                Step::Fail(0) => world.faults.push_back(Answer::Failed("timeout".into())),
                Step::Fail(1) => world.faults.push_back(Answer::Refused("invalid".into())),
                Step::Fail(_) => world.faults.push_back(Answer::Conflict("modified".into())),
                Step::Wait(millis) => world.now = world.now.plus_millis(millis),
                Step::Edit(index) if index < world.slices.len() => {
                    meddled = true;
                    world.edit(index, |slice| slice.spec.devices = None);
                }
                Step::Delete(index) if index < world.slices.len() => {
                    meddled = true;
                    world.delete(index);
                }
                Step::Edit(_) | Step::Delete(_) => {}
                Step::Restart => {
                    world.restart();
                    if let Some(last) = wished.last() {
                        world.want(pools(&[("pool", last.clone())]));
                    }
                }
                Step::Relist => world.list(),
            }
            if let Some(visible) = world.visible("pool").filter(|_| !meddled) {
                prop_assert!(wished.iter().any(|wish| says(wish) == says(&visible)), "nobody wished {:?}", says(&visible));
            }
        }
        world.faults.clear();
        world.settle_in_time();
        let visible = world.visible("pool");
        prop_assert_eq!(visible.map(|devices| says(&devices)), wished.last().map(|devices| says(devices)));
        prop_assert_eq!(world.settle_in_time(), Vec::<String>::new());
    }
}

fn says(devices: &[k8s_openapi::api::resource::v1::Device]) -> Vec<(String, bool)> {
    devices.iter().map(|device| (device.name.clone(), device.taints.is_some())).collect()
}
