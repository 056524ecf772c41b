//! Pods with classic claims: candidates, negotiation, and one decision with structured claims.

use std::sync::Arc;

use lazaret_classic::{ChangeClaim, ClaimSpec, News, Phase, PodClaim, PodClaimSource, ResourceClaim, Step};
use lazaret_model::*;
use lazaret_scheduler::{Pod, *};

use crate::world::{World, claim, pod};

impl World {
    /// A scheduler that knows classic claims.
    fn classic() -> Self {
        Self::new(Options { classic: true, ..Options::default() })
    }

    /// A claim that is not allocated.
    fn classic_claim(&mut self, name: &str) {
        self.version += 1;
        let claim = ResourceClaim {
            key: ObjectKey::new("ns", name),
            uid: name.into(),
            version: self.version.to_string().into(),
            spec: Arc::new(ClaimSpec { class_name: "fabric".into(), ..ClaimSpec::default() }),
            ..ResourceClaim::default()
        };
        self.set_classic(claim);
    }

    fn set_classic(&mut self, claim: ResourceClaim) {
        self.classic.insert(claim.key.clone(), claim.clone());
        self.news.push(Input::Classic(News::Claim(Arc::new(claim))));
    }

    /// Writes to a claim under its preconditions.
    pub(crate) fn change_classic(&mut self, change: &ChangeClaim) -> Reply {
        let Some(claim) = self.classic.get(&change.claim).filter(|claim| claim.uid == change.uid) else {
            return Reply::of(Outcome::Gone);
        };
        if claim.version != change.version {
            return Reply::of(Outcome::Conflict);
        }
        let mut claim = claim.clone();
        for step in &change.steps {
            match step {
                Step::SetFinalizers(finalizers) => claim.finalizers.clone_from(finalizers),
                Step::SetStatus(status) => {
                    let wrong = lazaret_classic::validate_claim_status_update(&claim, status);
                    assert_eq!(wrong, [], "the API server refuses it");
                    claim.status = (**status).clone();
                }
            }
        }
        self.version += 1;
        claim.version = self.version.to_string().into();
        self.set_classic(claim);
        Reply::of(Outcome::Done)
    }

    /// The driver answers every claim for which a node is selected: it allocates, unless the node is one of these.
    fn drive(&mut self, unsuitable: &[&str]) {
        let asked: Vec<ResourceClaim> = self
            .classic
            .values()
            .filter(|claim| claim.status.phase != Phase::Allocated)
            .filter(|claim| {
                claim.status.phase == Phase::Reallocate || claim.status.scheduler.selected_node.is_some()
            })
            .cloned()
            .collect();
        for mut claim in asked {
            let selected = claim.status.scheduler.selected_node.take();
            match selected {
                Some(node) if unsuitable.contains(&&*node) => {
                    let refused: Vec<Text> = unsuitable.iter().map(|node| Text::from(*node)).collect();
                    claim.status.driver.unsuitable_nodes = refused.into();
                }
                Some(node) => {
                    claim.status.phase = Phase::Allocated;
                    claim.status.driver_name = "fabric.example.com".into();
                    claim.status.scheduler = lazaret_classic::SchedulerScheduling::default();
                    claim.status.driver.available_on_nodes = Some(Arc::new(only(&node)));
                }
                None => claim.status = lazaret_classic::ClaimStatus::default(),
            }
            self.version += 1;
            claim.version = self.version.to_string().into();
            self.set_classic(claim);
        }
        self.settle();
    }

    /// Whether every classic claim of a pod is allocated, reserved for it, and available on the node.
    pub(crate) fn may_bind(&self, bind: &Bind) -> bool {
        let Some(pod) = self.pods.get(&bind.pod) else { return true };
        let node = lazaret_model::Node { name: bind.node.clone(), ..lazaret_model::Node::default() };
        let ready = |entry: &PodClaim| {
            let Some(PodClaimSource::Named(name)) = &entry.source else { return false };
            let claim = &self.classic[&ObjectKey::new("ns", name.clone())];
            claim.status.phase == Phase::Allocated
                && claim.is_reserved_for(&bind.uid)
                && claim.is_available_on(&node)
        };
        !self.scheduler_knows_classic() || pod.classic.iter().all(ready)
    }

    fn scheduler_knows_classic(&self) -> bool {
        !self.classic.is_empty()
    }

    fn reserved_for(&self, claim: &str) -> Vec<String> {
        let claim = &self.classic[&ObjectKey::new("ns", claim)];
        claim.status.reserved_for.iter().map(|user| user.name.to_string()).collect()
    }
}

fn only(node: &Text) -> NodeSelector {
    let requirement =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![node.clone()] };
    NodeSelector {
        terms: vec![NodeSelectorTerm { match_fields: vec![requirement], ..NodeSelectorTerm::default() }],
    }
}

/// A pod that uses these classic claims.
fn classic_pod(name: &str, cpu_milli: i64, claims: &[&str]) -> Pod {
    let mut pod = pod(name, cpu_milli, &[]);
    pod.classic = claims
        .iter()
        .map(|claim| PodClaim { name: (*claim).into(), source: Some(PodClaimSource::Named((*claim).into())) })
        .collect();
    pod
}

#[test]
fn a_pod_is_bound_when_its_claim_is_allocated_and_reserved() {
    let mut world = World::classic();
    world.node("a", 1_000, 0);
    world.classic_claim("c");
    world.add_pod(classic_pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(world.node_of("p"), None);
    let claim = &world.classic[&ObjectKey::new("ns", "c")];
    assert_eq!(claim.status.scheduler.selected_node.as_deref(), Some("a"));
    world.drive(&[]);
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    assert_eq!(world.reserved_for("c"), ["p"]);
}

#[test]
fn a_node_that_was_refused_is_left_for_another() {
    let mut world = World::classic();
    world.node("a", 1_000, 0);
    world.node("b", 1_000, 0);
    world.classic_claim("c");
    world.add_pod(classic_pod("p", 100, &["c"]));
    world.settle();
    for _ in 0..3 {
        world.drive(&["a"]);
        world.pass(10_000);
    }
    assert_eq!(world.node_of("p").as_deref(), Some("b"));
}

#[test]
fn potential_nodes_are_those_that_everything_else_permits() {
    let mut world = World::classic();
    world.node("small", 50, 0);
    world.node("large", 1_000, 0);
    world.classic_claim("c");
    world.add_pod(classic_pod("p", 100, &["c"]));
    world.settle();
    let claim = &world.classic[&ObjectKey::new("ns", "c")];
    assert_eq!(*claim.status.scheduler.potential_nodes, [Text::from("large")]);
}

#[test]
fn devices_of_both_kinds_come_in_one_decision() {
    let mut world = World::classic();
    world.node("without", 1_000, 0);
    world.node("with", 1_000, 1);
    world.classic_claim("c");
    world.add_claim(claim("structured", 1));
    let mut both = classic_pod("p", 100, &["c"]);
    both.claims = pod("p", 100, &["structured"]).claims;
    world.add_pod(both);
    world.settle();
    let structured =
        |world: &World| world.claims[&ObjectKey::new("ns", "structured")].claim.allocation.is_some();
    assert!(!structured(&world), "no device is taken while a driver is asked");
    world.drive(&[]);
    assert_eq!(world.node_of("p").as_deref(), Some("with"));
    assert!(structured(&world));
}

/// Room that is gone when the driver has answered: the reservation goes too, and the claim is allocated elsewhere.
#[test]
fn a_node_that_filled_up_meanwhile_is_given_up() {
    let mut world = World::classic();
    world.node("a", 100, 0);
    world.classic_claim("c");
    world.add_pod(classic_pod("p", 100, &["c"]));
    world.settle();
    let mut other = pod("other", 100, &[]);
    other.node = Some("a".into());
    world.add_pod(other);
    world.node("b", 100, 0);
    world.settle();
    for _ in 0..12 {
        world.drive(&[]);
        world.pass(10_000);
    }
    assert_eq!(world.node_of("p").as_deref(), Some("b"));
    assert_eq!(world.reserved_for("c"), ["p"]);
}

/// Off: existing pods are placed as if they had not asked.
#[test]
fn with_the_option_off_pods_are_placed_as_if_they_had_no_classic_claims() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    world.add_pod(classic_pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

#[test]
fn a_pod_without_its_claim_says_so() {
    let mut world = World::classic();
    world.node("a", 1_000, 0);
    world.add_pod(classic_pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(world.message_of("p"), "", "it may be made any moment");
    world.pass(4_000);
    assert_eq!(world.message_of("p"), "classic resourceclaim \"c\" not found");
    world.classic_claim("c");
    world.settle();
    world.drive(&[]);
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

/// Answers to writes and bindings get lost; everything is done again, and nothing twice.
#[test]
fn lost_answers_do_no_harm() {
    for at in 0..12 {
        let mut world = World::classic();
        world.node("a", 1_000, 0);
        world.classic_claim("c");
        world.add_pod(classic_pod("p", 100, &["c"]));
        let mut effects = 0;
        for _ in 0..40 {
            world.hear();
            while let Some(effect) = world.scheduler.poll_effect() {
                if effects == at {
                    world.faults.push(Outcome::Unknown);
                }
                effects += 1;
                world.perform(effect);
            }
            world.drive(&[]);
            world.pass(5_000);
        }
        assert_eq!(world.node_of("p").as_deref(), Some("a"), "answer {at} was lost");
        assert_eq!(world.reserved_for("c"), ["p"]);
    }
}

#[test]
fn a_new_leader_goes_on_from_the_objects() {
    let mut world = World::classic();
    world.node("a", 1_000, 0);
    world.classic_claim("c");
    world.add_pod(classic_pod("p", 100, &["c"]));
    world.settle();
    world.tell(Input::LostLeadership);
    world.drive(&[]);
    assert_eq!(world.node_of("p"), None);
    world.tell(Input::BecameLeader);
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}
