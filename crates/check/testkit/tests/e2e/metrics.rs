//! Metrics for the server's operators.

use crate::support::{connect, object, refusal};
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams};
use lazaret_testkit::{Cluster, Features, User};
use serde_json::json;

async fn scrape(client: &Client) -> kube::Result<String> {
    client.request_text(Request::get("/metrics").body(Vec::new()).unwrap()).await
}

/// The value of the one series with this name and these labels.
#[track_caller]
fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |line: &&str| {
        let series = line.rsplit_once(' ').map_or("", |(series, _)| series);
        let (own, rest) = series.split_once('{').unwrap_or((series, ""));
        own == name && labels.iter().all(|(key, value)| rest.contains(&format!("{key}=\"{value}\"")))
    };
    let found: Vec<&str> = text.lines().filter(fits).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?} in\n{text}");
    found[0].rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn requests_watches_and_the_store_are_counted() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let maps: Api<Secret> = Api::default_namespaced(client.clone());
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &object(json!({"metadata": {"name": name}}))).await.unwrap();
    }
    let _ = maps.create(&PostParams::default(), &object(json!({"metadata": {"name": "a"}}))).await;
    let _ = maps.get_opt("nobody").await.unwrap();
    let watch = maps.watch(&Default::default(), "0").await.unwrap();
    let text = scrape(&client).await.unwrap();
    let posts = [("verb", "POST"), ("resource", "secrets"), ("scope", "resource")];
    let with = |code: &'static str| [posts[0], posts[1], ("code", code)];
    assert_eq!(value(&text, "apiserver_request_total", &with("201")), 2.0);
    assert_eq!(value(&text, "apiserver_request_total", &with("409")), 1.0);
    assert_eq!(
        value(&text, "apiserver_request_total", &[("verb", "GET"), ("resource", "secrets"), ("code", "404")]),
        1.0
    );
    assert_eq!(value(&text, "apiserver_request_duration_seconds_count", &posts), 3.0);
    assert_eq!(
        value(&text, "apiserver_longrunning_requests", &[("verb", "WATCH"), ("resource", "secrets")]),
        1.0
    );
    assert_eq!(value(&text, "apiserver_current_inflight_requests", &[("request_kind", "readOnly")]), 1.0);
    assert_eq!(value(&text, "apiserver_current_inflight_requests", &[("request_kind", "mutating")]), 0.0);
    assert_eq!(value(&text, "apiserver_resource_objects", &[("resource", "secrets")]), 2.0);
    assert_eq!(value(&text, "lazaret_store_revision", &[]), cluster.server().store().revision() as f64);
    assert!(value(&text, "lazaret_store_commit_duration_seconds_count", &[]) >= 2.0);
    assert!(text.ends_with("# EOF\n"));
    drop(watch);
    let ended = async {
        loop {
            let text = scrape(&client).await.unwrap();
            let labels = [("verb", "WATCH"), ("resource", "secrets")];
            if value(&text, "apiserver_longrunning_requests", &labels) == 0.0 {
                return;
            }
        }
    };
    crate::support::soon("the watch is counted out", ended).await;
}

#[tokio::test]
async fn numbers_are_for_those_who_may_see_them() {
    let cluster = Cluster::start();
    let user =
        |name: &str, group: &str| User { name: name.into(), groups: vec![group.into()], ..User::default() };
    let alice = cluster.client_as(user("alice", "system:authenticated"));
    assert_eq!(refusal(scrape(&alice).await).0, 403);
    let monitor = cluster.client_as(user("prometheus", "system:monitoring"));
    assert!(scrape(&monitor).await.unwrap().contains("apiserver_request_total"));
}

/// Requests for nonsense create no series.
#[tokio::test]
async fn nonsense_makes_no_series() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("apiserver_request_total")).count();
    let mut counts = Vec::new();
    for round in 0..3 {
        for path in [
            format!("/nonsense-{round}"),
            format!("/api/v1/things-{round}"),
            format!("/api/v1/namespaces/n{round}/pods/p{round}/sub{round}"),
            format!("/apis/g{round}/v1/x"),
        ] {
            let _ = client.request_text(Request::get(path).body(Vec::new()).unwrap()).await;
        }
        counts.push(lines(&scrape(&client).await.unwrap()));
    }
    assert_eq!(counts[1], counts[2]);
}

/// As Kubernetes tells them; `kubectl device` reads them.
#[tokio::test]
async fn feature_gates_are_told() {
    let mut features = Features::of("1.36".parse().unwrap());
    features.parse("DRAPartitionableDevices=false").unwrap();
    let cluster = Cluster::options().features(features).start().unwrap();
    let text = scrape(&connect(&cluster).await).await.unwrap();
    for (gate, stage, on) in [
        ("DRADeviceTaints", "BETA", 1.0),
        ("DRADeviceTaintRules", "BETA", 0.0),
        ("DRAPartitionableDevices", "BETA", 0.0),
        ("DRAAdminAccess", "", 1.0),
        ("DRAListTypeAttributes", "ALPHA", 0.0),
    ] {
        assert_eq!(
            value(&text, "kubernetes_feature_enabled", &[("name", gate), ("stage", stage)]),
            on,
            "{gate}"
        );
    }
}
