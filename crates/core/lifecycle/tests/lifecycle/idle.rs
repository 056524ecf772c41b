//! Nothing begins on a device before its taint is in force and nobody uses it.

use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, Incident, Input, Notice, Policy, Rule, Stage, TaintKeyValue, Target,
    ViewKind,
};
use lazaret_machine::Outcome;
use lazaret_model::Text;

use crate::{
    cluster::{Leader, Server},
    world::{MINUTE, SECOND, at, device, policy, rule},
};

fn incident(server: &Server) -> &Incident {
    &server.incidents.values().next().unwrap().incident
}

fn used(leader: &mut Leader, by: &str, stays: &str) {
    let namespaces: Vec<Text> = [by].into_iter().filter(|by| !by.is_empty()).map(Text::from).collect();
    let (device, is_used, stays) = (device("gpu-0"), !namespaces.is_empty(), stays.into());
    leader.hear(Notice::Core(Input::InUse { device, is_used, namespaces, stays }));
}

/// Carries out what is wanted now; time does not pass, and no view is granted.
fn write(server: &mut Server, leader: &mut Leader) {
    for _ in 0..20 {
        leader.hear(Notice::Tick);
        let Some(write) = leader.core.poll_effect() else { return };
        let (version, uid) = server.write(&write);
        leader.hear(Notice::Acknowledged {
            id: write.id,
            outcome: Outcome::Done,
            version,
            uid,
            refused: None,
        });
        leader.see(server);
    }
}

/// A device that is to be repaired, tainted, and idle as far as the leader knows.
fn draining() -> (Server, Leader) {
    let mut server = Server::default();
    let mut leader = Leader::begin(&server, 0, policy());
    leader.raise("gpu-0", "xid", "79");
    write(&mut server, &mut leader);
    used(&mut leader, "", "");
    write(&mut server, &mut leader);
    (server, leader)
}

#[test]
fn a_device_is_repaired_when_a_view_past_its_taint_shows_it_idle() {
    let (mut server, mut leader) = draining();
    assert_eq!(incident(&server).stage, Stage::Draining);
    assert_eq!(leader.core.poll_view(), None, "schedulers may not have seen the taint");
    leader.now += 2 * SECOND;
    assert_eq!(leader.core.next_wake().map(|wake| wake.at), Some(at(leader.now)));
    write(&mut server, &mut leader);
    let view = leader.core.poll_view().unwrap();
    assert_eq!(view.kinds, [ViewKind::Rules, ViewKind::Claims, ViewKind::Pods]);
    assert_eq!(leader.core.poll_view(), None, "one at a time");
    write(&mut server, &mut leader);
    assert_eq!(incident(&server).stage, Stage::Draining);
    // A claim was allocated before the taint was seen.
    used(&mut leader, "training", "");
    leader.hear(Notice::ViewReached(view.number));
    write(&mut server, &mut leader);
    assert_eq!((incident(&server).stage, leader.core.poll_view()), (Stage::Draining, None));
    used(&mut leader, "", "");
    write(&mut server, &mut leader);
    let view = leader.core.poll_view().unwrap();
    leader.hear(Notice::ViewReached(view.number));
    write(&mut server, &mut leader);
    assert_eq!(
        (incident(&server).stage, server.jobs.len()),
        (Stage::Repairing, 0),
        "each repair has a look of its own"
    );
    let view = leader.core.poll_view().unwrap();
    leader.hear(Notice::ViewReached(view.number));
    write(&mut server, &mut leader);
    assert_eq!(server.jobs.len(), 1, "{:?}", server.jobs);
}

#[test]
fn a_repair_waits_for_a_pod_that_came_late_and_has_its_whole_time_then() {
    let (mut server, mut leader) = draining();
    leader.work(&mut server, |_| false);
    let first = server.jobs.len();
    used(&mut leader, "training", "");
    let job = (ChildKind::Job, incident(&server).task_name());
    let failed = Child {
        target: ChildTarget::Job { result: Some(Err("no".into())) },
        ..server.children[&job].clone()
    };
    server.children.insert(job, failed.clone());
    leader.hear(Notice::Child(failed));
    leader.work(&mut server, |_| false);
    assert_eq!((incident(&server).step, server.jobs.len()), (1, first));
    assert_eq!(&*incident(&server).waits_for, "the pods that use its device to leave");
    leader.now += 90 * MINUTE;
    leader.work(&mut server, |_| false);
    assert_eq!(
        (incident(&server).stage, incident(&server).step),
        (Stage::Repairing, 1),
        "its time has not begun"
    );
    used(&mut leader, "", "");
    leader.work(&mut server, |_| false);
    assert_eq!(server.jobs.len(), first + 1);
    assert_eq!(&*incident(&server).waits_for, "repair reboot");
    leader.now += 59 * MINUTE;
    leader.work(&mut server, |_| false);
    assert_eq!(incident(&server).step, 1);
}

/// The Job of a step that took too long is there until its pod has ended.
#[test]
fn a_step_begins_when_the_pod_of_the_step_before_has_ended() {
    let (mut server, mut leader) = draining();
    leader.work(&mut server, |_| false);
    let first = server.jobs.clone();
    leader.now += 10 * MINUTE;
    leader.work(&mut server, |kind| matches!(kind, lazaret_lifecycle::WriteKind::Delete(..)));
    assert_eq!((incident(&server).step, &server.jobs), (1, &first));
    let waits = format!("Job {}, the task before, to end with its pod", first[0]);
    assert_eq!(&*incident(&server).waits_for, waits);
    leader.now += MINUTE;
    leader.work(&mut server, |_| false);
    assert_eq!(server.jobs.len(), 2, "{:?}", server.jobs);
}

#[test]
fn a_taint_that_a_guard_holds_keeps_a_device_from_being_repaired_and_says_for_whose_approval() {
    let (mut server, mut leader) = draining();
    let key = server.children.keys().find(|(kind, _)| *kind == ChildKind::Rule).cloned().unwrap();
    let message = "DisruptionGuard g wants approval above 0 devices; kubectl device approve x";
    let hold = |server: &mut Server, leader: &mut Leader, held: &str| {
        let mut child = server.children[&key].clone();
        if let ChildTarget::Rule { held: known, .. } = &mut child.target {
            *known = (!held.is_empty()).then(|| held.into());
        }
        server.children.insert(key.clone(), child.clone());
        leader.hear(Notice::Child(child));
    };
    hold(&mut server, &mut leader, message);
    leader.now += 60 * MINUTE;
    leader.work(&mut server, |_| false);
    let incident_name = incident(&server).name.clone();
    assert_eq!(incident(&server).stage, Stage::Draining);
    let expected = format!("approval of the taint {incident_name}, which a guard holds: {message}");
    assert_eq!(&*incident(&server).waits_for, expected);
    hold(&mut server, &mut leader, "");
    leader.work(&mut server, |_| false);
    assert_eq!((incident(&server).stage, server.jobs.len()), (Stage::Repairing, 1));
}

#[test]
fn what_keeps_pods_on_a_device_that_is_drained_is_named() {
    let (mut server, mut leader) = draining();
    used(&mut leader, "training", "pod training/a, which tolerates the taint: it ends by itself");
    leader.work(&mut server, |_| false);
    assert_eq!(&*incident(&server).waits_for, "pod training/a, which tolerates the taint: it ends by itself");
    used(&mut leader, "training", "");
    leader.work(&mut server, |_| false);
    assert_eq!(&*incident(&server).waits_for, "its pods to leave");
}

/// The taint changes its key with the stage: schedulers have to see the new one.
#[test]
fn a_taint_that_changed_is_seen_for_a_while_before_it_counts() {
    let worse = Rule {
        taint: TaintKeyValue { key: "example.com/worse".into(), value: "x".into() },
        ..rule("worse", "signal.key == 'worse'", Target::Drained)
    };
    let milder = rule("mild", "signal.key == 'mild'", Target::Quarantined);
    let mut server = Server::default();
    let mut leader = Leader::begin(&server, 0, Policy { rules: vec![worse, milder], ..policy() });
    leader.raise("gpu-0", "mild", "");
    write(&mut server, &mut leader);
    used(&mut leader, "", "");
    leader.now += MINUTE;
    leader.raise("gpu-0", "worse", "");
    write(&mut server, &mut leader);
    write(&mut server, &mut leader);
    assert_eq!((incident(&server).stage, leader.core.poll_view()), (Stage::Draining, None));
    leader.work(&mut server, |_| false);
    assert_eq!(incident(&server).stage, Stage::Repairing);
}
