//! The machine: its state, what it takes note of, and what can be asked of it.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Pod, Timestamp, Uid};

use crate::{
    counters::{Census, Counters},
    effect::{Effect, Wake, WakeReason},
    flights::Flights,
    input::{Input, SeenClaim, Template},
    options::Options,
    queue::{Item, Queue},
    standing::{Hearsay, is_done},
    tables::{Tables, named_claim},
};

/// The claims of one cluster.
#[derive(Debug)]
pub struct Claims {
    pub(crate) options: Options,
    leads: bool,
    synced: bool,
    pub(crate) tables: Tables,
    pub(crate) hearsay: Hearsay,
    pub(crate) queue: Queue,
    pub(crate) flights: Flights,
    pub(crate) counters: Counters,
    /// The latest instant heard of.
    latest: Timestamp,
}

impl Claims {
    /// A machine that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            hearsay: Hearsay::new(options.gone_max),
            options,
            leads: false,
            synced: false,
            tables: Tables::default(),
            queue: Queue::default(),
            flights: Flights::default(),
            counters: Counters::default(),
            latest: Timestamp::from_millis(i64::MIN),
        }
    }

    /// Takes note of `input` and decides what is to be done at `now`. Total: any input in any state.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        let was_active = self.is_active();
        if now < self.latest && was_active {
            // Whatever was set to happen a while after "now" by the old clock would happen too late by the new one.
            self.start_over();
        }
        self.latest = now;
        match input {
            Input::Pod(pod) => self.see_pod(pod),
            Input::PodGone { key, uid } => self.miss_pod(&key, &uid),
            Input::Claim(seen) => self.see_claim(seen),
            Input::ClaimGone(key) => self.miss_claim(&key),
            Input::Template(template) => self.see_template(template),
            Input::TemplateGone(key) => {
                self.tables.templates.remove(&key);
            }
            Input::Synced => self.synced = true,
            Input::Acknowledged { effect, outcome, why } => self.acknowledge(now, effect, outcome, why),
            Input::Tick => {}
            Input::BecameLeader => self.leads = true,
            Input::LostLeadership => self.leads = false,
        }
        if was_active != self.is_active() {
            self.start_over();
        }
        if self.is_active() {
            self.queue.wake(now);
            self.work(now);
        }
    }

    /// The next effect to be done, the oldest first. None is given twice.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.flights.take()
    }

    /// When to call again if nothing happens before. `None`: there is nothing to wait for.
    #[must_use]
    pub fn next_wake(&self) -> Option<Wake> {
        if !self.is_active() {
            return None;
        }
        self.queue.next_wake()
    }

    /// Whether effects are wanted.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leads
    }

    /// What has been done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many claims there are.
    #[must_use]
    pub fn census(&self) -> Census {
        self.tables.census
    }

    /// How many effects are under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// How many things are kept: pods, claims, templates, names that are mentioned, timers, pods asked for. For gauges
    /// and for tests of forgetting.
    #[must_use]
    pub fn sizes(&self) -> [usize; 6] {
        let tables = &self.tables;
        let links = [&tables.claims_of_pod, &tables.pods_of_claim, &tables.pods_of_template];
        [
            tables.pods.len(),
            tables.claims.len(),
            tables.templates.len(),
            links.iter().map(|links| links.len()).sum(),
            self.queue.timers(),
            self.hearsay.questions(),
        ]
    }

    fn is_active(&self) -> bool {
        self.leads && self.synced
    }

    /// Forgets all work under way, and looks at everything if effects are wanted. What was under way may still happen;
    /// nothing that happens twice does harm.
    fn start_over(&mut self) {
        self.flights.abandon();
        self.queue.clear();
        self.hearsay.forget_questions();
        for slot in self.tables.pods.values_mut() {
            slot.work = None;
        }
        for slot in self.tables.claims.values_mut() {
            (slot.in_flight, slot.plan, slot.setback) = Default::default();
        }
        if self.is_active() {
            self.everything().into_iter().for_each(|item| self.queue.push(item));
        }
    }

    #[allow(clippy::disallowed_methods, reason = "sorted before anybody sees the order")]
    fn everything(&self) -> Vec<Item> {
        let claims = self.tables.claims.keys().cloned().map(Item::Claim);
        let pods = self.tables.pods.values().filter(|slot| !slot.pod.claims.is_empty());
        let mut items: Vec<Item> = claims.chain(pods.map(|slot| Item::Pod(slot.pod.key.clone()))).collect();
        items.sort_unstable();
        items
    }

    /// Looks at what has come up, as far as the limit on effects permits.
    fn work(&mut self, now: Timestamp) {
        while self.flights.len() < self.options.in_flight_max {
            match self.queue.pop() {
                Some(Item::Claim(key)) => self.look_at_claim(now, &key),
                Some(Item::Pod(key)) => self.look_at_pod(now, &key),
                None => return,
            }
        }
    }

    pub(crate) fn touch(&mut self, item: Item) {
        if self.is_active() {
            self.queue.push(item);
        }
    }

    pub(crate) fn later(&mut self, at: Timestamp, why: WakeReason, item: Item) {
        self.queue.later(at, why, item);
    }

    /// Looks at the claims that a pod owns or has reserved.
    pub(crate) fn touch_claims_of(&mut self, pod: &ObjectKey) {
        let claims: Vec<ObjectKey> = self.tables.claims_of_pod.of(pod).collect();
        claims.into_iter().for_each(|claim| self.touch(Item::Claim(claim)));
    }

    fn see_pod(&mut self, pod: Arc<Pod>) {
        if self.hearsay.gone.contains(&pod.uid) {
            return;
        }
        self.hearsay.seen(&pod.uid);
        let before = self.tables.put_pod(pod.clone());
        if before.is_some_and(|before| is_same(&before, &pod)) {
            return;
        }
        if !pod.claims.is_empty() {
            self.touch(Item::Pod(pod.key.clone()));
        }
        self.touch_claims_of(&pod.key);
        for name in pod.claims.iter().filter_map(|entry| named_claim(&entry.source)) {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
            self.touch(Item::Claim(key));
        }
    }

    fn miss_pod(&mut self, key: &ObjectKey, uid: &Uid) {
        self.hearsay.is_gone(uid);
        if self.tables.pods.get(key).is_some_and(|slot| slot.pod.uid == *uid) {
            self.tables.remove_pod(key);
        }
        self.touch_claims_of(key);
    }

    fn see_claim(&mut self, seen: SeenClaim) {
        let key = seen.claim.key.clone();
        if let Some(slot) = self.tables.claims.get(&key)
            && slot.seen.claim.uid == seen.claim.uid
            && is_older(&seen.version, &slot.seen.version)
        {
            return;
        }
        let before = self.tables.put_claim(seen.clone());
        self.touch(Item::Claim(key));
        let same = before.is_some_and(|before| {
            before.claim.uid == seen.claim.uid
                && before.claim.owner == seen.claim.owner
                && before.entry == seen.entry
        });
        if !same {
            self.touch_pods_of(&seen);
        }
    }

    fn miss_claim(&mut self, key: &ObjectKey) {
        if let Some(seen) = self.tables.remove_claim(key) {
            self.forget_made(&seen);
            self.touch_pods_of(&seen);
        }
    }

    /// Looks at the pods that name or own a claim.
    fn touch_pods_of(&mut self, seen: &SeenClaim) {
        let mut pods: Vec<ObjectKey> = self.tables.pods_of_claim.of(&seen.claim.key).collect();
        if let Some((name, _)) = seen.owning_pod() {
            pods.push(ObjectKey { namespace: seen.claim.key.namespace.clone(), name: name.clone() });
        }
        pods.into_iter().for_each(|pod| self.touch(Item::Pod(pod)));
    }

    fn see_template(&mut self, template: Arc<Template>) {
        let key = template.key.clone();
        if self.tables.templates.insert(key.clone(), template).is_none() {
            let pods: Vec<ObjectKey> = self.tables.pods_of_template.of(&key).collect();
            pods.into_iter().for_each(|pod| self.touch(Item::Pod(pod)));
        }
    }
}

/// Whether nothing changed that matters here.
fn is_same(before: &Pod, now: &Pod) -> bool {
    before.uid == now.uid
        && before.node.is_some() == now.node.is_some()
        && before.deleting_since.is_some() == now.deleting_since.is_some()
        && is_done(before) == is_done(now)
        && before.group == now.group
        && before.claims == now.claims
        && before.extended_claim == now.extended_claim
}

/// Versions of one object are numbers that grow; of others nothing is said.
fn is_older(this: &str, that: &str) -> bool {
    match (this.parse::<u64>(), that.parse::<u64>()) {
        (Ok(this), Ok(that)) => this < that,
        (Err(_), _) | (_, Err(_)) => false,
    }
}
