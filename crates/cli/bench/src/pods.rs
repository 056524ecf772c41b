//! The states of a namespace's pods, with the times at which a watch delivers them.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    convert::Infallible,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    clock,
    output::progress,
    report::Phase,
    target::{Caller, Target},
};

/// Watches in a row that end before the first event, before the run fails.
const SILENT_MAX: usize = 5;
/// Before a watch that ended is begun again.
const PAUSE: Duration = Duration::from_millis(50);

/// Nothing is waited for any longer without a step forward.
const STALLED: Duration = Duration::from_secs(120);

/// When something was first seen of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) sent: Option<Instant>,
    pub(crate) bound: Option<Instant>,
    pub(crate) running: Option<Instant>,
    /// It was told to leave, or is gone.
    pub(crate) leaving: Option<Instant>,
    pub(crate) gone: Option<Instant>,
    pub(crate) node: String,
}

/// The pods of a namespace, named by [`name`].
#[derive(Debug, Default)]
pub(crate) struct Pods {
    seen: RefCell<Vec<Seen>>,
    counts: Cell<Counts>,
    failed: RefCell<Option<anyhow::Error>>,
    changed: Notify,
    /// Pods in the order in which they were bound, until they are taken from here.
    just_bound: RefCell<Vec<usize>>,
    _watch: RefCell<JoinSet<()>>,
}

/// How many pods have got how far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bound: usize,
    pub(crate) running: usize,
    pub(crate) leaving: usize,
    pub(crate) gone: usize,
}

/// The name of the pod with this number.
pub(crate) fn name(number: usize) -> String {
    format!("p-{number}")
}

impl Pods {
    /// Watches a namespace from now on.
    pub(crate) async fn watch(target: &Target, namespace: &str) -> Result<Rc<Self>> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let list = Caller::new(target).await?.get(&format!("{path}?limit=1")).await?.context("list pods")?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let pods = Rc::new(Self::default());
        let (heard, target) = (Rc::downgrade(&pods), target.clone());
        pods._watch.borrow_mut().spawn_local(async move {
            let each = |line: &[u8]| heard.upgrade().map_or(Ok(()), |pods| pods.read_event(line));
            let Err(failed) = watch(&target, &format!("{path}?watch=true"), Some(version), each).await;
            if let Some(pods) = heard.upgrade() {
                *pods.failed.borrow_mut() = Some(failed);
                pods.changed.notify_one();
            }
        });
        Ok(pods)
    }

    /// A pod is being made.
    pub(crate) fn sent(&self, number: usize, at: Instant) {
        self.with(number, |seen| seen.sent = Some(at));
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// The pods that were bound since this was last asked.
    pub(crate) fn take_bound(&self) -> Vec<usize> {
        self.just_bound.take()
    }

    pub(crate) fn each(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Waits until a count is reached, and says how far it is.
    pub(crate) async fn wait(&self, what: &str, of: usize, count: impl Fn(Counts) -> usize) -> Result<()> {
        let mut reported = 0;
        loop {
            let done = count(self.counts());
            if done > reported {
                reported = done;
                progress(what, done.min(of), of);
            }
            if done >= of {
                return Ok(());
            }
            self.change(STALLED).await.with_context(|| format!("{what}: {done} of {of}"))?;
        }
    }

    /// Waits for a change.
    pub(crate) async fn change(&self, at_most: Duration) -> Result<()> {
        if tokio::time::timeout(at_most, self.changed.notified()).await.is_err() {
            bail!("nothing happened for {} s", at_most.as_secs());
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// From created to what `at` says, over the pods that got there.
    pub(crate) fn phase(&self, name: &str, start: Instant, at: impl Fn(&Seen) -> Option<Instant>) -> Phase {
        let seen = self.seen.borrow();
        let measured: Vec<(Duration, Instant)> = seen
            .iter()
            .filter_map(|seen| {
                let (sent, end) = (seen.sent?, at(seen)?);
                Some((end.saturating_duration_since(sent), end))
            })
            .collect();
        Phase::new(name, start, &measured)
    }

    fn with(&self, number: usize, change: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.borrow_mut();
        if seen.len() <= number {
            seen.resize(number + 1, Seen::default());
        }
        change(&mut seen[number]);
    }

    fn read_event(&self, line: &[u8]) -> Result<()> {
        let event: Event<'_> = serde_json::from_slice(line).context("read an event")?;
        let gone = match &*event.kind {
            "ADDED" | "MODIFIED" => false,
            "DELETED" => true,
            "ERROR" => bail!("the watch of pods failed: {}", String::from_utf8_lossy(line)),
            _ => return Ok(()),
        };
        let pod = event.object;
        let Some(number) = pod.metadata.name.strip_prefix("p-").and_then(|number| number.parse().ok()) else {
            return Ok(());
        };
        let now = clock::now();
        let mut counts = self.counts.get();
        self.with(number, |seen| {
            let first = |at: &mut Option<Instant>, count: &mut usize, is_so: bool| {
                let new = is_so && at.is_none();
                if new {
                    *at = Some(now);
                    *count += 1;
                }
                new
            };
            if first(&mut seen.bound, &mut counts.bound, pod.spec.node_name.is_some()) {
                seen.node = pod.spec.node_name.as_deref().unwrap_or_default().to_owned();
                self.just_bound.borrow_mut().push(number);
            }
            first(&mut seen.running, &mut counts.running, pod.status.phase.as_deref() == Some("Running"));
            first(&mut seen.leaving, &mut counts.leaving, gone || pod.metadata.deletion_timestamp.is_some());
            first(&mut seen.gone, &mut counts.gone, gone);
        });
        self.counts.set(counts);
        self.changed.notify_one();
        Ok(())
    }
}

/// Hands every line of a watch to `each`, and goes on where it was when the server ends it: servers do that to clients that seem too slow. It goes on
/// from the version of the last line if it began from one, and otherwise anew, with all that is there.
pub(crate) async fn watch(
    target: &Target,
    path: &str,
    mut from: Option<String>,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Infallible> {
    let mut silent = 0;
    while silent < SILENT_MAX {
        let since = from.as_ref().map_or_else(String::new, |version| format!("&resourceVersion={version}"));
        let mut connection = target.connect().await?;
        let request = target.get(&format!("{path}{since}"));
        connection.begin_stream(&request).await.with_context(|| format!("watch {path}"))?;
        let (mut text, mut last) = (Vec::new(), Vec::new());
        // A connection that was cut is an end like any other.
        while let Ok(true) = connection.next_chunk(&mut text).await {
            let mut begin = 0;
            while let Some(length) = text[begin..].iter().position(|byte| *byte == b'\n') {
                let line = &text[begin..begin + length];
                each(line)?;
                last.clear();
                last.extend_from_slice(line);
                begin += length + 1;
            }
            text.drain(..begin);
        }
        silent = if last.is_empty() { silent + 1 } else { 0 };
        if from.is_some() && !last.is_empty() {
            from = Some(version_of(&last)?);
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("the server ends every watch of {path}")
}

fn version_of(line: &[u8]) -> Result<String> {
    let event: serde_json::Value = serde_json::from_slice(line).context("read an event")?;
    event["object"]["metadata"]["resourceVersion"]
        .as_str()
        .map(str::to_owned)
        .context("an event without a version")
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: Pod<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
}
