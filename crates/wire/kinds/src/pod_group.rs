//! Groups of pods. Fields that only other features of groups would use (composite groups, topology, a preemption policy of their own) are
//! dropped while those are off, and they are off.

use lazaret_json::Value;
use lazaret_model::validate_dns_subdomain;

use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    check::{conditions, dns_label, each_named, immutable, name, set_fields},
    gate::{Gate, drop_disabled},
    kind::age,
    path::Path,
    rules::{SPEC_AND_METADATA, keep_all_but_status, keep_status},
    value::{ByText, field_mut, has, list, number, remove, some, text},
};

/// The feature that groups of pods belong to.
pub(crate) const FEATURE: &str = "GenericWorkload";
const CLAIMS_MAX: usize = 4;
const PRIORITY_MAX: i64 = 1_000_000_000;
/// A condition of each type that there is or may be.
const CONDITIONS_MAX: usize = 16;
/// Fields that never change; of the policy only the count of a gang does.
const FIXED: &[&str] = &["workloadRef", "resourceClaims", "disruptionMode", "priorityClassName", "priority"];

const GATES: &[Gate] = &[
    Gate {
        features: &["DRAWorkloadResourceClaims"],
        in_use: |spec| !list(spec, "resourceClaims").is_empty(),
        clear: |spec| remove(spec, "resourceClaims"),
    },
    Gate {
        features: &["TopologyAwareWorkloadScheduling"],
        in_use: |spec| has(spec, "schedulingConstraints"),
        clear: |spec| remove(spec, "schedulingConstraints"),
    },
    Gate {
        features: &["PodGroupPreemptionPolicy"],
        in_use: |spec| has(spec, "preemptionPolicy"),
        clear: |spec| remove(spec, "preemptionPolicy"),
    },
    Gate {
        features: &["CompositePodGroup"],
        in_use: |spec| has(spec, "parentCompositePodGroupName"),
        clear: |spec| remove(spec, "parentCompositePodGroupName"),
    },
];

/// Groups of pods.
#[derive(Debug)]
pub(crate) struct PodGroup;

impl Rules for PodGroup {
    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        remove(object, "status");
        drop_disabled(GATES, field_mut(object, "spec"), None, context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        policy(errors, &path.field("schedulingPolicy"), &spec["schedulingPolicy"]);
        claims(errors, &path.field("resourceClaims"), list(spec, "resourceClaims"));
        if let Some(workload) = some(spec, "workloadRef") {
            for field in ["workloadName", "templateName"] {
                if text(workload, field).is_empty() {
                    errors.required(path.field("workloadRef").field(field), "");
                }
            }
        }
        if number(spec, "priority") > PRIORITY_MAX {
            let detail = format!("must be less than or equal to {PRIORITY_MAX}");
            errors.invalid(path.field("priority"), number(spec, "priority"), detail);
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        drop_disabled(GATES, field_mut(new, "spec"), Some(&old["spec"]), context.features);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        let path = Path::root("spec");
        for field in FIXED {
            immutable(errors, &path.field(field), &new["spec"], &old["spec"], field);
        }
        let (path, new, old) = (
            path.field("schedulingPolicy"),
            &new["spec"]["schedulingPolicy"],
            &old["spec"]["schedulingPolicy"],
        );
        if has(new, "gang") != has(old, "gang") {
            immutable(errors, &path.field("gang"), new, old, "gang");
        }
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_all_but_status(new, old, self.status_resets());
        let on = context.features.is_on("DRAWorkloadResourceClaims");
        if !on && list(&old["spec"], "resourceClaims").is_empty() {
            remove(field_mut(new, "status"), "resourceClaimStatuses");
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (path, status) = (Path::root("status"), &new["status"]);
        conditions(errors, &path.field("conditions"), list(status, "conditions"), CONDITIONS_MAX);
        let entries = ByText::of(list(&new["spec"], "resourceClaims"), "name");
        let statuses = list(status, "resourceClaimStatuses");
        each_named(
            errors,
            &path.field("resourceClaimStatuses"),
            statuses,
            CLAIMS_MAX,
            "name",
            |errors, path, own| {
                if !entries.has(text(own, "name")) {
                    let detail = "must match the name of an entry in `spec.resourceClaims`";
                    errors.invalid(path.field("name"), text(own, "name"), detail);
                }
                if has(own, "resourceClaimName") {
                    let claim = text(own, "resourceClaimName");
                    name(errors, &path.field("resourceClaimName"), claim, validate_dns_subdomain);
                }
            },
        );
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[Column::text("Policy"), Column::text("Workload"), Column::text("Status"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let spec = &object["spec"];
        let policy = if has(&spec["schedulingPolicy"], "gang") { "Gang" } else { "Basic" };
        let workload = some(spec, "workloadRef").map_or("<none>", |workload| text(workload, "workloadName"));
        vec![policy.into(), workload.into(), state(object).into(), age(object, context)]
    }
}

fn policy(errors: &mut Errors, path: &Path<'_>, policy: &Value) {
    match set_fields(policy, &["basic", "gang"]).as_slice() {
        [] => errors.invalid(path, policy.clone(), "must specify one of: `basic`, `gang`"),
        [_] => {}
        _ => errors.invalid(path, policy.clone(), "must specify exactly one of: `basic`, `gang`"),
    }
    if let Some(gang) = some(policy, "gang")
        && number(gang, "minCount") < 1
    {
        let path = path.field("gang");
        errors.invalid(
            path.field("minCount"),
            number(gang, "minCount"),
            "must be greater than or equal to 1",
        );
    }
}

fn claims(errors: &mut Errors, path: &Path<'_>, claims: &[Value]) {
    const SOURCES: &[&str] = &["resourceClaimName", "resourceClaimTemplateName"];
    each_named(errors, path, claims, CLAIMS_MAX, "name", |errors, path, claim| {
        match text(claim, "name") {
            "" => errors.push(path.field("name"), FieldProblem::Required(String::new())),
            label => dns_label(errors, &path.field("name"), label),
        }
        let sources = set_fields(claim, SOURCES);
        if sources.len() != 1 {
            let detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.invalid(path, claim.clone(), detail);
        }
        for source in sources {
            name(errors, &path.field(source), text(claim, source), validate_dns_subdomain);
        }
    });
}

fn state(object: &Value) -> &str {
    let condition = |kind: &str| {
        list(&object["status"], "conditions").iter().find(|condition| text(condition, "type") == kind)
    };
    if let Some(disrupted) = condition("DisruptionTarget") {
        return text(disrupted, "reason");
    }
    match condition("PodGroupInitiallyScheduled").map(|condition| text(condition, "status")) {
        Some("True") => "Scheduled",
        Some(_) => "Unschedulable",
        None => "Pending",
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;
    use crate::{find, testing::World};

    fn world() -> World {
        World::new().with(FEATURE, true).with("DRAWorkloadResourceClaims", true)
    }

    fn group(policy: Value, claims: Value) -> Value {
        json!({"metadata": {"name": "g", "namespace": "n"}, "spec": {"schedulingPolicy": policy, "resourceClaims": claims}})
    }

    #[test]
    fn groups_are_checked() {
        let groups = find("scheduling.k8s.io", "podgroups").unwrap();
        let wrong = |policy: Value, claims: Value| world().create(groups, group(policy, claims)).wrong();
        let basic = || json!({"basic": {}});
        let nothing: [&str; 0] = [];
        assert_eq!(wrong(basic(), json!([{"name": "a", "resourceClaimName": "c"}])), nothing);
        assert_eq!(wrong(json!({"gang": {"minCount": 3}}), json!([])), nothing);
        assert_eq!(wrong(json!({}), json!([])), ["spec.schedulingPolicy Invalid"]);
        assert_eq!(
            wrong(json!({"gang": {"minCount": 0}}), json!([])),
            ["spec.schedulingPolicy.gang.minCount Invalid"]
        );
        let both = json!([{"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}]);
        assert_eq!(wrong(basic(), both), ["spec.resourceClaims[0] Invalid"]);
        let five: Vec<Value> =
            (0..5).map(|at| json!({"name": format!("a{at}"), "resourceClaimName": "c"})).collect();
        assert_eq!(wrong(basic(), five.into()), ["spec.resourceClaims TooMany"]);
    }

    #[test]
    fn only_the_count_of_a_gang_changes() {
        let groups = find("scheduling.k8s.io", "podgroups").unwrap();
        let old = world().create(groups, group(json!({"gang": {"minCount": 3}}), json!([]))).ok();
        let change = |policy: Value, claims: Value| {
            let mut new = old.clone();
            (new["spec"]["schedulingPolicy"], new["spec"]["resourceClaims"]) = (policy, claims);
            world().update(groups, &old, new).wrong()
        };
        assert!(change(json!({"gang": {"minCount": 4}}), json!([])).is_empty());
        assert_eq!(change(json!({"basic": {}}), json!([])), ["spec.schedulingPolicy.gang Invalid"]);
        let claims = json!([{"name": "a", "resourceClaimName": "c"}]);
        assert_eq!(change(json!({"gang": {"minCount": 3}}), claims), ["spec.resourceClaims Invalid"]);
    }

    #[test]
    fn claims_go_while_their_feature_is_off() {
        let groups = find("scheduling.k8s.io", "podgroups").unwrap();
        let new = group(json!({"basic": {}}), json!([{"name": "a", "resourceClaimName": "c"}]));
        let made = World::new().with(FEATURE, true).create(groups, new).ok();
        assert!(!has(&made["spec"], "resourceClaims"), "{made}");
    }
}
