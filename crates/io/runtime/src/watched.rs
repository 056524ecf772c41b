//! The resources that a hub watches, each once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use tokio::task::AbortHandle;

use crate::{
    Client, Metrics, Resource, Tasks, pump,
    topic::{Topic, lock},
};

/// The topics of a hub, for inboxes that may outlive it.
pub(crate) type Topics = Weak<std::sync::Mutex<Shared>>;

#[derive(Default)]
pub(crate) struct Shared {
    topics: BTreeMap<Resource, Watched>,
    tasks: Tasks,
}

struct Watched {
    topic: Arc<Topic>,
    task: AbortHandle,
    /// Only ever followed: the watch ends with its last listener.
    followed: bool,
}

/// The topics of these resources, for a listener that follows them.
pub(crate) fn follow(
    hub: &Topics,
    resources: &[Resource],
    client: &Client,
    metrics: &Metrics,
) -> Vec<Arc<Topic>> {
    let Some(shared) = hub.upgrade() else { return Vec::new() };
    let mut shared = lock(&shared);
    resources.iter().map(|resource| shared.topic(*resource, client, metrics, true)).collect()
}

/// The listener does not follow this topic any more.
pub(crate) fn unfollow(hub: &Topics, topic: &Topic, listener: u64) {
    topic.leave(listener);
    let Some(shared) = hub.upgrade() else { return };
    let mut shared = lock(&shared);
    let unused = |watched: &Watched| watched.followed && watched.topic.is_alone();
    if shared.topics.get(&topic.resource).is_some_and(unused)
        && let Some(watched) = shared.topics.remove(&topic.resource)
    {
        watched.task.abort();
    }
}

impl Shared {
    /// All that are watched.
    pub(crate) fn topics(&self) -> Vec<Arc<Topic>> {
        self.topics.values().map(|one| Arc::clone(&one.topic)).collect()
    }

    /// The topic of a resource, which is watched from now on.
    pub(crate) fn topic(
        &mut self,
        resource: Resource,
        client: &Client,
        metrics: &Metrics,
        followed: bool,
    ) -> Arc<Topic> {
        let Self { topics, tasks } = self;
        let watched = topics.entry(resource).or_insert_with(|| {
            let topic = Arc::new(Topic::new(resource, metrics));
            let (client, counted, pumped) = (client.clone(), metrics.clone(), Arc::clone(&topic));
            let name = if followed {
                format!("watch/{}.{}", resource.plural, resource.group)
            } else {
                format!("watch/{}", resource.plural)
            };
            let task = tasks.supervise(name, metrics.clone(), move || {
                pump::follow(client.clone(), counted.clone(), Arc::clone(&pumped))
            });
            Watched { topic, task, followed }
        });
        watched.followed &= followed;
        Arc::clone(&watched.topic)
    }
}
