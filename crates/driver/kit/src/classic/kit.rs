//! Starts the plugin of a classic driver.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lazaret_model::validate_driver_name;
use tokio::sync::watch;

use super::{ClassicDriver, service::ClassicPlugin};
use crate::{
    KUBELET_ROOT, Registration, Sockets, StartError, calls::Calls, grpc, kit::make_directories,
    lock::Serialize, proto, registrar::Registrar, running::ANSWERS_MAX, sockets::Bound, tasks::Tasks,
};

/// Options of the plugin of a classic driver. It needs no access to the API: the caller brings what the driver's
/// controller wrote into the claim.
#[derive(Clone, Debug)]
pub struct ClassicKit {
    name: String,
    registry: PathBuf,
    data: PathBuf,
}

/// The plugin of a classic driver that runs. It ends when this is dropped; [`stop`](Self::stop) lets calls in flight finish first.
#[derive(Debug)]
pub struct RunningPlugin {
    sockets: Sockets,
    /// In the order in which they go.
    registration_socket: Bound,
    service_socket: Bound,
    registration: watch::Receiver<Registration>,
    closing: watch::Sender<bool>,
    servers: Tasks,
    calls: Arc<Calls>,
}

impl ClassicKit {
    /// For the driver of this name, which classes have as `driverName`.
    #[must_use]
    pub fn new(driver: impl Into<String>) -> Self {
        let kit = Self { name: driver.into(), registry: PathBuf::new(), data: PathBuf::new() };
        kit.kubelet_root(KUBELET_ROOT)
    }

    /// Where the node keeps its files; `/var/lib/kubelet` unless said otherwise.
    #[must_use]
    pub fn kubelet_root(self, root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        Self { registry: root.join("plugins_registry"), data: root.join("plugins").join(&self.name), ..self }
    }

    /// Starts: listens for calls, and then lets the node know.
    ///
    /// # Errors
    /// When it cannot start. Nothing is left behind.
    pub fn start<D: ClassicDriver>(self, driver: D) -> Result<RunningPlugin, StartError> {
        validate_driver_name(&self.name).map_err(|why| StartError::Name(self.name.clone(), why))?;
        make_directories([&self.registry, &self.data])?;
        let sockets = Sockets::classic(&self.name, &self.registry, &self.data)?;
        let (closing, closed) = watch::channel(false);
        let (calls, mut servers) = (Arc::new(Calls::default()), Tasks::default());
        let (service_socket, listener) = Bound::listen(&sockets.service)?;
        let plugin = Arc::new(ClassicPlugin {
            driver: Arc::new(driver),
            serialize: Arc::new(Serialize::Process(Arc::default())),
            calls: Arc::clone(&calls),
        });
        servers.spawn(grpc::serve(listener, plugin, closed.clone(), None));
        let (status, registration) = watch::channel(Registration::Waiting);
        let registrar = Registrar {
            plugin_type: proto::CLASSIC_PLUGIN_TYPE,
            driver: self.name,
            endpoint: sockets.service.clone(),
            services: vec![proto::CLASSIC_VERSION.to_owned()],
            status,
        };
        // Last: from here on the node calls.
        let (registration_socket, listener) = Bound::listen(&sockets.registration)?;
        servers.spawn(grpc::serve(listener, Arc::new(registrar), closed, None));
        Ok(RunningPlugin {
            sockets,
            registration_socket,
            service_socket,
            registration,
            closing,
            servers,
            calls,
        })
    }
}

impl RunningPlugin {
    /// Where it listens.
    #[must_use]
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Whether the node calls it.
    #[must_use]
    pub fn registration(&self) -> watch::Receiver<Registration> {
        self.registration.clone()
    }

    /// Ends it: the registration socket goes, calls in flight are answered, then the service goes.
    pub async fn stop(self) {
        let Self { registration_socket, service_socket, closing, mut servers, calls, .. } = self;
        drop(registration_socket);
        calls.drain().await;
        closing.send_replace(true);
        // A peer that does not read its answer is not waited for.
        let _ = tokio::time::timeout(ANSWERS_MAX, servers.join()).await;
        drop(service_socket);
    }
}
