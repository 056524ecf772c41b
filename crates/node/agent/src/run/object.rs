//! The Node and its Lease.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Taint},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use lazaret_model::REPORTS_UNPREPARED;
use lazaret_pods::{Amounts, CrossedThreshold, PressureKind};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::{facts::Machine, shared::Shared};
use crate::{api_words::api_words, clock};

/// Kubelet's own: a lease is renewed four times while it holds.
const RENEW_EVERY: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
/// A status that says nothing new is written this often.
const STATUS_EVERY: Duration = Duration::from_secs(300);
/// After a failure. A node that is not registered is tried sooner than a lease.
const RETRY: Duration = Duration::from_secs(1);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const LEASES: &str = "kube-node-lease";

/// The Node of this agent.
pub(super) struct Object {
    pub(super) shared: Arc<Shared>,
    pub(super) port: u16,
    pub(super) pods_max: u32,
    pub(super) taints: Vec<Taint>,
    /// The amounts that pods may request.
    pub(super) allocatable: Amounts,
}

/// The pressure conditions that are true.
type Pressure = BTreeMap<PressureKind, CrossedThreshold>;

/// The last status that was written: its pressure, the transition times of its conditions, and when it was written.
#[derive(Default)]
struct Written {
    pressure: Pressure,
    changed_at: BTreeMap<&'static str, String>,
    at: Option<Instant>,
}

impl Object {
    /// Registers the Node, renews its Lease, and keeps its status. Never ends.
    pub(super) async fn keep(self) {
        let mut written = Written::default();
        let mut pressure = self.shared.pressure.subscribe();
        loop {
            let pause = match timeout(CALL_TIMEOUT, self.once(&mut written)).await {
                Ok(Ok(())) => RENEW_EVERY,
                Ok(Err(error)) => {
                    warn!(why = api_words(&error), node = self.shared.node, "keep the Node");
                    RETRY
                }
                Err(_) => {
                    warn!(node = self.shared.node, "keep the Node: no answer from the API");
                    RETRY
                }
            };
            // A condition that changed is written at once.
            let _ = timeout(pause, pressure.changed()).await;
        }
    }

    async fn once(&self, written: &mut Written) -> Result<(), kube::Error> {
        let pressure = self.shared.pressure.borrow().clone();
        let is_due = written.at.is_none_or(|at| at.elapsed() >= STATUS_EVERY);
        if is_due || !pressure.keys().eq(written.pressure.keys()) {
            self.write(written, pressure).await?;
        }
        self.renew().await
    }

    /// Writes the status, and registers the Node when there is none.
    async fn write(&self, written: &mut Written, pressure: Pressure) -> Result<(), kube::Error> {
        let api: Api<Node> = Api::all(self.shared.client.clone());
        let name = &self.shared.node;
        let params = PatchParams::default();
        if written.at.is_none() {
            let patch = json!({"metadata": self.metadata()});
            match api.patch(name, &params, &Patch::Strategic(patch)).await {
                Err(kube::Error::Api(error)) if error.code == 404 => self.register(&api).await?,
                patched => drop(patched?),
            }
        }
        let status = json!({"status": self.status(written, &pressure)});
        match api.patch_status(name, &params, &Patch::Strategic(status)).await {
            // A user deleted it: it is registered anew.
            Err(kube::Error::Api(error)) if error.code == 404 => {
                *written = Written::default();
                return Err(kube::Error::Api(error));
            }
            patched => drop(patched?),
        }
        (written.pressure, written.at) = (pressure, Some(Instant::now()));
        Ok(())
    }

    /// That the node reports is written before it is ready: a pod that is lost at once is waited for.
    fn metadata(&self) -> Value {
        let annotations = json!({REPORTS_UNPREPARED: "true"});
        json!({"name": self.shared.node, "labels": self.shared.labels, "annotations": annotations})
    }

    async fn register(&self, api: &Api<Node>) -> Result<(), kube::Error> {
        let node = json!({
            "metadata": self.metadata(),
            "spec": {"taints": self.taints},
        });
        let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
        match api.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(error)) if error.code == 409 => Ok(()),
            Ok(_) => {
                info!(node = self.shared.node, "registered");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn status(&self, written: &mut Written, pressure: &Pressure) -> Value {
        let now = clock::wall().0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut condition = |kind: &'static str,
                             is_true: bool,
                             was_true: bool,
                             reason: &str,
                             message: &str| {
            let changed = written.changed_at.entry(kind).or_insert_with(|| now.clone());
            if is_true != was_true {
                changed.clone_from(&now);
            }
            json!({
                "type": kind, "status": if is_true { "True" } else { "False" }, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": changed,
            })
        };
        let before = &written.pressure;
        let mut conditions: Vec<Value> = Vec::new();
        for kind in PressureKind::ALL {
            let (reason, message) = self.words(kind, pressure.get(&kind));
            let (is_true, was_true) = (pressure.contains_key(&kind), before.contains_key(&kind));
            conditions.push(condition(kind.name(), is_true, was_true, reason, &message));
        }
        conditions.push(condition("Ready", true, true, "KubeletReady", "kubelet is posting ready status"));
        let capacity = self.shared.machine.capacity();
        let ips = self.shared.host_ips.iter().map(|ip| json!({"type": "InternalIP", "address": ip}));
        let hostname = json!({"type": "Hostname", "address": self.shared.node});
        json!({
            "capacity": Machine::quantities(capacity, self.pods_max),
            "allocatable": Machine::quantities(self.allocatable, self.pods_max),
            "conditions": conditions,
            "addresses": ips.chain([hostname]).collect::<Vec<_>>(),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            "nodeInfo": self.shared.machine.info(&*self.shared.runtime),
        })
    }

    /// The reason of a condition in kubelet's words, and a message that says which figure is behind it.
    fn words(&self, kind: PressureKind, crossed: Option<&CrossedThreshold>) -> (&'static str, String) {
        let (reason, text) = match (kind, crossed.is_some()) {
            (PressureKind::Memory, true) => {
                ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
            }
            (PressureKind::Memory, false) => {
                ("KubeletHasSufficientMemory", "kubelet has sufficient memory available")
            }
            (PressureKind::Disk, true) => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            (PressureKind::Disk, false) => ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            (PressureKind::Pids, true) => {
                ("KubeletHasInsufficientPID", "kubelet has insufficient PID available")
            }
            (PressureKind::Pids, false) => {
                ("KubeletHasSufficientPID", "kubelet has sufficient PID available")
            }
        };
        let message = match (kind, crossed) {
            (PressureKind::Disk, Some(crossed)) => {
                format!("{text}: at {}, {}", self.shared.machine.root().display(), crossed.text())
            }
            (PressureKind::Memory | PressureKind::Pids, Some(crossed)) => {
                format!("{text}: {}", crossed.text())
            }
            (_, None) => text.to_owned(),
        };
        (reason, message)
    }

    async fn renew(&self) -> Result<(), kube::Error> {
        let api: Api<Lease> = Api::namespaced(self.shared.client.clone(), LEASES);
        let name = &self.shared.node;
        let renewed_at = clock::wall().0.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let spec =
            json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed_at});
        let patch = Patch::Merge(json!({"spec": spec}));
        match api.patch(name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(error)) if error.code == 404 => {
                let nodes: Api<Node> = Api::all(self.shared.client.clone());
                let owner = nodes.get(name).await?.metadata.uid.unwrap_or_default();
                let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner});
                let lease = json!({"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec});
                let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
                api.create(&PostParams::default(), &lease).await.map(drop)
            }
            patched => patched.map(drop),
        }
    }
}
