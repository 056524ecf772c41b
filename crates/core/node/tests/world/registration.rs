//! Plugins come and go; pods are prepared, shown and reported. Time is a number here.

use std::collections::BTreeMap;

use lazaret_node::{
    Action, Answer, Call, ClaimKind, DeviceHealth, HealthReport, Input, Life, Outcome, PluginInfo, SeenNode,
};

use crate::script::{Script, by_kind, claim, info, pod, well};

const DRIVER: &str = "d.example.com";

fn is_ask(action: &Action) -> bool {
    matches!(action, Action::AskPlugin { .. })
}

fn is_wipe(action: &Action) -> bool {
    matches!(action, Action::Wipe { .. })
}

fn is_call(action: &Action) -> bool {
    matches!(action, Action::Call { .. })
}

#[test]
fn plugins_are_asked_only_after_the_slices_of_the_time_before_are_wiped() {
    let mut script = Script::start();
    script.sockets(&[("/reg", 1)]);
    assert!(!script.has(is_ask));
    let (id, _) = script.take("Wipe", is_wipe);
    script.answer(id, Outcome::Failed("no server".into()));
    assert!(script.has(is_ask), "a server that is away keeps no plugin waiting");
    script.pass(1_000);
    assert!(script.has(is_wipe), "it is tried again");
}

#[test]
fn get_info_fails_then_recovers() {
    let mut script = Script::start();
    script.wiped();
    script.sockets(&[("/reg", 1)]);
    for pause in [500, 1_000, 2_000] {
        let (id, _) = script.take("AskPlugin", is_ask);
        script.answer(id, Outcome::Failed("connection refused".into()));
        script.pass(pause - 1);
        assert!(!script.has(is_ask), "before {pause} ms");
        script.pass(1);
    }
    assert_eq!(script.introduce(DRIVER, "/dra"), None);
}

#[test]
fn notify_registration_status_fails_then_recovers() {
    let mut script = Script::start();
    script.wiped();
    script.sockets(&[("/reg", 1)]);
    let (id, _) = script.take("AskPlugin", is_ask);
    script.answer(id, Outcome::Plugin(info(DRIVER, "/dra")));
    let (id, _) = script.take("NotifyPlugin", |action| matches!(action, Action::NotifyPlugin { .. }));
    script.answer(id, Outcome::Failed("timeout".into()));
    assert!(
        script.has(|action| matches!(action, Action::Disconnect { .. })),
        "it does not know: it is not registered"
    );
    script.pass(500);
    assert_eq!(script.introduce(DRIVER, "/dra"), None);
}

#[test]
fn a_plugin_that_restarts_at_the_same_path_is_registered_again() {
    let mut script = Script::with_driver(DRIVER);
    script.asked.clear();
    script.sockets(&[("/reg", 1)]);
    assert!(script.asked.is_empty(), "nothing changed");
    script.sockets(&[("/reg", 2)]);
    script.take("Disconnect", |action| matches!(action, Action::Disconnect { .. }));
    assert_eq!(script.introduce(DRIVER, "/dra"), None);
    script.take("Connect", |action| matches!(action, Action::Connect { .. }));
}

#[test]
fn a_second_registration_with_the_same_endpoint_hears_why_and_does_no_harm_to_the_first() {
    let mut script = Script::with_driver(DRIVER);
    script.asked.clear();
    script.sockets(&[("/reg", 1), ("/reg-2", 2)]);
    let refused = script.introduce(DRIVER, "/dra").unwrap();
    assert!(refused.contains(DRIVER) && refused.contains("/dra"), "{refused}");
    script.sockets(&[("/reg", 1)]);
    assert!(!script.has(|action| matches!(action, Action::Disconnect { .. })), "{:?}", script.asked);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com a"]);
}

#[test]
fn a_socket_that_goes_while_its_plugin_is_asked_registers_nothing() {
    let mut script = Script::start();
    script.wiped();
    script.sockets(&[("/reg", 1)]);
    let (id, _) = script.take("AskPlugin", is_ask);
    script.sockets(&[]);
    script.answer(id, Outcome::Plugin(info(DRIVER, "/dra")));
    assert!(!script.has(|action| matches!(action, Action::Connect { .. })), "{:?}", script.asked);
}

#[test]
fn plugins_with_names_that_are_not_allowed_are_refused_with_the_reason() {
    let good = || info(DRIVER, "/dra");
    let rows: Vec<(PluginInfo, &str)> = vec![
        (
            PluginInfo { kind: "CSIPlugin".into(), ..good() },
            "no handler registered for plugin type: CSIPlugin",
        ),
        (PluginInfo { driver: "../../x".into(), ..good() }, "driver name"),
        (PluginInfo { driver: "x".repeat(64), ..good() }, "driver name"),
        (PluginInfo { driver: String::new(), ..good() }, "driver name"),
        (PluginInfo { endpoint: "relative".into(), ..good() }, "absolute path"),
        (PluginInfo { endpoint: format!("/{}", "x".repeat(200)), ..good() }, "absolute path"),
        (PluginInfo { services: vec![], ..good() }, "no services"),
        (PluginInfo { services: vec!["1.0.0".into()], ..good() }, "is supported, want one of"),
        (PluginInfo { services: vec!["v1.DRAPlugin".into(); 33], ..good() }, "more than 32 services"),
        (PluginInfo { services: vec!["x".repeat(1 << 20)], ..good() }, "more than 128 bytes"),
    ];
    for (plugin, part) in rows {
        let mut script = Script::start();
        script.wiped();
        script.sockets(&[("/reg", 1)]);
        let (id, _) = script.take("AskPlugin", is_ask);
        script.answer(id, Outcome::Plugin(plugin));
        let (_, told) = script.take("NotifyPlugin", |action| matches!(action, Action::NotifyPlugin { .. }));
        let Action::NotifyPlugin { error: Some(error), .. } = told else { panic!("{part}: accepted") };
        assert!(error.contains(part) && error.len() < 1_024, "{part}: {error}");
        script.take("Warn", |action| matches!(action, Action::Warn { .. }));
        assert!(!script.has(|action| matches!(action, Action::Connect { .. })));
    }
}

#[test]
fn an_empty_endpoint_is_the_registration_socket() {
    let mut script = Script::start();
    script.wiped();
    script.sockets(&[("/reg", 1)]);
    assert_eq!(script.introduce(DRIVER, ""), None);
    let (_, connect) = script.take("Connect", |action| matches!(action, Action::Connect { .. }));
    let endpoint = "/reg".to_owned();
    let health = Some("v1.DRAResourceHealth");
    assert_eq!(
        connect,
        Action::Connect { kind: ClaimKind::Structured, driver: DRIVER.into(), endpoint, health }
    );
}

#[test]
fn slices_are_wiped_30_s_after_unregistration_or_while_the_connection_stays_down() {
    let of_driver = Action::Wipe { driver: Some(DRIVER.into()) };
    for lose in [
        |script: &mut Script| script.sockets(&[]),
        |script: &mut Script| script.connect(DRIVER, "/dra", false),
    ] {
        let mut script = Script::with_driver(DRIVER);
        script.pass(100_000);
        script.asked.clear();
        lose(&mut script);
        script.pass(29_999);
        assert!(!script.has(is_wipe));
        script.pass(1);
        assert!(script.has(|action| *action == of_driver));
    }
}

#[test]
fn a_quick_restart_and_a_rolling_update_keep_the_slices() {
    let mut script = Script::with_driver(DRIVER);
    script.asked.clear();
    // A restart: everything goes and comes back.
    script.sockets(&[]);
    script.pass(20_000);
    script.sockets(&[("/reg", 2)]);
    script.introduce(DRIVER, "/dra");
    script.connect(DRIVER, "/dra", true);
    script.pass(60_000);
    assert!(!script.has(is_wipe));
    // A rolling update: the new instance is there before the old one goes.
    script.sockets(&[("/reg", 2), ("/reg-new", 3)]);
    script.introduce(DRIVER, "/dra-new");
    script.connect(DRIVER, "/dra-new", true);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    script.find_claims(&claims);
    script.store();
    let (_, call) = script.take("Call", is_call);
    assert!(matches!(call, Action::Call { endpoint, .. } if endpoint == "/dra-new"), "the newest is called");
    script.sockets(&[("/reg-new", 3)]);
    script.connect(DRIVER, "/dra", false);
    script.pass(60_000);
    assert!(!script.has(is_wipe), "service went on");
}

#[test]
fn a_failed_update_falls_back_to_the_old_instance() {
    let mut script = Script::with_driver(DRIVER);
    script.sockets(&[("/reg", 1), ("/reg-new", 2)]);
    script.introduce(DRIVER, "/dra-new");
    // The new one never listens.
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.find_claims(&claims);
    script.store();
    let (_, call) = script.take("Call", is_call);
    assert!(matches!(call, Action::Call { endpoint, .. } if endpoint == "/dra"));
    assert!(!script.has(|action| matches!(action, Action::Wipe { driver: Some(_) })));
}

#[test]
fn a_driver_that_speaks_v1beta1_alone_is_called_by_it() {
    let mut script = Script::start();
    script.wiped();
    script.sockets(&[("/reg", 1)]);
    let (id, _) = script.take("AskPlugin", is_ask);
    let services = vec!["v1beta1.DRAPlugin".to_owned(), "v1alpha1.DRAResourceHealth".to_owned()];
    script.answer(id, Outcome::Plugin(PluginInfo { services, ..info(DRIVER, "/dra") }));
    let connect = |action: &Action| {
        matches!(action, Action::Connect { health: Some("v1alpha1.DRAResourceHealth"), .. })
    };
    assert!(script.has(connect));
    script.connect(DRIVER, "/dra", true);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    assert_eq!(script.work(&claims), ["v1beta1.DRAPlugin Prepare d.example.com a"]);
}

#[test]
fn a_timeout_keeps_the_pod_pending_and_is_tried_again() {
    let mut script = Script::with_driver(DRIVER);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    script.find_claims(&claims);
    script.store();
    let (id, _) = script.take("Call", is_call);
    let late = Answer::Failed("DeadlineExceeded: no answer within 45 s".into());
    script.answer(id, Outcome::Answered(late));
    let (_, warning) = script.take("Warn", |action| matches!(action, Action::Warn { .. }));
    let Action::Warn { pod: Some(about), reason, message } = warning else { panic!() };
    assert_eq!((about.name.as_str(), reason), ("p", "FailedPrepareDynamicResources"));
    assert!(
        message.starts_with("Failed to prepare dynamic resources: DRA driver d.example.com: "),
        "{message}"
    );
    assert!(!script.has(|action| matches!(action, Action::OfferDevices { .. })), "nothing is offered");
    script.pass(1_000);
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com a"]);
}

#[test]
fn a_driver_that_comes_late_wakes_the_pods_that_wait_for_it() {
    let mut script = Script::start();
    script.wiped();
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    script.work(&claims);
    script.pass(45_000);
    script.work(&claims);
    script.sockets(&[("/reg", 1)]);
    script.introduce(DRIVER, "/dra");
    script.connect(DRIVER, "/dra", true);
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com a"], "at once");
}

#[test]
fn the_same_warning_is_given_once_a_minute() {
    let mut script = Script::start();
    script.wiped();
    let is_warning = |action: &Action| matches!(action, Action::Warn { pod: Some(_), .. });
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    let mut warnings = 0;
    for _ in 0..600 {
        let reads: Vec<u64> = script
            .asked
            .iter()
            .filter(|(_, action)| matches!(action, Action::ReadClaims { .. }))
            .map(|(id, _)| *id)
            .collect();
        script.asked.retain(|(_, action)| is_warning(action));
        for id in reads {
            script.answer(id, Outcome::Claims(by_kind(&claims)));
        }
        warnings += script.asked.iter().filter(|(_, action)| is_warning(action)).count();
        script.asked.retain(|(_, action)| !is_warning(action));
        script.pass(1_000);
    }
    assert!((5..=11).contains(&warnings), "{warnings} warnings in 10 minutes");
}

#[test]
fn a_pod_created_while_the_agent_was_down_is_prepared_and_one_that_was_deleted_is_not() {
    let mut script = Script::with_driver(DRIVER);
    let claims = BTreeMap::from([
        ("a".to_owned(), claim("a", DRIVER, "gpu-0", &["new"])),
        ("b".to_owned(), claim("b", DRIVER, "gpu-1", &["old"])),
    ]);
    script.hear(Input::Pods(vec![pod("new", &["a"], Life::Wanted), pod("old", &["b"], Life::Deleted)]));
    assert!(script.has(|action| matches!(action, Action::DeletePod(pod) if pod.name == "old")));
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com a"]);
}

/// An agent that runs containers reports the end of a pod only when the pod holds nothing any more.
#[test]
fn a_pod_that_ended_is_free_when_its_claims_are_unprepared() {
    let mut script = Script::with_driver(DRIVER);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    let is_freed = |script: &Script, uid: &str| {
        script.has(|action| matches!(action, Action::Freed { pod_uid } if pod_uid == uid))
    };
    let uid = pod("p", &["a"], Life::Wanted).view.uid;
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    script.work(&claims);
    assert!(!script.node.is_free(&uid));
    script.hear(Input::Pod(pod("p", &["a"], Life::Ended)));
    assert!(!is_freed(&script, &uid) && !script.node.is_free(&uid), "the plugin first");
    while let Some(place) =
        script.asked.iter().position(|(_, action)| !matches!(action, Action::Freed { .. }))
    {
        let (id, action) = script.asked.remove(place);
        let outcome = match action {
            Action::Call { call, driver, claims, .. } => {
                Outcome::Answered(Answer::Claims(well(call, &driver, &claims)))
            }
            _ => Outcome::Done,
        };
        script.answer(id, outcome);
    }
    assert!(is_freed(&script, &uid) && script.node.is_free(&uid));
    let other = pod("q", &[], Life::Ended);
    let uid = other.view.uid.clone();
    script.hear(Input::Pod(other));
    assert!(is_freed(&script, &uid), "a pod without claims is free at once");
}

#[test]
fn prepare_is_called_even_if_no_container_uses_the_claim() {
    let mut script = Script::with_driver(DRIVER);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    let mut unused = pod("p", &["a"], Life::Wanted);
    unused.containers[0].claims.clear();
    script.hear(Input::Pods(vec![unused]));
    assert_eq!(script.work(&claims).len(), 1);
    assert!(!script.has(|action| matches!(action, Action::ShowStatus { .. })));
}

/// A node with a prepared pod.
fn prepared() -> (Script, BTreeMap<String, lazaret_node::ClaimView>) {
    let mut script = Script::with_driver(DRIVER);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.hear(Input::Pods(vec![pod("p", &["a"], Life::Wanted)]));
    script.work(&claims);
    (script, claims)
}

#[test]
fn a_pod_that_is_deleted_goes_only_after_its_devices_are_unprepared() {
    let (mut script, _) = prepared();
    script.hear(Input::Pod(pod("p", &["a"], Life::Deleted)));
    script.take("WithdrawDevices", |action| matches!(action, Action::WithdrawDevices { .. }));
    for error in ["busy", "still busy"] {
        let (id, call) = script.take("Call", is_call);
        assert!(matches!(call, Action::Call { call: Call::Unprepare, .. }));
        let answer = Answer::Claims([("a-uid".to_owned(), Err(error.to_owned()))].into());
        script.answer(id, Outcome::Answered(answer));
        assert!(!script.has(|action| matches!(action, Action::DeletePod(_))));
        script.pass(60_000);
    }
    let (id, call) = script.take("Call", is_call);
    let Action::Call { call, driver, claims, .. } = call else { panic!() };
    script.answer(id, Outcome::Answered(Answer::Claims(well(call, &driver, &claims))));
    let (id, _) = script.take("Checkpoint", |action| matches!(action, Action::Checkpoint { .. }));
    assert!(!script.has(|action| matches!(action, Action::DeletePod(_))), "the file first");
    script.answer(id, Outcome::Done);
    let (id, _) = script.take("DeletePod", |action| matches!(action, Action::DeletePod(_)));
    script.answer(id, Outcome::Done);
    script.hear(Input::PodGone("p".into()));
    assert!(script.node.claims().is_empty());
}

#[test]
fn a_force_deleted_pod_is_cleaned_up_though_its_status_lost_its_claims() {
    let (mut script, claims) = prepared();
    script.hear(Input::PodGone("p".into()));
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Unprepare d.example.com a"], "at once");
    // And after a restart, from the file alone, but only once all pods are known.
    let (mut script, claims) = prepared();
    let file = lazaret_node::checkpoint::write(&script.node.claims()).unwrap();
    script = Script::restore(1_000, Some(&file));
    script.wiped();
    script.sockets(&[("/reg", 1)]);
    script.introduce(DRIVER, "/dra");
    script.connect(DRIVER, "/dra", true);
    script.pass(120_000);
    assert!(!script.has(is_call), "pods are not listed yet");
    script.hear(Input::Pods(vec![]));
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Unprepare d.example.com a"]);
    assert!(script.node.claims().is_empty());
}

#[test]
fn a_device_that_is_prepared_for_another_claim_is_not_prepared_again() {
    let (mut script, mut claims) = prepared();
    claims.insert("b".to_owned(), claim("b", DRIVER, "gpu-0", &["q"]));
    script.hear(Input::Pod(pod("q", &["b"], Life::Wanted)));
    script.find_claims(&claims);
    let (_, warning) = script.take("Warn", |action| matches!(action, Action::Warn { .. }));
    let Action::Warn { message, .. } = warning else { panic!() };
    assert!(
        message.ends_with("device d.example.com/pool/gpu-0 is still prepared for ResourceClaim ns/a"),
        "{message}"
    );
    script.hear(Input::PodGone("p".into()));
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Unprepare d.example.com a"]);
    script.pass(60_000);
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com b"]);
    // Administration and shares exclude no other claim.
    let mut admin = claim("c", DRIVER, "gpu-0", &["r"]);
    admin.devices[0].is_admin = true;
    claims.insert("c".to_owned(), admin);
    script.hear(Input::Pod(pod("r", &["c"], Life::Wanted)));
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com c"]);
}

#[test]
fn a_claim_that_is_waited_for_is_answered_when_nothing_is_prepared_and_never_prepared_after() {
    let (mut script, mut claims) = prepared();
    let reports = |script: &mut Script| {
        let (id, report) = script.take("Report", |action| matches!(action, Action::Report(_)));
        script.answer(id, Outcome::Done);
        let Action::Report(claims) = report else { panic!() };
        claims.into_iter().collect::<Vec<_>>()
    };
    script.hear(Input::Node(SeenNode::default()));
    assert!(reports(&mut script).is_empty(), "it says that it reports");
    let awaiting = ["a-uid", "never-uid"].map(str::to_owned).into();
    script.hear(Input::Node(SeenNode { reports: true, awaiting, ..SeenNode::default() }));
    assert_eq!(reports(&mut script), ["never-uid"]);
    // A pod that is still seen, and whose claim is being taken back, is not prepared.
    claims.insert("never".to_owned(), claim("never", DRIVER, "gpu-1", &["q"]));
    script.hear(Input::Pod(pod("q", &["never"], Life::Wanted)));
    assert_eq!(script.work(&claims), [""; 0]);
    script.hear(Input::PodGone("p".into()));
    while let Some(at) = script.asked.iter().position(|(_, action)| !matches!(action, Action::Report(_))) {
        let (id, action) = script.asked.remove(at);
        match action {
            Action::Call { call, driver, claims, .. } => {
                assert!(
                    !script.has(|action| matches!(action, Action::Report(_))),
                    "not before the plugin has done it"
                );
                script.answer(id, Outcome::Answered(Answer::Claims(well(call, &driver, &claims))));
            }
            Action::Checkpoint { .. } => script.answer(id, Outcome::Done),
            _ => {}
        }
    }
    assert_eq!(reports(&mut script), ["a-uid", "never-uid"]);
    script.hear(Input::Node(SeenNode { reports: true, ..SeenNode::default() }));
    assert!(reports(&mut script).is_empty(), "nobody waits any more: what it said is taken back");
    assert!(!script.has(|action| matches!(action, Action::Report(_))), "once");
}

#[test]
fn health_is_shown_in_the_pod_changes_and_becomes_unknown() {
    let (mut script, _) = prepared();
    let health = |health, message: &str| Input::Health {
        driver: DRIVER.into(),
        endpoint: "/dra".into(),
        reports: vec![HealthReport {
            pool: "pool".into(),
            device: "gpu-0".into(),
            health,
            message: message.into(),
            timeout_s: 0,
        }],
    };
    let shown = |script: &mut Script| {
        let (id, status) = script.take("ShowStatus", |action| matches!(action, Action::ShowStatus { .. }));
        script.answer(id, Outcome::Done);
        let Action::ShowStatus { containers, .. } = status else { panic!() };
        let status = &containers["c"][0];
        let device = &status.resources[0];
        assert_eq!((status.name.as_str(), device.id.as_str()), ("claim:a", "d.example.com/gpu=a-uid"));
        (device.health, device.message.clone())
    };
    // `work` has written that the health is unknown.
    script.hear(health(DeviceHealth::Healthy, ""));
    assert_eq!(shown(&mut script), (DeviceHealth::Healthy, None));
    script.hear(health(DeviceHealth::Unhealthy, "on fire"));
    assert_eq!(shown(&mut script), (DeviceHealth::Unhealthy, Some("on fire".into())));
    script.hear(health(DeviceHealth::Unhealthy, "on fire"));
    assert!(!script.has(|action| matches!(action, Action::ShowStatus { .. })), "nothing new");
    script.pass(30_000);
    assert_eq!(shown(&mut script), (DeviceHealth::Unknown, None), "too long ago");
    script.hear(health(DeviceHealth::Healthy, ""));
    assert_eq!(shown(&mut script), (DeviceHealth::Healthy, None), "it recovers");
    script.hear(Input::HealthEnded { driver: DRIVER.into(), endpoint: "/dra".into() });
    assert_eq!(shown(&mut script), (DeviceHealth::Unknown, None), "the stream ended");
    script.sockets(&[]);
    script.hear(health(DeviceHealth::Healthy, ""));
    assert!(
        !script.has(|action| matches!(action, Action::ShowStatus { .. })),
        "it is not registered any more"
    );
}

#[test]
fn a_server_that_drops_the_status_is_not_asked_again_and_again() {
    let (mut script, _) = prepared();
    let mut writes = 0;
    for _ in 0..60 {
        // The watch brings the pod as the server has it: without the status.
        script.hear(Input::Pod(pod("p", &["a"], Life::Wanted)));
        while let Some(at) =
            script.asked.iter().position(|(_, action)| matches!(action, Action::ShowStatus { .. }))
        {
            let (id, _) = script.asked.remove(at);
            writes += 1;
            script.answer(id, Outcome::Done);
        }
        script.pass(1_000);
    }
    assert!(writes <= 2, "{writes} writes in a minute");
}

#[test]
fn each_container_gets_the_devices_of_its_own_claims_and_init_containers_do_too() {
    let mut script = Script::with_driver(DRIVER);
    let claims =
        ["a", "b"].map(|name| (name.to_owned(), claim(name, DRIVER, &format!("gpu-{name}"), &["p"])));
    let mut seen = pod("p", &["a", "b"], Life::Wanted);
    let used = seen.containers[0].claims.clone();
    let container = |name: &str, is_init, claims: &[_]| lazaret_node::ContainerUse {
        name: name.into(),
        is_init,
        claims: claims.to_vec(),
    };
    seen.containers = vec![
        container("init", true, &used),
        container("first", false, &used[..1]),
        container("second", false, &used[1..]),
        container("without", false, &[]),
    ];
    script.hear(Input::Pods(vec![seen]));
    script.work(&BTreeMap::from(claims));
    let (a, b) = ("d.example.com/gpu=a-uid".to_owned(), "d.example.com/gpu=b-uid".to_owned());
    let wanted =
        [("init", vec![a.clone(), b.clone()]), ("first", vec![a]), ("second", vec![b]), ("without", vec![])];
    assert_eq!(script.offered["p"], wanted.map(|(name, ids)| (name.to_owned(), ids)).into());
}

#[test]
fn a_status_that_the_server_drops_is_waited_with_and_not_looked_at_all_the_time() {
    let (mut script, _) = prepared();
    let health = |health| Input::Health {
        driver: DRIVER.into(),
        endpoint: "/dra".into(),
        reports: vec![HealthReport {
            pool: "pool".into(),
            device: "gpu-0".into(),
            health,
            message: String::new(),
            timeout_s: 600,
        }],
    };
    let answered = |script: &mut Script, outcome| {
        let (id, _) = script.take("ShowStatus", |action| matches!(action, Action::ShowStatus { .. }));
        script.answer(id, outcome);
    };
    script.hear(health(DeviceHealth::Healthy));
    answered(&mut script, Outcome::Done);
    script.hear(Input::Pod(pod("p", &["a"], Life::Wanted)));
    script.hear(health(DeviceHealth::Unhealthy));
    answered(&mut script, Outcome::Failed("no".into()));
    // This status was written before, and the server dropped it.
    script.hear(health(DeviceHealth::Healthy));
    script.pass(59_000);
    assert!(!script.has(|action| matches!(action, Action::ShowStatus { .. })));
    script.pass(2_000);
    answered(&mut script, Outcome::Done);
}

#[test]
fn statuses_filter_by_request_and_sub_request_and_name_devices_without_cdi() {
    let mut script = Script::with_driver(DRIVER);
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    let mut seen = pod("p", &["a"], Life::Wanted);
    seen.containers[0].claims[0].1.request = Some("big/first".into());
    script.hear(Input::Pods(vec![seen]));
    for _ in 0..2 {
        let is_early =
            |action: &Action| matches!(action, Action::ReadClaims { .. } | Action::Checkpoint { .. });
        let (id, action) = script.take("read and checkpoint", is_early);
        let read = matches!(action, Action::ReadClaims { .. });
        script.answer(id, if read { Outcome::Claims(by_kind(&claims)) } else { Outcome::Done });
    }
    let (id, _) = script.take("Call", is_call);
    let device = |name: &str, request: &str, cdi: &[&str], share: Option<&str>| lazaret_node::DeviceState {
        pool: "pool".into(),
        device: name.into(),
        share: share.map(str::to_owned),
        requests: vec![request.into()],
        cdi_ids: cdi.iter().map(|id| (*id).to_owned()).collect(),
    };
    let devices = vec![
        device("gpu-0", "big", &[], Some("aaaa-1")),
        device("gpu-1", "small", &["v/c=1"], None),
        device("gpu-2", "big", &["v/c=2", "v/c=x"], None),
        device("gpu-3", "big", &["v/c=2"], None),
    ];
    let answer = Answer::Claims([("a-uid".to_owned(), Ok(devices))].into());
    script.answer(id, Outcome::Answered(answer));
    script.store();
    let (_, status) = script.take("ShowStatus", |action| matches!(action, Action::ShowStatus { .. }));
    let Action::ShowStatus { containers, .. } = status else { panic!() };
    assert_eq!(containers["c"][0].name, "claim:a/big/first");
    let ids: Vec<&str> = containers["c"][0].resources.iter().map(|device| device.id.as_str()).collect();
    assert_eq!(ids, ["d.example.com/pool/gpu-0", "v/c=2"]);
    let (_, offer) = script.take("OfferDevices", |action| matches!(action, Action::OfferDevices { .. }));
    let Action::OfferDevices { containers, .. } = offer else { panic!() };
    assert_eq!(containers["c"], ["v/c=2", "v/c=x"]);
}
