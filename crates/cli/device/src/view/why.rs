//! Why a pod waits for devices, or why it lost them.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_allocator::{
    Allocator, Answer, Features, Found, NodeSearch, Options, Overlay, Reason, Request, RequestWhy,
    TaintSource, TimedTolerations, WhyNot,
};
use lazaret_eviction::{
    Block, DELETION_BY_TAINT, DISRUPTION_TARGET, EVENT_REASON, WaitFacts, blocked_condition,
    kept_by_finalizer, part_about, wait,
};
use lazaret_fleet::{EffectiveTaint, Fleet, Guards, Origin};
use lazaret_model::{
    ClaimSource, ConditionStatus, DeviceId, DeviceTaintRule, Node, ObjectKey, Pod, ResourceClaim, TaintedBy,
    Text, Timestamp,
};
use serde::Serialize;

use super::{
    classic::ClassicWhy,
    cluster::Cluster,
    device::{TaintRow, taint_row},
    history::{EventFacts, SET_REASON},
    incidents::{IncidentRow, incident_line, incident_wait},
    replacement::{ReplacementWhy, story, summary},
    rule::{REASON_ANNOTATION, SET_BY_ANNOTATION},
    time::ago,
    unprepare::AwaitRow,
};

/// The number of different kinds of node for which the reasons are computed request by request.
const NODES_EXPLAINED_MAX: usize = 8;
/// The number of devices that are named which their nodes have not unprepared.
const AWAITED_SHOWN_MAX: usize = 5;

/// The answer to "why": the state the pod is in, and everything that explains it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// `namespace/name`.
    pub pod: String,
    /// In one sentence.
    pub summary: String,
    /// Reasons that claims without an allocation have none, by kind of node, most nodes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeWhy>,
    /// Which taints keep devices from its requests, and who set them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<TaintWhy>,
    /// Why it had to leave, or will have to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<EvictionWhy>,
    /// The reasons that block its eviction, from the rules' conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedWhy>,
    /// The actions of policies because its node or its devices are tainted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replacements: Vec<ReplacementWhy>,
    /// Incidents of its devices, and those that it had to leave for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<IncidentWhy>,
    /// Devices that nobody gets before their node has unprepared them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub awaiting_unprepare: Vec<AwaitRow>,
    /// Its classic claims.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classic: Vec<ClassicWhy>,
    /// Further notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Nodes on which the claims cannot be had for the same reason.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeWhy {
    /// How many.
    pub nodes: usize,
    /// One of them.
    pub example: String,
    /// Why, in a line.
    pub reason: String,
    /// Each request alone: what there is for it on the example.
    pub requests: Vec<RequestRow>,
}

/// The devices of a node that suit one request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRow {
    /// The claim.
    pub claim: String,
    /// The request.
    pub request: String,
    /// How many devices it wants.
    pub wanted: usize,
    /// How many there are for it.
    pub suitable: usize,
    /// Why the others are not, with how many.
    pub unsuitable: Vec<(String, usize)>,
}

/// A taint in the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaintWhy {
    /// `key=value:effect`.
    pub taint: String,
    /// The object that carries it.
    pub origin: String,
    /// The reason, where one is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The user that set it, where that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
}

/// The reason that blocks evictions for a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedWhy {
    /// The rule's name.
    pub rule: String,
    /// The kind of that object, in words.
    #[serde(skip)]
    pub kind: &'static str,
    /// The reason of its condition `EvictionBlocked`.
    pub reason: String,
    /// The part of the condition's message that is about the pod.
    pub message: String,
    /// How the wait ends.
    pub ends: String,
    /// The wait in a line.
    #[serde(skip)]
    line: String,
}

impl BlockedWhy {
    fn new(kind: &'static str, rule: &str, reason: &str, message: &str) -> Self {
        let wait = wait(&WaitFacts::Eviction { reason, message });
        Self {
            rule: rule.to_owned(),
            kind,
            reason: reason.to_owned(),
            message: message.to_owned(),
            line: wait.line(),
            ends: wait.ends,
        }
    }

    /// For people.
    fn text(&self) -> String {
        let Self { rule, kind, line, .. } = self;
        if rule.is_empty() {
            format!("its end is {line}")
        } else {
            format!("eviction by {kind} {rule} is {line}")
        }
    }
}

/// An incident of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IncidentWhy {
    /// Its name.
    pub name: String,
    /// The device.
    pub device: String,
    /// How far it is.
    pub stage: String,
    /// The policy and the rule.
    pub because: String,
    /// The condition that it waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// How that ends.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ends: String,
    /// All of it in a line.
    #[serde(skip)]
    pub line: String,
}

/// Why a pod had to leave.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionWhy {
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The message of the eviction.
    pub message: String,
    /// The rules that are named, with their reason and who set them, as far as the rules are still there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<TaintWhy>,
}

/// Why a pod that exists is as it is.
pub fn why_pending(
    cluster: &mut Cluster,
    pod: &ObjectKey,
    events: &[EventFacts],
    now: Timestamp,
) -> Option<Why> {
    let ix = cluster.fleet.pod_ix(pod)?;
    let pod = Arc::clone(cluster.fleet.pod(ix)?);
    let mut why = Why { pod: pod.key.to_string(), ..Why::default() };
    why.evictions = evictions(cluster, &pod.key, Some(&pod), events);
    // An eviction that was tried and refused may be held since.
    let everything = cluster.everything();
    let is_held = pod.deleting_since.is_none()
        && everything.rules().any(|view| holds_back(everything, view.rule, &pod.key));
    if is_held {
        why.evictions.clear();
    }
    if !why.evictions.is_empty() || pod.deleting_since.is_some() {
        why.notes = suspects(&why.evictions, events);
        let kept = kept_by_finalizer(&pod, now);
        why.blocked =
            kept.map(|why| BlockedWhy::new("", "", Block::Finalizer.name(), &why)).into_iter().collect();
        why.summary = if why.evictions.is_empty() {
            "is being deleted, and not for a device taint".to_owned()
        } else {
            "is being evicted because of a device taint".to_owned()
        };
        return Some(why);
    }
    if pod.node.is_some() {
        running(cluster, &pod, now, &mut why);
        return Some(why);
    }
    match unallocated(&cluster.fleet, &pod) {
        Err(missing) => why.summary = missing,
        Ok(claims) if claims.is_empty() => {
            why.summary = "has all its devices; it waits for something else".to_owned();
        }
        Ok(claims) => {
            search(cluster, &claims, now, &mut why);
            if !why.nodes.is_empty() {
                why.awaiting_unprepare = cluster.all_awaited().take(AWAITED_SHOWN_MAX).collect();
            }
        }
    }
    let scheduled = pod.conditions.iter().find(|condition| condition.kind == "PodScheduled");
    why.notes.extend(
        scheduled.filter(|c| !c.message.is_empty()).map(|c| format!("the scheduler says: {}", c.message)),
    );
    Some(why)
}

/// Why a pod that is gone had to leave, as far as events still tell.
#[must_use]
pub fn why_evicted(cluster: &Cluster, pod: &ObjectKey, events: &[EventFacts]) -> Option<Why> {
    let evictions = evictions(cluster, pod, None, events);
    (!evictions.is_empty()).then(|| Why {
        pod: pod.to_string(),
        summary: "is gone: it was evicted because of a device taint".to_owned(),
        notes: suspects(&evictions, events),
        evictions,
        ..Why::default()
    })
}

/// The same with the actions of policies for the pod. An eviction comes first in the summary.
#[must_use]
pub fn with_replacements(why: Why, replacements: Vec<ReplacementWhy>) -> Why {
    let summary = if why.evictions.is_empty() { summary(&replacements) } else { None };
    Why { summary: summary.unwrap_or(why.summary), replacements, ..why }
}

/// The same with incidents: open ones of these devices, and those whose rules are named as the cause of an eviction or are in the way.
#[must_use]
pub fn with_incidents(why: Why, devices: &[DeviceId], incidents: &[IncidentRow]) -> Why {
    let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
    let rules = why.evictions.iter().flat_map(|eviction| &eviction.rules).chain(&why.taints);
    let origins: Vec<&str> = rules.map(|rule| rule.origin.as_str()).collect();
    let named = |name: &str| origins.iter().any(|origin| origin.ends_with(&format!(" {name}")));
    let said = |name: &str| {
        let is_word = |text: &str| text.split([' ', ':', ',', ';']).any(|word| word == name);
        why.evictions.iter().any(|eviction| is_word(&eviction.message))
    };
    let is_meant = |row: &&IncidentRow| {
        (row.is_open() && devices.contains(&row.device)) || named(&row.name) || said(&row.name)
    };
    let found = incidents.iter().filter(is_meant).map(|row| IncidentWhy {
        name: row.name.clone(),
        device: row.device.clone(),
        stage: row.stage.clone(),
        because: row.because.clone(),
        waits_for: row.waits_for.clone(),
        ends: incident_wait(row, None).map(|wait| wait.ends).unwrap_or_default(),
        line: incident_line(row),
    });
    Why { incidents: found.collect(), ..why }
}

/// Why a pod that is gone was replaced, as far as events still tell.
#[must_use]
pub fn why_replaced(pod: &ObjectKey, events: &[EventFacts]) -> Option<Why> {
    let notes = story(pod, events);
    (!notes.is_empty()).then(|| Why {
        pod: pod.to_string(),
        summary: "is gone: it was replaced because of a taint".to_owned(),
        notes,
        ..Why::default()
    })
}

fn evictions(
    cluster: &Cluster,
    key: &ObjectKey,
    pod: Option<&Pod>,
    events: &[EventFacts],
) -> Vec<EvictionWhy> {
    let condition = pod.and_then(|pod| {
        pod.conditions.iter().find(|c| {
            c.kind == DISRUPTION_TARGET && c.reason == DELETION_BY_TAINT && c.status != ConditionStatus::False
        })
    });
    let mut told: Vec<EvictionWhy> = condition
        .into_iter()
        .map(|condition| EvictionWhy {
            time: condition.last_transition.map(lazaret_api::format_time),
            message: condition.message.to_string(),
            rules: named_rules(cluster, &condition.message),
        })
        .collect();
    if told.is_empty() {
        // A pod of the same name is another pod: where the pod is there, only events about it count.
        let about = events.iter().filter(|event| {
            event.reason == EVENT_REASON
                && event.involved_object.namespace == *key.namespace
                && event.involved_object.name == *key.name
                && pod.is_none_or(|pod| event.involved_object.uid == *pod.uid)
        });
        told.extend(about.map(|event| EvictionWhy {
            time: event.time().map(lazaret_api::format_time),
            message: event.message.clone(),
            rules: named_rules(cluster, &event.message),
        }));
    }
    told
}

/// How long before an eviction a taint may have been set to be worth a mention.
const SUSPECT_SECONDS: i64 = 600;
/// How many suspects are named.
const SUSPECTS_MAX: usize = 5;

/// Kubernetes' own controller says that a pod had to leave and not for which taint: what was set shortly before is named instead.
fn suspects(evictions: &[EvictionWhy], events: &[EventFacts]) -> Vec<String> {
    let unexplained = evictions
        .iter()
        .filter(|eviction| !eviction.message.contains("taint "))
        .filter_map(|eviction| lazaret_api::parse_time(eviction.time.as_ref()?).ok());
    let Some(at) = unexplained.max() else { return Vec::new() };
    let before = |event: &&EventFacts| {
        event.reason == SET_REASON
            && event.message.contains(":NoExecute")
            && event.time().is_some_and(|set| set <= at && at <= set.plus_secs(SUSPECT_SECONDS))
    };
    let mut notes: Vec<String> = events.iter().filter(before).map(|event| event.message.clone()).collect();
    notes.sort();
    notes.dedup();
    if notes.is_empty() {
        return vec!["whoever evicted it did not say for which taint".to_owned()];
    }
    let more = notes.len().saturating_sub(SUSPECTS_MAX);
    notes.truncate(SUSPECTS_MAX);
    notes.insert(
        0,
        "whoever evicted it did not say for which taint; these were set shortly before:".to_owned(),
    );
    if more > 0 {
        notes.push(format!("and {more} more"));
    }
    notes
}

/// The rules that a text names and that are still there.
fn named_rules(cluster: &Cluster, text: &str) -> Vec<TaintWhy> {
    let named = cluster.everything().rules().filter(|view| {
        text.split("DeviceTaintRule ")
            .skip(1)
            .any(|rest| rest.split([' ', ':', ',', ';']).next().is_some_and(|name| *view.rule.name == *name))
    });
    named.map(|view| rule_why(cluster, &view.rule.name, view.rule.taint.to_string())).collect()
}

fn rule_why(cluster: &Cluster, name: &str, taint: String) -> TaintWhy {
    let meta = cluster.rules.get(name);
    let annotation = |key: &str| meta.and_then(|meta| meta.annotations.get(key).cloned());
    TaintWhy {
        taint,
        origin: format!("DeviceTaintRule {name}"),
        reason: annotation(REASON_ANNOTATION),
        set_by: annotation(SET_BY_ANNOTATION),
    }
}

/// All guards, as they stand now.
fn guards(cluster: &Cluster, now: Timestamp) -> Guards {
    let all: Vec<_> = cluster.guards().map(Arc::new).collect();
    let mut guards = Guards::default();
    guards.set(&all);
    guards.look(now, cluster.everything());
    guards
}

/// A pod on its node: what its devices suffer, and when that makes it leave.
fn running(cluster: &Cluster, pod: &Pod, now: Timestamp, why: &mut Why) {
    why.summary =
        format!("runs on node {} and is not being evicted", pod.node.as_deref().unwrap_or_default());
    let fleet = cluster.everything();
    let Some(ix) = fleet.pod_ix(&pod.key) else { return };
    let guards = guards(cluster, now);
    for held in fleet.claims_of_pod(ix).flat_map(|claim| fleet.held(claim)) {
        for effective in held.taints() {
            let row: TaintRow = taint_row(cluster, &effective);
            let when = if let Some(why) = &row.no_effect {
                format!("which has no effect because {why}")
            } else if effective.taint.effect.evicts() {
                let patience = lazaret_eviction::patience(effective.taint, &held.result_ref.tolerations);
                let deadline = patience.ends(effective.taint.time_added.unwrap_or(now));
                let is_due = deadline <= now;
                let blocked =
                    is_due.then(|| blocked(cluster, &guards, &effective, (held.device, &pod.key))).flatten();
                let is_blocked = blocked.is_some();
                why.blocked.extend(blocked);
                match deadline {
                    Timestamp::NEVER => "which it tolerates for ever".to_owned(),
                    at if at <= now && is_blocked => "for which it is due to be evicted".to_owned(),
                    at if at <= now => "for which it is evicted now".to_owned(),
                    at => format!("for which it is evicted at {}", lazaret_api::format_time(at)),
                }
            } else {
                "which evicts no pod".to_owned()
            };
            why.notes.push(format!(
                "device {} is tainted {} by {}, {when}",
                held.device,
                row.taint(),
                row.by()
            ));
        }
    }
    for rule in fleet.rules().map(|view| view.rule).filter(|rule| holds_back(fleet, rule, &pod.key)) {
        why.blocked.extend(blocked_by("rule", rule, &pod.key));
        why.notes.push(format!("DeviceTaintRule {} would evict it and is held", rule.name));
    }
    why.blocked.sort();
    why.blocked.dedup();
}

/// The same with what keeps the DeviceTaintPolicies from evicting it that would.
#[must_use]
pub fn with_taint_policies(
    mut why: Why,
    cluster: &Cluster,
    pod: &ObjectKey,
    policies: &[DeviceTaintRule],
) -> Why {
    let theirs = policies.iter().filter(|policy| would_evict(cluster.everything(), policy, pod));
    why.blocked.extend(theirs.filter_map(|policy| blocked_by("policy", policy, pod)));
    why
}

/// Whether a rule is held that would evict this pod.
fn holds_back(fleet: &Fleet, rule: &DeviceTaintRule, pod: &ObjectKey) -> bool {
    rule.is_held() && would_evict(fleet, rule, pod)
}

/// Whether a rule evicts this pod, now or later, unless something keeps it from that.
fn would_evict(fleet: &Fleet, rule: &DeviceTaintRule, pod: &ObjectKey) -> bool {
    let Some(selector) = rule.selector.as_ref().filter(|_| rule.taint.effect.evicts()) else {
        return false;
    };
    fleet.selection_of(selector).held().any(|held| {
        let result =
            fleet.claim(held.claim).and_then(|claim| claim.allocation.as_ref()?.results.get(held.result));
        let is_borne = result.is_some_and(|result| {
            lazaret_eviction::patience(&rule.taint, &result.tolerations).ends(Timestamp::EPOCH)
                == Timestamp::NEVER
        });
        !is_borne
            && fleet.pods_of_claim(held.claim).any(|at| fleet.pod(at).is_some_and(|user| user.key == *pod))
    })
}

/// The reason that keeps the pod from being evicted for a taint: its rule says so, or a guard holds the taint or stops everything on the device.
fn blocked(
    cluster: &Cluster,
    guards: &Guards,
    effective: &EffectiveTaint<'_>,
    (device, pod): (&DeviceId, &ObjectKey),
) -> Option<BlockedWhy> {
    let rule = match effective.origin {
        Origin::Rule { name, .. } => cluster.everything().rule(name).map(|view| view.rule),
        Origin::Patch { .. } | Origin::Device { .. } | Origin::TaintSlice { .. } => None,
    };
    rule.and_then(|rule| blocked_by("rule", rule, pod))
        .or_else(|| held_taint(cluster, effective, device))
        .or_else(|| stopped(guards, rule, device))
}

/// The guard that stops everything on the device.
fn stopped(guards: &Guards, rule: Option<&Arc<DeviceTaintRule>>, device: &DeviceId) -> Option<BlockedWhy> {
    let stopped = guards.stopped(device)?;
    let reason = Block::from(stopped.why).name();
    let (kind, by) = rule.map_or(("a taint of", device.to_string()), |rule| ("rule", rule.name.to_string()));
    Some(BlockedWhy::new(kind, &by, reason, &stopped.message))
}

/// The guard that holds a taint of a driver or a patch, in the words of its status.
fn held_taint(cluster: &Cluster, effective: &EffectiveTaint<'_>, device: &DeviceId) -> Option<BlockedWhy> {
    let (key, value) = (&effective.taint.key, &effective.taint.value);
    let taint = match effective.origin {
        Origin::Rule { .. } => return None,
        Origin::Patch { name, .. } => TaintedBy::Patch { name: name.clone() },
        Origin::Device { .. } | Origin::TaintSlice { .. } => {
            TaintedBy::Driver { driver: device.driver.clone(), key: key.clone(), value: value.clone() }
        }
    };
    let mut holds = cluster.guards().flat_map(|guard| guard.held);
    let hold = holds.find(|hold| hold.is_held() && hold.taint == taint)?;
    Some(BlockedWhy::new("the", &taint.to_string(), Block::Held.name(), &hold.message))
}

/// The reason that keeps a rule or a policy from evicting the pod, by its condition; nothing if that is about other pods.
fn blocked_by(kind: &'static str, rule: &DeviceTaintRule, pod: &ObjectKey) -> Option<BlockedWhy> {
    let condition = blocked_condition(rule)?;
    let (reason, message) = part_about(&condition.reason, &condition.message, &pod.to_string())?;
    Some(BlockedWhy::new(kind, &rule.name, reason, message))
}

/// The pod's claims that have nothing yet, or which of them is not there.
fn unallocated(fleet: &Fleet, pod: &Pod) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::new();
    for entry in &pod.claims {
        let name = match &entry.source {
            ClaimSource::Claim(name) | ClaimSource::Template { resolved: Some(Some(name)), .. } => name,
            ClaimSource::Template { resolved: Some(None), .. } => continue,
            ClaimSource::Template { template, resolved: None } => {
                return Err(format!(
                    "waits for a claim from ResourceClaimTemplate {template} (entry {}): does the template exist, does the controller run?",
                    entry.name
                ));
            }
            ClaimSource::Unknown => continue,
        };
        let key = ObjectKey::new(pod.key.namespace.clone(), name.clone());
        match fleet.claim_ix(&key).and_then(|ix| fleet.claim(ix)) {
            Some(claim) if claim.allocation.is_none() => claims.push(Arc::clone(claim)),
            Some(_) => {}
            None => return Err(format!("waits for ResourceClaim {key}, which does not exist")),
        }
    }
    Ok(claims)
}

/// The work of a search, in units of which one is what a unit of CEL's cost takes: as much as an attempt of the scheduler.
const SEARCH_UNITS: u64 = 400_000_000;

fn search(cluster: &mut Cluster, claims: &[Arc<ResourceClaim>], now: Timestamp, why: &mut Why) {
    let snapshot = cluster.fleet.snapshot();
    let nodes: Vec<Arc<Node>> = snapshot.nodes().cloned().collect();
    let overlay = Overlay::new();
    let timed_tolerations = TimedTolerations::LastUntilOver(now);
    let options = Options { timed_tolerations, ..Options::default() };
    let mut allocator = Allocator::new(Features::default());
    let mut share_id = || Text::from("00000000-0000-4000-8000-000000000000");
    allocator.allow(SEARCH_UNITS);
    let found = allocator.find_node(
        &NodeSearch { snapshot: &snapshot, nodes: &nodes, claims, in_flight: &overlay, options: &options },
        &mut share_id,
    );
    let groups = match found {
        Found::Node { index, .. } => {
            why.summary = format!(
                "waits, but not for devices: node {} has all that it asks for",
                nodes.get(index).map_or("?", |node| node.name.as_str())
            );
            return;
        }
        Found::Failed(error) => {
            why.summary = format!("waits, because its claims cannot be read: {error}");
            return;
        }
        Found::Unfinished { tried, .. } => {
            why.summary = format!(
                "waits, and its claims are too hard to decide about: the budget was spent after {tried} of {} nodes",
                nodes.len()
            );
            return;
        }
        Found::Nowhere(groups) => groups,
    };
    allocator.allow(SEARCH_UNITS);
    why.summary = format!("waits for devices that none of {} nodes can offer", nodes.len());
    let mut taints: BTreeMap<(String, TaintSource), ()> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        let mut requests = Vec::new();
        if at < NODES_EXPLAINED_MAX
            && let Some(node) = snapshot.node(&group.example)
        {
            let request =
                Request { snapshot: &snapshot, node, claims, in_flight: &overlay, options: &options };
            if let Answer::DoesNotFit(why) | Answer::BudgetExhausted(why) =
                allocator.allocate(&request, &mut share_id)
            {
                requests = request_rows(&why, &mut taints);
            }
        }
        why.nodes.push(NodeWhy {
            nodes: group.nodes,
            example: group.example.to_string(),
            reason: group.reason.clone(),
            requests,
        });
    }
    why.taints = taints.into_keys().map(|(taint, by)| taint_why(cluster, taint, &by)).collect();
}

fn request_rows(why: &WhyNot, taints: &mut BTreeMap<(String, TaintSource), ()>) -> Vec<RequestRow> {
    let row = |request: &RequestWhy, taints: &mut BTreeMap<(String, TaintSource), ()>| {
        for group in &request.unsuitable {
            if let Reason::Tainted { taint, by } = &group.reason {
                taints.insert((taint.clone(), by.clone()), ());
            }
        }
        RequestRow {
            claim: request.claim.to_string(),
            request: request.request.to_string(),
            wanted: request.wanted,
            suitable: request.suitable,
            unsuitable: request
                .unsuitable
                .iter()
                .map(|group| (group.reason.to_string(), group.devices))
                .collect(),
        }
    };
    why.requests.iter().map(|request| row(request, taints)).collect()
}

fn taint_why(cluster: &Cluster, taint: String, by: &TaintSource) -> TaintWhy {
    match by {
        TaintSource::Rule(name) => rule_why(cluster, name, taint),
        TaintSource::Device(slice) | TaintSource::Slice(slice) => TaintWhy {
            taint,
            origin: format!("ResourceSlice {slice}"),
            reason: None,
            set_by: Some("its driver".to_owned()),
        },
        TaintSource::Patch(name) => {
            TaintWhy { taint, origin: format!("ResourceSlicePatch {name}"), reason: None, set_by: None }
        }
    }
}

impl Why {
    /// For people.
    #[must_use]
    pub fn text(&self, now: Timestamp) -> String {
        let mut lines = vec![format!("pod {} {}", self.pod, self.summary)];
        for eviction in &self.evictions {
            let when = eviction.time.as_ref().and_then(|time| lazaret_api::parse_time(time).ok());
            lines.push(format!("  {}: {}", ago(when, now), eviction.message));
            lines.extend(eviction.rules.iter().map(|rule| format!("    {}", rule.line())));
        }
        for group in &self.nodes {
            let nodes = if group.nodes == 1 {
                format!("node {}", group.example)
            } else {
                format!("{} nodes such as {}", group.nodes, group.example)
            };
            lines.push(format!("  {nodes}:"));
            if group.requests.is_empty() {
                lines.push(format!("    {}", group.reason));
            }
            for request in &group.requests {
                lines.push(format!(
                    "    claim {} request {} wants {}, {} suitable",
                    request.claim, request.request, request.wanted, request.suitable
                ));
                lines.extend(
                    request.unsuitable.iter().map(|(reason, devices)| format!("      {devices} {reason}")),
                );
            }
        }
        if !self.taints.is_empty() {
            lines.push("  taints in the way:".to_owned());
            lines.extend(self.taints.iter().map(|taint| format!("    {}", taint.line())));
        }
        lines.extend(self.blocked.iter().map(|blocked| format!("  {}", blocked.text())));
        lines.extend(self.incidents.iter().map(|incident| format!("  {}", incident.line)));
        lines.extend(self.awaiting_unprepare.iter().map(|awaited| format!("  {}", awaited.message)));
        lines.extend(self.replacements.iter().map(|replacement| format!("  {}", replacement.line(now))));
        lines.extend(self.classic.iter().map(|claim| format!("  {}", claim.line())));
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines.join("\n") + "\n"
    }
}

impl TaintWhy {
    fn line(&self) -> String {
        let by = self.set_by.as_ref().map_or_else(String::new, |by| format!(", set by {by}"));
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("{} from {}{by}{reason}", self.taint, self.origin)
    }
}
