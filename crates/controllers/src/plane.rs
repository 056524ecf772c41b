//! All of it together: the watches, the leases, the agents.

use std::sync::Arc;

use lazaret_runtime::{
    AgentOptions, CallError, Client, Hub, Leader, Leadership, LeaseOptions, Metrics, Postbox, Precedence,
    Tasks, run,
};
use tokio::sync::watch;

use crate::{Sources, claims, eviction, pools, quotas, replacement, scheduler, telemetry, workloads};

/// Where leases are kept.
const NAMESPACE: &str = "kube-system";

/// What may be chosen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which parts run.
    pub parts: Parts,
    /// How pods leave tainted devices.
    pub eviction: lazaret_eviction::Options,
    /// How claims are made and given back.
    pub claims: lazaret_claims::Options,
    /// How pods are placed.
    pub scheduler: lazaret_scheduler::Options,
    /// How much one workload may bring into being.
    pub workloads: lazaret_workloads::Limits,
    /// Whether others may run the same parts; then a lease says who acts.
    pub rivals: Option<Rivals>,
}

impl Options {
    /// The same with what is on and off of these feature gates; gates that nothing here asks for are left alone.
    #[must_use]
    pub fn with_features(mut self, is_on: impl Fn(&str) -> bool) -> Self {
        let features = &mut self.scheduler.features;
        let gates: Vec<&str> = features.gates().map(|(gate, _)| gate).collect();
        for gate in gates {
            // The name comes from the list itself, so it is known.
            let _ = features.set(gate, is_on(gate));
        }
        self.scheduler.extended_resources = is_on("DRAExtendedResource");
        self.scheduler.node_allocatable = is_on("DRANodeAllocatableResources");
        self
    }
}

/// Which parts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Placing pods.
    pub scheduler: bool,
    /// Claims of pods, eviction from tainted devices, replacement of pods on tainted nodes and devices.
    pub controllers: bool,
    /// With the controllers: what any cluster has already, replica sets and garbage collection for instance.
    pub workloads: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self { scheduler: true, controllers: true, workloads: true }
    }
}

/// How a process competes with others.
#[derive(Clone, Debug)]
pub struct Rivals {
    /// Its name in the lease. Who comes back under the same name goes on at once.
    pub identity: String,
    /// How long things last.
    pub lease: LeaseOptions,
}

/// The parts at work. Dropping it cuts them off; [`Plane::stop`] lets them end what they began.
#[derive(Debug)]
pub struct Plane {
    hub: Arc<Hub>,
    agents: Tasks,
    leaders: Tasks,
    stop: watch::Sender<bool>,
    release: watch::Sender<bool>,
}

impl Plane {
    /// Starts what was chosen against a server.
    ///
    /// # Errors
    /// When the server cannot be asked what it serves.
    pub async fn start(client: Client, metrics: Metrics, options: &Options) -> Result<Self, CallError> {
        let gates = options.scheduler.features.fleet_gates();
        let sources = Sources::of(&client).await?.with_gates(gates);
        let mut plane = Self {
            hub: Arc::new(Hub::new(client, metrics)),
            agents: Tasks::default(),
            leaders: Tasks::default(),
            stop: watch::channel(false).0,
            release: watch::channel(false).0,
        };
        if options.parts.controllers {
            let leadership = plane.leadership("lazaret-controllers", options.rivals.as_ref());
            plane.controllers(sources, options, &leadership);
        }
        if options.parts.scheduler {
            let leadership = plane.leadership("lazaret-scheduler", options.rivals.as_ref());
            plane.scheduler(sources, options, &leadership);
        }
        Ok(plane)
    }

    /// The watches, for others that want to hear of the same objects.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Lets what is under way end, then gives the leases back.
    pub async fn stop(self) {
        let Self { hub, agents, leaders, stop, release } = self;
        // Nobody listens any more when all have ended by themselves.
        let _ = stop.send(true);
        agents.join().await;
        let _ = release.send(true);
        leaders.join().await;
        drop(hub);
    }

    fn leadership(&mut self, name: &str, rivals: Option<&Rivals>) -> Leadership {
        let Some(rivals) = rivals else { return Leadership::unrivalled() };
        let client = self.hub.client().clone();
        let (leader, leadership) = Leader::new(client, NAMESPACE, name, &rivals.identity, rivals.lease);
        self.leaders.spawn(leader.run(self.hub.metrics().clone(), self.release.subscribe()));
        leadership
    }

    /// Where the agents of one part leave what may wait.
    fn postbox(&mut self) -> Postbox {
        let (postbox, postman) = self.hub.postbox();
        self.agents.spawn(postman.run());
        postbox
    }

    fn controllers(&mut self, sources: Sources, options: &Options, leadership: &Leadership) {
        let (client, metrics) = (self.hub.client().under(leadership), self.hub.metrics().clone());
        let events = self.postbox();
        // Without taints there is nobody to evict, and nothing to keep in memory for it.
        if sources.gates().taints {
            let telemetry = telemetry::EvictionMetrics::new(&metrics);
            let options_of_eviction = options.eviction.clone();
            self.agents.spawn(run(
                move || eviction::EvictionAgent::new(options_of_eviction.clone(), sources),
                eviction::Executor::new(client.clone(), events.clone(), sources, telemetry),
                self.hub.listen(&sources.resources()),
                leadership.clone(),
                metrics.clone(),
                AgentOptions { name: eviction::NAME, in_flight_max: 128, precedence: Precedence::Urgent },
                self.stop.subscribe(),
            ));
        }
        let options_of_claims =
            lazaret_claims::Options { groups: sources.has_groups(), ..options.claims.clone() };
        let counts_of_claims = telemetry::ClaimsMetrics::new(&metrics);
        self.agents.spawn(run(
            move || claims::ClaimsAgent::new(options_of_claims.clone(), counts_of_claims.clone()),
            claims::Executor::new(client.clone(), events.clone()),
            self.hub.listen_if_possible(&claims::resources(sources), claims::OPTIONAL),
            leadership.clone(),
            metrics.clone(),
            AgentOptions { name: claims::NAME, in_flight_max: 128, precedence: Precedence::Usual },
            self.stop.subscribe(),
        ));
        if sources.has_pool_status_requests() {
            self.pool_status(sources, leadership);
        }
        self.agents.spawn(replacement::serve(
            Arc::clone(&self.hub),
            sources,
            leadership.clone(),
            metrics.clone(),
            self.stop.subscribe(),
        ));
        if options.parts.workloads {
            self.agents.spawn(run(
                {
                    let limits = options.workloads;
                    move || workloads::WorkloadsAgent::new(limits)
                },
                workloads::Executor::new(client.clone(), events),
                self.hub.listen_if_possible(&workloads::resources(), &workloads::optional()),
                leadership.clone(),
                metrics.clone(),
                AgentOptions { name: workloads::NAME, in_flight_max: 32, precedence: Precedence::Patient },
                self.stop.subscribe(),
            ));
            self.agents.spawn(run(
                quotas::QuotaAgent::new,
                quotas::Executor::new(client),
                self.hub.listen_if_possible(quotas::RESOURCES, quotas::OPTIONAL),
                leadership.clone(),
                metrics,
                AgentOptions { name: quotas::NAME, in_flight_max: 16, precedence: Precedence::Patient },
                self.stop.subscribe(),
            ));
        }
    }

    fn pool_status(&mut self, sources: Sources, leadership: &Leadership) {
        self.agents.spawn(run(
            move || pools::PoolsAgent::new(sources),
            pools::Executor::new(self.hub.client().under(leadership)),
            self.hub.listen(&pools::resources(sources)),
            leadership.clone(),
            self.hub.metrics().clone(),
            AgentOptions { name: pools::NAME, in_flight_max: 8, precedence: Precedence::Patient },
            self.stop.subscribe(),
        ));
    }

    fn scheduler(&mut self, sources: Sources, options: &Options, leadership: &Leadership) {
        let events = self.postbox();
        let options = options.scheduler.clone();
        self.agents.spawn(run(
            move || scheduler::SchedulerAgent::new(options.clone(), sources),
            scheduler::Executor::new(self.hub.client().under(leadership), events),
            self.hub.listen(&scheduler::resources(sources)),
            leadership.clone(),
            self.hub.metrics().clone(),
            AgentOptions { name: scheduler::NAME, in_flight_max: 256, precedence: Precedence::Usual },
            self.stop.subscribe(),
        ));
    }
}
