//! Plugins that answer garbage, too much, or never. The pod waits with an event that says why; all others go on.

use lazaret_driver::proto::{
    self, DeviceMessage, PrepareResponse, PreparedClaim, UnprepareResponse, UnpreparedClaim,
};
use prost::Message;

use crate::{
    plugin::{Plugin, Reply, prepared},
    world::{World, until},
};

const GOOD: &str = "good.example.com";
const BAD: &str = "bad.example.com";
const V1: &[&str] = &["v1.DRAPlugin"];

/// A name, an answer to Prepare, and what the event says.
type Row = (&'static str, fn(&[u8]) -> Reply, &'static str);
/// The same for calls whose answer does not depend on what was asked.
type FixedRow = (&'static str, fn() -> Reply, &'static str);

/// The usual answer with every claim changed.
fn changed(body: &[u8], change: impl Fn(&mut PreparedClaim)) -> Reply {
    let mut answer = prepared(body);
    answer.claims.values_mut().for_each(change);
    Reply::Message(answer.encode_to_vec())
}

fn with_device(body: &[u8], change: impl Fn(&mut DeviceMessage)) -> Reply {
    changed(body, |claim| claim.devices.iter_mut().for_each(&change))
}

#[tokio::test]
async fn a_plugin_that_answers_garbage_harms_nobody_else_and_recovers() {
    let rows: [Row; 11] = [
        ("garbage", |_| Reply::Bytes(vec![0, 0, 0, 0, 3, 0xff, 0xff, 0xff]), "Internal: "),
        ("no frame", |_| Reply::Bytes(vec![9; 64]), "Internal: "),
        ("too large", |_| Reply::Message(vec![0; 10 << 20]), "OutOfRange: "),
        (
            "too many devices",
            |body| {
                changed(body, |claim| {
                    let one = claim.devices[0].clone();
                    claim.devices = vec![one; 1_000];
                })
            },
            "1000 devices for one ResourceClaim",
        ),
        (
            "device name",
            |body| with_device(body, |device| device.device_name = "../../../etc/passwd".into()),
            "device name",
        ),
        ("no pool", |body| with_device(body, |device| device.pool_name.clear()), "pool name"),
        (
            "CDI name",
            |body| with_device(body, |device| device.cdi_device_ids = vec!["$(reboot)".into()]),
            "CDI device ID",
        ),
        ("no claims", |_| Reply::Message(PrepareResponse::default().encode_to_vec()), "skipped 1"),
        (
            "other claims",
            |body| {
                let mut answer = prepared(body);
                answer.claims.insert("x".into(), PreparedClaim::default());
                Reply::Message(answer.encode_to_vec())
            },
            "was not asked about",
        ),
        ("long error", |body| changed(body, |claim| claim.error = "no ".repeat(1 << 20)), "no no no"),
        ("status", |_| Reply::Status(13, "on fire"), "on fire"),
    ];
    let world = World::new().await;
    let _good = Plugin::start(world.root(), GOOD, V1, |_, _| None);
    let agent = world.agent();
    for (number, (name, answer, part)) in rows.into_iter().enumerate() {
        let mut is_first = true;
        let bad = Plugin::start(world.root(), BAD, V1, move |path, body| {
            let is_prepare = path == proto::PREPARE_V1;
            (is_prepare && std::mem::take(&mut is_first)).then(|| answer(body))
        });
        let (bad_pod, good_pod) = (format!("bad-{number}"), format!("good-{number}"));
        let uid = world.pod(&bad_pod, BAD, &format!("gpu-{number}")).await;
        let event = world.until_event(&bad_pod, part).await;
        assert_eq!(event.reason.as_deref(), Some("FailedPrepareDynamicResources"), "{name}");
        assert!(event.message.unwrap().len() <= 1_024, "{name}");
        let other = world.pod(&good_pod, GOOD, &format!("gpu-{number}")).await;
        world.until_offered(&other).await;
        // The second attempt is answered as it should be.
        assert_eq!(world.until_offered(&uid).await.len(), 1, "{name}");
        bad.stop().await;
    }
    // Nothing leaks: with their plugin back, all of them can go.
    let _bad = Plugin::start(world.root(), BAD, V1, |_, _| None);
    for number in 0..11 {
        for name in [format!("bad-{number}"), format!("good-{number}")] {
            world.delete(&name, &kube::api::DeleteParams::default()).await;
            world.until_gone(&name).await;
        }
    }
    world.until_nothing_is_prepared().await;
    assert_eq!(std::fs::read_dir(world.options().offers()).unwrap().count(), 0);
    agent.stop().await;
}

/// A pod whose plugin answers rubbish to Unprepare stays, with an event, until it is answered well; others come and go.
#[tokio::test]
async fn a_plugin_that_answers_garbage_to_unprepare_keeps_its_pod_until_it_recovers() {
    let rows: [FixedRow; 6] = [
        ("garbage", || Reply::Bytes(vec![0, 0, 0, 0, 3, 0xff, 0xff, 0xff]), "Internal: "),
        ("too large", || Reply::Message(vec![0; 10 << 20]), "OutOfRange: "),
        ("no claims", || Reply::Message(UnprepareResponse::default().encode_to_vec()), "skipped 1"),
        (
            "other claims",
            || {
                let claims = [("x".to_owned(), UnpreparedClaim::default())];
                Reply::Message(UnprepareResponse { claims: claims.into() }.encode_to_vec())
            },
            "skipped 1",
        ),
        ("status", || Reply::Status(13, "on fire"), "on fire"),
        (
            "no message",
            || Reply::Bytes(Vec::new()),
            "unprepare dynamic resources: DRA driver bad.example.com",
        ),
    ];
    let world = World::new().await;
    let _good = Plugin::start(world.root(), GOOD, V1, |_, _| None);
    let agent = world.agent();
    for (number, (name, answer, part)) in rows.into_iter().enumerate() {
        let is_bad = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let is_asked = std::sync::Arc::clone(&is_bad);
        let bad = Plugin::start(world.root(), BAD, V1, move |path, _| {
            let is_unprepare = path == proto::UNPREPARE_V1;
            (is_unprepare && is_asked.load(std::sync::atomic::Ordering::SeqCst)).then(answer)
        });
        let (bad_pod, good_pod) = (format!("bad-{number}"), format!("good-{number}"));
        let uid = world.pod(&bad_pod, BAD, &format!("gpu-{number}")).await;
        world.until_offered(&uid).await;
        world.delete(&bad_pod, &kube::api::DeleteParams::default()).await;
        let event = world.until_event(&bad_pod, part).await;
        assert_eq!(event.reason.as_deref(), Some("FailedUnprepareDynamicResources"), "{name}");
        assert!(event.message.unwrap().len() <= 1_024, "{name}");
        let other = world.pod(&good_pod, GOOD, &format!("gpu-{number}")).await;
        world.until_offered(&other).await;
        world.delete(&good_pod, &kube::api::DeleteParams::default()).await;
        world.until_gone(&good_pod).await;
        assert!(world.pods().get_opt(&bad_pod).await.unwrap().is_some(), "{name}: it may still be prepared");
        assert_eq!(world.checkpoint().len(), 1, "{name}");
        is_bad.store(false, std::sync::atomic::Ordering::SeqCst);
        world.until_gone(&bad_pod).await;
        world.until_nothing_is_prepared().await;
        bad.stop().await;
    }
    assert_eq!(std::fs::read_dir(world.options().offers()).unwrap().count(), 0);
    agent.stop().await;
}

/// One that cannot say who it is is asked again; the others are registered meanwhile.
#[tokio::test]
async fn a_plugin_that_introduces_itself_with_garbage_is_asked_again() {
    let rows: [FixedRow; 4] = [
        ("garbage", || Reply::Bytes(vec![0, 0, 0, 0, 3, 0xff, 0xff, 0xff]), ""),
        ("too large", || Reply::Message(vec![0; 10 << 20]), ""),
        ("no message", || Reply::Bytes(Vec::new()), ""),
        ("status", || Reply::Status(13, "on fire"), ""),
    ];
    let world = World::new().await;
    let agent = world.agent();
    for (number, (name, answer, _)) in rows.into_iter().enumerate() {
        let mut is_first = true;
        let driver = format!("d{number}.example.com");
        let bad = Plugin::start(world.root(), &driver, V1, move |path, _| {
            (path == proto::GET_INFO && std::mem::take(&mut is_first)).then(answer)
        });
        let uid = world.pod(&format!("p{number}"), &driver, "gpu-0").await;
        world.until_offered(&uid).await;
        assert_eq!(bad.count("GetInfo"), 2, "{name}");
        bad.stop().await;
    }
    agent.stop().await;
}

#[tokio::test]
async fn plugins_that_never_answer_keep_only_their_own_pods_waiting() {
    let world = World::new().await;
    // One does not even say who it is, one refuses to hear that it is registered, one hangs in Prepare.
    let mute = Plugin::start(world.root(), "mute.example.com", V1, |path, _| {
        (path == proto::GET_INFO).then_some(Reply::Hang)
    });
    let deaf = Plugin::start(world.root(), "deaf.example.com", V1, |path, _| {
        (path == proto::NOTIFY).then_some(Reply::Status(2, "not interested"))
    });
    let bad =
        Plugin::start(world.root(), BAD, V1, |path, _| (path == proto::PREPARE_V1).then_some(Reply::Hang));
    let agent = world.agent();
    let hangs = world.pod("hangs", BAD, "gpu-0").await;
    until("Prepare was called", || async { (bad.count("NodePrepareResources") > 0).then_some(()) }).await;
    let _good = Plugin::start(world.root(), GOOD, V1, |_, _| None);
    let good = world.pod("good", GOOD, "gpu-0").await;
    world.until_offered(&good).await;
    assert!(world.offered(&hangs).is_none());
    // After the time that a call has, the pod says why it waits; others still come and go.
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(46)).await;
    tokio::time::resume();
    let event = world.until_event("hangs", "no answer within 45 s").await;
    assert_eq!(event.reason.as_deref(), Some("FailedPrepareDynamicResources"));
    until("both are tried again", || async {
        (mute.count("GetInfo") > 1 && deaf.count("NotifyRegistrationStatus") > 1).then_some(())
    })
    .await;
    world.pod("waits", "deaf.example.com", "gpu-0").await;
    agent.stop().await;
}

#[tokio::test]
async fn a_plugin_that_is_refused_hears_why_and_can_come_back() {
    let world = World::new().await;
    let agent = world.agent();
    let heard = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let ear = std::sync::Arc::clone(&heard);
    let wrong = Plugin::start(world.root(), BAD, &["v9.DRAPlugin"], move |path, body| {
        if path == proto::NOTIFY {
            let status = proto::RegistrationStatus::decode(body).unwrap();
            assert!(!status.plugin_registered);
            *ear.lock().unwrap() = status.error;
        }
        None
    });
    until("it was told", || async { (!heard.lock().unwrap().is_empty()).then_some(()) }).await;
    assert!(heard.lock().unwrap().contains("want one of"), "{}", heard.lock().unwrap());
    wrong.stop().await;
    let _right = Plugin::start(world.root(), BAD, V1, |_, _| None);
    let uid = world.pod("p", BAD, "gpu-0").await;
    world.until_offered(&uid).await;
    agent.stop().await;
}
