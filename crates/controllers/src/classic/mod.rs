//! Classic claims: runs the claim controller of [`lazaret_classic`], and carries out writes to claims, also for the scheduler.

mod devices;
mod read;

use lazaret_api::awaiting_to_text;
use lazaret_classic::{
    AskNode, ClaimController, ClaimCounters, ClaimEffectKind, ClaimInput, CreateClaim, PodEvent,
};
use lazaret_machine::Machine as _;
use lazaret_model::{AWAITING_CLASSIC_UNPREPARE, ObjectKey, Timestamp};
use lazaret_runtime::{
    CLASSIC_CLAIMS, Call, CallError, Client, NODES, News as Heard, Outcome, PODS, PatchKind, Perform, Reply,
    Resource, change_classic_claim,
};
use serde_json::json;

pub(crate) use self::{devices::ClassicDevices, read::claim_news};
use crate::{
    event::{Event, Events},
    ledger::Ledger,
    machine_agent::{MachineAgent, Shell},
    telemetry::ClassicMetrics,
    wire,
};

/// The name of the controller.
pub(crate) const NAME: &str = "classic-resourceclaim-controller";

/// The resources that it watches.
pub(crate) const RESOURCES: &[Resource] = &[PODS, NODES, CLASSIC_CLAIMS];

/// The objects that the core has been told of.
#[derive(Debug)]
pub(crate) struct ClassicShell {
    ledger: Ledger,
    metrics: ClassicMetrics,
    reported: ClaimCounters,
}

impl ClassicShell {
    pub(crate) fn agent(metrics: ClassicMetrics) -> MachineAgent<Self> {
        let shell = Self { ledger: Ledger::default(), metrics, reported: ClaimCounters::default() };
        MachineAgent::new(ClaimController::default(), shell)
    }
}

impl Shell for ClassicShell {
    type Machine = ClaimController;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, claims: &mut ClaimController, now: Timestamp, news: Heard) {
        self.ledger.changes(news, |change| {
            let news = claim_news(&change).or_else(|| read::pod_news(&change));
            let news = news.or_else(|| read::node_news(&change));
            if let Some(news) = news {
                claims.handle(now, &(), ClaimInput::News(news));
            }
        });
    }

    fn think(&mut self, claims: &mut ClaimController, now: Timestamp) {
        claims.handle(now, &(), lazaret_machine::Turn::Tick.into());
        let counters = claims.counters();
        if counters != self.reported {
            self.metrics.report(self.reported, counters);
            self.reported = counters;
        }
    }
}

/// Makes claims, removes reservations.
#[derive(Debug)]
pub(crate) struct Executor {
    client: Client,
    events: Events,
}

impl Executor {
    pub(crate) fn new(client: Client, events: Events) -> Self {
        Self { client, events }
    }

    async fn create(&self, create: &CreateClaim) -> Reply {
        let namespace = &create.claim.namespace;
        let made = self.client.send(Call::create(&CLASSIC_CLAIMS, namespace, new_claim(create))).await;
        let Err(CallError::AlreadyExists(why)) = &made else { return made.into() };
        let found = self.client.send(Call::get(&CLASSIC_CLAIMS, namespace, &create.claim.name)).await;
        match found {
            Ok(found) => match lazaret_api::read_classic_claim(&found) {
                Some(claim) if claim.is_owned_by(&create.owner.uid) => Outcome::Done.into(),
                Some(_) | None => Reply { outcome: Outcome::Conflict, object: None, why: Some(why.clone()) },
            },
            Err(CallError::NotFound(_)) => Outcome::RetryLater.into(),
            Err(error) => Reply::from(&error),
        }
    }

    async fn confirm(&self, pod: &ObjectKey, uid: &str) -> Reply {
        match self.client.send(Call::get(&PODS, &pod.namespace, &pod.name)).await {
            Ok(found) => match wire::metadata(&found) {
                Some(metadata) if metadata.uid == uid => Outcome::Done.into(),
                Some(_) => Outcome::Gone.into(),
                None => Outcome::RetryLater.into(),
            },
            Err(error) => Reply::from(&error),
        }
    }

    async fn ask_node(&self, ask: &AskNode) -> Reply {
        let text = (!ask.awaiting.is_empty()).then(|| awaiting_to_text(&ask.awaiting));
        let body = json!({"metadata": {
            "uid": &*ask.uid, "resourceVersion": &*ask.version, "annotations": {AWAITING_CLASSIC_UNPREPARE: text},
        }});
        let call = Call::patch(&NODES, "", &ask.node, "", PatchKind::Merge, body.to_string());
        match self.client.send(call).await {
            Err(CallError::NotFound(_)) => Outcome::Gone.into(),
            reply => reply.into(),
        }
    }

    fn event(&self, event: &PodEvent) -> Reply {
        let event = Event {
            about: PODS,
            key: &event.pod,
            uid: &event.uid,
            severity: "Warning",
            reason: event.reason,
            action: "CreateClaim",
            message: &event.message,
            component: NAME,
        };
        self.events.post(&event).into()
    }
}

impl Perform<ClaimEffectKind> for Executor {
    async fn perform(&self, effect: ClaimEffectKind) -> Reply {
        match &effect {
            ClaimEffectKind::Create(create) => self.create(create).await,
            ClaimEffectKind::Change(change) => change_classic_claim(&self.client, change).await,
            ClaimEffectKind::ConfirmPod(pod, uid) => self.confirm(pod, uid).await,
            ClaimEffectKind::AskNode(ask) => self.ask_node(ask).await,
            ClaimEffectKind::Event(event) => self.event(event),
        }
    }
}

fn new_claim(create: &CreateClaim) -> String {
    let map = |pairs: &std::collections::BTreeMap<lazaret_model::Text, lazaret_model::Text>| {
        let pairs = pairs.iter().map(|(key, value)| (key.as_str().to_owned(), value.as_str().into()));
        serde_json::Value::Object(pairs.collect())
    };
    let mut owner = lazaret_api::reference_to_json(&create.owner);
    owner["controller"] = true.into();
    owner["blockOwnerDeletion"] = true.into();
    json!({
        "apiVersion": CLASSIC_CLAIMS.api_version(), "kind": CLASSIC_CLAIMS.kind,
        "metadata": {
            "name": &*create.claim.name,
            "namespace": &*create.claim.namespace,
            "labels": map(&create.template.labels),
            "annotations": map(&create.template.annotations),
            "ownerReferences": [owner],
        },
        "spec": lazaret_api::classic_spec_to_json(&create.template.spec),
    })
    .to_string()
}
