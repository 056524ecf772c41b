//! Pods of a job.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};

use super::{FINALIZER, counting::Tally, indexes, note};
use crate::{meta, names, pods as pod, prelude::*};

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Makes so many pods; of an indexed job those with the lowest numbers that are left.
pub(super) fn pods(
    context: &Context<'_>,
    job: &Job,
    all: &[Arc<Pod>],
    tally: &Tally,
    missing: usize,
    plan: &mut Plan,
) {
    let Some(spec) = &job.spec else { return };
    if !tally.indexed {
        for number in 0..missing {
            let body =
                pod::with_new_name(&spec.template, &resource::JOBS, &job.metadata, context.now, number);
            create(context, job, body, plan);
        }
        return;
    }
    let pending = indexes::pending(&tally.completed, all, spec.completions.unwrap_or(0), missing);
    for index in pending {
        let prefix = format!("{}-{index}-", meta::name(&job.metadata));
        let number = usize::try_from(index).unwrap_or(0);
        let name = names::generated(&prefix, meta::uid(&job.metadata), context.now, number);
        let mut body = pod::from_template(&spec.template, &resource::JOBS, &job.metadata, &name);
        body["metadata"]["generateName"] = json!(prefix);
        body["metadata"]["annotations"][indexes::INDEX] = json!(index.to_string());
        body["metadata"]["labels"][indexes::INDEX] = json!(index.to_string());
        body["spec"]["hostname"] = json!(format!("{}-{index}", meta::name(&job.metadata)));
        tell_index(&mut body);
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
    plan.write_and_tell(Write::Create { resource: &resource::PODS, namespace, body }, note);
}

/// Every container learns the pod's number from its environment.
fn tell_index(pod: &mut Value) {
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
