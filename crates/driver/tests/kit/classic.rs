//! The classic protocol: one claim a call, by its UID.

use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{Api, DeleteParams};
use lazaret_driver::{
    Client, Failure, Registration,
    proto::{
        self, ClassicPrepareRequest, ClassicPrepareResponse, ClassicUnprepareRequest,
        ClassicUnprepareResponse, InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
    },
};
use tonic::{Code, Status};

use crate::world::{DRIVER, World, connect};

async fn prepare(kubelet: &mut Client, uid: &str) -> Result<Vec<String>, Status> {
    let request = ClassicPrepareRequest { resource_uid: uid.into() };
    let answer: ClassicPrepareResponse = kubelet.call(proto::CLASSIC_PREPARE, request).await?;
    Ok(answer.cdi_device)
}

async fn unprepare(kubelet: &mut Client, first: &[&str], second: &[&str]) -> Result<(), Status> {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let request = ClassicUnprepareRequest { resource_id: list(first), cdi_device: list(second) };
    let _: ClassicUnprepareResponse = kubelet.call(proto::CLASSIC_UNPREPARE, request).await?;
    Ok(())
}

#[tokio::test]
async fn a_classic_plugin_prepares_and_unprepares_by_uid() {
    let world = World::new();
    let running = world.kit().classic(true).start(world.driver()).await.unwrap();
    let mut registration = connect(&running.sockets().classic).await;
    let info: PluginInfo = registration.call(proto::GET_INFO, InfoRequest {}).await.unwrap();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("ResourcePlugin", DRIVER));
    let yes = RegistrationStatus { plugin_registered: true, error: String::new() };
    let _: RegistrationStatusResponse = registration.call(proto::NOTIFY, yes).await.unwrap();
    assert_eq!(*running.classic_registration().unwrap().borrow(), Registration::Registered);
    assert_eq!(*running.registration().borrow(), Registration::Waiting, "that is another plugin");

    let mut kubelet = connect(info.endpoint.as_ref()).await;
    let claim = world.claim("c", &[("a", DRIVER, "gpu-0"), ("b", DRIVER, "gpu-1")]).await;
    let wanted = ["gpu-0", "gpu-1"].map(|gpu| format!("{DRIVER}/gpu={}-{gpu}", claim.uid));
    for _ in 0..2 {
        assert_eq!(prepare(&mut kubelet, &claim.uid).await.unwrap(), wanted);
    }
    // Both ways in which the request can be read, and again after the claim is gone.
    unprepare(&mut kubelet, &[&claim.uid, &wanted[0], &wanted[1]], &[]).await.unwrap();
    unprepare(&mut kubelet, &[&claim.uid], &[&wanted[0]]).await.unwrap();
    let api: Api<ResourceClaim> = Api::namespaced(world.cluster.client(), "default");
    api.delete("c", &DeleteParams::default()).await.unwrap();
    unprepare(&mut kubelet, &[&claim.uid], &[]).await.unwrap();
    let unprepared = world.script.unprepared.lock().unwrap().clone();
    assert!(unprepared.iter().all(|id| id.uid == claim.uid));
    assert_eq!(unprepared.iter().map(|id| id.name.as_str()).collect::<Vec<_>>(), ["c", "c", ""]);
    let sockets = running.sockets().clone();
    running.stop().await;
    assert!(!sockets.classic.exists());
}

#[tokio::test]
async fn classic_errors_are_status_codes() {
    let world = World::new();
    let running = world.kit().classic(true).start(world.driver()).await.unwrap();
    let mut kubelet = connect(&running.sockets().service).await;
    let unallocated = world.claim("u", &[]).await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    for (uid, code) in [
        ("0b9e7a52-0000-4000-8000-000000000000", Code::NotFound),
        (&unallocated.uid, Code::FailedPrecondition),
        ("", Code::InvalidArgument),
        ("../../etc/passwd", Code::InvalidArgument),
    ] {
        assert_eq!(prepare(&mut kubelet, uid).await.unwrap_err().code(), code, "{uid}");
    }
    assert_eq!(unprepare(&mut kubelet, &[], &[]).await.unwrap_err().code(), Code::InvalidArgument);
    *world.script.answer.lock().unwrap() = Some(vec![Err(Failure::new("the GPU is on fire"))]);
    let failed = prepare(&mut kubelet, &claim.uid).await.unwrap_err();
    assert_eq!((failed.code(), failed.message()), (Code::Internal, "the GPU is on fire"));
    // A claim of the same name is another claim, and the one that was is not found.
    *world.script.answer.lock().unwrap() = None;
    prepare(&mut kubelet, &claim.uid).await.unwrap();
    let api: Api<ResourceClaim> = Api::namespaced(world.cluster.client(), "default");
    api.delete("c", &DeleteParams::default()).await.unwrap();
    let second = world.claim("c", &[("r", DRIVER, "gpu-1")]).await;
    assert!(prepare(&mut kubelet, &claim.uid).await.is_err());
    assert_eq!(prepare(&mut kubelet, &claim.uid).await.unwrap_err().code(), Code::NotFound);
    prepare(&mut kubelet, &second.uid).await.unwrap();
}

#[tokio::test]
async fn the_classic_protocol_is_off_unless_it_is_turned_on() {
    let world = World::new();
    let running = world.started().await;
    assert!(!running.sockets().classic.exists());
    assert!(running.classic_registration().is_none());
    let mut kubelet = connect(&running.sockets().service).await;
    assert_eq!(prepare(&mut kubelet, "u").await.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(unprepare(&mut kubelet, &["u"], &[]).await.unwrap_err().code(), Code::Unimplemented);
}
