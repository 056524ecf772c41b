//! Only what a leader made, and stored that it made it, counts as a repair or a validation.

use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, Incident, Input, Notice, Policy, Stage, TaskObject, WriteKind,
};

use crate::{
    cluster::{Leader, Server},
    world::{MINUTE, device, policy},
};

/// A device that is to be repaired.
fn drained(policy: Policy) -> (Server, Leader) {
    let mut server = Server::default();
    let mut leader = Leader::begin(&server, 0, policy);
    leader.raise("gpu-0", "xid", "79");
    leader.work(&mut server, |_| false);
    let (device, namespaces) = (device("gpu-0"), Vec::new());
    leader.hear(Notice::Core(Input::InUse { device, is_used: false, namespaces, stays: "".into() }));
    (server, leader)
}

fn incident(server: &Server) -> &Incident {
    &server.incidents.values().next().unwrap().incident
}

fn job(server: &Server) -> Child {
    server.children.values().find(|child| child.target.kind() == ChildKind::Job).cloned().unwrap()
}

fn done(child: Child) -> Child {
    Child { target: ChildTarget::Job { result: Some(Ok(())) }, ..child }
}

#[test]
fn a_job_of_another_namespace_or_incarnation_is_no_repair_and_is_left_alone() {
    for (namespace, uid) in [("tenant", "theirs"), ("", "theirs"), ("tenant", "")] {
        let (mut server, mut leader) = drained(policy());
        leader.work(&mut server, |_| false);
        let real = job(&server);
        assert_eq!(incident(&server).task.as_deref(), Some(&real.object()), "it is stored which it is");
        let uid = if uid.is_empty() { real.uid.clone() } else { uid.into() };
        leader.hear(Notice::Child(done(Child { namespace: namespace.into(), uid, ..real.clone() })));
        leader.work(&mut server, |kind| {
            assert!(!matches!(kind, WriteKind::Delete(ChildKind::Job, ..)), "{kind:?}");
            false
        });
        assert_eq!(incident(&server).stage, Stage::Repairing, "{namespace} counts");
        server.children.insert((ChildKind::Job, real.name.clone()), done(real));
        leader.work(&mut server, |_| false);
        assert_eq!(incident(&server).stage, Stage::Repairing, "its watch has not told of it");
        leader.hear(Notice::Child(done(job(&server))));
        leader.work(&mut server, |_| false);
        assert_eq!(incident(&server).stage, Stage::Probation, "the real one counts");
    }
}

#[test]
fn a_result_counts_once_it_is_stored_whose_it_is() {
    let (mut server, mut leader) = drained(policy());
    let is_of_task =
        |kind: &WriteKind| matches!(kind, WriteKind::Record(_, _, incident) if incident.task.is_some());
    leader.work(&mut server, is_of_task);
    let job = done(job(&server));
    server.children.insert((ChildKind::Job, job.name.clone()), job.clone());
    leader.hear(Notice::Child(job.clone()));
    leader.work(&mut server, is_of_task);
    assert_eq!(incident(&server).stage, Stage::Repairing, "nobody could know later why it went on");
    let mut next = Leader::begin(&server, MINUTE, policy());
    let (device, namespaces) = (device("gpu-0"), Vec::new());
    next.hear(Notice::Core(Input::InUse { device, is_used: false, namespaces, stays: "".into() }));
    next.work(&mut server, |_| false);
    assert_eq!(server.jobs.len(), 2, "the repair, and the validation: {:?}", server.jobs);
    assert_eq!(incident(&server).stage, Stage::Probation, "the next leader found it");
}

#[test]
fn a_request_is_done_when_the_object_that_was_made_says_so() {
    let (mut server, mut leader) = drained(policy());
    leader.work(&mut server, |_| false);
    let real = job(&server).object();
    leader.hear(Notice::Asked(TaskObject { uid: "theirs".into(), ..real.clone() }, Some(Ok(()))));
    leader.work(&mut server, |_| false);
    assert_eq!(incident(&server).stage, Stage::Repairing);
    leader.hear(Notice::Asked(real, Some(Ok(()))));
    leader.work(&mut server, |_| false);
    assert_eq!(incident(&server).stage, Stage::Probation);
}

#[test]
fn what_keeps_a_task_from_being_made_is_said_until_it_is_made() {
    let (mut server, mut leader) = drained(policy());
    leader.work(&mut server, |kind| matches!(kind, WriteKind::Run { .. }));
    let task = incident(&server).task_name();
    leader.hear(Notice::Obstructed(task, "Job a/b is there".into()));
    leader.work(&mut server, |kind| matches!(kind, WriteKind::Run { .. }));
    assert_eq!(&*incident(&server).waits_for, "Job a/b is there");
    leader.now += MINUTE;
    leader.work(&mut server, |_| false);
    assert_eq!(&*incident(&server).waits_for, "repair reset");
}

#[test]
fn without_an_account_an_incident_waits_and_says_why_however_long_it_takes() {
    let why = "spec.serviceAccount: name one";
    let (mut server, mut leader) = drained(Policy { blocked: Some(why.into()), ..policy() });
    for _ in 0..10 {
        leader.work(&mut server, |_| false);
        leader.now += 30 * MINUTE;
    }
    assert_eq!((incident(&server).stage, incident(&server).step), (Stage::Repairing, 0));
    assert_eq!(&*incident(&server).waits_for, why);
    assert!(server.jobs.is_empty(), "{:?}", server.jobs);
    leader.policy(policy());
    leader.work(&mut server, |_| false);
    assert_eq!(server.jobs.len(), 1, "{:?}", server.jobs);
    assert_eq!(incident(&server).step, 0, "it has its whole time");
}
