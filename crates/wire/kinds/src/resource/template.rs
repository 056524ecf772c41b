//! Templates of claims.

use lazaret_json::Value;

use super::claim_spec;
use crate::{
    Context, Errors, Rules,
    check::{immutable, template_metadata},
    gate::drop_disabled,
    path::Path,
    value::{canonical_quantities, field_mut, is_filled},
};

/// Templates of claims.
#[derive(Debug)]
pub(crate) struct Template;

fn claim_spec_mut(object: &mut Value) -> &mut Value {
    field_mut(field_mut(object, "spec"), "spec")
}

/// Metadata that a template may not set for its claims. It may set labels and annotations; the server sets the rest.
const NOT_IN_TEMPLATES: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

impl Rules for Template {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        claim_spec::default(claim_spec_mut(object));
        canonical_quantities(object, "resource/v1.ResourceClaimTemplate");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        drop_disabled(claim_spec::GATES, claim_spec_mut(object), None, context.features);
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        let spec = &object["spec"];
        let path = Path::root("spec");
        claim_spec::check_admin_access(errors, &spec["spec"], context);
        let metadata = path.field("metadata");
        template_metadata(errors, &metadata, &spec["metadata"]);
        for field in NOT_IN_TEMPLATES.iter().filter(|field| is_filled(&spec["metadata"], field)) {
            errors.forbidden(metadata.field(field), "cannot be set for a template");
        }
        claim_spec::validate(errors, &path.field("spec"), &spec["spec"], context);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        drop_disabled(claim_spec::GATES, claim_spec_mut(new), Some(&old["spec"]["spec"]), context.features);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        immutable(errors, &Path::root("spec"), new, old, "spec");
    }

    fn to_version(&self, object: &mut Value, version: &str) {
        if version == "v1beta1" {
            claim_spec::to_flat(claim_spec_mut(object));
        }
    }

    fn from_version(&self, object: &mut Value, version: &str, _old: Option<&Value>) {
        if version == "v1beta1" {
            claim_spec::from_flat(claim_spec_mut(object));
        }
    }

    fn differs_in(&self, _object: &Value, version: &str) -> bool {
        version == "v1beta1"
    }
}
