//! Everything that a node's agent asks for, in one place.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod, Service};
use lazaret_containers::{ContainerSpec, Limits, SandboxSpec};
use lazaret_images::Image;

use crate::{
    ContainerInputs, Disk, ImageUser, Lookup, NodeFacts, Objects, PodFiles, SpecError, SubPath, VolumeError,
    Volumes, amount,
    cache::{AGE_MAX_NEW, Cache, CachedObject},
    container_spec,
    disk::{dir::Dir, image_user, sub_path},
    hostname, hosts_file, last_output, limits, names,
    pod::PodView,
    pod_resolver, sandbox_spec, termination_message,
};

/// A file of variables is not larger.
const ENV_FILE_BYTES_MAX: u64 = 1 << 20;
const FILE_MODE: u32 = 0o644;
/// A container writes to it as any user.
const TERMINATION_LOG_MODE: u32 = 0o666;

/// Facts about a container that are known only when it is about to start.
#[derive(Clone, Debug, Default)]
pub struct StartFacts {
    /// The addresses of the pod.
    pub pod_ips: Vec<String>,
    /// Qualified names of the devices that the container was allocated.
    pub cdi_devices: Vec<String>,
    /// Services of the pod's namespace, and `default/kubernetes`.
    pub services: Vec<Service>,
}

/// How much is kept in memory for pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSizes {
    /// Config maps and secrets, of which many pods may use one.
    pub objects: usize,
    /// Tokens of service accounts.
    pub tokens: usize,
    /// Pods for which something is done to files.
    pub locks: usize,
}

/// Describes sandboxes and containers, and keeps what they need on disk.
#[derive(Debug)]
pub struct Provision {
    facts: RwLock<Arc<NodeFacts>>,
    volumes: Volumes,
}

impl Provision {
    /// Keeps what pods need below `root`.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new(root: &Path, facts: NodeFacts, objects: Arc<dyn Objects>) -> io::Result<Self> {
        Ok(Self { facts: RwLock::new(Arc::new(facts)), volumes: Volumes::new(root, objects)? })
    }

    /// The current facts of the node.
    #[must_use]
    pub fn facts(&self) -> Arc<NodeFacts> {
        Arc::clone(&self.facts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the facts of the node.
    pub fn set_facts(&self, facts: NodeFacts) {
        *self.facts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(facts);
    }

    /// The volumes themselves.
    #[must_use]
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Describes the sandbox of a pod.
    ///
    /// # Errors
    /// See [`sandbox_spec`].
    pub fn sandbox(&self, pod: &Pod) -> Result<SandboxSpec, SpecError> {
        sandbox_spec(pod, &self.facts())
    }

    /// How much a container may use, and its pod as a whole.
    ///
    /// # Errors
    /// When there is no such container, or an amount cannot be read.
    pub fn limits(&self, pod: &Pod, name: &str) -> Result<(Limits, Limits), SpecError> {
        let (view, facts) = (PodView::new(pod)?, self.facts());
        amount::check(view.spec)?;
        let container = view.container(name)?;
        Ok((limits::of_container(&view, &container, &facts), limits::of_pod(&view, &facts)))
    }

    /// Sets the volumes of a pod up, before its sandbox is made. A volume that is an image needs [`Self::set_up_with_images`].
    ///
    /// # Errors
    /// One for each volume that is not there; each is an event `FailedMount`.
    pub async fn set_up(&self, pod: &Pod) -> Result<(), Vec<VolumeError>> {
        self.set_up_with_images(pod, &BTreeMap::new()).await
    }

    /// The same, with the images that volumes of the pod are made of, by the name of the volume.
    ///
    /// # Errors
    /// As [`Self::set_up`].
    pub async fn set_up_with_images(
        &self,
        pod: &Pod,
        images: &BTreeMap<String, Image>,
    ) -> Result<(), Vec<VolumeError>> {
        self.volumes.set_up(pod, &self.facts(), images).await
    }

    /// Brings volumes up to date; see [`Volumes::refresh`].
    pub async fn refresh(&self, pod: &Pod) -> Vec<VolumeError> {
        self.volumes.refresh(pod, &self.facts()).await
    }

    /// Forgets what is kept in memory for pods that are gone. To be called every minute, after volumes are brought up to date.
    pub fn forget_unused(&self) {
        let contents = &self.volumes.contents;
        contents.config_maps.forget_unused();
        contents.secrets.forget_unused();
        contents.tokens.forget_expired();
    }

    /// How much is kept in memory.
    #[must_use]
    pub fn kept(&self) -> CacheSizes {
        let contents = &self.volumes.contents;
        CacheSizes {
            objects: contents.config_maps.len() + contents.secrets.len(),
            tokens: contents.tokens.len(),
            locks: self.volumes.locks.len(),
        }
    }

    /// Removes everything that a pod has on disk.
    ///
    /// # Errors
    /// See [`Volumes::tear_down`].
    pub async fn tear_down(&self, uid: &str) -> io::Result<()> {
        self.volumes.tear_down(uid).await
    }

    /// UIDs of pods that have something on disk and are not known.
    ///
    /// # Errors
    /// See [`Volumes::orphans`].
    pub fn orphans(&self, known: &BTreeSet<String>) -> io::Result<Vec<String>> {
        self.volumes.orphans(known)
    }

    /// Describes a container, after its volumes were set up and its sandbox made. Config maps and secrets are read, and files that
    /// it needs are written.
    ///
    /// # Errors
    /// See [`container_spec`].
    pub async fn container(
        &self,
        pod: &Pod,
        name: &str,
        attempt: u32,
        image: &Image,
        live: &StartFacts,
    ) -> Result<ContainerSpec, SpecError> {
        let view = PodView::new(pod)?;
        let container = view.container(name)?;
        let (config_maps, secrets) = referenced(&container);
        let config_maps = look_up(&self.volumes.contents.config_maps, view.namespace, config_maps).await;
        let secrets = look_up(&self.volumes.contents.secrets, view.namespace, secrets).await;
        let volumes = self.volumes.paths(pod)?;
        let (pod, name, image, live) = (pod.clone(), name.to_owned(), image.clone(), live.clone());
        let (facts, path) = (self.facts(), self.volumes.pod_path(view.uid));
        let busy = self.volumes.locks.lock(view.uid).await;
        let described = busy.spawn(move || {
            let files = write_files(&pod, &name, attempt, &facts, &live.pod_ips, &path)?;
            let inputs = ContainerInputs {
                facts: &facts,
                config_maps: &config_maps,
                secrets: &secrets,
                services: &live.services,
                volumes: &volumes,
                pod_ips: &live.pod_ips,
                cdi_devices: &live.cdi_devices,
                files: &files,
                disk: &PodDisk { path },
            };
            container_spec(&pod, &name, attempt, &image, &inputs)
        });
        described.await.unwrap_or_else(|error| Err(SpecError::create(error.to_string())))
    }

    /// The termination message of a container: from its file, or, when the pod wants that and the container failed, from the end of its log.
    #[must_use]
    pub fn read_termination_message(
        &self,
        pod: &Pod,
        name: &str,
        attempt: u32,
        failed: bool,
        log: &Path,
    ) -> Option<String> {
        let view = PodView::new(pod).ok()?;
        let container = view.container(name).ok()?;
        let file = termination_log(&self.volumes.pod_path(view.uid), name, attempt);
        let written = match termination_message(&file) {
            Ok(written) => written,
            Err(error) => return Some(format!("Error on reading termination log: {error}")),
        };
        let by_log = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        match written {
            Some(written) => Some(written),
            None if failed && by_log => match last_output(log) {
                Ok(output) => Some(output).filter(|output| !output.is_empty()),
                Err(error) => Some(format!("Error on reading termination message from logs: {error}")),
            },
            None => None,
        }
    }
}

/// The disk as a pod may use it.
#[derive(Debug)]
struct PodDisk {
    /// The pod's own directory.
    path: PathBuf,
}

impl Disk for PodDisk {
    fn image_user(&self, image: &Image, user: &str) -> Result<ImageUser, String> {
        image_user::find(image, user)
    }

    fn sub_path(&self, part: SubPath<'_>) -> Result<PathBuf, String> {
        let SubPath { volume, volume_path, path, container, index } = part;
        if !names::is_label(volume) || !names::is_label(container) {
            return Err(format!("{volume:?} or {container:?} cannot name a directory"));
        }
        let pod = Dir::open_path(&self.path).map_err(|error| error.to_string())?;
        let place = [volume, container, &index.to_string()];
        sub_path::bind(volume_path, path, &pod, &self.path, place).map_err(|error| error.to_string())
    }

    fn read(&self, volume: &Path, path: &str) -> Result<String, String> {
        sub_path::read(volume, path, ENV_FILE_BYTES_MAX).map_err(|error| error.to_string())
    }
}

/// Names of config maps and of secrets that the variables of a container come from.
fn referenced(container: &Container) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut config_maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for source in container.env_from.iter().flatten() {
        config_maps.extend(source.config_map_ref.iter().map(|from| from.name.clone()));
        secrets.extend(source.secret_ref.iter().map(|from| from.name.clone()));
    }
    for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        let EnvVarSource { config_map_key_ref, secret_key_ref, .. } = source;
        config_maps.extend(config_map_key_ref.iter().map(|from| from.name.clone()));
        secrets.extend(secret_key_ref.iter().map(|from| from.name.clone()));
    }
    (config_maps, secrets)
}

async fn look_up<T: CachedObject>(cache: &Cache<T>, namespace: &str, names: BTreeSet<String>) -> Lookup<T> {
    let mut found = Lookup::new();
    for name in names {
        match cache.get(namespace, &name, AGE_MAX_NEW).await {
            Ok(Some(object)) => drop(found.insert(name, Ok(object))),
            Ok(None) => {}
            Err(error) => drop(found.insert(name, Err(error))),
        }
    }
    found
}

fn termination_log(pod: &Path, container: &str, attempt: u32) -> PathBuf {
    pod.join("containers").join(container).join(format!("{attempt}.termination"))
}

/// Writes what every container finds in `/etc`, and the file for its last words.
fn write_files(
    pod: &Pod,
    name: &str,
    attempt: u32,
    facts: &NodeFacts,
    pod_ips: &[String],
    path: &Path,
) -> Result<PodFiles, SpecError> {
    let view = PodView::new(pod)?;
    let failed = |error: io::Error| SpecError::create(format!("write the files of the pod: {error}"));
    let pods = path.parent().unwrap_or(path);
    let dir = Dir::open_path(pods).and_then(|pods| pods.make(view.uid, 0o750)).map_err(failed)?;
    let mut files = PodFiles::default();
    if let Some(text) = hosts_file(pod, facts, pod_ips)? {
        dir.write_in_place("etc-hosts", text.as_bytes(), FILE_MODE).map_err(failed)?;
        files.hosts = Some(path.join("etc-hosts"));
    }
    let hostname = if view.is_host_network() {
        facts.node_name.clone()
    } else {
        hostname::for_kernel(&view, &hostname::of_pod(&view, &facts.cluster_domain)?)?
    };
    dir.write_in_place("etc-hostname", format!("{hostname}\n").as_bytes(), FILE_MODE).map_err(failed)?;
    files.hostname = Some(path.join("etc-hostname"));
    let (resolver, _notes) = pod_resolver(pod, facts)?;
    dir.write_in_place("etc-resolv.conf", resolver.text().as_bytes(), FILE_MODE).map_err(failed)?;
    files.resolver = Some(path.join("etc-resolv.conf"));
    let container = view.container(name)?;
    if container.termination_message_path.as_ref().is_some_and(|path| !path.is_empty()) {
        let of_container = dir.make_all(&format!("containers/{name}"), 0o750).map_err(failed)?;
        let file = format!("{attempt}.termination");
        // A container that is there already may have said something.
        match of_container.write_new(&file, b"", TERMINATION_LOG_MODE, None, None) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        files.termination_log = Some(termination_log(path, name, attempt));
    }
    Ok(files)
}
