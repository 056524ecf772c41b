//! DeviceTaintPolicies on a cluster whose Kubernetes evicts by itself: runs [`lazaret_policies`], which makes rules of Kubernetes of them, and
//! [`lazaret_eviction`] for the policies alone, with their pace.

use std::collections::BTreeSet;

use lazaret_fleet::{Fleet, Kind};
use lazaret_machine::Machine;
use lazaret_model::{Text, Timestamp};
use lazaret_policies::{EffectKind, Input, Owned, Owner, Policies, Report, Wanted};
use lazaret_runtime::{
    AgentOptions, CLAIMS, CLASSES, Call, DISRUPTION_GUARDS, Model, News, Object, PatchKind, Perform,
    Precedence, Reply, Resource, TAINT_POLICIES, Wake,
};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    Sources,
    capacity::CapacityClient,
    context::PartContext,
    eviction,
    feed::feed_policies,
    frozen::Frozen,
    guard::GuardBook,
    header::Header,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    telemetry::EvictionMetrics,
    without_effect::{self, say_without_effect},
    writer::{Writer, warned},
};

/// The controller's name, in metrics and as a field manager.
pub(crate) const NAME: &str = "device-taint-policies";
/// The name of the eviction for policies in metrics.
const EVICTION_NAME: &str = "device-taint-policy-eviction";
/// On rules that policies own, and policies that patches own.
pub(crate) const MANAGED_BY: &str = "lazaret";

/// Works as soon as there is a policy. Until then nothing is kept in memory for it.
pub(crate) async fn serve(
    context: PartContext,
    sources: Sources,
    options: lazaret_eviction::Options,
    counts: EvictionMetrics,
    capacity: CapacityClient,
) {
    if let Some(why) = sources.why_no_rules() {
        warn!(why = why.message(), "DeviceTaintPolicies have no effect here");
        return say_without_effect(context, without_effect::TAINTS, why).await;
    }
    tokio::select! {
        biased;
        () = context.stopped() => return,
        () = context.first_object(&[TAINT_POLICIES], "DeviceTaintPolicies") => {}
    }
    let sources = sources.for_policies();
    let compile = context.clone().run(
        AgentOptions { name: NAME, in_flight_max: 16, precedence: Precedence::Urgent },
        context.listen_if_possible(
            &[TAINT_POLICIES, sources.plain_rules(), CLASSES, CLAIMS, sources.slices()],
            &[DISRUPTION_GUARDS],
        ),
        || MachineAgent::new(Policies::default(), PoliciesShell::new()),
        Executor { writer: context.writer(NAME), rules: sources.plain_rules() },
    );
    let shown = counts.clone();
    let (inbox, executor) = (
        context.listen_if_possible(&sources.resources(), &eviction::OPTIONAL),
        eviction::Executor::new(context.writer(EVICTION_NAME), sources, counts, capacity),
    );
    let evict = context.run(
        AgentOptions { name: EVICTION_NAME, in_flight_max: 128, precedence: Precedence::Urgent },
        inbox,
        move || eviction::EvictionShell::agent(options.clone(), sources, shown.clone()),
        executor,
    );
    tokio::join!(compile, evict);
}

/// The objects of the core.
#[derive(Debug)]
struct PoliciesShell {
    fleet: Fleet,
    ledger: Ledger,
    guards: GuardBook,
    rules: Frozen<Owned>,
    /// Policies that the core does not know to have changed.
    changed: BTreeSet<Text>,
}

impl PoliciesShell {
    fn new() -> Self {
        Self {
            fleet: Fleet::default(),
            ledger: Ledger::of_models(),
            guards: GuardBook::default(),
            rules: Frozen::default(),
            changed: BTreeSet::new(),
        }
    }

    /// Leaves the rules of policies as they are that cannot be read, and of which no good version is known; those policies are no news.
    fn freeze(&mut self, policies: &mut Policies, now: Timestamp, news: News) -> News {
        let unknown =
            |object: &Object| object.unreadable().is_some() && !self.fleet.holds(Kind::Rule, &object.key);
        let (news, changed): (News, Vec<(Text, bool)>) = match news {
            News::Listed(resource, objects, revision) => {
                let (frozen, read): (Vec<_>, Vec<_>) =
                    objects.into_iter().partition(|object| unknown(object));
                let thawed = self.rules.owners().cloned().map(|name| (name, false));
                let thawed = thawed.filter(|(name, _)| frozen.iter().all(|object| object.key.name != *name));
                let changed = thawed.chain(frozen.iter().map(|object| (object.key.name.clone(), true)));
                let changed = changed.collect();
                (News::Listed(resource, read, revision), changed)
            }
            News::Set(resource, object) => {
                let (name, freeze) = (object.key.name.clone(), unknown(&object));
                // Nothing is known of it, as if it were gone.
                let news = if freeze { News::Gone(resource, object) } else { News::Set(resource, object) };
                (news, vec![(name, freeze)])
            }
            News::Gone(resource, object) => {
                let name = object.key.name.clone();
                (News::Gone(resource, object), vec![(name, false)])
            }
            News::Barred(..) => (news, Vec::new()),
        };
        for (policy, freeze) in changed {
            for (name, rule) in self.rules.freeze(&policy, freeze) {
                policies.handle(now, &self.fleet, rule.map_or(Input::RuleGone(name), Input::Rule));
            }
        }
        news
    }
}

impl Shell for PoliciesShell {
    type Machine = Policies;

    fn view(&self) -> &Fleet {
        &self.fleet
    }

    fn hear(&mut self, policies: &mut Policies, now: Timestamp, news: News) {
        let news = if news.resource() == TAINT_POLICIES { self.freeze(policies, now, news) } else { news };
        let Self { fleet, ledger, guards, rules, changed } = self;
        if guards.hear(&news) {
            let wanted = guards.all().iter().any(|guard| guard.confirm_above.is_some());
            policies.handle(now, fleet, Input::ApprovalWanted(wanted));
        } else if news.resource().plural == "devicetaintrules" {
            ledger.changes(news, |change| {
                let (name, rule) = match change {
                    Change::Set(_, object) => (object.key.name.clone(), owned(&object)),
                    Change::Gone(_, key, _) => (key.name, None),
                };
                let told = match rule {
                    Some(rule) => rules.set(name.clone(), rule.owner.name.clone(), rule),
                    None => {
                        rules.gone(&name);
                        None
                    }
                };
                policies.handle(now, fleet, told.map_or(Input::RuleGone(name), Input::Rule));
            });
        } else {
            feed_policies(fleet, &news);
            changed.extend(fleet.take_changes().rules);
        }
    }

    fn think(&mut self, policies: &mut Policies, now: Timestamp) {
        let changed = core::mem::take(&mut self.changed);
        let input =
            if changed.is_empty() { Input::Tick } else { Input::Changed(changed.into_iter().collect()) };
        policies.handle(now, &self.fleet, input);
    }

    fn wake(&self, policies: &Policies) -> Option<Wake> {
        let changed = || Some(Wake::now("policies or devices have changed"));
        if self.changed.is_empty() { policies.next_wake() } else { changed() }
    }
}

/// The object of this kind that controls another, if one does.
pub(crate) fn controller(object: &Object, of: Resource) -> Option<Owner> {
    let (name, uid) = Header::read(object.json())?.controller(of)?;
    Some(Owner { name, uid })
}

/// A rule, if a policy owns it.
fn owned(object: &Object) -> Option<Owned> {
    let owner = controller(object, TAINT_POLICIES)?;
    let Ok(Model::Rule(rule)) = object.model() else { return None };
    Some(Owned {
        name: rule.name.clone(),
        uid: rule.uid.clone(),
        owner,
        selector: rule.selector.clone().unwrap_or_default(),
        key: rule.taint.key.clone(),
        value: rule.taint.value.clone(),
        effect: rule.taint.effect.clone(),
    })
}

/// Makes, changes and deletes rules; says in a policy what it became.
#[derive(Debug)]
struct Executor {
    writer: Writer,
    rules: Resource,
}

/// Everything of a rule that is its policy's to say.
fn rule(rules: Resource, wanted: &Wanted) -> Value {
    let selector = &wanted.selector;
    let mut names = json!({});
    for (field, name) in
        [("driver", &selector.driver), ("pool", &selector.pool), ("device", &selector.device)]
    {
        if let Some(name) = name {
            names[field] = (&**name).into();
        }
    }
    json!({
        "apiVersion": rules.api_version(), "kind": rules.kind,
        "metadata": {
            "name": &*wanted.name,
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY},
            "annotations": {"lazaret.dev/reason": format!("DeviceTaintPolicy {}", wanted.owner.name)},
            "ownerReferences": [{
                "apiVersion": TAINT_POLICIES.api_version(), "kind": TAINT_POLICIES.kind,
                "name": &*wanted.owner.name, "uid": &*wanted.owner.uid, "controller": true,
            }],
        },
        "spec": {
            "deviceSelector": names,
            "taint": {"key": &*wanted.key, "value": &*wanted.value, "effect": wanted.effect.name()},
        },
    })
}

impl Perform<EffectKind> for Executor {
    async fn perform(&self, effect: EffectKind) -> Reply {
        let call = match &effect {
            EffectKind::Create(wanted) => {
                info!(rule = %wanted.name, policy = %wanted.owner.name, "create a rule");
                // An apply would take over another owner's rule of this name.
                Call::create_as(&self.rules, "", NAME, rule(self.rules, wanted).to_string())
            }
            EffectKind::Retaint(uid, wanted) => {
                info!(rule = %wanted.name, policy = %wanted.owner.name, effect = wanted.effect.name(), "change a rule");
                let mut body = rule(self.rules, wanted);
                body["metadata"]["uid"] = (&**uid).into();
                let kind = PatchKind::Apply { manager: NAME };
                Call::patch(&self.rules, "", &wanted.name, "", kind, body.to_string())
            }
            EffectKind::Delete(name, uid) => {
                info!(rule = %name, "delete a rule");
                Call::delete(&self.rules, "", name, json!({"preconditions": {"uid": &**uid}}).to_string())
            }
            EffectKind::Report(report) => {
                let body = self.report(&report.policy, report.generation, &compiled(report));
                let sent = self.writer.apply_status(&TAINT_POLICIES, &report.policy.name, NAME, body).await;
                return warned(sent, "the status of a policy could not be written");
            }
        };
        warned(self.writer.send(call).await, "a rule of a policy could not be written")
    }
}

impl Executor {
    fn report(&self, policy: &Owner, generation: i64, said: &Said) -> Value {
        let Said { status, reason, message } = said;
        json!({
            "apiVersion": TAINT_POLICIES.api_version(), "kind": TAINT_POLICIES.kind,
            "metadata": {"name": &*policy.name, "uid": &*policy.uid},
            "status": {"conditions": [{
                "type": "Compiled", "status": status, "reason": reason, "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": lazaret_api::format_time(seconds(self.writer.now())),
            }]},
        })
    }
}

/// The status, reason and message of a condition.
pub(crate) struct Said {
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The condition that says whether a policy's rules are as it selects.
fn compiled(report: &Report) -> Said {
    let Report { rules, left_out, taken, overdue, .. } = report;
    let message = format!("{rules} DeviceTaintRules");
    match (taken.as_slice(), *overdue, *left_out) {
        ([], 0, 0) => Said { status: "True", reason: "AsSelected", message },
        ([first, ..], _, _) => Said {
            status: "False",
            reason: "NameTaken",
            message: format!(
                "{message}; {} could not be made, because somebody else's have their names: {first}; rename the policy, or delete them",
                taken.len()
            ),
        },
        ([], 1.., _) => Said {
            status: "False",
            reason: "RulesNotWritten",
            message: format!(
                "{message}; {overdue} could not be written and are tried again; the log of the controllers has the errors"
            ),
        },
        ([], 0, 1..) => Said {
            status: "False",
            reason: "TooManyDevices",
            message: format!("{message}; {left_out} selected devices have none: select fewer, or by names"),
        },
    }
}

/// A time as conditions have it.
pub(crate) fn seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.as_millis().div_euclid(1_000) * 1_000)
}
