//! The plugin of a classic driver: one claim a call.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use lazaret_driver::{
    ClaimRef, ClassicClaim, ClassicDriver, ClassicFailure, ClassicKit, Client, Failure, Registration,
    proto::{
        self, ClassicPrepareRequest, ClassicPrepareResponse, ClassicUnprepareRequest,
        ClassicUnprepareResponse, InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
    },
};
use tokio::sync::Notify;
use tonic::{Code, Status};

use crate::world::{DRIVER, connect};

const UID: &str = "0b9e7a52-0000-4000-8000-000000000000";

type Prepared = Result<Vec<String>, ClassicFailure>;

/// A driver that a test controls, and its calls.
#[derive(Clone, Default)]
struct ScriptedDriver(Arc<Script>);

#[derive(Default)]
struct Script {
    answer: Mutex<Option<Prepared>>,
    holds: Mutex<Option<Arc<Notify>>>,
    prepared: Mutex<Vec<ClassicClaim>>,
    unprepared: Mutex<Vec<ClaimRef>>,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
}

impl ClassicDriver for ScriptedDriver {
    async fn prepare(&self, claim: &ClassicClaim) -> Prepared {
        let script = &self.0;
        let inside = script.inside.fetch_add(1, Ordering::SeqCst) + 1;
        script.most_inside.fetch_max(inside, Ordering::SeqCst);
        let hold = script.holds.lock().unwrap().clone();
        if let Some(hold) = hold {
            hold.notified().await;
        }
        tokio::task::yield_now().await;
        script.inside.fetch_sub(1, Ordering::SeqCst);
        script.prepared.lock().unwrap().push(claim.clone());
        let answer = script.answer.lock().unwrap().clone();
        let device = claim.attributes.get("device").cloned().unwrap_or_default();
        answer.unwrap_or_else(|| Ok(vec![format!("{DRIVER}/fabric={}-{device}", claim.id.uid)]))
    }

    async fn unprepare(&self, claim: &ClaimRef) -> Result<(), ClassicFailure> {
        self.0.unprepared.lock().unwrap().push(claim.clone());
        Ok(())
    }
}

fn request(uid: &str) -> ClassicPrepareRequest {
    ClassicPrepareRequest {
        resource_uid: uid.into(),
        namespace: "ns".into(),
        name: "c".into(),
        attributes: BTreeMap::from([("device".to_owned(), "fabric-3".to_owned())]),
    }
}

async fn prepare(node: &mut Client, request: ClassicPrepareRequest) -> Result<Vec<String>, Status> {
    let answer: ClassicPrepareResponse = node.call(proto::CLASSIC_PREPARE, request).await?;
    Ok(answer.cdi_device)
}

async fn unprepare(node: &mut Client, first: &[&str], second: &[&str], name: &str) -> Result<(), Status> {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let namespace = if name.is_empty() { String::new() } else { "ns".into() };
    let (resource_id, cdi_device, name) = (list(first), list(second), name.to_owned());
    let request = ClassicUnprepareRequest { resource_id, cdi_device, namespace, name };
    let _: ClassicUnprepareResponse = node.call(proto::CLASSIC_UNPREPARE, request).await?;
    Ok(())
}

#[tokio::test]
async fn a_classic_plugin_registers_and_prepares_and_unprepares_one_claim_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let scripted = ScriptedDriver::default();
    let running = ClassicKit::new(DRIVER).kubelet_root(root.path()).start(scripted.clone()).unwrap();
    let sockets = running.sockets().clone();
    for socket in [&sockets.registration, &sockets.service] {
        let mode = socket.symlink_metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", socket.display());
    }
    let mut registration = connect(&sockets.registration).await;
    let info: PluginInfo = registration.call(proto::GET_INFO, InfoRequest {}).await.unwrap();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("ResourcePlugin", DRIVER));
    assert_eq!(info.supported_versions, ["1.0.0"]);
    let yes = RegistrationStatus { plugin_registered: true, error: String::new() };
    let _: RegistrationStatusResponse = registration.call(proto::NOTIFY, yes).await.unwrap();
    assert_eq!(*running.registration().borrow(), Registration::Registered);

    let mut node = connect(info.endpoint.as_ref()).await;
    let wanted = format!("{DRIVER}/fabric={UID}-fabric-3");
    for _ in 0..2 {
        assert_eq!(prepare(&mut node, request(UID)).await.unwrap(), [wanted.as_str()]);
    }
    let seen = scripted.0.prepared.lock().unwrap()[0].clone();
    let id = ClaimRef { namespace: "ns".into(), name: "c".into(), uid: UID.into() };
    assert_eq!((&seen.id, seen.attributes["device"].as_str()), (&id, "fabric-3"));
    // With the text's own field numbers, and as the agent sends it.
    unprepare(&mut node, &[UID, &wanted], &[], "").await.unwrap();
    unprepare(&mut node, &[UID], &[&wanted], "c").await.unwrap();
    let unprepared = scripted.0.unprepared.lock().unwrap().clone();
    assert_eq!(unprepared[1], id);
    assert_eq!((unprepared[0].uid.as_str(), unprepared[0].name.as_str()), (UID, ""));
    running.stop().await;
    assert!(!sockets.registration.exists() && !sockets.service.exists());
}

#[tokio::test]
async fn classic_errors_are_status_codes() {
    let root = tempfile::tempdir().unwrap();
    let scripted = ScriptedDriver::default();
    let running = ClassicKit::new(DRIVER).kubelet_root(root.path()).start(scripted.clone()).unwrap();
    let mut node = connect(&running.sockets().service).await;
    let named = |namespace: &str, name: &str| ClassicPrepareRequest {
        namespace: namespace.into(),
        name: name.into(),
        ..request(UID)
    };
    let large = BTreeMap::from([("k".to_owned(), "x".repeat(64 << 10))]);
    for wrong in [
        request(""),
        request("../../etc/passwd"),
        named("../etc", "c"),
        named("ns", "a/b"),
        ClassicPrepareRequest { attributes: large, ..request(UID) },
    ] {
        assert_eq!(prepare(&mut node, wrong).await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(unprepare(&mut node, &[], &[], "c").await.unwrap_err().code(), Code::InvalidArgument);
    assert!(scripted.0.prepared.lock().unwrap().is_empty());
    let answers: [(Prepared, Code, &str); 4] = [
        (Err(ClassicFailure::NotFound("no such device".into())), Code::NotFound, "no such device"),
        (Err(Failure::new("the cable is loose").into()), Code::Internal, "the cable is loose"),
        (Ok(vec!["fabric-3".into()]), Code::Internal, "fabric-3"),
        (Ok((0..129).map(|at| format!("v.example.com/c=d{at}")).collect()), Code::Internal, "more than 128"),
    ];
    for (answer, code, part) in answers {
        *scripted.0.answer.lock().unwrap() = Some(answer);
        let failed = prepare(&mut node, request(UID)).await.unwrap_err();
        assert_eq!(failed.code(), code);
        assert!(failed.message().contains(part), "{failed}");
    }
    let twice = vec!["v.example.com/c=a".to_owned(); 2];
    *scripted.0.answer.lock().unwrap() = Some(Ok(twice));
    assert_eq!(prepare(&mut node, request(UID)).await.unwrap(), ["v.example.com/c=a"]);
    let other: Result<ClassicPrepareResponse, Status> = node.call(proto::PREPARE_V1, request(UID)).await;
    assert_eq!(other.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn calls_do_not_overlap_and_a_call_that_was_begun_is_finished() {
    let root = tempfile::tempdir().unwrap();
    let scripted = ScriptedDriver::default();
    let running = ClassicKit::new(DRIVER).kubelet_root(root.path()).start(scripted.clone()).unwrap();
    let hold = Arc::new(Notify::new());
    *scripted.0.holds.lock().unwrap() = Some(Arc::clone(&hold));
    let mut callers: Vec<Client> = Vec::new();
    for _ in 0..3 {
        callers.push(connect(&running.sockets().service).await);
    }
    // The first caller stops waiting.
    {
        let call = prepare(&mut callers[0], request(UID));
        tokio::pin!(call);
        while scripted.0.inside.load(Ordering::SeqCst) == 0 {
            tokio::select! {
                _ = &mut call => panic!("it is held"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let [_, second, third] = callers.as_mut_slice() else { panic!() };
    let more = async { tokio::join!(prepare(second, request("u-2")), prepare(third, request("u-3"))) };
    let release = async {
        for _ in 0..3 {
            hold.notify_one();
            let seen = scripted.0.prepared.lock().unwrap().len();
            while scripted.0.prepared.lock().unwrap().len() == seen {
                tokio::task::yield_now().await;
            }
        }
    };
    let ((second, third), ()) = tokio::join!(more, release);
    assert!(second.is_ok() && third.is_ok());
    assert_eq!(scripted.0.most_inside.load(Ordering::SeqCst), 1);
    assert!(scripted.0.prepared.lock().unwrap().iter().any(|claim| claim.id.uid == UID), "it was finished");
    running.stop().await;
}
