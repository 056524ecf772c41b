//! Options of a cluster.

use std::path::PathBuf;

use lazaret_runtime::Clock;
use lazaret_server::{Authorizer, Features};

use crate::{Cluster, StartError};

/// Where the objects are.
#[derive(Clone, Debug, Default)]
pub(crate) enum Place {
    /// In memory: gone at a restart.
    #[default]
    Memory,
    /// In a folder of the cluster's own, removed when it is dropped.
    Temporary,
    /// In a folder of the test's, which stays.
    Folder(PathBuf),
}

/// Options of a cluster. [`Cluster::start`] takes the defaults: Kubernetes 1.37's features and served versions, roles, in memory.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) features: Features,
    pub(crate) runtime_config: Vec<(String, bool)>,
    pub(crate) authorizer: fn() -> Box<dyn Authorizer>,
    pub(crate) place: Place,
    pub(crate) plane: Option<Plane>,
}

/// Scheduler, controllers and simulated nodes beside the API server.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    pub(crate) options: lazaret_controllers::Options,
    pub(crate) hollow: lazaret_hollow::HollowOptions,
    pub(crate) clock: Clock,
}

impl Plane {
    /// `nodes` nodes, each with `devices` devices: `node-1` has `gpu-0` and on. Each writes as its own user, `system:node:NAME`.
    #[must_use]
    pub fn simulated(nodes: usize, devices: usize) -> Self {
        let hollow =
            lazaret_hollow::HollowOptions { nodes, devices, ..lazaret_hollow::HollowOptions::default() };
        let options = lazaret_controllers::Options::default();
        Self { options, hollow, clock: Clock::default() }
    }

    /// The clock of the scheduler, the controllers and the nodes; every clone of it can set it.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How the scheduler and the controllers are set up.
    #[must_use]
    pub fn options(mut self, options: lazaret_controllers::Options) -> Self {
        self.options = options;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            features: Features::kubernetes_1_37(),
            runtime_config: Vec::new(),
            authorizer: crate::asked::authorizer,
            place: Place::Memory,
            plane: None,
        }
    }
}

impl Options {
    /// Objects on disk, in a folder that goes with the cluster: they survive [`Cluster::restart`].
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.place = Place::Temporary;
        self
    }

    /// Objects on disk, in a folder that stays.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.place = Place::Folder(folder.into());
        self
    }

    /// Which features are on.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// Serves a group version, or not: `resource.k8s.io/v1alpha3`, or `api/all`.
    #[must_use]
    pub fn serve(mut self, version: &str, on: bool) -> Self {
        self.runtime_config.push((version.to_owned(), on));
        self
    }

    /// Authorizes requests with this authorizer instead of roles.
    #[must_use]
    pub fn authorizer(mut self, make: fn() -> Box<dyn Authorizer>) -> Self {
        self.authorizer = make;
        self
    }

    /// Pods are placed and run. Serves `resource.k8s.io/v1alpha3` as well, which the controllers make use of.
    #[must_use]
    pub fn plane(mut self, plane: Plane) -> Self {
        self.plane = Some(plane);
        self.serve("resource.k8s.io/v1alpha3", true)
    }

    /// Starts a cluster like this.
    ///
    /// # Errors
    /// When the machine has no room, thread or randomness for it.
    pub fn start(self) -> Result<Cluster, StartError> {
        Cluster::with(self)
    }
}
