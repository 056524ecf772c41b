//! A listener that joins long after the others gets all objects by another list; the watch of the others goes on.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use lazaret_runtime::{Client, Hub, Inbox, Metrics, News, PODS};

use crate::views::Text;

fn event(name: &str, version: usize) -> String {
    let metadata = format!(r#"{{"name":"{name}","namespace":"n","uid":"u","resourceVersion":"{version}"}}"#);
    format!(r#"{{"type":"ADDED","object":{{"metadata":{metadata}}}}}"#) + "\n"
}

fn end(version: usize) -> String {
    let annotations = r#"{"k8s.io/initial-events-end":"true"}"#;
    let metadata = format!(r#"{{"resourceVersion":"{version}","annotations":{annotations}}}"#);
    format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{metadata}}}}}"#) + "\n"
}

/// Each list has one pod more than the one before; watches that begin at a version say nothing.
fn answer(request: &Request<Bytes>, lists: &AtomicUsize) -> Response<Text> {
    let streams = request.uri().query().unwrap_or_default().contains("sendInitialEvents=true");
    let text = if streams {
        let count = lists.fetch_add(1, Ordering::SeqCst) + 1;
        (1..=count).map(|number| event(&format!("pod-{number}"), number)).collect::<String>() + &end(count)
    } else {
        String::new()
    };
    Response::new(Text { text: Some(text.into()), ends: false })
}

async fn next(inbox: &mut Inbox) -> String {
    match inbox.next().await {
        News::Listed(_, objects, revision) => format!("{} at {revision}", objects.len()),
        News::Set(_, object) => format!("+{}", object.key.name),
        News::Gone(_, object) => format!("-{}", object.key.name),
        News::Barred(..) => "barred".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn who_joins_soon_shares_a_list_and_who_joins_late_causes_one() {
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let client = Client::direct(move |request: Request<Bytes>| {
        let answer = answer(&request, &counted);
        async move { answer }
    });
    let hub = Hub::new(client, Metrics::default());
    let mut first = hub.listen(&[PODS]);
    assert_eq!(next(&mut first).await, "1 at 1");
    let mut soon = hub.listen(&[PODS]);
    assert_eq!((next(&mut soon).await.as_str(), lists.load(Ordering::SeqCst)), ("1 at 1", 1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut late = hub.listen(&[PODS]);
    assert_eq!((next(&mut late).await.as_str(), lists.load(Ordering::SeqCst)), ("2 at 2", 2));
    assert_eq!((next(&mut first).await, next(&mut soon).await), ("+pod-2".into(), "+pod-2".into()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(first.is_empty() && soon.is_empty() && late.is_empty());
    assert_eq!(lists.load(Ordering::SeqCst), 2);
}
