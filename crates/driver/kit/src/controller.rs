//! The control-plane half of a classic driver: a vendor's controller that allocates for claims of `cdi.k8s.io`.
//!
//! A vendor writes three functions about its hardware, the trait [`Controller`]. Finalizers, retries, restarts half-way, answers to the scheduler and
//! the order of all steps are the same for every driver; `lazaret_classic::DriverController` decides them.

mod agent;
mod known_objects;
mod tainted;

use std::{future::Future, sync::Arc};

use lazaret_classic::DriverOptions;
use lazaret_runtime::{
    AgentOptions, CLASSIC_CLAIMS, CLASSIC_CLASSES, Client, Hub, Leader, Leadership, LeaseOptions, Metrics,
    Precedence, RULES, Tasks, run,
};
use tokio::sync::watch;

use self::agent::{ControllerAgent, Executor};
use crate::Failure;

pub use self::tainted::TaintedDevices;
pub use lazaret_classic::{
    Allocate, Allocation, ClaimSpec, Deallocate, DriverCounters, ExamineNodes, Refusal, Suitability,
};
pub use lazaret_model::{NodeSelector, NodeSelectorTerm, Operator, Requirement, Text as Name};

/// The name in logs and metrics.
const NAME: &str = "classic-driver-controller";

/// A vendor's part: which devices a claim gets.
///
/// Calls for different claims run at the same time; there is one for a claim at a time. Any call may be repeated: after a restart, or when its
/// outcome did not arrive.
pub trait Controller: Send + Sync + 'static {
    /// Holds devices for a claim, on the node that is named if one is. Devices that are held for its UID and node already are the answer.
    fn allocate(&self, claim: &Allocate) -> impl Future<Output = Result<Allocation, Refusal>> + Send;

    /// Frees all that is held for a claim, also by an allocation whose outcome is unknown. Nothing held is success. The class may be gone.
    fn deallocate(&self, claim: &Deallocate) -> impl Future<Output = Result<(), Failure>> + Send;

    /// For which of these nodes the claim cannot be allocated now. Changes nothing.
    fn unsuitable_nodes(
        &self,
        claim: &ExamineNodes,
    ) -> impl Future<Output = Result<Suitability, Failure>> + Send;
}

/// How a controller is run.
#[derive(Clone, Debug)]
pub struct ControllerKit {
    client: Client,
    options: DriverOptions,
    election: Option<(String, String, String)>,
    tainted: Option<TaintedDevices>,
    metrics: Metrics,
}

/// A controller that runs. Dropping it cuts it off.
#[derive(Debug)]
pub struct RunningController {
    hub: Arc<Hub>,
    agents: Tasks,
    leaders: Tasks,
    stop: watch::Sender<bool>,
    release: watch::Sender<bool>,
}

impl ControllerKit {
    /// For the driver of this name, which classes have as `driverName`.
    #[must_use]
    pub fn new(driver_name: &str, client: kube::Client) -> Self {
        Self {
            client: Client::new(client),
            options: DriverOptions::new(driver_name),
            election: None,
            tainted: None,
            metrics: Metrics::default(),
        }
    }

    /// Several replicas: only the holder of this Lease acts. The identity is that of this replica: the name of its pod.
    #[must_use]
    pub fn leader_election(mut self, namespace: &str, lease: &str, identity: &str) -> Self {
        self.election = Some((namespace.to_owned(), lease.to_owned(), identity.to_owned()));
        self
    }

    /// Keeps this set up to date, so that the vendor's code does not give a tainted device to the next claim: the API cannot see to that for devices
    /// that no slice lists. The client must be allowed to list and watch DeviceTaintRules.
    #[must_use]
    pub fn tainted_devices(mut self, tainted: &TaintedDevices) -> Self {
        self.tainted = Some(tainted.clone());
        self
    }

    /// Calls and writes in flight at a time; 64 unless said otherwise.
    #[must_use]
    pub fn in_flight_max(mut self, most: usize) -> Self {
        self.options.in_flight_max = most.max(1);
        self
    }

    /// Starts it.
    #[must_use]
    pub fn start<C: Controller>(self, controller: C) -> RunningController {
        let Self { client, options, election, tainted, metrics } = self;
        let (mut agents, mut leaders) = (Tasks::default(), Tasks::default());
        let (stop, stopped) = watch::channel(false);
        let (release, released) = watch::channel(false);
        let hub = Arc::new(Hub::new(client.clone(), metrics.clone()));
        let leadership = match election {
            None => Leadership::unrivalled(),
            Some((namespace, lease, identity)) => {
                let lease_options = LeaseOptions::default();
                let (leader, leadership) =
                    Leader::new(client.clone(), &namespace, &lease, &identity, lease_options);
                leaders.spawn(&lease, &metrics, leader.run(metrics.clone(), released));
                leadership
            }
        };
        let executor = Executor::new(client.under(&leadership), controller);
        let answers = executor.answers();
        let rules: &[_] = if tainted.is_some() { &[RULES] } else { &[] };
        let inbox = hub.listen_if_possible(&[CLASSIC_CLASSES, CLASSIC_CLAIMS], rules);
        let agent_options =
            AgentOptions { name: NAME, in_flight_max: options.in_flight_max, precedence: Precedence::Usual };
        let make = move || ControllerAgent::new(options.clone(), answers.clone(), tainted.clone());
        let ran = run(make, executor, inbox, leadership, metrics.clone(), agent_options, stopped);
        agents.spawn(NAME, &metrics, ran);
        RunningController { hub, agents, leaders, stop, release }
    }
}

impl RunningController {
    /// Metrics of the controller, in Prometheus' form.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.hub.metrics().text()
    }

    /// Waits for calls in flight, then gives the Lease back.
    pub async fn stop(self) {
        let Self { hub, agents, leaders, stop, release } = self;
        let _ = stop.send(true);
        agents.join().await;
        let _ = release.send(true);
        leaders.join().await;
        drop(hub);
    }
}
