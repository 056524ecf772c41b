//! The parts of the API that differ from kind to kind.

use lazaret_json::{Map, Value};
use lazaret_schema::Finding;

use crate::{Column, Context, Errors, Heading, JsonPath};

/// How a kind behaves. Every method has the behaviour of a kind that the server stores and knows nothing of.
pub trait Rules: Send + Sync {
    /// Takes out of a body what its schema does not know, and says what that was. `None`: the table of shapes tells.
    fn drop_unknown_fields(&self, _object: &mut Value) -> Option<Vec<Finding>> {
        None
    }

    /// Fills in what absent fields stand for.
    fn default(&self, _object: &mut Value, _context: &Context<'_>) {}

    /// The same for an object that is to replace another.
    fn default_update(&self, new: &mut Value, _old: &Value, context: &Context<'_>) {
        self.default(new, context);
    }

    /// Sets what the server sets on a new object, and drops what clients may not set.
    fn prepare_create(&self, _object: &mut Value, _context: &Context<'_>) {}

    /// Validates a new object.
    fn validate_create(&self, _object: &Value, _context: &Context<'_>, _errors: &mut Errors) {}

    /// Sets what the server sets on a changed object. The generation is taken care of elsewhere.
    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep_status(new, old);
    }

    /// Whether other labels are another generation, as other contents are.
    fn labels_are_contents(&self) -> bool {
        false
    }

    /// Validates the change from `old` to `new`.
    fn validate_update(&self, _new: &Value, _old: &Value, _context: &Context<'_>, _errors: &mut Errors) {}

    /// Paths that a write to the status subresource neither changes nor owns. Metadata that is not among them may change with the status.
    fn status_resets(&self) -> &'static [&'static str] {
        &["spec"]
    }

    /// Reduces a write to the status subresource to what it may change.
    fn prepare_status(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep_all_but_status(new, old, self.status_resets());
    }

    /// Validates a change of the status.
    fn validate_status(&self, _new: &Value, _old: &Value, _context: &Context<'_>, _errors: &mut Errors) {}

    /// Reduces a write to the `approval` subresource to what it may change.
    fn prepare_approval(&self, _new: &mut Value, _old: &Value, _context: &Context<'_>) {}

    /// Validates a change through the `approval` subresource.
    fn validate_approval(&self, _new: &Value, _old: &Value, _context: &Context<'_>, _errors: &mut Errors) {}

    /// Reduces a write to a subresource that is a part of the spec to that part.
    fn prepare_part(&self, _part: SpecPart, _new: &mut Value, _old: &Value, _context: &Context<'_>) {}

    /// Validates a change of that part.
    fn validate_part(&self, _part: SpecPart, _new: &Value, _old: &Value, _errors: &mut Errors) {}

    /// Why an object of this name may not be deleted.
    fn refuse_delete(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Changes an object when its first delete is accepted.
    fn begin_delete(&self, _object: &mut Value, _context: &Context<'_>) {}

    /// The seconds that an object may take to end; `asked` is the period that the client wants.
    fn grace_seconds(&self, _object: &Value, _asked: Option<i64>) -> i64 {
        0
    }

    /// Whether an object that is being deleted stays although it has no finalizer.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Whether dependents stay if the client names no propagation policy.
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// Whether the answer to a delete has the deletionTimestamp although the object is gone at once.
    fn shows_deletion(&self) -> bool {
        false
    }

    /// Whether a version is older than the conventions that [`Kind`](crate::Kind) states for the newest: it may be written without
    /// saying which version is replaced, and its delete answers with the object.
    fn predates_conventions(&self, _version: &str) -> bool {
        false
    }

    /// The limit of the server that objects of this kind count towards, besides the limits of all objects.
    fn ceiling(&self) -> Option<Ceiling> {
        None
    }

    /// Whether a cluster at its limits needs writes of this kind to be cleaned up.
    fn may_exceed_limits(&self) -> bool {
        false
    }

    /// From the stored form to that of `version`.
    fn to_version(&self, _object: &mut Value, _version: &str) {}

    /// From the form of `version` to the stored one. `old` is what is stored, for what `version` cannot say.
    #[allow(clippy::wrong_self_convention, reason = "it converts the object, not the rules")]
    fn from_version(&self, _object: &mut Value, _version: &str, _old: Option<&Value>) {}

    /// Versions whose records of owners name fields at the top otherwise than the stored form: its name, then theirs.
    fn other_names(&self) -> &'static [(&'static str, &'static [(&'static str, &'static str)])] {
        &[]
    }

    /// Whether `to_version` would change this object, so that stored bytes can be shipped as they are if not.
    fn differs_in(&self, _object: &Value, _version: &str) -> bool {
        false
    }

    /// Names of fields of which at least one stands in every stored object that `to_version` would change: bytes without any of them are
    /// shipped as they are. `None` when nothing can be said of an object by looking at its bytes.
    fn differs_where(&self, version: &str) -> Option<&'static [&'static str]> {
        (!self.differs_in(&Value::Null, version)).then_some(&[])
    }

    /// The value of a field that lists can be selected by; `None` if there is no such field for this kind.
    fn select(&self, _object: &Value, _field: &str) -> Option<String> {
        None
    }

    /// Whether the name is the first column; if not, it is among the others.
    fn leads_with_name(&self) -> bool {
        true
    }

    /// The columns of a table, after the name.
    fn columns(&self) -> &'static [Column] {
        &[Column::AGE]
    }

    /// The columns as clients see them; those of a defined kind are known only here.
    fn headings(&self) -> Vec<Heading> {
        self.columns().iter().map(Heading::from).collect()
    }

    /// The cells of one row, after the name, in the order of [`Rules::columns`].
    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![crate::kind::age(object, context)]
    }

    /// Where the scale is kept, if not where built-in kinds keep it.
    fn scale_paths(&self) -> Option<&ScalePaths> {
        None
    }

    /// The labels that the scale of a built-in kind selects by.
    fn scale_labels<'a>(&self, object: &'a Value) -> &'a Value {
        &object["spec"]["selector"]["matchLabels"]
    }

    /// The warning for users of this version.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// The schema as its author wrote it, of a defined kind.
    fn document(&self) -> Option<&Value> {
        None
    }
}

/// A limit of the server for the objects of some kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// Events, which do not count as objects.
    Events,
    /// Requests for certificates.
    CertificateRequests,
    /// Quotas and limit ranges, each in one namespace: every write is checked against all of them.
    NamespaceRules,
    /// Pods in one namespace.
    NamespacePods,
}

/// A part of a spec that has a subresource of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecPart {
    /// `ephemeralcontainers` of a pod.
    EphemeralContainers,
    /// `resize` of a pod: its cpu and memory.
    Resize,
}

impl SpecPart {
    /// The part that a subresource is, if it is one.
    #[must_use]
    pub fn of(subresource: &str) -> Option<Self> {
        match subresource {
            "ephemeralcontainers" => Some(Self::EphemeralContainers),
            "resize" => Some(Self::Resize),
            _ => None,
        }
    }
}

/// Where an object keeps what its scale says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// How many replicas are wanted.
    pub spec: JsonPath,
    /// How many there are.
    pub status: JsonPath,
    /// The selector as text.
    pub selector: Option<JsonPath>,
}

/// The main endpoint does not change the status.
pub(crate) fn keep_status(new: &mut Value, old: &Value) {
    if let (Value::Object(new), Value::Object(old)) = (new, old) {
        keep(new, old, "status");
    }
}

/// [`Rules::status_resets`] of a kind whose status endpoint leaves its metadata alone.
pub(crate) const SPEC_AND_METADATA: &[&str] =
    &["spec", "metadata.annotations", "metadata.finalizers", "metadata.labels", "metadata.ownerReferences"];

/// The status endpoint changes the status, and metadata as far as the kind does not reset it.
pub(crate) fn keep_all_but_status(new: &mut Value, old: &Value, resets: &[&str]) {
    let (Value::Object(new), Value::Object(old)) = (new, old) else { return };
    keep_all_but(new, old, &["status", "metadata"]);
    match (new.get_mut("metadata"), old.get("metadata")) {
        (Some(Value::Object(new)), Some(Value::Object(old))) => {
            for field in resets.iter().filter_map(|path| path.strip_prefix("metadata.")) {
                keep(new, old, field);
            }
        }
        _ => keep(new, old, "metadata"),
    }
}

fn keep_all_but(new: &mut Map, old: &Map, but: &[&str]) {
    new.retain(|field, _| but.contains(&field.as_str()) || old.contains_key(field));
    for field in old.keys().filter(|field| !but.contains(&field.as_str())) {
        keep(new, old, field);
    }
}

/// The field is mostly unchanged, and comparing costs less than copying.
fn keep(new: &mut Map, old: &Map, field: &str) {
    if new.get(field) == old.get(field) {
        return;
    }
    match old.get(field) {
        Some(value) => new.insert(field.to_owned(), value.clone()),
        None => new.remove(field),
    };
}
