//! Problems of the components of an installation: their pods, roles and policies.

use serde_json::Value;

use super::{
    check::{Check, State, check, found},
    installation::{Installation, SECTION, condition, place, unseen},
};

const COMPONENT: &str = "app.kubernetes.io/component";

/// Everything about what the chart installs.
pub(super) fn components(facts: &Installation) -> Vec<Check> {
    let mut checks = deployments(facts);
    if facts.deployments.as_ref().is_some_and(|there| !there.is_empty()) {
        checks.extend([permissions(facts), roles(facts)]);
    }
    checks.extend([daemon_sets(facts), schedulers(facts), admission(facts)]);
    checks
}

fn component(object: &Value) -> &Value {
    &object["metadata"]["labels"][COMPONENT]
}

fn deployments(facts: &Installation) -> Vec<Check> {
    let (ready, version, once, spare) = (
        "components are available",
        "components have the version of this program",
        "each component is installed once",
        "each component has a spare replica",
    );
    let Some(there) = &facts.deployments else {
        return vec![unseen(ready, "deployments.apps")];
    };
    if there.is_empty() {
        let why = "Lazaret's controllers are not installed from its chart".into();
        return vec![check(SECTION, ready, State::Skipped, why, "")];
    }
    let (mut down, mut other, mut several, mut alone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, one) in there.iter().enumerate() {
        let wanted = one["spec"]["replicas"].as_i64().unwrap_or(1);
        if !condition(one, "Available") {
            let ready = one["status"]["readyReplicas"].as_i64().unwrap_or_default();
            let why = waits_for(facts, one).map(|why| format!("; {why}")).unwrap_or_default();
            down.push(format!("{} ({ready} of {wanted} ready{why})", place(one)));
        }
        let runs = one["metadata"]["labels"]["app.kubernetes.io/version"].as_str().unwrap_or_default();
        if runs != facts.program {
            other.push(format!("{} ({runs})", place(one)));
        }
        if there[..at].iter().any(|other| component(other) == component(one)) {
            several.push(place(one));
        }
        if wanted < 2 {
            alone.push(place(one));
        }
    }
    vec![
        found(
            SECTION,
            ready,
            &down,
            State::Failed,
            "kubectl describe the deployment and its pods; /readyz of a pod says what it waits for",
        ),
        found(SECTION, version, &other, State::Warning, "upgrade the chart and the program together"),
        found(
            SECTION,
            once,
            &several,
            State::Failed,
            "each installation has a lease of its own, so both act: remove one",
        ),
        found(
            SECTION,
            spare,
            &alone,
            State::Warning,
            "nothing acts while the only pod is replaced: set replicas to 2 in the chart",
        ),
    ]
}

/// Why a pod of a component does not run, in the runtime's word: `ImagePullBackOff`.
fn waits_for(facts: &Installation, deployment: &Value) -> Option<String> {
    let pods = facts.pods.as_ref()?.iter().filter(|pod| {
        pod["metadata"]["namespace"] == deployment["metadata"]["namespace"]
            && component(pod) == component(deployment)
    });
    let containers = pods.flat_map(|pod| pod["status"]["containerStatuses"].as_array().into_iter().flatten());
    containers
        .filter_map(|container| container["state"]["waiting"]["reason"].as_str())
        .find(|reason| *reason != "ContainerCreating" && *reason != "PodInitializing")
        .map(str::to_owned)
}

fn permissions(facts: &Installation) -> Check {
    let name = "components may do what they need";
    let Some(refused) = &facts.refused else {
        let why = "unknown, because this user may not create subjectaccessreviews.authorization.k8s.io";
        return check(SECTION, name, State::Skipped, why.into(), "");
    };
    let wrong: Vec<String> =
        refused.iter().map(|(account, what)| format!("{account} may not {what}")).collect();
    found(
        SECTION,
        name,
        &wrong,
        State::Failed,
        "a role or its binding is missing: install again, with rbac.create=true in the chart",
    )
}

fn roles(facts: &Installation) -> Check {
    let name = "roles for people are there";
    let Some(missing) = &facts.roles_missing else { return unseen(name, "clusterroles") };
    let missing: Vec<String> = missing.iter().map(|role| (*role).to_owned()).collect();
    let hint = "kubectl apply -f deploy/kubectl-device.yaml, or kubectlDevice.roles=true in the chart";
    found(SECTION, name, &missing, State::Warning, hint)
}

fn daemon_sets(facts: &Installation) -> Check {
    let name = "drivers and node agents run on their nodes";
    let Some(there) = &facts.daemon_sets else { return unseen(name, "daemonsets.apps") };
    let count = |one: &Value, field: &str| one["status"][field].as_i64().unwrap_or_default();
    let down: Vec<String> = there
        .iter()
        .filter(|one| count(one, "numberReady") < count(one, "desiredNumberScheduled"))
        .map(|one| {
            let (ready, wanted) = (count(one, "numberReady"), count(one, "desiredNumberScheduled"));
            format!("{} ({ready} of {wanted} nodes)", place(one))
        })
        .collect();
    let hint = "kubectl describe the daemon set and its pods: devices of these nodes are not published or not prepared";
    found(SECTION, name, &down, State::Failed, hint)
}

fn schedulers(facts: &Installation) -> Check {
    let name = "pods find the scheduler that they name";
    let (Some(waiting), Some(deployments)) = (&facts.waiting, &facts.deployments) else {
        return unseen(name, "pods");
    };
    let runs = deployments.iter().any(|one| component(one) == "scheduler");
    let lost: Vec<String> = waiting.iter().filter(|_| !runs).map(place).collect();
    let hint = "no scheduler of this name is installed: set scheduler.enabled=true in the chart, or take schedulerName out of the pods";
    found(SECTION, name, &lost, State::Failed, hint)
}

fn admission(facts: &Installation) -> Check {
    let name = "admission policies are in force";
    let Some((policies, bindings)) = &facts.admission else {
        return unseen(name, "validatingadmissionpolicies");
    };
    let is_bound = |policy: &&Value| {
        !bindings.iter().any(|binding| binding["spec"]["policyName"] == policy["metadata"]["name"])
    };
    let loose = policies.iter().filter(is_bound);
    let loose: Vec<String> =
        loose.filter_map(|policy| policy["metadata"]["name"].as_str().map(str::to_owned)).collect();
    let hint = "they have no binding and refuse nothing: helm upgrade, or delete them";
    found(SECTION, name, &loose, State::Warning, hint)
}
