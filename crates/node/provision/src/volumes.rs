//! The volumes of pods on disk: `ROOT/pods/UID/volumes/kubernetes.io~TYPE/NAME`, as kubelet has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::{
    api::core::v1::{EmptyDirVolumeSource, Pod, Volume},
    apimachinery::pkg::api::resource::Quantity,
};
use lazaret_images::Image;

use crate::{
    NodeFacts, Objects, SpecError, VolumeError, VolumePath,
    amount::{self, units},
    cache::{AGE_MAX_NEW, AGE_MAX_REFRESH},
    clock,
    contents::{Collector, Contents},
    disk::{
        dir::Dir,
        host_path, mount_table,
        place::{Place, is_image_note},
        sub_path, tree,
    },
    kind::{Kind, kind},
    limits,
    locks::{Locks, PodGuard},
    names,
    pod::PodView,
};

/// Directories of pods that are checked for unknown ones.
const PODS_MAX: usize = 65_536;
/// Volumes of one pod. Many of them are mounts, of which the kernel has a limited number.
///
/// DEVIATION(volume-limits): kubelet counts neither volumes nor bytes.
const VOLUMES_MAX: usize = 512;
/// Where volumes that are images are, below the directory of a pod.
const IMAGE_VOLUMES: &str = "volumes/kubernetes.io~image";
/// The id of an image is a digest.
const IMAGE_ID_BYTES_MAX: u64 = 256;
/// Content from the API for one pod: much of it is in the node's memory.
const POD_BYTES_MAX: usize = 64 << 20;

/// The volumes of pods. It may be called for many pods at a time; what is done for one pod is done one after the other.
#[derive(Debug)]
pub struct Volumes {
    root: PathBuf,
    pub(crate) contents: Contents,
    pub(crate) locks: Locks,
}

impl Volumes {
    /// Keeps volumes below `root`, which is made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(root: &Path, objects: Arc<dyn Objects>) -> io::Result<Self> {
        std::fs::create_dir_all(root.join("pods"))?;
        // As the kernel names it in its table of mounts.
        let root = root.canonicalize()?;
        Ok(Self { root, contents: Contents::new(objects), locks: Locks::default() })
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
        if let Some(volume) = used(&view).nth(VOLUMES_MAX) {
            let message = format!("a pod has at most {VOLUMES_MAX} volumes on this node");
            return Err(vec![VolumeError::new(&volume.name, message)]);
        }
        let busy = self.locks.lock(view.uid).await;
        let collector = Collector { contents: &self.contents, view, facts, age_max: AGE_MAX_NEW };
        let (mut errors, mut bytes_left) = (Vec::new(), POD_BYTES_MAX);
        for volume in used(&view) {
            let place = self.place(&view, volume);
            let result = match kind(volume) {
                Kind::HostPath(source) => {
                    let (path, kind) = (source.path.clone(), source.type_.clone());
                    busy.run_text(move || host_path::check(&path, kind.as_deref())).await
                }
                Kind::EmptyDir(source) => empty_dir(place, source, &view, facts, &busy).await,
                Kind::Image(source) => match images.get(&volume.name) {
                    Some(image) if image.is_opaque => {
                        Err("image volumes are not supported with a CRI runtime on this node".to_owned())
                    }
                    Some(image) => {
                        let (id, layers) = (image.id.clone(), image.layers.clone());
                        busy.run_text(move || place.image(&id, &layers)).await
                    }
                    None => {
                        let name = source.reference.as_deref().unwrap_or_default();
                        Err(format!("image {name:?} is not there"))
                    }
                },
                Kind::Unsupported(what) => Err(format!("{what} volumes are not supported on this node")),
                Kind::ConfigMap(_) | Kind::Secret(_) | Kind::Downward(_) | Kind::Projected(_) => {
                    write(place, volume, Purpose::New, &collector, &mut bytes_left, &busy).await
                }
            };
            errors.extend(result.err().map(|message| VolumeError::new(&volume.name, message)));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Brings config maps, secrets, fields and tokens up to date in volumes that are set up. To be called every minute, and when the
    /// pod has changed.
    ///
    /// Returns the errors of reads and writes; the content before them stays.
    pub async fn refresh(&self, pod: &Pod, facts: &NodeFacts) -> Vec<VolumeError> {
        let Ok(view) = PodView::new(pod) else { return Vec::new() };
        let busy = self.locks.lock(view.uid).await;
        let collector = Collector { contents: &self.contents, view, facts, age_max: AGE_MAX_REFRESH };
        let (mut errors, mut bytes_left) = (Vec::new(), POD_BYTES_MAX);
        let written = used(&view).filter(|volume| kind(volume).is_written_as_one());
        for volume in written.take(VOLUMES_MAX) {
            let place = self.place(&view, volume);
            let result = write(place, volume, Purpose::Refresh, &collector, &mut bytes_left, &busy).await;
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
        let busy = self.locks.lock(uid).await;
        let (pods, path, name) = (self.root.join("pods"), self.pod_path(uid), uid.to_owned());
        busy.run(move || remove_pod(&pods, &path, &name)).await?;
        self.contents.tokens.forget(uid);
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

    /// Ids of the images that volumes of pods are made of, as they were mounted.
    ///
    /// # Errors
    /// When a directory of a pod cannot be read.
    pub fn images(&self) -> io::Result<BTreeSet<String>> {
        let pods = Dir::open_path(&self.root.join("pods"))?;
        let mut ids = BTreeSet::new();
        for uid in pods.names(PODS_MAX)?.into_iter().filter_map(|name| name.into_string().ok()) {
            let below = format!("{uid}/{IMAGE_VOLUMES}");
            let volumes = match pods.open(&below) {
                Ok(volumes) => volumes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let names =
                volumes.names(2 * VOLUMES_MAX)?.into_iter().filter_map(|name| name.into_string().ok());
            for note in names.filter(|name| is_image_note(name)) {
                let path = self.root.join("pods").join(&below);
                ids.insert(sub_path::read(&path, &note, IMAGE_ID_BYTES_MAX)?);
            }
        }
        Ok(ids)
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
}

/// The reason for writing a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A pod that is to start.
    New,
    /// A pod that runs.
    Refresh,
}

/// Writes a volume of which the content comes from the API.
async fn write(
    place: Place,
    volume: &Volume,
    purpose: Purpose,
    collector: &Collector<'_>,
    bytes_left: &mut usize,
    busy: &PodGuard,
) -> Result<(), String> {
    let payload = collector.collect(volume).await?;
    *bytes_left = bytes_left
        .checked_sub(payload.bytes())
        .ok_or_else(|| format!("the volumes of the pod would have more than {POD_BYTES_MAX} bytes"))?;
    let nested = nested(&collector.view, &volume.name)?;
    let (stamp, in_memory) = (clock::stamp(), kind(volume).is_kept_in_memory());
    let work = move || {
        let dir = match purpose {
            Purpose::New => place.make_written(in_memory),
            Purpose::Refresh => place.open(),
        };
        match dir {
            // It was not set up, or has been torn down.
            Err(error) if purpose == Purpose::Refresh && error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(dir) => place.write(&dir, &payload, &nested, &stamp),
        }
    };
    busy.run_text(work).await
}

async fn empty_dir(
    place: Place,
    source: &EmptyDirVolumeSource,
    view: &PodView<'_>,
    facts: &NodeFacts,
    busy: &PodGuard,
) -> Result<(), String> {
    let memory = match source.medium.as_deref().unwrap_or_default() {
        "" => None,
        "Memory" => Some(memory_size(view, source.size_limit.as_ref(), facts)),
        other => return Err(format!("storage medium {other:?} is not supported on this node")),
    };
    let mode = source.mode;
    busy.run_text(move || place.empty_dir(mode, memory)).await
}

/// How large an empty directory in memory may become: what it says, what the pod may use, what the node has; the least of them.
fn memory_size(view: &PodView<'_>, limit: Option<&Quantity>, facts: &NodeFacts) -> u64 {
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
    mount_table::unmount_volumes(&pod)?;
    let name = CString::new(uid).map_err(|_| io::ErrorKind::InvalidInput)?;
    match tree::remove(&pods, &name) {
        // Parts of volumes are mounted as well, or something unknown.
        Err(error) if matches!(error.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy) => {
            mount_table::unmount_below(&pod, path)?;
            tree::remove(&pods, &name)
        }
        removed => removed,
    }
}

fn directory(kind: &Kind<'_>, name: &str) -> String {
    format!("volumes/kubernetes.io~{}/{name}", kind.directory())
}

/// The images that volumes of a pod are made of: the name of the volume, the image, and its pull policy.
#[must_use]
pub fn image_volumes(pod: &Pod) -> Vec<(&str, &str, Option<&str>)> {
    let Ok(view) = PodView::new(pod) else { return Vec::new() };
    let images = used(&view).filter_map(|volume| match kind(volume) {
        Kind::Image(source) => {
            let image = source.reference.as_deref().unwrap_or_default();
            Some((volume.name.as_str(), image, source.pull_policy.as_deref()))
        }
        Kind::EmptyDir(_)
        | Kind::HostPath(_)
        | Kind::ConfigMap(_)
        | Kind::Secret(_)
        | Kind::Downward(_)
        | Kind::Projected(_)
        | Kind::Unsupported(_) => None,
    });
    images.take(VOLUMES_MAX).collect()
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

/// Directories that have to be in a volume, because something is mounted in it and they cannot be made later.
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
