//! The queue of news for one agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, atomic::Ordering},
};

use tokio::{sync::Notify, task::JoinSet};

use crate::{
    Call, CallError, Client, Clock, Metrics, News, Resource,
    in_flight::InFlight,
    pump,
    topic::{self, Hurry, Joined, Topic},
    watched::{self, Topics},
};

/// News of some resources, in the order they came. Leaves the hub when dropped.
pub struct Inbox {
    id: u64,
    client: Client,
    metrics: Metrics,
    hub: Topics,
    joined: Joined,
    topics: Vec<Arc<Topic>>,
    /// Resources that the agent follows in addition, as it asks for them.
    followed: Vec<Arc<Topic>>,
    /// Resources that the agent can run without.
    optional: Vec<Resource>,
    unlisted: BTreeSet<Resource>,
    /// A watch has come further without news.
    progressed: Arc<Notify>,
    /// Shared with all who listen at the same hub.
    pub(crate) in_flight: InFlight,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("waiting", &self.joined.queue.len())
            .field("unlisted", &self.unlisted)
            .finish()
    }
}

impl Inbox {
    pub(crate) fn new(
        id: u64,
        client: Client,
        metrics: Metrics,
        hub: Topics,
        topics: Vec<Arc<Topic>>,
        optional: Vec<Resource>,
        in_flight: InFlight,
    ) -> Self {
        let unlisted = topics.iter().map(|topic| topic.resource).collect();
        let progressed = Arc::new(Notify::new());
        let joined = topic::join(id, &topics, &optional, &progressed);
        Self {
            id,
            client,
            metrics,
            hub,
            joined,
            topics,
            followed: Vec::new(),
            optional,
            unlisted,
            progressed,
            in_flight,
        }
    }

    /// Hears of these resources besides those that it was made for, and of none that were named before and are not now.
    pub(crate) fn follow(&mut self, resources: &[Resource]) {
        let others = |topic: &Arc<Topic>| !resources.contains(&topic.resource);
        for topic in self.followed.extract_if(.., |topic| others(topic)) {
            watched::unfollow(&self.hub, &topic, self.id);
        }
        let new = |resource: &&Resource| {
            !self.topics.iter().chain(&self.followed).any(|topic| topic.resource == **resource)
        };
        let new: Vec<Resource> = resources.iter().filter(new).copied().collect();
        for topic in watched::follow(&self.hub, &new, &self.client, &self.metrics) {
            self.joined.add(self.id, &topic);
            self.followed.push(topic);
        }
    }

    /// Begins anew: all there is of each resource first, as if it had heard of nothing yet.
    pub(crate) fn begin_anew(&mut self) {
        self.follow(&[]);
        self.topics.iter().for_each(|topic| topic.leave(self.id));
        self.joined = topic::join(self.id, &self.topics, &self.optional, &self.progressed);
        self.unlisted = self.topics.iter().map(|topic| topic.resource).collect();
    }

    /// The clock of whoever reads this.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.client.clock()
    }

    /// Notified when a watch has come further without news.
    pub(crate) fn progressed(&self) -> Arc<Notify> {
        Arc::clone(&self.progressed)
    }

    /// All that it listens to.
    pub(crate) fn resources(&self) -> Vec<Resource> {
        self.topics.iter().map(|topic| topic.resource).collect()
    }

    /// Those, and what its agent follows.
    fn heard_of(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.iter().chain(&self.followed)
    }

    /// Asks the server how far it is with each of these resources, as of now. Of what cannot be read, and was said to be so, there is
    /// nothing to wait for.
    pub(crate) fn ask_how_far(
        &self,
        resources: &[Resource],
    ) -> impl Future<Output = Result<BTreeMap<Resource, u64>, CallError>> + Send + use<> {
        let client = self.client.clone();
        let asked = self.heard_of().filter(|topic| resources.contains(&topic.resource));
        let resources: Vec<(Resource, bool)> =
            asked.map(|topic| (topic.resource, topic.is_barred_for(self.id))).collect();
        async move {
            // All at once: a Kubernetes API server may take a tenth of a second for each.
            let mut questions = JoinSet::new();
            for (resource, barred) in resources {
                let (client, path) = (client.clone(), resource.path("", "", ""));
                questions.spawn(async move {
                    match client.send(Call::get_at(format!("{path}?limit=1"))).await {
                        Ok(list) => Ok(Some((resource, pump::revision_of_list(&list)?))),
                        Err(CallError::Forbidden(_) | CallError::NotFound(_)) if barred => Ok(None),
                        Err(error) => Err(error),
                    }
                });
            }
            let mut revisions = BTreeMap::new();
            while let Some(answer) = questions.join_next().await {
                revisions.extend(answer.map_err(|error| CallError::Unavailable(error.to_string()))??);
            }
            Ok(revisions)
        }
    }

    /// Up to which revision all news of a resource wait here or have been handed out; `None` while it waits for a list.
    pub(crate) fn reached(&self, resource: &Resource) -> Option<u64> {
        self.heard_of().find(|topic| topic.resource == *resource)?.reached(self.id)
    }

    /// These resources are wanted up to date, soon.
    pub(crate) fn hurry(&self, resources: &[Resource], how: Hurry) {
        for topic in self.heard_of().filter(|topic| resources.contains(&topic.resource)) {
            topic.hurry(how);
        }
    }

    /// Whether all there is of every resource has been handed out once, or that it cannot be read.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.joined.queue.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.joined.queue.is_empty()
    }

    /// The next news.
    pub async fn next(&mut self) -> News {
        loop {
            if let Some(news) = self.try_next() {
                return news;
            }
            match self.joined.queue.recv().await {
                Some(news) if is_old(&news) => {}
                Some(news) => return self.handed(news),
                // The hub is gone: nothing will come any more.
                None => return std::future::pending().await,
            }
        }
    }

    /// The next news, if there is any now. Versions that a newer one replaced while they waited are skipped: a slow listener has less to process.
    pub fn try_next(&mut self) -> Option<News> {
        let next = loop {
            match self.joined.queue.try_recv() {
                Ok(news) if is_old(&news) => {}
                next => break next,
            }
        };
        let news = match next {
            Ok(news) => news,
            // Only who has drained its queue asks for all, or it would hear old news after it.
            Err(_) if self.joined.missed.swap(false, Ordering::AcqRel) => {
                let all =
                    self.topics.iter().chain(&self.followed).find_map(|topic| topic.catch_up(self.id))?;
                // More than one may have been missed; the next time tells.
                self.joined.missed.store(true, Ordering::Release);
                all
            }
            Err(_) => return None,
        };
        Some(self.handed(news))
    }

    fn handed(&mut self, news: News) -> News {
        if let News::Listed(resource, ..) | News::Barred(resource, _) = &news {
            self.unlisted.remove(resource);
        }
        news
    }
}

/// Whether later news of the same object wait behind these.
fn is_old(news: &News) -> bool {
    match news {
        News::Set(_, object) => object.is_outdated(),
        News::Listed(..) | News::Gone(..) | News::Barred(..) => false,
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.follow(&[]);
        for topic in &self.topics {
            topic.leave(self.id);
        }
    }
}
