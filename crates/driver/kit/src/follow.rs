//! Lists and watches the slices of a driver.

use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::{
    Api,
    api::{ListParams, WatchEvent, WatchParams},
};
use lazaret_publisher::Scope;
use tokio::sync::mpsc;
use tracing::debug;

use crate::{
    api_words::api_words,
    running::{Problem, Problems},
};

/// Slices of one page of a list.
const PAGE: u32 = 500;
/// A watch is opened anew after this.
const WATCH_SECONDS: u32 = 290;
/// Without a word for longer than a watch lasts, it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);
/// After a failed list or watch: the first pause, doubled with each failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// News from the server.
pub(crate) enum SliceEvent {
    Listed(Vec<ResourceSlice>, String),
    Set(Box<ResourceSlice>),
    Gone(Box<ResourceSlice>),
}

/// Which slices are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    fields: String,
    /// The pool, where there is just one. Servers before Kubernetes 1.37 cannot select it: then others are dropped here.
    pool: Option<String>,
    is_pool_selectable: bool,
}

impl Selection {
    pub(crate) fn new(driver: &str, scope: &Scope) -> Self {
        let fields = format!("spec.driver={driver},spec.nodeName={}", scope.node_name());
        Self { fields, pool: scope.only_pool().map(str::to_owned), is_pool_selectable: true }
    }

    fn selector(&self) -> String {
        match &self.pool {
            Some(pool) if self.is_pool_selectable => format!("{},spec.pool.name={pool}", self.fields),
            Some(_) | None => self.fields.clone(),
        }
    }

    fn has(&self, slice: &ResourceSlice) -> bool {
        self.pool.as_ref().is_none_or(|pool| slice.spec.pool.name == *pool)
    }
}

/// Why a list or a watch ended.
enum WatchError {
    /// The server does not know the selector.
    BadRequest,
    Other(String),
}

impl From<kube::Error> for WatchError {
    fn from(error: kube::Error) -> Self {
        let is_bad_request = matches!(&error, kube::Error::Api(status) if status.code == 400);
        if is_bad_request { Self::BadRequest } else { Self::Other(api_words(&error)) }
    }
}

/// Lists, watches, and lists again when the watch is lost. The second failure in a row is reported.
pub(crate) async fn follow(
    api: Api<ResourceSlice>,
    mut selection: Selection,
    news: mpsc::Sender<SliceEvent>,
    problems: Problems,
) {
    let mut pause = PAUSE_MIN;
    loop {
        let why = match once(&api, &selection, &news, &mut pause).await {
            Ok(()) => return,
            Err(WatchError::BadRequest) if selection.pool.is_some() && selection.is_pool_selectable => {
                debug!("the API server cannot select slices by pool");
                selection.is_pool_selectable = false;
                continue;
            }
            Err(WatchError::BadRequest) => "the server does not understand the request".to_owned(),
            Err(WatchError::Other(error)) => error,
        };
        debug!(why, "the watch of slices ended");
        tokio::time::sleep(pause).await;
        if pause == PAUSE_MIN * 2 {
            problems.report(Problem::Watch(why));
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One list and the watches after it, until something fails. `Ok` when the receiver is gone.
async fn once(
    api: &Api<ResourceSlice>,
    selection: &Selection,
    news: &mpsc::Sender<SliceEvent>,
    pause: &mut Duration,
) -> Result<(), WatchError> {
    let fields = selection.selector();
    let (mut slices, mut params) = (Vec::new(), ListParams::default().fields(&fields).limit(PAGE));
    let mut version = loop {
        let page = api.list(&params).await?;
        slices.extend(page.items.into_iter().filter(|slice| selection.has(slice)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break page.metadata.resource_version.unwrap_or_default(),
        }
    };
    if news.send(SliceEvent::Listed(slices, version.clone())).await.is_err() {
        return Ok(());
    }
    *pause = PAUSE_MIN;
    loop {
        let params = WatchParams::default().fields(&fields).timeout(WATCH_SECONDS);
        let events = api.watch(&params, &version).await?;
        tokio::pin!(events);
        loop {
            let event = tokio::time::timeout(SILENCE_MAX, events.next()).await;
            let Some(event) = event.map_err(|_| WatchError::Other("the watch is silent".into()))? else {
                break;
            };
            let (slice, is_gone) = match event? {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => (slice, false),
                WatchEvent::Deleted(slice) => (slice, true),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Err(WatchError::Other(status.message)),
            };
            if let Some(newer) = &slice.metadata.resource_version {
                version.clone_from(newer);
            }
            if !selection.has(&slice) {
                continue;
            }
            let slice = Box::new(slice);
            let heard = if is_gone { SliceEvent::Gone(slice) } else { SliceEvent::Set(slice) };
            if news.send(heard).await.is_err() {
                return Ok(());
            }
        }
    }
}
