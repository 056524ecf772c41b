//! The documents of an image: index, manifest, configuration. Unknown fields are ignored, as the specification asks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Digest, ImageConfig,
    error::{Result, invalid},
};

/// Media types of what a registry may answer for a name.
pub(crate) const MANIFEST_TYPES: &[&str] = &[
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
pub(crate) const OCI_MANIFEST: &str = MANIFEST_TYPES[0];
pub(crate) const OCI_INDEX: &str = MANIFEST_TYPES[2];
pub(crate) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// A reference to content.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// Where content is that no registry has: never followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) urls: Vec<String>,
}

impl Descriptor {
    pub(crate) fn digest(&self) -> Result<Digest> {
        Digest::parse(&self.digest)
            .ok_or_else(|| invalid(format!("{:?} is no SHA-256 digest", shortened(&self.digest))))
    }
}

/// For which machines an image is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) variant: Option<String>,
}

impl Platform {
    /// This machine's.
    pub(crate) fn own() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "aarch64" => ("arm64", Some("v8")),
            "x86" => ("386", None),
            "arm" => ("arm", Some("v7")),
            "powerpc64" if cfg!(target_endian = "little") => ("ppc64le", None),
            other => (other, None),
        };
        Self {
            architecture: architecture.to_owned(),
            os: "linux".to_owned(),
            variant: variant.map(str::to_owned),
        }
    }

    fn runs(&self, image: &Platform) -> bool {
        let variant_fits = match (&self.variant, &image.variant) {
            (Some(own), Some(other)) => other <= own,
            _ => true,
        };
        self.os == image.os && self.architecture == image.architecture && variant_fits
    }
}

/// A manifest, or an index of manifests.
#[derive(Clone, Debug)]
pub(crate) enum Document {
    Index(Vec<Descriptor>),
    Manifest(Box<Manifest>),
}

/// An image: its configuration and its layers, the lowest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Loose {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

impl Document {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let loose: Loose = serde_json::from_slice(bytes)
            .map_err(|error| invalid(format!("the manifest is not valid: {error}")))?;
        match loose {
            Loose { schema_version: 1, .. } => {
                Err(invalid("the manifest is of version 1, which is not supported"))
            }
            Loose { manifests: Some(manifests), config: None, layers: None, .. } => {
                Ok(Self::Index(manifests))
            }
            Loose {
                manifests: None,
                config: Some(config),
                layers: Some(layers),
                schema_version,
                media_type,
            } => Ok(Self::Manifest(Box::new(Manifest { schema_version, media_type, config, layers }))),
            _ => Err(invalid("the manifest is neither one of an image nor an index")),
        }
    }
}

/// The manifest of an index that this machine runs.
pub(crate) fn choose(manifests: &[Descriptor]) -> Result<&Descriptor> {
    let own = Platform::own();
    let is_image = |descriptor: &&Descriptor| {
        descriptor.media_type.is_empty() || MANIFEST_TYPES.contains(&descriptor.media_type.as_str())
    };
    let candidates = || manifests.iter().filter(is_image);
    let fits =
        |descriptor: &&Descriptor| descriptor.platform.as_ref().is_some_and(|platform| own.runs(platform));
    // The exact variant first, then any that runs here, then one that names no platform.
    candidates()
        .find(|descriptor| descriptor.platform.as_ref().is_some_and(|platform| *platform == own))
        .or_else(|| candidates().find(fits))
        .or_else(|| candidates().find(|descriptor| descriptor.platform.is_none()))
        .ok_or_else(|| invalid(format!("there is no image for {}/{}", own.os, own.architecture)))
}

/// The configuration of an image.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Configuration {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    config: Option<Process>,
    pub(crate) rootfs: RootFs,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RootFs {
    #[serde(default, rename = "type")]
    pub(crate) kind: String,
    pub(crate) diff_ids: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Process {
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    working_dir: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    stop_signal: Option<String>,
}

impl Configuration {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| invalid(format!("the configuration of the image is not valid: {error}")))
    }

    pub(crate) fn new(config: ImageConfig, diff_ids: Vec<String>) -> Self {
        let platform = Platform::own();
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        Self {
            architecture: platform.architecture,
            os: platform.os,
            config: Some(Process {
                entrypoint: some(config.entrypoint),
                cmd: some(config.command),
                env: some(config.env),
                working_dir: config.working_directory,
                user: config.user,
                stop_signal: config.stop_signal,
            }),
            rootfs: RootFs { kind: "layers".to_owned(), diff_ids },
        }
    }

    pub(crate) fn diff_ids(&self) -> Result<Vec<Digest>> {
        let read = |text: &String| {
            Digest::parse(text).ok_or_else(|| invalid(format!("{:?} is no SHA-256 digest", shortened(text))))
        };
        self.rootfs.diff_ids.iter().map(read).collect()
    }

    pub(crate) fn image_config(self) -> ImageConfig {
        let process = self.config.unwrap_or_default();
        ImageConfig {
            entrypoint: process.entrypoint.unwrap_or_default(),
            command: process.cmd.unwrap_or_default(),
            env: process.env.unwrap_or_default(),
            working_directory: process.working_dir,
            user: process.user,
            stop_signal: process.stop_signal.filter(|signal| !signal.is_empty()),
        }
    }
}

impl ImageConfig {
    /// Reads the configuration of an image in the OCI form. Missing or invalid fields are left out.
    pub fn from_oci(configuration: &serde_json::Value) -> Self {
        let process = configuration.get("config").cloned().unwrap_or_default();
        let config = serde_json::from_value(process).ok();
        Configuration { config, ..Configuration::default() }.image_config()
    }
}

/// Each layer with all below it has a name of its own: what unpacking makes depends on them.
pub(crate) fn chain(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::new();
    for diff_id in diff_ids {
        let next = match chain.last() {
            None => diff_id.clone(),
            Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
        };
        chain.push(next);
    }
    chain
}

fn shortened(text: &str) -> String {
    text.chars().take(128).collect()
}
