//! Problems of a cluster's devices, and of the components that manage them.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_eviction::{Patience, patience};
use lazaret_fleet::Presence;
use lazaret_model::{NodeScope, Timestamp};
use serde::Serialize;

use super::{
    change::describe_selector,
    check_guards::guards,
    check_identity::identities,
    cluster::Cluster,
    device::{Filter, rows},
    gates::{GateFacts, consequence},
    time::age,
};

/// A toleration that ends within this time is worth a warning.
const SOON_SECONDS: i64 = 3600;
/// How many names a line spells out.
const NAMES_MAX: usize = 3;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Which area it belongs to.
    pub section: &'static str,
    /// The subject of the check.
    pub name: String,
    /// The result.
    pub state: State,
    /// The finding.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The remedy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// As it should be.
    Ok,
    /// It cannot be determined from here.
    Skipped,
    /// A person should look at it.
    Warning,
    /// It will not work.
    Failed,
}

/// Facts about the server.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version that it reports.
    pub version: String,
    /// The versions of `resource.k8s.io`.
    pub versions: Vec<String>,
    /// The version in which rules are served.
    pub rules: Option<String>,
    /// Feature gates, as far as the server tells.
    pub gates: GateFacts,
    /// The permissions of this user.
    pub permissions: Vec<Permission>,
}

/// Something that this command may want to do.
#[derive(Clone, Debug)]
pub struct Permission {
    /// The verb.
    pub verb: &'static str,
    /// The group.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// To change and not only to see.
    pub to_act: bool,
    /// Whether it is allowed; `None` when the server does not say.
    pub allowed: Option<bool>,
}

/// Everything that can be checked, in order of sections.
pub fn checks(cluster: &mut Cluster, facts: &Facts, now: Timestamp) -> Vec<Check> {
    let mut checks = Vec::new();
    api(facts, &mut checks);
    permissions(facts, &mut checks);
    drivers(cluster, &mut checks);
    devices(cluster, now, &mut checks);
    rules(cluster, &mut checks);
    guards(cluster.everything(), &cluster.guards, &mut checks);
    tolerations(cluster, now, &mut checks);
    checks
}

pub(super) fn check(section: &'static str, name: &str, state: State, detail: String, hint: &str) -> Check {
    Check { section, name: name.to_owned(), state, detail, hint: hint.to_owned() }
}

fn api(facts: &Facts, checks: &mut Vec<Check>) {
    let section = "api";
    checks.push(check(section, "the API server answers", State::Ok, facts.version.clone(), ""));
    let stable = facts.versions.iter().any(|version| version == "v1");
    checks.push(check(
        section,
        "resource.k8s.io is served",
        if stable { State::Ok } else { State::Warning },
        facts.versions.join(", "),
        if stable {
            ""
        } else {
            "only beta and alpha versions are served: Kubernetes 1.34 and newer have v1"
        },
    ));
    checks.push(match &facts.rules {
        Some(version) => check(section, "DeviceTaintRules are served", State::Ok, version.clone(), ""),
        None => check(
            section,
            "DeviceTaintRules are served",
            State::Failed,
            String::new(),
            "only drivers can set taints: Kubernetes 1.37 serves rules by default, 1.36 with --runtime-config=resource.k8s.io/v1beta2=true, 1.34 and 1.35 with resource.k8s.io/v1alpha3=true",
        ),
    });
    for (gate, told) in facts.gates.told() {
        let name = format!("feature gate {gate}");
        checks.push(match told {
            Some(true) => check(section, &name, State::Ok, "on".into(), ""),
            Some(false) => check(
                section,
                &name,
                State::Failed,
                format!("off, so {}", consequence(gate)),
                "turn it on in API server, scheduler and controller manager",
            ),
            None if facts.gates.refused => check(
                section,
                &name,
                State::Skipped,
                "unknown, because this user may not read /metrics".into(),
                "",
            ),
            None => check(section, &name, State::Skipped, "not reported by the server".into(), ""),
        });
    }
}

fn permissions(facts: &Facts, checks: &mut Vec<Check>) {
    for (to_act, name) in [(false, "may see devices"), (true, "may act on devices")] {
        let of = facts.permissions.iter().filter(|permission| permission.to_act == to_act);
        let missing: Vec<String> = of
            .clone()
            .filter(|permission| permission.allowed == Some(false))
            .map(|p| format!("{} {}", p.verb, p.resource))
            .collect();
        let unknown = of.clone().any(|permission| permission.allowed.is_none());
        let state = match (missing.is_empty(), unknown, to_act) {
            (true, false, _) => State::Ok,
            (true, true, _) => State::Skipped,
            // Many may look and not touch.
            (false, _, true) => State::Warning,
            (false, _, false) => State::Failed,
        };
        let hint = match state {
            State::Ok | State::Skipped => "",
            State::Warning => "to act, this user needs the ClusterRole kubectl-device-act",
            State::Failed => "this user needs the ClusterRole kubectl-device-read",
        };
        let detail =
            if missing.is_empty() { String::new() } else { format!("missing: {}", missing.join(", ")) };
        checks.push(check("permissions", name, state, detail, hint));
    }
}

fn drivers(cluster: &mut Cluster, checks: &mut Vec<Check>) {
    let section = "drivers";
    let snapshot = cluster.fleet.snapshot();
    let (mut silent, mut incomplete, mut invalid) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for pool in snapshot.pools() {
        let Some(newest) = pool.newest() else { continue };
        for slice in pool.slices_of(newest.number) {
            names.insert(slice.pool().driver.clone());
            if let NodeScope::Node(node) = slice.nodes() {
                match cluster.nodes.get(node.as_str()) {
                    None => silent.push(format!("{} (node {node} does not exist)", slice.pool())),
                    Some(facts) if !facts.ready => {
                        silent.push(format!("{} (node {node} is not Ready)", slice.pool()))
                    }
                    Some(_) => {}
                }
            }
        }
        let id = pool.slices.first().map(|slice| slice.pool().to_string()).unwrap_or_default();
        if !newest.is_complete() {
            incomplete.push(format!("{id} ({} of {} slices)", newest.slices, newest.slice_count));
        }
        invalid.extend(newest.invalid.as_ref().map(|why| format!("{id} ({why})")));
    }
    silent.dedup();
    let none = names.is_empty();
    checks.push(check(
        section,
        "drivers have published devices",
        if none { State::Warning } else { State::Ok },
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        if none { "install a driver: no ResourceSlice has a device" } else { "" },
    ));
    checks.push(found(
        section,
        "nodes of devices exist and are Ready",
        &silent,
        State::Warning,
        "their drivers cannot report: what the slices say may be out of date",
    ));
    checks.push(found(
        section,
        "pools are complete",
        &incomplete,
        State::Warning,
        "nothing is allocated from an incomplete pool; its driver is updating it, or stopped half-way",
    ));
    checks.push(found(
        section,
        "pools are valid",
        &invalid,
        State::Failed,
        "nothing is allocated from such a pool: report it to the driver's author",
    ));
    let fleet = &cluster.fleet;
    let vanished: BTreeSet<String> = fleet
        .claims()
        .flat_map(|(claim, _)| fleet.held(claim))
        .filter(|held| held.presence != Presence::Published)
        .map(|held| held.device.to_string())
        .collect();
    let vanished: Vec<String> = vanished.into_iter().collect();
    checks.push(found(
        section,
        "devices in use are still published",
        &vanished,
        State::Warning,
        "their drivers stopped, or removed the devices while claims hold them",
    ));
}

/// The taints that drivers report. Whatever its effect, a driver's taint reports that something is wrong with the device.
fn devices(cluster: &mut Cluster, now: Timestamp, checks: &mut Vec<Check>) {
    let (mut reported, mut patched) = (Vec::new(), Vec::new());
    for row in rows(cluster, &Filter::default()) {
        let texts = |origin: &str| -> Vec<String> {
            let taints = row.taints.iter().filter(|taint| taint.origin == origin);
            taints
                .map(|taint| {
                    let since = taint.time_added.as_ref().and_then(|time| lazaret_api::parse_time(time).ok());
                    let since = since.map_or_else(String::new, |since| format!(" for {}", age(since, now)));
                    let without_effect = if taint.no_effect.is_some() { ", no effect" } else { "" };
                    format!("{}{since}{without_effect}", taint.taint())
                })
                .collect()
        };
        let (driver, patch) = (texts("ResourceSlice"), texts("ResourceSlicePatch"));
        if !driver.is_empty() {
            reported.push(format!("{} ({})", row.name, driver.join(", ")));
        }
        if !patch.is_empty() {
            patched.push(format!("{} ({})", row.name, patch.join(", ")));
        }
    }
    checks.push(found(
        "devices",
        "drivers report every device healthy",
        &reported,
        State::Warning,
        "`kubectl device describe` shows the taint, `kubectl device drain` takes the device out of service",
    ));
    checks.push(found(
        "devices",
        "no ResourceSlicePatch taints a device",
        &patched,
        State::Warning,
        "delete the patch once the device is healthy",
    ));
    checks.push(identities(&cluster.fleet.snapshot()));
}

fn rules(cluster: &Cluster, checks: &mut Vec<Check>) {
    let section = "rules";
    let (mut nothing, mut everything, mut broken, mut unexplained) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let fleet = cluster.everything();
    for view in fleet.rules() {
        let name = view.rule.name.to_string();
        let selection = fleet.rule_selection(&name);
        match &view.rule.selector {
            None => nothing.push(format!("{name} (it has no deviceSelector)")),
            Some(selector) if selector.selects_everything() => {
                everything.push(format!("{name} ({})", view.rule.taint))
            }
            Some(selector) => {
                if selection.published_count() == 0 && selection.held().next().is_none() {
                    nothing.push(format!("{name} ({})", describe_selector(selector)));
                }
            }
        }
        broken.extend(view.problem().map(|problem| format!("{name} ({problem})")));
        let explained = cluster
            .rules
            .get(&name)
            .is_some_and(|meta| meta.annotations.contains_key(super::REASON_ANNOTATION));
        if view.rule.taint.effect.evicts() && !explained && view.rule.taint.description.is_none() {
            unexplained.push(name);
        }
    }
    checks.push(found(
        section,
        "every rule selects a device",
        &nothing,
        State::Warning,
        "the devices are gone or a name is wrong: delete or correct the rule",
    ));
    checks.push(found(
        section,
        "no rule selects every device",
        &everything,
        State::Warning,
        "a rule with an empty deviceSelector taints every device of the cluster",
    ));
    checks.push(found(
        section,
        "rules can be evaluated",
        &broken,
        State::Failed,
        "such a rule selects nothing until it is corrected",
    ));
    checks.push(found(
        section,
        "rules that evict pods say why",
        &unexplained,
        State::Warning,
        "annotate them with lazaret.dev/reason",
    ));
}

fn tolerations(cluster: &Cluster, now: Timestamp, checks: &mut Vec<Check>) {
    let fleet = &cluster.fleet;
    let mut soon: BTreeMap<String, Timestamp> = BTreeMap::new();
    for (claim, _) in fleet.claims() {
        for held in fleet.held(claim) {
            for effective in held.taints().filter(|effective| effective.taint.effect.evicts()) {
                let Patience::Seconds(seconds @ 1..) =
                    patience(effective.taint, &held.result_ref.tolerations)
                else {
                    continue;
                };
                let deadline = effective.taint.time_added.unwrap_or(now).plus_secs(seconds);
                if deadline <= now || deadline > now.plus_secs(SOON_SECONDS) {
                    continue;
                }
                for pod in fleet.pods_of_claim(claim).filter_map(|pod| fleet.pod(pod)) {
                    let known = soon.entry(pod.key.to_string()).or_insert(deadline);
                    *known = deadline.min(*known);
                }
            }
        }
    }
    let soon: Vec<String> =
        soon.iter().map(|(pod, at)| format!("{pod} (in {}s)", at.as_secs() - now.as_secs())).collect();
    checks.push(found(
        "tolerations",
        "no toleration ends within the hour",
        &soon,
        State::Warning,
        "these pods are evicted then",
    ));
}

/// Good when nothing was found, otherwise the first few and how many more.
pub(super) fn found(section: &'static str, name: &str, names: &[String], state: State, hint: &str) -> Check {
    if names.is_empty() {
        return check(section, name, State::Ok, String::new(), "");
    }
    let mut detail = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    if let more @ 1.. = names.len().saturating_sub(NAMES_MAX) {
        detail.push_str(&format!(" and {more} more"));
    }
    check(section, name, state, detail, hint)
}
