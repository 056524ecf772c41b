//! Classic claims: runs the claim controller of [`lazaret_classic`], and carries out writes to claims, also for the scheduler.

mod devices;
mod read;

use lazaret_api::{awaiting_to_text, read_classic_claim};
use lazaret_classic::{
    AskNode, ClaimController, ClaimCounters, ClaimEffectKind, ClaimInput, CreateClaim, DeleteClaim, PodEvent,
};
use lazaret_machine::Machine as _;
use lazaret_model::{AWAITING_CLASSIC_UNPREPARE, ObjectKey, Timestamp};
use lazaret_runtime::{
    CLASSIC_CLAIMS, Call, NODES, News as WatchNews, PODS, PatchKind, Perform, Reply, Resource,
    change_classic_claim,
};
use serde_json::json;

pub(crate) use self::{
    devices::ClassicDevices,
    read::{claim_news, may_have_claims},
};
use crate::{
    event::Event,
    ledger::Ledger,
    machine_agent::{MachineAgent, Shell},
    telemetry::ClassicMetrics,
    writer::{Writer, done_or_gone, made},
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

    fn hear(&mut self, claims: &mut ClaimController, now: Timestamp, news: WatchNews) {
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

async fn create_claim(writer: &Writer, create: &CreateClaim) -> Reply {
    let ObjectKey { namespace, name } = &create.claim;
    let make = Call::create(&CLASSIC_CLAIMS, namespace, new_claim(create));
    let is_ours =
        |found: &[u8]| read_classic_claim(found).is_some_and(|claim| claim.is_owned_by(&create.owner.uid));
    made(writer.make(make, Call::get(&CLASSIC_CLAIMS, namespace, name), is_ours).await)
}

async fn delete_claim(writer: &Writer, delete: &DeleteClaim) -> Reply {
    let ObjectKey { namespace, name } = &delete.claim;
    let options = json!({"preconditions": {"uid": &*delete.uid}});
    let call = Call::delete(&CLASSIC_CLAIMS, namespace, name, options.to_string());
    done_or_gone(writer.send_to_one(call).await).map_or_else(|error| Reply::from(&error), Reply::from)
}

async fn ask_node(writer: &Writer, ask: &AskNode) -> Reply {
    let text = (!ask.awaiting.is_empty()).then(|| awaiting_to_text(&ask.awaiting));
    let body = json!({"metadata": {
        "uid": &*ask.uid, "resourceVersion": &*ask.version, "annotations": {AWAITING_CLASSIC_UNPREPARE: text},
    }});
    writer.send(Call::patch(&NODES, "", &ask.node, "", PatchKind::Merge, body.to_string())).await.into()
}

fn event(event: &PodEvent) -> Event<'_> {
    Event {
        about: PODS,
        key: &event.pod,
        uid: &event.uid,
        severity: "Warning",
        reason: event.reason,
        action: "CreateClaim",
        message: &event.message,
        component: NAME,
    }
}

/// Makes claims, removes reservations.
impl Perform<ClaimEffectKind> for Writer {
    async fn perform(&self, effect: ClaimEffectKind) -> Reply {
        match &effect {
            ClaimEffectKind::Create(create) => create_claim(self, create).await,
            ClaimEffectKind::Change(change) => change_classic_claim(self.client(), change).await,
            ClaimEffectKind::Delete(delete) => delete_claim(self, delete).await,
            ClaimEffectKind::ConfirmPod(pod, uid) => self.confirm(&PODS, pod, uid).await,
            ClaimEffectKind::AskNode(ask) => ask_node(self, ask).await,
            ClaimEffectKind::Event(about) => self.post(&event(about)),
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
