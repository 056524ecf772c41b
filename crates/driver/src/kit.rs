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
    Driver, HealthReport, KUBELET_ROOT, Publisher, Registration, Running, SocketError, Sockets,
    clock::Clock,
    grpc, health,
    inventory::Inventory,
    lock::{self, Serialize},
    publish,
    running::Problems,
    service::{Calls, Plugin, Registrar},
    sockets::Bound,
    tasks::Tasks,
};

/// How often devices are looked at, unless the driver says otherwise.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);
/// How long the first look may take before the driver registers without it. Nothing is published before it is over.
const FIRST_LOOK_MAX: Duration = Duration::from_secs(10);

/// What a driver needs besides [`Driver`]. Only the name and a client are required.
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
    /// What was to be published cannot be.
    #[error(transparent)]
    Pools(#[from] PoolError),
    /// There is something to publish, and neither a node nor the cluster to publish it for.
    #[error("pools were given, and neither Kit::node nor Kit::cluster")]
    NoScope,
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
        };
        kit.kubelet_root(KUBELET_ROOT)
    }

    /// Publishes devices of this node.
    #[must_use]
    pub fn node(self, name: impl Into<String>) -> Self {
        Self { scope: Some(Scope::Node { name: name.into() }), ..self }
    }

    /// Publishes devices that no single node has.
    #[must_use]
    pub fn cluster(self) -> Self {
        Self { scope: Some(Scope::Cluster), ..self }
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

    /// Starts: looks at the devices, listens for calls, publishes, and then lets kubelet know.
    ///
    /// # Errors
    /// What keeps it from starting. Nothing is left behind.
    pub async fn start<D: Driver>(self, driver: D) -> Result<Running, StartError> {
        let sockets = self.sockets()?;
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
            is_monitored,
            health_timeout: health::timeout(self.health_interval),
            calls: Arc::clone(&calls),
            closing: closed.clone(),
        });
        servers.spawn(grpc::serve(listener, plugin, closed.clone()));

        let publisher = Publisher::new(Arc::clone(&inventory));
        match (self.scope, self.pools) {
            (Some(scope), pools) => {
                if let Some(pools) = pools {
                    publisher.publish(pools)?;
                }
                let shell = publish::Shell::new(self.client, &self.name, scope, inventory, clock, problems);
                background.spawn(shell.run(publisher.settled_sender()));
            }
            (None, Some(_)) => return Err(StartError::NoScope),
            (None, None) => {}
        }

        let (sender, status) = watch::channel(Registration::Waiting);
        let registrar = Registrar {
            driver: self.name.clone(),
            endpoint: sockets.service.clone(),
            services: services(is_monitored),
            status: sender,
        };
        // Last: from here on kubelet calls.
        let (registration_socket, listener) = Bound::listen(&sockets.registration)?;
        servers.spawn(grpc::serve(listener, Arc::new(registrar), closed));
        Ok(Running {
            name: self.name,
            sockets,
            registration_socket,
            service_socket,
            closing,
            servers,
            _background: background,
            calls,
            status,
            problems: Mutex::new(unread),
            publisher,
        })
    }

    fn sockets(&self) -> Result<Sockets, StartError> {
        validate_driver_name(&self.name).map_err(|why| StartError::Name(self.name.clone(), why))?;
        for directory in [&self.registry, &self.data] {
            let made = fs::create_dir_all(directory);
            made.map_err(|source| StartError::Directory { path: directory.clone(), source })?;
        }
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
        match tokio::time::timeout(FIRST_LOOK_MAX, driver.health()).await {
            Ok(HealthReport::NotMonitored) => {
                inventory.not_monitored();
                return false;
            }
            Ok(HealthReport::Observed(observations)) => inventory.observe(clock.now(), &observations),
            Err(_) => problems.report(crate::Problem::StaleHealth),
        }
        let (driver, inventory) = (Arc::clone(driver), Arc::clone(inventory));
        tasks.spawn(health::monitor(driver, inventory, clock, self.health_interval, problems.clone()));
        true
    }
}

/// The newest first: kubelet takes the first that it knows.
fn services(is_monitored: bool) -> Vec<String> {
    let health = ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"];
    let plugin = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];
    plugin.into_iter().chain(health.into_iter().filter(|_| is_monitored)).map(str::to_owned).collect()
}
