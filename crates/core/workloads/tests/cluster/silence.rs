//! Answers that never come, and leads that are lost.

use lazaret_machine::{Machine as _, Turn};
use lazaret_model::Timestamp;
use lazaret_workloads::{Object, Workloads, Write, resource, rules};

use crate::support::{api::Api, replica_set};

fn asking() -> (Workloads, Timestamp, Write) {
    let mut core = Workloads::new(&[rules::REPLICA_SETS]);
    let now = Timestamp::from_secs(1_800_000_000);
    resource::KNOWN.iter().for_each(|resource| core.list(now, resource, Vec::new(), 0));
    let set = Api::default().create(now, &resource::REPLICA_SETS, replica_set("web", 1)).unwrap();
    core.put(now, Object::parse(&resource::REPLICA_SETS, &set).unwrap());
    let create = creation(core.poll(now)).unwrap();
    (core, now, create)
}

fn creation(effects: Vec<lazaret_workloads::Effect>) -> Option<Write> {
    effects.into_iter().map(|effect| effect.kind).find(|write| matches!(write, Write::Create { .. }))
}

#[test]
fn nothing_is_asked_twice_while_an_answer_may_come_and_the_same_is_asked_when_none_will() {
    let (mut core, now, create) = asking();
    for secs in [1, 30, 119] {
        assert_eq!(creation(core.poll(now.plus_secs(secs))), None, "after {secs} seconds");
    }
    assert!(Workloads::next_wake(&core).unwrap() <= now.plus_secs(120));
    core.poll(now.plus_secs(120));
    assert_eq!(creation(core.poll(now.plus_secs(121))), Some(create), "the same pod, under the same name");
}

#[test]
fn who_leads_anew_decides_anew() {
    let (mut core, now, _) = asking();
    core.handle(now, &(), Turn::LostLeadership);
    assert_eq!(core.load().next().unwrap().2, 0, "nothing is under way");
    assert!(creation(core.poll(now.plus_secs(1))).is_some());
}
