//! Files in which containers read what their devices are: one for each request of a claim, mounted by CDI.
//!
//! The format is Kubernetes' `metadata.resource.k8s.io`: the same object once for each version, the newest first. A reader
//! takes the first that it knows.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use k8s_openapi::api::resource::v1::{DeviceAttribute, NetworkDeviceData};
use lazaret_cdi::{ContainerEdits, Device as CdiDevice, Mount, Spec, SpecDirectory, WriteError};
use lazaret_model::validate_dns_label;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::warn;

use crate::{Claim, ClaimRef, PreparedDevice};

/// In the driver's data directory.
const HOST_DIRECTORY: &str = "dra-device-metadata";
/// In a container.
const CONTAINER_DIRECTORY: &str = "/var/run/kubernetes.io/dra-device-attributes";
/// The class of the CDI devices that mount the files.
const CLASS: &str = "metadata";
/// On a claim that was made from a template: how the pod calls it.
const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
/// Of one device. The API allows no more in a slice.
const ATTRIBUTES_MAX: usize = 32;
/// A larger file is not read. 512 devices with 32 attributes each stay below.
const FILE_BYTES_MAX: u64 = 16 << 20;
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Metadata of a device that containers can read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMetadata {
    /// By qualified name, as in a slice; at most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, DeviceAttribute>,
    /// Of a network device. Often known only once the pod's sandbox is there:
    /// [`Running::update_metadata`](crate::Running::update_metadata).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<NetworkDeviceData>,
}

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataVersion {
    /// Of Kubernetes 1.37.
    V1beta1,
    /// Of Kubernetes 1.36.
    V1alpha1,
}

impl MetadataVersion {
    fn api_version(self) -> &'static str {
        match self {
            Self::V1beta1 => "metadata.resource.k8s.io/v1beta1",
            Self::V1alpha1 => "metadata.resource.k8s.io/v1alpha1",
        }
    }
}

/// Why a file was not written, read or removed.
#[derive(Debug, Error)]
pub enum MetadataError {
    /// [`Kit::device_metadata`](crate::Kit::device_metadata) is off.
    #[error("device metadata is not enabled")]
    Off,
    /// The request is not prepared, so nothing mounts its file.
    #[error("request {0:?} is not prepared")]
    NotPrepared(String),
    /// The name of a request is not one.
    #[error("request {0:?} is not a valid name")]
    Request(String),
    /// A device has more attributes than the format allows.
    #[error("device {0} has more than {ATTRIBUTES_MAX} attributes")]
    Attributes(String),
    /// The file differs from the one that was written.
    #[error("{path}: {why}")]
    Form {
        /// Which file.
        path: PathBuf,
        /// How it differs.
        why: String,
    },
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The CDI file cannot be written.
    #[error(transparent)]
    Cdi(#[from] WriteError),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    kind: String,
    api_version: String,
    metadata: Meta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod_claim_name: Option<String>,
    #[serde(default)]
    requests: Vec<Request>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
    generation: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Request {
    name: String,
    #[serde(default)]
    devices: Vec<DocumentDevice>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct DocumentDevice {
    driver: String,
    pool: String,
    name: String,
    #[serde(flatten)]
    metadata: DeviceMetadata,
}

/// Writes the files of one driver.
#[derive(Debug)]
pub(crate) struct MetadataFiles {
    driver: String,
    directory: PathBuf,
    cdi: SpecDirectory,
    versions: Vec<MetadataVersion>,
}

impl MetadataFiles {
    pub(crate) fn new(driver: &str, data: &Path, cdi: &Path, mut versions: Vec<MetadataVersion>) -> Self {
        versions.sort_unstable();
        versions.dedup();
        let directory = data.join(HOST_DIRECTORY);
        Self { driver: driver.to_owned(), directory, cdi: SpecDirectory::new(cdi), versions }
    }

    /// Writes the files of a claim that was prepared, and adds their CDI names to the first device of each request. A
    /// file that cannot be written is missing in the container; the pod starts without it.
    pub(crate) fn write_claim(&self, claim: &Claim, devices: &mut [PreparedDevice]) {
        let mut requests: Vec<String> =
            devices.iter().flat_map(|device| device.requests.iter().cloned()).collect();
        requests.sort_unstable();
        requests.dedup();
        for request in &requests {
            match self.write_request(claim, request, devices) {
                Ok(id) => {
                    let first = devices.iter_mut().find(|device| device.requests.contains(request));
                    first.into_iter().for_each(|device| device.cdi_ids.push(id.clone()));
                }
                Err(error) => {
                    warn!(claim = claim.id.name, namespace = claim.id.namespace, request, %error, "write device metadata");
                }
            }
        }
    }

    fn write_request(
        &self,
        claim: &Claim,
        request: &str,
        devices: &[PreparedDevice],
    ) -> Result<String, MetadataError> {
        let (id, base) = (&claim.id, checked_base(request)?);
        let annotations = claim.object.metadata.annotations.as_ref();
        let pod_claim_name = annotations.and_then(|annotations| annotations.get(POD_CLAIM_NAME)).cloned();
        let path = self.host_file(id, base);
        // A file of an earlier claim of the same name is none of this claim.
        let before = read(&path).ok().flatten().filter(|before| before.metadata.uid == id.uid);
        let document = self.document(id, before.as_ref(), pod_claim_name.clone(), request, devices)?;
        if before.as_ref() != Some(&document) {
            self.put(&path, &document)?;
        }
        let device = format!("{}_{base}", id.uid);
        let mount = Mount {
            host_path: path.to_string_lossy().into_owned(),
            container_path: self.container_file(id, pod_claim_name.as_deref(), base),
            options: vec!["ro".into(), "bind".into()],
            ..Mount::default()
        };
        let edits = ContainerEdits { mounts: vec![mount], ..ContainerEdits::default() };
        let kind = format!("{}/{CLASS}", self.driver);
        let spec = Spec::new(&*kind, vec![CdiDevice::new(&*device, edits)]);
        self.cdi.write(&format!("{}{base}", self.cdi_prefix(&id.uid)), &spec)?;
        Ok(format!("{kind}={device}"))
    }

    /// Writes one request's file anew, under the next generation.
    pub(crate) fn update(
        &self,
        id: &ClaimRef,
        request: &str,
        devices: &[PreparedDevice],
    ) -> Result<(), MetadataError> {
        let path = self.host_file(id, checked_base(request)?);
        let before = read(&path)?.filter(|before| before.metadata.uid == id.uid);
        let before = before.ok_or_else(|| MetadataError::NotPrepared(request.to_owned()))?;
        let document = self.document(id, Some(&before), before.pod_claim_name.clone(), request, devices)?;
        self.put(&path, &document)
    }

    /// Removes all that was written for a claim. Nothing there is a success.
    pub(crate) fn remove_claim(&self, id: &ClaimRef) -> Result<(), MetadataError> {
        // The classic protocol may not know the name of a claim that is gone.
        if !id.name.is_empty() {
            let folder = self.claim_directory(id);
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&folder, error)),
                Ok(()) | Err(_) => {}
            }
        }
        let prefix = self.cdi_prefix(&id.uid);
        let files = match fs::read_dir(self.cdi.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            files => files.map_err(|error| failed(self.cdi.path(), error))?,
        };
        for file in files {
            let file = file.map_err(|error| failed(self.cdi.path(), error))?;
            let name = file.file_name().to_string_lossy().into_owned();
            if let Some(stem) = name.strip_suffix(".json").filter(|stem| stem.starts_with(&prefix)) {
                self.cdi.remove(stem)?;
            }
        }
        Ok(())
    }

    /// The content of a file. Its generation is that of the file before it, or the next one if the content differs.
    fn document(
        &self,
        id: &ClaimRef,
        before: Option<&Document>,
        pod_claim_name: Option<String>,
        request: &str,
        devices: &[PreparedDevice],
    ) -> Result<Document, MetadataError> {
        let of_request = devices.iter().filter(|device| device.requests.iter().any(|name| name == request));
        let mut listed = Vec::new();
        for device in of_request {
            let metadata = device.metadata.clone().unwrap_or_default();
            if metadata.attributes.len() > ATTRIBUTES_MAX {
                return Err(MetadataError::Attributes(device.device.clone()));
            }
            let (driver, pool, name) = (self.driver.clone(), device.pool.clone(), device.device.clone());
            listed.push(DocumentDevice { driver, pool, name, metadata });
        }
        let newest = self.versions.first().copied().unwrap_or(MetadataVersion::V1beta1);
        let mut document = Document {
            kind: "DeviceMetadata".into(),
            api_version: newest.api_version().into(),
            metadata: Meta {
                name: id.name.clone(),
                namespace: id.namespace.clone(),
                uid: id.uid.clone(),
                generation: before.map_or(1, |before| before.metadata.generation),
            },
            pod_claim_name,
            requests: vec![Request { name: request.to_owned(), devices: listed }],
        };
        if before.is_some_and(|before| *before != document) {
            document.metadata.generation = document.metadata.generation.saturating_add(1);
        }
        Ok(document)
    }

    fn put(&self, path: &Path, document: &Document) -> Result<(), MetadataError> {
        let mut text = Vec::new();
        for version in &self.versions {
            let document = Document { api_version: version.api_version().into(), ..document.clone() };
            let one = serde_json::to_vec_pretty(&document).map_err(|error| failed(path, error.into()))?;
            text.extend_from_slice(&one);
            text.push(b'\n');
        }
        let folder = path.parent().unwrap_or(&self.directory);
        fs::create_dir_all(folder)
            .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(DIRECTORY_MODE)))
            .map_err(|error| failed(folder, error))?;
        replace(path, &text).map_err(|error| failed(path, error))
    }

    fn claim_directory(&self, id: &ClaimRef) -> PathBuf {
        self.directory.join(format!("{}_{}", id.namespace, id.name))
    }

    fn host_file(&self, id: &ClaimRef, request: &str) -> PathBuf {
        self.claim_directory(id).join(request).join("metadata.json")
    }

    fn container_file(&self, id: &ClaimRef, pod_claim_name: Option<&str>, request: &str) -> String {
        let file = format!("{request}/{}-metadata.json", self.driver);
        match pod_claim_name.filter(|name| !name.is_empty()) {
            Some(name) => format!("{CONTAINER_DIRECTORY}/resourceclaimtemplates/{name}/{file}"),
            None => format!("{CONTAINER_DIRECTORY}/resourceclaims/{}/{file}", id.name),
        }
    }

    fn cdi_prefix(&self, uid: &str) -> String {
        format!("{}_{CLASS}_{uid}_", self.driver)
    }
}

/// The request without its subrequest. It becomes a part of paths.
fn checked_base(request: &str) -> Result<&str, MetadataError> {
    let base = request.split('/').next().unwrap_or(request);
    validate_dns_label(base).map(|()| base).map_err(|_| MetadataError::Request(request.to_owned()))
}

/// The first document of a file; none if there is no file.
fn read(path: &Path) -> Result<Option<Document>, MetadataError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed(path, error))?,
    };
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(|error| failed(path, error))?;
    let first = serde_json::Deserializer::from_slice(&text).into_iter().next();
    let first = first.unwrap_or_else(|| Err(serde::de::Error::custom("the file is empty")));
    let form =
        |error: serde_json::Error| MetadataError::Form { path: path.to_owned(), why: error.to_string() };
    first.map(Some).map_err(form)
}

/// Readers see the old file or the new one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    static TEMPORARY: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".metadata.json.{}-{number}.tmp", std::process::id()));
    // Never through a link that another process put there.
    let put = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all(text)?;
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    };
    put().inspect_err(|_| {
        // A temporary file that cannot be removed has no reader, and the first error says more.
        let _ = fs::remove_file(&temporary);
    })
}

fn failed(path: &Path, source: io::Error) -> MetadataError {
    MetadataError::Io { path: path.to_owned(), source }
}
