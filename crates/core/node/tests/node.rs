//! Claims on a node: prepared, shared, unprepared, through failures and restarts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};

use lazaret_node::{
    Answer, ClaimAnswer, ClaimId, ClaimKind, ClaimName, ClaimView, ContainerClaim, DeviceState, Effect,
    HeldDevice, Manager, NodeError, PodClaim, PodView, cdi_ids, checkpoint,
};
use proptest::prelude::*;

/// Files as kubelet 1.37 writes them, taken from the tests of its checkpoint.
const ONE: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":null,\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":2570581864}"#;
const SHARED: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":\"aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa\",\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":736302156}"#;
const NULLS: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example-1\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":null,\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}},{\"ClaimUID\":\"4cf8db2d-06c0-7d70-1a51-e59b25b2c16c\",\"ClaimName\":\"example-2\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-2\",\"ShareID\":null,\"RequestNames\":null,\"CDIDeviceIDs\":null}]}}}]}","Checksum":2820117767}"#;
/// A file that a kubelet v1.37.1 wrote, after it had prepared a claim with the example driver.
const WRITTEN: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"fbd89e47-5f6c-4b75-b3a1-561063bc560f\",\"ClaimName\":\"user-gpu-cf27j\",\"Namespace\":\"default\",\"PodUIDs\":{\"6d466ec8-ba60-414a-ad66-30418c3255cb\":{}},\"DriverState\":{\"gpu.example.com\":{\"Devices\":[{\"PoolName\":\"node-k\",\"DeviceName\":\"gpu-0\",\"ShareID\":null,\"RequestNames\":[\"gpu\"],\"CDIDeviceIDs\":[\"gpu.example.com/gpu=fbd89e47-5f6c-4b75-b3a1-561063bc560f-gpu-0\"]}]}}}]}","Checksum":1567070657}"#;

#[test]
fn files_of_kubelet_are_read_and_written_to_the_byte() {
    for file in [ONE, SHARED, WRITTEN] {
        let claims = checkpoint::read(file.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(checkpoint::write(&claims).unwrap()).unwrap(), file);
    }
    let claims = checkpoint::read(NULLS.as_bytes()).unwrap();
    assert_eq!(claims.len(), 2);
    assert!(claims[1].drivers["test-driver.cdi.k8s.io"].devices[0].cdi_ids.is_empty());
    let shared = checkpoint::read(SHARED.as_bytes()).unwrap();
    let device = &shared[0].drivers["test-driver.cdi.k8s.io"].devices[0];
    assert_eq!(device.share.as_deref(), Some("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"));
}

#[test]
fn what_a_kubelet_has_prepared_is_kept_from_others_and_unprepared() {
    let mut node = Node { manager: Manager::restore(WRITTEN.as_bytes()).unwrap(), ..Node::default() };
    node.file = Some(WRITTEN.into());
    node.register(&["gpu.example.com"]);
    let mut wants_the_same = claim("other", &["gpu.example.com"], &["p"]);
    wants_the_same.devices = vec![HeldDevice {
        driver: "gpu.example.com".into(),
        pool: "node-k".into(),
        device: "gpu-0".into(),
        ..HeldDevice::default()
    }];
    let error = node.manager.prepare(&pod("p", &["other"]), &found(&[wants_the_same])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "device gpu.example.com/node-k/gpu-0 is still prepared for ResourceClaim default/user-gpu-cf27j"
    );
    let gone = node.manager.inactive(&BTreeSet::new()).into_iter().next().unwrap();
    node.manager.unprepare(&gone).unwrap();
    assert_eq!(node.all(), [Ok(())]);
    assert_eq!(node.calls, ["-gpu.example.com:user-gpu-cf27j"]);
}

#[test]
fn a_damaged_checkpoint_stops_the_start_with_advice() {
    let changed = ONE.replace("dev-1", "dev-9");
    let cut = &ONE[..ONE.len() / 2];
    for text in
        [changed.as_str(), cut, "", "{}", r#"{"Data":"{}","Checksum":0}"#, r#"{"Data":"","Checksum":0}"#]
    {
        let error = Manager::restore(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("drain the node and remove the file"), "{error}");
    }
    let empty = checkpoint::write(&[]).unwrap();
    assert!(Manager::restore(&empty).unwrap().states().is_empty());
}

fn claim(name: &str, drivers: &[&str], pods: &[&str]) -> ClaimView {
    ClaimView {
        id: ClaimId {
            kind: ClaimKind::Structured,
            namespace: "ns".into(),
            name: name.into(),
            uid: format!("{name}-uid"),
        },
        owners: BTreeSet::new(),
        reserved_for: pods.iter().map(|pod| (*pod).to_owned()).collect(),
        drivers: (!drivers.is_empty()).then(|| drivers.iter().map(|driver| (*driver).to_owned()).collect()),
        devices: vec![],
        attributes: BTreeMap::new(),
    }
}

fn pod(uid: &str, claims: &[&str]) -> PodView {
    let kind = ClaimKind::Structured;
    let named = |name: &&str| PodClaim { kind, name: Some((*name).to_owned()), is_generated: false };
    PodView {
        uid: uid.into(),
        namespace: "ns".into(),
        name: uid.into(),
        claims: claims.iter().map(named).collect(),
    }
}

fn found(claims: &[ClaimView]) -> BTreeMap<ClaimName, ClaimView> {
    claims.iter().map(|claim| ((claim.id.kind, claim.id.name.clone()), claim.clone())).collect()
}

/// A node: the manager, the file, and plugins that a test controls.
#[derive(Default)]
struct Node {
    manager: Manager,
    file: Option<Vec<u8>>,
    /// (driver, claim) that a plugin has prepared.
    prepared: BTreeSet<(String, String)>,
    calls: Vec<String>,
    /// Answers instead of what a plugin would say, by driver.
    told: BTreeMap<String, Answer>,
}

impl Node {
    fn new(drivers: &[&str]) -> Self {
        let mut node = Self::default();
        node.register(drivers);
        node
    }

    fn register(&mut self, drivers: &[&str]) {
        for driver in drivers {
            self.manager
                .plugins
                .register(ClaimKind::Structured, driver, &format!("/{driver}"), &["v1.DRAPlugin".to_owned()])
                .unwrap();
        }
    }

    /// Does what is to be done, at most this much of it, and gives how operations ended.
    fn work(&mut self, most: usize) -> Vec<Result<(), NodeError>> {
        let mut done = Vec::new();
        for _ in 0..most {
            let Some((id, effect)) = self.manager.poll() else { break };
            let answer = match effect {
                Effect::Done(_, result) => {
                    done.push(result);
                    continue;
                }
                Effect::Checkpoint(text) => {
                    self.file = Some(text);
                    Answer::Written
                }
                Effect::Prepare { driver, claims, .. } => self.call(true, driver, claims),
                Effect::Unprepare { driver, claims, .. } => self.call(false, driver, claims),
                Effect::CallClassic { .. } | Effect::FindClaim(_) => {
                    unreachable!("there are no classic claims")
                }
            };
            self.manager.acknowledge(id, answer);
        }
        done
    }

    fn all(&mut self) -> Vec<Result<(), NodeError>> {
        self.work(usize::MAX)
    }

    fn call(&mut self, prepare: bool, driver: String, claims: Vec<ClaimId>) -> Answer {
        let names: Vec<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
        self.calls.push(format!("{}{driver}:{}", if prepare { "+" } else { "-" }, names.join(",")));
        // The prepared claims are in the file: a crash after this must not forget them.
        let file = checkpoint::read(self.file.as_ref().unwrap()).unwrap();
        for claim in &claims {
            assert!(file.iter().any(|state| state.uid == claim.uid && state.drivers.contains_key(&driver)));
        }
        if let Some(answer) = self.told.remove(&driver) {
            return answer;
        }
        let mut answers: BTreeMap<String, ClaimAnswer> = BTreeMap::new();
        for claim in claims {
            let place = (driver.clone(), claim.uid.clone());
            if prepare {
                self.prepared.insert(place)
            } else {
                self.prepared.remove(&place)
            };
            let device = DeviceState {
                pool: "p".into(),
                device: claim.name.clone(),
                cdi_ids: vec![format!("{driver}/gpu={}", claim.uid)],
                ..DeviceState::default()
            };
            answers.insert(claim.uid, Ok(if prepare { vec![device] } else { vec![] }));
        }
        Answer::Claims(answers)
    }

    /// The process ends and another takes over from the file.
    fn crash(&mut self, drivers: &[&str]) {
        self.manager = match &self.file {
            Some(file) => Manager::restore(file).unwrap(),
            None => Manager::default(),
        };
        self.register(drivers);
    }

    fn devices(&self, claim: &str) -> usize {
        let states = self.manager.states();
        let state = states.iter().find(|state| state.name == claim).unwrap();
        state.drivers.values().map(|driver| driver.devices.len()).sum()
    }
}

#[test]
fn claims_are_checked_before_anything_changes() {
    let mut node = Node::new(&["d"]);
    let good = claim("a", &["d"], &["p"]);
    let generated = |name: Option<&str>| PodView {
        claims: vec![PodClaim {
            kind: ClaimKind::Structured,
            name: name.map(str::to_owned),
            is_generated: true,
        }],
        ..pod("p", &[])
    };
    let rows: Vec<(&str, PodView, Vec<ClaimView>, &str)> = vec![
        ("claim missing", pod("p", &["a"]), vec![], "a not found"),
        ("claim not created", generated(None), vec![], "not created yet"),
        ("claim of another pod", generated(Some("a")), vec![good.clone()], "was not created for pod p"),
        ("pod not in reservedFor", pod("p", &["a"]), vec![claim("a", &["d"], &["q"])], "not reserved for it"),
        ("not allocated", pod("p", &["a"]), vec![claim("a", &[], &["p"])], "not allocated"),
        (
            "driver unknown",
            pod("p", &["a"]),
            vec![claim("a", &["e"], &["p"])],
            "DRA driver e is not registered",
        ),
    ];
    for (name, pod, claims, part) in rows {
        let error = node.manager.prepare(&pod, &found(&claims)).unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
        assert!(node.manager.states().is_empty() && node.manager.poll().is_none(), "{name}");
    }
    let owned = ClaimView { owners: ["p".to_owned()].into(), ..good };
    node.manager.prepare(&generated(Some("a")), &found(&[owned])).unwrap();
    assert_eq!(node.all(), [Ok(())]);
}

#[test]
fn shared_claim_is_prepared_once_and_unprepared_only_after_the_last_pod() {
    let mut node = Node::new(&["d"]);
    let claims = found(&[claim("a", &["d"], &["p", "q"]), claim("b", &["d"], &["q"])]);
    node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
    assert_eq!(node.all(), [Ok(())]);
    // Already prepared, and a new claim, in one pod.
    node.manager.prepare(&pod("q", &["a", "b"]), &claims).unwrap();
    assert_eq!(node.all(), [Ok(())]);
    assert_eq!(node.calls, ["+d:a", "+d:b"]);
    node.manager.unprepare("p").unwrap();
    assert_eq!(node.all(), [Ok(())]);
    assert!(!node.manager.holds("p") && node.manager.holds("q"));
    assert_eq!(node.calls.len(), 2);
    node.manager.unprepare("q").unwrap();
    assert_eq!(node.all(), [Ok(())]);
    assert_eq!(node.calls[2..], ["-d:a,b"]);
    assert!(node.prepared.is_empty());
    assert_eq!(node.file, Some(checkpoint::write(&[]).unwrap()));
    // Never for a pod that did not prepare.
    node.manager.unprepare("r").unwrap();
    assert_eq!((node.all(), node.calls.len()), (vec![Ok(())], 3));
}

#[test]
fn no_duplicate_devices_after_a_retry_with_two_drivers_where_one_fails() {
    let mut node = Node::new(&["d", "e"]);
    let claims = found(&[claim("a", &["d", "e"], &["p"])]);
    node.told.insert("e".into(), Answer::Failed("timeout".into()));
    node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
    assert!(node.all()[0].as_ref().unwrap_err().to_string().contains("DRA driver e: timeout"));
    assert!(node.manager.holds("p"), "what was prepared is to be unprepared");
    node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
    assert_eq!(node.all(), [Ok(())]);
    assert_eq!(node.calls, ["+d:a", "+e:a", "+d:a", "+e:a"]);
    assert_eq!(node.devices("a"), 2);
}

#[test]
fn wrong_answers_fail_the_pod_and_are_tried_again() {
    let entry = |uid: &str, answer: ClaimAnswer| (uid.to_owned(), answer);
    let rows = [
        ("empty response", BTreeMap::new(), "skipped 1"),
        ("unknown UID", [entry("a-uid", Ok(vec![])), entry("x", Ok(vec![]))].into(), "was not asked about"),
        ("claim error", [entry("a-uid", Err("on fire".into()))].into(), "on fire"),
    ];
    for (name, answer, part) in rows {
        let mut node = Node::new(&["d"]);
        let claims = found(&[claim("a", &["d"], &["p"])]);
        node.told.insert("d".into(), Answer::Claims(answer));
        node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
        let error = node.all()[0].as_ref().unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
        node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
        assert_eq!(node.all(), [Ok(())], "{name}");
    }
    // No devices is a success.
    let mut node = Node::new(&["d"]);
    node.told.insert("d".into(), Answer::Claims([entry("a-uid", Ok(vec![]))].into()));
    node.manager.prepare(&pod("p", &["a"]), &found(&[claim("a", &["d"], &["p"])])).unwrap();
    assert_eq!(node.all(), [Ok(())]);
}

#[test]
fn uid_mismatch_after_a_forced_delete_blocks_the_new_pod() {
    let mut node = Node::new(&["d"]);
    node.manager.prepare(&pod("p", &["a"]), &found(&[claim("a", &["d"], &["p"])])).unwrap();
    node.all();
    // Pod and claim are deleted by force and made again under the same name.
    let mut again = claim("a", &["d"], &["q"]);
    again.id.uid = "new-uid".into();
    let error = node.manager.prepare(&pod("q", &["a"]), &found(&[again.clone()])).unwrap_err();
    assert!(matches!(error, NodeError::Replaced { .. }), "{error}");
    // The loop finds the pod that is gone.
    assert_eq!(node.manager.inactive(&["q".to_owned()].into()), ["p".to_owned()].into());
    node.manager.unprepare("p").unwrap();
    assert_eq!(node.all(), [Ok(())]);
    node.manager.prepare(&pod("q", &["a"]), &found(&[again])).unwrap();
    assert_eq!(node.all(), [Ok(())]);
}

#[test]
fn a_failed_unprepare_keeps_the_pod_and_refuses_a_new_one_then_succeeds() {
    let mut node = Node::new(&["d"]);
    let claims = found(&[claim("a", &["d"], &["p", "q"])]);
    node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
    node.all();
    for answer in
        [Answer::Failed("busy".into()), Answer::Claims([("a-uid".to_owned(), Err("busy".to_owned()))].into())]
    {
        node.told.insert("d".into(), answer);
        node.manager.unprepare("p").unwrap();
        assert!(node.all()[0].is_err());
        assert!(node.manager.holds("p"), "it has not ended");
        let error = node.manager.prepare(&pod("q", &["a"]), &claims).unwrap_err();
        assert_eq!(error, NodeError::Unpreparing("a".into()));
    }
    node.manager.plugins.deregister(ClaimKind::Structured, "d", "/d");
    node.manager.unprepare("p").unwrap();
    assert_eq!(node.all(), [Err(NodeError::NotRegistered("d".into()))]);
    node.register(&["d"]);
    node.manager.unprepare("p").unwrap();
    assert_eq!(node.all(), [Ok(())]);
}

#[test]
fn a_restart_in_the_middle_calls_again() {
    let claims = found(&[claim("a", &["d", "e"], &["p"])]);
    for most in 0..8 {
        let mut node = Node::new(&["d", "e"]);
        node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
        node.work(most);
        node.crash(&["d", "e"]);
        node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
        assert_eq!(node.all(), [Ok(())], "prepare, {most}");
        assert_eq!(node.devices("a"), 2);
        node.manager.unprepare("p").unwrap();
        node.work(most);
        node.crash(&["d", "e"]);
        // The claim may be gone from the API and from the pod's status: only the UID of the pod is needed.
        for pod in node.manager.inactive(&BTreeSet::new()) {
            node.manager.unprepare(&pod).unwrap();
        }
        assert!(node.all().iter().all(Result::is_ok), "unprepare, {most}");
        assert!(node.prepared.is_empty() && node.manager.states().is_empty(), "{most}");
    }
}

#[test]
fn a_pod_waits_for_the_note_and_not_for_the_devices_on_disk() {
    let mut node = Node::new(&["d"]);
    let claims = found(&[claim("a", &["d"], &["p"])]);
    node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
    let (note, effect) = node.manager.poll().unwrap();
    assert!(matches!(effect, Effect::Checkpoint(_)) && node.manager.poll().is_none(), "nobody is called yet");
    node.manager.acknowledge(note, Answer::Failed("disk full".into()));
    assert!(node.all()[0].as_ref().unwrap_err().to_string().contains("disk full"));
    assert!(node.calls.is_empty() && node.manager.is_stale());

    node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
    assert_eq!(node.work(2), [], "the note and the call");
    assert_eq!(node.work(1), [Ok(())], "it waits for no more");
    let (keep, effect) = node.manager.poll().unwrap();
    assert!(matches!(effect, Effect::Checkpoint(_)) && node.manager.poll().is_none());
    node.manager.acknowledge(keep, Answer::Failed("disk full".into()));
    assert!(node.manager.is_stale() && node.devices("a") == 1);
    node.manager.write_again();
    assert_eq!(node.all(), []);
    assert!(!node.manager.is_stale());
    assert_eq!(checkpoint::read(node.file.as_ref().unwrap()).unwrap(), node.manager.states());
}

#[test]
fn a_pod_is_not_prepared_and_unprepared_at_a_time() {
    let mut node = Node::new(&["d"]);
    let claims = found(&[claim("a", &["d"], &["p"])]);
    node.manager.prepare(&pod("p", &["a"]), &claims).unwrap();
    assert_eq!(node.manager.prepare(&pod("p", &["a"]), &claims), Err(NodeError::Busy("p".into())));
    assert_eq!(node.manager.unprepare("p"), Err(NodeError::Busy("p".into())));
    assert!(node.manager.inactive(&BTreeSet::new()).is_empty());
    node.all();
    // A pod without claims has nothing to do.
    node.manager.prepare(&pod("z", &[]), &claims).unwrap();
    assert_eq!((node.all(), node.calls.len()), (vec![Ok(())], 1));
}

#[test]
fn containers_get_the_devices_of_their_requests() {
    let device = |requests: &[&str], id: &str| DeviceState {
        pool: "p".into(),
        device: id.into(),
        requests: requests.iter().map(|name| (*name).to_owned()).collect(),
        cdi_ids: vec![format!("v/c={id}"), "v/c=common".into()],
        ..DeviceState::default()
    };
    let mut state = checkpoint::read(ONE.as_bytes()).unwrap().remove(0);
    let driver = state.drivers.values_mut().next().unwrap();
    driver.devices = vec![device(&["big"], "a"), device(&["small"], "b"), device(&[], "c")];
    let ids = |request: Option<&str>| {
        let request = request.map(str::to_owned);
        let used = ContainerClaim { kind: ClaimKind::Structured, claim: "example".into(), request };
        cdi_ids(&[state.clone()], "default", &[used.clone(), used]).join(" ")
    };
    assert_eq!(ids(None), "v/c=a v/c=common v/c=b v/c=c");
    assert_eq!(ids(Some("big")), "v/c=a v/c=common v/c=c");
    assert_eq!(ids(Some("small")), "v/c=b v/c=common v/c=c");
    let used = |kind| [ContainerClaim { kind, claim: "example".into(), request: None }];
    assert!(cdi_ids(&[state.clone()], "other", &used(ClaimKind::Structured)).is_empty());
    assert!(cdi_ids(&[state], "default", &used(ClaimKind::Classic)).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Pods come and go, plugins fail, the process crashes anywhere: in the end nothing is left, and no plugin was asked for
    /// something that the file does not know (which every call checks).
    #[test]
    fn nothing_is_left_behind(steps in prop::collection::vec((0_u8..7, 0_usize..3, 0_usize..6), 1..60)) {
        let names = ["p", "q", "r"];
        let claims = found(&[claim("a", &["d", "e"], &names), claim("b", &["d"], &names), claim("c", &["e"], &names)]);
        let uses = [vec!["a", "b"], vec!["a"], vec!["b", "c"]];
        let mut node = Node::new(&["d", "e"]);
        for (step, which, amount) in steps {
            match step {
                0 | 1 => drop(node.manager.prepare(&pod(names[which], &uses[which]), &claims)),
                2 => drop(node.manager.unprepare(names[which])),
                3 | 4 => drop(node.work(amount)),
                5 => drop(node.told.insert(["d", "e"][which % 2].into(), Answer::Failed("x".into()))),
                _ => node.crash(&["d", "e"]),
            }
        }
        node.told.clear();
        node.all();
        for _ in 0..3 {
            for pod in node.manager.inactive(&BTreeSet::new()) {
                node.manager.unprepare(&pod).unwrap();
            }
            node.all();
        }
        prop_assert!(node.prepared.is_empty(), "{:?}", node.prepared);
        prop_assert!(node.manager.states().is_empty());
    }

    /// A checkpoint is made of what has changed since the last one and of texts that were kept: it is the same as if it were
    /// made anew.
    #[test]
    fn the_file_is_what_is_known(steps in prop::collection::vec((0_u8..5, 0_usize..3), 1..40)) {
        let names = ["p", "q", "r"];
        let claims = found(&[claim("a", &["d", "e"], &names), claim("b", &["d"], &names), claim("c", &["e"], &names)]);
        let uses = [vec!["a", "b"], vec!["a"], vec!["b", "c"]];
        let mut node = Node::new(&["d", "e"]);
        for (step, which) in steps {
            match step {
                0 | 1 => drop(node.manager.prepare(&pod(names[which], &uses[which]), &claims)),
                2 => drop(node.manager.unprepare(names[which])),
                3 => drop(node.told.insert(["d", "e"][which % 2].into(), Answer::Failed("x".into()))),
                _ => node.crash(&["d", "e"]),
            }
            node.all();
            node.manager.write_again();
            node.all();
            prop_assert_eq!(node.file.clone(), Some(checkpoint::write(&node.manager.states()).unwrap()));
        }
    }
}
