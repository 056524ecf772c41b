//! A device has one claim, whatever a scheduler says and wherever the driver is killed.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Event, Namespace},
    resource::v1::ResourceClaim,
};
use kube::api::{Api, ListParams, Patch, PatchParams};
use lazaret_driver::{
    Claim, ClaimRef, Driver, Failure, PreparedDevice, Running,
    proto::{self, ClaimMessage, ClaimsRequest, PrepareResponse, UnprepareResponse},
};
use serde_json::json;
use tokio::sync::{Mutex, Notify};
use tonic::Status;

use crate::world::{DRIVER, NODE, World, connect, of};

/// Where a driver stops, as if it was killed there: it never goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    BeforePrepare,
    AfterPrepare,
    BeforeUnprepare,
    AfterUnprepare,
}

/// The memory of the hardware: UIDs of claims, each with its devices.
type Hardware = Arc<Mutex<Vec<(String, Vec<String>)>>>;

#[derive(Clone)]
struct Killed {
    hardware: Hardware,
    stop: Option<Stop>,
    /// It has stopped.
    stopped: Arc<Notify>,
}

impl Killed {
    async fn pass(&self, place: Stop) {
        if self.stop == Some(place) {
            self.stopped.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl Driver for Killed {
    async fn prepare(&self, claims: &[Claim]) -> Vec<Result<Vec<PreparedDevice>, Failure>> {
        self.pass(Stop::BeforePrepare).await;
        let mut results = Vec::new();
        for claim in claims {
            let mut hardware = self.hardware.lock().await;
            hardware.retain(|(uid, _)| *uid != claim.id.uid);
            let names: Vec<String> = claim.devices.iter().map(|device| device.device.clone()).collect();
            let other = hardware.iter().find(|(_, held)| names.iter().any(|name| held.contains(name)));
            assert!(other.is_none(), "{names:?} prepared for {} and {other:?}", claim.id.uid);
            hardware.push((claim.id.uid.clone(), names));
            results.push(Ok(claim.devices.iter().map(PreparedDevice::of).collect()));
        }
        self.pass(Stop::AfterPrepare).await;
        results
    }

    async fn unprepare(&self, claims: &[ClaimRef]) -> Vec<Result<(), Failure>> {
        self.pass(Stop::BeforeUnprepare).await;
        let gone = |uid: &String| claims.iter().any(|claim| claim.uid == *uid);
        self.hardware.lock().await.retain(|(uid, _)| !gone(uid));
        self.pass(Stop::AfterUnprepare).await;
        claims.iter().map(|_| Ok(())).collect()
    }
}

async fn prepare(running: &Running, request: ClaimsRequest) -> Result<PrepareResponse, Status> {
    connect(&running.sockets().service).await.call(proto::PREPARE_V1, request).await
}

async fn unprepare(running: &Running, request: ClaimsRequest) -> Result<UnprepareResponse, Status> {
    connect(&running.sockets().service).await.call(proto::UNPREPARE_V1, request).await
}

async fn error_of(running: &Running, claim: &ClaimMessage) -> String {
    prepare(running, of(&[claim])).await.unwrap().claims[&claim.uid].error.clone()
}

async fn started(world: &World, hardware: &Hardware, stop: Option<Stop>) -> (Running, Arc<Notify>) {
    let stopped = Arc::new(Notify::new());
    let driver = Killed { hardware: Arc::clone(hardware), stop, stopped: Arc::clone(&stopped) };
    (world.kit().start(driver).await.unwrap(), stopped)
}

/// Killed before and after each call of the driver: the claim that was first keeps its device until it is unprepared, and then the other one gets it.
#[tokio::test]
async fn a_driver_that_is_killed_at_any_step_prepares_nothing_twice_and_leaves_nothing() {
    for stop in [Stop::BeforePrepare, Stop::AfterPrepare, Stop::BeforeUnprepare, Stop::AfterUnprepare] {
        let (world, hardware) = (World::new(), Hardware::default());
        let first = world.claim("first", &[("r", DRIVER, "gpu-0")]).await;
        let second = world.claim("second", &[("r", DRIVER, "gpu-0")]).await;
        let (killed, stopped) = started(&world, &hardware, Some(stop)).await;
        let is_unpreparing = matches!(stop, Stop::BeforeUnprepare | Stop::AfterUnprepare);
        if is_unpreparing {
            assert_eq!(error_of(&killed, &first).await, "");
        }
        tokio::select! {
            _ = prepare(&killed, of(&[&first])), if !is_unpreparing => panic!("{stop:?}: it was killed"),
            _ = unprepare(&killed, of(&[&first])), if is_unpreparing => panic!("{stop:?}: it was killed"),
            () = stopped.notified() => {}
        }
        drop(killed);
        let (running, _) = started(&world, &hardware, None).await;
        let refused = error_of(&running, &second).await;
        assert_eq!(
            refused,
            format!("device {DRIVER}/{NODE}/gpu-0 is in use by claim default/first"),
            "{stop:?}"
        );
        // Kubelet asks again for what it was not answered.
        if !is_unpreparing {
            assert_eq!(error_of(&running, &first).await, "", "{stop:?}");
            assert_ne!(error_of(&running, &second).await, "", "{stop:?}");
        }
        let answer = unprepare(&running, of(&[&first])).await.unwrap();
        assert_eq!(answer.claims[&first.uid].error, "", "{stop:?}");
        assert_eq!(error_of(&running, &second).await, "", "{stop:?}");
        assert_eq!(unprepare(&running, of(&[&second])).await.unwrap().claims[&second.uid].error, "");
        assert!(hardware.lock().await.is_empty(), "{stop:?}");
        let third = world.claim("third", &[("r", DRIVER, "gpu-0")]).await;
        assert_eq!(error_of(&running, &third).await, "", "{stop:?}: nothing is left behind");
    }
}

#[tokio::test]
async fn the_other_claims_of_a_call_are_prepared_and_shares_and_administration_exclude_nobody() {
    let world = World::new();
    let running = world.started().await;
    let first = world.claim("first", &[("r", DRIVER, "gpu-0")]).await;
    let twice = world.claim("twice", &[("r", DRIVER, "gpu-0")]).await;
    let other = world.claim("other", &[("r", DRIVER, "gpu-1")]).await;
    let answer = prepare(&running, of(&[&first, &twice, &other])).await.unwrap();
    let errors = [&first, &twice, &other].map(|claim| answer.claims[&claim.uid].error.as_str());
    assert_eq!(errors, ["", &format!("device {DRIVER}/{NODE}/gpu-0 is in use by claim default/first"), ""]);
    let namespaces: Api<Namespace> = Api::all(world.cluster.client());
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    namespaces.patch("default", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let admin = world.claim_with("admin", json!({"device": "gpu-0", "adminAccess": true})).await;
    assert_eq!(error_of(&running, &admin).await, "");
    let share = |share: &str| json!({"device": "gpu-2", "shareID": share});
    let ids = ["0e8d14e8-5b0c-4a4a-8f5a-3f0b0f0c0001", "0e8d14e8-5b0c-4a4a-8f5a-3f0b0f0c0002"];
    for (name, id) in [("one", ids[0]), ("two", ids[1])] {
        let claim = world.claim_with(name, share(id)).await;
        assert_eq!(error_of(&running, &claim).await, "", "{name}");
    }
    let whole = world.claim("whole", &[("r", DRIVER, "gpu-2")]).await;
    assert!(error_of(&running, &whole).await.contains("in use by claim default/"));
}

/// A partition of the device is prepared: what overlaps only the driver knows, and it says so by the claim's UID.
#[tokio::test]
async fn a_claim_that_the_driver_names_by_its_uid_is_told_by_its_name() {
    let world = World::new();
    let running = world.started().await;
    let first = world.claim("first", &[("r", DRIVER, "part-0")]).await;
    assert_eq!(error_of(&running, &first).await, "");
    let second = world.claim("second", &[("r", DRIVER, "gpu-0")]).await;
    *world.script.answer.lock().unwrap() = Some(vec![Err(Failure::in_use("gpu-0", &first.uid))]);
    assert_eq!(error_of(&running, &second).await, "device gpu-0 is in use by claim default/first");
    *world.script.answer.lock().unwrap() = None;
    // Nothing was done for it, so it is in nobody's way.
    let third = world.claim("third", &[("r", DRIVER, "gpu-0")]).await;
    assert_eq!(error_of(&running, &third).await, "");
}

#[tokio::test]
async fn the_pod_that_has_the_device_is_told_once() {
    let world = World::new();
    let running = world.started().await;
    let first = world.claim("first", &[("r", DRIVER, "gpu-0")]).await;
    let claims: Api<ResourceClaim> = Api::namespaced(world.cluster.client(), "default");
    let users = json!({"status": {"reservedFor": [{"resource": "pods", "name": "a", "uid": "pod-a"}]}});
    claims.patch_status("first", &PatchParams::default(), &Patch::Merge(users)).await.unwrap();
    assert_eq!(error_of(&running, &first).await, "");
    let second = world.claim("second", &[("r", DRIVER, "gpu-0")]).await;
    for _ in 0..3 {
        assert_ne!(error_of(&running, &second).await, "");
    }
    let events: Api<Event> = Api::namespaced(world.cluster.client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events.len(), 1);
    let Event { involved_object, reason, message, .. } = &events[0];
    assert_eq!(
        (involved_object.name.as_deref(), reason.as_deref()),
        (Some("a"), Some("DeviceAllocatedTwice"))
    );
    assert_eq!(
        message.as_deref().unwrap(),
        format!(
            "device {DRIVER}/{NODE}/gpu-0 is prepared for ResourceClaim default/first of this pod, and was also allocated to ResourceClaim default/second, which waits until it is unprepared"
        )
    );
}

#[tokio::test]
async fn nothing_is_prepared_or_unprepared_while_the_file_cannot_be_read() {
    let world = World::new();
    let running = world.started().await;
    let first = world.claim("first", &[("r", DRIVER, "gpu-0")]).await;
    assert_eq!(error_of(&running, &first).await, "");
    let file = world.root.path().join("plugins").join(DRIVER).join("prepared-claims.json");
    let kept = std::fs::read(&file).unwrap();
    std::fs::write(&file, &kept[..kept.iter().rposition(|byte| *byte == b'}').unwrap()]).unwrap();
    let other = world.claim("other", &[("r", DRIVER, "gpu-1")]).await;
    let refused = error_of(&running, &other).await;
    assert!(refused.contains("cannot be understood"), "{refused}");
    let refused = unprepare(&running, of(&[&first])).await.unwrap().claims[&first.uid].error.clone();
    assert!(refused.contains("cannot be understood"), "{refused}");
    assert!(world.script.unprepared.lock().unwrap().is_empty());
}
