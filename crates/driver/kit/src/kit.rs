//! Starts a driver.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use lazaret_model::{NameError, validate_driver_name};
use lazaret_publisher::{HealthTable, Pool, PoolError, Scope};
use thiserror::Error;
use tokio::sync::{Mutex, watch};

use crate::{
    Driver, HealthReport, KUBELET_ROOT, KubeletService, LeaderElection, MetadataVersion, Publisher,
    Registration, Running, SocketError, Sockets,
    calls::Calls,
    clock::Clock,
    election,
    grpc::{self, ChangeBytes},
    health,
    held::HeldDevices,
    inventory::Inventory,
    lock::{self, Serialize},
    metadata::MetadataFiles,
    proto, publish,
    registrar::Registrar,
    running::{Problems, Registered},
    service::Plugin,
    sockets::Bound,
    tasks::Tasks,
    term::Term,
};

/// How often devices are looked at, unless the driver says otherwise.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);
/// How long the first look may take before the driver registers without it. Nothing is published before it is over.
const FIRST_HEALTH_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of a driver besides [`Driver`]. Only the name and a client are required.
pub struct Kit {
    name: String,
    client: kube::Client,
    scope: Option<Scope>,
    registry: PathBuf,
    data: PathBuf,
    pod_uid: Option<String>,
    serialize: bool,
    table: HealthTable,
    health_interval: Duration,
    pools: Option<BTreeMap<String, Pool>>,
    services: Vec<KubeletService>,
    metadata: Option<Vec<MetadataVersion>>,
    cdi: PathBuf,
    change_bytes: Option<ChangeBytes>,
    election: Option<LeaderElection>,
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").field("name", &self.name).field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Why a driver did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The name of the driver is not one.
    #[error("driver name {0:?}: {1}")]
    Name(String, NameError),
    /// The UID of the pod cannot be part of a file name.
    #[error("pod UID {0:?} cannot be part of a file name")]
    PodUid(String),
    /// A socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A directory cannot be made.
    #[error("{path}: {source}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The pools cannot be published.
    #[error(transparent)]
    Pools(#[from] PoolError),
    /// There is something to publish, and neither a node nor the cluster to publish it for.
    #[error("pools were given, and none of Kit::node, Kit::pool and Kit::cluster")]
    NoScope,
    /// Of the versions of device metadata, the newest must be written.
    #[error("device metadata: the newest version, v1beta1, must be one of those that are written")]
    MetadataVersions,
    /// Kubelet refuses a driver without any version of this service.
    #[error("no version of DRAPlugin is offered")]
    NoPlugin,
}

impl Kit {
    /// For a driver of this name. The client reads claims and the Node, and writes slices.
    #[must_use]
    pub fn new(driver: impl Into<String>, client: kube::Client) -> Self {
        let name = driver.into();
        let table = HealthTable::new(&name);
        let kit = Self {
            name,
            client,
            scope: None,
            registry: PathBuf::new(),
            data: PathBuf::new(),
            pod_uid: None,
            serialize: true,
            table,
            health_interval: HEALTH_INTERVAL,
            pools: None,
            services: KubeletService::ALL.to_vec(),
            metadata: None,
            cdi: lazaret_cdi::DYNAMIC_DIRECTORY.into(),
            change_bytes: None,
            election: None,
        };
        kit.kubelet_root(KUBELET_ROOT)
    }

    /// Publishes devices of this node.
    #[must_use]
    pub fn node(self, name: impl Into<String>) -> Self {
        Self { scope: Some(Scope::Node { name: name.into() }), ..self }
    }

    /// Publishes one pool that this node owns and other nodes reach too. Slices name no node, and go with their owner.
    #[must_use]
    pub fn pool(self, owner: impl Into<String>, pool: impl Into<String>) -> Self {
        Self { scope: Some(Scope::Pool { owner: owner.into(), pool: pool.into() }), ..self }
    }

    /// Publishes devices that no single node has.
    #[must_use]
    pub fn cluster(self) -> Self {
        Self { scope: Some(Scope::Cluster), ..self }
    }

    /// Of several replicas, only the one that holds this Lease publishes; the others take over when it is gone. For devices
    /// that no node has.
    #[must_use]
    pub fn leader_election(self, election: LeaderElection) -> Self {
        Self { election: Some(election), ..self }
    }

    /// Where kubelet keeps its files; `/var/lib/kubelet` unless said otherwise. The same path inside and outside of the
    /// driver's container.
    #[must_use]
    pub fn kubelet_root(self, root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        Self { registry: root.join("plugins_registry"), data: root.join("plugins").join(&self.name), ..self }
    }

    /// Where kubelet looks for registration sockets.
    #[must_use]
    pub fn registry_directory(self, path: impl Into<PathBuf>) -> Self {
        Self { registry: path.into(), ..self }
    }

    /// Where the service socket and `serialize.lock` are.
    #[must_use]
    pub fn data_directory(self, path: impl Into<PathBuf>) -> Self {
        Self { data: path.into(), ..self }
    }

    /// This instance overlaps with another one while a DaemonSet is updated with `maxSurge`; the UID of its pod tells them
    /// apart. Both must keep what they know in files. Needs kubelet 1.33.
    #[must_use]
    pub fn rolling_update(self, pod_uid: impl Into<String>) -> Self {
        Self { pod_uid: Some(pod_uid.into()), ..self }
    }

    /// Whether calls wait for each other. On unless it is turned off.
    #[must_use]
    pub fn serialize(self, on: bool) -> Self {
        Self { serialize: on, ..self }
    }

    /// Which condition of a device means which taint.
    #[must_use]
    pub fn health_table(self, table: HealthTable) -> Self {
        Self { table, ..self }
    }

    /// How often [`Driver::health`] is called; every 5 s unless said otherwise.
    #[must_use]
    pub fn health_interval(self, interval: Duration) -> Self {
        Self { health_interval: interval.max(Duration::from_millis(1)), ..self }
    }

    /// Publishes these pools from the start. Later: [`Publisher::publish`].
    #[must_use]
    pub fn pools(self, pools: BTreeMap<String, Pool>) -> Self {
        Self { pools: Some(pools), ..self }
    }

    /// Offers these services only; all of [`KubeletService::ALL`] unless said otherwise. Those of health are offered
    /// only by a driver that looks at its devices.
    #[must_use]
    pub fn services(self, services: impl IntoIterator<Item = KubeletService>) -> Self {
        Self { services: services.into_iter().collect(), ..self }
    }

    /// Writes for each request of a prepared claim a file that containers read: what its devices are
    /// ([`PreparedDevice::metadata`](crate::PreparedDevice::metadata)). In these versions of the format, of which the
    /// newest must be one. Off unless it is turned on.
    #[must_use]
    pub fn device_metadata(self, versions: impl IntoIterator<Item = MetadataVersion>) -> Self {
        Self { metadata: Some(versions.into_iter().collect()), ..self }
    }

    /// Where CDI files of device metadata go; `/var/run/cdi` unless said otherwise.
    #[must_use]
    pub fn cdi_directory(self, path: impl Into<PathBuf>) -> Self {
        Self { cdi: path.into(), ..self }
    }

    /// Passes every byte that the service socket sends through this function, which may change it: for drivers that test
    /// what calls them.
    #[must_use]
    pub fn change_bytes(self, change: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        Self { change_bytes: Some(Arc::new(change)), ..self }
    }

    /// Starts: looks at the devices, listens for calls, publishes, and then lets kubelet know.
    ///
    /// # Errors
    /// When it cannot start. Nothing is left behind.
    pub async fn start<D: Driver>(self, driver: D) -> Result<Running, StartError> {
        let sockets = self.sockets()?;
        let metadata = self.metadata_files()?;
        let (clock, driver) = (Clock::start(), Arc::new(driver));
        let inventory = Arc::new(Inventory::new(self.table.clone()));
        let (problems, unread) = Problems::new();
        let (mut servers, mut background) = (Tasks::default(), Tasks::default());
        let is_monitored = self.look_first(&driver, &inventory, clock, &problems, &mut background).await;
        let (closing, closed) = watch::channel(false);

        let (service_socket, listener) = Bound::listen(&sockets.service)?;
        let calls = Arc::new(Calls::default());
        let plugin = Arc::new(Plugin {
            driver,
            name: self.name.clone(),
            client: self.client.clone(),
            serialize: Arc::new(self.serialization()),
            inventory: Arc::clone(&inventory),
            services: self.offered(is_monitored)?,
            metadata: metadata.clone(),
            held: Arc::new(HeldDevices::new(&self.name, &self.data, self.pod_uid.is_some())),
            clock,
            health_timeout: health::timeout(self.health_interval),
            calls: Arc::clone(&calls),
            closing: closed.clone(),
        });
        servers.spawn(grpc::serve(listener, plugin, closed.clone(), self.change_bytes.clone()));

        let publisher = Publisher::new(Arc::clone(&inventory), self.scope.clone());
        if let Some(pools) = self.pools.clone() {
            publisher.publish(pools)?;
        }
        if let Some(scope) = self.scope.clone() {
            let client = self.client.clone();
            let term = Term::unlimited(clock);
            if let Some(election) = self.election.clone() {
                publisher.pause();
                term.set(None);
                let publishing = (publisher.clone(), term.clone());
                servers.spawn(election::lead(client.clone(), election, clock, publishing, closed.clone()));
            }
            let shell = publish::Shell::new(client, &self.name, scope, inventory, (clock, term), problems);
            background.spawn(shell.run(publisher.settled_sender()));
        } else if self.pools.is_some() {
            return Err(StartError::NoScope);
        }
        // Last: from here on kubelet calls.
        let registered = self.register(&sockets, is_monitored, &closed, &mut servers)?;
        Ok(Running {
            name: self.name,
            sockets,
            registered,
            service_socket,
            closing,
            servers,
            _background: background,
            calls,
            problems: Mutex::new(unread),
            publisher,
            metadata,
        })
    }

    /// Listens on the registration socket.
    fn register(
        &self,
        sockets: &Sockets,
        is_monitored: bool,
        closed: &watch::Receiver<bool>,
        servers: &mut Tasks,
    ) -> Result<Registered, StartError> {
        let offered = self.offered(is_monitored)?.into_iter().map(|service| service.name().to_owned());
        let (sender, status) = watch::channel(Registration::Waiting);
        let registrar = Registrar {
            plugin_type: proto::PLUGIN_TYPE,
            driver: self.name.clone(),
            endpoint: sockets.service.clone(),
            services: offered.collect(),
            status: sender,
        };
        let (socket, listener) = Bound::listen(&sockets.registration)?;
        servers.spawn(grpc::serve(listener, Arc::new(registrar), closed.clone(), None));
        Ok(Registered { _socket: socket, status })
    }

    /// The services offered, in kubelet's order of preference.
    fn offered(&self, is_monitored: bool) -> Result<Vec<KubeletService>, StartError> {
        let mut offered = self.services.clone();
        offered.retain(|service| is_monitored || !service.is_health());
        offered.sort_unstable();
        offered.dedup();
        if offered.iter().all(|service| service.is_health()) {
            return Err(StartError::NoPlugin);
        }
        Ok(offered)
    }

    fn metadata_files(&self) -> Result<Option<Arc<MetadataFiles>>, StartError> {
        let Some(versions) = &self.metadata else { return Ok(None) };
        if !versions.contains(&MetadataVersion::V1beta1) {
            return Err(StartError::MetadataVersions);
        }
        let files = MetadataFiles::new(&self.name, &self.data, &self.cdi, versions.clone());
        Ok(Some(Arc::new(files)))
    }

    fn sockets(&self) -> Result<Sockets, StartError> {
        validate_driver_name(&self.name).map_err(|why| StartError::Name(self.name.clone(), why))?;
        make_directories([&self.registry, &self.data])?;
        let Some(uid) = &self.pod_uid else {
            return Ok(Sockets::single(&self.name, &self.registry, &self.data)?);
        };
        if uid.is_empty() || !uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(StartError::PodUid(uid.clone()));
        }
        Ok(Sockets::rolling(&self.name, uid, &self.registry, &self.data)?)
    }

    fn serialization(&self) -> Serialize {
        match (self.serialize, &self.pod_uid) {
            (false, _) => Serialize::Off,
            (true, None) => Serialize::Process(Arc::default()),
            (true, Some(_)) => Serialize::File(Arc::default(), self.data.join(lock::FILE_NAME)),
        }
    }

    /// Looks at the devices before anything is published, and then again and again. Whether the driver does look.
    async fn look_first<D: Driver>(
        &self,
        driver: &Arc<D>,
        inventory: &Arc<Inventory>,
        clock: Clock,
        problems: &Problems,
        tasks: &mut Tasks,
    ) -> bool {
        let look = inventory.begin_look();
        match tokio::time::timeout(FIRST_HEALTH_TIMEOUT, driver.health()).await {
            Ok(HealthReport::NotMonitored) => {
                inventory.not_monitored();
                return false;
            }
            Ok(HealthReport::Observed(observations)) => inventory.observe(clock.now(), look, &observations),
            Err(_) => problems.report(crate::Problem::StaleHealth),
        }
        let (driver, inventory) = (Arc::clone(driver), Arc::clone(inventory));
        tasks.spawn(health::monitor(driver, inventory, clock, self.health_interval, problems.clone()));
        true
    }
}

pub(crate) fn make_directories(directories: [&PathBuf; 2]) -> Result<(), StartError> {
    directories.into_iter().try_for_each(|path| {
        fs::create_dir_all(path).map_err(|source| StartError::Directory { path: path.clone(), source })
    })
}
