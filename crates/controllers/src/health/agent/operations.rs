//! The write that each effect of the core becomes.

use lazaret_api::HealthStep;
use lazaret_lifecycle::{Incident, Owner, Task, WriteKind};
use lazaret_model::Text;
use lazaret_runtime::{Call, EffectId, INCIDENTS, JOBS, Resource, SIGNALS};
use serde_json::Value;

use super::{
    super::{
        executor::{New, Operation, delete, record, resource},
        task::Subject,
        writes,
    },
    Health,
};

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
                Operation::Warn(format!("DeviceHealthPolicy {policy}: spec.rules[{rule}].when: {error}"))
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
        let Some(policy) = self.policies.get(&incident.policy).cloned() else {
            return Operation::Impossible("its policy is gone".to_owned());
        };
        let node = match self.levels.node_of(&self.fleet, &incident.device) {
            Ok(node) => node,
            Err(why) => return Operation::Impossible(why),
        };
        let subject = Subject { owner, incident, name, node };
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
                    Operation::Make(owner.uid.clone(), vec![new(JOBS, namespace, &job)])
                }
                Some(HealthStep::Request { api_version, kind, template, done_when }) => {
                    self.asked.insert(id, (name.clone(), done_when.clone()));
                    Operation::Request(owner.uid.clone(), subject.request(api_version, kind, template))
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
                        Operation::Make(owner.uid.clone(), all)
                    }
                    Err(why) => Operation::Impossible(why),
                }
            }
        }
    }
}
