//! A leader ends between what it decided and what it stored: the next one takes no more out of service than a guard permits.

use lazaret_lifecycle::{
    Child, HeldReason, Incident, Input, Notice, Policy, Stage, Stored, Target, WriteKind,
};
use lazaret_machine::Outcome;

use crate::{
    cluster::{Leader, Server},
    world::{MINUTE, device, policy, rule},
};

/// Devices that are hot are quarantined.
fn begin(server: &Server, now: i64) -> Leader {
    let rules = vec![rule("hot", r#"signal.key == "hot""#, Target::Quarantined)];
    Leader::begin(server, now, Policy { rules, recovery: None, ..policy() })
}

fn is_taint_of(kind: &WriteKind, name: &str) -> bool {
    matches!(kind, WriteKind::Taint { device: tainted, .. } if *tainted == device(name))
}

/// The incident of gpu-0 is over as the first leader has decided and could not store; its taint was never written. gpu-1 was taken out of service then.
fn handed_over(fails: impl Fn(&WriteKind) -> bool) -> Server {
    let mut server = Server::default();
    let mut first = begin(&server, 0);
    first.raise("gpu-0", "hot", "");
    first.work(&mut server, |kind| is_taint_of(kind, "gpu-0"));
    let stored = |server: &Server, name: &str| {
        let found = server.incidents.values().find(|stored| stored.incident.device == device(name));
        found.map(|stored| stored.incident.stage)
    };
    assert_eq!(stored(&server, "gpu-0"), Some(Stage::Quarantined));
    first.now += 15 * MINUTE;
    let ends =
        |kind: &WriteKind| matches!(kind, WriteKind::Record(_, _, one) if one.device == device("gpu-0"));
    first.work(&mut server, ends);
    assert_eq!(first.core.lifecycle().incidents().count(), 0, "it has decided that it is over");
    assert_eq!(stored(&server, "gpu-0"), Some(Stage::Quarantined), "and that is not stored");
    first.raise("gpu-1", "hot", "");
    first.work(&mut server, |kind| ends(kind) || fails(kind));
    assert_eq!(stored(&server, "gpu-1"), Some(Stage::Quarantined));
    server
}

#[test]
fn the_next_leader_does_not_taint_what_the_first_had_given_back() {
    let mut server = handed_over(|_| false);
    assert_eq!(server.tainted(), [device("gpu-1")]);
    let mut next = begin(&server, 16 * MINUTE);
    next.work(&mut server, |_| false);
    assert_eq!(server.tainted(), [device("gpu-1")], "one may be out of service");
}

#[test]
fn the_next_leader_taints_one_of_two_that_were_decided() {
    let mut server = handed_over(|kind| is_taint_of(kind, "gpu-1"));
    assert_eq!(server.tainted(), []);
    let mut next = begin(&server, 16 * MINUTE);
    next.work(&mut server, |_| false);
    assert_eq!(server.tainted().len(), 1, "one may be out of service: {:?}", server.tainted());
}

/// A person deleted the incident, another was opened, and the first is created once more by a write that comes late: it has no status.
#[test]
fn an_incident_that_is_created_late_and_kept_gets_its_status() {
    let mut server = Server::default();
    let mut leader = begin(&server, 0);
    leader.raise("gpu-0", "hot", "");
    leader.work(&mut server, |_| false);
    let (name, first) = server.incidents.pop_first().unwrap();
    leader.hear(Notice::StoredGone(name.clone(), first.uid.clone()));
    leader.raise("gpu-0", "hot", "");
    leader.work(&mut server, |_| false);
    assert_eq!(server.incidents.len(), 1);
    let bare = Incident { waits_for: "".into(), is_enforced: false, ..first.incident };
    let late = Stored { uid: "late".into(), version: "0".into(), incident: bare, acts: first.acts };
    server.incidents.insert(name.clone(), late.clone());
    leader.hear(Notice::Stored(Box::new(late)));
    leader.work(&mut server, |_| false);
    let stages: Vec<Stage> = server.incidents.values().map(|stored| stored.incident.stage).collect();
    assert_eq!(stages, [Stage::Quarantined, Stage::Cleared], "of two alike the older one is kept");
    let kept = &server.incidents[&name].incident;
    assert!(kept.is_enforced && !kept.waits_for.is_empty(), "{kept:?}");
}

/// The same while a guard is paused. The taint of the first is to go, which is not seen yet: it does not stand for the incident that comes late.
#[test]
fn an_incident_that_is_created_late_is_not_out_of_service_by_the_taint_of_another() {
    let mut server = Server::default();
    let mut leader = begin(&server, 0);
    leader.raise("gpu-0", "hot", "");
    leader.work(&mut server, |_| false);
    let (name, first) = server.incidents.pop_first().unwrap();
    let Notice::Core(Input::Limits(mut limits)) = server.limits() else { panic!("these are limits") };
    limits[0].stops = Some((HeldReason::Paused, "it is paused".into()));
    leader.hear(Notice::Core(Input::Limits(limits)));
    leader.hear(Notice::StoredGone(name, first.uid.clone()));
    leader.raise("gpu-0", "hot", "");
    leader.hear(Notice::Tick);
    let out = |leader: &Leader| {
        let is_out = |one: &&Incident| one.is_enforced && one.stage.is_out_of_service();
        leader.core.lifecycle().incidents().find(is_out).cloned()
    };
    assert_eq!(out(&leader), None, "the second is held");
    let bare = Incident { waits_for: "".into(), is_enforced: false, ..first.incident };
    let late = Stored { uid: "late".into(), version: "0".into(), incident: bare, acts: first.acts };
    leader.hear(Notice::Stored(Box::new(late)));
    leader.hear(Notice::Tick);
    assert_eq!(out(&leader), None, "and so is the first");
}

/// A leader has decided that the incident of gpu-0 is over, and could not store it. The one before it had stored that a person gives the device up.
fn closed_and_given_up() -> (Server, Leader, Stored) {
    let mut server = Server::default();
    let mut leader = begin(&server, 0);
    leader.raise("gpu-0", "hot", "");
    leader.work(&mut server, |_| false);
    leader.now += 15 * MINUTE;
    let stored = server.incidents.values().next().unwrap().clone();
    let incident = Incident { stage: Stage::Abandoned, ..stored.incident };
    (server, leader, Stored { version: "1000".into(), incident, ..stored })
}

fn assert_given_up(mut server: Server, mut leader: Leader, late: Stored) {
    server.incidents.insert(late.incident.name.clone(), late);
    leader.now += MINUTE;
    leader.work(&mut server, |_| false);
    let stages: Vec<Stage> = server.incidents.values().map(|stored| stored.incident.stage).collect();
    assert_eq!(stages, [Stage::Abandoned], "only a person ends it");
}

#[test]
fn what_a_leader_before_has_given_up_is_not_closed() {
    let (mut server, mut leader, late) = closed_and_given_up();
    leader.work(&mut server, |kind| matches!(kind, WriteKind::Record(..)));
    assert_eq!(leader.core.lifecycle().incidents().count(), 0, "it has decided that it is over");
    leader.hear(Notice::Stored(Box::new(late.clone())));
    assert_given_up(server, leader, late);
}

#[test]
fn what_a_leader_before_has_given_up_is_not_closed_by_a_write_in_flight() {
    let (server, mut leader, late) = closed_and_given_up();
    leader.hear(server.limits());
    leader.hear(Notice::Tick);
    let write = leader.core.poll_effect().unwrap();
    assert!(matches!(&write.kind, WriteKind::Record(_, _, one) if one.stage == Stage::Cleared), "{write:?}");
    leader.hear(Notice::Stored(Box::new(late.clone())));
    let (outcome, version, uid) = (Outcome::Conflict, None, None);
    leader.hear(Notice::Acknowledged { id: write.id, outcome, version, uid, refused: None });
    assert_given_up(server, leader, late);
}

/// The leader before it has opened an incident of the same name, which is stored late.
#[test]
fn an_incident_of_the_same_name_is_not_opened_twice() {
    let mut server = Server::default();
    let mut leader = begin(&server, 0);
    leader.raise("gpu-0", "hot", "");
    leader.hear(Notice::Tick);
    let write = leader.core.poll_effect().unwrap();
    let WriteKind::Create(incident) = &write.kind else { panic!("{write:?}") };
    let bare = Incident { waits_for: "".into(), is_enforced: false, ..Incident::clone(incident) };
    let acts = lazaret_lifecycle::Acts::default();
    let late = Stored { uid: "late".into(), version: "1".into(), incident: bare, acts };
    server.incidents.insert(late.incident.name.clone(), late.clone());
    let (outcome, version, uid) = (Outcome::Conflict, None, None);
    leader.hear(Notice::Acknowledged { id: write.id, outcome, version, uid, refused: None });
    leader.hear(Notice::Stored(Box::new(late)));
    leader.now += MINUTE;
    leader.work(&mut server, |_| false);
    assert_eq!((server.incidents.len(), leader.core.lifecycle().incidents().count()), (1, 1));
    assert_eq!(server.tainted(), [device("gpu-0")]);
    let owners: Vec<&str> = server.children.values().map(|child| &*child.owner.uid).collect();
    assert_eq!(owners, ["late"]);
}

/// The taint of gpu-1 was sent, and arrives when the next leader has begun.
#[test]
fn a_taint_that_comes_late_is_taken_back() {
    let mut server = handed_over(|kind| is_taint_of(kind, "gpu-1"));
    let late = handed_over(|_| false);
    let mut next = begin(&server, 16 * MINUTE);
    next.work(&mut server, |_| false);
    server.children.extend(late.children);
    let told: Vec<Child> = server.children.values().cloned().collect();
    told.into_iter().for_each(|child| next.hear(Notice::Child(child)));
    next.hear(server.limits());
    next.hear(Notice::Tick);
    let both = server.tainted().len() > 1;
    let taken_back = core::iter::from_fn(|| next.core.poll_effect())
        .any(|write| matches!(write.kind, WriteKind::Delete(..)));
    assert_eq!(taken_back, both, "{:?}", server.tainted());
}
