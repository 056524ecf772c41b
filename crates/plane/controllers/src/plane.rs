//! All of it together: the watches, the leases, the agents.

use std::{fmt::Debug, sync::Arc};

use lazaret_runtime::{
    Agent, AgentOptions, CLASSIC_CLAIMS, CLASSIC_CLASSES, Call, CallError, Client, Hub, Inbox, Leader,
    Leadership, LeaseOptions, Metrics, Perform, Precedence, RULES, Resource, Tasks,
};
use serde_json::json;
use tokio::sync::watch;
use tracing::warn;

use crate::{
    RuleReviews, Sources,
    capacity::CapacityClient,
    claims, classic,
    context::PartContext,
    eviction, health, policies, pools, quotas, replacement, rule_reviews, scheduler, slice_patches,
    telemetry,
    workload_agent::{WorkloadWriters, WorkloadsAgent},
    workloads,
};

/// The namespace of leases, unless another is configured.
const NAMESPACE: &str = "kube-system";

/// The options of a [`Plane`].
#[derive(Clone, Debug)]
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
    /// Which workload controllers run, where they do.
    pub workload_controllers: lazaret_workloads::Selection,
    /// Whether others may run the same parts; then a lease says who acts.
    pub rivals: Option<Rivals>,
    /// Where leases are kept [`None`: in `kube-system`].
    pub lease_namespace: Option<String>,
    /// Which of the controllers run, where they do.
    pub controllers: Controllers,
    /// How long incidents are kept after their end.
    pub incidents: lazaret_lifecycle::History,
    /// Namespaces of the service accounts as which health policies may have objects created.
    pub repair_namespaces: Vec<String>,
    /// Whether DeviceTaintRules count that are not served in v1. Kubernetes before 1.37 serves them with their gate off as well, and then no
    /// scheduler obeys them.
    pub unstable_rules: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parts: Parts::default(),
            eviction: lazaret_eviction::Options::default(),
            claims: lazaret_claims::Options::default(),
            scheduler: lazaret_scheduler::Options::default(),
            workloads: lazaret_workloads::Limits::default(),
            workload_controllers: lazaret_workloads::Selection::default(),
            rivals: None,
            lease_namespace: None,
            controllers: Controllers::default(),
            incidents: lazaret_lifecycle::History::default(),
            repair_namespaces: vec![lazaret_api::REPAIR_NAMESPACE.to_owned()],
            unstable_rules: true,
        }
    }
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
        self.scheduler.classic = is_on("ClassicDRA");
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

/// Which controllers run. A cluster of Kubernetes has all of them but policies and replacement in its
/// controller manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Makes claims from templates and gives them back.
    pub claims: bool,
    /// Evicts pods from tainted devices.
    pub eviction: bool,
    /// Makes DeviceTaintRules of Kubernetes of DeviceTaintPolicies, and evicts for them.
    pub policies: bool,
    /// Answers ResourcePoolStatusRequests.
    pub pool_status: bool,
    /// Replaces pods on tainted nodes and devices, by policies.
    pub replacement: bool,
    /// Takes ill devices out of service, has them repaired and brings them back, by DeviceHealthPolicies.
    pub health: bool,
}

impl Controllers {
    /// None of them.
    pub const NONE: Self = Self {
        claims: false,
        eviction: false,
        policies: false,
        pool_status: false,
        replacement: false,
        health: false,
    };
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            claims: true,
            eviction: true,
            policies: true,
            pool_status: true,
            replacement: true,
            health: true,
        }
    }
}

/// How a process competes with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rivals {
    /// The holder's identity in the lease. A process that returns with the same identity goes on at once.
    pub identity: String,
    /// The durations of the lease.
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
    sources: Sources,
}

impl Plane {
    /// Starts what was chosen against a server.
    ///
    /// # Errors
    /// When the server cannot be asked what it serves.
    pub async fn start(client: Client, metrics: Metrics, options: &Options) -> Result<Self, CallError> {
        let gates = options.scheduler.features.fleet_gates();
        let found = Sources::of(&client).await?;
        if found.lacks_rules(gates) {
            warn!(
                "DeviceTaintRules are not served in any version: only taints that drivers publish count. Start again once they are served"
            );
            metrics.unreadable(&RULES, true);
        }
        let classic = options.scheduler.classic && has_classic(&client).await?;
        let sources =
            found.with_gates(gates).with_unstable_rules(options.unstable_rules).with_classic(classic);
        let mut plane = Self {
            hub: Arc::new(Hub::new(client, metrics)),
            agents: Tasks::default(),
            leaders: Tasks::default(),
            stop: watch::channel(false).0,
            release: watch::channel(false).0,
            sources,
        };
        if options.parts.controllers {
            let leadership = plane.leadership("lazaret-controllers", options, false);
            let context = plane.context(leadership);
            plane.controllers(&context, sources, options);
        }
        if options.parts.scheduler {
            let leadership = plane.leadership("lazaret-scheduler", options, true);
            let context = plane.context(leadership);
            let chosen = lazaret_scheduler::Options { classic, ..options.scheduler.clone() };
            plane.scheduler(&context, sources, chosen);
        }
        Ok(plane)
    }

    /// The watches, for others that want to hear of the same objects.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Waits for effects in flight, then releases the leases.
    pub async fn stop(self) {
        let Self { hub, agents, leaders, stop, release, sources: _ } = self;
        // It fails when all agents have ended by themselves.
        let _ = stop.send(true);
        agents.join().await;
        let _ = release.send(true);
        leaders.join().await;
        drop(hub);
    }

    /// Begins to follow what guards say of rules; `None` where rules are not served. Every replica answers, whoever leads.
    pub fn review_rules(&mut self) -> Option<RuleReviews> {
        if !self.sources.gates().has_rules() {
            return None;
        }
        let (reviews, questions) = RuleReviews::new();
        let (hub, sources, stop) = (Arc::clone(&self.hub), self.sources, self.stop.subscribe());
        self.agents.supervise(rule_reviews::NAME.to_owned(), self.hub.metrics().clone(), move || {
            rule_reviews::serve(Arc::clone(&hub), sources, Arc::clone(&questions), stop.clone())
        });
        Some(reviews)
    }

    /// `late_writes_harm`: the next leader waits until the writes of the last one have ended, which are bounded for that.
    fn leadership(&mut self, name: &str, options: &Options, late_writes_harm: bool) -> Leadership {
        let Some(rivals) = &options.rivals else { return Leadership::unrivalled() };
        let client = self.hub.client().clone();
        let namespace = options.lease_namespace.as_deref().unwrap_or(NAMESPACE);
        let candidate = Leader::new(client, namespace, name, &rivals.identity, rivals.lease);
        let (leader, leadership) =
            if late_writes_harm { Leader::with_bounded_writes(candidate) } else { candidate };
        let metrics = self.hub.metrics().clone();
        self.leaders.spawn(name, &metrics, leader.run(metrics.clone(), self.release.subscribe()));
        leadership
    }

    /// The context of one part, whose agents share this leadership.
    fn context(&mut self, leadership: Leadership) -> PartContext {
        PartContext::new(Arc::clone(&self.hub), leadership, self.stop.subscribe(), &mut self.agents)
    }

    fn spawn<A: Agent<Effect: Debug>, P: Perform<A::Effect>>(
        &mut self,
        context: &PartContext,
        options: AgentOptions,
        inbox: Inbox,
        make: impl Fn() -> A + Send + Sync + 'static,
        performer: P,
    ) {
        self.agents.spawn(
            options.name,
            context.metrics(),
            context.clone().run(options, inbox, make, performer),
        );
    }

    fn controllers(&mut self, context: &PartContext, sources: Sources, options: &Options) {
        self.evictions(context, sources, options);
        if options.controllers.health {
            let chosen = health::Options {
                history: options.incidents,
                namespace: options.lease_namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
                repair_namespaces: options.repair_namespaces.clone(),
            };
            let served = health::serve(context.clone(), sources, chosen);
            self.agents.spawn(health::NAME, context.metrics(), served);
        }
        if options.controllers.claims {
            self.claims(context, sources, options);
            if sources.has_classic() {
                self.classic(context);
            }
        }
        if options.controllers.pool_status && sources.has_pool_status_requests() {
            self.agents.spawn(pools::NAME, context.metrics(), pools::serve(context.clone(), sources));
        }
        if options.controllers.replacement {
            let namespace = options.lease_namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned());
            let trusts_user_names = options.eviction.trusts_user_names;
            let chosen =
                lazaret_replacement::Options { trusts_user_names, ..lazaret_replacement::Options::default() };
            let served = replacement::serve(context.clone(), sources, namespace, chosen);
            self.agents.spawn(replacement::NAME, context.metrics(), served);
        }
        if options.parts.workloads {
            self.workloads(context, options.workloads, options.workload_controllers);
        }
    }

    fn evictions(&mut self, context: &PartContext, sources: Sources, options: &Options) {
        let counts = telemetry::EvictionMetrics::new(context.metrics());
        let shown = counts.clone();
        let chosen = options.eviction.clone();
        let features = options.scheduler.features;
        let new_capacity = move || lazaret_eviction::Capacity::new(features);
        let stop = self.stop.subscribe();
        let capacity = CapacityClient::start(&self.hub, sources, new_capacity, &mut self.agents, &stop);
        if options.controllers.policies {
            // Of two controllers that go by the same guards, the one that sees all taints says where their breakers stand.
            let second =
                lazaret_eviction::Options { writes_guards: !options.controllers.eviction, ..chosen.clone() };
            let served = policies::serve(context.clone(), sources, second, counts.clone(), capacity.clone());
            self.agents.spawn(policies::NAME, context.metrics(), served);
            let served = slice_patches::serve(context.clone(), sources);
            self.agents.spawn(slice_patches::NAME, context.metrics(), served);
        }
        // Without taints no pod is evicted, and nothing needs to be kept in memory.
        if options.controllers.eviction && sources.gates().taints {
            self.spawn(
                context,
                AgentOptions { name: eviction::NAME, in_flight_max: 128, precedence: Precedence::Urgent },
                context.listen_if_possible(&eviction::resources(sources), &eviction::OPTIONAL),
                move || eviction::EvictionShell::agent(chosen.clone(), sources, shown.clone()),
                eviction::Executor::new(context.writer(eviction::NAME), sources, counts, capacity),
            );
        }
    }

    fn claims(&mut self, context: &PartContext, sources: Sources, options: &Options) {
        let chosen = lazaret_claims::Options { groups: sources.has_groups(), ..options.claims.clone() };
        let counts = telemetry::ClaimsMetrics::new(context.metrics());
        self.spawn(
            context,
            AgentOptions { name: claims::NAME, in_flight_max: 128, precedence: Precedence::Usual },
            context.listen_if_possible(&claims::resources(sources), claims::OPTIONAL),
            move || claims::ClaimsShell::agent(chosen.clone(), counts.clone()),
            context.writer(claims::NAME),
        );
    }

    fn classic(&mut self, context: &PartContext) {
        let counts = telemetry::ClassicMetrics::new(context.metrics());
        self.spawn(
            context,
            AgentOptions { name: classic::NAME, in_flight_max: 64, precedence: Precedence::Usual },
            context.listen(classic::RESOURCES),
            move || classic::ClassicShell::agent(counts.clone()),
            context.writer(classic::NAME),
        );
    }

    fn workloads(
        &mut self,
        context: &PartContext,
        limits: lazaret_workloads::Limits,
        chosen: lazaret_workloads::Selection,
    ) {
        self.spawn(
            context,
            AgentOptions { name: workloads::NAME, in_flight_max: 32, precedence: Precedence::Patient },
            context.listen_if_possible(&workloads::resources(), &workloads::optional()),
            move || WorkloadsAgent::new(limits, chosen),
            WorkloadWriters::new(context, chosen),
        );
        self.spawn(
            context,
            AgentOptions { name: quotas::NAME, in_flight_max: 16, precedence: Precedence::Patient },
            context.listen_if_possible(quotas::RESOURCES, quotas::OPTIONAL),
            quotas::QuotaShell::agent,
            context.writer(quotas::NAME),
        );
    }

    fn scheduler(&mut self, context: &PartContext, sources: Sources, options: lazaret_scheduler::Options) {
        self.spawn(
            context,
            AgentOptions { name: scheduler::NAME, in_flight_max: 256, precedence: Precedence::Usual },
            context.listen(&scheduler::resources(sources)),
            move || scheduler::SchedulerShell::agent(options.clone(), sources),
            context.writer(scheduler::NAME),
        );
    }
}

/// Whether classic claims count: the server has them, and this process may read them.
async fn has_classic(client: &Client) -> Result<bool, CallError> {
    for resource in [CLASSIC_CLAIMS, CLASSIC_CLASSES] {
        if !client.serves(&resource).await? {
            return Ok(false);
        }
        if !may_list(client, &resource).await? {
            let (group, plural) = (resource.group, resource.plural);
            warn!(
                "classic claims do not count; get, list and watch of {plural}.{group} must be permitted. Start again once they are"
            );
            return Ok(false);
        }
    }
    Ok(true)
}

/// Asks the server: a request that it refuses would be counted as an attempt.
async fn may_list(client: &Client, resource: &Resource) -> Result<bool, CallError> {
    let asked = json!({"verb": "list", "group": resource.group, "resource": resource.plural});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned();
    let answer = match client.send(Call::create_at(path, review.to_string())).await {
        Err(CallError::Forbidden(_)) => return Ok(false),
        answer => answer?,
    };
    let answer: serde_json::Value =
        serde_json::from_slice(&answer).map_err(|error| CallError::Unavailable(error.to_string()))?;
    Ok(answer["status"]["allowed"] == true)
}
