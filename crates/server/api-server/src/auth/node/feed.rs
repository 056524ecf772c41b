//! Keeps the graph as the store is.

use std::sync::{Mutex, PoisonError};

use lazaret_json::Value;
use lazaret_storage::{RangeOptions, Watch};

use super::graph::Graph;
use crate::{ObjectStore, object};

/// The graph, brought up to date by each query: with the changes since the last one, or from all objects where these are no longer
/// known. Costs nothing while no node sends requests.
#[derive(Debug, Default)]
pub(super) struct Feed {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    graph: Graph,
    /// One for each source; `None` before the first look.
    watches: [Option<Watch>; SOURCES.len()],
}

/// A kind whose objects are in the graph.
struct Source {
    group: &'static str,
    plural: &'static str,
    set: fn(&mut Graph, key: &str, object: Option<&Value>),
    forget: fn(&mut Graph),
}

static SOURCES: [Source; 4] = [
    Source {
        group: "",
        plural: "pods",
        set: |graph, key, pod| {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            graph.set_pod(namespace, name, pod);
        },
        forget: Graph::forget_pods,
    },
    Source { group: "", plural: "persistentvolumes", set: Graph::set_volume, forget: Graph::forget_volumes },
    Source {
        group: "storage.k8s.io",
        plural: "volumeattachments",
        set: Graph::set_attachment,
        forget: Graph::forget_attachments,
    },
    Source {
        group: "resource.k8s.io",
        plural: "resourceslices",
        set: Graph::set_slice,
        forget: Graph::forget_slices,
    },
];

impl Feed {
    /// Asks the graph as of everything that was written before this was called.
    pub(super) fn ask<T>(&self, stored: &ObjectStore, question: impl FnOnce(&Graph) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { graph, watches } = &mut *state;
        for (source, watch) in SOURCES.iter().zip(watches) {
            let Some(kind) = lazaret_kinds::find(source.group, source.plural) else { continue };
            let prefix = object::key(kind, "", "");
            let up_to_date =
                watch.as_mut().is_some_and(|watch| follow(stored, graph, source, &prefix, watch));
            if !up_to_date {
                *watch = begin(stored, graph, source, &prefix);
            }
        }
        question(graph)
    }
}

/// Takes in what changed. False when that is no longer known.
fn follow(stored: &ObjectStore, graph: &mut Graph, source: &Source, prefix: &str, watch: &mut Watch) -> bool {
    loop {
        match watch.try_next() {
            Ok(None) => return true,
            Ok(Some(event)) => {
                let object = event.new.as_ref().map(|item| stored.object_cache().get(item));
                set(graph, source, prefix, &event.key, object.as_ref());
            }
            Err(_) => return false,
        }
    }
}

/// Takes in all objects, and watches from there.
fn begin(stored: &ObjectStore, graph: &mut Graph, source: &Source, prefix: &str) -> Option<Watch> {
    (source.forget)(graph);
    let range = stored.store().range(prefix.as_bytes(), &RangeOptions::default()).ok()?;
    for item in &range.items {
        set(graph, source, prefix, &item.key, Some(&stored.object_cache().get(item)));
    }
    stored.store().watch(prefix.into(), range.revision).ok()
}

fn set(graph: &mut Graph, source: &Source, prefix: &str, key: &[u8], object: Option<&Value>) {
    let rest = key.strip_prefix(prefix.as_bytes()).and_then(|rest| std::str::from_utf8(rest).ok());
    debug_assert!(rest.is_some(), "a key of another prefix than {prefix}");
    if let Some(rest) = rest {
        (source.set)(graph, rest, object);
    }
}
