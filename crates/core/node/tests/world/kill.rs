//! The agent is killed at each step of a pod, before and after what it did last, and starts again: nothing is prepared twice, lost or left behind.

use std::collections::BTreeMap;

use lazaret_node::{Action, Answer, Call, ClaimView, Input, Life, Outcome, SeenPod, checkpoint};

use crate::script::{Script, by_kind, claim, info, pod, well};

const DRIVER: &str = "d.example.com";

/// The state that outlives the agent.
#[derive(Default)]
struct Machine {
    file: Option<Vec<u8>>,
    /// UIDs of claims that the plugin has prepared. All have the same device.
    prepared: Vec<String>,
    pods: BTreeMap<String, SeenPod>,
    claims: BTreeMap<String, ClaimView>,
    warnings: Vec<(String, &'static str, String)>,
}

/// Where an agent was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    Before,
    After,
}

impl Machine {
    fn add(&mut self, name: &str, own: &str, device: &str) {
        self.claims.insert(own.into(), claim(own, DRIVER, device, &[name]));
        self.pods.insert(name.into(), pod(name, &[own], Life::Wanted));
    }

    fn start(&self) -> Script {
        let mut script = Script::restore(0, self.file.as_deref());
        script.sockets(&[("/reg", 1)]);
        self.tell(&mut script);
        script
    }

    fn tell(&self, script: &mut Script) {
        script.hear(Input::Pods(self.pods.values().cloned().collect()));
    }

    /// Carries out `steps` actions; whether the agent was killed then.
    fn work(&mut self, script: &mut Script, steps: &mut usize, kill: Kill) -> bool {
        while !script.asked.is_empty() {
            let (id, action) = script.asked.remove(0);
            if let Action::Connect { driver, endpoint, .. } = &action {
                script.connect(driver, endpoint, true);
                continue;
            }
            if let Action::Warn { pod, reason, message } = action {
                // The plugin is found after the pod.
                if message.contains("is not registered") {
                    continue;
                }
                let name = pod.map(|pod| pod.name).unwrap_or_default();
                self.warnings.push((name, reason, message));
                continue;
            }
            if *steps == 0 && kill == Kill::Before {
                return true;
            }
            let Some(outcome) = self.perform(action) else { continue };
            if *steps == 0 {
                return true;
            }
            *steps -= 1;
            script.answer(id, outcome);
            self.tell(script);
        }
        false
    }

    fn perform(&mut self, action: Action) -> Option<Outcome> {
        Some(match action {
            Action::ReadClaims { names, .. } => {
                let mut all = by_kind(&self.claims);
                all.retain(|name, _| names.contains(name));
                Outcome::Claims(all)
            }
            Action::Checkpoint { text, .. } => {
                self.file = Some(text);
                Outcome::Done
            }
            Action::Call { call, driver, claims, .. } => {
                for claim in &claims {
                    self.prepared.retain(|uid| *uid != claim.uid);
                    if call == Call::Prepare {
                        assert!(self.prepared.is_empty(), "{} beside {:?}", claim.uid, self.prepared);
                        assert!(self.noted().contains(&claim.uid), "the plugin is called before it is noted");
                        self.prepared.push(claim.uid.clone());
                    }
                }
                Outcome::Answered(Answer::Claims(well(call, &driver, &claims)))
            }
            Action::DeletePod(pod) => {
                assert!(self.prepared.iter().all(|uid| !self.is_of(uid, &pod.uid)), "{pod:?} has devices");
                self.pods.remove(&pod.uid);
                Outcome::Done
            }
            Action::AskPlugin { .. } => Outcome::Plugin(info(DRIVER, "/dra")),
            Action::Wipe { .. }
            | Action::Report(_)
            | Action::ShowStatus { .. }
            | Action::NotifyPlugin { .. } => Outcome::Done,
            _ => return None,
        })
    }

    fn is_of(&self, claim: &str, pod: &str) -> bool {
        self.claims.values().any(|view| view.id.uid == claim && view.reserved_for.contains(pod))
    }

    /// UIDs of the claims in the checkpoint.
    fn noted(&self) -> Vec<String> {
        let claims = self.file.as_ref().map(|file| checkpoint::read(file).unwrap()).unwrap_or_default();
        claims.into_iter().map(|claim| claim.uid).collect()
    }
}

#[test]
fn an_agent_that_is_killed_at_any_step_prepares_nothing_twice_and_leaves_nothing() {
    let mut killed = 0;
    for steps in 0..24 {
        for kill in [Kill::Before, Kill::After] {
            killed += usize::from(play(steps, kill));
        }
    }
    assert!(killed > 20, "each step of the pod: {killed}");
}

fn play(mut steps: usize, kill: Kill) -> bool {
    let case = format!("{steps} {kill:?}");
    let mut machine = Machine::default();
    machine.add("a", "first", "gpu-0");
    let mut script = machine.start();
    let mut is_killed = machine.work(&mut script, &mut steps, kill);
    if !is_killed {
        machine.pods.get_mut("a").unwrap().life = Life::Deleted;
        machine.tell(&mut script);
        is_killed = machine.work(&mut script, &mut steps, kill);
    }
    drop(script);
    // The device was given to the claim of another pod as well.
    machine.add("b", "second", "gpu-0");
    let mut script = machine.start();
    let mut endless = usize::MAX;
    machine.work(&mut script, &mut endless, kill);
    if machine.pods.get("a").is_some_and(|pod| pod.life == Life::Wanted) {
        // One of them has it, and the other waits: whichever was first.
        assert_eq!(machine.prepared.len(), 1, "{case}");
        machine.pods.get_mut("a").unwrap().life = Life::Deleted;
        machine.tell(&mut script);
    }
    for _ in 0..8 {
        machine.work(&mut script, &mut endless, kill);
        script.pass(60_000);
    }
    machine.work(&mut script, &mut endless, kill);
    assert!(!machine.pods.contains_key("a"), "{case}");
    assert_eq!(machine.prepared, ["second-uid"], "{case}");
    assert_eq!(machine.noted(), ["second-uid"], "{case}");
    is_killed
}

/// Both pods get an event, and the one that waits is tried again until the other has ended.
#[test]
fn both_pods_hear_of_a_device_that_was_given_twice() {
    let mut machine = Machine::default();
    let mut endless = usize::MAX;
    machine.add("a", "first", "gpu-0");
    let mut script = machine.start();
    machine.work(&mut script, &mut endless, Kill::After);
    machine.add("b", "second", "gpu-0");
    machine.tell(&mut script);
    for _ in 0..3 {
        machine.work(&mut script, &mut endless, Kill::After);
        script.pass(10_000);
    }
    let told = |name: &str| {
        let mut own = machine.warnings.iter().filter(|(pod, ..)| pod == name);
        let (_, reason, message) = own.next().unwrap_or_else(|| panic!("{:?}", machine.warnings));
        assert!(own.next().is_none(), "{name} is told once");
        (*reason, message.clone())
    };
    let (reason, message) = told("b");
    assert_eq!(reason, "FailedPrepareDynamicResources");
    assert!(
        message.ends_with("device d.example.com/pool/gpu-0 is still prepared for ResourceClaim ns/first")
    );
    let (reason, message) = told("a");
    assert_eq!(reason, "DeviceAllocatedTwice");
    assert_eq!(
        message,
        "device d.example.com/pool/gpu-0 is prepared for ResourceClaim ns/first of this pod, and was also allocated to ResourceClaim ns/second of pod ns/b, which waits until it is unprepared"
    );
}

/// Two claims of one pod: none of them is prepared.
#[test]
fn two_claims_of_one_pod_do_not_have_the_same_device() {
    let mut machine = Machine::default();
    machine.add("a", "first", "gpu-0");
    machine.add("a", "second", "gpu-0");
    machine.pods.insert("a".into(), pod("a", &["first", "second"], Life::Wanted));
    let mut script = machine.start();
    let mut endless = usize::MAX;
    machine.work(&mut script, &mut endless, Kill::After);
    assert_eq!(machine.prepared, Vec::<String>::new());
    assert!(machine.warnings[0].2.contains("ResourceClaim ns/first"), "{:?}", machine.warnings);
}

/// The allocation of a claim was removed by hand, and it was given another device: the first one is kept until it is unprepared.
#[test]
fn a_claim_that_moved_keeps_what_it_had_until_it_is_unprepared() {
    let mut machine = Machine::default();
    let mut endless = usize::MAX;
    machine.add("a", "first", "gpu-0");
    let mut script = machine.start();
    machine.work(&mut script, &mut endless, Kill::After);
    let mut moved = claim("first", DRIVER, "gpu-1", &["a", "c"]);
    moved.reserved_for.insert("c".into());
    machine.claims.insert("first".into(), moved);
    machine.pods.insert("c".into(), pod("c", &["first"], Life::Wanted));
    machine.add("b", "second", "gpu-0");
    machine.tell(&mut script);
    machine.work(&mut script, &mut endless, Kill::After);
    assert_eq!(machine.prepared, ["first-uid"]);
    let told = |name: &str| machine.warnings.iter().find(|(pod, ..)| pod == name).unwrap().2.clone();
    assert!(told("b").contains("still prepared for ResourceClaim ns/first"), "{}", told("b"));
    assert!(told("c").contains("prepared for other devices"), "{}", told("c"));
}
