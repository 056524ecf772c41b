//! The tasks beside the loop: watches, the Node, logs, images, volumes, and the node's own API.

use std::{sync::Arc, time::Duration};

use kube::Api;
use lazaret_images::Thresholds;
use lazaret_runtime::Metrics;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::{info, warn};

use super::{
    PodInput, Runner, logs, object::Object, options::Ready, pod_reader, pressure, serve, service_reader,
    shared::Shared,
};
use crate::{events::NewEvent, follow};

/// Inputs in the queue. A sender waits when it is full.
const NEWS_MAX: usize = 256;
/// How often images that nothing uses are looked for, and kept content of volumes is brought up to date, as kubelet has them.
const IMAGES_EVERY: Duration = Duration::from_secs(300);
const VOLUMES_EVERY: Duration = Duration::from_secs(60);
/// Pause after a failed list of the runtime.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// Starts all tasks that send inputs. The runtime is listed before the API, so that no claim that a container uses
/// is unprepared because its pod is gone.
pub(crate) async fn start(
    ready: Ready,
    metrics: Metrics,
    notes: mpsc::Sender<NewEvent>,
    stop: watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> (Runner, mpsc::Receiver<PodInput>) {
    let Ready { machine, shared, options } = ready;
    let (news, heard) = mpsc::channel(NEWS_MAX);
    adopt(&shared).await;
    let (client, node) = (shared.client.clone(), shared.node.clone());
    let of_node = format!("spec.nodeName={node}");
    tasks.spawn(follow::follow(Api::all(client.clone()), of_node, pod_reader(), news.clone()));
    tasks.spawn(follow::follow(Api::all(client), String::new(), service_reader(), news.clone()));
    tasks.spawn(listen(Arc::clone(&shared), news.clone()));
    tasks.spawn(logs::keep_small(Arc::clone(&shared)));
    tasks.spawn(collect_images(Arc::clone(&shared)));
    tasks.spawn(refresh_volumes(Arc::clone(&shared)));
    let port = options.listener.local_addr().map_or(0, |address| address.port());
    let (pods_max, taints) = (options.pods_max, options.taints);
    let allocatable = shared.machine.allocatable(&options.thresholds);
    let object = Object { shared: Arc::clone(&shared), port, pods_max, taints, allocatable };
    tasks.spawn(object.keep());
    tasks.spawn(serve::serve(Arc::clone(&shared), options.listener, options.authority, metrics, stop));
    let runner = Runner { machine, shared, news, notes, tasks: JoinSet::new(), is_shutting_down: false };
    (runner, heard)
}

/// Finds pods that an earlier agent started. A pod that only the runtime knows holds its claims until its containers have stopped.
async fn adopt(shared: &Shared) {
    let states = loop {
        match shared.runtime.list().await {
            Ok(states) => break states,
            Err(error) => warn!(%error, "ask the runtime what it has"),
        }
        tokio::time::sleep(LIST_AGAIN).await;
    };
    let mut table = shared.table();
    for state in &states {
        info!(pod = state.spec.name, namespace = state.spec.namespace, "found");
        table.entry(&state.spec.pod_uid).is_gone = true;
    }
    table.note(states);
}

/// The runtime says when something ended.
async fn listen(shared: Arc<Shared>, news: mpsc::Sender<PodInput>) {
    let mut changes = shared.runtime.changes();
    while changes.changed().await.is_ok() {
        if news.send(PodInput::Changed).await.is_err() {
            return;
        }
    }
}

async fn collect_images(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(IMAGES_EVERY).await;
        pressure::collect_images(&shared, Thresholds::default()).await;
    }
}

async fn refresh_volumes(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(VOLUMES_EVERY).await;
        let pods: Vec<_> = {
            let table = shared.table();
            let running = table.entries.values().filter(|entry| !entry.is_gone && entry.sandbox.is_some());
            running.filter_map(|entry| entry.pod.clone()).collect()
        };
        for pod in pods {
            for error in shared.provision.refresh(&pod).await {
                warn!(%error, pod = pod.metadata.name, "bring a volume up to date");
            }
        }
        shared.provision.forget_unused();
    }
}
