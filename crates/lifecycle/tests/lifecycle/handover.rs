//! A leader ends between what it decided and what it stored: the next one takes no more out of service than a guard permits.

use lazaret_lifecycle::{Child, Incident, Notice, Policy, Stage, Stored, Target, WriteKind};

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
