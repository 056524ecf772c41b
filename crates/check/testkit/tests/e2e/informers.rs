//! Watches as informers use them: those of kube-rs, and the very requests of client-go's.

use std::collections::BTreeMap;

use crate::support::{connect, object, soon};
use futures_util::{AsyncBufReadExt, StreamExt, TryStreamExt, pin_mut};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::watcher::{self, Event, watcher},
};
use lazaret_testkit::Cluster;
use serde_json::{Value, json};

fn config(name: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name, "labels": {"on": "yes"}}}))
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> ConfigMap {
    maps.create(&PostParams::default(), &config(name)).await.unwrap()
}

/// Follows a watcher until it has seen `last` appear; says what it knows then.
async fn follow(maps: Api<ConfigMap>, config: watcher::Config, last: &str) -> BTreeMap<String, String> {
    let events = watcher(maps, config);
    pin_mut!(events);
    let mut known = BTreeMap::new();
    let entry = |map: ConfigMap| {
        (map.metadata.name.unwrap_or_default(), map.metadata.resource_version.unwrap_or_default())
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => known.clear(),
            Ok(Event::Apply(map) | Event::InitApply(map)) => known.extend([entry(map)]),
            Ok(Event::Delete(map)) => drop(known.remove(&entry(map).0)),
            Ok(Event::InitDone) => {}
            // The watcher tries again by itself.
            Err(_) => {}
        }
        if known.contains_key(last) {
            break;
        }
    }
    known
}

async fn changes_are_followed(config: watcher::Config) {
    let cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(connect(&cluster).await);
    for number in 0..50 {
        create(&maps, &format!("before-{number}")).await;
    }
    let follower = Box::pin(follow(maps.clone(), config, "last"));
    let writer = async {
        for number in 0..50 {
            create(&maps, &format!("while-{number}")).await;
            maps.delete(&format!("before-{number}"), &DeleteParams::default()).await.unwrap();
        }
        create(&maps, "last").await
    };
    let both = Box::pin(async { tokio::join!(follower, writer) });
    let (known, _) = soon("the follower knows all", both).await;
    let list = maps.list(&Default::default()).await.unwrap();
    let truth: BTreeMap<_, _> = list
        .items
        .into_iter()
        .map(|map| (map.metadata.name.unwrap(), map.metadata.resource_version.unwrap()))
        .collect();
    assert_eq!(known, truth);
}

#[tokio::test]
async fn a_watcher_that_lists_first_misses_nothing() {
    changes_are_followed(watcher::Config::default().labels("on=yes").page_size(7)).await;
}

#[tokio::test]
async fn a_watcher_with_a_streaming_list_misses_nothing() {
    changes_are_followed(watcher::Config::default().labels("on=yes").streaming_lists()).await;
}

#[tokio::test]
async fn a_watcher_finds_its_way_across_a_restart() {
    let mut cluster = Cluster::options().durable().start().unwrap();
    let client = connect(&cluster).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    create(&maps, "a").await;
    create(&maps, "gone").await;
    let seen = maps.clone();
    #[allow(clippy::disallowed_methods, reason = "a follower beside the test")]
    let follower = tokio::spawn(async move { follow(seen, watcher::Config::default(), "last").await });
    // By now it watches, or not yet: neither must matter.
    cluster.restart().unwrap();
    let inside: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    inside.delete("gone", &DeleteParams::default()).await.unwrap();
    create(&inside, "last").await;
    let known = soon("the follower sees what came after the restart", follower).await.unwrap();
    assert!(known.contains_key("a") && !known.contains_key("gone"), "{known:?}");
}

/// The lines of a raw watch, each an event.
async fn events(client: &Client, path: &str) -> impl futures_util::Stream<Item = Value> + use<> {
    let request = Request::get(path)
        .header("accept", "application/vnd.kubernetes.protobuf,application/json")
        .header("user-agent", "informer/v1.37")
        .body(Vec::new())
        .unwrap();
    let lines = client.request_stream(request).await.unwrap().lines();
    lines.map_ok(|line| serde_json::from_str(&line).unwrap()).map(Result::unwrap)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The request of a client-go reflector since streaming lists are its default.
#[tokio::test]
async fn an_informer_of_client_go_gets_its_marks() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let newest = create(&maps, "a").await.metadata.resource_version.unwrap();
    let query = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=400&watch=true";
    let stream = events(&client, &format!("{MAPS}?{query}")).await;
    pin_mut!(stream);
    let mut names = Vec::new();
    let mark = loop {
        let event = soon("the end of the initial events", stream.next()).await.unwrap();
        if event["type"] == "BOOKMARK" {
            break event;
        }
        assert_eq!(
            (event["type"].as_str(), event["object"]["kind"].as_str()),
            (Some("ADDED"), Some("ConfigMap"))
        );
        names.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
    };
    assert!(names.contains(&"a".to_owned()));
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let at: u64 = mark["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(at >= newest.parse().unwrap());

    // Where the mark is, a plain watch of the same informer goes on after a broken connection.
    let query = format!("allowWatchBookmarks=true&resourceVersion={at}&timeoutSeconds=400&watch=true");
    let later = events(&client, &format!("{MAPS}?{query}")).await;
    pin_mut!(later);
    let patch = json!({"data": {"k": "v"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    for stream in [&mut stream as &mut (dyn futures_util::Stream<Item = Value> + Unpin), &mut later] {
        let event = soon("the change", stream.next()).await.unwrap();
        assert_eq!(
            (event["type"].as_str(), event["object"]["data"]["k"].as_str()),
            (Some("MODIFIED"), Some("v"))
        );
    }
}

#[tokio::test]
async fn a_watch_from_before_a_restart_is_told_to_begin_again_or_goes_on_without_a_gap() {
    let mut cluster = Cluster::options().durable().start().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let from = create(&maps, "a").await.metadata.resource_version.unwrap();
    create(&maps, "b").await;
    cluster.restart().unwrap();
    let stream = events(&cluster.client(), &format!("{MAPS}?watch=true&resourceVersion={from}")).await;
    pin_mut!(stream);
    let first = soon("an event", stream.next()).await.unwrap();
    match first["type"].as_str() {
        Some("ERROR") => assert_eq!(first["object"]["code"], 410),
        _ => assert_eq!(
            (first["type"].as_str(), first["object"]["metadata"]["name"].as_str()),
            (Some("ADDED"), Some("b"))
        ),
    }
}
