//! Pods of a job.

use k8s_openapi::api::batch::v1::Job;

use lazaret_invariant::invariant;

use super::{FINALIZER, counting::Tally, indexes, note};
use crate::{meta, names, pods as pod, prelude::*};

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Creates `missing` pods; for an indexed job those with the lowest free indexes.
pub(super) fn pods(
    context: &Context<'_>,
    job: &Job,
    all: &[Arc<Pod>],
    tally: &Tally,
    missing: usize,
    plan: &mut Plan,
) {
    let Some(spec) = invariant!(&job.spec, "a job that gets pods has a spec") else { return };
    if !tally.indexed {
        for number in 0..missing {
            let body =
                pod::with_new_name(&spec.template, &resource::JOBS, &job.metadata, context.now, number);
            create(context, job, body, plan);
        }
        return;
    }
    let failed = tally.per_index.as_ref().map(|per_index| &per_index.failed);
    let tried: BTreeSet<i32> = tally.completed.iter().chain(failed.into_iter().flatten()).copied().collect();
    for index in indexes::pending(&tried, all, spec.completions.unwrap_or(0), missing) {
        let next = tally.per_index.as_ref().and_then(|per_index| per_index.next_attempt(index));
        if let Some(at) = next.filter(|at| *at > context.now) {
            plan.look_again(at);
            continue;
        }
        let prefix = format!("{}-{index}-", meta::name(&job.metadata));
        let number = usize::try_from(index).unwrap_or(0);
        let name = names::generated(&prefix, meta::uid(&job.metadata), context.now, number);
        let mut body = pod::from_template(&spec.template, &resource::JOBS, &job.metadata, &name);
        body["metadata"]["generateName"] = json!(prefix);
        body["metadata"]["annotations"][indexes::INDEX] = json!(index.to_string());
        body["metadata"]["labels"][indexes::INDEX] = json!(index.to_string());
        for (name, value) in tally.per_index.iter().flat_map(|per_index| per_index.annotations(job, index)) {
            body["metadata"]["annotations"][name] = json!(value);
        }
        body["spec"]["hostname"] = json!(format!("{}-{index}", meta::name(&job.metadata)));
        set_index_variable(&mut body);
        create(context, job, body, plan);
    }
}

fn create(context: &Context<'_>, job: &Job, mut body: Value, plan: &mut Plan) {
    let mut finalizers = body["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!(FINALIZER));
    body["metadata"]["finalizers"] = Value::Array(finalizers);
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let note = note(job, EventType::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
    let namespace = context.key.namespace.clone();
    plan.write_and_tell(Write::Create { resource: &resource::PODS, namespace, body: body.into() }, note);
}

/// Every container learns the pod's number from its environment.
fn set_index_variable(pod: &mut Value) {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            if variables.iter().any(|variable| variable["name"] == INDEX_VARIABLE) {
                continue;
            }
            let field = format!("metadata.labels['{}']", indexes::INDEX);
            variables.push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}));
            container["env"] = Value::Array(variables);
        }
    }
}
