//! A pod that one replacement was about already is about to be replaced in another, whose news come late.

use lazaret_replacement::{Pod, Spec};

use crate::{
    api::{key, option, spec},
    runner::Play,
};

fn quick() -> Spec {
    Spec { node_options: vec![option("a", 1)], replacement_secs: 0, ..spec() }
}

/// Does what is wanted second by second while the machine hears nothing of it, until something was done to a pod.
fn act_unheard(play: &mut Play) {
    let done = play.done.len();
    while play.done.len() == done {
        play.now = play.now.plus_secs(1);
        play.machine.think(play.now, &play.fleet);
        for effect in play.take_effects() {
            play.perform(&effect);
        }
    }
}

/// News that did not come by now are taken to be missing.
fn wait_unheard(play: &mut Play) {
    play.now = play.now.plus_secs(30);
    play.machine.think(play.now, &play.fleet);
}

#[test]
fn a_pod_that_took_a_place_is_replaced_to_the_end() {
    let mut play = Play::with(3, 2);
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(20);
    assert_eq!(play.status("p").totals.replaced, 1);
    let young = play.api.pods.values().max_by_key(|live| live.pod.created).unwrap().pod.clone();
    play.api.taint(&young.node.clone().unwrap(), "a", None);
    play.think();
    act_unheard(&mut play);
    assert_eq!(play.done.last().unwrap().split_once(' ').unwrap().1, format!("release {}", young.key.name));
    let released = play.api.pods[&young.key].clone();
    // The policy goes, and the news of it come before those of the pod.
    play.api.log.truncate(play.heard);
    play.api.remove_policy("p");
    play.think();
    wait_unheard(&mut play);
    play.api.put(released);
    let now = play.now.as_secs();
    play.until(now + 60);
    assert!(!play.api.pods.contains_key(&young.key), "{:?}", play.done);
}

#[test]
fn a_pod_whose_first_copy_was_deleted_is_replaced_to_the_end() {
    let mut play = Play::bare(false);
    play.api.ready_secs = 1_000;
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(10);
    assert_eq!(play.done.len(), 1, "{:?}", play.done);
    let copy = play.api.pods.keys().find(|pod| **pod != key("lone")).unwrap().clone();
    play.api.remove(&copy);
    play.until(12);
    play.api.untaint("n0", "a");
    play.until(14);
    assert_eq!(play.machine.in_flight().count(), 0);
    play.api.ready_secs = 1;
    play.api.taint("n0", "a", None);
    play.think();
    act_unheard(&mut play);
    let made = play.api.pods[&copy].clone();
    play.api.log.truncate(play.heard);
    play.api.untaint("n0", "a");
    play.think();
    wait_unheard(&mut play);
    assert_eq!(play.machine.in_flight().count(), 0, "nothing is heard of the copy, and there is no reason");
    play.api.put(made);
    let now = play.now.as_secs();
    play.until(now + 60);
    assert_eq!(play.api.pods.keys().collect::<Vec<_>>(), [&copy], "{:?}", play.done);
}

/// The answer to the first attempt to copy it was lost, and that attempt is carried out after all is over.
#[test]
fn a_copy_that_is_made_late_takes_the_place_of_the_pod() {
    let mut play = Play::bare(false);
    play.api.set_policy("p", quick());
    play.api.ready_secs = 5;
    play.api.taint("n0", "a", None);
    play.until(10);
    let (copy, made) = play.api.pods.iter().find(|(pod, _)| **pod != key("lone")).unwrap();
    let (copy, made) = (copy.clone(), made.pod.clone());
    play.api.untaint("n0", "a");
    play.api.delete(play.now, &copy, &made.uid);
    play.until(20);
    assert_eq!((play.machine.in_flight().count(), play.api.pods.len()), (0, 1), "{:?}", play.done);
    let again = Pod { node: None, ready: false, ..made };
    play.api.create(play.now, again);
    play.until(22);
    assert_eq!(play.machine.in_flight().count(), 1, "the next leader would take it up");
    play.until(40);
    assert_eq!(play.api.pods.keys().collect::<Vec<_>>(), [&copy], "{:?}", play.done);
    assert_eq!(play.status("p").totals.replaced, 1);
}
