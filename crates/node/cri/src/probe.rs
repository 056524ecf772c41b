//! Whether pods can be run by this runtime: by what it says, and by running one.

use std::path::{Path, PathBuf};

use lazaret_containers::{ContainerSpec, Key, Namespaces, RootFs, Runtime, RuntimeError, SandboxSpec};
use serde::Deserialize;

use crate::{Cri, convert, proto, runtime::QUERY_LIMIT};

/// Images that a container is asked for with, one after another. Some cannot be run here, of another architecture for example.
const IMAGES_MAX: usize = 4;

/// The paths for a probe of a runtime.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Where drivers of this node write their CDI files. The runtime has to read one of them.
    pub cdi_directories: Vec<PathBuf>,
    /// Where the log of a sandbox may be that is removed again.
    pub log_directory: PathBuf,
}

impl Cri {
    /// Makes sure that the runtime runs pods and applies the names of devices.
    ///
    /// A runtime that shows its configuration is held to it. A runtime that has an image is asked for a container with a device that no file
    /// describes, and has to refuse; without an image that is asked with the first container that needs a device.
    pub async fn probe(&self, options: &ProbeOptions) -> Result<(), RuntimeError> {
        let request = proto::StatusRequest { verbose: true };
        let status: proto::StatusResponse = self.connection.call(proto::STATUS, request, QUERY_LIMIT).await?;
        check(&status, &options.cdi_directories)?;
        let sandbox = SandboxSpec {
            pod_uid: format!("lazaret-probe-{}", std::process::id()),
            namespace: "default".to_owned(),
            name: "lazaret-probe".to_owned(),
            namespaces: Namespaces { host_network: true, ..Namespaces::default() },
            log_directory: options.log_directory.clone(),
            ..SandboxSpec::default()
        };
        let made = self.run_sandbox(sandbox.clone()).await?;
        let asked = self.ask_for_absent_device(&made.id, &sandbox).await;
        // Also after a failure, which is the more important one.
        let removed = self.remove_sandbox(&made.id).await;
        asked.and(removed)
    }

    async fn ask_for_absent_device(&self, id: &str, sandbox: &SandboxSpec) -> Result<(), RuntimeError> {
        let request = proto::ListImagesRequest { filter: None };
        let found: proto::ListImagesResponse =
            self.connection.call(proto::LIST_IMAGES, request, QUERY_LIMIT).await?;
        for image in found.images.into_iter().take(IMAGES_MAX) {
            let spec = container(sandbox, image.id);
            let config = convert::container_config(sandbox, &spec)?;
            match self.must_apply_cdi(id, &config, &self.sandbox_config(sandbox)?).await {
                Ok(()) => return Ok(()),
                Err(error @ RuntimeError::NotPossible(_)) => return Err(error),
                Err(error) => tracing::debug!(%error, "an image says nothing about devices"),
            }
        }
        tracing::info!(
            "whether the runtime applies CDI devices is asked with the first container that has one"
        );
        Ok(())
    }
}

fn container(sandbox: &SandboxSpec, image_id: String) -> ContainerSpec {
    let key = Key { pod_uid: sandbox.pod_uid.clone(), name: "probe".to_owned(), attempt: 0 };
    ContainerSpec {
        working_directory: "/".into(),
        image: image_id.clone(),
        image_id,
        ..ContainerSpec::new(key, RootFs::Layers(Vec::new()), vec!["true".to_owned()])
    }
}

/// The part of containerd's configuration that says what becomes of CDI names. CRI-O shows none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(rename = "enableCDI")]
    enable_cdi: Option<bool>,
    #[serde(rename = "cdiSpecDirs")]
    cdi_spec_dirs: Option<Vec<PathBuf>>,
}

/// Refuses a runtime that is not ready, or says itself that it would not find the devices of this node.
fn check(status: &proto::StatusResponse, cdi_directories: &[PathBuf]) -> Result<(), RuntimeError> {
    let refused = |text: String| Err(RuntimeError::NotPossible(text));
    let conditions = status.status.iter().flat_map(|status| &status.conditions);
    for condition in conditions.filter(|condition| !condition.status) {
        let why = format!("{}: {}", condition.reason, condition.message);
        match condition.r#type.as_str() {
            "RuntimeReady" => return refused(format!("the runtime is not ready: {why}")),
            other => {
                tracing::warn!(condition = other, %why, "the runtime lacks something that pods may need")
            }
        }
    }
    let config = status.info.get("config").and_then(|text| serde_json::from_str::<Config>(text).ok());
    let Config { enable_cdi, cdi_spec_dirs } = config.unwrap_or_default();
    if enable_cdi == Some(false) {
        return refused(
            "the runtime ignores CDI devices: set enable_cdi = true in its configuration".to_owned(),
        );
    }
    let Some(read) = cdi_spec_dirs else { return Ok(()) };
    let is_read = |wanted: &PathBuf| read.iter().any(|read| is_same(read, wanted));
    if cdi_directories.iter().any(is_read) {
        return Ok(());
    }
    let list = |paths: &[PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    refused(format!(
        "the runtime reads CDI files in {}, and drivers of this node write them to {}: set cdi_spec_dirs in its configuration, or --cdi-root here",
        list(&read),
        list(cdi_directories)
    ))
}

/// `/var/run` is a link to `/run`.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}
