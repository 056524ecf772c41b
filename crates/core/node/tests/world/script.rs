//! A node, and a test that carries out its actions one by one.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_node::{
    Action, Answer, Call, ClaimId, ClaimKind, ClaimName, ClaimView, ClassicCall, ContainerClaim,
    ContainerUse, DeviceState, HeldDevice, Input, Life, Millis, Node, Outcome, PluginInfo, PodClaim, PodView,
    SeenPod, SocketId,
};

/// A node with a clock, and everything that it asked for and was not answered.
pub(crate) struct Script {
    pub(crate) now: Millis,
    pub(crate) node: Node,
    pub(crate) asked: Vec<(u64, Action)>,
    /// CDI names by container, of each pod.
    pub(crate) offered: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Script {
    pub(crate) fn start() -> Self {
        Self::restore(0, None)
    }

    pub(crate) fn restore(now: Millis, file: Option<&[u8]>) -> Self {
        let (asked, offered) = (Vec::new(), BTreeMap::new());
        let mut script = Self { now, node: Node::start(now, file).unwrap(), asked, offered };
        script.collect();
        script
    }

    fn collect(&mut self) {
        while let Some(asked) = self.node.poll() {
            if let Action::OfferDevices { pod, containers } = &asked.1 {
                self.offered.insert(pod.uid.clone(), containers.clone());
            }
            self.asked.push(asked);
        }
    }

    pub(crate) fn hear(&mut self, input: Input) {
        self.node.handle(self.now, input);
        self.collect();
    }

    /// Time passes, in steps that the node asks for.
    pub(crate) fn pass(&mut self, millis: Millis) {
        let end = self.now + millis;
        while let Some(at) = self.node.wake().filter(|at| *at <= end) {
            assert!(at >= self.now || self.now == 0, "the node asks to be woken in the past");
            self.now = at.max(self.now);
            self.node.tick(self.now);
            self.collect();
            if self.node.wake().is_some_and(|again| again <= self.now) {
                panic!("the node asks to be woken at once, again and again");
            }
        }
        self.now = end;
        self.node.tick(self.now);
        self.collect();
    }

    /// Takes the first action that fits.
    pub(crate) fn take(&mut self, what: &str, fits: impl Fn(&Action) -> bool) -> (u64, Action) {
        let at = self.asked.iter().position(|(_, action)| fits(action));
        let at = at.unwrap_or_else(|| panic!("no {what} in {:?}", self.asked));
        self.asked.remove(at)
    }

    pub(crate) fn has(&self, fits: impl Fn(&Action) -> bool) -> bool {
        self.asked.iter().any(|(_, action)| fits(action))
    }

    pub(crate) fn answer(&mut self, id: u64, outcome: Outcome) {
        self.hear(Input::Outcome(id, outcome));
    }

    /// The slices of the time before are wiped.
    pub(crate) fn wiped(&mut self) {
        let (id, _) = self.take("Wipe", |action| *action == Action::Wipe { driver: None });
        self.answer(id, Outcome::Done);
    }

    /// Claims are asked for, and these are found.
    pub(crate) fn find_claims(&mut self, claims: &BTreeMap<String, ClaimView>) {
        let (id, _) = self.take("ReadClaims", |action| matches!(action, Action::ReadClaims { .. }));
        self.answer(id, Outcome::Claims(by_kind(claims)));
    }

    /// The checkpoint is written.
    pub(crate) fn store(&mut self) {
        let (id, _) = self.take("Checkpoint", |action| matches!(action, Action::Checkpoint { .. }));
        self.answer(id, Outcome::Done);
    }

    pub(crate) fn sockets(&mut self, sockets: &[(&str, u64)]) {
        let id = |inode: u64| SocketId { device: 1, inode, changed_ns: 0 };
        let sockets = sockets.iter().map(|(path, inode)| ((*path).to_owned(), id(*inode)));
        self.hear(Input::Sockets(sockets.collect()));
    }

    /// A plugin is asked for its identity, and notified of the result.
    pub(crate) fn introduce(&mut self, driver: &str, endpoint: &str) -> Option<String> {
        let (id, _) = self.take("AskPlugin", |action| matches!(action, Action::AskPlugin { .. }));
        self.answer(id, Outcome::Plugin(info(driver, endpoint)));
        let (id, told) = self.take("NotifyPlugin", |action| matches!(action, Action::NotifyPlugin { .. }));
        self.answer(id, Outcome::Done);
        let Action::NotifyPlugin { error, .. } = told else { panic!() };
        error
    }

    pub(crate) fn connect(&mut self, driver: &str, endpoint: &str, is_connected: bool) {
        let (kind, driver, endpoint) = (ClaimKind::Structured, driver.to_owned(), endpoint.to_owned());
        self.hear(Input::Connected { kind, driver, endpoint, is_connected });
    }

    /// A driver with one endpoint, registered and connected.
    pub(crate) fn with_driver(driver: &str) -> Self {
        let mut script = Self::start();
        script.wiped();
        script.sockets(&[("/reg", 1)]);
        assert_eq!(script.introduce(driver, "/dra"), None);
        script.connect(driver, "/dra", true);
        script
    }

    /// Answers as a world does in which everything works, until nothing is asked any more. Gives the calls to plugins.
    pub(crate) fn work(&mut self, claims: &BTreeMap<String, ClaimView>) -> Vec<String> {
        let mut calls = Vec::new();
        while !self.asked.is_empty() {
            let (id, action) = self.asked.remove(0);
            let outcome = match action {
                Action::ReadClaims { names, .. } => {
                    let mut all = by_kind(claims);
                    all.retain(|name, _| names.contains(name));
                    Outcome::Claims(all)
                }
                Action::CallClassic { call, driver, claim, .. } => {
                    calls.push(format!("classic {:?} {driver} {}", call.call(), claim.name));
                    Outcome::Answered(Answer::Classic(well_classic(&call, &driver, &claim)))
                }
                Action::Call { call, driver, claims, service, .. } => {
                    let names: Vec<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
                    calls.push(format!("{service} {call:?} {driver} {}", names.join(",")));
                    Outcome::Answered(Answer::Claims(well(call, &driver, &claims)))
                }
                Action::Checkpoint { .. }
                | Action::Wipe { .. }
                | Action::Report(_)
                | Action::ShowStatus { .. }
                | Action::DeletePod(_)
                | Action::NotifyPlugin { .. } => Outcome::Done,
                Action::AskPlugin { .. } => panic!("a plugin is asked"),
                Action::Connect { .. }
                | Action::Disconnect { .. }
                | Action::OfferDevices { .. }
                | Action::WithdrawDevices { .. }
                | Action::Freed { .. }
                | Action::Warn { .. }
                | Action::Began { .. }
                | Action::Ended { .. } => continue,
            };
            self.answer(id, outcome);
        }
        calls
    }
}

pub(crate) fn info(driver: &str, endpoint: &str) -> PluginInfo {
    PluginInfo {
        kind: "DRAPlugin".into(),
        driver: driver.into(),
        endpoint: endpoint.into(),
        services: ["v1.DRAPlugin", "v1.DRAResourceHealth"].map(str::to_owned).to_vec(),
    }
}

/// Claims as they are found.
pub(crate) fn by_kind(claims: &BTreeMap<String, ClaimView>) -> BTreeMap<ClaimName, ClaimView> {
    claims.values().map(|claim| ((claim.id.kind, claim.id.name.clone()), claim.clone())).collect()
}

/// The answer of a plugin of classic claims that works.
pub(crate) fn well_classic(call: &ClassicCall, driver: &str, claim: &ClaimId) -> Vec<String> {
    match call {
        ClassicCall::Prepare { .. } => vec![format!("{driver}/fabric={}", claim.uid)],
        ClassicCall::Unprepare { .. } => vec![],
    }
}

/// The answer of a working plugin: one device for each claim.
pub(crate) fn well(
    call: Call,
    driver: &str,
    claims: &[ClaimId],
) -> BTreeMap<String, Result<Vec<DeviceState>, String>> {
    let device = |claim: &ClaimId| DeviceState {
        pool: "pool".into(),
        device: "gpu-0".into(),
        cdi_ids: vec![format!("{driver}/gpu={}", claim.uid)],
        ..DeviceState::default()
    };
    let devices = |claim: &ClaimId| match call {
        Call::Prepare => vec![device(claim)],
        Call::Unprepare => vec![],
    };
    claims.iter().map(|claim| (claim.uid.clone(), Ok(devices(claim)))).collect()
}

pub(crate) fn claim(name: &str, driver: &str, device: &str, pods: &[&str]) -> ClaimView {
    let held = HeldDevice {
        driver: driver.into(),
        pool: "pool".into(),
        device: device.into(),
        ..HeldDevice::default()
    };
    ClaimView {
        id: ClaimId {
            kind: ClaimKind::Structured,
            namespace: "ns".into(),
            name: name.into(),
            uid: format!("{name}-uid"),
        },
        owners: BTreeSet::new(),
        reserved_for: pods.iter().map(|pod| (*pod).to_owned()).collect::<BTreeSet<_>>(),
        drivers: Some([driver.to_owned()].into()),
        devices: vec![held],
        attributes: BTreeMap::new(),
    }
}

pub(crate) fn pod(uid: &str, claims: &[&str], life: Life) -> SeenPod {
    let kind = ClaimKind::Structured;
    let named = |name: &&str| PodClaim { kind, name: Some((*name).to_owned()), is_generated: false };
    let used = |name: &&str| {
        (Some((*name).to_owned()), ContainerClaim { kind, claim: (*name).to_owned(), request: None })
    };
    let container =
        ContainerUse { name: "c".into(), is_init: false, claims: claims.iter().map(used).collect() };
    SeenPod {
        view: PodView {
            uid: uid.into(),
            namespace: "ns".into(),
            name: uid.into(),
            claims: claims.iter().map(named).collect(),
        },
        life,
        containers: vec![container],
        shown: BTreeMap::new(),
    }
}
