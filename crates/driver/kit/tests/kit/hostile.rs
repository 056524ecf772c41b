//! Bad input from outside: a kubelet that sends nonsense, an API server that is away or refuses.

use std::os::unix::fs::PermissionsExt;

use k8s_openapi::api::resource::v1::ResourceSlice;
use lazaret_driver::{
    Kit, Problem,
    proto::{self, PrepareResponse, UnprepareResponse},
};
use lazaret_testkit::User;
use tonic::{Code, Status};

use crate::{
    faulty::Faults,
    raw::{self, CallResult},
    world::{DRIVER, NODE, World, connect, of, pools},
};

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_no_messages_are_refused_and_the_next_is_served() {
    let world = World::new();
    let running = world.started().await;
    let socket = running.sockets().service.clone();
    let bodies: Vec<Vec<u8>> = vec![
        // Compressed, though nothing was agreed on; of a length that never comes; larger than any may be.
        vec![1, 0, 0, 0, 1, 0],
        vec![0, 0, 0, 0, 9, 1],
        vec![0, 0xff, 0xff, 0xff, 0xff],
        // A field without an end; a length beyond the message; text that is none; a group that is never closed.
        vec![0, 0, 0, 0, 1, 0x0a],
        vec![0, 0, 0, 0, 2, 0x0a, 0x7f],
        vec![0, 0, 0, 0, 5, 0x0a, 3, 0x0a, 1, 0xff],
        vec![0, 0, 0, 0, 1, 0x0b],
        // A frame that is none.
        vec![7, 7, 7],
    ];
    let calls = bodies.clone();
    let came = tokio::task::spawn_blocking(move || {
        let call = |body: &Vec<u8>| raw::call_with(&socket, "localhost", proto::PREPARE_V1, body);
        calls.iter().map(call).collect::<Vec<CallResult>>()
    });
    for (body, came) in bodies.iter().zip(came.await.unwrap()) {
        assert!(matches!(came, CallResult::Refused | CallResult::Reset(_)), "{body:?}: {came:?}");
    }
    running.probe().await.unwrap();
    assert_eq!(world.script.begun.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn only_the_owner_may_connect() {
    let world = World::new();
    let running = world.started().await;
    let sockets = running.sockets();
    for socket in [&sockets.registration, &sockets.service] {
        let mode = socket.symlink_metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", socket.display());
    }
}

#[tokio::test]
async fn a_driver_without_permission_says_so_and_goes_on_once_it_has_it() {
    let world = World::new();
    world.node().await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let nobody = User { name: "nobody".into(), groups: vec![], ..User::default() };
    let client = world.cluster.client_as(nobody);
    let kit = Kit::new(DRIVER, client).kubelet_root(world.root.path()).node(NODE).pools(pools(1));
    let running = kit.start(world.driver()).await.unwrap();
    let mut kubelet = connect(&running.sockets().service).await;
    let refused: Result<PrepareResponse, Status> = kubelet.call(proto::PREPARE_V1, of(&[&claim])).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("read ResourceClaim default/c"), "{refused}");
    // Unprepare needs no permission.
    let _: UnprepareResponse = kubelet.call(proto::UNPREPARE_V1, of(&[&claim])).await.unwrap();
    let problem = running.problem().await.unwrap();
    assert!(matches!(&problem, Problem::Watch(why) if why.contains("nobody")), "{problem}");
    assert!(world.slices().await.is_empty());

    world.allow("nobody").await;
    running.publisher().settled().await;
    assert_eq!(world.slices().await.len(), 1);
    let answer: PrepareResponse = kubelet.call(proto::PREPARE_V1, of(&[&claim])).await.unwrap();
    assert_eq!(answer.claims[&claim.uid].error, "");
}

#[tokio::test]
async fn an_api_server_that_is_away_loses_nothing_of_the_newest_state() {
    let world = World::new();
    world.node().await;
    let faults = Faults::default();
    let kit = Kit::new(DRIVER, faults.client(world.cluster.client())).kubelet_root(world.root.path());
    let running = kit.node(NODE).pools(pools(1)).start(world.driver()).await.unwrap();
    running.publisher().settled().await;
    faults.set(|_| Some(503));
    for count in 2..6 {
        let before = faults.refused();
        running.publisher().publish(pools(count)).unwrap();
        if count < 4 {
            while faults.refused() == before {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    }
    // Calls are answered with the reason meanwhile, and probes succeed.
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let mut kubelet = connect(&running.sockets().service).await;
    let refused: Result<PrepareResponse, Status> = kubelet.call(proto::PREPARE_V1, of(&[&claim])).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    running.probe().await.unwrap();
    let problem = running.problem().await.unwrap();
    assert!(problem.to_string().contains("told to fail"), "{problem}");
    faults.clear();
    running.publisher().settled().await;
    let slices: Vec<ResourceSlice> = world.slices().await;
    assert_eq!((slices.len(), slices[0].spec.devices.as_ref().unwrap().len()), (1, 5));
}
