//! Pods, nodes and objects for tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "each test file uses some of it")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestStatus},
        core::v1::{ConfigMap, Pod, Secret, Service},
    },
    apimachinery::pkg::api::resource::Quantity,
};
use lazaret_containers::ContainerSpec;
use lazaret_images::{Image, ImageConfig};
use lazaret_provision::{
    ContainerInputs, Disk, ImageUser, Lookup, NodeFacts, Objects, PodFiles, Reading, SpecError, SubPath,
    VolumePath, container_spec,
};
use serde_json::{Value, json};

pub(crate) const UID: &str = "0b6a2b62-3b0a-4f1c-9a27-5b5c3a1d2e3f";

/// A pod `web` in the namespace `shop` with this spec.
pub(crate) fn pod(spec: Value) -> Pod {
    pod_with(json!({}), spec)
}

pub(crate) fn pod_with(metadata: Value, spec: Value) -> Pod {
    let mut all = json!({"name": "web", "namespace": "shop", "uid": UID});
    merge(&mut all, metadata);
    serde_json::from_value(json!({"metadata": all, "spec": spec})).unwrap()
}

/// A pod of one container `main`, with these fields besides its name.
pub(crate) fn pod_of(container: Value) -> Pod {
    let mut all = json!({"name": "main", "image": "app:1"});
    merge(&mut all, container);
    pod(json!({"containers": [all]}))
}

pub(crate) fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

pub(crate) fn facts() -> NodeFacts {
    let amount = |name: &str, text: &str| (name.to_owned(), Quantity(text.to_owned()));
    NodeFacts {
        node_name: "node-1".to_owned(),
        host_ips: vec!["10.0.0.1".to_owned(), "fd00::1".to_owned()],
        allocatable: BTreeMap::from([
            amount("cpu", "4"),
            amount("memory", "8Gi"),
            amount("ephemeral-storage", "100Gi"),
        ]),
        memory_capacity: 10 << 30,
        cluster_dns: vec!["10.96.0.10".to_owned()],
        ..NodeFacts::default()
    }
}

pub(crate) fn image() -> Image {
    Image {
        id: "sha256:1234".to_owned(),
        name: "app:1".to_owned(),
        repo_digest: None,
        config: ImageConfig {
            entrypoint: vec!["/entry".to_owned()],
            command: vec!["serve".to_owned()],
            ..ImageConfig::default()
        },
        layers: vec![PathBuf::from("/layers/1")],
        is_opaque: false,
        bytes: 0,
    }
}

/// A disk on which every user is there, and every part of a volume.
#[derive(Debug)]
pub(crate) struct AnyDisk;

impl Disk for AnyDisk {
    fn image_user(&self, _image: &Image, user: &str) -> Result<ImageUser, String> {
        match user {
            "" | "0" | "root" => Ok(ImageUser { home: "/root".to_owned(), ..ImageUser::default() }),
            "app" | "1000" => {
                Ok(ImageUser { uid: 1000, gid: 1001, groups: vec![7, 8], home: "/home/app".to_owned() })
            }
            other => match other.parse() {
                Ok(uid) => Ok(ImageUser { uid, ..ImageUser::default() }),
                Err(_) => Err(format!("unable to find user {other}: no matching entries in passwd file")),
            },
        }
    }

    fn sub_path(&self, part: SubPath<'_>) -> Result<PathBuf, String> {
        Ok(part.volume_path.join(part.path))
    }

    fn read(&self, _volume: &Path, path: &str) -> Result<String, String> {
        match path {
            "env" => Ok("# settings\nA='one'\n  B='two\nlines' # end\nEMPTY= 'x'\n".to_owned()),
            "broken" => Ok("A = 'one'\n".to_owned()),
            _ => Err("not found".to_owned()),
        }
    }
}

/// The input of a container in a test.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) facts: NodeFacts,
    pub(crate) config_maps: Lookup<ConfigMap>,
    pub(crate) secrets: Lookup<Secret>,
    pub(crate) services: Vec<Service>,
    pub(crate) volumes: BTreeMap<String, VolumePath>,
    pub(crate) pod_ips: Vec<String>,
    pub(crate) files: PodFiles,
    pub(crate) image: Image,
}

impl Default for World {
    fn default() -> Self {
        Self {
            facts: facts(),
            config_maps: Lookup::new(),
            secrets: Lookup::new(),
            services: Vec::new(),
            volumes: BTreeMap::new(),
            pod_ips: vec!["10.1.0.5".to_owned()],
            files: PodFiles::default(),
            image: image(),
        }
    }
}

impl World {
    pub(crate) fn describe(&self, pod: &Pod, container: &str) -> Result<ContainerSpec, SpecError> {
        let given = ContainerInputs {
            facts: &self.facts,
            config_maps: &self.config_maps,
            secrets: &self.secrets,
            services: &self.services,
            volumes: &self.volumes,
            pod_ips: &self.pod_ips,
            cdi_devices: &[],
            files: &self.files,
            disk: &AnyDisk,
        };
        container_spec(pod, container, 0, &self.image, &given)
    }

    /// The variables of a container, without those that every container has.
    pub(crate) fn env(&self, pod: &Pod) -> Result<Vec<String>, SpecError> {
        let spec = self.describe(pod, "main")?;
        let common = ["HOSTNAME=", "PATH=", "HOME="];
        Ok(spec.env.into_iter().filter(|line| !common.iter().any(|name| line.starts_with(name))).collect())
    }

    pub(crate) fn with_config_map(mut self, name: &str, data: &[(&str, &str)]) -> Self {
        self.config_maps.insert(name.to_owned(), Ok(Arc::new(config_map(data))));
        self
    }

    pub(crate) fn with_secret(mut self, name: &str, data: &[(&str, &[u8])]) -> Self {
        self.secrets.insert(name.to_owned(), Ok(Arc::new(secret(data))));
        self
    }

    pub(crate) fn with_volume(mut self, name: &str, path: &str, is_read_only: bool) -> Self {
        self.volumes.insert(name.to_owned(), VolumePath { path: path.into(), is_read_only });
        self
    }
}

pub(crate) fn config_map(data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ConfigMap { data: Some(data.collect()), ..ConfigMap::default() }
}

pub(crate) fn secret(data: &[(&str, &[u8])]) -> Secret {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString((*value).to_vec())));
    Secret { data: Some(data.collect()), ..Secret::default() }
}

/// Objects in memory, with a count of reads.
#[derive(Debug, Default)]
pub(crate) struct MemoryObjects {
    pub(crate) config_maps: Mutex<BTreeMap<String, ConfigMap>>,
    pub(crate) secrets: Mutex<BTreeMap<String, Secret>>,
    pub(crate) reads: AtomicUsize,
    pub(crate) tokens: AtomicUsize,
    /// The server's error, if it fails.
    pub(crate) broken: Mutex<Option<String>>,
}

impl MemoryObjects {
    pub(crate) fn put_config_map(&self, name: &str, data: &[(&str, &str)]) {
        self.config_maps.lock().unwrap().insert(name.to_owned(), config_map(data));
    }

    pub(crate) fn put_secret(&self, name: &str, data: &[(&str, &[u8])]) {
        self.secrets.lock().unwrap().insert(name.to_owned(), secret(data));
    }

    pub(crate) fn set_broken(&self, how: Option<&str>) {
        *self.broken.lock().unwrap() = how.map(str::to_owned);
    }

    fn check(&self) -> Result<(), String> {
        self.broken.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

impl Objects for MemoryObjects {
    fn config_map<'a>(&'a self, _namespace: &'a str, name: &'a str) -> Reading<'a, Option<ConfigMap>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Ordering::SeqCst);
            // Others come meanwhile.
            tokio::task::yield_now().await;
            self.check()?;
            Ok(self.config_maps.lock().unwrap().get(name).cloned())
        })
    }

    fn secret<'a>(&'a self, _namespace: &'a str, name: &'a str) -> Reading<'a, Option<Secret>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.check()?;
            Ok(self.secrets.lock().unwrap().get(name).cloned())
        })
    }

    fn token<'a>(
        &'a self,
        namespace: &'a str,
        account: &'a str,
        mut request: TokenRequest,
    ) -> Reading<'a, TokenRequest> {
        Box::pin(async move {
            self.check()?;
            let count = self.tokens.fetch_add(1, Ordering::SeqCst);
            let spec = request.spec.clone().unwrap();
            let bound = spec.bound_object_ref.unwrap();
            let audience = spec.audiences.unwrap_or_default().join("+");
            let token = format!(
                "{namespace}/{account}/{}/{}/{audience}/{count}",
                bound.name.unwrap(),
                bound.uid.unwrap()
            );
            request.status = Some(TokenRequestStatus { token: Some(token), ..TokenRequestStatus::default() });
            Ok(request)
        })
    }
}
