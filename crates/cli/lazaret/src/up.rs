//! `lazaret up`: an API server with an embedded store, in this process.

mod announce;
mod dashboard;
mod local_node;
mod old_changes;
mod parts;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lazaret_controllers::Options;
use lazaret_server::{
    AdmissionPlugin, Authenticator, Features, HttpOptions, Part, Rbac, Release, Renewal, Secrets, Server,
    ServerOptions, ServiceRanges, Signer, make_private_folder, parse_runtime_config, serve,
};
use lazaret_store::{Notice, Observer, OpenError, Store};
use tokio::sync::watch;

use self::{announce::announce, local_node::LocalNodeArgs, parts::Parts};
use crate::{
    Verdict,
    address::AddressArgs,
    deciding::{Deciding, END_WITHIN},
    gates,
    incidents::IncidentArgs,
    limits::LimitArgs,
    listen::Listen,
    log::Logging,
    nodes::NodeArgs,
    output,
    pace::Pace,
    pages,
    place::Place,
    scheduling::SchedulingArgs,
    signal,
};

/// Start a Kubernetes-compatible API server with an embedded store.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Serve the API and nothing else: no controllers, no scheduler, no nodes
    #[arg(long)]
    api_only: bool,
    /// Number of simulated nodes (node-1, node-2, …), each with a driver that publishes its devices
    #[arg(long, value_name = "COUNT", default_value_t = 0, conflicts_with = "api_only", value_parser = lazaret_hollow::parse_node_count)]
    nodes: usize,
    /// Devices of each simulated node, and of the example driver: gpu-0, gpu-1 and on
    #[arg(long, value_name = "COUNT", default_value_t = 8, conflicts_with = "api_only", value_parser = lazaret_hollow::parse_device_count)]
    devices: usize,
    #[command(flatten)]
    place: Place,
    /// Where to listen, an address or a host name; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7443", value_parser = Listen::parse)]
    listen: Listen,
    #[command(flatten)]
    address: AddressArgs,
    /// Keep objects in memory only
    #[arg(long, conflicts_with = "encryption_key_file")]
    ephemeral: bool,
    /// Features to turn on or off, as in Kubernetes
    #[arg(long, value_name = "GATE=BOOL,...", default_value = "", hide_default_value = true)]
    feature_gates: String,
    /// Group versions to serve or not: resource.k8s.io/v1alpha3=true, or api/all, api/ga, api/beta, api/alpha
    #[arg(long, value_name = "VERSION=BOOL,...", default_value = "", hide_default_value = true)]
    runtime_config: String,
    /// Behave like this release of Kubernetes, 1.34 to 1.37: its feature gates, and no kind that came later
    #[arg(long, value_name = "1.MINOR", default_value_t = Release::NEWEST)]
    emulated_version: Release,
    /// The network that cluster IPs of Services are taken from, IPv4, /12 to /29; the Service kubernetes has its first address
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/12")]
    service_cluster_ip_range: String,
    /// The node ports that Services are given, with the first and the last
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767")]
    service_node_port_range: String,
    /// Admission plugins that are left out: ServiceAccount (accounts and tokens of pods), TaintNodesByCondition (taints of new nodes)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// Delete events this many seconds after they were last written; 0 keeps them
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    event_ttl: u64,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    scheduling: SchedulingArgs,
    #[command(flatten)]
    nodes_api: NodeArgs,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    incidents: IncidentArgs,
    #[command(flatten)]
    local_node: LocalNodeArgs,
    #[command(flatten)]
    logging: Logging,
}

/// Tasks of its own after which a thread takes one that was woken from outside. The store's thread wakes tasks that wait for a write to
/// be durable, and watches: they are not to stand behind all that the threads find to do among themselves.
const GLOBAL_QUEUE_INTERVAL: u32 = 8;

/// How long requests that have a thread of their own may take to end.
const THREADS_END_WITHIN: Duration = Duration::from_millis(200);

/// The version in which Lazaret shows everything that it knows of rules and slices.
const WIDEST: &str = "resource.k8s.io/v1alpha3";

const EXAMPLES: &str = "Examples:
  lazaret up --nodes 4 --devices 8
  lazaret up --node --driver example
  lazaret up --api-only
  lazaret up --encryption-key-file /etc/lazaret/keys
  lazaret up --api-only --ephemeral --listen 127.0.0.1:0 --data-dir /tmp/play --runtime-config resource.k8s.io/v1alpha3=true";

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        self.logging.start();
        let files = if self.ephemeral { None } else { Some(self.place.store()?) };
        pages::start(files.as_deref());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
            .enable_all()
            .build()
            .context("start the runtime")?;
        let served = runtime.block_on(self.serve());
        // Threads that are busy are not waited for longer.
        runtime.shutdown_timeout(THREADS_END_WITHIN);
        served.map(|()| Verdict::Yes)
    }

    async fn serve(self) -> Result<()> {
        self.check_node_name()?;
        let folder = self.place.folder()?;
        make_private_folder(&folder)?;
        let store = self.open()?;
        let secrets = Secrets::load_or_make(&folder)?;
        let features = self.features()?;
        let server = Server::with_limits(
            store.clone(),
            ServerOptions {
                features,
                runtime_config: self.versions()?,
                authorizer: Box::new(Rbac::default()),
                token_keys: Some(secrets.token_keys()?),
            },
            self.limits.server(),
        );
        server.use_service_ranges(self.service_ranges()?);
        let repair_namespaces = self.incidents.repair_namespaces()?;
        server.allow_repair_namespaces(repair_namespaces.clone());
        server.connect_to_nodes(self.nodes_api.connections(secrets.signer())?);
        let disabled = self.disable_admission_plugins.iter();
        disabled.for_each(|plugin| server.disable_admission_plugin(*plugin));
        let listener = self.listen.bind("--listen").await?;
        let address = self.address.of(listener.local_addr().context("find out where it listens")?);
        server.set_address(address.clone());
        server.bootstrap().await.map_err(|error| anyhow!(error))?;
        server.publish_authority(secrets.authority()).await.map_err(|error| anyhow!(error))?;
        let signer = (!self.api_only).then(|| secrets.signer());
        let local = address.local();
        if let Err(error) = server.write_own_service(local).await {
            output::note(&format!("the Service kubernetes is tried again later: {error}"));
        }
        let authority = secrets.authority().to_owned();
        let renewal = Renewal::start(secrets, folder.clone(), address)?;
        let dashboard = dashboard::serve(&server, local.port());
        announce(&renewal.kubeconfig(), local, self.nodes, &dashboard.token)?;

        let deciding = Deciding::start()?;
        let parts = if self.api_only {
            None
        } else {
            let options = Options { repair_namespaces, ..self.plane_options() };
            let server = server.clone();
            let started = deciding.run(Parts::start(server, self.nodes, self.devices, options));
            Some(started.await??)
        };
        let local_node = self.local_node.start(&server, folder, local.ip(), self.devices, authority).await?;
        let (stop, stopped) = watch::channel(false);
        let options = HttpOptions { tls: Some(renewal.tls()), authenticator: Authenticator::default() };
        let forgetting = server.clone();
        let renewing = renewal.run(server.clone());
        let serving = serve(server, listener, options, stopped);
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => ended.context("serve")?,
            () = renewing => {}
            () = forget(&forgetting, store.clone(), self.event_ttl) => {}
            () = forgetting.watch_disk() => {}
            () = forgetting.keep_own_service(local) => {}
            () = sign_certificates(&forgetting, signer) => {}
            () = pages::follow() => {}
            () = dashboard.end_old_sessions() => {}
            asked = signal::to_stop() => {
                asked?;
                output::note("stopping");
                if let Some(local_node) = local_node {
                    local_node.stop().await;
                }
                if let Some(parts) = parts
                    && tokio::time::timeout(END_WITHIN, deciding.run(parts.stop())).await.is_err()
                {
                    output::note("some controllers are still deciding: stopping without them");
                }
                // The server has its own receiver; it is there until the server ends.
                let _ = stop.send(true);
                serving.await.context("serve")?;
            }
        }
        store.close();
        Ok(())
    }

    fn check_node_name(&self) -> Result<()> {
        if let Some(name) = self.local_node.node_name()?.filter(|name| is_simulated(name, self.nodes)) {
            bail!("--node-name {name}: a simulated node has this name");
        }
        Ok(())
    }

    fn plane_options(&self) -> Options {
        Options {
            // The server in this process names the author and the approver of each rule itself.
            eviction: lazaret_eviction::Options { trusts_user_names: true, ..self.pace.options() },
            scheduler: self.scheduling.options(),
            workloads: self.limits.workloads(),
            incidents: self.incidents.history(),
            ..Options::default()
        }
    }

    fn features(&self) -> Result<Features> {
        let parts: &[Part] = if self.api_only { &[Part::Server] } else { &[Part::Server, Part::Scheduler] };
        gates::features(self.emulated_version, &self.feature_gates, parts)
    }

    /// Our own parts need the widest version, unless the flag says otherwise.
    fn versions(&self) -> Result<Vec<(String, bool)>> {
        let mut versions = parse_runtime_config(&self.runtime_config)
            .map_err(|error| anyhow!("--runtime-config: {error}"))?;
        let meant = |(name, _): &(String, bool)| [WIDEST, "api/all", "api/alpha"].contains(&name.as_str());
        if !self.api_only && !versions.iter().any(meant) {
            versions.push((WIDEST.to_owned(), true));
        }
        Ok(versions)
    }

    fn service_ranges(&self) -> Result<ServiceRanges> {
        ServiceRanges::new(&self.service_cluster_ip_range, &self.service_node_port_range)
            .map_err(|error| anyhow!("--service-cluster-ip-range, --service-node-port-range: {error}"))
    }

    fn open(&self) -> Result<Store> {
        let opened = if self.ephemeral {
            Store::ephemeral(lazaret_store::Options::default())
        } else {
            let options = lazaret_store::Options { observer: log_store_notices(), ..self.place.options()? };
            Store::open(self.place.store()?, options)
        };
        match opened {
            Ok(store) => Ok(store),
            Err(error @ OpenError::Locked { .. }) => {
                Err(anyhow!("{error}: stop the other lazaret, or give another --data-dir"))
            }
            Err(error) => Err(anyhow!(error)),
        }
    }
}

/// Logs what happens to a store, for its options.
fn log_store_notices() -> Observer {
    Observer::new(|notice| {
        if matches!(notice, Notice::BecameReadOnly(_) | Notice::StillReadOnly { .. }) {
            tracing::error!("{notice}");
        } else {
            tracing::warn!("{notice}");
        }
    })
}

/// Whether one of the simulated nodes is called so: two kubelets for one Node would undo each other's work.
fn is_simulated(name: &str, nodes: usize) -> bool {
    let number = name.strip_prefix("node-").and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| (1..=nodes).contains(&number))
}

/// Lets go of old events and old changes.
async fn forget(server: &Server, store: Store, event_ttl: u64) {
    tokio::join!(server.forget_events(Duration::from_secs(event_ttl)), old_changes::let_go(store, server));
}

/// Approves and signs requests for certificates, unless the API is served and nothing else.
async fn sign_certificates(server: &Server, signer: Option<Signer>) {
    match signer {
        Some(signer) => server.serve_certificate_requests(signer).await,
        None => std::future::pending().await,
    }
}
