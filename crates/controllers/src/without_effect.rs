//! Policies on a cluster whose DeviceTaintRules are not there or not heeded: each is told so in its status, and nothing else is done for it.

use std::collections::BTreeMap;

use lazaret_model::{Text, Timestamp, Uid};
use lazaret_runtime::{
    Agent, AgentOptions, Call, Effect, EffectId, HEALTH_POLICIES, News, Object, Outcome, PatchKind, Perform,
    Precedence, Reply, Resource, TAINT_POLICIES, Wake,
};
use serde_json::json;

use crate::{
    desk::Desk,
    feed::NoRules,
    header::{Condition, Header},
    health,
    ledger::{Change, Ledger},
    policies,
    writer::Writer,
};

/// Between two attempts to write a status.
const RETRY_MS: i64 = 5_000;

/// Which condition of a kind says that its objects have no effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    resource: Resource,
    condition: &'static str,
    /// Who writes the condition where the kind has an effect.
    manager: &'static str,
}

pub(crate) const TAINTS: Kind =
    Kind { resource: TAINT_POLICIES, condition: "Compiled", manager: policies::NAME };
pub(crate) const HEALTH: Kind =
    Kind { resource: HEALTH_POLICIES, condition: "Accepted", manager: health::NAME };

/// Says it of every object of a kind, as long as this process leads.
pub(crate) async fn say_without_effect(desk: Desk, kind: Kind, why: NoRules) {
    let inbox = desk.listen_if_possible(&[], &[kind.resource]);
    let options = AgentOptions { name: kind.manager, in_flight_max: 4, precedence: Precedence::Patient };
    let executor = Executor { writer: desk.writer(), kind, why };
    desk.run(options, inbox, move || Teller::new(kind, why), executor).await;
}

/// A status to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tell {
    name: Text,
    uid: Uid,
    generation: i64,
}

#[derive(Debug)]
enum Phase {
    /// To be written, not before.
    Due(Timestamp),
    InFlight(EffectId),
}

/// Policies that do not say yet that they have no effect.
#[derive(Debug)]
struct Teller {
    kind: Kind,
    why: NoRules,
    ledger: Ledger,
    open: BTreeMap<Text, (Tell, Phase)>,
    next: u64,
    leads: bool,
    now: Timestamp,
}

impl Teller {
    fn new(kind: Kind, why: NoRules) -> Self {
        let (ledger, open) = (Ledger::default(), BTreeMap::new());
        Self { kind, why, ledger, open, next: 0, leads: false, now: Timestamp::EPOCH }
    }

    fn set(&mut self, object: &Object) {
        let header = Header::read(object.json()).unwrap_or_default();
        let generation = header.generation();
        let is_told = |one: &Condition| {
            one.kind == self.kind.condition
                && one.status == "False"
                && one.reason == self.why.reason()
                && one.observed_generation == generation
        };
        let name = object.key.name.clone();
        if header.conditions().iter().any(is_told) {
            self.open.remove(&name);
            return;
        }
        let tell = Tell { name: name.clone(), uid: object.uid.clone(), generation };
        if self.open.get(&name).is_none_or(|(open, _)| *open != tell) {
            self.open.insert(name, (tell, Phase::Due(Timestamp::EPOCH)));
        }
    }
}

impl Agent for Teller {
    type Effect = Tell;

    fn hear(&mut self, _: Timestamp, news: News) {
        let mut ledger = core::mem::take(&mut self.ledger);
        ledger.changes(news, |change| match change {
            Change::Set(_, object) => self.set(&object),
            Change::Gone(_, key, _) => {
                self.open.remove(&key.name);
            }
        });
        self.ledger = ledger;
    }

    fn think(&mut self, now: Timestamp) {
        self.now = now;
    }

    fn lead(&mut self, _: Timestamp, leading: bool) {
        self.leads = leading;
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        let is_it = |phase: &Phase| matches!(phase, Phase::InFlight(id) if *id == effect);
        let Some(name) = self.open.iter().find(|(_, (_, phase))| is_it(phase)).map(|(name, _)| name.clone())
        else {
            // The policy has gone or changed meanwhile.
            return;
        };
        match reply.outcome {
            Outcome::Done | Outcome::Gone => {
                self.open.remove(&name);
            }
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                if let Some((_, phase)) = self.open.get_mut(&name) {
                    *phase = Phase::Due(now.plus_millis(RETRY_MS));
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Effect<Tell>> {
        if !self.leads {
            return None;
        }
        let now = self.now;
        let is_due = |phase: &Phase| matches!(phase, Phase::Due(at) if *at <= now);
        let (tell, phase) = self.open.values_mut().find(|(_, phase)| is_due(phase))?;
        self.next += 1;
        let id = EffectId(self.next);
        *phase = Phase::InFlight(id);
        Some(Effect { id, kind: tell.clone() })
    }

    fn wake(&self) -> Option<Wake> {
        let due = self.open.values().filter_map(|(_, phase)| match phase {
            Phase::Due(at) => Some(*at),
            Phase::InFlight(_) => None,
        });
        due.min()
            .filter(|_| self.leads)
            .map(|at| Wake::new(at, "a policy is to be told that it has no effect"))
    }
}

#[derive(Debug)]
struct Executor {
    writer: Writer,
    kind: Kind,
    why: NoRules,
}

impl Perform<Tell> for Executor {
    async fn perform(&self, tell: Tell) -> Reply {
        let Kind { resource, condition, manager } = self.kind;
        let body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"name": &*tell.name, "uid": &*tell.uid},
            "status": {"conditions": [{
                "type": condition, "status": "False", "reason": self.why.reason(), "message": self.why.message(),
                "observedGeneration": tell.generation,
                "lastTransitionTime": lazaret_api::format_time(policies::seconds(self.writer.now())),
            }]},
        });
        let kind = PatchKind::Apply { manager };
        let call = Call::patch(&resource, "", &tell.name, "status", kind, body.to_string());
        self.writer.send_to_one(call).await.into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn policy(generation: i64, conditions: &str) -> News {
        let text = format!(
            r#"{{"kind":"DeviceTaintPolicy","metadata":{{"name":"a","uid":"u","generation":{generation}}},"status":{{"conditions":[{conditions}]}}}}"#
        );
        News::Set(TAINT_POLICIES, Arc::new(Object::new(&TAINT_POLICIES, text).unwrap()))
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn each_generation_is_told_once_and_again_when_it_failed() {
        let mut teller = Teller::new(TAINTS, NoRules::NotServed);
        teller.hear(at(0), policy(1, ""));
        teller.think(at(0));
        assert_eq!(teller.poll(), None, "who does not lead writes nothing");
        teller.lead(at(0), true);
        let Effect { id, kind: tell } = teller.poll().unwrap();
        assert_eq!((&*tell.name, tell.generation), ("a", 1));
        assert_eq!((teller.poll(), teller.wake()), (None, None), "it is in flight");
        teller.acknowledge(at(10), id, Outcome::RetryLater.into());
        assert_eq!((teller.poll(), teller.wake().map(|wake| wake.at)), (None, Some(at(10 + RETRY_MS))));
        teller.think(at(10 + RETRY_MS));
        let id = teller.poll().unwrap().id;
        teller.acknowledge(at(6_000), id, Outcome::Done.into());
        let told = r#"{"type":"Compiled","status":"False","reason":"RulesNotServed","observedGeneration":1}"#;
        teller.hear(at(6_000), policy(1, told));
        assert_eq!((teller.poll(), teller.wake()), (None, None));
        teller.hear(at(7_000), policy(2, told));
        assert_eq!(teller.poll().unwrap().kind.generation, 2);
        let other = r#"{"type":"Compiled","status":"True","reason":"AsSelected","observedGeneration":3}"#;
        teller.hear(at(8_000), policy(3, other));
        assert_eq!(teller.poll().unwrap().kind.generation, 3);
    }
}
