//! The effect of a rule on devices and pods, exactly and without carrying it out.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::{cmp::Reverse, fmt};

use lazaret_fleet::{ClaimIx, Fleet, PodIx};
use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, DeviceSelector, Effect, ObjectKey, Owner, Pod, Taint, Text, Timestamp, Uid};

use crate::{Patience, patience, status};

/// Of what a preview is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A rule that is there, whatever its effect.
    Rule(&'a str),
    /// A taint that is nowhere yet. No selector selects nothing.
    Taint {
        /// Which devices it would be put on.
        selector: Option<&'a DeviceSelector>,
        /// The taint; its effect is taken to be NoExecute.
        taint: &'a Taint,
    },
}

/// The consequences if the effect was NoExecute.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// How many devices are published and selected.
    pub published: usize,
    /// Allocation results that are selected, by claim. A device that several claims share is here several times.
    pub held: Vec<PreviewDevice>,
    /// The claims that hold them.
    pub claims: Vec<ObjectKey>,
    /// Pods that would leave, by namespace and name.
    pub pods: Vec<PreviewPod>,
    /// Pods that use such a device and would stay, for they bear the taint for ever.
    pub tolerating: Vec<PreviewPod>,
    /// Pods that would leave, by namespace.
    pub namespaces: BTreeMap<Text, usize>,
    /// Why not all devices can be checked.
    pub problem: Option<String>,
}

/// A selected device in somebody's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewDevice {
    /// Which device.
    pub device: DeviceId,
    /// The claim that holds it.
    pub claim: ObjectKey,
    /// It is published no more and was recognised by what is remembered of it.
    pub from_memory: bool,
}

/// A pod that would leave, or stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewPod {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
    /// Where it runs.
    pub node: Option<Text>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// Its priority.
    pub priority: i32,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// How long it bears the taint.
    pub patience: Patience,
    /// When it would have to leave.
    pub deadline: Timestamp,
}

impl Preview {
    /// How many held devices were recognised from memory.
    #[must_use]
    pub fn from_memory(&self) -> usize {
        self.held.iter().filter(|held| held.from_memory).count()
    }
}

/// The sentences that a rule of effect None has in its status.
impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = status::Facts {
            pods: self.pods.len() as u64,
            namespaces: self.namespaces.len() as u64,
            published: self.published,
            allocated: self.held.len(),
            from_memory: self.from_memory(),
            problem: self.problem.clone(),
            ..status::Facts::default()
        };
        f.write_str(&status::message(&Effect::None, &facts))
    }
}

/// The effect that `subject` has or would have on the fleet as it is at `now`. Cheap enough for each change: its cost is that of the devices
/// selected, not of the fleet.
///
/// Tolerations count from when the taint was set if it evicts already, otherwise from `now`: the API server sets the
/// time anew when the effect changes.
#[must_use]
pub fn preview(fleet: &Fleet, now: Timestamp, subject: Subject<'_>) -> Preview {
    let (selection, taint) = match subject {
        Subject::Rule(name) => {
            let Some(view) = fleet.rule(name) else { return Preview::default() };
            (fleet.rule_selection(name), &view.rule.taint)
        }
        Subject::Taint { selector: Some(selector), taint } => (fleet.selection_of(selector), taint),
        Subject::Taint { selector: None, .. } => return Preview::default(),
    };
    let since = if taint.effect.evicts() { taint.time_added.unwrap_or(now) } else { now };
    let taint = Taint { effect: Effect::NoExecute, ..taint.clone() };
    let mut preview = Preview {
        published: selection.published_count(),
        problem: selection.problem().map(|problem| format!("{problem}")),
        ..Preview::default()
    };
    let mut users: Vec<(PodIx, Patience)> = Vec::new();
    for selected in selection.held() {
        let Some(claim) =
            invariant!(fleet.claim(selected.claim), "a selected device is in the allocation of its claim")
        else {
            continue;
        };
        let Some(result) = invariant!(
            claim.allocation.as_ref().and_then(|given| given.results.get(selected.result)),
            "a selected device is in the allocation of its claim"
        ) else {
            continue;
        };
        preview.held.push(PreviewDevice {
            device: result.device.clone(),
            claim: claim.key.clone(),
            from_memory: selected.from_memory,
        });
        let patience = patience(&taint, &result.tolerations);
        users.extend(users_of(fleet, selected.claim).map(|pod| (pod, patience)));
    }
    preview.held.sort_by(|one, other| (&one.claim, &one.device).cmp(&(&other.claim, &other.device)));
    preview.claims = preview.held.iter().map(|held| held.claim.clone()).collect();
    preview.claims.dedup();
    // Of several devices, the one that is borne for the shortest time decides.
    users.sort_unstable();
    users.dedup_by_key(|(pod, _)| *pod);
    for (at, patience) in users {
        let Some(pod) = invariant!(fleet.pod(at), "the number of a pod leads to it") else { continue };
        let deadline = patience.ends(since);
        let entry = describe(pod, patience, deadline);
        if deadline == Timestamp::NEVER {
            preview.tolerating.push(entry);
        } else {
            *preview.namespaces.entry(entry.pod.namespace.clone()).or_insert(0) += 1;
            preview.pods.push(entry);
        }
    }
    preview.pods.sort_by(|one, other| one.pod.cmp(&other.pod));
    preview.tolerating.sort_by(|one, other| one.pod.cmp(&other.pod));
    preview
}

/// The places of pods in the order in which a rule that says how pods leave evicts them, from 1: lowest priority first, then youngest, then by
/// name.
#[must_use]
pub fn positions(pods: &[PreviewPod]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_key(|at| {
        let pod = &pods[*at];
        (pod.priority, Reverse(pod.created.unwrap_or(Timestamp::EPOCH)), &pod.pod)
    });
    let mut positions = alloc::vec![0; pods.len()];
    for (place, at) in order.into_iter().enumerate() {
        positions[at] = place + 1;
    }
    positions
}

/// The pods of a claim that an eviction would concern: bound, not ended, not ending.
pub(crate) fn users_of(fleet: &Fleet, claim: ClaimIx) -> impl Iterator<Item = PodIx> {
    fleet.pods_of_claim(claim).filter(|at| {
        fleet
            .pod(*at)
            .is_some_and(|pod| pod.node.is_some() && !pod.phase.is_finished() && pod.deleting_since.is_none())
    })
}

fn describe(pod: &Pod, patience: Patience, deadline: Timestamp) -> PreviewPod {
    PreviewPod {
        pod: pod.key.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
        owner: pod.owner.clone(),
        priority: pod.priority,
        created: pod.created,
        patience,
        deadline,
    }
}
