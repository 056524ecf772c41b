//! Runs the machines on a hub.

use std::sync::Arc;

use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, AgentOptions, CLAIMS, CLASSES, CallError, Client, Effect as Emitted, EffectId, Hub, Leadership,
    Model, NODES, News, Object, Outcome, PODS, Perform, Precedence, Reply, SLICES, Tasks, VOLUME_CLAIMS,
    VOLUMES, Wake, run,
};
use tokio::sync::watch;
use tracing::debug;

use crate::{
    driver::Driver,
    effect::Effect,
    kubelet::KubeletAgent,
    node::HollowNode,
    options::{HollowOptions, OptionsError},
    volumes::{SeenClaim, SeenVolume, Volumes},
};

/// The user that writes what is of no single node: the class of the devices, and volumes. All the rest too, where nodes have no clients of their own.
pub const CONTROLLER: &str = "simulated-nodes";

/// Gives the client of a node, by its name.
pub type NodeClients = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// Starts the nodes and the driver; they end after `stop`, or when the tasks are dropped. The objects stay.
///
/// # Errors
/// When the options describe no fleet.
pub fn start(hub: &Hub, options: HollowOptions, stop: &watch::Receiver<bool>) -> Result<Tasks, OptionsError> {
    run_fleet(hub, options, stop, None)
}

/// The same, each node writing through a client of its own. The class of the devices, which belongs to no node, is written and everything is watched
/// through the client of the hub. The nodes leave their taints to a controller.
///
/// # Errors
/// When the options describe no fleet.
pub fn start_with(
    hub: &Hub,
    options: HollowOptions,
    stop: &watch::Receiver<bool>,
    clients: NodeClients,
) -> Result<Tasks, OptionsError> {
    run_fleet(hub, options, stop, Some(clients))
}

fn run_fleet(
    hub: &Hub,
    options: HollowOptions,
    stop: &watch::Receiver<bool>,
    clients: Option<NodeClients>,
) -> Result<Tasks, OptionsError> {
    options.validate()?;
    let options = Arc::new(options);
    let in_flight_max = options.in_flight_max;
    let by_node = clients.is_some();
    let own = hub.client().of_controller(CONTROLLER);
    let sender = || Sender { own: own.clone(), nodes: clients.clone() };
    let mut tasks = Tasks::default();
    let of_kubelet = Arc::clone(&options);
    tasks.spawn(
        "hollow-kubelet",
        hub.metrics(),
        run(
            move || KubeletAgent::new(Arc::clone(&of_kubelet), by_node),
            sender(),
            hub.listen(&[NODES, PODS, CLAIMS]),
            Leadership::unrivalled(),
            hub.metrics().clone(),
            AgentOptions { name: "hollow-kubelet", in_flight_max, precedence: Precedence::Patient },
            stop.clone(),
        ),
    );
    tasks.spawn(
        "hollow-driver",
        hub.metrics(),
        run(
            move || DriverAgent { driver: Driver::new(Arc::clone(&options)), by_node },
            sender(),
            hub.listen(&[NODES, SLICES, CLASSES]),
            Leadership::unrivalled(),
            hub.metrics().clone(),
            AgentOptions { name: "hollow-driver", in_flight_max, precedence: Precedence::Usual },
            stop.clone(),
        ),
    );
    tasks.spawn(
        "hollow-volumes",
        hub.metrics(),
        run(
            move || VolumesAgent { volumes: Volumes::new(in_flight_max) },
            Sender { own: own.clone(), nodes: None },
            hub.listen(&[VOLUME_CLAIMS, VOLUMES]),
            Leadership::unrivalled(),
            hub.metrics().clone(),
            AgentOptions { name: "hollow-volumes", in_flight_max, precedence: Precedence::Patient },
            stop.clone(),
        ),
    );
    Ok(tasks)
}

struct Sender {
    own: Client,
    nodes: Option<NodeClients>,
}

/// An effect, and the node that wants it done, where that matters.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) node: Option<String>,
    pub(crate) effect: Effect,
}

impl Perform<Sent> for Sender {
    async fn perform(&self, Sent { node, effect }: Sent) -> Reply {
        let own = self.nodes.as_ref().zip(node).map(|(nodes, name)| nodes(&name));
        let client = own.as_ref().unwrap_or(&self.own);
        let done = match effect {
            Effect::Calls(calls) => {
                let mut done = Ok(());
                for call in calls {
                    done = client.send(call).await.map(drop);
                    if let Err(CallError::AlreadyExists(_)) = &done {
                        done = Ok(());
                    }
                    if done.is_err() {
                        break;
                    }
                }
                done
            }
            Effect::Lease { renew, create } => match client.send(renew).await {
                Err(CallError::NotFound(_)) => client.send(create).await.map(drop),
                renewed => renewed.map(drop),
            },
        };
        if let Err(error) = &done {
            debug!(%error, "a request of a hollow node failed");
        }
        match done {
            Ok(()) => Outcome::Done.into(),
            Err(error) => Reply::from(&error),
        }
    }
}

struct DriverAgent {
    driver: Driver,
    by_node: bool,
}

impl Agent for DriverAgent {
    type Effect = Sent;

    fn hear(&mut self, _: Timestamp, news: News) {
        let driver = &mut self.driver;
        match news {
            News::Listed(NODES, objects, _) => driver.list_nodes(each(&objects, node)),
            News::Set(NODES, object) => node(&object).into_iter().for_each(|node| driver.hear_node(node)),
            News::Gone(NODES, object) => driver.miss_node(&object.key.name),
            News::Listed(SLICES, objects, _) => driver.list_slices(each(&objects, slice)),
            News::Set(SLICES, object) => {
                slice(&object).into_iter().for_each(|(slice, version)| driver.hear_slice(&slice, version));
            }
            News::Gone(SLICES, object) => {
                slice(&object).into_iter().for_each(|(slice, _)| driver.miss_slice(&slice));
            }
            News::Listed(CLASSES, objects, _) => {
                driver.list_classes(&each(&objects, |object| Some(object.key.name.clone())));
            }
            News::Set(CLASSES, object) => driver.hear_class(&object.key.name, true),
            News::Gone(CLASSES, object) => driver.hear_class(&object.key.name, false),
            News::Listed(..) | News::Set(..) | News::Gone(..) | News::Barred(..) => {}
        }
    }

    fn think(&mut self, now: Timestamp) {
        self.driver.think(now);
    }

    fn lead(&mut self, _: Timestamp, leading: bool) {
        self.driver.lead(leading);
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        self.driver.acknowledge(now, effect, reply.outcome);
    }

    fn poll(&mut self) -> Option<Emitted<Sent>> {
        let (id, effect) = self.driver.poll()?;
        let node = self.by_node.then(|| self.driver.node_of(id)).flatten();
        Some(Emitted { id, kind: Sent { node, effect } })
    }

    fn wake(&self) -> Option<Wake> {
        self.driver.wake().map(|at| Wake::new(at, "a slice is to be written"))
    }
}

struct VolumesAgent {
    volumes: Volumes,
}

impl Agent for VolumesAgent {
    type Effect = Sent;

    fn hear(&mut self, _: Timestamp, news: News) {
        let volumes = &mut self.volumes;
        let claim = |object: &Object| SeenClaim::read(object.json()).map(|seen| (object.key.clone(), seen));
        let volume = |object: &Object| SeenVolume::read(object.json());
        match news {
            News::Listed(VOLUME_CLAIMS, objects, _) => volumes.list_claims(each(&objects, claim)),
            News::Set(VOLUME_CLAIMS, object) => {
                claim(&object).into_iter().for_each(|(key, seen)| volumes.hear_claim(key, seen));
            }
            News::Gone(VOLUME_CLAIMS, object) => volumes.miss_claim(&object.key),
            News::Listed(VOLUMES, objects, _) => volumes.list_volumes(each(&objects, volume)),
            News::Set(VOLUMES, object) => {
                volume(&object).into_iter().for_each(|seen| volumes.hear_volume(seen));
            }
            News::Gone(VOLUMES, object) => volumes.miss_volume(&object.key.name),
            News::Listed(..) | News::Set(..) | News::Gone(..) | News::Barred(..) => {}
        }
    }

    fn think(&mut self, now: Timestamp) {
        self.volumes.think(now);
    }

    fn lead(&mut self, _: Timestamp, leading: bool) {
        self.volumes.lead(leading);
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        self.volumes.acknowledge(now, effect, reply.outcome);
    }

    fn poll(&mut self) -> Option<Emitted<Sent>> {
        let (id, effect) = self.volumes.poll()?;
        Some(Emitted { id, kind: Sent { node: None, effect } })
    }

    fn wake(&self) -> Option<Wake> {
        self.volumes.wake().map(|at| Wake::new(at, "a volume is to be made or deleted"))
    }
}

pub(crate) fn each<T>(objects: &[Arc<Object>], read: impl Fn(&Object) -> Option<T>) -> Vec<T> {
    objects.iter().filter_map(|object| read(object)).collect()
}

fn node(object: &Object) -> Option<HollowNode> {
    HollowNode::read(object.json())
}

fn slice(object: &Object) -> Option<(Arc<lazaret_model::ResourceSlice>, lazaret_model::Text)> {
    let Ok(Model::Slice(slice)) = object.model() else { return None };
    Some((Arc::clone(slice), object.resource_version.clone()))
}
