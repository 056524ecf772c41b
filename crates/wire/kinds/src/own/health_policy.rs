//! DeviceHealthPolicy: which signals make a device suspect, quarantined or drained, what repairs it, what proves it well.

use lazaret_api::{Described, HealthPolicy, ServiceAccount, account_refusal};
use lazaret_json::Value;

use super::{Names, OWN_GROUP, column, condition, definition_of, from_table};
use crate::Errors;

pub(super) fn definition() -> Value {
    let names =
        Names { kind: "DeviceHealthPolicy", plural: "devicehealthpolicies", short: "dhp", scope: "Cluster" };
    definition_of(
        &names,
        vec![
            column("Mode", "string", ".spec.mode", "Observe or Enforce"),
            column("Class", "string", ".spec.deviceSelector.deviceClassName", "The class of its devices"),
            column("Driver", "string", ".spec.deviceSelector.driver", "The driver of its devices"),
            column("Clear-After", "string", ".spec.clearAfter", "When a device is calm"),
            column(
                "Accepted",
                "string",
                &condition("Accepted", "status"),
                "Whether it is understood and acted on",
            ),
            column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
        ],
    )
}

/// The objects that a policy has a controller create, and the account for it.
#[derive(Debug)]
pub struct PolicyPlan {
    account: Option<ServiceAccount>,
    objects: Vec<Described>,
}

impl PolicyPlan {
    /// The plan of a policy that can be read.
    #[must_use]
    pub fn of(policy: &Value) -> Option<Self> {
        let policy = read(policy).ok()?;
        Some(Self { objects: policy.describes(), account: policy.account })
    }

    /// The objects that it describes.
    #[must_use]
    pub fn objects(&self) -> &[Described] {
        &self.objects
    }

    /// Why its objects may not be created as the account that it names, where accounts of these namespaces are allowed.
    #[must_use]
    pub fn account_refusal(&self, allowed: &[String]) -> Option<String> {
        if self.objects.is_empty() { None } else { account_refusal(self.account.as_ref(), allowed) }
    }
}

/// An object of a policy in the form of this server.
///
/// # Errors
/// It is nested too deeply.
pub fn described_object(described: &Described) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&described.object.to_string())
}

fn read(policy: &Value) -> Result<HealthPolicy, lazaret_api::FieldError> {
    // Objects are looked at without the kind and version by which they were sent.
    let mut whole = policy.clone();
    crate::value::put(&mut whole, "apiVersion", format!("{OWN_GROUP}/v1alpha1"));
    crate::value::put(&mut whole, "kind", "DeviceHealthPolicy");
    lazaret_api::read_health_policy(&whole.to_string())
}

/// The checks that need a compiler: expressions, durations, templates.
pub(super) fn check(policy: &Value, _: Option<&Value>, errors: &mut Errors) {
    if let Err(error) = read(policy) {
        let found =
            error.path.split('.').filter(|part| !part.contains('[')).fold(policy, |at, part| &at[part]);
        let shown =
            if found.is_string() || found.is_number() { found.clone() } else { "<value omitted>".into() };
        errors.invalid(error.path, shown, error.message);
    }
    // A field that no DeviceTaintPolicy has would have no effect.
    let known = from_table::described("HealthEviction").unwrap_or_default();
    for (field, _) in crate::value::entries(&policy["spec"], "eviction") {
        if known["properties"][&**field].is_null() {
            let path = format!("spec.eviction.{field}");
            errors.invalid(
                path,
                "<value omitted>",
                "a DeviceTaintPolicy has no such field: it would not be acted on",
            );
        }
    }
}
