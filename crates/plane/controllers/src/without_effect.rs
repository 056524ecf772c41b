//! Policies on a cluster whose DeviceTaintRules are not served or have no effect: the status of each policy says so, and nothing else is done for it.

use std::collections::BTreeMap;

use lazaret_machine::{Effect, EffectId, Flights, Machine, Turn, Wake};
use lazaret_model::{Text, Timestamp, Uid};
use lazaret_runtime::{
    AgentOptions, HEALTH_POLICIES, News, Object, Outcome, Perform, Precedence, Reply, Resource,
    TAINT_POLICIES,
};
use serde_json::json;

use crate::{
    context::PartContext,
    feed::NoRules,
    header::{Condition, Header},
    health,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
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
    /// The field manager of the condition where the kind has an effect.
    manager: &'static str,
}

pub(crate) const TAINTS: Kind =
    Kind { resource: TAINT_POLICIES, condition: "Compiled", manager: policies::NAME };
pub(crate) const HEALTH: Kind =
    Kind { resource: HEALTH_POLICIES, condition: "Accepted", manager: health::NAME };

/// Writes the condition to every object of a kind, while this process leads.
pub(crate) async fn say_without_effect(context: PartContext, kind: Kind, why: NoRules) {
    let inbox = context.listen_if_possible(&[], &[kind.resource]);
    let options = AgentOptions { name: kind.manager, in_flight_max: 4, precedence: Precedence::Patient };
    let executor = Executor { writer: context.writer(kind.manager), kind, why };
    context.run(options, inbox, move || agent(kind, why), executor).await;
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

/// Changes of policies, as the machine receives them.
#[derive(Debug)]
enum Input {
    /// A policy does not say yet that it has no effect.
    Open(Tell),
    /// A policy says so, or is gone.
    Closed(Text),
    Turn(Turn),
}

impl From<Turn> for Input {
    fn from(turn: Turn) -> Self {
        Self::Turn(turn)
    }
}

/// Policies that do not say yet that they have no effect.
#[derive(Debug, Default)]
struct Teller {
    open: BTreeMap<Text, (Tell, Phase)>,
    flights: Flights<Tell, Text>,
    leads: bool,
}

impl Teller {
    /// A status is not to be written any more, or another one is. If its write was taken, its answer says nothing.
    fn close(&mut self, name: &Text) {
        if let Some((_, Phase::InFlight(id))) = self.open.remove(name) {
            self.flights.withdraw(id);
        }
    }

    fn turn(&mut self, now: Timestamp, turn: Turn) {
        match turn {
            Turn::Tick => {}
            Turn::BecameLeader => self.leads = true,
            Turn::LostLeadership => {
                self.leads = false;
                let withdrawn = self.flights.withdraw_waiting();
                for (_, phase) in self.open.values_mut() {
                    if matches!(phase, Phase::InFlight(id) if withdrawn.contains(id)) {
                        *phase = Phase::Due(Timestamp::EPOCH);
                    }
                }
            }
            Turn::Acknowledged(effect, reply) => {
                // The policy may have gone or changed meanwhile.
                let Some(name) = self.flights.land(effect) else { return };
                match reply.outcome {
                    Outcome::Done | Outcome::Gone => {
                        self.open.remove(&name);
                    }
                    Outcome::Conflict
                    | Outcome::Refused
                    | Outcome::Held
                    | Outcome::RetryLater
                    | Outcome::Unknown => {
                        if let Some((_, phase)) = self.open.get_mut(&name) {
                            *phase = Phase::Due(now.plus_millis(RETRY_MS));
                        }
                    }
                }
            }
        }
    }
}

impl Machine for Teller {
    type View = ();
    type Input<'a> = Input;
    type Kind = Tell;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, (): &(), input: Input) {
        match input {
            Input::Open(tell) => {
                if self.open.get(&tell.name).is_none_or(|(open, _)| *open != tell) {
                    self.close(&tell.name);
                    self.open.insert(tell.name.clone(), (tell, Phase::Due(Timestamp::EPOCH)));
                }
            }
            Input::Closed(name) => self.close(&name),
            Input::Turn(turn) => self.turn(now, turn),
        }
        if self.leads {
            for (name, (tell, phase)) in &mut self.open {
                if matches!(phase, Phase::Due(at) if *at <= now) {
                    *phase = Phase::InFlight(self.flights.launch(name.clone(), tell.clone()));
                }
            }
        }
    }

    fn poll_effect(&mut self) -> Option<Effect<Tell>> {
        self.flights.take()
    }

    fn next_wake(&self) -> Option<Wake> {
        let due = self.open.values().filter_map(|(_, phase)| match phase {
            Phase::Due(at) => Some(*at),
            Phase::InFlight(_) => None,
        });
        due.min()
            .filter(|_| self.leads)
            .map(|at| Wake::new(at, "a policy is to be told that it has no effect"))
    }
}

/// Policies as they are on the wire.
#[derive(Debug)]
struct Policies {
    kind: Kind,
    why: NoRules,
    ledger: Ledger,
}

fn agent(kind: Kind, why: NoRules) -> MachineAgent<Policies> {
    MachineAgent::new(Teller::default(), Policies { kind, why, ledger: Ledger::default() })
}

impl Shell for Policies {
    type Machine = Teller;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, teller: &mut Teller, now: Timestamp, news: News) {
        let Self { kind, why, ledger } = self;
        ledger.changes(news, |change| {
            let heard = match change {
                Change::Set(_, object) => heard_of(*kind, *why, &object),
                Change::Gone(_, key, _) => Input::Closed(key.name.clone()),
            };
            teller.handle(now, &(), heard);
        });
    }
}

fn heard_of(kind: Kind, why: NoRules, object: &Object) -> Input {
    let header = Header::read(object.json()).unwrap_or_default();
    let generation = header.generation();
    let is_told = |one: &Condition| {
        one.kind == kind.condition
            && one.status == "False"
            && one.reason == why.reason()
            && one.observed_generation == generation
    };
    let name = object.key.name.clone();
    if header.conditions().iter().any(is_told) {
        Input::Closed(name)
    } else {
        Input::Open(Tell { name, uid: object.uid.clone(), generation })
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
        self.writer.apply_status(&resource, &tell.name, manager, body).await.into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lazaret_runtime::Agent as _;

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
        let mut teller = agent(TAINTS, NoRules::NotServed);
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
