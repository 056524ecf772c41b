//! Each resource is watched once, whoever wants to hear of it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use lazaret_model::ObjectKey;
use tokio::{
    sync::{Notify, mpsc},
    task::AbortHandle,
};

use crate::{
    CallError, Client, Inbox, Metrics, News, Object, Postbox, Postman, Resource, Tasks, in_flight::InFlight,
    object::Moment, pump,
};

/// News that may wait for one listener. Who is further behind is told everything again when it has caught up.
const QUEUE_MAX: usize = 16_384;

/// The watches of one process over one client. They end when it is dropped.
pub struct Hub {
    client: Client,
    metrics: Metrics,
    next_listener: AtomicU64,
    in_flight: InFlight,
    shared: Arc<std::sync::Mutex<Shared>>,
}

/// How far a watch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// Everything was read once.
    Synced,
    /// It has not been read yet, and whoever listens waits for it.
    Waiting,
    /// It cannot be read, and whoever listens does without.
    DoneWithout(Arc<CallError>),
    /// It cannot be read, and somebody waits for it.
    Unreadable(Arc<CallError>),
}

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

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    /// Watches through `client`.
    #[must_use]
    pub fn new(client: Client, metrics: Metrics) -> Self {
        Self {
            client,
            metrics,
            next_listener: AtomicU64::new(0),
            in_flight: InFlight::default(),
            shared: Arc::default(),
        }
    }

    /// The client it watches through.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where agents that write through this client leave what may wait, and who empties it.
    #[must_use]
    pub fn postbox(&self) -> (Postbox, Postman) {
        Postbox::new(self.client.clone(), self.in_flight.clone())
    }

    /// Counts of what happens in it.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How far each watch is, by resource.
    #[must_use]
    pub fn watches(&self) -> Vec<(Resource, WatchState)> {
        let topics: Vec<_> = lock(&self.shared).topics.values().map(|one| Arc::clone(&one.topic)).collect();
        topics.iter().map(|topic| (topic.resource, topic.watch_state())).collect()
    }

    /// Hears of these resources from now on: first all there is of each, then what changes.
    #[must_use]
    pub fn listen(&self, resources: &[Resource]) -> Inbox {
        self.listen_if_possible(resources, &[])
    }

    /// The same, and of the `optional` ones too as far as they can be read; of those that cannot it hears
    /// [`News::Barred`].
    #[must_use]
    pub fn listen_if_possible(&self, resources: &[Resource], optional: &[Resource]) -> Inbox {
        let id = self.next_listener.fetch_add(1, Ordering::Relaxed);
        let mut shared = lock(&self.shared);
        let topics = resources
            .iter()
            .chain(optional)
            .map(|resource| shared.topic(*resource, &self.client, &self.metrics, false))
            .collect::<Vec<_>>();
        drop(shared);
        let (hub, metrics) = (Arc::downgrade(&self.shared), self.metrics.clone());
        Inbox::new(id, self.client.clone(), metrics, hub, topics, optional.to_vec(), self.in_flight.clone())
    }
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
    let unused = |watched: &Watched| watched.followed && lock(&watched.topic.state).listeners.is_empty();
    if shared.topics.get(&topic.resource).is_some_and(unused)
        && let Some(watched) = shared.topics.remove(&topic.resource)
    {
        watched.task.abort();
    }
}

/// Hears of these resources from now on, under this number; the news, and whether any were missed.
pub(crate) fn join(
    id: u64,
    topics: &[Arc<Topic>],
    optional: &[Resource],
    progressed: &Arc<Notify>,
) -> Joined {
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    let joined = Joined {
        sender,
        queue,
        missed: Arc::new(AtomicBool::new(false)),
        progressed: Arc::clone(progressed),
    };
    for topic in topics {
        topic.join(joined.listener(id, optional.contains(&topic.resource)));
    }
    joined
}

/// A listener's side of its queue.
pub(crate) struct Joined {
    sender: mpsc::Sender<News>,
    pub(crate) queue: mpsc::Receiver<News>,
    /// Something did not fit into the queue.
    pub(crate) missed: Arc<AtomicBool>,
    /// A watch has come further without news.
    progressed: Arc<Notify>,
}

impl Joined {
    /// Hears of one more resource, and that it cannot be read if so.
    pub(crate) fn add(&self, id: u64, topic: &Topic) {
        topic.join(self.listener(id, true));
    }

    fn listener(&self, id: u64, bears_bars: bool) -> Listener {
        Listener {
            id,
            queue: self.sender.clone(),
            behind: false,
            missed: Arc::clone(&self.missed),
            bears_bars,
            progressed: Arc::clone(&self.progressed),
        }
    }
}

impl Shared {
    fn topic(
        &mut self,
        resource: Resource,
        client: &Client,
        metrics: &Metrics,
        followed: bool,
    ) -> Arc<Topic> {
        let Self { topics, tasks } = self;
        let watched = topics.entry(resource).or_insert_with(|| {
            let topic = Arc::new(Topic::new(resource));
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

/// What is known of one resource, and who wants to know.
pub(crate) struct Topic {
    pub(crate) resource: Resource,
    state: std::sync::Mutex<State>,
    /// Somebody is in a hurry.
    pub(crate) hurried: Notify,
    /// Readings of its newest objects.
    pub(crate) moment: Arc<Moment>,
}

/// What somebody does who cannot wait for the next word of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hurry {
    /// Watch anew from where the watch was, in a way that makes the server say soon how far it is.
    Watch,
    /// Whatever tells sooner: of few objects all are read, which takes one answer; of many the watch is opened anew, which a Kubernetes API server
    /// answers after a second or two.
    Soonest,
    /// Read all there is.
    List,
}

#[derive(Default)]
struct State {
    hurry: Option<Hurry>,
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    listed: bool,
    /// What the objects are as of.
    revision: u64,
    /// Why it cannot be read.
    barred: Option<Arc<CallError>>,
    listeners: Vec<Listener>,
}

struct Listener {
    id: u64,
    queue: mpsc::Sender<News>,
    /// Missed something: it gets no news until it asks for all.
    behind: bool,
    /// The same of any of its resources, for it to see without asking each.
    missed: Arc<AtomicBool>,
    /// It can do without.
    bears_bars: bool,
    /// A watch has come further without news.
    progressed: Arc<Notify>,
}

impl Topic {
    pub(crate) fn new(resource: Resource) -> Self {
        Self { resource, state: std::sync::Mutex::default(), hurried: Notify::new(), moment: Arc::default() }
    }

    /// Up to which revision of the server everything has been told to who listens; `None` before the first list.
    pub(crate) fn reached(&self) -> Option<u64> {
        let state = lock(&self.state);
        state.listed.then_some(state.revision)
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        lock(&self.state).objects.len()
    }

    /// Nothing else happened up to this revision.
    pub(crate) fn mark(&self, revision: u64) {
        let mut state = lock(&self.state);
        if revision > state.revision {
            state.revision = revision;
            state.listeners.iter().for_each(|listener| listener.progressed.notify_one());
        }
    }

    /// Asks whoever follows the resource to hurry.
    pub(crate) fn hurry(&self, how: Hurry) {
        let mut state = lock(&self.state);
        state.hurry = state.hurry.max(Some(how));
        drop(state);
        self.hurried.notify_one();
    }

    pub(crate) fn take_hurry(&self) -> Option<Hurry> {
        lock(&self.state).hurry.take()
    }

    fn join(&self, listener: Listener) {
        let mut state = lock(&self.state);
        state.listeners.push(listener);
        let known = state.listed.then(|| state.all(self.resource));
        let barred = state.barred.clone().map(|why| News::Barred(self.resource, why));
        if let Some(listener) = state.listeners.last_mut() {
            known.into_iter().chain(barred).for_each(|news| listener.tell(news));
        }
    }

    /// It cannot be read. Whether that is new.
    pub(crate) fn bar(&self, why: &CallError) -> bool {
        let mut state = lock(&self.state);
        if state.barred.as_deref() == Some(why) {
            return false;
        }
        let why = Arc::new(why.clone());
        state.barred = Some(Arc::clone(&why));
        state.tell(&News::Barred(self.resource, why));
        true
    }

    /// Whether somebody listens who cannot do without it.
    pub(crate) fn is_needed(&self) -> bool {
        lock(&self.state).listeners.iter().any(|listener| !listener.bears_bars)
    }

    fn watch_state(&self) -> WatchState {
        let needed = self.is_needed();
        let state = lock(&self.state);
        match &state.barred {
            Some(why) if needed => WatchState::Unreadable(Arc::clone(why)),
            Some(why) => WatchState::DoneWithout(Arc::clone(why)),
            None if state.listed => WatchState::Synced,
            None => WatchState::Waiting,
        }
    }

    /// Whether it cannot be read, and this listener does without.
    pub(crate) fn is_barred_for(&self, id: u64) -> bool {
        let state = lock(&self.state);
        state.barred.is_some() && state.listeners.iter().any(|one| one.id == id && one.bears_bars)
    }

    pub(crate) fn leave(&self, id: u64) {
        lock(&self.state).listeners.retain(|listener| listener.id != id);
    }

    /// All there is, if this listener missed something.
    pub(crate) fn catch_up(&self, id: u64) -> Option<News> {
        let mut state = lock(&self.state);
        let listener = state.listeners.iter_mut().find(|listener| listener.id == id)?;
        if !core::mem::take(&mut listener.behind) {
            return None;
        }
        Some(state.all(self.resource))
    }

    pub(crate) fn list(&self, objects: Vec<Arc<Object>>, revision: u64) {
        let mut state = lock(&self.state);
        state.revision = revision;
        state.barred = None;
        state.objects = objects.iter().map(|object| (object.key.clone(), Arc::clone(object))).collect();
        state.listed = true;
        state.tell(&News::Listed(self.resource, objects, revision));
    }

    pub(crate) fn set(&self, object: Arc<Object>) {
        let mut state = lock(&self.state);
        state.revision = object.revision();
        if let Some(old) = state.objects.insert(object.key.clone(), Arc::clone(&object)) {
            old.outdate();
        }
        state.tell(&News::Set(self.resource, object));
    }

    pub(crate) fn gone(&self, object: Arc<Object>) {
        let mut state = lock(&self.state);
        state.revision = object.revision();
        if let Some(old) = state.objects.remove(&object.key) {
            old.outdate();
        }
        state.tell(&News::Gone(self.resource, object));
    }
}

impl State {
    fn all(&self, resource: Resource) -> News {
        News::Listed(resource, self.objects.values().cloned().collect(), self.revision)
    }

    fn tell(&mut self, news: &News) {
        for listener in &mut self.listeners {
            listener.tell(news.clone());
        }
    }
}

impl Listener {
    fn tell(&mut self, news: News) {
        if self.behind || (!self.bears_bars && matches!(news, News::Barred(..))) {
            return;
        }
        if let Err(refused) = self.queue.try_send(news) {
            // Said before the last attempt: who empties the queue after that has failed sees it.
            self.missed.store(true, Ordering::Release);
            self.behind = self.queue.try_send(refused.into_inner()).is_err();
        }
    }
}

/// Nobody panics while holding these locks; if one did, what it left is still a list of objects.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JOBS, LEASES, PODS};

    fn pod(name: &str, version: u64) -> Arc<Object> {
        let metadata =
            format!(r#"{{"name":"{name}","namespace":"n","uid":"u","resourceVersion":"{version}"}}"#);
        Arc::new(Object::new(&PODS, format!(r#"{{"kind":"Pod","metadata":{metadata}}}"#)).unwrap())
    }

    fn told(inbox: &mut Inbox) -> String {
        let spell = |news| match news {
            News::Listed(_, objects, _) => format!("all {}", objects.len()),
            News::Set(_, object) => format!("+{}:{}", object.key.name, object.resource_version),
            News::Gone(_, object) => format!("-{}:{}", object.key.name, object.resource_version),
            News::Barred(..) => "barred".to_owned(),
        };
        std::iter::from_fn(|| inbox.try_next()).map(spell).collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn what_was_overtaken_while_it_waited_is_not_told() {
        let client = Client::direct(|_| std::future::pending::<http::Response<String>>());
        let hub = Hub::new(client, Metrics::default());
        let (mut slow, mut quick) = (hub.listen(&[PODS]), hub.listen(&[PODS]));
        let topic = Arc::clone(&lock(&hub.shared).topics[&PODS].topic);
        topic.list(vec![pod("a", 1)], 1);
        let mut heard = vec![told(&mut quick)];
        for news in [("a", 2), ("b", 3), ("a", 4), ("c", 5)] {
            topic.set(pod(news.0, news.1));
            heard.push(told(&mut quick));
        }
        topic.gone(pod("c", 6));
        heard.push(told(&mut quick));
        assert_eq!(heard.join(" "), "all 1 +a:2 +b:3 +a:4 +c:5 -c:6");
        assert_eq!(told(&mut slow), "all 1 +b:3 +a:4 -c:6");
        topic.set(pod("a", 7));
        topic.set(pod("a", 8));
        let next = slow.next().await;
        assert!(matches!(&next, News::Set(_, object) if object.resource_version == "8"), "{next:?}");
    }

    #[tokio::test]
    async fn what_nobody_follows_any_more_is_not_watched() {
        let client = Client::direct(|_| std::future::pending::<http::Response<String>>());
        let hub = Hub::new(client, Metrics::default());
        let watched = |hub: &Hub| lock(&hub.shared).topics.keys().map(|one| one.plural).collect::<Vec<_>>();
        let mut inbox = hub.listen(&[PODS]);
        inbox.follow(&[JOBS, LEASES]);
        let leases = Arc::clone(&lock(&hub.shared).topics[&LEASES].topic);
        leases.list(Vec::new(), 1);
        assert_eq!((told(&mut inbox), watched(&hub)), ("all 0".to_owned(), vec!["pods", "jobs", "leases"]));
        inbox.follow(&[JOBS]);
        leases.list(Vec::new(), 2);
        assert_eq!((told(&mut inbox), watched(&hub)), (String::new(), vec!["pods", "jobs"]));
        // A listener keeps the watch.
        let other = hub.listen(&[JOBS]);
        inbox.follow(&[]);
        assert_eq!(watched(&hub), ["pods", "jobs"]);
        drop((inbox, other));
        assert_eq!(watched(&hub), ["pods", "jobs"]);
    }
}
