//! A leader ends between what it decided and what it stored: the next one takes no more out of service than a guard permits.

use std::collections::BTreeMap;

use lazaret_lifecycle::{
    Acts, Child, ChildTarget, History, Input, Limit, Notice, Policy, Reconciler, Selected, Signal, Source,
    Stage, Stored, Target, Write, WriteKind,
};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Text, Unit};

use crate::world::{MINUTE, at, device, policy, rule};

/// The API: incidents, and the rules that were made for them.
#[derive(Default)]
struct Server {
    incidents: BTreeMap<Text, Stored>,
    rules: BTreeMap<Text, Child>,
    writes: u64,
}

impl Server {
    fn tainted(&self) -> Vec<DeviceId> {
        let of_rule = |rule: &Child| match &rule.target {
            ChildTarget::Rule { device, .. } => Some(device.clone()),
            _ => None,
        };
        self.rules.values().filter_map(of_rule).collect()
    }

    /// One of the two devices may be out of service.
    fn limits(&self) -> Notice {
        Notice::Heard(Input::Limits(vec![Limit {
            guard: "g".into(),
            selects: Selected::All,
            counts: "devices",
            window_seconds: 0,
            permitted: Some(1),
            total: 2,
            out: self.tainted().into_iter().map(Unit::Device).collect(),
            stops: None,
        }]))
    }

    fn write(&mut self, write: &Write) -> (Option<Text>, Option<Text>) {
        self.writes += 1;
        let version: Text = self.writes.to_string().into();
        match &write.kind {
            WriteKind::Create(incident) => {
                let uid: Text = format!("uid of {}", incident.name).into();
                let mut opened = (**incident).clone();
                opened.timeline.truncate(1);
                (opened.stage, opened.since) = (opened.timeline[0].stage, opened.timeline[0].at);
                let (acts, name) = (Acts::default(), incident.name.clone());
                let stored = Stored { uid: uid.clone(), version: version.clone(), incident: opened, acts };
                self.incidents.insert(name, stored);
                (Some(version), Some(uid))
            }
            WriteKind::Record(_, _, incident) => {
                let stored = self.incidents.get_mut(&incident.name).unwrap();
                (stored.version, stored.incident) = (version.clone(), (**incident).clone());
                (Some(version), None)
            }
            WriteKind::Taint { owner, device, effect, taint, .. } => {
                let (device, taint, effect) = (device.clone(), taint.clone(), Text::from(*effect));
                let target = ChildTarget::Rule { device, effect, taint };
                let (namespace, name) = (Text::default(), owner.name.clone());
                let rule = Child { namespace, name, uid: version, owner: owner.clone(), target };
                self.rules.insert(owner.name.clone(), rule);
                (None, None)
            }
            WriteKind::Tally(..) => (None, None),
            other => panic!("{other:?}"),
        }
    }
}

struct Leader {
    core: Reconciler,
    now: i64,
}

impl Leader {
    /// Hears of the policy, of two devices and of all there is, and leads.
    fn begin(server: &Server, now: i64) -> Self {
        let mut leader = Self { core: Reconciler::new(History::default()), now };
        let rules = vec![rule("hot", r#"signal.key == "hot""#, Target::Quarantined)];
        leader.hear(Notice::Heard(Input::Policy(Box::new(Policy { rules, recovery: None, ..policy() }))));
        for name in ["gpu-0", "gpu-1"] {
            let (id, hardware) = (device(name), Some(name.into()));
            leader.hear(Notice::Heard(Input::Device { id, hardware, policies: vec!["p".into()] }));
        }
        leader.hear(server.limits());
        for stored in server.incidents.values() {
            leader.hear(Notice::Stored(Box::new(stored.clone())));
        }
        for rule in server.rules.values() {
            leader.hear(Notice::Child(rule.clone()));
        }
        leader.hear(Notice::BecameLeader);
        leader
    }

    fn hear(&mut self, notice: Notice) {
        self.core.handle(at(self.now), notice);
    }

    fn raise(&mut self, name: &str) {
        self.hear(Notice::Heard(Input::Raised(Signal {
            device: device(name),
            key: "hot".into(),
            value: "".into(),
            source: Source::Taint,
            at: at(self.now),
            lasts: false,
            message: "".into(),
        })));
    }

    /// Does all it wants, but for what fails.
    fn work(&mut self, server: &mut Server, fails: impl Fn(&WriteKind) -> bool) {
        for _ in 0..20 {
            self.hear(server.limits());
            self.hear(Notice::Tick);
            let Some(write) = self.core.poll_effect() else { return };
            let is_done = !fails(&write.kind);
            let (version, uid) = if is_done { server.write(&write) } else { (None, None) };
            let outcome = if is_done { Outcome::Done } else { Outcome::RetryLater };
            self.hear(Notice::Acknowledged { id: write.id, outcome, version, uid, refused: None });
            let told: Vec<Stored> = server.incidents.values().cloned().collect();
            told.into_iter().for_each(|stored| self.hear(Notice::Stored(Box::new(stored))));
            let told: Vec<Child> = server.rules.values().cloned().collect();
            told.into_iter().for_each(|rule| self.hear(Notice::Child(rule)));
        }
    }
}

fn is_taint_of(kind: &WriteKind, name: &str) -> bool {
    matches!(kind, WriteKind::Taint { device: tainted, .. } if *tainted == device(name))
}

/// The incident of gpu-0 is over as the first leader has decided and could not store; its taint was never written. gpu-1 was taken out of service then.
fn handed_over(fails: impl Fn(&WriteKind) -> bool) -> Server {
    let mut server = Server::default();
    let mut first = Leader::begin(&server, 0);
    first.raise("gpu-0");
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
    first.raise("gpu-1");
    first.work(&mut server, |kind| ends(kind) || fails(kind));
    assert_eq!(stored(&server, "gpu-1"), Some(Stage::Quarantined));
    server
}

#[test]
fn the_next_leader_does_not_taint_what_the_first_had_given_back() {
    let mut server = handed_over(|_| false);
    assert_eq!(server.tainted(), [device("gpu-1")]);
    let mut next = Leader::begin(&server, 16 * MINUTE);
    next.work(&mut server, |_| false);
    assert_eq!(server.tainted(), [device("gpu-1")], "one may be out of service");
}

#[test]
fn the_next_leader_taints_one_of_two_that_were_decided() {
    let mut server = handed_over(|kind| is_taint_of(kind, "gpu-1"));
    assert_eq!(server.tainted(), []);
    let mut next = Leader::begin(&server, 16 * MINUTE);
    next.work(&mut server, |_| false);
    assert_eq!(server.tainted().len(), 1, "one may be out of service: {:?}", server.tainted());
}

/// The taint of gpu-1 was sent, and arrives when the next leader has begun.
#[test]
fn a_taint_that_comes_late_is_taken_back() {
    let mut server = handed_over(|kind| is_taint_of(kind, "gpu-1"));
    let late = handed_over(|_| false);
    let mut next = Leader::begin(&server, 16 * MINUTE);
    next.work(&mut server, |_| false);
    server.rules.extend(late.rules);
    let told: Vec<Child> = server.rules.values().cloned().collect();
    told.into_iter().for_each(|rule| next.hear(Notice::Child(rule)));
    next.hear(server.limits());
    next.hear(Notice::Tick);
    let both = server.tainted().len() > 1;
    let taken_back = core::iter::from_fn(|| next.core.poll_effect())
        .any(|write| matches!(write.kind, WriteKind::Delete(..)));
    assert_eq!(taken_back, both, "{:?}", server.tainted());
}
