//! A small API, and a leader that reconciles its objects.

use std::collections::BTreeMap;

use lazaret_lifecycle::{
    Acts, Child, ChildKind, ChildTarget, History, Input, Limit, Notice, Owner, Policy, Reconciler, Selected,
    Signal, Source, Stored, Write, WriteKind,
};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Text, Unit};

use crate::world::{at, device};

/// A taint that was seen for this long is in force.
const SETTLES_MS: i64 = 2_000;

/// The API: incidents, and the objects that were made for them.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) incidents: BTreeMap<Text, Stored>,
    pub(crate) children: BTreeMap<(ChildKind, Text), Child>,
    /// Every Job that was made, in order.
    pub(crate) jobs: Vec<Text>,
    writes: u64,
}

impl Server {
    pub(crate) fn tainted(&self) -> Vec<DeviceId> {
        let of_rule = |rule: &Child| match &rule.target {
            ChildTarget::Rule { device, .. } => Some(device.clone()),
            _ => None,
        };
        self.children.values().filter_map(of_rule).collect()
    }

    /// One of the two devices may be out of service.
    pub(crate) fn limits(&self) -> Notice {
        Notice::Core(Input::Limits(vec![Limit {
            guard: "g".into(),
            selects: Selected::All,
            counts: "devices",
            window_seconds: 0,
            permitted: Some(1),
            total: 2,
            out: self.tainted().into_iter().map(Unit::Device).collect(),
            unnamed: 0,
            stops: None,
        }]))
    }

    pub(crate) fn write(&mut self, write: &Write) -> (Option<Text>, Option<Text>) {
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
                self.make(&owner.name, owner, ChildTarget::Rule { device, effect, taint, held: None });
                (None, None)
            }
            WriteKind::Drain { owner, device, taint, .. } => {
                let (device, taint) = (device.clone(), taint.clone());
                self.make(
                    &owner.name,
                    owner,
                    ChildTarget::Drain { device, taint, evicted: 0, held: "".into() },
                );
                (None, None)
            }
            WriteKind::Run { owner, name, .. } => {
                self.jobs.push(name.clone());
                self.make(name, owner, ChildTarget::Job { result: None });
                (None, None)
            }
            WriteKind::Delete(kind, _, name, _) => {
                self.children.remove(&(*kind, name.clone()));
                (None, None)
            }
            WriteKind::Tally(..) => (None, None),
            other => panic!("{other:?}"),
        }
    }

    fn make(&mut self, name: &Text, owner: &Owner, target: ChildTarget) {
        let uid = self.writes.to_string().into();
        let kind = target.kind();
        let child = Child { namespace: "".into(), name: name.clone(), uid, owner: owner.clone(), target };
        self.children.insert((kind, name.clone()), child);
    }
}

pub(crate) struct Leader {
    pub(crate) core: Reconciler,
    pub(crate) now: i64,
}

impl Leader {
    /// Hears of a policy, of two devices and of all there is, and leads.
    pub(crate) fn begin(server: &Server, now: i64, policy: Policy) -> Self {
        Self::begin_with(server, now, policy, History::default())
    }

    pub(crate) fn begin_with(server: &Server, now: i64, policy: Policy, history: History) -> Self {
        let mut leader = Self { core: Reconciler::new(history), now };
        leader.policy(policy);
        for name in ["gpu-0", "gpu-1"] {
            let (id, hardware) = (device(name), Some(name.into()));
            leader.hear(Notice::Core(Input::Device { id, hardware, policies: vec!["p".into()] }));
        }
        leader.hear(server.limits());
        leader.see(server);
        leader.hear(Notice::BecameLeader);
        leader
    }

    pub(crate) fn hear(&mut self, notice: Notice) {
        self.core.handle(at(self.now), notice);
    }

    pub(crate) fn policy(&mut self, policy: Policy) {
        self.hear(Notice::Core(Input::Policy(Box::new(policy))));
    }

    pub(crate) fn raise(&mut self, name: &str, key: &str, value: &str) {
        self.hear(Notice::Core(Input::Raised(Signal {
            device: device(name),
            key: key.into(),
            value: value.into(),
            source: Source::Taint,
            at: at(self.now),
            lasts: false,
            message: "".into(),
        })));
    }

    pub(crate) fn see(&mut self, server: &Server) {
        for stored in server.incidents.values() {
            self.hear(Notice::Stored(Box::new(stored.clone())));
        }
        for child in server.children.values() {
            self.hear(Notice::Child(child.clone()));
        }
    }

    /// Does all it wants, but for what fails.
    pub(crate) fn work(&mut self, server: &mut Server, fails: impl Fn(&WriteKind) -> bool) {
        for _ in 0..60 {
            self.hear(server.limits());
            self.hear(Notice::Tick);
            // Watches are as new as the server, and a taint is seen for long enough.
            if let Some(view) = self.core.poll_view() {
                self.hear(Notice::ViewReached(view.number));
                self.hear(Notice::Tick);
            }
            let Some(write) = self.core.poll_effect() else {
                let settles = self.core.next_wake().map(|wake| wake.at.as_millis());
                match settles.filter(|at| *at <= self.now + SETTLES_MS) {
                    Some(at) => self.now = at,
                    None => return,
                }
                continue;
            };
            let is_done = !fails(&write.kind);
            let (version, uid) = if is_done { server.write(&write) } else { (None, None) };
            let outcome = if is_done { Outcome::Done } else { Outcome::RetryLater };
            self.hear(Notice::Acknowledged { id: write.id, outcome, version, uid, refused: None });
            self.see(server);
            if let WriteKind::Delete(kind, namespace, name, _) = write.kind
                && is_done
            {
                self.hear(Notice::ChildGone(kind, namespace, name));
            }
        }
    }
}
