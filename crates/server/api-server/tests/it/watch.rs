//! Watches: no gap, no repeat, seen through a selector.

use std::time::Duration;

use crate::support::Api;
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::Body;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The events of a watch, one after the other.
struct Events {
    body: Body,
    rest: Vec<u8>,
}

impl Events {
    async fn open(api: &Api, path: &str) -> Self {
        Self { body: api.stream(path).await, rest: Vec::new() }
    }

    /// The next event; `None` when the stream has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(Duration::from_secs(180), self.body.frame())
                .await
                .expect("an event in time")?;
            self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    /// `TYPE name` of the next event.
    async fn brief(&mut self) -> String {
        let event = self.next().await.expect("the stream goes on");
        format!(
            "{} {}",
            event["type"].as_str().unwrap(),
            event["object"]["metadata"]["name"].as_str().unwrap_or_default()
        )
    }
}

async fn create(api: &Api, name: &str, labels: Value) -> Value {
    api.post(MAPS, &json!({"metadata": {"name": name, "labels": labels}})).await.expect(201)
}

#[tokio::test]
async fn a_watch_goes_on_where_the_list_ended() {
    for api in Api::over_each_store().await {
        create(&api, "a", json!({})).await;
        let list = api.get(MAPS).await.expect(200);
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        create(&api, "b", json!({})).await;
        api.delete(&format!("{MAPS}/a"), None).await.expect(200);
        let mut events = Events::open(&api, &format!("{MAPS}?watch=true&resourceVersion={revision}")).await;
        assert_eq!(events.brief().await, "ADDED b");
        let deleted = events.next().await.unwrap();
        assert_eq!(deleted["type"], "DELETED");
        let last: u64 = deleted["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(last > revision.parse::<u64>().unwrap(), "a deletion carries its own revision");
        create(&api, "c", json!({})).await;
        assert_eq!(events.brief().await, "ADDED c");
    }
}

#[tokio::test]
async fn a_selector_turns_changes_into_coming_and_going() {
    for api in Api::over_each_store().await {
        let mut events = Events::open(&api, &format!("{MAPS}?watch=1&labelSelector=on%3Dyes")).await;
        create(&api, "a", json!({"on": "no"})).await;
        create(&api, "b", json!({"on": "yes"})).await;
        assert_eq!(events.brief().await, "ADDED b");
        let label = |value: &str| json!({"metadata": {"labels": {"on": value}}});
        let merge = "application/merge-patch+json";
        api.patch(&format!("{MAPS}/a"), merge, &label("yes")).await.expect(200);
        assert_eq!(events.brief().await, "ADDED a");
        api.patch(&format!("{MAPS}/a"), merge, &json!({"data": {"k": "v"}})).await.expect(200);
        assert_eq!(events.brief().await, "MODIFIED a");
        api.patch(&format!("{MAPS}/a"), merge, &label("no")).await.expect(200);
        assert_eq!(events.brief().await, "DELETED a");
        api.delete(&format!("{MAPS}/a"), None).await.expect(200);
        api.delete(&format!("{MAPS}/b"), None).await.expect(200);
        assert_eq!(events.brief().await, "DELETED b", "what was not selected is not missed");
    }
}

#[tokio::test]
async fn a_streaming_list_says_when_it_has_told_everything() {
    for api in Api::over_each_store().await {
        create(&api, "a", json!({})).await;
        let query =
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut events = Events::open(&api, &format!("{MAPS}?{query}")).await;
        assert_eq!(events.brief().await, "ADDED a");
        let bookmark = events.next().await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        create(&api, "b", json!({})).await;
        assert_eq!(events.brief().await, "ADDED b");
        api.get(&format!("{MAPS}?watch=true&sendInitialEvents=true")).await.expect(422);
    }
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_up_and_one_of_a_name_sees_only_that() {
    let api = Api::start().await;
    let mut events =
        Events::open(&api, &format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Db&timeoutSeconds=1"))
            .await;
    create(&api, "a", json!({})).await;
    create(&api, "b", json!({})).await;
    assert_eq!(events.brief().await, "ADDED b");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn paths_of_old_watch_a_list_a_namespace_or_one_object() {
    let api = Api::start().await;
    create(&api, "a", json!({})).await;
    create(&api, "b", json!({})).await;
    for (path, expected) in [
        ("/api/v1/watch/namespaces/default/configmaps?watch=false", &["ADDED a", "ADDED b"][..]),
        ("/api/v1/watch/configmaps?limit=1", &["ADDED a", "ADDED b"]),
        ("/api/v1/watch/namespaces/default/configmaps/b?resourceVersion=0", &["ADDED b"]),
        ("/api/v1/watch/namespaces/default/configmaps/none?labelSelector=x", &[]),
        ("/api/v1/watch/namespaces/kube-system?allowWatchBookmarks=false", &["ADDED kube-system"]),
    ] {
        let mut events = Events::open(&api, &format!("{path}&timeoutSeconds=1")).await;
        for event in expected {
            assert_eq!(events.brief().await, *event, "{path}");
        }
        assert_eq!(events.next().await, None, "{path}");
    }
    let one = "/api/v1/watch/namespaces/default/configmaps/b";
    let contradiction = api.get(&format!("{one}?fieldSelector=metadata.name%3Da")).await.expect(400);
    assert_eq!(contradiction["message"], "fieldSelector metadata.name doesn't match requested name");
    api.post(one, &json!({})).await.expect(405);
    api.get("/api/v1/watch/namespaces/default/frobs").await.expect(404);
    api.get("/apis/apps/v1/watch/namespaces/default/deployments/a/status").await.expect(404);
    // A watch of a single object by path is a get.
    assert_eq!(api.get(&format!("{MAPS}/b?watch=true")).await.expect(200)["kind"], "ConfigMap");
}

#[tokio::test]
async fn a_long_backlog_arrives_whole_and_in_order() {
    for api in Api::over_each_store().await {
        let revision =
            api.get(MAPS).await.expect(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        for number in 0..200 {
            create(&api, &format!("m{number:03}"), json!({})).await;
        }
        let query = format!("watch=true&resourceVersion={revision}&timeoutSeconds=9223372036854775807");
        let mut events = Events::open(&api, &format!("{MAPS}?{query}")).await;
        for number in 0..200 {
            assert_eq!(events.brief().await, format!("ADDED m{number:03}"));
        }
    }
}
