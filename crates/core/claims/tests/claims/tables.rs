//! Cases as data: what a cluster looks like, and what the machine wants done first.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use crate::world::{StoredClaim, World, consumer, direct, key, templated};
use lazaret_claims::{ClaimStep, Claims, EffectKind, Input, Options, Outcome, Source};
use lazaret_model::{ClaimSource, Consumer, ObjectKey, Pod, PodPhase, Timestamp};

const NOW: Timestamp = Timestamp::from_secs(1_000);

/// A machine that has been told all of the world, and leads.
fn machine(world: &World) -> Claims {
    let mut machine = Claims::new(Options::default());
    world.list().into_iter().for_each(|input| machine.handle(NOW, input));
    machine.handle(NOW, Input::BecameLeader);
    machine.handle(NOW, Input::Synced);
    machine
}

/// The pending effects, in short.
fn wanted(machine: &mut Claims) -> Vec<String> {
    std::iter::from_fn(|| machine.poll_effect()).map(|effect| spell(&effect.kind)).collect()
}

fn spell(effect: &EffectKind) -> String {
    match effect {
        EffectKind::CreateClaim(create) => {
            let start = &create.claim.name[..create.claim.name.len() - 5];
            assert_eq!(start, &*create.generate_name);
            format!("create {start}* for {} of {}", create.entry, create.holder.key.name)
        }
        EffectKind::SetClaimNames(write) => {
            let names: Vec<String> =
                write.names.iter().map(|(entry, claim)| format!("{entry}={claim}")).collect();
            format!("record {} {}", write.holder.key.name, names.join(","))
        }
        EffectKind::ChangeClaim(change) => {
            let steps: Vec<String> = change.steps.iter().map(spell_step).collect();
            format!("change {}: {}", change.claim.name, steps.join(", "))
        }
        EffectKind::Confirm(holder) => format!("confirm {} {}", holder.key.name, holder.uid),
        EffectKind::ConfirmNode(node) => format!("confirm {node}"),
        EffectKind::AskNode(ask) => format!("ask {}", ask.node),
        EffectKind::Event(event) => format!("event {}: {}", event.holder.key.name, event.message),
        EffectKind::ClaimEvent(event) => format!("event {}: {}", event.claim.name, event.message),
    }
}

fn spell_step(step: &ClaimStep) -> String {
    match step {
        ClaimStep::SetStatus { reserved_for, deallocate } => {
            let users: Vec<&str> = reserved_for.iter().map(|user| &*user.name).collect();
            let end = if *deallocate { " and deallocate" } else { "" };
            format!("reserve for [{}]{end}", users.join(" "))
        }
        ClaimStep::SetFinalizers(left) => format!("leave {} finalizers", left.len()),
        ClaimStep::SetAwaiting(nodes) => format!("wait for {nodes:?}"),
        ClaimStep::Delete => "delete".to_owned(),
    }
}

#[track_caller]
fn check(what: &str, set_up: impl FnOnce(&mut World), wants: &[&str]) {
    let mut world = World::default();
    set_up(&mut world);
    assert_eq!(wanted(&mut machine(&world)), wants, "{what}");
}

/// A claim that was made for a pod by somebody.
fn made(world: &mut World, name: &str, pod: &str, entry: &str) -> ObjectKey {
    world.add_claim(name);
    let pod = world.pods[&key(pod)].clone();
    let mut stored: StoredClaim = world.claims[&key(name)].clone();
    stored.claim.owner = Some(lazaret_model::Owner {
        kind: "Pod".into(),
        name: pod.key.name,
        uid: pod.uid,
        ..lazaret_model::Owner::default()
    });
    stored.entry = Some(entry.into());
    world.put_claim(stored);
    key(name)
}

fn resolve(world: &mut World, pod: &str, entry: &str, claim: Option<&str>) {
    world.change_pod(pod, |pod| {
        for there in pod.claims.iter_mut().filter(|there| there.name == entry) {
            if let ClaimSource::Template { resolved, .. } = &mut there.source {
                *resolved = Some(claim.map(Into::into));
            }
        }
    });
}

#[test]
fn claims_are_made_for_pods_that_lack_them() {
    check("no claims", |world| world.add_pod("p", vec![]), &[]);
    check("a claim of one's own", |world| world.add_pod("p", vec![direct("gpu", "mine")]), &[]);
    check(
        "a template",
        |world| {
            world.add_template("t");
            world.add_pod("p", vec![templated("gpu", "t"), templated("nic", "t")]);
        },
        &["create p-gpu-* for gpu of p", "create p-nic-* for nic of p"],
    );
    check(
        "the template is not there",
        |world| world.add_pod("p", vec![templated("gpu", "t")]),
        &["event p: PodResourceClaim gpu: no template \"t\""],
    );
    check(
        "not needed",
        |world| {
            world.add_template("t");
            world.add_pod("p", vec![templated("gpu", "t")]);
            resolve(world, "p", "gpu", None);
        },
        &[],
    );
    check(
        "made, and not recorded",
        |world| {
            world.add_template("t");
            world.add_pod("p", vec![templated("gpu", "t")]);
            made(world, "p-gpu-abcde", "p", "gpu");
        },
        &["record p gpu=p-gpu-abcde"],
    );
    check(
        "made for another entry",
        |world| {
            world.add_template("t");
            world.add_pod("p", vec![templated("gpu", "t")]);
            made(world, "p-nic-abcde", "p", "nic");
        },
        &["create p-gpu-* for gpu of p"],
    );
    check(
        "recorded",
        |world| {
            world.add_pod("p", vec![templated("gpu", "t")]);
            made(world, "p-gpu-abcde", "p", "gpu");
            resolve(world, "p", "gpu", Some("p-gpu-abcde"));
        },
        &[],
    );
}

#[test]
fn pods_that_are_going_get_nothing() {
    let change_and_check = |what: &str, change: fn(&mut Pod)| {
        let set_up = |world: &mut World| {
            world.add_template("t");
            world.add_pod("p", vec![templated("gpu", "t")]);
            world.change_pod("p", change);
        };
        check(what, set_up, &[]);
    };
    change_and_check("being deleted", |pod| pod.deleting_since = Some(NOW));
    change_and_check("succeeded", |pod| pod.phase = PodPhase::Succeeded);
    change_and_check("failed", |pod| pod.phase = PodPhase::Failed);
    change_and_check("in a group", |pod| pod.group = Some("group".into()));
}

#[test]
fn a_claim_that_was_deleted_under_its_pod_comes_back_under_its_name() {
    let mut world = World::default();
    world.add_template("t");
    world.add_pod("p", vec![templated("gpu", "t")]);
    resolve(&mut world, "p", "gpu", Some("p-gpu-lost1"));
    let mut machine = machine(&world);
    let effect = machine.poll_effect().unwrap();
    let EffectKind::CreateClaim(create) = &effect.kind else { panic!("{effect:?}") };
    assert_eq!(&*create.claim.name, "p-gpu-lost1");
    let outcome = world.carry_out(&effect.kind, 9);
    machine.handle(NOW, Input::Acknowledged { effect: effect.id, outcome, why: None });
    assert_eq!(wanted(&mut machine), Vec::<String>::new(), "its status is right already");
}

#[test]
fn a_name_that_is_taken_is_not_used() {
    let mut world = World::default();
    world.add_template("t");
    world.add_pod("p", vec![templated("gpu", "t")]);
    let mut machine = machine(&world);
    let first = machine.poll_effect().unwrap();
    let EffectKind::CreateClaim(create) = &first.kind else { panic!("{first:?}") };
    world.add_claim(&create.claim.name);
    assert_eq!(world.carry_out(&first.kind, 9), Outcome::Conflict);
    machine.handle(NOW, Input::Acknowledged { effect: first.id, outcome: Outcome::Conflict, why: None });
    machine.handle(NOW.plus_secs(1), Input::Tick);
    let second = machine.poll_effect().unwrap();
    assert_eq!(world.carry_out(&second.kind, 9), Outcome::Done);
    assert!(world.wrong.is_empty() && world.claim_of("p", "gpu").is_some());
}

#[test]
fn reservations_go_with_their_pods() {
    let used = |world: &mut World| {
        world.add_claim("c");
        world.add_pod("p", vec![direct("gpu", "c")]);
        world.bind("p");
        world.allocate(&key("c"), Some(&key("p")));
    };
    let released = "change c: reserve for [] and deallocate, leave 0 finalizers";
    check("in use", used, &[]);
    check(
        "ended",
        |world| {
            used(world);
            world.finish("p");
        },
        &[released],
    );
    check(
        "being deleted on a node",
        |world| {
            used(world);
            world.delete_pod("p");
        },
        &[],
    );
    check(
        "being deleted before it had a node",
        |world| {
            used(world);
            world.change_pod("p", |pod| pod.node = None);
            world.delete_pod("p");
        },
        &[released],
    );
    check(
        "unknown",
        |world| {
            used(world);
            world.remove_pod("p");
        },
        &["confirm p pod-3"],
    );
    check(
        "replaced",
        |world| {
            used(world);
            world.remove_pod("p");
            world.add_pod("p", vec![]);
        },
        &["confirm p pod-3"],
    );
    check(
        "one of two has ended",
        |world| {
            used(world);
            world.add_pod("q", vec![direct("gpu", "c")]);
            world.allocate(&key("c"), Some(&key("q")));
            world.finish("p");
        },
        &["change c: reserve for [q]"],
    );
    check(
        "somebody who is no pod",
        |world| {
            used(world);
            world.finish("p");
            let mut stored = world.claims[&key("c")].clone();
            let other = Consumer { resource: "widgets".into(), name: "w".into(), ..Consumer::default() };
            stored.claim.reserved_for.push(other);
            world.put_claim(stored);
        },
        &["change c: reserve for [w]"],
    );
}

#[test]
fn a_pod_that_is_known_to_be_gone_needs_no_question() {
    let mut world = World::default();
    world.add_claim("c");
    world.add_pod("p", vec![direct("gpu", "c")]);
    world.bind("p");
    world.allocate(&key("c"), Some(&key("p")));
    let mut machine = machine(&world);
    let uid = world.pods[&key("p")].uid.clone();
    machine.handle(NOW, Input::PodGone { key: key("p"), uid: uid.clone(), last_told: true });
    assert_eq!(wanted(&mut machine), ["change c: reserve for [] and deallocate, leave 0 finalizers"]);
    // Old news of it change nothing.
    let late = Pod { key: key("p"), uid, ..Pod::default() };
    machine.handle(NOW, Input::Pod(Arc::new(late)));
    assert_eq!(machine.sizes()[0], 0);
}

#[test]
fn allocations_without_users_stay_until_the_claim_goes() {
    let idle = |world: &mut World| {
        world.add_claim("c");
        world.allocate(&key("c"), None);
    };
    check("idle", idle, &[]);
    check(
        "deleted",
        |world| {
            idle(world);
            world.delete_claim(&key("c"));
        },
        &["change c: leave 0 finalizers"],
    );
    check(
        "deleted while it was being allocated",
        |world| {
            world.add_claim("c");
            world.protect(&key("c"));
            world.delete_claim(&key("c"));
        },
        &["change c: leave 0 finalizers"],
    );
    check(
        "being allocated",
        |world| {
            world.add_claim("c");
            world.protect(&key("c"));
        },
        &[],
    );
}

#[test]
fn bound_pods_get_their_reservation() {
    let bound = |world: &mut World| {
        world.add_claim("c");
        world.add_pod("p", vec![direct("gpu", "c")]);
        world.bind("p");
    };
    check("not allocated", bound, &[]);
    check(
        "allocated",
        |world| {
            bound(world);
            world.allocate(&key("c"), None);
        },
        &["change c: reserve for [p]"],
    );
    check(
        "its turn comes as another ends: in one write, and nothing is given back in between",
        |world| {
            bound(world);
            world.add_pod("q", vec![direct("gpu", "c")]);
            world.bind("q");
            world.allocate(&key("c"), Some(&key("q")));
            world.finish("q");
        },
        &["change c: reserve for [p]"],
    );
    check(
        "the claim is being deleted",
        |world| {
            bound(world);
            world.add_pod("q", vec![direct("gpu", "c")]);
            world.allocate(&key("c"), Some(&key("q")));
            world.delete_claim(&key("c"));
        },
        &[],
    );
    check(
        "full",
        |world| {
            bound(world);
            world.allocate(&key("c"), None);
            let mut stored = world.claims[&key("c")].clone();
            let other = |n: usize| Consumer {
                resource: "widgets".into(),
                uid: format!("{n}").into(),
                ..Consumer::default()
            };
            stored.claim.reserved_for = (0..256).map(other).collect();
            world.put_claim(stored);
        },
        &[],
    );
}

#[test]
fn claims_of_pods_that_are_done_are_deleted() {
    let used = |world: &mut World| {
        world.add_pod("p", vec![templated("gpu", "t")]);
        let claim = made(world, "p-gpu-abcde", "p", "gpu");
        resolve(world, "p", "gpu", Some("p-gpu-abcde"));
        world.bind("p");
        world.allocate(&claim, Some(&key("p")));
    };
    check(
        "ended",
        |world| {
            used(world);
            world.finish("p");
        },
        &["change p-gpu-abcde: delete, leave 0 finalizers"],
    );
    check(
        "of a pod that nobody knows",
        |world| {
            used(world);
            world.remove_pod("p");
        },
        &["confirm p pod-1"],
    );
    check(
        "of an extended resource",
        |world| {
            used(world);
            let mut stored = world.claims[&key("p-gpu-abcde")].clone();
            stored.claim.extended_resource = true;
            stored.entry = None;
            world.put_claim(stored);
            world.change_pod("p", |pod| {
                pod.claims.clear();
                pod.extended_claim = Some("p-gpu-abcde".into());
            });
            world.finish("p");
        },
        &["change p-gpu-abcde: delete, leave 0 finalizers"],
    );
}

#[test]
fn nothing_is_wanted_before_all_is_told_nor_by_who_does_not_lead() {
    let mut world = World::default();
    world.add_template("t");
    world.add_pod("p", vec![templated("gpu", "t")]);
    let mut machine = Claims::new(Options::default());
    machine.handle(NOW, Input::BecameLeader);
    world.list().into_iter().for_each(|input| machine.handle(NOW, input));
    assert_eq!((wanted(&mut machine).len(), machine.next_wake()), (0, None));
    machine.handle(NOW, Input::Synced);
    assert_eq!(machine.in_flight(), 1);
    machine.handle(NOW, Input::LostLeadership);
    assert_eq!((wanted(&mut machine).len(), machine.in_flight()), (0, 0));
}

#[test]
fn claims_are_counted_by_how_they_came_to_be() {
    let mut world = World::default();
    world.add_pod("p", vec![templated("gpu", "t")]);
    let claim = made(&mut world, "p-gpu-abcde", "p", "gpu");
    world.allocate(&claim, None);
    world.add_claim("c");
    let mut machine = machine(&world);
    let census = machine.census();
    assert_eq!(census.count(true, false, Source::Template), 1);
    assert_eq!(census.count(false, false, Source::Other), 1);
    machine.handle(NOW, Input::ClaimGone(key("c")));
    let total: u64 = [true, false]
        .into_iter()
        .flat_map(|allocated| Source::ALL.map(|source| machine.census().count(allocated, false, source)))
        .sum();
    assert_eq!(total, 1);
    assert_eq!(consumer(&world.pods[&key("p")]).name, "p");
}
