//! Flags of a node that runs pods, for `lazaret node` and `lazaret up --node`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::{IpAddr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Taint;
use lazaret_agent::{Options, RunOptions, Signal, SoftThreshold, Thresholds, parse_eviction_hard};
use lazaret_containers::{Choice, Options as RuntimeOptions, Runtime, probe};
use lazaret_cri::{Cri, ProbeOptions};
use lazaret_images::{ImageSource, Images, Limits};
use lazaret_model::validate_dns_subdomain;

use crate::node_soft::GracePeriods;

/// Where containerd listens, and kubelet looks for it without a flag.
const CRI_SOCKET: &str = "/run/containerd/containerd.sock";

/// The words after `lazaret node shim`, by which a runtime executes this program again beside a container. It is no command for
/// people, and has to be quick.
pub(crate) fn shim_words() -> Option<Vec<OsString>> {
    let mut words = std::env::args_os().skip(1);
    let is_shim = words.next()? == "node" && words.next()? == "shim";
    is_shim.then(|| words.collect())
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The name of the Node [default: the host's name]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Container runtime: auto, runc, crun, namespaces, processes or cri
    ///
    /// auto        the first of runc, crun and namespaces that runs a program here; with
    ///             --container-runtime-endpoint, cri
    /// runc, crun  that program, as root: isolation, limits, seccomp, networks by CNI
    /// namespaces  nothing but the kernel, with or without root: mounts, processes, IPC and
    ///             host name are isolated; no limits, no seccomp, no network of the pod
    /// processes   processes of this machine: isolates nothing, and applies neither images
    ///             nor mounts; of a device only its environment
    /// cri         containerd (1.7 or later) or CRI-O (1.28 or later), which also has the
    ///             images
    #[arg(long, value_name = "NAME", default_value = "auto", verbatim_doc_comment)]
    runtime: RuntimeName,
    /// The socket of a CRI runtime, as unix:///PATH [default with --runtime cri: unix:///run/containerd/containerd.sock]
    #[arg(long, value_name = "ENDPOINT", value_parser = parse_endpoint)]
    container_runtime_endpoint: Option<PathBuf>,
    /// Where images are kept [default: below the node's root]
    #[arg(long, value_name = "PATH")]
    image_root: Option<PathBuf>,
    /// Where logs of pods are [default: logs below the node's root]
    #[arg(long, value_name = "PATH")]
    log_root: Option<PathBuf>,
    /// Where drivers put CDI files; may be given several times, the most important one last [default: /etc/cdi and /var/run/cdi]
    #[arg(long, value_name = "PATH")]
    cdi_root: Vec<PathBuf>,
    /// The address of the node [default: the one on the way to the API server]
    #[arg(long, value_name = "IP")]
    node_ip: Option<IpAddr>,
    /// Where logs, exec and the like are served to the API server; 0 takes a free port [default: 10250, with `up` a free one]
    #[arg(long, value_name = "PORT")]
    node_port: Option<u16>,
    /// How many pods the node takes, 1 to 1024
    #[arg(long, value_name = "COUNT", default_value_t = 110, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_pods: u32,
    /// Labels of the Node
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = parse_label)]
    node_labels: Vec<(String, String)>,
    /// Taints that the Node is registered with
    #[arg(long, value_name = "KEY=VALUE:EFFECT,...", value_delimiter = ',', value_parser = parse_taint)]
    register_with_taints: Vec<Taint>,
    /// The addresses of the cluster's DNS servers [default: pods get the node's resolver]
    #[arg(long, value_name = "IP,...", value_delimiter = ',')]
    cluster_dns: Vec<IpAddr>,
    /// The domain of the cluster
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    cluster_domain: String,
    /// With less than this the node is under pressure; a signal that is not named, or has 0, is not watched. Signals:
    /// memory.available, nodefs.available, nodefs.inodesFree, pid.available [default:
    /// memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,pid.available<10%, where a disk with 5Gi free is not short]
    #[arg(long, value_name = "SIGNAL<QUANTITY,...", value_parser = parse_eviction_hard)]
    eviction_hard: Option<Thresholds>,
    /// With less than this for the grace period of its signal, pods are evicted with time to end; written as --eviction-hard
    #[arg(long, value_name = "SIGNAL<QUANTITY,...", value_parser = parse_eviction_hard, requires = "eviction_soft_grace_period")]
    eviction_soft: Option<Thresholds>,
    /// How long a soft threshold has to be crossed before pods go: one for each, memory.available=1m30s for instance
    #[arg(long, value_name = "SIGNAL=DURATION,...", value_parser = GracePeriods::from_str, requires = "eviction_soft")]
    eviction_soft_grace_period: Option<GracePeriods>,
    /// Seconds that a pod has to end at most when it is evicted by a soft threshold
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    eviction_max_pod_grace_period: u32,
    /// How long a condition of pressure stays true after it was seen last, 5m or 1h30m for instance
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    eviction_pressure_transition_period: Duration,
    /// Processes and threads that a pod may have [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pod_max_pids: Option<u64>,
    /// Give containers that ask for no seccomp profile the runtime's own
    #[arg(long)]
    seccomp_default: bool,
    /// Sysctls that pods may set besides the safe ones; a * at the end stands for anything
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    allowed_unsafe_sysctls: Vec<String>,
    /// End all pods of the node when it is stopped, instead of letting them run on
    #[arg(long)]
    pub(crate) stop_pods: bool,
}

impl RunArgs {
    /// The name of the Node.
    pub(crate) fn node_name(&self) -> Result<String> {
        let name = match &self.node_name {
            Some(name) => name.clone(),
            None => std::fs::read_to_string("/proc/sys/kernel/hostname")
                .context("find out the name of this machine: give --node-name")?
                .trim()
                .to_ascii_lowercase(),
        };
        validate_dns_subdomain(&name).map_err(|error| anyhow!("--node-name {name}: {error}"))?;
        Ok(name)
    }

    /// Finds a runtime that works, opens images, and listens.
    pub(crate) async fn options(
        &self,
        options: &Options,
        found_ip: IpAddr,
        port: u16,
        authority: Option<String>,
    ) -> Result<RunOptions> {
        let root = std::path::absolute(&options.root).context("--root")?;
        std::fs::create_dir_all(&root).with_context(|| format!("make {}", root.display()))?;
        let (runtime, images) = self.find_runtime(&root, &options.node).await?;
        let host_ip = self.node_ip.unwrap_or(found_ip);
        let address = SocketAddr::new(host_ip, self.node_port.unwrap_or(port));
        let listener = TcpListener::bind(address)
            .with_context(|| format!("listen on {address}: choose another port with --node-port"))?;
        Ok(RunOptions {
            runtime,
            images,
            host_ip,
            listener,
            authority,
            labels: self.node_labels.iter().cloned().collect::<BTreeMap<_, _>>(),
            taints: self.register_with_taints.clone(),
            pods_max: self.max_pods,
            log_root: self.log_root.clone().unwrap_or_else(|| root.join("logs")),
            cluster_dns: self.cluster_dns.iter().map(ToString::to_string).collect(),
            cluster_domain: self.cluster_domain.clone(),
            thresholds: self.eviction_hard.clone().unwrap_or_default(),
            soft_thresholds: self.soft_thresholds()?,
            soft_grace_max: Duration::from_secs(self.eviction_max_pod_grace_period.into()),
            pressure_transition: self.eviction_pressure_transition_period,
            pod_pids_max: self.pod_max_pids,
            seccomp_default: self.seccomp_default,
            allowed_unsafe_sysctls: self.allowed_unsafe_sysctls.clone(),
        })
    }

    fn soft_thresholds(&self) -> Result<BTreeMap<Signal, SoftThreshold>> {
        match (&self.eviction_soft, &self.eviction_soft_grace_period) {
            (Some(soft), Some(periods)) => periods.of(soft),
            (Some(_), None) | (None, Some(_)) | (None, None) => Ok(BTreeMap::new()),
        }
    }

    /// The directory of CDI files that a driver in this process writes to.
    pub(crate) fn with_cdi_root(mut self, root: PathBuf) -> Self {
        if self.cdi_root.is_empty() {
            self.cdi_root.push(root);
        }
        self
    }

    /// Where such a driver writes.
    pub(crate) fn last_cdi_root(&self) -> Option<&PathBuf> {
        self.cdi_root.last()
    }

    /// The container runtime, and where images are.
    async fn find_runtime(
        &self,
        root: &Path,
        node: &str,
    ) -> Result<(Arc<dyn Runtime>, Arc<dyn ImageSource>)> {
        let mut options = RuntimeOptions::new(root.join("run"));
        if !self.cdi_root.is_empty() {
            options.cdi_directories.clone_from(&self.cdi_root);
        }
        let choice = match (self.runtime, &self.container_runtime_endpoint) {
            (RuntimeName::Cri, endpoint) => {
                let socket = endpoint.clone().unwrap_or_else(|| CRI_SOCKET.into());
                return self.connect(socket, root, node, options.cdi_directories).await;
            }
            (RuntimeName::Local(Choice::Auto), Some(socket)) => {
                return self.connect(socket.clone(), root, node, options.cdi_directories).await;
            }
            (RuntimeName::Local(_), Some(_)) => bail!("--container-runtime-endpoint is for --runtime cri"),
            (RuntimeName::Local(choice), None) => choice,
        };
        let images = self.image_root.clone().unwrap_or_else(|| root.join(lazaret_images::DIRECTORY));
        let images =
            Images::open(&images, Limits::default()).with_context(|| format!("open {}", images.display()))?;
        let runtime = probe(choice, options).await.map_err(|report| {
            anyhow!("{report}. Without isolation, --runtime processes runs containers as processes of this machine")
        })?;
        Ok((runtime, images.into()))
    }

    async fn connect(
        &self,
        socket: PathBuf,
        root: &Path,
        node: &str,
        cdi_directories: Vec<PathBuf>,
    ) -> Result<(Arc<dyn Runtime>, Arc<dyn ImageSource>)> {
        if self.image_root.is_some() {
            bail!("--image-root: with --runtime cri the runtime has the images");
        }
        let what = || format!("use the CRI runtime at {}", socket.display());
        let cri = Cri::connect(&socket, node).await.with_context(what)?;
        let cri = Arc::new(cri.with_pod_groups().await);
        let probe = ProbeOptions { cdi_directories, log_directory: root.join("run/cri-probe") };
        cri.probe(&probe).await.with_context(what)?;
        Ok((Arc::clone(&cri) as _, cri))
    }
}

/// Which runtime is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuntimeName {
    /// One of this program's own.
    Local(Choice),
    /// One behind a socket.
    Cri,
}

impl FromStr for RuntimeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "cri" {
            return Ok(Self::Cri);
        }
        text.parse().map(Self::Local).map_err(|error| format!("{error}, cri"))
    }
}

/// `unix:///PATH`, as kubelet has it, or a path.
fn parse_endpoint(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text.strip_prefix("unix://").unwrap_or(text));
    if path.is_absolute() { Ok(path.to_owned()) } else { Err("write it as unix:///PATH".to_owned()) }
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(duration).map_err(|_| "write it as 90s, 10m or 1h30m".to_owned())
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `KEY=VALUE:EFFECT`, or without a value.
fn parse_taint(text: &str) -> Result<Taint, String> {
    let read = || -> Result<Taint> {
        let (what, effect) = text.rsplit_once(':').context("write it as KEY=VALUE:EFFECT")?;
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            bail!("{effect} is none of NoSchedule, PreferNoSchedule, NoExecute");
        }
        let (key, value) = what.split_once('=').map_or((what, None), |(key, value)| (key, Some(value)));
        Ok(Taint {
            key: key.into(),
            value: value.map(str::to_owned),
            effect: effect.into(),
            time_added: None,
        })
    };
    read().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_kubelet_reads_them() {
        assert_eq!(parse_endpoint("unix:///run/c.sock"), Ok("/run/c.sock".into()));
        assert_eq!(parse_endpoint("/run/c.sock"), Ok("/run/c.sock".into()));
        for wrong in ["", "run/c.sock", "unix://run/c.sock", "tcp://127.0.0.1:1"] {
            assert!(parse_endpoint(wrong).is_err(), "{wrong}");
        }
        assert_eq!("cri".parse(), Ok(RuntimeName::Cri));
        assert_eq!("crun".parse(), Ok(RuntimeName::Local(Choice::Crun)));
        assert!("docker".parse::<RuntimeName>().is_err());
    }

    #[test]
    fn taints_are_read_as_kubelet_reads_them() {
        let taint = parse_taint("example.com/gpu=yes:NoSchedule").unwrap();
        assert_eq!(
            (taint.key.as_str(), taint.value.as_deref(), taint.effect.as_str()),
            ("example.com/gpu", Some("yes"), "NoSchedule")
        );
        assert_eq!(parse_taint("a:NoExecute").unwrap().value, None);
        assert!(parse_taint("a").is_err() && parse_taint("a:Never").is_err());
    }
}
