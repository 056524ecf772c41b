//! Stateful sets.

use lazaret_json::{Value, json};

use super::{cells::containers, rolling, template};
use crate::{
    Column, Context, Errors, Rules,
    core::volume_claim_spec,
    kind::age,
    path::Path,
    rules::keep_status,
    value::{canonical_quantities, field_mut, fill, list, list_mut, number, put, remove, same, text},
};

/// Fields of a spec that may change.
const CHANGEABLE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Stateful sets.
#[derive(Debug)]
pub(crate) struct StatefulSet;

impl Rules for StatefulSet {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        template::default(spec);
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "podManagementPolicy", "OrderedReady");
        let update = field_mut(spec, "updateStrategy");
        fill(update, "type", "RollingUpdate");
        if text(update, "type") == "RollingUpdate" {
            let rolling = field_mut(update, "rollingUpdate");
            fill(rolling, "partition", 0);
            fill(rolling, "maxUnavailable", 1);
        }
        let volumes = field_mut(spec, "persistentVolumeClaimRetentionPolicy");
        fill(volumes, "whenDeleted", "Retain");
        fill(volumes, "whenScaled", "Retain");
        for claim in list_mut(spec, "volumeClaimTemplates") {
            fill(field_mut(claim, "spec"), "volumeMode", "Filesystem");
            fill(field_mut(claim, "status"), "phase", "Pending");
        }
        canonical_quantities(object, "apps/v1.StatefulSet");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        put(object, "status", json!({"replicas": 0, "availableReplicas": 0}));
        template::drop_fields(object, None, template::SPEC, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        template::drop_fields(new, Some(old), template::SPEC, context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (spec, path) = (&object["spec"], Path::root("spec"));
        template::validate(errors, &path, &with_claims(spec), &["Always"]);
        let (policy, policies) = (text(spec, "podManagementPolicy"), ["OrderedReady", "Parallel"]);
        if policy.is_empty() {
            errors.required(path.field("podManagementPolicy"), "");
        } else if !policies.contains(&policy) {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(path.field("podManagementPolicy"), policy, why);
        }
        rolling::stateful_set(errors, &path.field("updateStrategy"), &spec["updateStrategy"]);
        for (at, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            let path = path.field("volumeClaimTemplates");
            volume_claim_spec(errors, &path.index(at).field("spec"), &claim["spec"]);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        let fixed = |object: &Value| {
            let mut spec = object["spec"].clone();
            CHANGEABLE.iter().for_each(|field| remove(&mut spec, field));
            spec
        };
        if !same(&fixed(new), &fixed(old)) {
            let fields = CHANGEABLE.iter().map(|field| format!("'{field}'")).collect::<Vec<_>>().join(", ");
            errors.forbidden(
                "spec",
                format!("updates to statefulset spec for fields other than {fields} are forbidden"),
            );
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[Column::text("Ready"), Column::AGE, Column::wide("Containers"), Column::wide("Images")];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let ready = format!("{}/{}", number(status, "readyReplicas"), number(spec, "replicas"));
        let mut cells = vec![ready.into(), age(object, context)];
        cells.extend(containers(&spec["template"]["spec"]));
        cells
    }
}

/// The spec with the volumes that each pod gets from the templates of claims, in place of those of the same name.
fn with_claims(spec: &Value) -> Value {
    let claims = list(spec, "volumeClaimTemplates");
    if claims.is_empty() {
        return spec.clone();
    }
    let name = |claim: &Value| text(&claim["metadata"], "name").to_owned();
    let names: Vec<String> = claims.iter().map(name).collect();
    let mut spec = spec.clone();
    let pod = field_mut(field_mut(&mut spec, "template"), "spec");
    let own =
        list(pod, "volumes").iter().filter(|volume| !names.iter().any(|name| text(volume, "name") == name));
    let made = names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let volumes: Vec<Value> = own.cloned().chain(made).collect();
    put(pod, "volumes", volumes);
    spec
}
