//! Carries out the actions of the machine.

use std::{io, path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use lazaret_containers::{ContainerSpec, ContainerState, Phase, RuntimeError};
use lazaret_pods::{Action, Outcome, PodRef, Status};
use lazaret_provision::{SpecError, StartFacts};
use tracing::{info, warn};

use super::{found, hooks, pressure, probe, pull, shared::Shared, status, times};
use crate::{api_words::api_words, clock, writes};

/// For one call to a runtime that has no time limit of its own.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(120);
/// For what is read and written of a pod before it starts and after it ended.
const FILES_TIMEOUT: Duration = Duration::from_secs(120);
/// Beyond the time that a container has to stop.
const STOP_SLACK: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Carries out one action, and returns its outcome.
pub(super) async fn perform(shared: Arc<Shared>, action: Action) -> Outcome {
    let shared = &shared;
    match action {
        Action::List => match limited(RUNTIME_TIMEOUT, shared.runtime.list()).await {
            Ok(states) => Outcome::Found(found::found(shared, states)),
            Err(outcome) => outcome,
        },
        Action::Observe => pressure::observe(shared).await,
        Action::Measure { usage, storage } => pressure::measure(shared, usage, storage).await,
        Action::Reclaim => pressure::reclaim(shared).await,
        Action::Pull { pod, image, policy, .. } => pull::pull(shared, &pod, &image, policy).await,
        Action::MakeVolumes { pod } => make_volumes(shared, &pod).await,
        Action::RunSandbox { pod } => run_sandbox(shared, &pod).await,
        Action::Start { pod, sandbox, container, attempt } => {
            start(shared, &pod, &sandbox, &container, attempt).await
        }
        Action::PostStart { pod, container, id } => hooks::post_start(shared, &pod, &container, &id).await,
        Action::PreStop { pod, container, id, timeout_ms } => {
            let limit = Duration::from_millis(timeout_ms);
            hooks::pre_stop(shared, &pod, &container, &id, limit).await
        }
        Action::Resize { pod, container, id } => resize(shared, &pod, &container, &id).await,
        Action::Stop { id, grace_ms, .. } => {
            let grace = Duration::from_millis(grace_ms);
            done(limited(grace + STOP_SLACK, shared.runtime.stop(&id, grace)).await)
        }
        Action::Probe { pod, container, id, kind, timeout_ms } => {
            let limit = Duration::from_millis(timeout_ms);
            probe::probe(shared, &pod, &container, &id, kind, limit).await
        }
        Action::RemoveContainer { pod, id } => {
            let log = shared.table().log(&pod.uid, &id);
            let removed = done(limited(RUNTIME_TIMEOUT, shared.runtime.remove(&id)).await);
            log.into_iter().for_each(|log| super::logs::remove(&log));
            removed
        }
        Action::StopSandbox { id, .. } => {
            done(limited(RUNTIME_TIMEOUT, shared.runtime.stop_sandbox(&id)).await)
        }
        Action::RemoveSandbox { pod, id } => {
            let removed = done(limited(RUNTIME_TIMEOUT, shared.runtime.remove_sandbox(&id)).await);
            if removed == Outcome::Done
                && let Some(entry) = shared.table().entries.get_mut(&pod.uid)
            {
                entry.sandbox = None;
            }
            removed
        }
        Action::RemoveVolumes { pod, with_logs } => remove_volumes(shared, &pod, with_logs).await,
        Action::WriteStatus { pod, status } => write_status(shared, &pod, &status).await,
        Action::DeletePod { pod } => {
            info!(pod = pod.name, namespace = pod.namespace, "nothing is left of the pod");
            let PodRef { namespace, name, uid } = pod;
            let reference = lazaret_node::PodRef { namespace, name, uid };
            let _place = shared.writes.acquire().await;
            outcome(
                tokio::time::timeout(WRITE_TIMEOUT, writes::delete_pod(shared.client.clone(), reference))
                    .await,
            )
        }
        // These are not answered, and not given to this function.
        Action::KeepOnly { .. }
        | Action::ReleaseClaims { .. }
        | Action::NodeEvent { .. }
        | Action::Event { .. } => Outcome::Done,
    }
}

/// Limits the time of a call to the runtime.
pub(super) async fn limited<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, Outcome> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failed("", error.to_string())),
        Err(_) => Err(failed("", format!("the runtime did not answer within {} s", limit.as_secs()))),
    }
}

pub(super) fn failed(reason: &'static str, message: impl Into<String>) -> Outcome {
    Outcome::Failed { reason, message: message.into() }
}

fn done(result: Result<(), Outcome>) -> Outcome {
    result.map_or_else(|outcome| outcome, |()| Outcome::Done)
}

/// The pod, or that it is gone meanwhile.
pub(super) fn pod_of(shared: &Shared, pod: &PodRef) -> Result<Arc<Pod>, Outcome> {
    shared.table().pod(&pod.uid).ok_or_else(|| failed("", "the pod is gone"))
}

fn from_spec(error: SpecError) -> Outcome {
    failed(error.reason, error.message)
}

async fn make_volumes(shared: &Shared, reference: &PodRef) -> Outcome {
    let pod = match pod_of(shared, reference) {
        Ok(pod) => pod,
        Err(outcome) => return outcome,
    };
    let images = match pull::of_volumes(shared, reference, &pod).await {
        Ok(images) => images,
        Err(outcome) => return outcome,
    };
    let _place = shared.volumes.acquire().await;
    let set_up = shared.provision.set_up_with_images(&pod, &images);
    match tokio::time::timeout(FILES_TIMEOUT, set_up).await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(errors)) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            failed("", texts.join("; "))
        }
        Err(_) => failed("", "volumes are not there in time"),
    }
}

async fn run_sandbox(shared: &Shared, pod: &PodRef) -> Outcome {
    let spec = match pod_of(shared, pod).and_then(|pod| shared.provision.sandbox(&pod).map_err(from_spec)) {
        Ok(spec) => spec,
        Err(outcome) => return outcome,
    };
    // The semaphore is never closed.
    let _place = shared.starts.acquire().await;
    match limited(RUNTIME_TIMEOUT, shared.runtime.run_sandbox(spec)).await {
        Ok(state) => {
            let (id, ips) = (state.id.clone(), shared.ips(&state));
            if let Some(entry) = shared.table().entries.get_mut(&pod.uid) {
                entry.sandbox = Some(state);
            }
            Outcome::Sandbox { id, ips }
        }
        Err(outcome) => outcome,
    }
}

async fn resize(shared: &Shared, pod: &PodRef, container: &str, id: &str) -> Outcome {
    let limits =
        pod_of(shared, pod).and_then(|object| shared.provision.limits(&object, container).map_err(from_spec));
    match limits {
        Ok((own, of_pod)) => done(limited(RUNTIME_TIMEOUT, shared.runtime.update(id, own, of_pod)).await),
        Err(outcome) => outcome,
    }
}

async fn start(shared: &Shared, pod: &PodRef, sandbox: &str, container: &str, attempt: u32) -> Outcome {
    let spec = match describe(shared, pod, container, attempt).await {
        Ok(spec) => spec,
        Err(outcome) => return outcome,
    };
    let not_applied = not_applied(shared, pod, container, &spec);
    let mut state = ContainerState {
        id: String::new(),
        key: spec.key.clone(),
        image: spec.image.clone(),
        image_id: spec.image_id.clone(),
        labels: spec.labels.clone(),
        phase: Phase::Created,
        log: shared.log_directory(pod).join(container).join(format!("{attempt}.log")),
    };
    let _place = shared.starts.acquire().await;
    let id = match tokio::time::timeout(RUNTIME_TIMEOUT, shared.runtime.create(sandbox, spec)).await {
        Ok(Ok(id)) => id,
        Ok(Err(RuntimeError::CannotRun(message))) => {
            return Outcome::CannotRun { id: String::new(), message };
        }
        Ok(Err(error)) => return failed("CreateContainerError", error.to_string()),
        Err(_) => return failed("CreateContainerError", "the runtime did not answer"),
    };
    match tokio::time::timeout(RUNTIME_TIMEOUT, shared.runtime.start(&id)).await {
        Ok(Ok(())) => {
            state.phase = Phase::Running { started_at: clock::system(), pid: 0 };
            state.id.clone_from(&id);
            shared.table().started(&pod.uid, state);
            Outcome::Started { id, not_applied }
        }
        Ok(Err(RuntimeError::CannotRun(message))) => Outcome::CannotRun { id, message },
        Ok(Err(error)) => failed("RunContainerError", error.to_string()),
        Err(_) => failed("RunContainerError", "the runtime did not answer"),
    }
}

async fn describe(
    shared: &Shared,
    pod: &PodRef,
    container: &str,
    attempt: u32,
) -> Result<ContainerSpec, Outcome> {
    let object = pod_of(shared, pod)?;
    let image = pull::image_of(&object, container).unwrap_or_default();
    let found = shared.images.find(&image).await;
    let found = found.ok_or_else(|| failed("CreateContainerError", format!("image {image:?} is gone")))?;
    let live = {
        let table = shared.table();
        let entry = table.entries.get(&pod.uid);
        let sandbox = entry.and_then(|entry| entry.sandbox.as_ref());
        let pod_ips = sandbox.map(|sandbox| shared.ips(sandbox)).unwrap_or_default();
        let devices = entry.and_then(|entry| entry.devices.get(container));
        StartFacts { pod_ips, cdi_devices: devices.cloned().unwrap_or_default(), services: Vec::new() }
    };
    let live = StartFacts { services: shared.services(&pod.namespace), ..live };
    let described = shared.provision.container(&object, container, attempt, &found, &live);
    match tokio::time::timeout(FILES_TIMEOUT, described).await {
        Ok(described) => described.map_err(from_spec),
        Err(_) => {
            Err(failed("CreateContainerConfigError", "what the container is given is not there in time"))
        }
    }
}

/// The settings of a container that neither the runtime nor the agent applies.
fn not_applied(shared: &Shared, pod: &PodRef, container: &str, spec: &ContainerSpec) -> Vec<String> {
    let Some(object) = shared.table().pod(&pod.uid) else { return Vec::new() };
    let mut texts = match shared.provision.sandbox(&object) {
        Ok(sandbox) => shared.runtime.not_applied(&sandbox, spec),
        Err(_) => Vec::new(),
    };
    texts.extend(lazaret_provision::not_applied(&object, container).unwrap_or_default());
    texts
}

async fn remove_volumes(shared: &Arc<Shared>, pod: &PodRef, with_logs: bool) -> Outcome {
    let removed = tokio::time::timeout(FILES_TIMEOUT, shared.provision.tear_down(&pod.uid)).await;
    match removed {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return failed("", error.to_string()),
        Err(_) => return failed("", "the files of the pod are not removed in time"),
    }
    if !with_logs || !is_plain(&pod.uid) {
        return Outcome::Done;
    }
    let folder = shared.log_directory(pod);
    match tokio::task::spawn_blocking(move || remove_folder(&folder)).await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(error)) => failed("", error.to_string()),
        Err(error) => failed("", error.to_string()),
    }
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes leftovers of pods that were deleted while no agent ran.
pub(super) async fn keep_only(shared: Arc<Shared>, pods: Vec<String>) {
    let known = pods.into_iter().collect();
    match shared.provision.orphans(&known) {
        Ok(orphans) => {
            for uid in orphans {
                info!(uid, "remove what is left of a pod");
                if let Err(error) = shared.provision.tear_down(&uid).await {
                    warn!(%error, uid, "remove what is left of a pod");
                }
            }
        }
        Err(error) => warn!(%error, "look for what is left of pods"),
    }
    let folders = std::fs::read_dir(&shared.log_root).into_iter().flatten().flatten();
    for folder in folders {
        let name = folder.file_name();
        let Some((_, uid)) = name.to_str().and_then(|name| name.rsplit_once('_')) else { continue };
        if !known.contains(uid)
            && let Err(error) = remove_folder(&folder.path())
        {
            warn!(%error, uid, "remove the logs of a pod");
        }
    }
}

/// A UID is the server's: it is a part of a path only if it can be no other.
pub(super) fn is_plain(uid: &str) -> bool {
    !uid.is_empty() && uid.len() <= 64 && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

async fn write_status(shared: &Shared, pod: &PodRef, status: &Status) -> Outcome {
    let _place = shared.writes.acquire().await;
    let body = {
        let table = shared.table();
        let Some(entry) = table.entries.get(&pod.uid) else { return Outcome::Done };
        let Some(object) = &entry.pod else { return Outcome::Done };
        let around = status::StatusInputs {
            pod: object,
            runtime: shared.runtime.name(),
            host_ips: &shared.host_ips,
            health: &entry.health,
        };
        status::patch(&around, &times::on_wall(&shared.clock, status.clone()))
    };
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &pod.namespace);
    let params = PatchParams::default();
    let patch = Patch::Strategic(body);
    let write = api.patch_status(&pod.name, &params, &patch);
    match tokio::time::timeout(WRITE_TIMEOUT, write).await {
        // It is gone, or another pod has its name: the watch says so.
        Ok(Err(kube::Error::Api(error))) if error.code == 404 || error.code == 409 => Outcome::Done,
        written => outcome(written.map(|written| written.map(drop))),
    }
}

fn outcome(result: Result<Result<(), kube::Error>, tokio::time::error::Elapsed>) -> Outcome {
    match result {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(error)) => {
            let why = api_words(&error);
            warn!(why, "write to the API");
            failed("", why)
        }
        Err(_) => failed("", "no answer from the API"),
    }
}
