//! Pods as the API has them, reduced to what decides when their containers run.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Container, ContainerRestartRule, ContainerStatus, Pod, PodSpec, PodStatus, Probe as WireProbe,
        ResourceRequirements, Toleration,
    },
    apimachinery::pkg::{api::resource::Quantity as Amount, apis::meta::v1::Time},
};
use lazaret_model::Quantity;
use lazaret_pods::{
    Amounts, ConditionKind, ContainerView, Gate, InitialContainerStatus, InitialStatus, Kind, Millis, Phase,
    PodRef, PodView, Probe, PullPolicy, Resources, Restart, RestartRule,
};
use lazaret_provision::QosClass;

/// Kubernetes' default of `terminationGracePeriodSeconds`.
const GRACE_S: i64 = 30;
/// Where the scheduler says what is wrong with a pod on a node that does not match it.
const NODE_AFFINITY: &str = "NodeAffinity";

/// Reduces a pod. `labels` are those of the node.
pub(super) fn view(pod: &Pod, has_claims: bool, labels: &BTreeMap<String, String>) -> PodView {
    let metadata = &pod.metadata;
    let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
    let (spec, status) = (pod.spec.as_ref().unwrap_or(&no_spec), pod.status.as_ref().unwrap_or(&no_status));
    let init = spec.init_containers.iter().flatten().map(|container| {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        self::container(container, if is_sidecar { Kind::Sidecar } else { Kind::Init })
    });
    let main = spec.containers.iter().map(|container| self::container(container, Kind::Main));
    let ephemeral = ephemeral(spec).map(|container| self::container(&container, Kind::Ephemeral));
    let seconds = |value: Option<i64>| value.map(|value| u64::try_from(value).unwrap_or(0));
    let deletion = metadata.deletion_timestamp.as_ref();
    let deletion_grace_s = deletion.map(|_| seconds(metadata.deletion_grace_period_seconds).unwrap_or(0));
    PodView {
        pod: reference(pod),
        containers: init.chain(main).chain(ephemeral).collect(),
        restart: restart(spec.restart_policy.as_deref()).unwrap_or(Restart::Always),
        grace_s: seconds(spec.termination_grace_period_seconds.or(Some(GRACE_S))).unwrap_or(0),
        deletion_grace_s,
        deadline_s: seconds(spec.active_deadline_seconds),
        has_claims,
        priority: spec.priority.unwrap_or(0),
        is_best_effort: lazaret_provision::qos_class(pod) == QosClass::BestEffort,
        tolerates_memory_pressure: spec.tolerations.iter().flatten().any(is_for_memory_pressure),
        requests: requests(spec),
        refusal: refusal(spec, labels),
        gates: gates(spec, status),
        before: before(status),
    }
}

pub(super) fn reference(pod: &Pod) -> PodRef {
    let metadata = &pod.metadata;
    PodRef {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}

fn container(container: &Container, kind: Kind) -> ContainerView {
    let image = container.image.clone().unwrap_or_default();
    let pull = pull_policy(&image, container.image_pull_policy.as_deref());
    let lifecycle = container.lifecycle.as_ref();
    ContainerView {
        name: container.name.clone(),
        image,
        kind,
        restart: restart(container.restart_policy.as_deref()),
        rules: container.restart_policy_rules.iter().flatten().filter_map(rule).collect(),
        pull,
        startup: container.startup_probe.as_ref().map(probe),
        readiness: container.readiness_probe.as_ref().map(probe),
        liveness: container.liveness_probe.as_ref().map(probe),
        has_post_start: lifecycle.is_some_and(|lifecycle| lifecycle.post_start.is_some()),
        has_pre_stop: lifecycle.is_some_and(|lifecycle| lifecycle.pre_stop.is_some()),
        resources: resources(container.resources.as_ref()),
        restarts_on_cpu: restarts_on(container, "cpu"),
        restarts_on_memory: restarts_on(container, "memory"),
    }
}

/// When an image is pulled; where nothing says it, a tag other than `latest` is taken for the same image for ever.
pub(super) fn pull_policy(image: &str, said: Option<&str>) -> PullPolicy {
    let has_tag = image.rsplit('/').next().is_some_and(|name| name.contains(':') || name.contains('@'));
    match said {
        Some("Always") => PullPolicy::Always,
        Some("Never") => PullPolicy::Never,
        Some("IfNotPresent") => PullPolicy::IfNotPresent,
        Some(_) | None if has_tag && !image.ends_with(":latest") => PullPolicy::IfNotPresent,
        Some(_) | None => PullPolicy::Always,
    }
}

fn restarts_on(container: &Container, resource: &str) -> bool {
    let policies = container.resize_policy.iter().flatten();
    policies
        .into_iter()
        .any(|policy| policy.resource_name == resource && policy.restart_policy == "RestartContainer")
}

fn resources(of: Option<&ResourceRequirements>) -> Resources {
    let get = |map: Option<&BTreeMap<String, Amount>>| map.map(of_map).unwrap_or_default();
    Resources {
        requests: get(of.and_then(|of| of.requests.as_ref())),
        limits: get(of.and_then(|of| of.limits.as_ref())),
    }
}

/// Containers that were added to a pod that was there, as far as they are like others.
pub(super) fn ephemeral(spec: &PodSpec) -> impl Iterator<Item = Container> + '_ {
    spec.ephemeral_containers.iter().flatten().map(|container| Container {
        name: container.name.clone(),
        image: container.image.clone(),
        image_pull_policy: container.image_pull_policy.clone(),
        stdin: container.stdin,
        tty: container.tty,
        ..Container::default()
    })
}

/// Whether a toleration lets a pod that asks for nothing onto a node that is short of memory.
fn is_for_memory_pressure(toleration: &Toleration) -> bool {
    let Toleration { key, operator, value, effect, .. } = toleration;
    let key = key.as_deref().unwrap_or_default();
    let exists = operator.as_deref() == Some("Exists");
    let is_effect = effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == "NoSchedule");
    let is_key = key == "node.kubernetes.io/memory-pressure" || key.is_empty() && exists;
    is_effect && is_key && (exists || value.as_deref().unwrap_or_default().is_empty())
}

fn restart(policy: Option<&str>) -> Option<Restart> {
    match policy? {
        "Always" => Some(Restart::Always),
        "OnFailure" => Some(Restart::OnFailure),
        "Never" => Some(Restart::Never),
        _ => None,
    }
}

fn rule(rule: &ContainerRestartRule) -> Option<RestartRule> {
    let codes = rule.exit_codes.as_ref().filter(|_| rule.action == "Restart")?;
    Some(RestartRule { is_in: codes.operator == "In", codes: codes.values.clone().unwrap_or_default() })
}

fn probe(probe: &WireProbe) -> Probe {
    let seconds =
        |value: Option<i32>, or: u64| value.and_then(|value| u64::try_from(value).ok()).unwrap_or(or);
    let count =
        |value: Option<i32>, or: u32| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(or).max(1);
    Probe {
        initial_delay_s: seconds(probe.initial_delay_seconds, 0),
        period_s: seconds(probe.period_seconds, 10).max(1),
        timeout_s: seconds(probe.timeout_seconds, 1).max(1),
        successes: count(probe.success_threshold, 1),
        failures: count(probe.failure_threshold, 3),
        grace_s: probe.termination_grace_period_seconds.and_then(|value| u64::try_from(value).ok()),
    }
}

/// The requests of a pod: its main containers and sidecars together, or an init container beside the sidecars before it if that is more.
fn requests(spec: &PodSpec) -> Amounts {
    let mut sidecars = Amounts::default();
    let mut most = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let own = amounts(container.resources.as_ref());
        let together = plus(sidecars, own);
        most = max(most, together);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = together;
        }
    }
    let main = spec.containers.iter().map(|container| amounts(container.resources.as_ref()));
    let main = main.fold(sidecars, plus);
    let overhead = spec.overhead.as_ref().map(of_map).unwrap_or_default();
    plus(max(most, main), overhead)
}

fn amounts(resources: Option<&ResourceRequirements>) -> Amounts {
    resources.and_then(|resources| resources.requests.as_ref()).map(of_map).unwrap_or_default()
}

fn of_map(map: &BTreeMap<String, Amount>) -> Amounts {
    let get = |name: &str| map.get(name).and_then(|amount| Quantity::parse(&amount.0).ok());
    let whole = |name: &str| get(name).and_then(|amount| amount.value_i64_rounded_up()).map_or(0, positive);
    let milli = |amount: Quantity| amount.mul_i64(1_000).value_i64_rounded_up().map_or(0, positive);
    Amounts {
        cpu_milli: get("cpu").map_or(0, milli),
        memory: whole("memory"),
        ephemeral_storage: whole("ephemeral-storage"),
    }
}

fn positive(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

fn plus(one: Amounts, other: Amounts) -> Amounts {
    Amounts {
        cpu_milli: one.cpu_milli.saturating_add(other.cpu_milli),
        memory: one.memory.saturating_add(other.memory),
        ephemeral_storage: one.ephemeral_storage.saturating_add(other.ephemeral_storage),
    }
}

fn max(one: Amounts, other: Amounts) -> Amounts {
    Amounts {
        cpu_milli: one.cpu_milli.max(other.cpu_milli),
        memory: one.memory.max(other.memory),
        ephemeral_storage: one.ephemeral_storage.max(other.ephemeral_storage),
    }
}

/// A pod whose node selector does not match may have been bound by hand.
fn refusal(spec: &PodSpec, labels: &BTreeMap<String, String>) -> Option<(String, String)> {
    let matches = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    let is_wrong = !spec.node_selector.iter().flatten().all(matches);
    is_wrong.then(|| {
        (
            NODE_AFFINITY.to_owned(),
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned(),
        )
    })
}

fn gates(spec: &PodSpec, status: &PodStatus) -> Vec<Gate> {
    let gate = |name: &String| {
        let conditions = status.conditions.iter().flatten();
        let found = conditions.into_iter().find(|condition| condition.type_ == *name);
        Gate { name: name.clone(), status: found.map(|condition| condition.status.clone()) }
    };
    spec.readiness_gates.iter().flatten().map(|gate| &gate.condition_type).map(gate).collect()
}

fn before(status: &PodStatus) -> InitialStatus {
    let phase = match status.phase.as_deref() {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some(_) | None => Phase::Pending,
    };
    let conditions = status.conditions.iter().flatten().filter_map(|condition| {
        let kind = ConditionKind::ALL.into_iter().find(|kind| kind.name() == condition.type_)?;
        let since = condition.last_transition_time.as_ref().map_or(0, millis);
        Some((kind, condition.status == "True", since))
    });
    let lists =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let containers = lists.into_iter().flatten().flatten();
    InitialStatus {
        phase,
        started_at: status.start_time.as_ref().map(millis),
        conditions: conditions.collect(),
        containers: containers.map(before_container).collect(),
    }
}

fn before_container(status: &ContainerStatus) -> (String, InitialContainerStatus) {
    let before = InitialContainerStatus {
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
        has_run: status.container_id.as_ref().is_some_and(|id| !id.is_empty())
            || status.state.as_ref().is_some_and(|state| state.terminated.is_some()),
        is_started: status.started == Some(true),
        is_ready: status.ready,
        resources: status.resources.as_ref().map(|of| resources(Some(of))),
    };
    (status.name.clone(), before)
}

fn millis(time: &Time) -> Millis {
    Millis::try_from(time.0.as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(spec: serde_json::Value) -> PodView {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
        view(&serde_json::from_value(pod).unwrap(), false, &BTreeMap::from([("zone".into(), "a".into())]))
    }

    #[test]
    fn containers_have_their_kinds_policies_and_rules() {
        let view = of(json!({
            "restartPolicy": "OnFailure",
            "initContainers": [{"name": "i", "image": "a:1"}, {"name": "s", "image": "a", "restartPolicy": "Always"}],
            "containers": [{
                "name": "m", "image": "example.com:5000/a", "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
                "livenessProbe": {"periodSeconds": 3},
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
            }],
        }));
        let kinds: Vec<Kind> = view.containers.iter().map(|container| container.kind).collect();
        assert_eq!(kinds, [Kind::Init, Kind::Sidecar, Kind::Main]);
        let pulls: Vec<PullPolicy> = view.containers.iter().map(|container| container.pull).collect();
        assert_eq!(pulls, [PullPolicy::IfNotPresent, PullPolicy::Always, PullPolicy::Always]);
        let main = &view.containers[2];
        assert_eq!((main.restart, main.rules[0].codes.as_slice()), (Some(Restart::Never), &[42][..]));
        assert_eq!(main.liveness.as_ref().map(|probe| (probe.period_s, probe.failures)), Some((3, 3)));
        assert!(main.has_pre_stop && !main.has_post_start);
        assert_eq!((view.restart, view.grace_s), (Restart::OnFailure, 30));
    }

    #[test]
    fn a_pod_asks_for_the_most_that_it_needs_at_a_time() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount, "memory": "1Mi"}});
        let view = of(json!({
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": cpu("100m")},
                {"name": "i", "resources": cpu("1")},
            ],
            "containers": [{"name": "a", "resources": cpu("0.25")}, {"name": "b", "resources": cpu("250m")}],
        }));
        assert_eq!(view.requests.cpu_milli, 1_100, "the init container beside the sidecar");
        assert_eq!(view.requests.memory, 3 << 20);
    }

    #[test]
    fn a_node_that_was_not_selected_refuses() {
        assert_eq!(of(json!({"nodeSelector": {"zone": "a"}, "containers": []})).refusal, None);
        let refused = of(json!({"nodeSelector": {"zone": "b"}, "containers": []})).refusal;
        assert_eq!(refused.map(|(reason, _)| reason).as_deref(), Some("NodeAffinity"));
    }
}
