//! The command line of `lazaret bench`.

use std::path::PathBuf;

/// Measure a control plane: how fast it places and evicts pods, answers requests and sends watch events.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Workload to measure
    #[arg(value_enum, default_value_t = Benchmark::Evict)]
    pub(crate) what: Benchmark,
    /// Measure this cluster [default: a lazaret started for the run, with a durable store]
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Processes that are the cluster, when they run on this machine: their processor time and memory are printed. May be repeated
    #[arg(long, value_name = "PROCESS")]
    pub(crate) pid: Vec<u32>,
    /// Simulated nodes
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = lazaret_hollow::parse_node_count)]
    pub(crate) nodes: usize,
    /// Devices of each node
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = lazaret_hollow::parse_device_count)]
    pub(crate) devices: usize,
    /// Pods, each with a claim of one device
    #[arg(long, value_name = "COUNT", default_value_t = 2_000)]
    pub(crate) pods: usize,
    /// Claims of each pod, each for one device
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) claims_per_pod: usize,
    /// An expression by which every claim selects its device
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cel: Option<String>,
    /// Percentage of pods that tolerate every taint, and must stay
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) tolerate: u32,
    /// Rules that are there beforehand and mean devices that are not
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) rules: usize,
    /// A second: pods made (schedule, classic, mixed), requests (api), signals (signals), evictions that the rule allows (evict; needs resource.k8s.io/v1alpha3); 0: as fast as it goes
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) rate: u32,
    /// How long each load lasts (api, mixed) or at most is waited for something to move
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Requests of the load under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    pub(crate) clients: usize,
    /// Watchers of every write (watch)
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub(crate) watchers: usize,
    /// Objects in a store that is started with them (start)
    #[arg(long, value_name = "COUNT", default_value_t = 150_000)]
    pub(crate) objects: usize,
    /// Directories of the node that should be as full afterwards as before: agent's root, cgroups, CDI files (churn). May be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) observe: Vec<PathBuf>,
    /// The node whose pods are measured (node, churn) [default: the only one that is ready]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// The image of its pods, which has a shell (node, churn)
    #[arg(long, value_name = "IMAGE", default_value = "busybox")]
    pub(crate) image: String,
    /// Give pods devices of this class, and taint them (node, churn)
    #[arg(long, value_name = "NAME")]
    pub(crate) device_class: Option<String>,
    /// Run a workload of Kubernetes' scheduler_perf instead, by name; `list` lists them
    #[arg(long, value_name = "TEST/WORKLOAD", conflicts_with_all = ["curve", "compare"])]
    pub(crate) workload: Option<String>,
    /// Repeat the measurement over sizes
    #[arg(long, value_enum, value_name = "OF", conflicts_with = "compare")]
    pub(crate) curve: Option<Axis>,
    /// The sizes [default: nodes 100 to 5000, pods 1000 to 20000, rules 1 to 1000]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', requires = "curve")]
    pub(crate) points: Vec<usize>,
    /// Measure nothing: print what the second of two runs is to the first, from what `-o json` wrote of them
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    pub(crate) compare: Vec<PathBuf>,
    /// Measure nothing: take away what earlier runs left in the cluster of --kubeconfig
    #[arg(long, requires = "kubeconfig")]
    pub(crate) clean: bool,
    /// Where an embedded server keeps its data: durable writes are as fast as this disk [default: the system's temporary folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

const EXAMPLES: &str = "Examples:
  lazaret bench schedule --nodes 500 --devices 8 --pods 2000
  lazaret bench classic --nodes 200 --pods 1000
  lazaret bench evict --pods 300 --rate 50 -o json > evict.json
  lazaret bench taint-latency --nodes 50 --pods 200
  lazaret bench signal-latency --nodes 200
  lazaret bench signals --nodes 12500 --devices 8 --seconds 30
  lazaret bench api --seconds 5 --clients 64
  lazaret bench hostile --clients 200 --nodes 50 --pods 300 --rate 20 --seconds 20
  lazaret bench node --kubeconfig ~/.kube/config --node node-1 --image localhost/busybox:1 --pods 100 --pid 1234
  lazaret bench churn --kubeconfig ~/.kube/config --image localhost/busybox:1 --pods 20 --seconds 3600 --observe /var/lib/kubelet
  lazaret bench schedule --kubeconfig ~/.kube/config --nodes 100 --pods 500 --pid 1234 --pid 1235
  lazaret bench --workload SchedulingWithResourceClaimTemplate/5000pods_500nodes
  lazaret bench schedule --curve nodes -o svg > nodes.svg
  lazaret bench --compare before.json after.json";

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Benchmark {
    /// Pods with claims, from created to bound and to running
    Schedule,
    /// The same with classic claims, which a driver beside the control plane allocates in a millisecond each
    Classic,
    /// The same, then one rule that evicts all of them
    Evict,
    /// The same, then node by node, from the taint in a slice to the deletion of its pods
    TaintLatency,
    /// Node by node, from what a driver reports in a slice to the taint that a health policy sets
    SignalLatency,
    /// Processor time and memory of the controller of health policies for --nodes times --devices devices and --rate signals a second (1000), alone on one core
    Signals,
    /// Creates, reads and lists, by many clients at once
    Api,
    /// One write, seen by many watchers
    Watch,
    /// Pods that come and go, rules that come and go, and reads, all at once
    Mixed,
    /// One tenant attacks a lazaret of this build with --clients clients; what an administrator, health checks and evictions notice of it
    Hostile,
    /// Pods that really run on one node of --kubeconfig, with a shell in --image: from bound to running and from deleted to gone, one by one and --pods at once; what --pid uses meanwhile at rest; with --device-class, from a rule to the end of the process
    Node,
    /// Pods of many kinds, --pods at a time, that come and go on one node of --kubeconfig for --seconds; what is left of them in the end
    Churn,
    /// A lazaret of this build: from start to ready, and its memory, empty and with many objects
    Start,
}

/// The quantity that grows along a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Axis {
    /// --nodes
    Nodes,
    /// --pods
    Pods,
    /// --rules
    Rules,
}

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs, everything
    Json,
    /// A curve as a picture
    Svg,
}

impl Benchmark {
    /// As on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Classic => "classic",
            Self::Evict => "evict",
            Self::TaintLatency => "taint-latency",
            Self::SignalLatency => "signal-latency",
            Self::Signals => "signals",
            Self::Api => "api",
            Self::Watch => "watch",
            Self::Mixed => "mixed",
            Self::Hostile => "hostile",
            Self::Node => "node",
            Self::Churn => "churn",
            Self::Start => "start",
        }
    }

    /// Whether pods must find nodes and devices.
    pub(crate) fn needs_fleet(self) -> bool {
        match self {
            Self::Schedule
            | Self::Classic
            | Self::Evict
            | Self::TaintLatency
            | Self::SignalLatency
            | Self::Mixed
            | Self::Hostile => true,
            Self::Signals | Self::Api | Self::Watch | Self::Node | Self::Churn | Self::Start => false,
        }
    }
}

impl Axis {
    /// As on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::Rules => "rules",
        }
    }
}

impl Args {
    /// Pods made a second: the rate means something else where pods are made beforehand.
    pub(crate) fn rate_of_pods(&self) -> u32 {
        match self.what {
            Benchmark::Schedule | Benchmark::Classic | Benchmark::Mixed => self.rate,
            Benchmark::Evict
            | Benchmark::TaintLatency
            | Benchmark::SignalLatency
            | Benchmark::Signals
            | Benchmark::Api
            | Benchmark::Watch
            | Benchmark::Hostile
            | Benchmark::Node
            | Benchmark::Churn
            | Benchmark::Start => 0,
        }
    }
}
