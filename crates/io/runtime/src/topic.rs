//! A resource and its listeners: which version of each object was handed on, and how far each listener is.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use lazaret_model::ObjectKey;
use tokio::sync::{Notify, mpsc};

use crate::{CallError, Metrics, News, Object, Resource, object::DecodeCache, standing::Standing};

/// News in the queue of one listener. A listener whose queue overflows gets a list of all objects once it has emptied the queue.
pub(crate) const QUEUE_MAX: usize = 16_384;

/// How far a watch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// Everything was read once.
    Synced,
    /// It has not been listed yet, and its listeners wait for it.
    Waiting,
    /// It cannot be read, and all of its listeners run without it.
    DoneWithout(Arc<CallError>),
    /// It cannot be read, and a listener needs it.
    Unreadable(Arc<CallError>),
}
/// One resource's objects by version, and its listeners.
pub(crate) struct Topic {
    pub(crate) resource: Resource,
    state: std::sync::Mutex<State>,
    /// Notified when a listener needs the watch to hurry, or a list.
    pub(crate) hurried: Notify,
    /// Readings of its newest objects.
    pub(crate) cache: Arc<DecodeCache>,
    metrics: Metrics,
}

impl Drop for Topic {
    fn drop(&mut self) {
        self.metrics.watch_ends(&self.resource);
    }
}

/// How to learn sooner than the watch reports how far the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hurry {
    /// Watch anew from where the watch was, in a way that makes the server say soon how far it is.
    Watch,
    /// The faster of the two: few objects are listed, which takes one answer; for many the watch is opened anew, which a Kubernetes API server
    /// answers after one or two seconds.
    Soonest,
    /// List all objects.
    List,
}

struct State {
    hurry: Option<Hurry>,
    known: BTreeMap<ObjectKey, Known>,
    /// Objects are kept as well: listeners that join soon after each other cause one list.
    keeps: bool,
    listed: bool,
    /// The revision of the server that the objects are as of.
    revision: u64,
    /// The error with which the server refuses to list or watch it.
    barred: Option<Arc<CallError>>,
    listeners: Vec<Listener>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            hurry: None,
            known: BTreeMap::new(),
            keeps: true,
            listed: false,
            revision: 0,
            barred: None,
            listeners: Vec::new(),
        }
    }
}

/// The version of an object that was handed on last.
struct Known {
    revision: u64,
    standing: Arc<Standing>,
    object: Option<Arc<Object>>,
}

impl Known {
    fn new(object: &Arc<Object>, keeps: bool) -> Self {
        let standing = Arc::clone(object.standing());
        Self { revision: object.revision(), standing, object: keeps.then(|| Arc::clone(object)) }
    }
}

/// How far a listener is with one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// It has all news, or they are in its queue.
    InStep,
    /// It missed something. It gets no news until its queue is empty and it has asked for all objects.
    Behind,
    /// It gets all objects with the next list, and no news before.
    Waiting,
}

struct Listener {
    id: u64,
    queue: mpsc::Sender<News>,
    pace: Pace,
    /// It is behind with any of its resources, for it to see without asking each.
    missed: Arc<AtomicBool>,
    /// The listener runs without this resource when it cannot be read.
    is_optional: bool,
    /// A watch has come further without news.
    progressed: Arc<Notify>,
}

impl Topic {
    pub(crate) fn new(resource: Resource, metrics: &Metrics) -> Self {
        metrics.watch_begins(&resource);
        let cache = Arc::new(DecodeCache::counting(metrics.unreadable_objects(&resource)));
        let (metrics, hurried) = (metrics.clone(), Notify::new());
        Self { resource, state: std::sync::Mutex::default(), hurried, cache, metrics }
    }

    /// Up to which revision of the server everything has been told to this listener; `None` before its first list, and while it is behind.
    pub(crate) fn reached(&self, id: u64) -> Option<u64> {
        let state = lock(&self.state);
        let in_step = state.listeners.iter().any(|one| one.id == id && one.pace == Pace::InStep);
        (state.listed && in_step).then_some(state.revision)
    }

    /// Whether a listener waits for a list.
    pub(crate) fn is_awaited(&self) -> bool {
        lock(&self.state).is_awaited()
    }

    /// Whether objects are kept for listeners that join.
    pub(crate) fn keeps(&self) -> bool {
        lock(&self.state).keeps
    }

    /// From now on, objects are handed on and not kept.
    pub(crate) fn stop_keeping(&self) {
        let mut state = lock(&self.state);
        state.keeps = false;
        state.known.values_mut().for_each(|known| known.object = None);
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        lock(&self.state).known.len()
    }

    /// Nothing else happened up to this revision.
    pub(crate) fn mark(&self, revision: u64) {
        let mut state = lock(&self.state);
        if revision > state.revision {
            state.revision = revision;
            state.listeners.iter().for_each(|listener| listener.progressed.notify_one());
        }
    }

    /// Asks the task that watches the resource to hurry.
    pub(crate) fn hurry(&self, how: Hurry) {
        let mut state = lock(&self.state);
        state.hurry = state.hurry.max(Some(how));
        drop(state);
        self.hurried.notify_one();
    }

    pub(crate) fn take_hurry(&self) -> Option<Hurry> {
        lock(&self.state).hurry.take()
    }

    fn join(&self, mut listener: Listener) {
        let mut state = lock(&self.state);
        let all = state.all(self.resource);
        let missing = state.listed && all.is_none();
        let barred = state.barred.clone().map(|why| News::Barred(self.resource, why));
        all.into_iter().chain(barred).for_each(|news| listener.tell(news));
        state.listeners.push(listener);
        drop(state);
        if missing {
            self.hurried.notify_one();
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

    /// Whether a listener needs this resource.
    pub(crate) fn is_needed(&self) -> bool {
        lock(&self.state).listeners.iter().any(|listener| !listener.is_optional)
    }

    pub(crate) fn watch_state(&self) -> WatchState {
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
        state.barred.is_some() && state.listeners.iter().any(|one| one.id == id && one.is_optional)
    }

    /// Whether it has no listener.
    pub(crate) fn is_alone(&self) -> bool {
        lock(&self.state).listeners.is_empty()
    }

    pub(crate) fn leave(&self, id: u64) {
        lock(&self.state).listeners.retain(|listener| listener.id != id);
    }

    /// All objects, if this listener missed something and they are at hand; if they are not, it gets them with a list that is asked for here.
    pub(crate) fn catch_up(&self, id: u64) -> Option<News> {
        let mut state = lock(&self.state);
        let at = state.listeners.iter().position(|one| one.id == id && one.pace == Pace::Behind)?;
        let all = state.all(self.resource);
        state.listeners[at].pace = if all.is_some() { Pace::InStep } else { Pace::Waiting };
        drop(state);
        if all.is_none() {
            self.hurried.notify_one();
        }
        all
    }

    /// All objects as of a revision. Listeners that wait for a list get all of it; the others get only the objects that differ from those they know.
    pub(crate) fn list(&self, objects: Vec<Arc<Object>>, revision: u64) {
        let mut state = lock(&self.state);
        let keeps = state.keeps;
        let known = objects.iter().map(|object| (object.key.clone(), Known::new(object, keeps))).collect();
        let before = core::mem::replace(&mut state.known, known);
        (state.revision, state.listed, state.barred) = (revision, true, None);
        let is_whole = !state.is_awaited() || before.keys().any(|key| !state.known.contains_key(key));
        let is_new = |object: &&Arc<Object>| {
            before.get(&object.key).is_none_or(|known| known.revision != object.revision())
        };
        let changed: Vec<&Arc<Object>> = objects.iter().filter(is_new).collect();
        for listener in &mut state.listeners {
            if is_whole || listener.pace != Pace::InStep {
                listener.tell(News::Listed(self.resource, objects.clone(), revision));
            } else {
                let changes = changed.iter().map(|object| News::Set(self.resource, Arc::clone(object)));
                changes.for_each(|news| listener.tell(news));
            }
        }
    }

    pub(crate) fn set(&self, object: Arc<Object>) {
        let mut state = lock(&self.state);
        state.revision = object.revision();
        let known = Known::new(&object, state.keeps);
        if let Some(old) = state.known.insert(object.key.clone(), known) {
            old.standing.outdate();
        }
        state.tell(&News::Set(self.resource, object));
    }

    pub(crate) fn gone(&self, object: Arc<Object>) {
        let mut state = lock(&self.state);
        state.revision = object.revision();
        if let Some(old) = state.known.remove(&object.key) {
            old.standing.outdate();
        }
        state.tell(&News::Gone(self.resource, object));
    }
}

impl State {
    /// All objects, if they have been listed and are kept.
    fn all(&self, resource: Resource) -> Option<News> {
        let objects = || self.known.values().map(|known| known.object.clone()).collect::<Option<_>>();
        let objects = self.listed.then(objects)??;
        Some(News::Listed(resource, objects, self.revision))
    }

    fn is_awaited(&self) -> bool {
        self.listeners.iter().any(|listener| listener.pace == Pace::Waiting)
    }

    fn tell(&mut self, news: &News) {
        for listener in &mut self.listeners {
            listener.tell(news.clone());
        }
    }
}

impl Listener {
    fn tell(&mut self, news: News) {
        let (wanted, after) = match news {
            News::Listed(..) => (self.pace != Pace::Behind, Pace::InStep),
            News::Set(..) | News::Gone(..) => (self.pace == Pace::InStep, Pace::InStep),
            News::Barred(..) => (self.is_optional && self.pace != Pace::Behind, self.pace),
        };
        if !wanted {
            return;
        }
        self.pace = after;
        if let Err(refused) = self.queue.try_send(news) {
            // Set before the last attempt: a listener that empties the queue after a failed attempt sees it.
            self.missed.store(true, Ordering::Release);
            if self.queue.try_send(refused.into_inner()).is_err() {
                self.pace = Pace::Behind;
            }
        }
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

    fn listener(&self, id: u64, is_optional: bool) -> Listener {
        Listener {
            id,
            queue: self.sender.clone(),
            pace: Pace::Waiting,
            missed: Arc::clone(&self.missed),
            is_optional,
            progressed: Arc::clone(&self.progressed),
        }
    }
}

/// No code panics while it holds these locks; after a panic the state would still be a list of objects.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
