//! Machines that are wrong on purpose, to see whether the invariants notice.

use std::sync::Arc;

use lazaret_model::Timestamp;
use lazaret_replacement::{EffectKind, Input, Node, NodeTaint, Outcome, Pod, Policy, Reply, Spec, Status};

use super::world::{Place, Stay};
use crate::api::Api;

/// The fault of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// Nothing.
    None,
    /// Its clock is a second ahead.
    Early,
    /// It minds the limit of one policy, and not that of the other that selects the same pods.
    OneLimit,
    /// It never hears that a taint of a node is gone.
    Relentless,
    /// A new leader does not know the replacements in flight.
    Forgetful,
    /// It knows of no breaker.
    Fuseless,
    /// It takes pods for deleted that are not.
    Endless,
}

impl Mutant {
    /// All that are wrong.
    pub(super) const WRONG: [Self; 6] =
        [Self::Early, Self::OneLimit, Self::Relentless, Self::Forgetful, Self::Fuseless, Self::Endless];

    /// The time that it believes.
    pub(super) fn clock(self, now: Timestamp) -> Timestamp {
        if self == Self::Early { now.plus_secs(1) } else { now }
    }

    /// The input that it receives instead of the true one.
    pub(super) fn disguise(self, stays: &[Stay], input: Input) -> Input {
        match (self, input) {
            (Self::OneLimit, Input::Policy(policy)) if policy.key.name == "q" => {
                change(&policy, |spec| spec.max_concurrent = u32::MAX)
            }
            (Self::Fuseless, Input::Policy(policy)) => {
                change(&policy, |spec| spec.max_domains_tainted = None)
            }
            (Self::Relentless, Input::Node(node)) => {
                let ever = stays.iter().filter(|stay| stay.place == Place::Node(node.name.clone()));
                let ever = ever.filter(|stay| !node.taints.iter().any(|taint| taint.key == stay.key));
                let mut taints: Vec<NodeTaint> = Vec::new();
                for stay in ever.filter(|stay| stay.dated) {
                    taints.retain(|taint| taint.key != stay.key);
                    let (key, effect, time_added) = (stay.key.clone(), "NoSchedule".into(), Some(stay.from));
                    taints.push(NodeTaint { key, effect, time_added, ..NodeTaint::default() });
                }
                taints.extend(node.taints.iter().cloned());
                Input::Node(Arc::new(Node { taints, ..Node::clone(&node) }))
            }
            (_, input) => input,
        }
    }

    /// The same without the replacements in flight.
    pub(super) fn forget(input: Input) -> Input {
        match &input {
            Input::Policy(policy) => {
                let status = Status { replacements: Vec::new(), ..Status::clone(&policy.status) };
                Input::Policy(Arc::new(Policy { status: Arc::new(status), ..Policy::clone(policy) }))
            }
            Input::Pod(pod) => Input::Pod(Arc::new(Pod { mark: None, ..Pod::clone(pod) })),
            Input::PolicyGone(_)
            | Input::PodGone(_)
            | Input::Node(_)
            | Input::NodeGone(_)
            | Input::ReplicaSet(_)
            | Input::ReplicaSetGone(_)
            | Input::Access(..) => input,
        }
    }

    /// Does what it asks for.
    pub(super) fn perform(self, api: &mut Api, now: Timestamp, effect: &EffectKind) -> Reply {
        let deletes = matches!(effect, EffectKind::Delete { .. });
        if deletes && self == Self::Endless { Outcome::Done.into() } else { api.perform(now, effect) }
    }
}

fn change(policy: &Policy, change: impl FnOnce(&mut Spec)) -> Input {
    let mut spec = Spec::clone(policy.spec.as_ref().unwrap());
    change(&mut spec);
    Input::Policy(Arc::new(Policy { spec: Ok(Arc::new(spec)), ..policy.clone() }))
}
