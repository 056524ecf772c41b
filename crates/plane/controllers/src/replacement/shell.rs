//! The objects of the core: news become inputs.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_fleet::{Fleet, Gates};
use lazaret_machine::{Machine as _, Turn};
use lazaret_model::{SetBack, Timestamp};
use lazaret_replacement::{Input, Options, ReadAccess, Replacement, Source};
use lazaret_runtime::{
    CallError, Model, NODES, News, Object, PODS, REPLACEMENT_POLICIES, REPLICA_SETS, Reply, Resource,
};

use super::{metrics::ReplacementMetrics, pods, policy};
use crate::{
    feed::feed,
    guard::GuardBook,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    proof::Proofs,
    wire,
};

#[derive(Debug)]
pub(crate) struct ReplacementShell {
    fleet: Fleet,
    /// Only to know what a list leaves out.
    ledger: Ledger,
    /// Resources that cannot be read, and why.
    barred: BTreeMap<Resource, Arc<CallError>>,
    metrics: ReplacementMetrics,
    proofs: Proofs,
    guards: GuardBook,
    heard: bool,
    options: Options,
}

impl ReplacementShell {
    pub(crate) fn agent(
        gates: Gates,
        metrics: ReplacementMetrics,
        proofs: Proofs,
        options: Options,
    ) -> MachineAgent<Self> {
        let machine = Replacement::new(options.clone());
        let shell = Self {
            fleet: Fleet::with_gates(gates),
            ledger: Ledger::of_models(),
            barred: BTreeMap::new(),
            metrics,
            proofs,
            guards: GuardBook::default(),
            heard: false,
            options,
        };
        MachineAgent::new(machine, shell)
    }

    fn see(&mut self, machine: &mut Replacement, resource: Resource, barred: Option<Arc<CallError>>) {
        let before = match barred {
            Some(why) => self.barred.insert(resource, why),
            None => self.barred.remove(&resource),
        };
        if before.as_ref() == self.barred.get(&resource) {
            return;
        }
        let Some(source) = source(&resource) else { return };
        let missing: Vec<String> = self
            .barred
            .iter()
            // A resource that is not served cannot be tainted.
            .filter(|(other, why)| {
                self::source(other) == Some(source) && !matches!(***why, CallError::NotFound(_))
            })
            .map(|(other, why)| missing(other, why))
            .collect();
        let access = if missing.is_empty() {
            ReadAccess::Clear
        } else {
            ReadAccess::Barred(missing.join("; ").into())
        };
        machine.tell(Input::Access(source, access));
    }
}

impl Shell for ReplacementShell {
    type Machine = Replacement;

    fn view(&self) -> &Fleet {
        &self.fleet
    }

    fn clock_set_back(&mut self, machine: &mut Replacement, set_back: SetBack) {
        *machine = Replacement::new(Options { set_back: Some(set_back), ..self.options.clone() });
        self.guards.is_news = true;
    }

    fn hear(&mut self, machine: &mut Replacement, _: Timestamp, news: News) {
        if self.guards.hear(&news) {
            return;
        }
        feed(&mut self.fleet, &news);
        self.heard = true;
        match &news {
            News::Listed(resource, ..) => self.see(machine, *resource, None),
            News::Barred(resource, why) => self.see(machine, *resource, Some(Arc::clone(why))),
            News::Set(..) | News::Gone(..) => {}
        }
        self.ledger.changes(news, |change| {
            if let Some(input) = input(&change, &self.proofs) {
                machine.tell(input);
            }
        });
    }

    fn think(&mut self, machine: &mut Replacement, now: Timestamp) {
        if core::mem::take(&mut self.heard) {
            let changes = self.fleet.take_changes();
            machine.tell_devices(&self.fleet, &changes);
        }
        if core::mem::take(&mut self.guards.is_news) {
            machine.tell(Input::Guards(self.guards.all()));
        }
        machine.think(now, &self.fleet);
        self.metrics.show(&machine.figures());
    }

    fn lead(&mut self, machine: &mut Replacement, now: Timestamp, leads: bool) {
        // It must know what there is before it is asked to act on it.
        self.think(machine, now);
        machine.handle(now, &self.fleet, Turn::leads(leads));
    }

    fn reply(reply: Reply) -> lazaret_machine::Reply {
        wire::with_written(reply)
    }
}

fn source(resource: &Resource) -> Option<Source> {
    Some(match resource.plural {
        "nodes" => Source::Nodes,
        "pods" => Source::Pods,
        "replicasets" => Source::ReplicaSets,
        "resourceslices"
        | "resourceclaims"
        | "devicetaintrules"
        | "resourceslicepatches"
        | "deviceclasses" => Source::Devices,
        _ => return None,
    })
}

fn missing(resource: &Resource, why: &CallError) -> String {
    let group = if resource.group.is_empty() { "" } else { "." };
    let (plural, name) = (resource.plural, resource.group);
    format!("not allowed to read {plural}: grant get, list and watch on {plural}{group}{name} ({why})")
}

fn input(change: &Change, proofs: &Proofs) -> Option<Input> {
    match change {
        Change::Set(resource, object) => {
            let unread = |why| object.cannot_be_read(&why, "its last good version if one was read");
            set(*resource, object, proofs)?.map_err(unread).ok()
        }
        Change::Gone(resource, key, _) => match *resource {
            REPLACEMENT_POLICIES => Some(Input::PolicyGone(key.clone())),
            PODS => Some(Input::PodGone(key.clone())),
            NODES => Some(Input::NodeGone(key.name.clone())),
            REPLICA_SETS => Some(Input::ReplicaSetGone(key.clone())),
            _ => None,
        },
    }
}

fn set(
    resource: Resource,
    object: &Arc<Object>,
    proofs: &Proofs,
) -> Option<Result<Input, serde_json::Error>> {
    Some(match resource {
        REPLACEMENT_POLICIES => policy::read(object).map(|policy| Input::Policy(Arc::new(policy))),
        PODS => {
            // The fleet is fed first, and logs the error of a pod that cannot be decoded.
            let Ok(Model::Pod(pod)) = object.model() else { return None };
            Ok(Input::Pod(Arc::new(pods::pod(object, pod, proofs))))
        }
        NODES => object.read().map(|node| Input::Node(Arc::new(pods::node(object, &node)))),
        REPLICA_SETS => object.read().map(|set| Input::ReplicaSet(Arc::new(pods::replica_set(object, &set)))),
        _ => return None,
    })
}
