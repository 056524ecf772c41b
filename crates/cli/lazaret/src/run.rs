//! `lazaret run`: the scheduler and the controllers against another API server.

use anyhow::{Context, Result, anyhow};
use lazaret_controllers::{Controllers, Options, Parts, Plane, WorkloadSelection};
use lazaret_runtime::{CallError, Client, Hub, Metrics, WatchState};
use lazaret_server::Release;

use crate::{
    Verdict,
    accounts::{self, ControllerAccounts},
    alerts::{self, AlertArgs},
    connect::Cluster,
    deciding::Deciding,
    frugal, gates,
    incidents::IncidentArgs,
    lease::LeaseArgs,
    listen::Listen,
    log::Logging,
    numbers, output,
    pace::Pace,
    pages,
    scheduling::SchedulingArgs,
    signal,
    webhook::{Serving, WebhookArgs},
};

/// Run the scheduler, the controllers, or both against an API server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Parts to run
    #[arg(value_enum, default_values_t = [Part::Scheduler, Part::Controllers])]
    parts: Vec<Part>,
    #[command(flatten)]
    cluster: Cluster,
    /// Place pods whose spec.schedulerName is this
    #[arg(long, value_name = "NAME", default_value = "default-scheduler")]
    scheduler_name: String,
    /// Controllers of `workloads` to run, by their names in kube-controller-manager: * is all of them, -NAME leaves one out [default: *]
    #[arg(long = "controllers", value_name = "NAME,...", value_parser = WorkloadSelection::parse)]
    workload_controllers: Option<WorkloadSelection>,
    /// Kubernetes' controller manager runs with --controllers=*,-device-taint-eviction-controller: evict for plain DeviceTaintRules and drivers'
    /// taints too. The same as the part `eviction`
    #[arg(long)]
    take_over_eviction: bool,
    /// Each controller writes as the service account PREFIX-CONTROLLER of this namespace, by impersonation, and with the rights of that account
    /// alone [default: all write as the user of the kubeconfig]
    #[arg(long, value_name = "NAMESPACE/PREFIX", value_parser = ControllerAccounts::parse)]
    controller_accounts: Option<ControllerAccounts>,
    #[command(flatten)]
    lease: LeaseArgs,
    /// Serve metrics, /healthz and /readyz over plain HTTP at this address, 127.0.0.1:10290 for instance [default: not at all]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Listen::parse)]
    metrics_listen: Option<Listen>,
    /// Features to turn on or off, as in Kubernetes; as the server has them
    #[arg(long, value_name = "GATE=BOOL,...", default_value = "", hide_default_value = true)]
    feature_gates: String,
    /// The release of Kubernetes whose feature gates these are, 1.34 to 1.37
    #[arg(long, value_name = "1.MINOR", default_value_t = Release::NEWEST)]
    emulated_version: Release,
    #[command(flatten)]
    scheduling: SchedulingArgs,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    webhook: WebhookArgs,
    #[command(flatten)]
    incidents: IncidentArgs,
    #[command(flatten)]
    alerts: AlertArgs,
    #[command(flatten)]
    logging: Logging,
}

const EXAMPLES: &str = "Examples:
  lazaret run scheduler controllers --kubeconfig ~/.kube/config
  lazaret run scheduler --scheduler-name lazaret -v
  lazaret run --feature-gates DRADeviceTaintRules=true     # Kubernetes 1.34 to 1.36 with DeviceTaintRules on
  lazaret run controllers --metrics-listen 127.0.0.1:10290
  lazaret run policies replacement health --lease-namespace lazaret-system
  lazaret run policies replacement health --take-over-eviction
  lazaret run workloads --controllers '*,-endpoints-controller'

Beside Kubernetes' controller manager run `policies`, `replacement` and `health` alone: claims are its business, and so is eviction unless it is started with
--controllers=*,-device-taint-eviction-controller; then add `eviction`, or --take-over-eviction.";

/// A part of Lazaret that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Places pods and gives them devices
    Scheduler,
    /// The next six together
    Controllers,
    /// Makes claims from templates and gives them back
    Claims,
    /// Evicts pods from tainted devices
    Eviction,
    /// Taints devices by DeviceTaintPolicies, and evicts their pods at a pace
    Policies,
    /// Answers ResourcePoolStatusRequests
    PoolStatus,
    /// Replaces pods on tainted nodes and devices, by TaintReplacementPolicies
    Replacement,
    /// Takes ill devices out of service, has them repaired and brings them back, by DeviceHealthPolicies
    Health,
    /// Replica sets, jobs, garbage collection and the like, for a server that has no controllers at all
    Workloads,
}

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        frugal::start();
        self.logging.start();
        pages::start(None);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
        runtime.block_on(self.work())?;
        Ok(Verdict::Yes)
    }

    fn parts(&self) -> Parts {
        let workloads = self.parts.contains(&Part::Workloads);
        Parts {
            scheduler: self.parts.contains(&Part::Scheduler),
            controllers: workloads || self.controllers() != Controllers::NONE,
            workloads,
        }
    }

    fn controllers(&self) -> Controllers {
        let runs = |part| self.parts.contains(&Part::Controllers) || self.parts.contains(&part);
        Controllers {
            claims: runs(Part::Claims),
            eviction: runs(Part::Eviction) || self.take_over_eviction,
            policies: runs(Part::Policies),
            pool_status: runs(Part::PoolStatus),
            replacement: runs(Part::Replacement),
            health: runs(Part::Health),
        }
    }

    async fn work(self) -> Result<()> {
        if self.workload_controllers.is_some() && !self.parts.contains(&Part::Workloads) {
            return Err(anyhow!(
                "--controllers chooses among the controllers of `workloads`, which is not run"
            ));
        }
        let features =
            gates::features(self.emulated_version, &self.feature_gates, &[lazaret_server::Part::Scheduler])?;
        let client = Client::new(self.cluster.client().await?);
        let options = Options {
            parts: self.parts(),
            controllers: self.controllers(),
            eviction: self.pace.options(),
            scheduler: lazaret_scheduler::Options {
                names: vec![self.scheduler_name.as_str().into()],
                ..self.scheduling.options()
            },
            workload_controllers: self.workload_controllers.unwrap_or_default(),
            incidents: self.incidents.history(),
            repair_namespaces: self.incidents.repair_namespaces()?,
            unstable_rules: gates::turns_on(&self.feature_gates, "DRADeviceTaintRules"),
            rivals: Some(self.lease.rivals()?),
            lease_namespace: self.lease.namespace(self.cluster.is_named()),
            ..Options::default()
        }
        .with_features(|gate| features.is_on(gate));
        let metrics = Metrics::default();
        let listener = match &self.metrics_listen {
            Some(listen) => {
                let listener = listen.bind("--metrics-listen").await?;
                let address = listener.local_addr().context("find out where it listens")?;
                output::note(&format!("metrics: http://{address}/metrics"));
                Some(listener)
            }
            None => None,
        };
        let alerts = self.alerts.listen(&client, &metrics).await?;
        let repair_namespaces = options.repair_namespaces.clone();
        let deciding = Deciding::start()?;
        let of_plane = accounts::writing(&client, self.controller_accounts);
        let wants_reviews = self.webhook.is_wanted();
        let (shown, chosen) = (metrics.clone(), options);
        let started = deciding.run(async move {
            let mut plane = Plane::start(of_plane, shown, &chosen).await?;
            let reviews = if wants_reviews { plane.review_rules() } else { None };
            Ok::<_, CallError>((plane, reviews))
        });
        let (plane, reviews) =
            started.await?.map_err(|error| anyhow!("ask the server what it serves: {error}"))?;
        let webhook = self.webhook.start(client, &metrics, reviews, repair_namespaces).await?;
        let checks = || {
            let mut checks = synced(plane.hub());
            checks.extend(webhook.as_ref().map(Serving::check));
            checks
        };
        output::note("running; Ctrl-C stops");
        tokio::select! {
            asked = signal::to_stop() => asked?,
            () = numbers::serve_with(listener, metrics, checks) => {}
            () = alerts::serve(alerts) => {}
            () = pages::follow() => {}
        }
        output::note("stopping");
        if let Some(webhook) = webhook {
            webhook.stop().await;
        }
        deciding.run(plane.stop()).await?;
        Ok(())
    }
}

/// Whether each resource was read once. An optional resource is no reason to be unready: it is logged, and counted.
fn synced(hub: &Hub) -> Vec<(String, bool)> {
    let is_ready = |state: &WatchState| match state {
        WatchState::Synced | WatchState::DoneWithout(_) => true,
        WatchState::Waiting | WatchState::Unreadable(_) => false,
    };
    let watches = hub.watches().into_iter();
    watches.map(|(resource, state)| (format!("synced/{}", resource.plural), is_ready(&state))).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn controllers(words: &[&str]) -> Controllers {
        let line = core::iter::once(&"run").chain(words);
        Line::try_parse_from(line).unwrap().args.controllers()
    }

    #[test]
    fn to_take_over_eviction_is_to_run_that_part() {
        for others in [&["policies"][..], &["scheduler"], &["policies", "health"]] {
            let by_name = controllers(&[others, &["eviction"]].concat());
            let by_flag = controllers(&[others, &["--take-over-eviction"]].concat());
            assert!(by_flag.eviction && !controllers(others).eviction, "{others:?}");
            assert_eq!(by_flag, by_name, "{others:?}");
        }
        assert_eq!(controllers(&["--take-over-eviction"]), controllers(&[]), "it runs by default");
    }
}
