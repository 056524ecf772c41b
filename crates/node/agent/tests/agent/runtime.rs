//! A runtime that runs nothing, and stops containers when the test permits it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use lazaret_containers::{
    Answer, Attached, Connection, ContainerSpec, ContainerState, Exec, Exit, Phase, Running, Runtime,
    RuntimeError, SandboxSpec, SandboxState, Usage,
};
use tokio::sync::watch;

/// A runtime in memory. Its containers outlive the agent, as with a real one.
#[derive(Debug)]
pub(crate) struct Fake {
    sandboxes: Mutex<BTreeMap<String, SandboxState>>,
    changes: watch::Sender<u64>,
    /// Whether containers stop when they are asked to.
    pub(crate) may_stop: watch::Sender<bool>,
    /// How many were asked to.
    pub(crate) asked: watch::Sender<usize>,
    /// The CDI names of containers that were made.
    pub(crate) devices: Mutex<Vec<Vec<String>>>,
    /// Containers that were started, each as often as it was.
    pub(crate) starts: Mutex<Vec<String>>,
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            sandboxes: Mutex::default(),
            changes: watch::Sender::new(0),
            may_stop: watch::Sender::new(true),
            asked: watch::Sender::new(0),
            devices: Mutex::default(),
            starts: Mutex::default(),
        })
    }

    pub(crate) fn running(&self) -> usize {
        let sandboxes = self.sandboxes.lock().unwrap();
        let all = sandboxes.values().flat_map(|sandbox| &sandbox.containers);
        all.filter(|container| matches!(container.phase, Phase::Running { .. })).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sandboxes.lock().unwrap().is_empty()
    }

    /// Changes a container, if there is such a one.
    fn change<T>(&self, id: &str, change: impl FnOnce(&mut ContainerState) -> T) -> Option<T> {
        let mut sandboxes = self.sandboxes.lock().unwrap();
        let mut all = sandboxes.values_mut().flat_map(|sandbox| &mut sandbox.containers);
        all.find(|container| container.id == id).map(change)
    }

    pub(crate) fn end(&self, id: &str, code: i32) {
        self.change(id, |container| {
            if let Phase::Running { started_at, .. } = container.phase {
                container.phase = Phase::Exited(Exit {
                    started_at: Some(started_at),
                    finished_at: started_at,
                    code,
                    signal: None,
                    is_out_of_memory: false,
                    message: None,
                });
            }
        });
        self.changes.send_modify(|count| *count += 1);
    }
}

fn unsupported<T>(what: &str) -> Result<T, RuntimeError> {
    Err(RuntimeError::Unsupported { runtime: "fake".into(), what: what.into() })
}

impl Runtime for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn not_applied(&self, _: &SandboxSpec, _: &ContainerSpec) -> Vec<String> {
        vec!["anything at all".into()]
    }

    fn run_sandbox(&self, spec: SandboxSpec) -> Answer<'_, SandboxState> {
        Box::pin(async move {
            let ips = if spec.namespaces.host_network { vec![] } else { vec!["10.0.0.1".into()] };
            let made = SandboxState {
                id: spec.pod_uid.clone(),
                spec,
                is_ready: true,
                created_at: SystemTime::UNIX_EPOCH,
                ips,
                containers: vec![],
            };
            let mut sandboxes = self.sandboxes.lock().unwrap();
            Ok(sandboxes.entry(made.id.clone()).or_insert(made).clone())
        })
    }

    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.sandboxes.lock().unwrap().get_mut(id).unwrap().is_ready = false;
            Ok(())
        })
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.sandboxes.lock().unwrap().remove(id);
            Ok(())
        })
    }

    fn create<'a>(&'a self, sandbox: &'a str, spec: ContainerSpec) -> Answer<'a, String> {
        Box::pin(async move {
            self.devices.lock().unwrap().push(spec.cdi_devices.clone());
            let id = format!("{sandbox}-{}-{}", spec.key.name, spec.key.attempt);
            let state = ContainerState {
                id: id.clone(),
                key: spec.key,
                image: spec.image,
                image_id: spec.image_id,
                labels: spec.labels,
                phase: Phase::Created,
                log: PathBuf::from("/dev/null"),
            };
            self.sandboxes.lock().unwrap().get_mut(sandbox).unwrap().containers.push(state);
            Ok(id)
        })
    }

    fn start<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.starts.lock().unwrap().push(id.to_owned());
            let running = Phase::Running { started_at: SystemTime::UNIX_EPOCH, pid: 1 };
            self.change(id, |container| container.phase = running)
                .ok_or_else(|| RuntimeError::NotFound(id.into()))
        })
    }

    fn stop<'a>(&'a self, id: &'a str, _: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            self.asked.send_modify(|count| *count += 1);
            self.may_stop.subscribe().wait_for(|may| *may).await.unwrap();
            self.end(id, 143);
            Ok(())
        })
    }

    fn remove<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            for sandbox in self.sandboxes.lock().unwrap().values_mut() {
                sandbox.containers.retain(|container| container.id != id);
            }
            Ok(())
        })
    }

    fn list(&self) -> Answer<'_, Vec<SandboxState>> {
        Box::pin(async move { Ok(self.sandboxes.lock().unwrap().values().cloned().collect()) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn exec<'a>(&'a self, _: &'a str, _: Exec) -> Answer<'a, Running> {
        Box::pin(async { unsupported("exec") })
    }

    fn attach<'a>(&'a self, _: &'a str) -> Answer<'a, Attached> {
        Box::pin(async { unsupported("attach") })
    }

    fn reopen_log<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { unsupported("logs") })
    }

    fn connect<'a>(&'a self, _: &'a str, _: u16) -> Answer<'a, Box<dyn Connection>> {
        Box::pin(async { unsupported("connections") })
    }

    fn usage<'a>(&'a self, _: &'a str) -> Answer<'a, Usage> {
        Box::pin(async { unsupported("usage") })
    }
}
