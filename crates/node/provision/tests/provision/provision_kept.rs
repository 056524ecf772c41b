//! The memory kept for pods, and for how long.

use std::{sync::Arc, time::Duration};

use crate::support::{MemoryObjects, facts, pod_with};
use k8s_openapi::api::core::v1::Pod;
use lazaret_provision::{CacheSizes, Objects, Provision};
use serde_json::json;

const PODS: usize = 40;
const MINUTE: Duration = Duration::from_secs(60);

/// A pod with a token, an object that all pods have, and one of its own.
fn numbered(number: usize) -> Pod {
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "common"}},
        {"configMap": {"name": format!("own-{number}")}},
    ]);
    let uid = uid(number);
    let spec = json!({
        "containers": [{"name": "main", "image": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "projected": {"sources": sources}}],
    });
    pod_with(json!({"uid": uid}), spec)
}

fn uid(number: usize) -> String {
    format!("0b6a2b62-3b0a-4f1c-9a27-{number:012}")
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_a_pod_goes_with_it_and_objects_a_little_later() {
    let root = tempfile::tempdir().unwrap();
    let shelf = Arc::new(MemoryObjects::default());
    shelf.put_config_map("common", &[("a", "1")]);
    for number in 0..PODS {
        shelf.put_config_map(&format!("own-{number}"), &[("b", "2")]);
    }
    let objects: Arc<dyn Objects> = Arc::clone(&shelf) as _;
    let provision = Provision::new(root.path(), facts(), objects).unwrap();
    let mut most = CacheSizes::default();
    for number in 0..PODS {
        let set_up = provision.set_up(&numbered(number)).await;
        most = provision.kept();
        // Nothing stays mounted, whatever becomes of the test.
        let torn_down = provision.tear_down(&uid(number)).await;
        set_up.unwrap();
        torn_down.unwrap();
    }
    assert_eq!(most, CacheSizes { objects: PODS + 1, tokens: 1, locks: 0 }, "tokens went with their pods");
    assert_eq!(provision.kept().tokens, 0);
    // One pod is still there, and uses two of the objects every minute.
    let stays = numbered(0);
    let set_up = provision.set_up(&stays).await;
    for _ in 0..2 {
        tokio::time::advance(MINUTE).await;
        let _ = provision.refresh(&stays).await;
        provision.forget_unused();
    }
    let early = provision.kept();
    tokio::time::advance(MINUTE).await;
    let _ = provision.refresh(&stays).await;
    provision.forget_unused();
    let late = provision.kept();
    let torn_down = provision.tear_down(&uid(0)).await;
    set_up.unwrap();
    torn_down.unwrap();
    assert_eq!(early.objects, PODS + 1, "a pod that is started again finds them");
    assert_eq!(late, CacheSizes { objects: 2, tokens: 1, locks: 0 });

    // A list of pods that is older than the end of a pod: its token is requested once more, and is not revoked.
    let _ = provision.refresh(&stays).await;
    assert_eq!(provision.kept().tokens, 1);
    tokio::time::advance(60 * MINUTE).await;
    provision.forget_unused();
    assert_eq!(provision.kept(), CacheSizes::default());
}
