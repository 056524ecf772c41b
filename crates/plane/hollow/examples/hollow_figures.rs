//! The cost of a fleet: the server, the nodes and the driver in one process.
//!
//! `cargo run --release -p lazaret-hollow --example hollow_figures -- 5000 20000`: the number of nodes, the number of pods.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "prints figures")]

use std::time::{Duration, Instant};

use lazaret_hollow::{HollowOptions, start};
use lazaret_runtime::{Call, Client, Hub, Inbox, Metrics, NODES, News, PODS, SLICES};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::Store;
use serde_json::json;
use tokio::sync::watch;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().unwrap());
    let (nodes, pods) = (arguments.next().unwrap_or(1_000), arguments.next().unwrap_or(4_000));
    let options = ServerOptions::default();
    let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
    server.bootstrap().await.unwrap();
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    let client = Client::direct(server.answering(User { name: "hollow".into(), groups, ..User::default() }));
    let hub = Hub::new(client.clone(), Metrics::default());
    let (_stop, stopped) = watch::channel(false);

    let begin = Mark::now();
    let _tasks = start(&hub, HollowOptions { nodes, ..HollowOptions::default() }, &stopped).unwrap();
    count(&mut hub.listen(&[SLICES]), nodes, "").await;
    begin.print(&format!("{nodes} nodes registered, {nodes} slices published"));

    let begin = Mark::now();
    for number in 0..pods {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{number}")},
            "spec": {"nodeName": format!("node-{}", number % nodes + 1), "containers": [{"name": "c", "image": "none"}]},
        });
        client.send(Call::create(&PODS, "default", pod.to_string())).await.unwrap();
    }
    count(&mut hub.listen(&[PODS]), pods, "\"phase\":\"Running\"").await;
    begin.print(&format!("{pods} pods created and running"));

    let begin = Mark::now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    begin.print(&format!("ten seconds of rest: {nodes} leases renewed"));
    drop(hub.listen(&[NODES]));
}

/// Waits until this many objects contain the text.
async fn count(inbox: &mut Inbox, wanted: usize, text: &str) {
    let mut there = std::collections::BTreeSet::new();
    while there.len() < wanted {
        let objects = match inbox.next().await {
            News::Listed(_, objects, _) => objects,
            News::Set(_, object) => vec![object],
            News::Gone(..) | News::Barred(..) => Vec::new(),
        };
        for object in objects {
            if text.is_empty() || String::from_utf8_lossy(object.json()).contains(text) {
                there.insert(object.key.clone());
            }
        }
    }
}

/// Where time and memory stood.
struct Mark {
    at: Instant,
    cpu: f64,
}

impl Mark {
    fn now() -> Self {
        Self { at: Instant::now(), cpu: cpu_seconds() }
    }

    fn print(&self, what: &str) {
        let (wall, cpu) = (self.at.elapsed().as_secs_f64(), cpu_seconds() - self.cpu);
        println!("{what}: {wall:.2} s, {cpu:.2} s of CPU, {} MiB resident", resident_mib());
    }
}

/// User and system time of this process, in hundredths.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1_024
}
