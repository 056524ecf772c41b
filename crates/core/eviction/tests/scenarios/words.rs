//! Texts for people: the pod's condition, the events, the preview.

use std::sync::Arc;

use lazaret_eviction::{EffectKind, Evict, Input, Mark, Options, Patience, Subject, marks_of, preview};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::{ConditionStatus, DeviceSelector, Pod, Timestamp};

use crate::{objects, world::World};

fn first_evict(lines: &str) -> Evict {
    let mut world = World::new(Options::default());
    world.apply(lines);
    match world.machine.poll_effect().unwrap().kind {
        EffectKind::Evict(evict) => evict,
        EffectKind::SetRuleStatus(_)
        | EffectKind::SetLastPublished(_)
        | EffectKind::SetGuardStatus(_)
        | EffectKind::AskCapacity(_)
        | EffectKind::Event(_)
        | EffectKind::RuleEvent(_)
        | EffectKind::GuardEvent(_) => {
            panic!("not an eviction")
        }
    }
}

const TWO_DUE: &str = "\
    rule b driver=some-driver taint=k=v:NoExecute@0
    rule later driver=some-driver taint=k2=v:NoExecute@40
    slice worker gpu-0{hot=yes:NoExecute@0,odd:None@0}
    taints worker-t pool=worker gpu-0{cold:NoExecute@0}
    claim c device=gpu-0 for=p:u
    pod p uid=u node=node-7 claim=c";

#[test]
fn a_pods_condition_names_rule_taint_and_device() {
    let evict = first_evict(TWO_DUE);
    let condition = evict.condition();
    assert_eq!((condition.kind.as_str(), condition.status), ("DisruptionTarget", ConditionStatus::True));
    assert_eq!(condition.reason, "DeletionByDeviceTaintManager");
    // The rule that is not due is not blamed.
    assert_eq!(
        condition.message,
        "Must leave its device. DeviceTaintRule b (uid uid-b): taint k=v:NoExecute on device some-driver/worker/gpu-0; \
         ResourceSlice worker taint #0: taint hot=yes:NoExecute on device some-driver/worker/gpu-0; \
         ResourceSlice worker-t taint #0: taint cold:NoExecute on device some-driver/worker/gpu-0."
    );
    assert_eq!(evict.reasons.len(), 4);
    assert_eq!(evict.node, "node-7");
    assert_eq!(evict.due, Timestamp::EPOCH);
}

#[test]
fn a_description_is_shown_in_one_line_and_cut() {
    let message = |description: &str| {
        let mut world = World::new(Options::default());
        let mut rule = objects::parse("rule b driver=some-driver taint=k=v:NoExecute@0");
        if let FleetInput::Rule(rule) = &mut rule {
            Arc::make_mut(rule).taint.description = Some(description.into());
        }
        world.feed(rule);
        world.apply("slice worker gpu-0\nclaim c device=gpu-0 for=p:u\npod p uid=u node=node-7 claim=c");
        match world.machine.poll_effect().unwrap().kind {
            EffectKind::Evict(evict) => evict.condition().message.to_string(),
            EffectKind::SetRuleStatus(_)
            | EffectKind::SetLastPublished(_)
            | EffectKind::SetGuardStatus(_)
            | EffectKind::AskCapacity(_)
            | EffectKind::Event(_)
            | EffectKind::RuleEvent(_)
            | EffectKind::GuardEvent(_) => {
                panic!("not an eviction")
            }
        }
    };
    let device = "on device some-driver/worker/gpu-0";
    assert!(message("the fan fails\nsoon").ends_with(&format!("{device} (the fan fails soon).")));
    assert!(message("  ").ends_with(&format!("{device}.")));
    let long = message(&"x".repeat(1_000));
    assert!(long.ends_with(&format!("{device} ({}…).", "x".repeat(256))), "{long}");
}

#[test]
fn marks_are_a_field_of_the_pod_and_not_its_words() {
    let evict = first_evict(TWO_DUE);
    let evicted_by = Some(Box::new(evict.mark()));
    let pod = Pod { conditions: vec![evict.condition()], evicted_by: evicted_by.clone(), ..Pod::default() };
    let marks: Vec<Mark<'_>> = marks_of(&pod).collect();
    assert_eq!(marks, [Mark { rule: &"b".into(), uid: &"uid-b".into(), at: Timestamp::EPOCH }]);
    assert_eq!(marks_of(&Pod { conditions: vec![evict.condition()], ..Pod::default() }).count(), 0);
    assert_eq!(marks_of(&Pod { evicted_by, ..Pod::default() }).count(), 0, "anybody can annotate a pod");
    // Kubernetes' own controller names nobody.
    let mut theirs = evict.condition();
    theirs.message = "Device Taint manager: deleting due to NoExecute taint".into();
    assert_eq!(marks_of(&Pod { conditions: vec![theirs], ..Pod::default() }).count(), 0);
}

#[test]
fn many_reasons_are_cut_but_every_rule_is_named() {
    let mut lines = String::new();
    for i in 0..3 {
        lines += &format!("rule r{i} driver=some-driver taint=k{i}:NoExecute@0\n");
    }
    let devices: Vec<String> = (0..10).map(|i| format!("device=gpu-{i}")).collect();
    lines += &format!("claim c {} for=p:u\npod p uid=u claim=c", devices.join(" "));
    let evict = first_evict(&lines);
    assert_eq!(evict.reasons.len(), 30);
    let message = evict.condition().message;
    assert!(message.ends_with("; and 14 more."), "{message}");
    for i in 0..3 {
        assert!(message.contains(&format!("DeviceTaintRule r{i} (uid uid-r{i})")));
    }
}

#[test]
fn the_event_says_why() {
    let mut world = World::new(Options::default());
    world.apply(
        "rule b driver=some-driver taint=k=v:NoExecute@0; claim c device=gpu-0 for=p:u; pod p uid=u claim=c",
    );
    let evict = world.machine.poll_effect().unwrap();
    world.hear(Input::Acknowledged { effect: evict.id, outcome: lazaret_eviction::Outcome::Done });
    let events: Vec<String> = std::iter::from_fn(|| world.machine.poll_effect())
        .filter_map(|effect| {
            if let EffectKind::Event(event) = effect.kind { Some(event.message.to_string()) } else { None }
        })
        .collect();
    assert_eq!(
        events,
        [
            "Marking for deletion: DeviceTaintRule b (uid uid-b): taint k=v:NoExecute on device some-driver/worker/gpu-0"
        ]
    );
}

#[test]
fn a_preview_lists_exactly_whom_it_would_hit() {
    let mut world = World::follower(Options::default());
    world.now = 50_000;
    world.apply(
        "slice worker gpu-0 gpu-1 gpu-2
         claim a device=gpu-0 for=a:ua
         pod a uid=ua claim=a
         claim b device=gpu-1 for=b:ub tolerate=k,Exists,NoExecute,30
         pod b uid=ub claim=b
         claim other/c device=gone/gpu-9 for=c:uc tolerate=k,Exists,-,-
         pod other/c uid=uc claim=c
         claim shared device=gpu-1 for=a:ua for=done:ud for=leaving:ul for=unbound:uu
         pod done uid=ud claim=shared phase=Succeeded
         pod leaving uid=ul claim=shared terminating
         pod unbound uid=uu claim=shared node=-
         rule look driver=some-driver taint=k=v:None@10
         rule act driver=some-driver taint=k=v:NoExecute@10",
    );
    let look = preview(&world.fleet, world.at(), Subject::Rule("look"));
    assert_eq!((look.published, look.held.len(), look.from_memory()), (3, 4, 0));
    let claims: Vec<String> = look.claims.iter().map(ToString::to_string).collect();
    assert_eq!(claims, ["default/a", "default/b", "default/shared", "other/c"]);
    let pods = |found: &[lazaret_eviction::PreviewPod]| -> Vec<String> {
        found.iter().map(|pod| format!("{} {:?} {:?}", pod.pod, pod.patience, pod.deadline)).collect()
    };
    // If the effect was changed now, tolerations would count from now.
    assert_eq!(pods(&look.pods), ["default/a Seconds(0) 50.000s", "default/b Seconds(30) 80.000s"]);
    assert_eq!(pods(&look.tolerating), ["other/c Forever never"]);
    assert_eq!(
        look.to_string(),
        "3 published devices selected. 4 allocated devices selected. 2 pods would be evicted in 1 namespace if the effect was NoExecute."
    );
    // A rule in effect counts from when its taint was set.
    let act = preview(&world.fleet, world.at(), Subject::Rule("act"));
    assert_eq!(pods(&act.pods), ["default/a Seconds(0) 10.000s", "default/b Seconds(30) 40.000s"]);
    // A taint that is nowhere yet.
    let taint = objects::taint("k=v:NoExecute@20");
    let one = DeviceSelector { device: Some("gpu-0".into()), ..DeviceSelector::default() };
    let idea = preview(&world.fleet, world.at(), Subject::Taint { selector: Some(&one), taint: &taint });
    assert_eq!(pods(&idea.pods), ["default/a Seconds(0) 20.000s"]);
    for nothing in [Subject::Rule("absent"), Subject::Taint { selector: None, taint: &taint }] {
        assert_eq!(preview(&world.fleet, world.at(), nothing).held.len(), 0);
    }
    assert_eq!(Patience::Seconds(7).min(Patience::Forever), Patience::Seconds(7));
}
