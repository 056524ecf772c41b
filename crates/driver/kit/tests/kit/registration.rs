//! How a driver becomes known to kubelet, and how it leaves.

use std::{os::unix::fs::FileTypeExt, path::PathBuf};

use lazaret_driver::{
    Registration, StartError,
    proto::{
        self, ClaimsRequest, InfoRequest, PluginInfo, PrepareResponse, RegistrationStatus,
        RegistrationStatusResponse,
    },
};
use prost::Message;

use crate::{
    raw::{self, CallResult},
    world::{DRIVER, World, connect, of, pools},
};

async fn raw_call(socket: PathBuf, authority: String) -> CallResult {
    tokio::task::spawn_blocking(move || raw::call(&socket, &authority, proto::GET_INFO)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_that_kubelet_sends_is_served() {
    let world = World::new();
    let running = world.started().await;
    let socket = running.sockets().registration.clone();
    let authority = raw::authority_of(&socket);
    assert!(authority.starts_with("%2F") && authority.contains('@'), "{authority}");
    let CallResult::Message(message) = raw_call(socket, authority).await else { panic!("refused") };
    let info = PluginInfo::decode(message.as_slice()).unwrap();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DRAPlugin", DRIVER));
    assert_eq!(info.endpoint, running.sockets().service.to_str().unwrap());
    assert_eq!(info.supported_versions, ["v1.DRAPlugin", "v1beta1.DRAPlugin"]);
    // With the usual name, the library under us refuses the call before our code sees it. When this fails the library has
    // changed, and the sign in the name is not needed any more.
    let usual =
        raw::authority_of(&running.sockets().registration.with_file_name(format!("{DRIVER}-reg.sock")));
    assert_eq!(raw_call(running.sockets().registration.clone(), usual).await, CallResult::Reset(1));
}

#[tokio::test]
async fn registration_is_known_and_a_refusal_is_answered_with_its_reason() {
    let world = World::new();
    let running = world.started().await;
    let status = running.registration();
    assert_eq!(*status.borrow(), Registration::Waiting);
    // Each attempt of kubelet is a connection of its own.
    for _ in 0..3 {
        let mut client = connect(&running.sockets().registration).await;
        let _: PluginInfo = client.call(proto::GET_INFO, InfoRequest {}).await.unwrap();
        let no = RegistrationStatus { plugin_registered: false, error: "no handler".into() };
        let answer: Result<RegistrationStatusResponse, _> = client.call(proto::NOTIFY, no).await;
        assert!(answer.unwrap_err().message().contains("no handler"));
        assert_eq!(*status.borrow(), Registration::Refused("no handler".into()));
        let yes = RegistrationStatus { plugin_registered: true, error: String::new() };
        let _: RegistrationStatusResponse = client.call(proto::NOTIFY, yes).await.unwrap();
        assert_eq!(*status.borrow(), Registration::Registered);
    }
}

#[tokio::test]
async fn sockets_come_and_go_with_the_driver() {
    let world = World::new();
    let registry = world.root.path().join("plugins_registry");
    std::fs::create_dir_all(&registry).unwrap();
    // Left behind by an instance that was killed.
    let stale = registry.join(format!("{DRIVER}@reg.sock"));
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    for _ in 0..2 {
        let running = world.started().await;
        let sockets = running.sockets().clone();
        assert_eq!(sockets.registration, stale);
        for socket in [&sockets.registration, &sockets.service] {
            assert!(socket.symlink_metadata().unwrap().file_type().is_socket());
        }
        running.probe().await.unwrap();
        running.stop().await;
        for socket in [&sockets.registration, &sockets.service] {
            assert!(!socket.exists(), "{}", socket.display());
        }
        assert!(lazaret_driver::probe(DRIVER, &sockets).await.is_err());
    }
    drop(world.started().await);
    assert_eq!(std::fs::read_dir(&registry).unwrap().count(), 0, "also without a proper end");
}

#[tokio::test]
async fn what_cannot_start_says_why_and_leaves_nothing() {
    let world = World::new();
    let kit = || world.kit();
    let error = lazaret_driver::Kit::new("Not A Name", world.cluster.client())
        .start(world.driver())
        .await
        .unwrap_err();
    assert!(matches!(error, StartError::Name(..)), "{error}");
    let error = kit().rolling_update("../x").start(world.driver()).await.unwrap_err();
    assert!(matches!(error, StartError::PodUid(_)), "{error}");
    let error = kit().pools(pools(1)).start(world.driver()).await.unwrap_err();
    assert!(matches!(error, StartError::NoScope), "{error}");
    let twice = [(
        "pool".to_owned(),
        lazaret_driver::Pool::of([crate::world::devices(1), crate::world::devices(1)].concat()),
    )];
    let error = kit().node("n").pools(twice.into()).start(world.driver()).await.unwrap_err();
    assert!(matches!(error, StartError::Pools(_)), "{error}");
    let long = world.root.path().join("x".repeat(120));
    let error = kit().data_directory(long).start(world.driver()).await.unwrap_err();
    assert!(matches!(error, StartError::Socket(_)), "{error}");
    let registry = world.root.path().join("plugins_registry");
    assert_eq!(std::fs::read_dir(registry).unwrap().count(), 0);
}

#[tokio::test]
async fn two_instances_overlap_and_their_calls_do_not() {
    let world = World::new();
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    let start = |uid: &str| world.kit().rolling_update(uid).start(world.driver());
    let (old, new) = (start("uid-old").await.unwrap(), start("uid-new").await.unwrap());
    assert_ne!(old.sockets(), new.sockets());
    let data = world.root.path().join("plugins").join(DRIVER);
    let mut calls = tokio::task::JoinSet::new();
    for round in 0..20 {
        let socket =
            if round % 2 == 0 { old.sockets().service.clone() } else { new.sockets().service.clone() };
        let request = of(&[&claim]);
        calls.spawn(async move {
            let answer: PrepareResponse =
                connect(&socket).await.call(proto::PREPARE_V1, request).await.unwrap();
            assert_eq!(answer.claims.len(), 1);
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    assert!(data.join("serialize.lock").exists());
    assert_eq!(world.script.most_inside.load(std::sync::atomic::Ordering::SeqCst), 1);
    // The old one goes; the new one is still there.
    old.stop().await;
    new.probe().await.unwrap();
    assert_eq!(std::fs::read_dir(world.root.path().join("plugins_registry")).unwrap().count(), 1);
}

#[tokio::test]
async fn garbage_and_silence_on_a_socket_harm_nobody() {
    let world = World::new();
    let running = world.started().await;
    let sockets = running.sockets().clone();
    let mut bodies: Vec<Vec<u8>> = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 100_000], Vec::new()];
    let mut seed = 7_u64;
    for round in 0..100 {
        let mut body = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        for _ in 0..round * 3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            body.push(seed.to_be_bytes()[0]);
        }
        bodies.push(body);
    }
    let sockets_hit = sockets.clone();
    tokio::task::spawn_blocking(move || {
        for body in &bodies {
            raw::garbage(&sockets_hit.registration, body);
            raw::garbage(&sockets_hit.service, body);
        }
    })
    .await
    .unwrap();
    // Clients that connect and send nothing.
    let silent: Vec<_> =
        (0..20).map(|_| std::os::unix::net::UnixStream::connect(&sockets.service).unwrap()).collect();
    running.probe().await.unwrap();
    drop(silent);
}

#[tokio::test]
async fn a_connection_is_used_for_many_calls_and_an_unknown_call_is_unimplemented() {
    let world = World::new();
    let running = world.started().await;
    let mut client = connect(&running.sockets().service).await;
    for _ in 0..50 {
        let answer: PrepareResponse = client.call(proto::PREPARE_V1, ClaimsRequest::default()).await.unwrap();
        assert!(answer.claims.is_empty());
    }
    let unknown: Result<PrepareResponse, _> =
        client.call("/v9.DRAPlugin/Explode", ClaimsRequest::default()).await;
    assert_eq!(unknown.unwrap_err().code(), tonic::Code::Unimplemented);
    let health: Result<tonic::Streaming<proto::WatchResponse>, _> =
        client.watch(proto::WATCH_V1, proto::WatchRequest {}).await;
    assert_eq!(health.unwrap_err().code(), tonic::Code::Unimplemented, "kubelet stops asking");
}
