//! The write that each effect of the core becomes.

use lazaret_api::{HealthStep, ServiceAccount, account_refusal};
use lazaret_lifecycle::{DoneWhen, Incident, Notice, Owner, Task, TaskObject, WriteKind};
use lazaret_model::{Text, Timestamp};
use lazaret_runtime::{Call, EffectId, INCIDENTS, JOBS, Outcome, Reply, Resource, SIGNALS};
use serde_json::Value;

use super::{
    super::{
        executor::{New, Operation, Task as RunAs, delete, record, resource},
        task::Subject,
        writes,
    },
    Health, Running,
};
use crate::wire;

impl Health {
    /// The write for an effect of the core.
    pub(super) fn deed(&mut self, id: EffectId, kind: WriteKind) -> Operation {
        match kind {
            WriteKind::Create(incident) => {
                let body = lazaret_api::incident_to_json(&incident).to_string();
                Operation::Send(Box::new(Call::create(&INCIDENTS, "", body)))
            }
            WriteKind::Record(uid, version, incident) => {
                let status = lazaret_api::incident_status_to_json(&incident);
                Operation::Send(Box::new(record(&incident.name, &uid, &version, &status)))
            }
            WriteKind::Remove(name, uid) => Operation::Send(Box::new(delete(&INCIDENTS, "", &name, &uid))),
            WriteKind::Taint { owner, device, effect, taint, uid } => {
                writes::taint(self.rules, &owner, &device, (effect, &taint), uid)
            }
            WriteKind::Drain { owner, device, taint, policy } => {
                writes::drain(&owner, &device, &taint, self.policies.get(&policy).map(|policy| &**policy))
            }
            WriteKind::Tally(policy, tallies) => writes::tally(&policy, &tallies),
            WriteKind::Run { owner, name, task, incident } => self.run(id, &owner, &name, task, &incident),
            WriteKind::Delete(kind, namespace, name, uid) => {
                Operation::Send(Box::new(delete(&resource(kind, self.rules), &namespace, &name, &uid)))
            }
            WriteKind::DropReport(name, uid) => Operation::Send(Box::new(delete(&SIGNALS, "", &name, &uid))),
            WriteKind::Broken(policy, rule, error) => {
                let problem = format!("spec.rules[{rule}].when: {error}");
                let text = format!("DeviceHealthPolicy {policy}: {problem}");
                self.note_broken(&policy, problem);
                Operation::Warn(text)
            }
        }
    }

    pub(super) fn run(
        &mut self,
        id: EffectId,
        owner: &Owner,
        name: &Text,
        task: Task,
        incident: &Incident,
    ) -> Operation {
        self.running.insert(id, Running { task: name.clone(), done_when: None });
        let Some(policy) = self.policies.get(&incident.policy).cloned() else {
            return Operation::Impossible("its policy is gone".to_owned());
        };
        if let Some(why) = account_refusal(policy.account.as_ref(), &self.repair_namespaces) {
            return Operation::Blocked(why);
        }
        let known = incident.task.as_ref().filter(|known| known.name == *name).map(|known| known.uid.clone());
        let user = policy.account.as_ref().map(ServiceAccount::user).unwrap_or_default();
        let made = RunAs { incident: owner.uid.clone(), user, known };
        let node = match self.levels.node_of(&self.fleet, &incident.device) {
            Ok(node) => node,
            Err(why) => return Operation::Impossible(why),
        };
        let proofs = self.proofs.clone();
        let subject = Subject { proofs: &proofs, owner, incident, name, node };
        let new = |resource: Resource, namespace: &str, body: &Value| New {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_string(),
            body: body.to_string(),
        };
        match task {
            Task::Repair(step) => match policy.steps.get(step) {
                Some(HealthStep::Job { namespace, template }) => {
                    let job = subject.repair(template, namespace);
                    Operation::Run(made, vec![new(JOBS, namespace, &job)])
                }
                Some(HealthStep::Request { api_version, kind, template, done_when }) => {
                    let done_when = Some(done_when.clone());
                    self.running.insert(id, Running { task: name.clone(), done_when });
                    Operation::Request(made, subject.request(api_version, kind, template))
                }
                None => Operation::Impossible(format!("its policy has no step {step}")),
            },
            Task::Validate => {
                let Some(validation) = &policy.validation else {
                    return Operation::Impossible("its policy has no validation".to_owned());
                };
                match subject.validation(validation, &policy.identity) {
                    Ok((job, claim)) => {
                        let namespace = &validation.namespace;
                        let all =
                            vec![new(lazaret_runtime::CLAIMS, namespace, &claim), new(JOBS, namespace, &job)];
                        Operation::Run(made, all)
                    }
                    Err(why) => Operation::Impossible(why),
                }
            }
        }
    }
}

impl Health {
    /// The answer to a repair or validation: which object was made for it, or what keeps it from being made. A request may be done already.
    pub(super) fn note_task(&mut self, now: Timestamp, running: Running, reply: &Reply) {
        let Running { task, done_when } = running;
        let made = reply.object.as_deref().and_then(wire::metadata);
        if let Some(metadata) = made.filter(|_| reply.outcome == Outcome::Done) {
            let (namespace, name) = (metadata.namespace.into(), metadata.name.into());
            let made = TaskObject { namespace, name, uid: metadata.uid.into() };
            self.core.handle(now, Notice::Made(made.clone()));
            let is_done = |when: DoneWhen| {
                reply.object.as_deref().is_some_and(|object| lazaret_api::done(&when, object))
            };
            if done_when.is_some_and(is_done) {
                self.core.handle(now, Notice::Asked(made, Some(Ok(()))));
            }
        } else if let Some(why) = reply.why.as_deref().filter(|_| reply.outcome == Outcome::Conflict) {
            self.core.handle(now, Notice::Obstructed(task, why.into()));
        }
    }
}
