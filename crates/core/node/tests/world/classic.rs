//! Classic claims: the sentences of the enhancement's section about kubelet.

use std::collections::BTreeMap;

use lazaret_node::{
    Action, Answer, Call, ClaimKind, ClaimView, ClassicCall, Input, Life, Millis, Outcome, PluginInfo,
    SeenNode, SeenPod, checkpoint,
};

use crate::script::{Script, claim, info, pod, well_classic};

const DRIVER: &str = "fabric.example.com";
/// Longer than the longest pause between two attempts.
const LONG: Millis = 61_000;

fn plugin(endpoint: &str) -> PluginInfo {
    let (kind, services) = ("ResourcePlugin".into(), vec!["1.0.0".to_owned()]);
    PluginInfo { kind, services, ..info(DRIVER, endpoint) }
}

/// A socket of the registration directory becomes a plugin.
fn introduce(script: &mut Script, info: PluginInfo) -> Option<String> {
    let (id, _) = script.take("AskPlugin", |action| matches!(action, Action::AskPlugin { .. }));
    script.answer(id, Outcome::Plugin(info));
    let (id, told) = script.take("NotifyPlugin", |action| matches!(action, Action::NotifyPlugin { .. }));
    script.answer(id, Outcome::Done);
    let Action::NotifyPlugin { error, .. } = told else { panic!() };
    error
}

/// A node with both plugins of a driver, at one endpoint.
fn with_both(file: Option<&[u8]>) -> Script {
    let mut script = Script::restore(0, file);
    script.wiped();
    script.sockets(&[("/reg", 1)]);
    assert_eq!(script.introduce(DRIVER, "/dra"), None);
    script.sockets(&[("/reg", 1), ("/cls", 2)]);
    assert_eq!(introduce(&mut script, plugin("/dra")), None);
    for kind in [ClaimKind::Structured, ClaimKind::Classic] {
        let (driver, endpoint) = (DRIVER.to_owned(), "/dra".to_owned());
        script.hear(Input::Connected { kind, driver, endpoint, is_connected: true });
    }
    script
}

fn classic(name: &str, pods: &[&str]) -> ClaimView {
    let mut view = claim(name, DRIVER, "none", pods);
    view.id.kind = ClaimKind::Classic;
    view.devices.clear();
    view.attributes = BTreeMap::from([("device".to_owned(), "fabric-3".to_owned())]);
    view
}

fn claims(views: Vec<ClaimView>) -> BTreeMap<String, ClaimView> {
    views.into_iter().map(|view| (format!("{:?} {}", view.id.kind, view.id.name), view)).collect()
}

/// A pod whose claims are classic ones.
fn user(uid: &str, names: &[&str]) -> SeenPod {
    let mut seen = pod(uid, names, Life::Wanted);
    seen.view.claims.iter_mut().for_each(|claim| claim.kind = ClaimKind::Classic);
    seen.containers[0].claims.iter_mut().for_each(|(_, used)| used.kind = ClaimKind::Classic);
    seen
}

fn warnings(script: &mut Script) -> Vec<String> {
    let mut all = Vec::new();
    script.asked.retain(|(_, action)| match action {
        Action::Warn { message, .. } => {
            all.push(message.clone());
            false
        }
        _ => true,
    });
    all
}

fn is_classic_call(action: &Action) -> bool {
    matches!(action, Action::CallClassic { .. })
}

fn is_read(action: &Action) -> bool {
    matches!(action, Action::ReadClaims { .. })
}

/// Answers everything up to the next call for a classic claim, which is given.
fn until_call(script: &mut Script, claims: &BTreeMap<String, ClaimView>) -> (u64, ClassicCall, String) {
    for _ in 0..20 {
        if script.has(is_classic_call) {
            let (id, action) = script.take("CallClassic", is_classic_call);
            let Action::CallClassic { call, claim, .. } = action else { panic!() };
            return (id, call, claim.name);
        }
        let (id, action) = script.asked.remove(0);
        let outcome = match action {
            Action::ReadClaims { names, .. } => {
                let mut all = crate::script::by_kind(claims);
                all.retain(|name, _| names.contains(name));
                Outcome::Claims(all)
            }
            _ => Outcome::Done,
        };
        script.answer(id, outcome);
    }
    panic!("no call in {:?}", script.asked)
}

#[test]
fn plugins_of_type_resource_plugin_register_and_others_do_not() {
    let mut script = with_both(None);
    script.sockets(&[("/reg", 1), ("/cls", 2), ("/more", 3)]);
    let twice = introduce(&mut script, plugin("/dra")).unwrap();
    assert!(twice.contains("endpoint /dra is already registered"), "{twice}");
    script.sockets(&[("/reg", 1), ("/cls", 2), ("/odd", 4)]);
    let odd = PluginInfo { services: vec!["v1.DRAPlugin".into()], ..plugin("/odd") };
    let odd = introduce(&mut script, odd).unwrap();
    assert!(odd.contains(r#"want one of ["1.0.0"]"#), "{odd}");
    script.sockets(&[("/reg", 1), ("/cls", 2), ("/csi", 5)]);
    let other = PluginInfo { kind: "CSIPlugin".into(), ..plugin("/csi") };
    assert!(introduce(&mut script, other).unwrap().contains("no handler registered for plugin type"));
    // Its socket goes: the other plugin of the driver stays, with its slices and its connection.
    script.asked.clear();
    script.sockets(&[("/reg", 1)]);
    let (_, gone) = script.take("Disconnect", |action| matches!(action, Action::Disconnect { .. }));
    assert!(matches!(gone, Action::Disconnect { kind: ClaimKind::Classic, .. }));
    assert!(!script.has(|action| matches!(action, Action::Disconnect { .. })));
    script.pass(LONG);
    assert!(!script.has(|action| matches!(action, Action::Wipe { .. })));
    assert!(script.node.is_usable(DRIVER));
}

#[test]
fn a_pod_starts_when_its_classic_and_its_structured_claim_are_prepared_and_gets_the_names_of_both() {
    let mut script = with_both(None);
    // The same name in both APIs: two claims.
    let all = claims(vec![claim("a", DRIVER, "gpu-0", &["p"]), classic("a", &["p"])]);
    let mut seen = pod("p", &["a"], Life::Wanted);
    let other = user("p", &["a"]);
    seen.view.claims.extend(other.view.claims);
    seen.containers[0].claims.extend(other.containers[0].claims.clone());
    script.hear(Input::Pods(vec![seen]));
    assert!(script.offered.is_empty());
    assert_eq!(
        script.work(&all),
        [format!("v1.DRAPlugin Prepare {DRIVER} a"), format!("classic Prepare {DRIVER} a")]
    );
    assert_eq!(script.offered["p"]["c"], [format!("{DRIVER}/gpu=a-uid"), format!("{DRIVER}/fabric=a-uid")]);
    script.hear(Input::Pod(pod("p", &["a"], Life::Ended)));
    assert_eq!(
        script.work(&all),
        [format!("v1.DRAPlugin Unprepare {DRIVER} a"), format!("classic Unprepare {DRIVER} a")]
    );
    assert!(script.node.claims().is_empty() && script.node.is_free("p"));
}

#[test]
fn each_classic_claim_is_a_call_of_its_own_with_its_attributes_and_then_its_names() {
    let mut script = with_both(None);
    let all = claims(vec![classic("a", &["p"]), classic("b", &["p"])]);
    script.hear(Input::Pods(vec![user("p", &["a", "b"])]));
    for name in ["a", "b"] {
        let (id, call, called) = until_call(&mut script, &all);
        assert!(!script.has(is_classic_call), "one at a time");
        let attributes = BTreeMap::from([("device".to_owned(), "fabric-3".to_owned())]);
        assert_eq!((call, called.as_str()), (ClassicCall::Prepare { attributes }, name));
        assert!(script.offered.is_empty(), "before the first pod that uses it starts");
        script.answer(id, Outcome::Answered(Answer::Classic(vec![format!("v/c={name}")])));
    }
    assert_eq!(script.offered["p"]["c"], ["v/c=a", "v/c=b"]);
    script.work(&all);
    script.hear(Input::Pod(pod("p", &[], Life::Ended)));
    let (_, call, called) = until_call(&mut script, &all);
    assert_eq!((call, called.as_str()), (ClassicCall::Unprepare { cdi_ids: vec!["v/c=a".into()] }, "a"));
}

#[test]
fn a_shared_classic_claim_is_prepared_once_and_unprepared_after_its_last_pod_ended() {
    let mut script = with_both(None);
    let all = claims(vec![classic("a", &["p", "q"])]);
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    assert_eq!(script.work(&all).len(), 1);
    script.hear(Input::Pod(user("q", &["a"])));
    assert_eq!(script.work(&all), [""; 0], "it is prepared");
    assert_eq!(script.offered["p"], script.offered["q"]);
    script.hear(Input::Pod(SeenPod { life: Life::Ended, ..user("p", &["a"]) }));
    assert_eq!(script.work(&all), [""; 0], "somebody uses it");
    assert!(script.node.is_free("p") && !script.node.is_free("q"));
    script.hear(Input::Pod(SeenPod { life: Life::Deleted, ..user("q", &["a"]) }));
    let is_delete = |action: &Action| matches!(action, Action::DeletePod(_));
    assert!(!script.has(is_delete), "the plugin first");
    let (id, ..) = until_call(&mut script, &all);
    assert!(!script.has(is_delete), "the plugin first");
    script.answer(id, Outcome::Answered(Answer::Classic(vec![])));
    script.store();
    assert!(script.has(is_delete));
}

#[test]
fn pods_that_may_not_use_their_classic_claim_do_not_run_and_are_told_why() {
    let rows: Vec<(Vec<ClaimView>, bool, &str)> = vec![
        (vec![], false, "ResourceClaim a not found"),
        (vec![claim("a", DRIVER, "gpu-0", &["p"])], false, "ResourceClaim a not found"),
        (vec![classic("a", &["q"])], false, "pod p (p) is not allowed to use ResourceClaim a (a-uid)"),
        (
            vec![ClaimView { drivers: None, ..classic("a", &["p"]) }],
            false,
            "ResourceClaim a is not allocated",
        ),
        (vec![classic("a", &["p"])], true, "ResourceClaim a was not created for pod p"),
    ];
    for (found, is_generated, part) in rows {
        let mut script = with_both(None);
        let mut seen = user("p", &["a"]);
        seen.view.claims[0].is_generated = is_generated;
        script.hear(Input::Pods(vec![seen]));
        script.find_claims(&claims(found));
        let told = warnings(&mut script);
        assert!(told.len() == 1 && told[0].contains(part), "{told:?}");
        assert!(script.offered.is_empty() && !script.has(is_classic_call));
    }
    // No plugin of the right type: that of structured claims does not do.
    let mut script = Script::with_driver(DRIVER);
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    script.find_claims(&claims(vec![classic("a", &["p"])]));
    let told = warnings(&mut script);
    assert!(told[0].contains("has registered no plugin of type ResourcePlugin"), "{told:?}");
    // It registers, and the pod need not wait for its next attempt.
    script.sockets(&[("/reg", 1), ("/cls", 2)]);
    assert_eq!(introduce(&mut script, plugin("/cls-dra")), None);
    let done = script.work(&claims(vec![classic("a", &["p"])]));
    assert_eq!(done, [format!("classic Prepare {DRIVER} a")]);
}

#[test]
fn a_claim_of_the_same_name_waits_until_the_one_before_is_unprepared() {
    let mut script = with_both(None);
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    script.work(&claims(vec![classic("a", &["p"])]));
    let mut again = classic("a", &["q"]);
    again.id.uid = "another-uid".into();
    let all = claims(vec![again]);
    script.hear(Input::Pod(user("q", &["a"])));
    script.find_claims(&all);
    let told = warnings(&mut script);
    assert!(told[0].contains("an earlier one (a-uid) is still being unprepared"), "{told:?}");
    script.hear(Input::PodGone("p".into()));
    assert_eq!(script.work(&all), [format!("classic Unprepare {DRIVER} a")]);
    script.pass(LONG);
    assert_eq!(script.work(&all), [format!("classic Prepare {DRIVER} a")]);
}

#[test]
fn not_found_means_that_the_claim_is_read_before_the_next_attempt() {
    let mut script = with_both(None);
    let all = claims(vec![classic("a", &["p"])]);
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    let (mut pauses, mut told) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (id, ..) = until_call(&mut script, &all);
        script.answer(id, Outcome::Answered(Answer::NotFound("NotFound: no such resource".into())));
        told.append(&mut warnings(&mut script));
        let began = script.now;
        while !script.has(is_read) {
            assert!(!script.has(is_classic_call), "not before the claim was read");
            script.pass(100);
        }
        pauses.push((script.now - began) / 1_000);
    }
    assert_eq!(pauses, [1, 2, 4, 8]);
    assert!(told.len() == 1 && told[0].contains("no such resource"), "once a minute: {told:?}");
    // The claim is gone: its plugin is not called any more.
    script.find_claims(&BTreeMap::new());
    assert!(warnings(&mut script)[0].contains("ResourceClaim a not found"));
    assert!(!script.has(is_classic_call));
}

#[test]
fn a_claim_that_its_plugin_does_not_know_is_unprepared_only_if_there_is_none() {
    let mut script = with_both(None);
    let all = claims(vec![classic("a", &["p"])]);
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    script.work(&all);
    script.hear(Input::Pod(SeenPod { life: Life::Ended, ..user("p", &["a"]) }));
    let not_found = || Outcome::Answered(Answer::NotFound("no such resource".into()));
    let (id, ..) = until_call(&mut script, &all);
    script.answer(id, not_found());
    script.find_claims(&all);
    let told = warnings(&mut script);
    assert!(told[0].contains("it does not know the ResourceClaim, which exists"), "{told:?}");
    assert!(!script.node.is_free("p"));
    script.pass(LONG);
    let (id, ..) = until_call(&mut script, &all);
    script.answer(id, not_found());
    // Another claim of the same name is not this one.
    let mut other = classic("a", &["x"]);
    other.id.uid = "other-uid".into();
    script.find_claims(&claims(vec![other]));
    script.work(&all);
    assert!(script.node.is_free("p") && script.node.claims().is_empty());
}

#[test]
fn any_other_failure_is_retried_and_an_agent_that_restarts_half_way_calls_again() {
    let mut script = with_both(None);
    let all = claims(vec![classic("a", &["p"])]);
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    let (id, ..) = until_call(&mut script, &all);
    script.answer(id, Outcome::Answered(Answer::Failed("Internal: the cable is loose".into())));
    assert!(warnings(&mut script)[0].contains("the cable is loose"));
    script.pass(1_100);
    let (_, _, _) = until_call(&mut script, &all);
    // The outcome of the call is unknown. The claim is in the file, in a list that kubelet skips.
    let states = script.node.claims();
    assert_eq!((states.len(), states[0].kind), (1, ClaimKind::Classic));
    let file = checkpoint::write(&states).unwrap();
    let text = String::from_utf8(file.clone()).unwrap();
    assert!(
        text.contains(r#"\"ClaimInfoStateList\":[],\"ClassicClaimInfoStateList\":[{\"ClaimUID\":\"a-uid\""#)
    );
    assert_eq!(checkpoint::read(&file).unwrap(), states);
    let mut script = with_both(Some(&file));
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    assert_eq!(script.work(&all), [format!("classic Prepare {DRIVER} a")]);
    // And half-way through its end, with the pod gone meanwhile.
    let file = checkpoint::write(&script.node.claims()).unwrap();
    let mut script = with_both(Some(&file));
    script.hear(Input::Pods(vec![]));
    let (_, call, _) = until_call(&mut script, &BTreeMap::new());
    assert_eq!(call, ClassicCall::Unprepare { cdi_ids: vec![format!("{DRIVER}/fabric=a-uid")] });
    assert_eq!(call.call(), Call::Unprepare);
}

#[test]
fn names_that_no_runtime_takes_are_refused() {
    for (ids, part) in [
        (vec!["fabric-3".to_owned()], "is not VENDOR/CLASS=NAME"),
        (vec!["v/c=a b".to_owned()], "part of a CDI device ID"),
        ((0..129).map(|number| format!("v/c=d{number}")).collect(), "129 CDI device IDs"),
    ] {
        let mut script = with_both(None);
        let all = claims(vec![classic("a", &["p"])]);
        script.hear(Input::Pods(vec![user("p", &["a"])]));
        let (id, ..) = until_call(&mut script, &all);
        script.answer(id, Outcome::Answered(Answer::Classic(ids)));
        let told = warnings(&mut script);
        assert!(told.len() == 1 && told[0].contains(part), "{told:?}");
        assert!(script.offered.is_empty());
    }
}

#[test]
fn a_classic_claim_that_is_waited_for_is_reported_when_it_is_unprepared_and_says_nothing_of_health() {
    let mut script = with_both(None);
    let all = claims(vec![classic("a", &["p"])]);
    script.hear(Input::Pods(vec![user("p", &["a"])]));
    script.work(&all);
    assert!(!script.has(|action| matches!(action, Action::ShowStatus { .. })));
    let awaiting = ["a-uid".to_owned()].into();
    script.hear(Input::Node(SeenNode { reports: true, awaiting, ..SeenNode::default() }));
    let is_report = |action: &Action| matches!(action, Action::Report(_));
    assert!(!script.has(is_report), "it is prepared");
    script.hear(Input::PodGone("p".into()));
    let (id, call, _) = until_call(&mut script, &all);
    assert!(!script.has(is_report), "not before the plugin has done it");
    let claim = classic("a", &[]).id;
    script.answer(id, Outcome::Answered(Answer::Classic(well_classic(&call, DRIVER, &claim))));
    script.store();
    let (_, report) = script.take("Report", is_report);
    assert_eq!(report, Action::Report(["a-uid".to_owned()].into()));
}
