//! Evaluation of policies for a request.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use lazaret_cel::{Authorizer, COST_MAX, Datum, EvalError, Expression, Lazy, ResourceCheck};
use lazaret_crd::plain_datum;
use lazaret_json::{Text, Value, json};

use super::{
    Attributes, ClusterReader, Params, is_exempt,
    matching::Selected,
    policy::{Binding, CompiledPolicy, Policies, Program, Validation},
};
use crate::value::{some, text};

/// Bound on the cost of all expressions of a policy for one request.
pub(super) const POLICY_COST_MAX: u64 = 10 * COST_MAX;
/// Bound on the bytes of a message that an expression makes; a longer one is not shown.
const MESSAGE_BYTES_MAX: usize = 5_120;
/// A value of an audit annotation is cut at this number of bytes.
const ANNOTATION_BYTES_MAX: usize = 10 << 10;
const INVALID: &str = "Invalid";

/// The result of the policies for the request.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The first reason to refuse it, if there is one.
    pub denial: Option<Denial>,
    /// The warnings for its client.
    pub warnings: Vec<String>,
    /// The audit annotations: policy, key, value.
    pub notes: Vec<(String, String, String)>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Denial {
    /// In the words of the policy.
    pub message: String,
    /// As in a Status: `Invalid`, `Forbidden`, `Unauthorized`, `RequestEntityTooLarge`.
    pub reason: String,
}

/// The failure of one validation.
struct Failure {
    message: String,
    reason: String,
}

/// The values that expressions see, without those that differ by binding.
pub(super) struct RequestValues {
    pub(super) object: Datum,
    pub(super) old: Datum,
    pub(super) request: Datum,
    pub(super) namespace: Datum,
    /// `authorizer.requestResource`: checks on the resource of the request.
    pub(super) resource: Datum,
}

impl Policies {
    /// Asks every policy that is about the request.
    #[must_use]
    pub fn ask(&self, request: &Attributes<'_>, cluster: &dyn ClusterReader) -> Verdict {
        let mut verdict = Verdict::default();
        if is_exempt(request) {
            return verdict;
        }
        for policy in &self.0 {
            if let Some(version) = policy.matches.version(request) {
                policy.ask(request, version, cluster, &mut verdict);
            }
        }
        verdict
    }
}

impl CompiledPolicy {
    fn ask(
        &self,
        request: &Attributes<'_>,
        version: &str,
        cluster: &dyn ClusterReader,
        verdict: &mut Verdict,
    ) {
        let (object, old) = (request.objects)(version);
        let about_namespace = (request.group, request.resource) == ("", "namespaces");
        let namespace = (!request.namespace.is_empty() && !about_namespace)
            .then(|| cluster.namespace(request.namespace))
            .flatten();
        let own = if object.is_null() { &old } else { &object };
        let selected = Selected {
            namespace_labels: if about_namespace { Some(own) } else { namespace.as_ref() }
                .map(|namespace| &namespace["metadata"]["labels"]),
            objects: [&object, &old],
        };
        if !self.matches.selects(&selected) {
            return;
        }
        let program = match &self.program {
            Ok(program) => program,
            Err(why) => {
                self.note_failure(None, &format!("failed to configure policy: {why}"), verdict);
                return;
            }
        };
        let request_values = RequestValues {
            request: plain_datum(&described(request, version)),
            namespace: namespace
                .as_ref()
                .map_or_else(Datum::null, |namespace| plain_datum(&shown(namespace))),
            object: plain_datum(&object),
            old: plain_datum(&old),
            resource: request_resource(request),
        };
        let bound = |binding: &&Binding| {
            binding.matches.version(request).is_some() && binding.matches.selects(&selected)
        };
        for binding in self.bindings.iter().filter(bound) {
            match self.params(binding, request, cluster) {
                Ok(params) => {
                    for param in params {
                        self.evaluate(program, binding, &request_values, &param, cluster, verdict);
                    }
                }
                Err(why) => {
                    let why = format!("failed to configure binding: {why}");
                    self.note_failure(Some(binding), &why, verdict);
                }
            }
        }
    }

    /// The parameters with which a policy is asked, once for each: null where it takes none.
    fn params(
        &self,
        binding: &Binding,
        request: &Attributes<'_>,
        cluster: &dyn ClusterReader,
    ) -> Result<Vec<Value>, String> {
        let (Some((api_version, kind)), false) = (&self.params, binding.param.is_null()) else {
            return Ok(vec![Value::Null]);
        };
        let found = cluster.params(&Params {
            api_version,
            kind,
            namespace: text(&binding.param, "namespace"),
            request_namespace: request.namespace,
            name: text(&binding.param, "name"),
            selector: &binding.param["selector"],
        })?;
        if found.is_empty() && text(&binding.param, "parameterNotFoundAction") == "Deny" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(found)
    }

    fn evaluate(
        &self,
        program: &Program,
        binding: &Binding,
        request_values: &RequestValues,
        param: &Value,
        cluster: &dyn ClusterReader,
        verdict: &mut Verdict,
    ) {
        let takes_params = self.params.is_some();
        let evaluator = ExpressionEvaluator::new(
            program,
            request_values,
            takes_params.then_some(param),
            cluster,
            POLICY_COST_MAX,
        );
        let mut failures = Vec::new();
        match evaluator.applies() {
            Ok(false) => return,
            Ok(true) => {
                for validation in &program.validations {
                    failures.extend(evaluator.check(validation, self.ignores_failures));
                }
            }
            Err(why) if !self.ignores_failures => {
                failures.push(Failure { message: why, reason: INVALID.to_owned() });
            }
            Err(_) => return,
        }
        for failure in failures {
            self.act(binding, failure, verdict);
        }
        for (key, expression) in &program.annotations {
            match evaluator.run(expression) {
                Ok(value) => {
                    let value = value.as_text().unwrap_or_default().trim();
                    if !value.is_empty() {
                        verdict.notes.push((self.name.clone(), key.clone(), cut(value).to_owned()));
                    }
                }
                Err(why) => self.note_failure(Some(binding), &why, verdict),
            }
        }
    }

    fn act(&self, binding: &Binding, failure: Failure, verdict: &mut Verdict) {
        if binding.warns {
            verdict.warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                self.name, binding.name, failure.message
            ));
        }
        if binding.audits {
            let note = format!("{} (binding {})", failure.message, binding.name);
            verdict.notes.push((self.name.clone(), "validation_failure".to_owned(), note));
        }
        if binding.denies {
            self.deny(Some(binding), &failure.message, &failure.reason, verdict);
        }
    }

    fn note_failure(&self, binding: Option<&Binding>, why: &str, verdict: &mut Verdict) {
        if !self.ignores_failures {
            self.deny(binding, why, INVALID, verdict);
        }
    }

    fn deny(&self, binding: Option<&Binding>, why: &str, reason: &str, verdict: &mut Verdict) {
        let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message = format!("ValidatingAdmissionPolicy '{}'{with} denied request: {why}", self.name);
        verdict.denial.get_or_insert(Denial { message, reason: reason.to_owned() });
    }
}

/// Asks the expressions of one policy for one parameter, or the conditions of one webhook.
pub(super) struct ExpressionEvaluator<'a> {
    program: &'a Program,
    /// In the order in which names were declared.
    values: Vec<Datum>,
    authorizer: &'a dyn Authorizer,
    /// Variables that an expression has asked for.
    variables: RefCell<BTreeMap<String, Result<Datum, EvalError>>>,
    /// A variable is being computed.
    asking: Cell<bool>,
    /// Nothing, if more was spent than there was.
    left: Cell<Option<u64>>,
}

/// Each variable is computed when the first expression uses it, and may use those before it.
impl Lazy for ExpressionEvaluator<'_> {
    fn get(&self, name: &str) -> Option<Result<Datum, EvalError>> {
        let known = |name: &str| self.variables.borrow().get(name).cloned();
        if let Some(known) = known(name) {
            return Some(known);
        }
        if self.asking.replace(true) {
            // It is asked for in a way that its expression does not show: nothing else that is lazy may be needed for it.
            return None;
        }
        // Those that it needs first, so that no variable is computed within another, however long the chain.
        for (name, expression) in self.program.needed(name) {
            if known(name).is_none() {
                let made = self.evaluate(expression);
                self.variables.borrow_mut().insert(name.clone(), made);
            }
        }
        self.asking.set(false);
        known(name)
    }
}

impl<'a> ExpressionEvaluator<'a> {
    /// With a parameter, if the expressions take one.
    pub(super) fn new(
        program: &'a Program,
        request_values: &RequestValues,
        param: Option<&Value>,
        cluster: &'a dyn ClusterReader,
        cost_max: u64,
    ) -> Self {
        let mut values = vec![
            request_values.object.clone(),
            request_values.old.clone(),
            request_values.request.clone(),
            request_values.namespace.clone(),
        ];
        values.extend(param.map(plain_datum));
        values.extend([Datum::lazy(), Datum::authorizer(), request_values.resource.clone()]);
        let left = Cell::new(Some(cost_max));
        let (variables, asking) = (RefCell::default(), Cell::new(false));
        Self { program, values, authorizer: cluster, variables, asking, left }
    }

    fn evaluate(&self, expression: &Expression) -> Result<Datum, EvalError> {
        let (result, cost) = expression.evaluate_with(&self.values, self.authorizer, self);
        self.left.set(self.left.get().and_then(|left| left.checked_sub(cost)));
        result
    }

    fn run(&self, expression: &Expression) -> Result<Datum, String> {
        let result = self.evaluate(expression);
        if self.left.get().is_none() {
            let why = "validation failed due to running out of cost budget, no further validation rules will be run";
            return Err(why.to_owned());
        }
        let source = expression.source().trim();
        result.map_err(|error| format!("expression '{source}' resulted in error: {}", error.message()))
    }

    /// Whether all conditions hold. One that does not hold counts before one that fails.
    pub(super) fn applies(&self) -> Result<bool, String> {
        let mut failed = None;
        for (_, condition) in &self.program.conditions {
            match self.run(condition) {
                Ok(value) if value.as_bool() == Some(true) => {}
                Ok(_) => return Ok(false),
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        failed.map_or(Ok(true), Err)
    }

    fn check(&self, validation: &Validation, ignores_failures: bool) -> Option<Failure> {
        let reason = if validation.reason.is_empty() { INVALID } else { &validation.reason };
        match self.run(&validation.expression) {
            Ok(value) if value.as_bool() == Some(true) => None,
            Ok(_) => Some(Failure { message: self.message(validation), reason: reason.to_owned() }),
            Err(_) if ignores_failures => None,
            Err(message) => Some(Failure { message, reason: INVALID.to_owned() }),
        }
    }

    /// As its expression makes it, or as it is written, or what did not hold.
    fn message(&self, validation: &Validation) -> String {
        let made = validation.made_message.as_ref().and_then(|made| self.run(made).ok());
        let made = made.as_ref().and_then(Datum::as_text).map(str::trim);
        let shown = |text: &&str| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        match made.filter(shown) {
            Some(made) => made.to_owned(),
            None if !validation.message.is_empty() => validation.message.clone(),
            None => format!("failed expression: {}", validation.expression.source().trim()),
        }
    }
}

/// `authorizer.requestResource`: what the request is about.
pub(super) fn request_resource(request: &Attributes<'_>) -> Datum {
    Datum::resource_check(ResourceCheck {
        group: request.group.into(),
        resource: request.resource.into(),
        subresource: request.subresource.into(),
        namespace: request.namespace.into(),
        name: request.name.into(),
        ..ResourceCheck::default()
    })
}

/// The variable `request` for a policy or webhook that sees this version of the resource.
pub(super) fn described(request: &Attributes<'_>, version: &str) -> Value {
    let kind = |version: &str| {
        let (group, version, kind) = request.kind_in(version);
        json!({"group": group, "version": version, "kind": kind})
    };
    let resource =
        |version: &str| json!({"group": request.group, "version": version, "resource": request.resource});
    let user = request.user;
    let extra: Vec<(Text, Value)> =
        user.extra.iter().map(|(key, list)| (key.as_str().into(), texts(list))).collect();
    json!({
        "kind": kind(version), "resource": resource(version), "subResource": request.subresource,
        "requestKind": kind(request.version), "requestResource": resource(request.version),
        "requestSubResource": request.subresource,
        "name": request.name, "namespace": request.namespace, "operation": request.operation.as_str(),
        "userInfo": {
            "username": user.name.as_str(), "uid": user.uid.as_str(), "groups": texts(&user.groups),
            "extra": Value::Object(extra.into()),
        },
        "dryRun": request.dry_run,
        "options": request.options.clone(),
    })
}

fn texts(list: &[String]) -> Value {
    Value::Array(list.iter().map(|text| Value::from(text.as_str())).collect())
}

/// The fields of a namespace that policies see.
fn shown(namespace: &Value) -> Value {
    let mut visible = json!({"metadata": {}});
    let metadata = &namespace["metadata"];
    for field in [
        "name",
        "generateName",
        "namespace",
        "labels",
        "annotations",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "finalizers",
    ] {
        if let Some(value) = some(metadata, field) {
            visible["metadata"][field] = value.clone();
        }
    }
    for field in ["spec", "status"] {
        if let Some(value) = some(namespace, field) {
            visible[field] = value.clone();
        }
    }
    visible
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(ANNOTATION_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
