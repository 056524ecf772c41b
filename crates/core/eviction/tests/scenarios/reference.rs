//! Random histories against plain loops over the objects that know neither the fleet nor the machine.

use std::collections::BTreeMap;

use lazaret_eviction::{EffectKind, Input, Options, Outcome, Subject, preview};
use lazaret_fleet::Input as FleetInput;
use lazaret_model::*;
use proptest::prelude::*;

use crate::{objects, world::World};

/// For each pod that must leave: the earliest deadline and the number of reasons.
type Plans = BTreeMap<String, (Timestamp, usize)>;

fn naive(world: &World) -> Plans {
    let mut plans = Plans::new();
    let objects = || world.objects.values();
    for pod in objects().filter_map(|o| if let FleetInput::Pod(pod) = o { Some(pod) } else { None }) {
        if pod.node.is_none() || pod.phase.is_finished() || pod.deleting_since.is_some() {
            continue;
        }
        for claim in
            objects().filter_map(|o| if let FleetInput::Claim(claim) = o { Some(claim) } else { None })
        {
            let reserved = claim.reserved_for.iter().any(|consumer| consumer.uid == pod.uid);
            if !reserved || !uses(pod, claim) {
                continue;
            }
            for result in claim.allocation.iter().flat_map(|allocation| &allocation.results) {
                for taint in taints(world, &result.device).filter(|taint| taint.effect == Effect::NoExecute) {
                    if let Some(deadline) = deadline(&taint, &result.tolerations) {
                        let plan = plans.entry(pod.key.to_string()).or_insert((deadline, 0));
                        *plan = (plan.0.min(deadline), plan.1 + 1);
                    }
                }
            }
        }
    }
    plans
}

fn uses(pod: &Pod, claim: &ResourceClaim) -> bool {
    pod.key.namespace == claim.key.namespace
        && pod.claims.iter().any(|entry| match &entry.source {
            ClaimSource::Claim(name) => *name == claim.key.name,
            ClaimSource::Template { resolved, .. } => {
                *resolved == Some(Some(claim.key.name.clone()))
                    && claim.owner.as_ref().is_some_and(|owner| owner.uid == pod.uid)
            }
            ClaimSource::Unknown => false,
        })
}

fn taints(world: &World, id: &DeviceId) -> impl Iterator<Item = Taint> {
    let slices: Vec<&ResourceSlice> = world
        .objects
        .values()
        .filter_map(|o| if let FleetInput::Slice(slice) = o { Some(&**slice) } else { None })
        .filter(|slice| slice.driver == id.driver && slice.pool.name == id.pool)
        .collect();
    let newest = slices.iter().map(|slice| slice.pool.generation).max();
    let mut found = vec![];
    for slice in slices.iter().filter(|slice| Some(slice.pool.generation) == newest) {
        let device = slice.devices.iter().find(|device| device.name == id.device);
        found.extend(device.into_iter().flat_map(|device| device.taints.clone()));
    }
    for object in world.objects.values() {
        if let FleetInput::Rule(rule) = object
            && rule.selector.as_ref().is_some_and(|selector| selector.names_match(id))
        {
            found.push(rule.taint.clone());
        }
    }
    found.into_iter()
}

fn deadline(taint: &Taint, tolerations: &[Toleration]) -> Option<Timestamp> {
    let seconds: Vec<Option<i64>> = tolerations
        .iter()
        .filter(|toleration| tolerates(toleration, taint))
        .map(|toleration| toleration.seconds)
        .collect();
    if seconds.contains(&None) {
        return None;
    }
    let shortest = seconds.into_iter().flatten().map(|seconds| seconds.max(0)).min().unwrap_or(0);
    Some(taint.time_added.unwrap().plus_secs(shortest))
}

fn line() -> impl Strategy<Value = String> {
    let effect =
        || prop_oneof![4 => Just("NoExecute"), 1 => Just("NoSchedule"), 1 => Just("None"), 1 => Just("Odd")];
    let taint = move || {
        (0..2_u8, 0..2_u8, effect(), 0..300_i64)
            .prop_map(|(k, v, effect, at)| format!("k{k}=v{v}:{effect}@{at}"))
    };
    let devices = proptest::collection::btree_map(0..4_u8, proptest::collection::vec(taint(), 0..3), 0..4);
    let slice = (0..2_u8, 1..3_u8, devices).prop_map(|(pool, generation, devices)| {
        let devices: Vec<String> = devices
            .into_iter()
            .map(|(name, taints)| {
                if taints.is_empty() {
                    format!("d{name}")
                } else {
                    format!("d{name}{{{}}}", taints.join(","))
                }
            })
            .collect();
        format!("slice s{pool}-{generation} pool=p{pool} gen={generation} {}", devices.join(" "))
    });
    let selector = prop_oneof![
        Just("nothing".to_owned()),
        Just("driver=some-driver".to_owned()),
        Just("driver=other-driver".to_owned()),
        (0..2_u8).prop_map(|pool| format!("pool=p{pool}")),
        (0..4_u8).prop_map(|device| format!("device=d{device}")),
        (0..2_u8, 0..4_u8).prop_map(|(pool, device)| format!("pool=p{pool} device=d{device}")),
    ];
    let rule = (0..3_u8, 0..2_u8, selector, taint()).prop_map(|(name, uid, selector, taint)| {
        format!("rule r{name} uid=r{name}-{uid} {selector} taint={taint}")
    });
    let toleration = (
        prop_oneof![Just("-"), Just("k0"), Just("k1")],
        prop_oneof![Just("NoExecute"), Just("-"), Just("NoSchedule")],
        prop_oneof![3 => (-5..400_i64).prop_map(|s| s.to_string()), 1 => Just("-".to_owned())],
    )
        .prop_map(|(key, effect, seconds)| format!("tolerate={key},Exists,{effect},{seconds}"));
    let held = (0..2_u8, 0..4_u8).prop_map(|(pool, device)| format!("device=p{pool}/d{device}"));
    let users = proptest::collection::btree_set((0..4_u8, 0..2_u8), 0..4);
    let claim = (
        0..4_u8,
        0..2_u8,
        proptest::collection::btree_set(held, 0..3),
        proptest::collection::vec(toleration, 0..3),
        users,
        0..4_u8,
    )
        .prop_map(|(name, uid, held, tolerations, users, owner)| {
            let users: Vec<String> =
                users.into_iter().map(|(pod, uid)| format!("for=pod{pod}:u{pod}-{uid}")).collect();
            let held: Vec<String> = held.into_iter().collect();
            format!(
                "claim c{name} uid=c{name}-{uid} owner=pod{owner}:u{owner}-0 {} {} {}",
                held.join(" "),
                tolerations.join(" "),
                users.join(" ")
            )
        });
    let state = prop_oneof![8 => Just(""), 1 => Just("node=-"), 1 => Just("phase=Succeeded"), 1 => Just("terminating")];
    let used = proptest::collection::btree_set(0..4_u8, 0..3);
    let pod = (0..4_u8, 0..2_u8, used, proptest::option::of(0..4_u8), state).prop_map(
        |(name, uid, used, template, state)| {
            let template = template.filter(|template| !used.contains(template));
            let claims: Vec<String> = used.into_iter().map(|claim| format!("claim=c{claim}")).collect();
            let template = template.map_or(String::new(), |claim| format!("template=c{claim}"));
            format!("pod pod{name} uid=u{name}-{uid} {} {template} {state}", claims.join(" "))
        },
    );
    prop_oneof![
        3 => slice, 3 => rule, 5 => claim, 5 => pod,
        1 => (0..2_u8, 1..3_u8).prop_map(|(pool, generation)| format!("slice- s{pool}-{generation}")),
        1 => (0..3_u8).prop_map(|name| format!("rule- r{name}")),
        1 => (0..4_u8).prop_map(|name| format!("claim- c{name}")),
        1 => (0..4_u8).prop_map(|name| format!("pod- pod{name}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn plans_are_what_plain_loops_find(lines in proptest::collection::vec(line(), 1..40)) {
        let mut world = World::follower(Options::default());
        for line in &lines {
            world.apply(line);
            let plans: Plans = world.machine.pending().map(|plan| (plan.pod.to_string(), (plan.due, plan.reasons.len()))).collect();
            prop_assert_eq!(&plans, &naive(&world), "after {}", line);
            prop_assert_eq!(world.plans(), world.recomputed());
            // The counts of a rule's status are those of its preview.
            for view in world.fleet.rules() {
                let effect = &view.rule.taint.effect;
                if matches!(effect, Effect::None | Effect::NoExecute) {
                    let preview = preview(&world.fleet, world.at(), Subject::Rule(&view.rule.name));
                    let tally = world.machine.tally(&view.rule.name).unwrap();
                    prop_assert_eq!(preview.pods.len() as u64, tally.pods);
                    prop_assert_eq!(preview.namespaces.len() as u64, tally.namespaces);
                }
            }
        }
        // Nothing is left behind by objects that are gone.
        let all: Vec<FleetInput> = world.objects.values().map(FleetInput::gone).collect();
        all.into_iter().for_each(|gone| world.feed(gone));
        prop_assert_eq!(world.machine.sizes(), [0, 0, 0, 0]);
    }

    /// However few changes come at a time: no pod leaves that the fleet spares by then, no status is written from half of the changes, and in the end
    /// the plans are the same.
    #[test]
    fn who_is_told_in_parts_makes_nobody_leave_who_may_stay(
        lines in proptest::collection::vec((line(), 0..4_usize), 1..40),
    ) {
        let mut world = World::new(Options::default());
        for (line, most) in &lines {
            world.now += 5_000;
            world.change(objects::parse(line));
            let changes = world.fleet.take_some_changes(*most);
            prop_assert!(changes.claims.len() + changes.pods.len() <= *most);
            world.hear(Input::Changed(&changes));
            let wanted: Vec<_> = std::iter::from_fn(|| world.machine.poll_effect()).collect();
            for effect in wanted {
                match &effect.kind {
                    EffectKind::Evict(evict) => {
                        let due = naive(&world).get(&evict.pod.to_string()).map(|(due, _)| *due);
                        prop_assert!(due.is_some_and(|due| due <= world.at()), "{}: {:?} after {line}", evict.pod, due);
                    }
                    EffectKind::SetRuleStatus(_) => prop_assert!(!changes.partial),
                    EffectKind::SetLastPublished(_)
                    | EffectKind::SetGuardStatus(_)
                    | EffectKind::AskCapacity(_) => {}
                    EffectKind::Event(_) | EffectKind::RuleEvent(_) | EffectKind::GuardEvent(_) => continue,
                }
                world.hear(Input::Acknowledged { effect: effect.id, outcome: Outcome::RetryLater });
            }
        }
        let rest = world.fleet.take_changes();
        prop_assert!(!rest.partial);
        world.hear(Input::Changed(&rest));
        let plans: Plans =
            world.machine.pending().map(|plan| (plan.pod.to_string(), (plan.due, plan.reasons.len()))).collect();
        prop_assert_eq!(&plans, &naive(&world));
    }
}
