//! ResourceSlicePatches on a cluster whose scheduler does not read them: runs [`lazaret_policies::Patches`], which makes DeviceTaintPolicies of their
//! taints, and says in their status which attributes are not in effect.

use lazaret_machine::Machine;
use lazaret_model::{Taint, Text, Timestamp};
use lazaret_policies::{OwnedPolicy, PatchEffect, PatchInput, PatchReport, Patches, WantedPolicy};
use lazaret_runtime::{
    AgentOptions, Call, Model, News, OWN_PATCHES, Object, PatchKind, Perform, Precedence, Reply,
    TAINT_POLICIES,
};
use serde_json::{Value, json};
use tracing::info;

use crate::{
    Sources,
    context::PartContext,
    feed::NoRules,
    frozen::Frozen,
    header::Header,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    policies::{MANAGED_BY, Said, controller, seconds},
    writer::{Writer, warned},
};

/// The controller's name, in metrics and as a field manager.
pub(crate) const NAME: &str = "resource-slice-patches";
/// Names that a message shows.
const NAMES_SHOWN_MAX: usize = 8;

/// Works where the kind is defined.
pub(crate) async fn serve(context: PartContext, sources: Sources) {
    let inbox = context.listen_if_possible(&[], &[OWN_PATCHES, TAINT_POLICIES]);
    let executor = Executor { writer: context.writer(NAME), no_rules: sources.why_no_rules() };
    let options = AgentOptions { name: NAME, in_flight_max: 4, precedence: Precedence::Urgent };
    context
        .run(options, inbox, || MachineAgent::new(Patches::default(), PatchesShell::new()), executor)
        .await;
}

/// The objects that the core has received.
#[derive(Debug)]
struct PatchesShell {
    ledger: Ledger,
    policies: Frozen<OwnedPolicy>,
}

impl PatchesShell {
    fn new() -> Self {
        Self { ledger: Ledger::of_models(), policies: Frozen::default() }
    }
}

impl Shell for PatchesShell {
    type Machine = Patches;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, patches: &mut Patches, now: Timestamp, news: News) {
        let Self { ledger, policies } = self;
        ledger.changes(news, |change| {
            inputs(policies, change).into_iter().for_each(|input| patches.handle(now, &(), input))
        });
    }
}

/// The inputs that a change becomes. The policies of a patch that cannot be read stay as they are.
fn inputs(policies: &mut Frozen<OwnedPolicy>, change: Change) -> Vec<PatchInput> {
    let thawed = |policies: &mut Frozen<OwnedPolicy>, patch: &Text, freeze| {
        let told = policies.freeze(patch, freeze).into_iter();
        told.map(|(name, policy)| policy.map_or(PatchInput::PolicyGone(name), PatchInput::Policy))
            .collect::<Vec<_>>()
    };
    match change {
        Change::Set(resource, object) if resource == OWN_PATCHES => {
            let patch = patch(&object);
            let told = thawed(policies, &object.key.name, patch.is_none());
            patch.into_iter().chain(told).collect()
        }
        Change::Gone(resource, key, _) if resource == OWN_PATCHES => {
            let told = thawed(policies, &key.name, false);
            [PatchInput::PatchGone(key.name)].into_iter().chain(told).collect()
        }
        Change::Set(_, object) => {
            let name = object.key.name.clone();
            let told = match owned(&object) {
                Some(policy) => policies.set(name.clone(), policy.said.owner.name.clone(), policy),
                None => {
                    policies.gone(&name);
                    None
                }
            };
            vec![told.map_or(PatchInput::PolicyGone(name), PatchInput::Policy)]
        }
        Change::Gone(_, key, _) => {
            policies.gone(&key.name);
            vec![PatchInput::PolicyGone(key.name)]
        }
    }
}

/// A patch, if all of it can be read.
fn patch(object: &Object) -> Option<PatchInput> {
    let Some(header) = Header::read(object.json()) else {
        object.cannot_be_read(&"it has no metadata of the usual form", "the policies that were made of it");
        return None;
    };
    match object.model() {
        Ok(Model::Patch(patch)) if object.unreadable().is_none() => {
            Some(PatchInput::Patch(header.generation(), (**patch).clone()))
        }
        Ok(_) | Err(_) => None,
    }
}

/// A policy, if a patch owns it.
fn owned(object: &Object) -> Option<OwnedPolicy> {
    let owner = controller(object, OWN_PATCHES)?;
    let Ok(Model::Rule(policy)) = object.model() else { return None };
    let said = WantedPolicy {
        name: policy.name.clone(),
        owner,
        selector: policy.selector.clone().unwrap_or_default(),
        taint: policy.taint.clone(),
    };
    Some(OwnedPolicy { uid: policy.uid.clone(), said })
}

/// Makes, changes and deletes policies; says in a patch what it became.
#[derive(Debug)]
struct Executor {
    writer: Writer,
    /// Why rules have no effect here, if they have none.
    no_rules: Option<NoRules>,
}

/// Everything of a policy that is its patch's to say.
fn policy(wanted: &WantedPolicy) -> Value {
    let selector = &wanted.selector;
    let mut devices = json!({});
    for (field, name) in [
        ("deviceClassName", &selector.class),
        ("driver", &selector.driver),
        ("pool", &selector.pool),
        ("device", &selector.device),
    ] {
        if let Some(name) = name {
            devices[field] = (&**name).into();
        }
    }
    if !selector.cel.is_empty() {
        let all = selector.cel.iter().map(|text| json!({"cel": {"expression": &**text}}));
        devices["selectors"] = all.collect();
    }
    json!({
        "apiVersion": TAINT_POLICIES.api_version(), "kind": TAINT_POLICIES.kind,
        "metadata": {
            "name": &*wanted.name,
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY},
            "annotations": {"lazaret.dev/reason": format!("ResourceSlicePatch {}", wanted.owner.name)},
            "ownerReferences": [{
                "apiVersion": OWN_PATCHES.api_version(), "kind": OWN_PATCHES.kind,
                "name": &*wanted.owner.name, "uid": &*wanted.owner.uid, "controller": true,
            }],
        },
        "spec": {"deviceSelector": devices, "taint": taint(&wanted.taint)},
    })
}

fn taint(taint: &Taint) -> Value {
    let mut said = json!({"key": &*taint.key, "value": &*taint.value, "effect": taint.effect.name()});
    if let Some(time) = taint.time_added {
        said["timeAdded"] = lazaret_api::format_time(time).into();
    }
    if let Some(description) = &taint.description {
        said["description"] = (&**description).into();
    }
    if let Some(pace) = taint.evictions_per_second {
        said["evictionsPerSecond"] = pace.into();
    }
    said
}

impl Perform<PatchEffect> for Executor {
    async fn perform(&self, effect: PatchEffect) -> Reply {
        let call = match &effect {
            PatchEffect::Create(wanted) => {
                info!(policy = %wanted.name, patch = %wanted.owner.name, "create a policy");
                // An apply would take over another owner's policy of this name.
                Call::create_as(&TAINT_POLICIES, "", NAME, policy(wanted).to_string())
            }
            PatchEffect::Change(uid, wanted) => {
                info!(policy = %wanted.name, patch = %wanted.owner.name, "change a policy");
                let mut body = policy(wanted);
                body["metadata"]["uid"] = (&**uid).into();
                let kind = PatchKind::Apply { manager: NAME };
                Call::patch(&TAINT_POLICIES, "", &wanted.name, "", kind, body.to_string())
            }
            PatchEffect::Delete(name, uid) => {
                info!(policy = %name, "delete a policy");
                let options = json!({"preconditions": {"uid": &**uid}});
                Call::delete(&TAINT_POLICIES, "", name, options.to_string())
            }
            PatchEffect::Report(report) => {
                let body = self.report(report);
                let sent = self.writer.apply_status(&OWN_PATCHES, &report.patch.name, NAME, body).await;
                return warned(sent, "the status of a patch could not be written");
            }
        };
        warned(self.writer.send(call).await, "a policy of a patch could not be written")
    }
}

impl Executor {
    fn report(&self, report: &PatchReport) -> Value {
        let time = lazaret_api::format_time(seconds(self.writer.now()));
        let condition = |kind: &str, said: Said| {
            json!({
                "type": kind, "status": said.status, "reason": said.reason, "message": said.message,
                "observedGeneration": report.generation, "lastTransitionTime": time,
            })
        };
        json!({
            "apiVersion": OWN_PATCHES.api_version(), "kind": OWN_PATCHES.kind,
            "metadata": {"name": &*report.patch.name, "uid": &*report.patch.uid},
            "status": {"conditions": [
                condition("Compiled", compiled(report, self.no_rules)),
                condition("AttributesApplied", applied(&report.not_applied)),
            ]},
        })
    }
}

/// The condition that says whether a patch's taints became policies.
fn compiled(report: &PatchReport, no_rules: Option<NoRules>) -> Said {
    let PatchReport { policies, taken, overdue, .. } = report;
    let message = format!("{policies} DeviceTaintPolicies");
    match (no_rules, taken.as_slice(), *overdue) {
        (Some(why), _, _) if *policies > 0 => {
            Said { status: "False", reason: why.reason(), message: why.message().to_owned() }
        }
        (_, [], 0) => Said { status: "True", reason: "AsSelected", message },
        (_, [first, ..], _) => Said {
            status: "False",
            reason: "NameTaken",
            message: format!(
                "{message}; {} could not be made, because somebody else's have their names: {first}; rename the patch, or delete them",
                taken.len()
            ),
        },
        (_, [], 1..) => Said {
            status: "False",
            reason: "PoliciesNotWritten",
            message: format!(
                "{message}; {overdue} could not be written and are tried again; the log of the controllers has the errors"
            ),
        },
    }
}

/// Whether attributes and capacities are in effect.
fn applied(not_applied: &[Text]) -> Said {
    if not_applied.is_empty() {
        return Said { status: "True", reason: "NoneGiven", message: "it overrides none".into() };
    }
    let mut names: Vec<&str> = not_applied.iter().take(NAMES_SHOWN_MAX).map(|name| &**name).collect();
    let more = format!("{} more", not_applied.len().saturating_sub(NAMES_SHOWN_MAX));
    if not_applied.len() > NAMES_SHOWN_MAX {
        names.push(&more);
    }
    Said {
        status: "False",
        reason: "DriverPublishes",
        message: format!(
            "not in effect: {}; the scheduler takes attributes and capacities from ResourceSlices, which the driver publishes: change them there",
            names.join(", ")
        ),
    }
}
