//! The objects that a health policy describes: what its author has to be permitted to create.

use serde_json::{Value, json};

use super::{HealthPolicy, HealthStep, Validation};

/// An object that a policy has a controller create.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Where the policy describes it.
    pub field: String,
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty where it has none.
    pub namespace: String,
    /// The verbs that the author has to be permitted on it.
    pub verbs: &'static [&'static str],
    /// The object, as far as the policy says it.
    pub object: Value,
}

const CREATE: &[&str] = &["create"];
/// Of a request, an expression of the author reads everything.
const CREATE_AND_READ: &[&str] = &["create", "get"];

impl HealthPolicy {
    /// Everything that it describes, in the order of its fields.
    #[must_use]
    pub fn describes(&self) -> Vec<Described> {
        let mut all = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            let field = format!("spec.repair.steps[{index}]");
            all.push(match step {
                HealthStep::Job { namespace, template } => job(format!("{field}.job"), namespace, template),
                HealthStep::Request { api_version, kind, template, .. } => Described {
                    field: format!("{field}.request"),
                    api_version: api_version.clone(),
                    kind: kind.clone(),
                    namespace: template["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
                    verbs: CREATE_AND_READ,
                    object: typed(template, api_version, kind),
                },
            });
        }
        if let Some(Validation { namespace, template, .. }) = &self.validation {
            let field = "spec.recovery.validation";
            all.push(job(field.to_owned(), namespace, template));
            all.push(Described {
                field: field.to_owned(),
                api_version: "resource.k8s.io/v1".to_owned(),
                kind: "ResourceClaim".to_owned(),
                namespace: namespace.clone(),
                verbs: CREATE,
                object: json!({}),
            });
        }
        all
    }
}

impl Described {
    /// Its API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version in that group.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version.rsplit_once('/').map_or(&*self.api_version, |(_, version)| version)
    }

    /// Whether it is a policy in turn, whose objects nobody would check.
    #[must_use]
    pub fn is_policy(&self) -> bool {
        self.group() == "lazaret.dev" && self.kind == "DeviceHealthPolicy"
    }
}

fn job(field: String, namespace: &str, template: &Value) -> Described {
    Described {
        field,
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        namespace: namespace.to_owned(),
        verbs: CREATE,
        object: typed(template, "batch/v1", "Job"),
    }
}

fn typed(template: &Value, api_version: &str, kind: &str) -> Value {
    let mut object = template.clone();
    if object.is_object() {
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
    }
    object
}
