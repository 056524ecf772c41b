//! The volumes of pods on disk: `ROOT/pods/UID/volumes/kubernetes.io~TYPE/NAME`, as kubelet has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    io,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ProjectedVolumeSource, Secret, Volume, VolumeProjection};
use lazaret_images::Image;
use rustix::mount::{MountFlags, mount};

use crate::{
    NodeFacts, Objects, SpecError, VolumeError, VolumePath,
    amount::{self, units},
    cache::{AGE_MAX_NEW, AGE_MAX_REFRESH, Cache},
    clock,
    disk::{
        atomic,
        dir::Dir,
        host_path, image_volume, mount_table,
        payload::{Payload, VOLUME_BYTES_MAX},
        tree,
    },
    identity,
    kind::{Kind, kind},
    limits, names,
    pod::PodView,
    tokens::Tokens,
};

/// Directories of pods that are looked through for ones that nobody knows.
const PODS_MAX: usize = 65_536;
const DIRECTORY_MODE: u32 = 0o750;
/// Everybody may use a volume, unless its group is set.
const VOLUME_MODE: u32 = 0o777;
/// What a group gets of a volume that can be written to: all of it, and what is made in it is the group's.
const GROUP_WRITES: u32 = 0o2770;
/// What a group gets of a volume that it only reads.
const GROUP_READS: u32 = 0o2550;
/// A volume of secrets has two versions while it changes.
const SECRET_BYTES_MAX: u64 = 3 * VOLUME_BYTES_MAX as u64;

/// The volumes of pods. It may be called for many pods at a time; what is done for one pod is done one after the other.
#[derive(Debug)]
pub struct Volumes {
    root: PathBuf,
    pub(crate) config_maps: Cache<ConfigMap>,
    pub(crate) secrets: Cache<Secret>,
    tokens: Tokens,
    busy: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Volumes {
    /// Keeps volumes below `root`, which is made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(root: &Path, objects: Arc<dyn Objects>) -> io::Result<Self> {
        std::fs::create_dir_all(root.join("pods"))?;
        Ok(Self {
            // As the kernel names it in its table of mounts.
            root: root.canonicalize()?,
            config_maps: Cache::new(Arc::clone(&objects)),
            secrets: Cache::new(Arc::clone(&objects)),
            tokens: Tokens::new(objects),
            busy: Mutex::default(),
        })
    }

    /// The directory of a pod. Its UID has been checked.
    pub(crate) fn pod_path(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    /// Where the volumes of a pod are once they are set up.
    ///
    /// # Errors
    /// When the pod cannot have a directory.
    pub fn paths(&self, pod: &Pod) -> Result<BTreeMap<String, VolumePath>, SpecError> {
        let view = PodView::new(pod)?;
        let mut paths = BTreeMap::new();
        for volume in used(&view) {
            let path = match kind(volume) {
                Kind::HostPath(source) => PathBuf::from(&source.path),
                Kind::Unsupported(_) => continue,
                known @ (Kind::EmptyDir(_)
                | Kind::ConfigMap(_)
                | Kind::Secret(_)
                | Kind::Downward(_)
                | Kind::Projected(_)
                | Kind::Image(_)) => self.pod_path(view.uid).join(directory(&known, &volume.name)),
            };
            let is_read_only = kind(volume).is_read_only();
            paths.insert(volume.name.clone(), VolumePath { path, is_read_only });
        }
        Ok(paths)
    }

    /// Sets up every volume that a container of the pod uses. It may be called again, and then completes what is missing.
    /// `images` are those that volumes of the pod are made of, by the name of the volume.
    ///
    /// # Errors
    /// One for each volume that is not there.
    pub async fn set_up(
        &self,
        pod: &Pod,
        facts: &NodeFacts,
        images: &BTreeMap<String, Image>,
    ) -> Result<(), Vec<VolumeError>> {
        let view = PodView::new(pod).map_err(|error| vec![VolumeError::new("", error.message)])?;
        let _busy = self.lock(view.uid).await;
        let mut errors = Vec::new();
        for volume in used(&view) {
            let result = match kind(volume) {
                Kind::HostPath(source) => {
                    let (path, kind) = (source.path.clone(), source.type_.clone());
                    blocking(move || host_path::check(&path, kind.as_deref())).await
                }
                Kind::EmptyDir(source) => {
                    let size = memory_size(&view, source.size_limit.as_ref(), facts);
                    let is_memory = match source.medium.as_deref().unwrap_or_default() {
                        "" => Ok(false),
                        "Memory" => Ok(true),
                        other => Err(format!("storage medium {other:?} is not supported on this node")),
                    };
                    match is_memory {
                        Err(error) => Err(error),
                        Ok(is_memory) => {
                            let place = self.place(&view, volume);
                            let mode = source.mode;
                            blocking(move || empty_dir(&place, mode, is_memory.then_some(size))).await
                        }
                    }
                }
                Kind::Image(source) => match images.get(&volume.name) {
                    Some(image) => {
                        let (place, layers) = (self.place(&view, volume), image.layers.clone());
                        blocking(move || image_volume(&place, &layers)).await
                    }
                    None => {
                        let name = source.reference.as_deref().unwrap_or_default();
                        Err(format!("image {name:?} is not there"))
                    }
                },
                Kind::Unsupported(what) => Err(format!("{what} volumes are not supported on this node")),
                Kind::ConfigMap(_) | Kind::Secret(_) | Kind::Downward(_) | Kind::Projected(_) => {
                    self.write(&view, volume, facts, Purpose::New).await
                }
            };
            errors.extend(result.err().map(|message| VolumeError::new(&volume.name, message)));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Brings config maps, secrets, fields and tokens up to date in volumes that are set up. To be called every minute, and when the
    /// pod has changed.
    ///
    /// Answers what could not be read or written; what was there before is still there.
    pub async fn refresh(&self, pod: &Pod, facts: &NodeFacts) -> Vec<VolumeError> {
        let Ok(view) = PodView::new(pod) else { return Vec::new() };
        let _busy = self.lock(view.uid).await;
        let mut errors = Vec::new();
        for volume in used(&view).filter(|volume| kind(volume).is_written_as_one()) {
            let result = self.write(&view, volume, facts, Purpose::Refresh).await;
            errors.extend(result.err().map(|message| VolumeError::new(&volume.name, message)));
        }
        errors
    }

    /// Removes everything that a pod has on disk, and unmounts what is mounted there. Nothing outside is touched. It is no error when
    /// there is nothing.
    ///
    /// # Errors
    /// When something cannot be removed. It may be called again.
    pub async fn tear_down(&self, uid: &str) -> io::Result<()> {
        if !names::is_uid(uid) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{uid:?} is no UID")));
        }
        let _busy = self.lock(uid).await;
        let (pods, path, name) = (self.root.join("pods"), self.pod_path(uid), uid.to_owned());
        blocking_io(move || remove_pod(&pods, &path, &name)).await?;
        self.tokens.forget(uid);
        Ok(())
    }

    /// UIDs of pods that have something on disk and are not known.
    ///
    /// # Errors
    /// When the directory of pods cannot be read.
    pub fn orphans(&self, known: &BTreeSet<String>) -> io::Result<Vec<String>> {
        let names = Dir::open_path(&self.root.join("pods"))?.names(PODS_MAX)?;
        let uids = names.into_iter().filter_map(|name| name.into_string().ok());
        Ok(uids.filter(|uid| names::is_uid(uid) && !known.contains(uid)).collect())
    }

    /// Waits until nothing else is done for a pod.
    async fn lock(&self, uid: &str) -> Busy<'_> {
        let lock = {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(busy.entry(uid.to_owned()).or_default())
        };
        Busy { volumes: self, uid: uid.to_owned(), guard: Some(lock.lock_owned().await) }
    }

    fn place(&self, view: &PodView<'_>, volume: &Volume) -> Place {
        let group = view.security().and_then(|pod| pod.fs_group);
        Place {
            pods: self.root.join("pods"),
            uid: view.uid.to_owned(),
            volume: directory(&kind(volume), &volume.name),
            group: group.and_then(|group| u32::try_from(group).ok()),
        }
    }

    /// Writes a volume of which the content comes from the API.
    async fn write(
        &self,
        view: &PodView<'_>,
        volume: &Volume,
        facts: &NodeFacts,
        purpose: Purpose,
    ) -> Result<(), String> {
        let payload = self.payload(view, volume, facts, purpose).await?;
        let place = self.place(view, volume);
        let nested = nested(view, &volume.name)?;
        let (stamp, in_memory) = (clock::stamp(), kind(volume).is_kept_in_memory());
        blocking(move || {
            let text = |error: io::Error| error.to_string();
            let Some(dir) = written(&place, purpose, in_memory).map_err(text)? else { return Ok(()) };
            for path in &nested {
                dir.make_all(path, 0o755)
                    .map_err(|error| format!("unable to create nested volume mountpoints: {error}"))?;
            }
            atomic::write(&dir, &payload, place.group, &stamp).map(drop).map_err(text)
        })
        .await
    }

    async fn payload(
        &self,
        view: &PodView<'_>,
        volume: &Volume,
        facts: &NodeFacts,
        purpose: Purpose,
    ) -> Result<Payload, String> {
        let mut payload = Payload::default();
        match kind(volume) {
            Kind::ConfigMap(source) => {
                let optional = source.optional.unwrap_or(false);
                let object = self.config_map(view, &source.name, optional, purpose).await?;
                payload.add_config_map(&object, source.items.as_deref(), source.default_mode, optional)?;
            }
            Kind::Secret(source) => {
                let optional = source.optional.unwrap_or(false);
                let name = source.secret_name.as_deref().unwrap_or_default();
                let object = self.secret(view, name, optional, purpose).await?;
                payload.add_secret(&object, source.items.as_deref(), source.default_mode, optional)?;
            }
            Kind::Downward(source) => {
                payload.add_downward(source.items.as_deref(), source.default_mode, view, facts)?;
            }
            Kind::Projected(source) => {
                for part in source.sources.iter().flatten() {
                    self.add_projection(&mut payload, part, source, view, facts, purpose).await?;
                }
            }
            Kind::EmptyDir(_) | Kind::HostPath(_) | Kind::Image(_) | Kind::Unsupported(_) => {}
        }
        Ok(payload)
    }

    async fn add_projection(
        &self,
        payload: &mut Payload,
        part: &VolumeProjection,
        source: &ProjectedVolumeSource,
        view: &PodView<'_>,
        facts: &NodeFacts,
        purpose: Purpose,
    ) -> Result<(), String> {
        let mode = source.default_mode;
        if let Some(part) = &part.secret {
            let optional = part.optional.unwrap_or(false);
            let object = self.secret(view, &part.name, optional, purpose).await?;
            payload.add_secret(&object, part.items.as_deref(), mode, optional)
        } else if let Some(part) = &part.config_map {
            let optional = part.optional.unwrap_or(false);
            let object = self.config_map(view, &part.name, optional, purpose).await?;
            payload.add_config_map(&object, part.items.as_deref(), mode, optional)
        } else if let Some(part) = &part.downward_api {
            payload.add_downward(part.items.as_deref(), mode, view, facts)
        } else if let Some(part) = &part.service_account_token {
            let token = self.tokens.get(view, part).await?;
            // Only its user may read a token, where there is one user or a group.
            let user = identity::common_user(view);
            let has_group = view.security().is_some_and(|pod| pod.fs_group.is_some());
            let mode = if user.is_some() || has_group { 0o600 } else { mode.unwrap_or(0o644) };
            payload.add(&part.path, token.into_bytes(), mode, user)
        } else if part.cluster_trust_bundle.is_some() {
            Err("clusterTrustBundle projections are not supported on this node".to_owned())
        } else if part.pod_certificate.is_some() {
            Err("podCertificate projections are not supported on this node".to_owned())
        } else {
            Ok(())
        }
    }

    async fn config_map(
        &self,
        view: &PodView<'_>,
        name: &str,
        optional: bool,
        purpose: Purpose,
    ) -> Result<Arc<ConfigMap>, String> {
        match self.config_maps.get(view.namespace, name, purpose.age_max()).await? {
            Some(object) => Ok(object),
            None if optional => Ok(Arc::default()),
            None => Err(format!("configmap {name:?} not found")),
        }
    }

    async fn secret(
        &self,
        view: &PodView<'_>,
        name: &str,
        optional: bool,
        purpose: Purpose,
    ) -> Result<Arc<Secret>, String> {
        match self.secrets.get(view.namespace, name, purpose.age_max()).await? {
            Some(object) => Ok(object),
            None if optional => Ok(Arc::default()),
            None => Err(format!("secret {name:?} not found")),
        }
    }
}

/// Something is done for a pod while this is there.
struct Busy<'a> {
    volumes: &'a Volumes,
    uid: String,
    guard: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut busy = self.volumes.busy.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits for it.
        if busy.get(&self.uid).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            busy.remove(&self.uid);
        }
    }
}

/// What a volume is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A pod that is to start.
    New,
    /// A pod that runs.
    Refresh,
}

impl Purpose {
    pub(crate) fn age_max(self) -> Duration {
        match self {
            Self::New => AGE_MAX_NEW,
            Self::Refresh => AGE_MAX_REFRESH,
        }
    }
}

/// Where a volume is, and whose.
#[derive(Debug)]
struct Place {
    pods: PathBuf,
    uid: String,
    /// Below the pod's directory.
    volume: String,
    group: Option<u32>,
}

impl Place {
    fn open(&self) -> io::Result<Dir> {
        Dir::open_path(&self.pods)?.open(&self.uid)?.open(&self.volume)
    }

    /// Opens the directory, and makes it if need be. `for_group` is what its group gets.
    fn make(&self, for_group: u32, mode: Option<i32>) -> io::Result<Dir> {
        match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let pod = Dir::open_path(&self.pods)?.make(&self.uid, DIRECTORY_MODE)?;
        let (parent, name) = self.volume.rsplit_once('/').unwrap_or(("", &self.volume));
        let parent = pod.make_all(parent, DIRECTORY_MODE)?;
        // It gets its name when it is as it shall be: what is there by that name is complete.
        let new = format!(".{name}.new");
        let dir = parent.make(&new, VOLUME_MODE)?;
        dir.set_owner(None, self.group)?;
        dir.set_mode(self.mode(for_group, mode))?;
        parent.rename(&new, name)?;
        Ok(dir)
    }

    fn mode(&self, for_group: u32, mode: Option<i32>) -> u32 {
        let mode = mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(VOLUME_MODE) & 0o7777;
        if self.group.is_some() { mode | for_group } else { mode }
    }

    /// Mounts memory of this size there, unless it is already; 0 is what the kernel takes for no limit. Answers the directory in it.
    fn mount_memory(&self, bytes: u64, for_group: u32, mode: Option<i32>) -> io::Result<Dir> {
        let dir = self.make(for_group, mode)?;
        if mount_table::is_mounted(&self.pods.join(&self.uid).join(&self.volume))? {
            return self.open();
        }
        let mut options = format!("mode={:o}", self.mode(for_group, mode));
        if bytes > 0 {
            options.push_str(&format!(",size={bytes}"));
        }
        if let Some(group) = self.group {
            options.push_str(&format!(",gid={group}"));
        }
        let options = CString::new(options)?;
        let at = Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string());
        mount("tmpfs", &at, "tmpfs", MountFlags::empty(), options.as_c_str())?;
        self.open()
    }
}

/// Makes an empty directory, in memory when it has a size there.
fn empty_dir(place: &Place, mode: Option<i32>, memory: Option<u64>) -> Result<(), String> {
    match memory {
        None => place.make(GROUP_WRITES, mode).map(drop).map_err(|error| error.to_string()),
        Some(bytes) => place
            .mount_memory(bytes, GROUP_WRITES, mode)
            .map(drop)
            .map_err(|error| format!("mount tmpfs: {error}")),
    }
}

/// Mounts the layers of an image, unless they are mounted already.
fn image_volume(place: &Place, layers: &[PathBuf]) -> Result<(), String> {
    let mounted = || -> io::Result<()> {
        let dir = place.make(0, None)?;
        if mount_table::is_mounted(&place.pods.join(&place.uid).join(&place.volume))? {
            return Ok(());
        }
        image_volume::mount(layers, &dir)
    };
    mounted().map_err(|error| format!("mount the image: {error}"))
}

/// Opens a volume that is written as one, and makes it for a pod that is to start. Secrets are in memory, and never on disk, where this
/// process may mount it.
fn written(place: &Place, purpose: Purpose, in_memory: bool) -> io::Result<Option<Dir>> {
    if purpose == Purpose::Refresh {
        return match place.open() {
            // It was not set up, or has been torn down.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        };
    }
    if !in_memory {
        return place.make(GROUP_READS, None).map(Some);
    }
    match place.mount_memory(SECRET_BYTES_MAX, GROUP_READS, None) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(
                volume = place.volume,
                "secrets are kept on disk: this process may not mount memory"
            );
            place.make(GROUP_READS, None).map(Some)
        }
        mounted => mounted.map(Some),
    }
}

/// How large an empty directory in memory may become: what it says, what the pod may use, what the node has; the least of them.
fn memory_size(
    view: &PodView<'_>,
    limit: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    facts: &NodeFacts,
) -> u64 {
    let node = units(&amount::amount(Some(&facts.allocatable), "memory")).unsigned_abs();
    let pod = limits::of_pod(view, facts).memory.unwrap_or_default();
    let own = limit.map_or(0, |limit| units(&amount::parse(limit)).unsigned_abs());
    [node, pod, own].into_iter().filter(|bytes| *bytes > 0).min().unwrap_or_default()
}

fn remove_pod(pods: &Path, path: &Path, uid: &str) -> io::Result<()> {
    let pods = Dir::open_path(pods)?;
    let pod = match pods.open(uid) {
        Ok(pod) => pod,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    mount_table::unmount_below(&pod, path)?;
    let name = CString::new(uid).map_err(|_| io::ErrorKind::InvalidInput)?;
    tree::remove(&pods, &name)
}

fn directory(kind: &Kind<'_>, name: &str) -> String {
    format!("volumes/kubernetes.io~{}/{name}", kind.directory())
}

/// The volumes that some container uses. Others are not set up, as kubelet does not. A name that cannot be one of a directory is
/// never one that a container uses.
pub(crate) fn used<'a>(view: &PodView<'a>) -> impl Iterator<Item = &'a Volume> + use<'a> {
    let mut wanted = BTreeSet::new();
    for container in view.containers() {
        wanted.extend(container.volume_mounts.iter().flatten().map(|mount| mount.name.clone()));
        wanted.extend(container.volume_devices.iter().flatten().map(|device| device.name.clone()));
        let sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        let files = sources.filter_map(|source| source.file_key_ref.as_ref());
        wanted.extend(files.map(|file| file.volume_name.clone()));
    }
    let volumes = view.spec.volumes.iter().flatten();
    volumes.filter(move |volume| wanted.contains(&volume.name) && names::is_label(&volume.name))
}

/// Directories that have to be in a volume, because something is mounted in it and nobody can make them later.
fn nested(view: &PodView<'_>, name: &str) -> Result<Vec<String>, String> {
    let mut nested = Vec::new();
    for container in view.containers() {
        let mounts = container.volume_mounts.as_deref().unwrap_or_default();
        for outer in mounts.iter().filter(|mount| mount.name == name && mount.sub_path.is_none()) {
            let outer = Path::new("/").join(&outer.mount_path);
            for inner in mounts {
                let inner = Path::new("/").join(&inner.mount_path);
                let Ok(below) = inner.strip_prefix(&outer) else { continue };
                let Some(below) = below.to_str().filter(|below| !below.is_empty()) else { continue };
                nested.push(names::payload_path(below)?);
            }
        }
    }
    nested.sort();
    nested.dedup();
    Ok(nested)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

async fn blocking_io<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
