//! Each resource is watched once, however many listeners it has.
//!
//! Objects are handed on and not kept: each listener keeps what it needs of them. The hub knows which versions it has handed on. A listener that
//! joins later, or that has missed something, is the reason to list the resource again.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Client, Inbox, Metrics, Postbox, Postman, Resource, WatchState, in_flight::InFlight, topic::lock,
    watched::Shared,
};

/// The watches of one process over one client. They end when it is dropped.
pub struct Hub {
    client: Client,
    metrics: Metrics,
    next_listener: AtomicU64,
    in_flight: InFlight,
    shared: Arc<std::sync::Mutex<Shared>>,
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

    /// A queue for writes that can wait, such as events, and the task that sends them through this client.
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
        let topics = lock(&self.shared).topics();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JOBS, LEASES, News, Object, PODS, topic::QUEUE_MAX};

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
        let topic = lock(&hub.shared).topics().remove(0);
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

    fn silent_hub() -> Hub {
        Hub::new(Client::direct(|_| std::future::pending::<http::Response<String>>()), Metrics::default())
    }

    #[tokio::test]
    async fn a_late_listener_gets_a_list_and_the_others_only_the_changes() {
        let hub = silent_hub();
        let mut first = hub.listen(&[PODS]);
        let topic = lock(&hub.shared).topics().remove(0);
        topic.list(vec![pod("a", 1), pod("b", 2)], 2);
        topic.set(pod("c", 3));
        let mut second = hub.listen(&[PODS]);
        assert_eq!(
            (told(&mut first), told(&mut second)),
            ("all 2 +c:3".into(), "all 3".into()),
            "it is kept"
        );
        topic.stop_keeping();
        topic.set(pod("c", 4));
        let mut late = hub.listen(&[PODS]);
        assert!(topic.is_awaited() && !late.is_synced());
        assert_eq!((first.reached(&PODS), late.reached(&PODS)), (Some(4), None));
        topic.set(pod("d", 5));
        assert_eq!((told(&mut first), told(&mut late)), ("+c:4 +d:5".into(), String::new()));
        // The watch has not told of b and e yet.
        topic.list(vec![pod("a", 1), pod("b", 6), pod("c", 4), pod("d", 5), pod("e", 7)], 7);
        assert_eq!((told(&mut first), told(&mut late)), ("+b:6 +e:7".into(), "all 5".into()));
        assert!(!topic.is_awaited() && late.is_synced());
        assert_eq!((first.reached(&PODS), late.reached(&PODS)), (Some(7), Some(7)));
        let mut last = hub.listen(&[PODS]);
        topic.list(vec![pod("a", 1), pod("b", 8)], 9);
        assert_eq!((told(&mut late), told(&mut last)), ("all 2".into(), "all 2".into()), "some are gone");
        topic.list(vec![pod("a", 1), pod("b", 8)], 10);
        assert_eq!(
            (told(&mut late), told(&mut last)),
            ("all 2".into(), "all 2".into()),
            "nobody asked for it"
        );
    }

    #[tokio::test]
    async fn a_listener_whose_queue_was_full_gets_a_list_once_it_has_emptied_it() {
        let hub = silent_hub();
        let mut slow = hub.listen(&[PODS]);
        let topic = lock(&hub.shared).topics().remove(0);
        topic.list(Vec::new(), 1);
        topic.stop_keeping();
        let count = u64::try_from(QUEUE_MAX).unwrap();
        (0..count).for_each(|number| topic.set(pod(&number.to_string(), number + 2)));
        assert_eq!(slow.reached(&PODS), None, "the last did not fit");
        assert!(!topic.is_awaited(), "it has older news to hear first");
        let heard = std::iter::from_fn(|| slow.try_next()).count();
        assert_eq!((heard, topic.is_awaited()), (QUEUE_MAX, true));
        topic.set(pod("late", count + 2));
        assert!(slow.try_next().is_none(), "nothing before the list");
        topic.list(vec![pod("late", count + 2)], count + 2);
        assert_eq!(told(&mut slow), "all 1");
        topic.set(pod("next", count + 3));
        assert_eq!(told(&mut slow), format!("+next:{}", count + 3));
    }

    #[tokio::test]
    async fn series_of_a_resource_go_with_its_last_watch() {
        const CUSTOM: Resource =
            Resource { group: "example.com", version: "v1", plural: "pods", kind: "Pod", namespaced: true };
        let client = Client::direct(|_| async {
            let status = String::from(r#"{"kind":"Status","reason":"NotFound","code":404}"#);
            http::Response::builder().status(404).body(status).unwrap_or_default()
        });
        let hub = Hub::new(client, Metrics::default());
        let mut inbox = hub.listen(&[PODS]);
        inbox.follow(&[CUSTOM]);
        let has = |words: &str| hub.metrics().text().contains(words);
        let custom = r#"lazaret_resource_unreadable{resource="pods.example.com"} 1"#;
        while !has(custom) || !has(r#"lazaret_resource_unreadable{resource="pods"} 1"#) {
            tokio::task::yield_now().await;
        }
        inbox.follow(&[]);
        while has(r#"resource="pods.example.com""#) {
            tokio::task::yield_now().await;
        }
        assert!(has(r#"lazaret_lists_total{resource="pods"}"#));
    }

    #[tokio::test]
    async fn what_nobody_follows_any_more_is_not_watched() {
        let client = Client::direct(|_| std::future::pending::<http::Response<String>>());
        let hub = Hub::new(client, Metrics::default());
        let watched =
            |hub: &Hub| lock(&hub.shared).topics().iter().map(|one| one.resource.plural).collect::<Vec<_>>();
        let mut inbox = hub.listen(&[PODS]);
        inbox.follow(&[JOBS, LEASES]);
        let leases = lock(&hub.shared).topics().remove(2);
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
