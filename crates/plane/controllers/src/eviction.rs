//! Device taint eviction: runs [`lazaret_eviction`] and does what it decides.

use lazaret_api::{LAST_PUBLISHED, last_published_to_text};
use lazaret_eviction::{
    BlockCounts, EVENT_REASON, EVICTION_BLOCKED, EffectKind, Evict, Eviction, GuardEvent, HELD_REASON, Input,
    Manner, Options, RuleEvent, RuleStatus, SetLastPublished, SetRuleStatus, ViewRequest,
};
use lazaret_fleet::Fleet;
use lazaret_machine::Turn;
use lazaret_model::{ObjectKey, SetBack, Text, Timestamp, Uid};
use lazaret_runtime::{
    CLAIMS, CLASSIC_CLAIMS, Call, CallError, DISRUPTION_GUARDS, EffectId, NAMESPACES, News, Outcome, PODS,
    PatchKind, Perform, Reply, Resource, ViewWish, Wake,
};
use serde_json::json;
use tracing::info;

use crate::{
    capacity::CapacityClient,
    classic::ClassicDevices,
    disrupt::Disruption,
    event::Event,
    feed::{Sources, kind},
    guard::{GuardBook, may_follow, status_body},
    machine_agent::{MachineAgent, Shell},
    preferences::NamespacePreferences,
    telemetry::{DeviceCounts, EvictionMetrics},
    wire,
    writer::{Writer, done_or_gone},
};

/// The controller's name in events and as a field manager.
pub(crate) const NAME: &str = "device-taint-eviction";

/// Resources that it watches where they are served and may be read.
pub(crate) const OPTIONAL: [Resource; 2] = [DISRUPTION_GUARDS, NAMESPACES];

/// The resources that it watches.
pub(crate) fn resources(sources: Sources) -> Vec<Resource> {
    let mut resources = sources.resources();
    if sources.has_classic() {
        resources.push(CLASSIC_CLAIMS);
    }
    resources
}

/// Changes passed to the core in one batch: the first pods leave before it has looked at the rest.
const CHANGES_MAX: usize = 128;

/// The objects of the core.
#[derive(Debug)]
pub(crate) struct EvictionShell {
    options: Options,
    fleet: Fleet,
    sources: Sources,
    guards: GuardBook,
    classic: ClassicDevices,
    preferences: NamespacePreferences,
    metrics: EvictionMetrics,
    /// Of several controllers over the same devices, the one that sees all taints counts them.
    devices: Option<DeviceCounts>,
    /// The counts of blocked pods that the metrics show.
    shown: BlockCounts,
    /// There is something to tell the core.
    heard: bool,
}

impl Drop for EvictionShell {
    fn drop(&mut self) {
        self.metrics.blocked(self.shown, BlockCounts::default());
    }
}

impl EvictionShell {
    pub(crate) fn agent(options: Options, sources: Sources, metrics: EvictionMetrics) -> MachineAgent<Self> {
        let options = Options { records_evictions: sources.counts_evictions(), ..options };
        let eviction = Eviction::new(options.clone());
        let shell = Self {
            fleet: Fleet::with_gates(sources.gates()),
            sources,
            devices: options.writes_guards.then(|| metrics.device_counts()),
            options,
            metrics,
            shown: BlockCounts::default(),
            guards: GuardBook::default(),
            classic: ClassicDevices::default(),
            preferences: NamespacePreferences::default(),
            heard: false,
        };
        MachineAgent::new(eviction, shell)
    }

    /// Shows how many pods are kept from being evicted, and by what.
    fn show(&mut self, eviction: &Eviction) {
        let counts = eviction.blocked();
        if counts != self.shown {
            self.metrics.blocked(self.shown, counts);
            self.shown = counts;
        }
    }

    /// Tells the core what guards there are and what namespaces say, if that is news.
    fn tell_guards(&mut self, eviction: &mut Eviction, now: Timestamp) {
        if core::mem::take(&mut self.guards.is_news) {
            let guards = self.guards.all();
            eviction.handle(now, &self.fleet, Input::Guards(&guards));
        }
        if core::mem::take(&mut self.preferences.is_news) {
            eviction.handle(now, &self.fleet, Input::Preferences(&self.preferences.preferences));
        }
    }

    /// Tells the core what has changed, so much of it at most.
    fn tell(&mut self, eviction: &mut Eviction, now: Timestamp, most: usize) {
        let changes = self.fleet.take_some_changes(most);
        self.heard = changes.partial;
        eviction.handle(now, &self.fleet, Input::Changed(&changes));
    }
}

impl Shell for EvictionShell {
    type Machine = Eviction;

    fn view(&self) -> &Fleet {
        &self.fleet
    }

    fn clock_set_back(&mut self, eviction: &mut Eviction, set_back: SetBack) {
        self.options.set_back = Some(set_back);
        *eviction = Eviction::new(self.options.clone());
        (self.guards.is_news, self.preferences.is_news) = (true, true);
    }

    fn hear(&mut self, _: &mut Eviction, now: Timestamp, news: News) {
        if self.guards.hear(&news) || self.preferences.hear(&news) {
            return;
        }
        self.metrics.sources_changed(&news);
        self.classic.feed(self.sources, &mut self.fleet, &news);
        self.heard = true;
        if let Some(devices) = &mut self.devices {
            devices.changed(now);
        }
    }

    fn think(&mut self, eviction: &mut Eviction, now: Timestamp) {
        self.tell_guards(eviction, now);
        if core::mem::take(&mut self.heard) {
            self.tell(eviction, now, if eviction.is_leader() { CHANGES_MAX } else { usize::MAX });
        } else {
            eviction.handle(now, &self.fleet, Input::Tick);
        }
        self.show(eviction);
        // Evictions come first.
        if !self.heard
            && let Some(devices) = &mut self.devices
        {
            devices.think(now, &mut self.fleet);
        }
    }

    fn lead(&mut self, eviction: &mut Eviction, now: Timestamp, leads: bool) {
        self.tell_guards(eviction, now);
        // It must know what there is before it is asked to act on it.
        self.tell(eviction, now, usize::MAX);
        eviction.handle(now, &self.fleet, Turn::leads(leads).into());
        self.show(eviction);
        if let Some(devices) = &mut self.devices {
            devices.lead(now, leads);
        }
    }

    fn acknowledge(&mut self, eviction: &mut Eviction, now: Timestamp, effect: EffectId, reply: Reply) {
        eviction.handle(now, &self.fleet, Turn::Acknowledged(effect, reply.into()).into());
        self.show(eviction);
    }

    fn wake(&self, eviction: &Eviction) -> Option<Wake> {
        if self.heard || self.guards.is_news || self.preferences.is_news {
            return Some(Wake::now("pods, devices or guards have changed"));
        }
        let count = self.devices.as_ref().and_then(DeviceCounts::due);
        let count = count.map(|at| Wake::new(at, "devices are to be counted"));
        Wake::first([eviction.next_wake().map(lazaret_machine::Wake::in_words), count])
    }

    fn wants_view(&mut self, eviction: &mut Eviction) -> Option<ViewWish> {
        let ViewRequest { number, kinds } = eviction.poll_view()?;
        let of = |resource: &&Resource| kind(resource).is_some_and(|kind| kinds.contains(&kind));
        Some(ViewWish { number, resources: self.sources.resources().iter().filter(of).copied().collect() })
    }

    fn view_reached(&mut self, eviction: &mut Eviction, now: Timestamp, number: u64) {
        // The core gets all news before the notice that they are all.
        self.tell(eviction, now, usize::MAX);
        eviction.handle(now, &self.fleet, Input::ViewReached(number));
    }

    fn final_writes(&mut self, eviction: &mut Eviction, now: Timestamp) -> bool {
        self.tell(eviction, now, usize::MAX);
        eviction.handle(now, &self.fleet, Input::Closing);
        eviction.has_final_writes()
    }
}

/// Deletes pods, writes statuses, posts events.
#[derive(Debug)]
pub(crate) struct Executor {
    writer: Writer,
    rules: Resource,
    counts_evictions: bool,
    metrics: EvictionMetrics,
    capacity: CapacityClient,
}

impl Executor {
    pub(crate) fn new(
        writer: Writer,
        sources: Sources,
        metrics: EvictionMetrics,
        capacity: CapacityClient,
    ) -> Self {
        Self {
            writer,
            rules: sources.rules(),
            counts_evictions: sources.counts_evictions(),
            metrics,
            capacity,
        }
    }

    async fn evict(&self, evict: &Evict) -> Result<Outcome, CallError> {
        let (condition, mark) = (evict.condition(), evict.mark());
        let disruption =
            Disruption { pod: &evict.pod, uid: &evict.uid, condition: &condition, mark: Some(&mark) };
        let outcome = match evict.manner {
            Manner::Delete | Manner::DeleteOverdue => disruption.delete(&self.writer).await?,
            Manner::Evict => disruption.evict(&self.writer).await?,
        };
        if outcome == Outcome::Done {
            self.metrics.evicted(self.writer.now(), self.rules, evict);
            if let Some(reason) = evict.due_reasons().first() {
                info!(pod = %evict.pod, node = %evict.node, why = %reason, "evicted");
            }
        }
        Ok(outcome)
    }

    async fn set_status(&self, status: &SetRuleStatus) -> Result<Outcome, CallError> {
        let RuleStatus { condition, drained, blocked, expired, held, evictions: _, evicting, .. } =
            &status.status;
        let further = [blocked.as_ref(), expired.as_ref(), held.as_ref()];
        let conditions: Vec<_> = [Some(condition), Some(drained)]
            .into_iter()
            .chain(further)
            .flatten()
            .map(wire::condition)
            .collect();
        let mut body = json!({
            "apiVersion": self.rules.api_version(),
            "kind": self.rules.kind,
            "metadata": {"name": &*status.rule, "uid": &*status.uid},
            "status": {"conditions": conditions},
        });
        // Kubernetes' own rules have no field for it.
        if let Some(evictions) = status.status.counted().filter(|_| self.counts_evictions) {
            body["status"]["evictions"] = json!({
                "pods": evictions.pods,
                "atLeast": evictions.at_least,
                "until": evictions.until.map(lazaret_api::format_time_precise),
                "complete": evictions.complete,
            });
            if !evicting.is_empty() {
                body["status"]["evicting"] = evicting.iter().map(|uid| &**uid).collect();
            }
        }
        if let Some(since) = status.status.effective_since.filter(|_| self.counts_evictions) {
            body["status"]["effectiveSince"] = lazaret_api::format_time_precise(since).into();
        }
        let kind = PatchKind::Apply { manager: NAME };
        let call = Call::patch(&self.rules, "", &status.rule, "status", kind, body.to_string());
        done_or_gone(self.writer.send_to_one(call).await)
    }

    /// An event about an object that keeps pods from being evicted.
    fn post_blocked(&self, about: Resource, name: &Text, uid: &Uid, message: &str) -> Reply {
        self.writer.post(&Event {
            about,
            key: &ObjectKey::new("", name.clone()),
            uid,
            severity: "Warning",
            reason: EVICTION_BLOCKED,
            action: "Evicting",
            message,
            component: NAME,
        })
    }

    /// DEVIATION(last-published): what devices in use were like is kept on the claim.
    async fn set_last_published(&self, write: &SetLastPublished) -> Result<Outcome, CallError> {
        let SetLastPublished { claim, uid, devices } = write;
        let text = (!devices.is_empty()).then(|| last_published_to_text(devices));
        let body = json!({"metadata": {"uid": &**uid, "annotations": {LAST_PUBLISHED: text}}}).to_string();
        let call = Call::patch(&CLAIMS, &claim.namespace, &claim.name, "", PatchKind::Merge, body);
        done_or_gone(self.writer.send(call).await)
    }
}

impl Perform<EffectKind> for Executor {
    async fn perform(&self, effect: EffectKind) -> Reply {
        let done = match &effect {
            EffectKind::Evict(evict) => self.evict(evict).await,
            EffectKind::SetRuleStatus(status) => self.set_status(status).await,
            EffectKind::SetLastPublished(write) => self.set_last_published(write).await,
            EffectKind::SetGuardStatus(write) => {
                let body = (NAME, status_body(write, self.writer.now()));
                let permits = |found: &[u8]| may_follow(write, found);
                let writer = &self.writer;
                let sent = writer.apply_status_where(&DISRUPTION_GUARDS, &write.guard, body, permits);
                done_or_gone(sent.await)
            }
            EffectKind::AskCapacity(question) => return self.capacity.ask(question).await,
            EffectKind::Event(event) => {
                if event.reason == HELD_REASON {
                    self.metrics.held();
                }
                return self.writer.post(&Event {
                    about: PODS,
                    key: &event.pod,
                    uid: &event.uid,
                    severity: if event.reason == EVENT_REASON { "Normal" } else { "Warning" },
                    reason: event.reason,
                    action: "Evicting",
                    message: &event.message,
                    component: NAME,
                });
            }
            EffectKind::RuleEvent(RuleEvent { rule: name, uid, message }) => {
                return self.post_blocked(self.rules, name, uid, message);
            }
            EffectKind::GuardEvent(GuardEvent { guard: name, uid, message }) => {
                return self.post_blocked(DISRUPTION_GUARDS, name, uid, message);
            }
        };
        done.map_or_else(
            |error| {
                // A disruption budget may refuse for hours: the rule's status says so.
                if !matches!(error, CallError::Budget(_)) {
                    tracing::warn!(%error, "an effect of the eviction failed");
                }
                let is_refused = matches!(error, CallError::Forbidden(_) | CallError::Invalid(_));
                if is_refused && matches!(effect, EffectKind::Evict(_)) {
                    // A policy, a webhook or missing rights: the rule's status says so.
                    return Reply { why: Some(error.to_string()), ..Outcome::Refused.into() };
                }
                Reply::from(&error)
            },
            Reply::from,
        )
    }
}
