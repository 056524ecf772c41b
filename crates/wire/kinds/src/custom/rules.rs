//! How objects of a defined kind behave, in one of its versions.

use lazaret_crd::DefinedSchema;
use lazaret_json::Value;
use lazaret_schema::{Finding, builtin, check};

use crate::{
    Context, Errors, Heading, JsonPath, Rules, ScalePaths,
    kind::since,
    own::OwnCheck,
    rules::{SPEC_AND_METADATA, keep_status},
};

/// The rules that a definition makes for one version.
#[derive(Debug)]
pub(crate) struct CustomRules {
    pub(crate) schema: DefinedSchema,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<(Heading, JsonPath)>,
    /// By name in selectors.
    pub(crate) selectable: Vec<(String, JsonPath)>,
    pub(crate) deprecation: Option<String>,
    /// The further check of one of Lazaret's own kinds.
    pub(crate) own_check: Option<OwnCheck>,
}

impl Rules for CustomRules {
    fn drop_unknown_fields(&self, object: &mut Value) -> Option<Vec<Finding>> {
        let mut findings = metadata_findings(object);
        findings.extend(self.schema.prune(object));
        self.schema.drop_nulls(object);
        Some(findings)
    }

    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        self.schema.fill_defaults(object);
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        if self.has_status
            && let Value::Object(map) = object
        {
            map.remove("status");
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        self.schema.validate(object, None, errors);
        self.check_replicas(object, errors);
        self.schema.check_rules(object, None, errors);
        self.check_own(object, None, errors);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        if self.has_status {
            keep_status(new, old);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        self.schema.validate(new, Some(old), errors);
        self.check_replicas(new, errors);
        self.schema.check_rules(new, Some(old), errors);
        self.check_own(new, Some(old), errors);
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn validate_status(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        // Errors that were there before are not this write's, so that only the status is really validated.
        self.schema.validate(new, Some(old), errors);
        self.schema.check_rules(new, Some(old), errors);
    }

    /// Objects that were stored before the schema changed are shown as if they had been stored today.
    fn to_version(&self, object: &mut Value, _version: &str) {
        self.schema.prune(object);
        self.schema.fill_defaults(object);
    }

    fn differs_in(&self, _object: &Value, _version: &str) -> bool {
        true
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        let (_, path) = self.selectable.iter().find(|(name, _)| name == field)?;
        Some(match path.first(object) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.to_string(),
            Some(other) => other.to_string(),
        })
    }

    fn headings(&self) -> Vec<Heading> {
        self.columns.iter().map(|(heading, _)| heading.clone()).collect()
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let cell = |(heading, path): &(Heading, JsonPath)| {
            path.first(object).map_or(Value::Null, |value| cell(&heading.kind, value, context))
        };
        self.columns.iter().map(cell).collect()
    }

    fn scale_paths(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    fn document(&self) -> Option<&Value> {
        Some(self.schema.document())
    }
}

impl CustomRules {
    /// A spec that stays as it is was accepted before.
    fn check_own(&self, new: &Value, old: Option<&Value>, errors: &mut Errors) {
        let stays = old.is_some_and(|old| old["spec"] == new["spec"]);
        if let Some(check) = self.own_check.filter(|_| !stays && errors.is_empty()) {
            check(new, old, errors);
        }
    }

    fn check_replicas(&self, object: &Value, errors: &mut Errors) {
        let Some(scale) = &self.scale else { return };
        let Some(replicas) = scale.spec.first(object) else { return };
        if replicas.as_i64().is_none_or(|count| !(0..=i64::from(i32::MAX)).contains(&count)) {
            let path = scale.spec.fields().unwrap_or_default().join(".");
            errors.invalid(path, replicas.clone(), "should be a non-negative integer");
        }
    }
}

/// Metadata has the same shape whatever the kind.
fn metadata_findings(object: &mut Value) -> Vec<Finding> {
    let (Some(metadata), Some(shape)) = (object.get_mut("metadata"), builtin().find("meta/v1.ObjectMeta"))
    else {
        return Vec::new();
    };
    let below =
        |path: String| if path.is_empty() { "metadata".to_owned() } else { format!("metadata.{path}") };
    let findings = check(builtin(), shape, metadata, None, true).into_iter().map(|finding| match finding {
        Finding::Unknown { path } => Finding::Unknown { path: below(path) },
        Finding::Kind { path, expected, found } => Finding::Kind { path: below(path), expected, found },
    });
    let findings = findings.collect();
    if let Value::Object(map) = metadata {
        map.retain(|_, value| !value.is_null());
    }
    findings
}

fn cell(kind: &str, value: &Value, context: &Context<'_>) -> Value {
    match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("string", Value::Null) => Value::Null,
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "what does not fit is shown cut, as Kubernetes does"
            )]
            let whole = number.as_i64().or_else(|| number.as_f64().map(|number| number as i64));
            whole.into()
        }
        ("number", Value::Number(_)) => value.clone(),
        ("date", Value::String(text)) if text.parse::<jiff::Timestamp>().is_err() => "<invalid>".into(),
        ("date", Value::String(text)) => since(Some(text), context).into(),
        _ => Value::Null,
    }
}
