//! Lists and watches objects of this node.

use std::{fmt::Debug, time::Duration};

use futures_util::StreamExt;
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, time::timeout};
use tracing::warn;

use crate::api_words::api_words;

/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Objects of a list. A node has a few hundred pods.
const OBJECTS_MAX: usize = 4_096;
/// A watch is opened anew after this.
const WATCH_SECONDS: u32 = 290;
/// Without a word for longer than a watch lasts, it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// After a failed list or watch: the first pause, doubled with each failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How objects become news.
pub(crate) struct Reader<K, I> {
    pub(crate) what: &'static str,
    pub(crate) listed: fn(Vec<K>) -> Option<I>,
    pub(crate) set: fn(K) -> Option<I>,
    pub(crate) gone: fn(K) -> Option<I>,
}

/// Lists, watches, and lists again when the watch is lost.
pub(crate) async fn follow<K, I>(api: Api<K>, fields: String, reader: Reader<K, I>, news: mpsc::Sender<I>)
where
    K: Clone + Debug + DeserializeOwned + Resource,
{
    let mut pause = PAUSE_MIN;
    loop {
        let Err(error) = once(&api, &fields, &reader, &news, &mut pause).await else { return };
        if pause > PAUSE_MIN {
            warn!(error, "watch {}", reader.what);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One list and the watches after it, until something fails. `Ok` when the receiver is gone.
async fn once<K, I>(
    api: &Api<K>,
    fields: &str,
    reader: &Reader<K, I>,
    news: &mpsc::Sender<I>,
    pause: &mut Duration,
) -> Result<(), String>
where
    K: Clone + Debug + DeserializeOwned + Resource,
{
    let (mut objects, mut params) = (Vec::new(), ListParams::default().fields(fields).limit(PAGE));
    let mut version = loop {
        let page = timeout(LIST_TIMEOUT, api.list(&params))
            .await
            .map_err(|_| "the list takes too long".to_owned())?;
        let page = page.map_err(|error| api_words(&error))?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if objects.len() < OBJECTS_MAX => params.continue_token = Some(token),
            // Objects that were not read are not gone: the view before stays.
            Some(_) => return Err(format!("there are more than {OBJECTS_MAX} objects")),
            None => break page.metadata.resource_version.unwrap_or_default(),
        }
    };
    if !send(news, (reader.listed)(objects)).await {
        return Ok(());
    }
    *pause = PAUSE_MIN;
    loop {
        let params = WatchParams::default().fields(fields).timeout(WATCH_SECONDS);
        let events = api.watch(&params, &version).await.map_err(|error| api_words(&error))?;
        tokio::pin!(events);
        loop {
            let event = timeout(SILENCE_MAX, events.next()).await;
            let Some(event) = event.map_err(|_| "the watch is silent".to_owned())? else { break };
            let input = match event.map_err(|error| api_words(&error))? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    advance(&mut version, &object);
                    (reader.set)(object)
                }
                WatchEvent::Deleted(object) => {
                    advance(&mut version, &object);
                    (reader.gone)(object)
                }
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Err(status.message),
            };
            if !send(news, input).await {
                return Ok(());
            }
        }
    }
}

async fn send<I>(news: &mpsc::Sender<I>, input: Option<I>) -> bool {
    match input {
        Some(input) => news.send(input).await.is_ok(),
        None => true,
    }
}

fn advance<K: Resource>(version: &mut String, object: &K) {
    if let Some(newer) = &object.meta().resource_version {
        version.clone_from(newer);
    }
}
