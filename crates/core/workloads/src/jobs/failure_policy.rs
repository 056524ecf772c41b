//! `podFailurePolicy`: the job's own rules for a failed pod.

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule};

use crate::{lean::ContainerStatus, meta, prelude::*};

/// The consequence of a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts towards the limit.
    Count,
    /// It does not count.
    Ignore,
    /// It counts, and its index has failed.
    FailIndex,
    /// The job has failed.
    FailJob(String),
}

pub(super) fn verdict(job: &Job, pod: &Pod) -> Verdict {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    for (at, rule) in policy.iter().flat_map(|policy| &policy.rules).enumerate() {
        // The rule is not about this pod.
        let Some(cause) = cause(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => Verdict::Ignore,
            "FailJob" => Verdict::FailJob(format!("{cause} matching FailJob rule at index {at}")),
            "FailIndex" => Verdict::FailIndex,
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

/// How the rule fits the pod, in words.
fn cause(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let (namespace, name) =
        (pod.metadata.namespace.as_deref().unwrap_or_default(), meta::name(&pod.metadata));
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let main = status.container_statuses.iter().flatten();
        let (container, code) = main
            .chain(status.init_container_statuses.iter().flatten())
            .find_map(|one| exit_code(codes, one))?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let met = rule.on_pod_conditions.iter().flatten().find(|pattern| {
        let wanted = pattern.status.as_deref().unwrap_or("True");
        conditions.iter().any(|known| known.type_ == pattern.type_ && known.status == wanted)
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", met.type_))
}

fn exit_code<'a>(
    codes: &PodFailurePolicyOnExitCodesRequirement,
    container: &'a ContainerStatus,
) -> Option<(&'a str, i32)> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let named = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
    let listed = codes.values.contains(&code);
    let fits = match codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    (code != 0 && named && fits).then_some((container.name.as_str(), code))
}
