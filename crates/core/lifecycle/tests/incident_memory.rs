//! The memory of an open incident, counted by the allocator: with its objects, as a watch delivers them, and at rest.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "it says what it counted")]

use std::alloc::System;

use cap::Cap;
use lazaret_lifecycle::{
    Acts, Child, ChildTarget, Incident, Input, Mode, Notice, Owner, Policy, Reconciler, Rule, Signal, Source,
    Stage, Stored, TaintKeyValue, Target, When, WriteKind,
};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Text, Timestamp};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const INCIDENTS: usize = 10_000;
/// The limit, in bytes.
const BYTES_MAX: usize = 2_048;

fn policy() -> Policy {
    let rule = Rule {
        name: "fatal-xid".into(),
        when: When::compile(r#"signal.key == "gpu.example.com/xid""#).unwrap(),
        count: None,
        hold_ms: 0,
        target: Target::Drained,
        taint: TaintKeyValue::quarantine("xid"),
    };
    Policy {
        name: "gpus".into(),
        mode: Mode::Enforce,
        rules: vec![rule],
        clear_after_ms: 900_000,
        steps: Vec::new(),
        attempts_max: 1,
        blocked: None,
        recovery: None,
    }
}

fn id(number: usize) -> DeviceId {
    DeviceId::new("gpu.example.com", format!("node-{}", number / 8), format!("gpu-{}", number % 8))
}

fn fresh(text: &Text) -> Text {
    (**text).into()
}

fn fresh_taint(taint: &TaintKeyValue) -> TaintKeyValue {
    TaintKeyValue { key: fresh(&taint.key), value: fresh(&taint.value) }
}

/// As it is read from an API server: nothing is shared.
fn read(incident: &Incident) -> Incident {
    let mut incident = incident.clone();
    let device = &incident.device;
    incident.device = DeviceId::new(&*device.driver, &*device.pool, &*device.device);
    incident.hardware = incident.hardware.as_ref().map(fresh);
    for text in [
        &mut incident.name,
        &mut incident.policy,
        &mut incident.rule,
        &mut incident.waits_for,
        &mut incident.taint.key,
        &mut incident.taint.value,
    ] {
        *text = fresh(text);
    }
    for entry in &mut incident.timeline {
        (entry.cause, entry.actor) = (fresh(&entry.cause), fresh(&entry.actor));
    }
    incident
}

/// A cluster that carries out all writes and reports them.
struct Cluster {
    core: Reconciler,
    now: Timestamp,
    version: u64,
}

impl Cluster {
    fn stamp(&mut self) -> Text {
        self.version += 1;
        format!("{}", self.version).into()
    }

    /// As long as the UIDs of Kubernetes.
    fn uid(&mut self) -> Text {
        self.version += 1;
        format!("00000000-0000-0000-0000-{:012}", self.version).into()
    }

    fn stored(&mut self, uid: &Text, incident: Incident) {
        let version = self.stamp();
        let stored = Stored { uid: fresh(uid), version, incident, acts: Acts::default() };
        self.core.handle(self.now, Notice::Stored(Box::new(stored)));
    }

    fn child(&mut self, owner: &Owner, target: ChildTarget) {
        let (uid, name) = (self.uid(), fresh(&owner.name));
        let owner = Owner { name: fresh(&owner.name), uid: fresh(&owner.uid) };
        self.core.handle(self.now, Notice::Child(Child { namespace: "".into(), name, uid, owner, target }));
    }

    /// Does everything that is wanted.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.now = self.now.plus_millis(60_000);
            self.core.handle(self.now, Notice::Tick);
            if let Some(view) = self.core.poll_view() {
                self.core.handle(self.now, Notice::ViewReached(view.number));
                self.core.handle(self.now, Notice::Tick);
            }
            while let Some(write) = self.core.poll_effect() {
                let new_uid = self.uid();
                let uid = matches!(write.kind, WriteKind::Create(_)).then(|| new_uid.clone());
                let done = Outcome::Done;
                let notice =
                    Notice::Acknowledged { id: write.id, outcome: done, version: None, uid, refused: None };
                self.core.handle(self.now, notice);
                match &write.kind {
                    WriteKind::Create(incident) => {
                        let mut opened = read(incident);
                        opened.timeline.truncate(1);
                        (opened.stage, opened.tries, opened.waits_for) =
                            (opened.timeline[0].stage, 0, Text::default());
                        self.stored(&new_uid, opened);
                    }
                    WriteKind::Record(uid, _, incident) => self.stored(uid, read(incident)),
                    WriteKind::Taint { owner, device, effect, taint, .. } => {
                        let device = DeviceId::new(&*device.driver, &*device.pool, &*device.device);
                        let (effect, taint) = ((*effect).into(), fresh_taint(taint));
                        self.child(owner, ChildTarget::Rule { device, effect, taint, held: None });
                    }
                    WriteKind::Drain { owner, device, taint, .. } => {
                        let device = DeviceId::new(&*device.driver, &*device.pool, &*device.device);
                        self.child(
                            owner,
                            ChildTarget::Drain {
                                device,
                                taint: fresh_taint(taint),
                                evicted: 1,
                                held: "".into(),
                            },
                        );
                    }
                    WriteKind::Run { .. }
                    | WriteKind::Delete(..)
                    | WriteKind::Remove(..)
                    | WriteKind::DropReport(..)
                    | WriteKind::Tally(..)
                    | WriteKind::Broken(..) => {}
                }
            }
        }
    }
}

#[test]
fn an_open_incident_takes_no_more_than_asked_for() {
    let mut cluster = Cluster { core: Reconciler::default(), now: Timestamp::from_millis(1), version: 0 };
    let now = cluster.now;
    cluster.core.handle(now, Notice::Core(Input::Policy(Box::new(policy()))));
    cluster.core.handle(now, Notice::BecameLeader);
    for number in 0..INCIDENTS {
        let hardware = Some(format!("GPU-{number:032}").into());
        let input = Input::Device { id: id(number), hardware, policies: vec!["gpus".into()] };
        cluster.core.handle(now, Notice::Core(input));
    }
    let before = MEMORY.allocated();
    for number in 0..INCIDENTS {
        let signal = Signal {
            device: id(number),
            key: "gpu.example.com/xid".into(),
            value: "79".into(),
            source: Source::Taint,
            at: now,
            lasts: true,
            message: "the driver reports gpu.example.com/xid=79:None".into(),
        };
        cluster.core.handle(now, Notice::Core(Input::Raised(signal)));
        let namespaces = vec!["training".into()];
        let used = Input::InUse { device: id(number), is_used: true, namespaces, stays: "".into() };
        cluster.core.handle(now, Notice::Core(used));
    }
    cluster.settle();
    for number in 0..INCIDENTS {
        let unused =
            Input::InUse { device: id(number), is_used: false, namespaces: Vec::new(), stays: "".into() };
        cluster.core.handle(cluster.now, Notice::Core(unused));
    }
    cluster.settle();
    let each = MEMORY.allocated().saturating_sub(before) / INCIDENTS;
    let open = cluster.core.lifecycle().incidents();
    let stages: Vec<(Stage, usize)> = open.map(|one| (one.stage, one.timeline.len())).collect();
    assert_eq!(stages, vec![(Stage::Repairing, 2); INCIDENTS]);
    println!("{INCIDENTS} open incidents: {each} bytes each");
    assert!(each <= BYTES_MAX, "an open incident takes {each} bytes, {BYTES_MAX} are asked for");
}
