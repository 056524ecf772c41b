//! Each request and each watch leaves a line at debug. One test, since the subscriber is of the whole process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "it/support/mod.rs"]
mod support;

use std::{
    fmt::{Debug, Write},
    sync::Mutex,
};

use http_body_util::BodyExt;
use lazaret_json::json;
use support::Api;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const TARGET: &str = "lazaret_server::access_log";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the lines of the access log, without durations.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        LINES.lock().unwrap().push(format!("{}:{}", line.message, line.fields));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "duration_us" => {}
            name => write!(self.fields, " {name}={value:?}").unwrap(),
        }
    }
}

fn lines() -> Vec<String> {
    std::mem::take(&mut LINES.lock().unwrap())
}

#[tokio::test]
async fn each_request_and_each_watch_is_logged() {
    tracing::subscriber::set_global_default(Lines).unwrap();
    let api = Api::start().await;
    lines();
    api.post(MAPS, &json!({"metadata": {"name": "a"}})).await.expect(201);
    api.get(&format!("{MAPS}?labelSelector=secret")).await.expect(200);
    api.get(&format!("{MAPS}/b")).await.expect(404);
    api.get("/version").await.expect(200);
    assert_eq!(
        lines(),
        [
            r#"request: user="tester" verb="POST" resource="configmaps" path="/api/v1/namespaces/default/configmaps" code=201"#,
            r#"request: user="tester" verb="LIST" resource="configmaps" path="/api/v1/namespaces/default/configmaps" code=200"#,
            r#"request: user="tester" verb="GET" resource="configmaps" path="/api/v1/namespaces/default/configmaps/b" code=404"#,
            r#"request: user="tester" verb="GET" resource="" path="/version" code=200"#,
        ]
    );

    let mut watch = api
        .stream(&format!("{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"))
        .await;
    watch.frame().await.unwrap().unwrap();
    assert!(lines()[0].contains(r#"verb="WATCH""#));
    drop(watch);
    assert_eq!(lines(), [r#"watch ended: user="tester" resource="configmaps" events=1"#]);
}
