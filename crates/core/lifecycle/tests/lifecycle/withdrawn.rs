//! A repair or validation that its policy does not want any more, and wants again later.

use lazaret_lifecycle::{ChildKind, ChildTarget, Incident, Input, Mode, Notice, Policy, Stage, WriteKind};
use lazaret_model::Text;

use crate::{
    cluster::{Leader, Server},
    world::{MINUTE, device, policy},
};

fn observing() -> Policy {
    Policy { mode: Mode::Observe, ..policy() }
}

/// A device whose first repair runs.
fn repairing() -> (Server, Leader) {
    let mut server = Server::default();
    let mut leader = Leader::begin(&server, 0, policy());
    leader.raise("gpu-0", "xid", "79");
    leader.work(&mut server, |_| false);
    let (device, namespaces) = (device("gpu-0"), Vec::new());
    leader.hear(Notice::Core(Input::InUse { device, is_used: false, namespaces, stays: "".into() }));
    leader.work(&mut server, |_| false);
    assert_eq!(running(&server), server.jobs);
    assert_eq!(server.jobs.len(), 1, "{:?}", server.jobs);
    (server, leader)
}

fn running(server: &Server) -> Vec<Text> {
    server.children.keys().filter(|(kind, _)| *kind == ChildKind::Job).map(|(_, name)| name.clone()).collect()
}

fn incident(server: &Server) -> &Incident {
    &server.incidents.values().next().unwrap().incident
}

/// No name is used twice: an answer that comes late, of a Job that is still being deleted, would be taken for that of the next.
fn assert_repaired_again(server: &Server) {
    let [first, second] = &server.jobs[..] else { panic!("{:?}", server.jobs) };
    assert_ne!(first, second, "each run has its own number");
    assert_eq!(running(server), std::slice::from_ref(second));
    assert_eq!(incident(server).task_name(), *second);
}

#[test]
fn a_policy_that_observed_for_a_while_repairs_under_another_number() {
    let (mut server, mut leader) = repairing();
    leader.policy(observing());
    leader.work(&mut server, |_| false);
    assert_eq!(server.children.len(), 0, "nothing is done while it observes");
    leader.policy(policy());
    leader.work(&mut server, |_| false);
    assert_repaired_again(&server);
}

/// The policy was deleted while nobody led.
#[test]
fn an_incident_that_is_found_without_its_policy_is_left_to_people() {
    let (mut server, mut leader) = repairing();
    leader.hear(Notice::LostLeadership);
    leader.hear(Notice::Core(Input::PolicyGone("p".into())));
    leader.hear(Notice::BecameLeader);
    leader.work(&mut server, |_| false);
    assert_eq!(
        &*incident(&server).waits_for,
        "its policy is gone: a person decides, with kubectl device repaired or kubectl device abandon"
    );
    leader.policy(policy());
    leader.work(&mut server, |_| false);
    assert_repaired_again(&server);
}

#[test]
fn a_policy_that_was_deleted_and_made_again_repairs_under_another_number() {
    let (mut server, mut leader) = repairing();
    leader.hear(Notice::Core(Input::PolicyGone("p".into())));
    leader.work(&mut server, |_| false);
    assert_eq!(running(&server), [] as [Text; 0]);
    leader.policy(policy());
    leader.work(&mut server, |_| false);
    assert_repaired_again(&server);
}

#[test]
fn a_step_that_was_taken_out_and_put_back_runs_under_another_number() {
    let (mut server, mut leader) = repairing();
    leader.policy(Policy { steps: Vec::new(), ..policy() });
    leader.work(&mut server, |_| false);
    assert_eq!(running(&server), [] as [Text; 0]);
    leader.policy(policy());
    leader.work(&mut server, |_| false);
    assert_repaired_again(&server);
}

/// The first leader ends when it has deleted the Job; the second never hears that the policy observed.
#[test]
fn the_next_leader_does_not_use_the_number_of_a_job_that_was_deleted() {
    let (mut server, mut leader) = repairing();
    leader.policy(observing());
    for _ in 0..10 {
        leader.work(&mut server, |_| false);
        if running(&server).is_empty() {
            break;
        }
    }
    assert_eq!(running(&server), [] as [Text; 0]);
    let mut next = Leader::begin(&server, MINUTE, policy());
    let (device, namespaces) = (device("gpu-0"), Vec::new());
    next.hear(Notice::Core(Input::InUse { device, is_used: false, namespaces, stays: "".into() }));
    next.work(&mut server, |_| false);
    assert_repaired_again(&server);
}

/// A Job is deleted only when its number is stored as used up.
#[test]
fn a_job_stays_until_it_is_stored_that_it_is_withdrawn() {
    let (mut server, mut leader) = repairing();
    leader.policy(observing());
    leader.work(&mut server, |kind| matches!(kind, WriteKind::Record(..)));
    assert_eq!(running(&server).len(), 1);
    let mut next = Leader::begin(&server, MINUTE, policy());
    next.work(&mut server, |_| false);
    assert_eq!(server.jobs.len(), 1, "it goes on: {:?}", server.jobs);
    assert_eq!(running(&server), server.jobs);
}

#[test]
fn a_repair_has_its_whole_time_whatever_was_observed_before() {
    for gone in [false, true] {
        let (mut server, mut leader) = repairing();
        if gone {
            leader.hear(Notice::Core(Input::PolicyGone("p".into())));
        } else {
            leader.policy(observing());
        }
        leader.work(&mut server, |_| false);
        // Longer than the first step may take, and too short to be calm.
        leader.now += 11 * MINUTE;
        leader.policy(policy());
        leader.work(&mut server, |_| false);
        assert_repaired_again(&server);
        let incident = incident(&server);
        assert_eq!((incident.stage, incident.step), (Stage::Repairing, 0), "{:?}", incident.timeline);
        leader.now += 11 * MINUTE;
        leader.work(&mut server, |_| false);
        assert_eq!(self::incident(&server).step, 1, "and not more");
    }
}

/// The policy and the Job are heard of in one batch: the incident is over by the first, and the second is of no use.
#[test]
fn a_result_that_comes_with_the_end_of_its_incident_is_passed_over() {
    let (mut server, mut leader) = repairing();
    leader.now += 16 * MINUTE;
    leader.policy(observing());
    assert_eq!(leader.core.lifecycle().incidents().count(), 0, "it is calm, and nothing is enforced");
    let mut job =
        server.children.values().find(|child| child.target.kind() == ChildKind::Job).cloned().unwrap();
    job.target = ChildTarget::Job { result: Some(Ok(())) };
    leader.hear(Notice::Child(job));
    leader.work(&mut server, |_| false);
    assert_eq!(incident(&server).stage, Stage::Cleared);
}
