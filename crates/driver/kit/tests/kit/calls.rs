//! Prepare and unprepare.

use std::sync::{Arc, atomic::Ordering};

use lazaret_driver::{
    Failure, PreparedDevice,
    proto::{self, ClaimMessage, ClaimsRequest, PrepareResponse, UnprepareResponse},
};
use tokio::sync::Notify;
use tonic::{Code, Status};

use crate::world::{DRIVER, NODE, World, connect, of};

async fn prepare(
    running: &lazaret_driver::Running,
    request: ClaimsRequest,
) -> Result<PrepareResponse, Status> {
    connect(&running.sockets().service).await.call(proto::PREPARE_V1, request).await
}

#[tokio::test]
async fn a_claim_is_prepared_with_the_devices_of_this_driver_only() {
    let world = World::new();
    let running = world.started().await;
    let claim = world.claim("c", &[("a", DRIVER, "gpu-0"), ("b", "other.example.com", "nic-0")]).await;
    let second = world.claim("d", &[("a", DRIVER, "gpu-1")]).await;
    // Twice: kubelet restarts.
    for _ in 0..2 {
        let answer = prepare(&running, of(&[&claim, &second])).await.unwrap();
        assert_eq!(answer.claims.len(), 2);
        let prepared = &answer.claims[&claim.uid];
        assert_eq!((prepared.error.as_str(), prepared.devices.len()), ("", 1));
        let device = &prepared.devices[0];
        assert_eq!((device.pool_name.as_str(), device.device_name.as_str()), (NODE, "gpu-0"));
        assert_eq!(device.request_names, ["a"]);
        assert_eq!(device.cdi_device_ids, [format!("{DRIVER}/gpu={}-gpu-0", claim.uid)]);
    }
}

#[tokio::test]
async fn claims_that_are_not_as_kubelet_thinks_never_reach_the_driver() {
    let world = World::new();
    let running = world.started().await;
    let unallocated = world.claim("u", &[]).await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let replaced = ClaimMessage { uid: "another".into(), ..claim.clone() };
    let missing = ClaimMessage { name: "nobody".into(), uid: "nobody".into(), ..claim.clone() };
    let nameless = ClaimMessage { name: String::new(), ..missing.clone() };
    let strange = ClaimMessage { namespace: "../x".into(), ..missing.clone() };
    for (wrong, code, part) in [
        (&unallocated, Code::FailedPrecondition, "not allocated"),
        (&replaced, Code::FailedPrecondition, "got replaced"),
        (&missing, Code::NotFound, "not found"),
        (&nameless, Code::InvalidArgument, "no namespace, name or UID"),
        (&strange, Code::InvalidArgument, "no namespace, name or UID"),
    ] {
        let status = prepare(&running, of(&[&claim, wrong])).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(part), "{status}");
    }
    let twice = prepare(&running, of(&[&claim, &claim])).await.unwrap_err();
    assert_eq!(twice.code(), Code::InvalidArgument);
    let many = ClaimsRequest { claims: vec![claim; 1000] };
    assert_eq!(prepare(&running, many).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(world.script.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_failure_is_told_for_its_claim_and_a_wrong_answer_fails_the_call() {
    let world = World::new();
    let running = world.started().await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let good = PreparedDevice { pool: NODE.into(), device: "gpu-0".into(), ..PreparedDevice::default() };
    let rows: Vec<(Result<Vec<PreparedDevice>, Failure>, &str)> = vec![
        (Err(Failure::new("the GPU is on fire")), "the GPU is on fire"),
        (Err(Failure::new("")), "no stated reason"),
        (Ok(vec![PreparedDevice { pool: String::new(), ..good.clone() }]), "no pool or no name"),
        (Ok(vec![good.clone().with_cdi("gpu-0")]), "not vendor/class=device"),
        (Ok(vec![good.clone(); 1000]), "more than 512 devices"),
    ];
    for (answer, part) in rows {
        *world.script.answer.lock().unwrap() = Some(vec![answer]);
        let response = prepare(&running, of(&[&claim])).await.unwrap();
        let entry = &response.claims[&claim.uid];
        assert!(entry.error.contains(part), "{entry:?}");
        assert!(entry.devices.is_empty());
    }
    for answer in [vec![], vec![Ok(vec![]), Ok(vec![])]] {
        *world.script.answer.lock().unwrap() = Some(answer);
        let status = prepare(&running, of(&[&claim])).await.unwrap_err();
        assert!(status.message().contains("results for 1 claims"), "{status}");
    }
    *world.script.answer.lock().unwrap() = Some(vec![Ok(vec![])]);
    assert_eq!(prepare(&running, of(&[&claim])).await.unwrap().claims[&claim.uid].error, "");
}

#[tokio::test]
async fn a_panic_fails_its_call_and_no_other() {
    let world = World::new();
    let running = world.started().await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    *world.script.panics.lock().unwrap() = true;
    let status = prepare(&running, of(&[&claim])).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    *world.script.panics.lock().unwrap() = false;
    prepare(&running, of(&[&claim])).await.unwrap();
}

#[tokio::test]
async fn unprepare_needs_no_claim_in_the_api() {
    let world = World::new();
    let running = world.started().await;
    let gone = ClaimMessage { namespace: "default".into(), name: "gone".into(), uid: "u".into() };
    let mut client = connect(&running.sockets().service).await;
    for path in [proto::UNPREPARE_V1, proto::UNPREPARE_V1BETA1] {
        let answer: UnprepareResponse = client.call(path, of(&[&gone])).await.unwrap();
        assert_eq!(answer.claims["u"].error, "");
    }
    let unprepared = world.script.unprepared.lock().unwrap();
    assert_eq!((unprepared.len(), unprepared[0].name.as_str()), (2, "gone"));
}

#[tokio::test]
async fn the_older_version_has_no_shares() {
    let world = World::new();
    let running = world.started().await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let shared = PreparedDevice {
        requests: vec!["r/small".into()],
        pool: NODE.into(),
        device: "gpu-0".into(),
        share_id: Some("s".into()),
        ..PreparedDevice::default()
    };
    *world.script.answer.lock().unwrap() = Some(vec![Ok(vec![shared])]);
    let mut client = connect(&running.sockets().service).await;
    for (path, share) in [(proto::PREPARE_V1, Some("s")), (proto::PREPARE_V1BETA1, None)] {
        let answer: PrepareResponse = client.call(path, of(&[&claim])).await.unwrap();
        let device = &answer.claims[&claim.uid].devices[0];
        assert_eq!(device.share_id.as_deref(), share);
        assert_eq!(device.request_names, ["r"], "without the subrequest");
    }
}

#[tokio::test]
async fn a_call_that_was_begun_is_finished_though_nobody_waits() {
    let world = World::new();
    let running = world.started().await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let hold = Arc::new(Notify::new());
    *world.script.holds.lock().unwrap() = Some(Arc::clone(&hold));
    {
        let socket = running.sockets().service.clone();
        let mut client = connect(&socket).await;
        let call = client.call::<_, PrepareResponse>(proto::PREPARE_V1, of(&[&claim]));
        tokio::pin!(call);
        while world.script.begun.load(Ordering::SeqCst) == 0 {
            tokio::select! {
                _ = &mut call => panic!("it waits"),
                () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
            }
        }
    }
    // Kubelet is gone. The driver ends only when the call has.
    let stop = running.stop();
    tokio::pin!(stop);
    for _ in 0..10 {
        tokio::select! {
            () = &mut stop => panic!("a call is under way"),
            () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {}
        }
    }
    assert_eq!(world.script.finished.load(Ordering::SeqCst), 0);
    hold.notify_one();
    stop.await;
    assert_eq!(world.script.finished.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn calls_under_way_are_answered_when_a_driver_ends_and_no_more_are_begun() {
    let world = World::new();
    let running = world.started().await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let hold = Arc::new(Notify::new());
    *world.script.holds.lock().unwrap() = Some(Arc::clone(&hold));
    let client = connect(&running.sockets().service).await;
    let (mut first, mut second, request) = (client.clone(), client, of(&[&claim]));
    let call = async { first.call::<_, PrepareResponse>(proto::PREPARE_V1, request).await };
    let end = async {
        while world.script.begun.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let socket = running.sockets().registration.clone();
        let stopping = running.stop();
        let release = async {
            while socket.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let late: Result<PrepareResponse, Status> = second.call(proto::PREPARE_V1, of(&[&claim])).await;
            assert_eq!(late.unwrap_err().code(), Code::Unavailable);
            hold.notify_one();
        };
        tokio::join!(stopping, release);
    };
    let (answer, ()) = tokio::join!(call, end);
    assert_eq!(answer.unwrap().claims[&claim.uid].error, "");
}

#[tokio::test]
async fn calls_do_not_pile_up_behind_one_that_hangs() {
    let world = World::new();
    let running = world.started().await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let hold = Arc::new(Notify::new());
    *world.script.holds.lock().unwrap() = Some(Arc::clone(&hold));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let client = connect(&running.sockets().service).await;
        for _ in 0..40 {
            let (mut client, request) = (client.clone(), of(&[&claim]));
            calls.spawn(async move {
                let answer = client.call::<_, PrepareResponse>(proto::PREPARE_V1, request).await;
                answer.map(drop).map_err(|status| status.code())
            });
        }
    }
    // Of 80 calls 64 may wait.
    for _ in 0..16 {
        assert_eq!(calls.join_next().await.unwrap().unwrap(), Err(Code::ResourceExhausted));
    }
    *world.script.holds.lock().unwrap() = None;
    hold.notify_one();
    while let Some(answer) = calls.join_next().await {
        answer.unwrap().unwrap();
    }
    assert_eq!(world.script.most_inside.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_and_the_next_is_served() {
    let world = World::new();
    let running = world.started().await;
    let huge = ClaimMessage { namespace: "n".into(), name: "x".repeat(10 << 20), uid: "u".into() };
    let mut client = connect(&running.sockets().service).await;
    let refused: Result<PrepareResponse, Status> = client.call(proto::PREPARE_V1, of(&[&huge])).await;
    assert!(refused.is_err());
    running.probe().await.unwrap();
}
