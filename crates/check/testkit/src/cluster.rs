//! A cluster: an API server, its store, and ways to talk to it.

use std::{
    fmt, fs,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::Client;
use lazaret_server::{
    ADMIN, AdmissionPlugin, Identity, NodeConnections, NodeTrust, Pem, Secrets, Server, ServerOptions,
    Signer, User,
};
use lazaret_store::Store;
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::{Options, StartError, front::Front, host::Host, options::Place, running::Running};

/// An API server in this process, with roles, tokens and a few namespaces; controllers and nodes only if asked for
/// ([`Options::plane`]).
///
/// Works in tests with a runtime and in tests without. Its own resources (a thread, a port, files) go when it is dropped.
pub struct Cluster {
    server: Server,
    store: Store,
    options: Options,
    secrets: Secrets,
    /// Where files are, once there are any.
    folder: Mutex<Option<TempDir>>,
    front: Mutex<Option<Front>>,
    running: Option<Running>,
    host: Host,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

// === life ===

impl Cluster {
    /// Starts a cluster in memory.
    ///
    /// # Panics
    /// When the machine has no room, thread or randomness for it. [`Options::start`] returns that as an error.
    #[must_use]
    #[track_caller]
    #[allow(clippy::panic, reason = "for tests, which end where they cannot begin")]
    pub fn start() -> Self {
        Self::options().start().unwrap_or_else(|error| panic!("start a cluster: {error}"))
    }

    /// A cluster that is not like the others: see [`Options`].
    #[must_use]
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn with(options: Options) -> Result<Self, StartError> {
        let folder = match options.place {
            Place::Temporary => Some(temporary_folder()?),
            Place::Memory | Place::Folder(_) => None,
        };
        let host = Host::start().map_err(StartError::Thread)?;
        let secrets = Secrets::generate()?;
        let (server, store) = begin(&host, &options, folder.as_ref().map(TempDir::path), &secrets)?;
        let running =
            options.plane.as_ref().map(|plane| Running::start(&host, &server, plane)).transpose()?;
        Ok(Self {
            server,
            store,
            options,
            secrets,
            folder: Mutex::new(folder),
            front: Mutex::new(None),
            running,
            host,
        })
    }

    /// Stops the API server and starts it again, at the same address. Watches and connections end; objects survive if they are on disk
    /// ([`Options::durable`]), and an in-memory cluster begins anew. Clients with a socket find it again; those of
    /// [`client`](Self::client) belong to the server that was, so take new ones.
    ///
    /// # Errors
    /// When it does not start again: the store is damaged.
    pub fn restart(&mut self) -> Result<(), StartError> {
        drop(self.running.take());
        let front = lock(&self.front).take();
        let port = front.as_ref().map(Front::keep_port).transpose().map_err(StartError::Listen)?;
        // Ends the watches, so that connections can end too.
        self.store.close();
        drop(front);
        let folder = lock(&self.folder).as_ref().map(|folder| folder.path().to_owned());
        (self.server, self.store) = begin(&self.host, &self.options, folder.as_deref(), &self.secrets)?;
        if port.is_some() {
            let front = Front::open(&self.host, self.server.clone(), &self.secrets, port)?;
            *lock(&self.front) = Some(front);
        }
        let plane = self.options.plane.as_ref();
        self.running = plane.map(|plane| Running::start(&self.host, &self.server, plane)).transpose()?;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.running.take());
        self.store.close();
        drop(lock(&self.front).take());
    }
}

fn begin(
    host: &Host,
    options: &Options,
    folder: Option<&Path>,
    secrets: &Secrets,
) -> Result<(Server, Store), StartError> {
    let folder = match &options.place {
        Place::Folder(folder) => Some(folder.as_path()),
        Place::Memory | Place::Temporary => folder,
    };
    let store = match (&options.place, folder) {
        (Place::Temporary | Place::Folder(_), Some(folder)) => {
            Store::open(folder.join("store"), lazaret_store::Options::default())?
        }
        (Place::Memory, _) | (_, None) => Store::ephemeral(lazaret_store::Options::default())?,
    };
    let options = ServerOptions {
        features: options.features.clone(),
        runtime_config: options.runtime_config.clone(),
        authorizer: (options.authorizer)(),
        token_keys: Some(secrets.token_keys()?),
    };
    let server = Server::new(store.clone(), options);
    server.connect_to_nodes(NodeConnections::new(secrets.signer(), NodeTrust::Cluster));
    host.wait(server.bootstrap()).map_err(StartError::Bootstrap)?;
    host.wait(server.publish_authority(secrets.authority())).map_err(StartError::Bootstrap)?;
    Ok((server, store))
}

// === talking to it ===

impl Cluster {
    /// A client that may do everything, with no socket between.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_as(User {
            name: ADMIN.name.into(),
            groups: vec![ADMIN.group.into(), "system:authenticated".into()],
            ..User::default()
        })
    }

    /// A client that acts as a user, with the rights of the user's roles.
    #[must_use]
    pub fn client_as(&self, user: User) -> Client {
        // A client has a task of its own. It belongs where the client is used, if that is known.
        let _inside = Handle::try_current().is_err().then(|| self.host.handle().enter());
        self.server.client(user)
    }

    /// The server itself.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where the server listens, with TLS. The first call opens the port.
    ///
    /// # Panics
    /// When this machine permits no listener on loopback.
    #[must_use]
    #[track_caller]
    #[allow(clippy::panic, reason = "for tests, which end where they cannot go on")]
    pub fn address(&self) -> SocketAddr {
        self.listen().unwrap_or_else(|error| panic!("open the cluster's address: {error}"))
    }

    /// Lets claims be allocated devices that others have, as kube-apiserver does, until [`restart`](Self::restart): for tests of what nodes do then.
    pub fn allow_devices_twice(&self) {
        self.server.disable_admission_plugin(AdmissionPlugin::DevicesOnce);
    }

    /// A kubeconfig file for the administrator, for programs outside this process. The first call opens the port.
    ///
    /// # Panics
    /// When the port cannot be opened or the file not be written.
    #[must_use]
    #[track_caller]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_as(ADMIN.name, ADMIN.group)
    }

    /// A kubeconfig file with a certificate for a user in a group.
    ///
    /// # Panics
    /// When the port cannot be opened or the file not be written.
    #[must_use]
    #[track_caller]
    #[allow(clippy::panic, reason = "for tests, which end where they cannot go on")]
    pub fn kubeconfig_as(&self, user: &str, group: &str) -> PathBuf {
        self.write_kubeconfig(Identity { name: user, group })
            .unwrap_or_else(|error| panic!("write a kubeconfig: {error}"))
    }

    /// Signs with the cluster's authority.
    #[must_use]
    pub fn signer(&self) -> Signer {
        self.secrets.signer()
    }

    /// A certificate for a user in a group, for clients that speak to others than the API server.
    ///
    /// # Panics
    /// When the system gives no randomness.
    #[must_use]
    #[track_caller]
    #[allow(clippy::panic, reason = "for tests, which end where they cannot go on")]
    pub fn certificate_for(&self, user: &str, group: &str) -> Pem {
        let made = self.secrets.client(Identity { name: user, group });
        made.unwrap_or_else(|error| panic!("make a certificate: {error}"))
    }

    /// The certificate, as PEM, that clients of [`address`](Self::address) must trust.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.secrets.authority()
    }

    /// Runs a future from a test without a runtime of its own; also from within one, whose thread then waits.
    pub fn block_on<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        self.host.wait(future)
    }

    fn listen(&self) -> Result<SocketAddr, StartError> {
        let mut front = lock(&self.front);
        if let Some(front) = front.as_ref() {
            return Ok(front.address);
        }
        let opened = Front::open(&self.host, self.server.clone(), &self.secrets, None)?;
        Ok(front.insert(opened).address)
    }

    fn write_kubeconfig(&self, identity: Identity<'_>) -> Result<PathBuf, StartError> {
        let text = self.secrets.kubeconfig(self.listen()?, identity)?;
        let mut folder = lock(&self.folder);
        let folder = match folder.as_ref() {
            Some(folder) => folder,
            None => folder.insert(temporary_folder()?),
        };
        let file = format!("{}.kubeconfig", identity.name.replace([':', '/'], "-"));
        let path = folder.path().join(&file);
        // A program that was started before may be about to read the file.
        let beside = folder.path().join(format!(".{file}"));
        match fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path)) {
            Ok(()) => Ok(path),
            Err(source) => Err(StartError::Kubeconfig { path, source }),
        }
    }
}

/// For its owner only: it holds keys.
fn temporary_folder() -> Result<TempDir, StartError> {
    tempfile::Builder::new().prefix("lazaret-testkit-").tempdir().map_err(StartError::Folder)
}

/// A panic of a test leaves plain data whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
