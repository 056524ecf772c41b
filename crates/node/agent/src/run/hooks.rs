//! Hooks: `postStart` after a container started and `preStop` before it is stopped.

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use lazaret_pods::{Outcome, PodRef};
use tokio::time::timeout;
use tracing::info;

use super::{
    probe::{TargetContainer, container_of},
    shared::Shared,
    work::{failed, pod_of},
};

/// A container that does not come to its end of starting is started again after this long.
const POST_START_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) async fn post_start(shared: &Shared, pod: &PodRef, name: &str, id: &str) -> Outcome {
    run(shared, pod, name, id, POST_START_TIMEOUT, true).await
}

pub(super) async fn pre_stop(
    shared: &Shared,
    pod: &PodRef,
    name: &str,
    id: &str,
    limit: Duration,
) -> Outcome {
    run(shared, pod, name, id, limit, false).await
}

async fn run(
    shared: &Shared,
    pod: &PodRef,
    name: &str,
    id: &str,
    limit: Duration,
    is_start: bool,
) -> Outcome {
    let object = match pod_of(shared, pod) {
        Ok(object) => object,
        Err(outcome) => return outcome,
    };
    let container = container_of(&object, name);
    let lifecycle = container.and_then(|container| container.lifecycle.as_ref());
    let handler = lifecycle.and_then(|lifecycle| match is_start {
        true => lifecycle.post_start.as_ref(),
        false => lifecycle.pre_stop.as_ref(),
    });
    let (Some(container), Some(handler)) = (container, handler) else { return Outcome::Done };
    let asked = TargetContainer { shared, uid: &pod.uid, container, id, limit };
    let result = match timeout(limit, handle(&asked, handler)).await {
        Ok(result) => result,
        Err(_) => Err(format!("it did not end within {} s", limit.as_secs())),
    };
    match result {
        Ok(()) => Outcome::Done,
        Err(message) => {
            info!(pod = pod.name, container = name, message, "a hook failed");
            failed("", message)
        }
    }
}

async fn handle(asked: &TargetContainer<'_>, handler: &LifecycleHandler) -> Result<(), String> {
    if let Some(exec) = &handler.exec {
        asked.exec(exec).await.map(drop)
    } else if let Some(get) = &handler.http_get {
        asked.http(get).await.map(drop)
    } else if let Some(sleep) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        Ok(())
    } else {
        Err("the hook has no handler that this node knows".into())
    }
}
