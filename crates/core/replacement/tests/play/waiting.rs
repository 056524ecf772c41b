//! Effects that wait to be taken while the news change.

use lazaret_model::Text;
use lazaret_replacement::{Effect, EffectKind, Spec};

use crate::{
    api::{at, key, quick},
    runner::Play,
};

/// A pod on `n0` is due now, and nothing is decided yet.
fn due() -> Play {
    let mut play = Play::with(3, 2);
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(25);
    play.now = at(26);
    play
}

/// The status says so, and the release waits to be taken.
fn about_to_release() -> Play {
    let mut play = due();
    play.think();
    for effect in play.take_effects() {
        play.perform(&effect);
    }
    play.think();
    play
}

fn names(effects: &[Effect]) -> Vec<&'static str> {
    let name = |effect: &Effect| match effect.kind {
        EffectKind::SetStatus { .. } => "status",
        EffectKind::Release { .. } => "release",
        EffectKind::Copy { .. }
        | EffectKind::Ungate { .. }
        | EffectKind::Evict { .. }
        | EffectKind::Delete { .. }
        | EffectKind::Event(_) => "other",
    };
    effects.iter().map(name).collect()
}

#[test]
fn a_release_that_waits_is_withdrawn_when_its_reason_goes() {
    let reasons: [fn(&mut Play); 3] = [
        |play| play.api.remove_policy("p"),
        |play| play.api.untaint("n0", "a"),
        |play| play.api.set_policy("p", Spec { enabled: false, ..quick() }),
    ];
    for reason in reasons {
        let mut play = about_to_release();
        reason(&mut play);
        play.think();
        let effects = play.take_effects();
        assert!(!names(&effects).contains(&"release"), "{effects:?}");
        assert_eq!(play.machine.in_flight().count(), 0);
        for effect in effects {
            play.perform(&effect);
        }
        play.until(60);
        assert_eq!(play.done, [""; 0]);
    }
}

#[test]
fn a_release_that_waits_is_of_the_newest_version_of_the_pod() {
    let mut play = about_to_release();
    let pod = play.on("n0")[0].key.clone();
    let live = play.api.pods[&pod].clone();
    play.api.put(live);
    play.think();
    play.settle();
    assert!(play.api.pods[&pod].pod.owner.is_none());
    assert_eq!(play.done.len(), 1, "{:?}", play.done);
}

#[test]
fn a_status_that_waits_is_of_the_newest_version_of_its_policy() {
    let versions = |effects: &[Effect]| -> Vec<Text> {
        let version = |effect: &Effect| match &effect.kind {
            EffectKind::SetStatus { version, .. } => Some(version.clone()),
            EffectKind::Release { .. }
            | EffectKind::Copy { .. }
            | EffectKind::Ungate { .. }
            | EffectKind::Evict { .. }
            | EffectKind::Delete { .. }
            | EffectKind::Event(_) => None,
        };
        effects.iter().filter_map(version).collect()
    };
    let mut play = due();
    play.think();
    play.api.set_policy("p", Spec { max_concurrent: 2, ..quick() });
    play.think();
    let newest = play.api.policies[&key("p")].version.clone();
    assert_eq!(versions(&play.take_effects()), [newest]);

    let mut play = due();
    play.think();
    play.api.remove_policy("p");
    play.think();
    assert_eq!(versions(&play.take_effects()), [""; 0], "the policy is gone");

    let mut play = due();
    play.think();
    play.api.remove_policy("p");
    play.api.set_policy("p", quick());
    play.think();
    let newest = play.api.policies[&key("p")].version.clone();
    assert_eq!(versions(&play.take_effects()), [newest], "it is another policy");
}

#[test]
fn a_status_permits_the_replacement_that_it_records_and_no_other_of_the_pod() {
    let mut play = due();
    play.think();
    let effects = play.take_effects();
    assert_eq!(names(&effects), ["status"]);
    play.api.untaint("n0", "a");
    play.think();
    assert_eq!(play.machine.in_flight().count(), 0, "it is not wanted any more");
    play.api.taint("n0", "a", Some(at(3)));
    play.think();
    assert_eq!(play.machine.in_flight().count(), 1, "it is another taint, and was there for long");
    play.perform(&effects[0]);
    play.think();
    let effects = play.take_effects();
    assert_eq!(names(&effects), ["status"], "a status says so first");
    play.perform(&effects[0]);
    play.think();
    assert_eq!(names(&play.take_effects()), ["release"]);
}
