//! Policies and their bindings, compiled once.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_cel::{CompileError, Expression, Mode, Shape, Wanted, compile_expression};
use lazaret_json::Value;

use super::matching::Match;
use crate::value::{list, some, text};

/// Every policy that has a binding.
#[derive(Debug, Default)]
pub struct Policies(pub(super) Vec<CompiledPolicy>);

#[derive(Debug)]
pub(super) struct CompiledPolicy {
    pub(super) name: String,
    pub(super) matches: Match,
    pub(super) params: Option<(String, String)>,
    pub(super) ignores_failures: bool,
    pub(super) program: Result<Program, String>,
    pub(super) bindings: Vec<Binding>,
}

#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) matches: Match,
    pub(super) param: Value,
    pub(super) denies: bool,
    pub(super) warns: bool,
    pub(super) audits: bool,
}

/// The expressions of a policy.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) conditions: Vec<(String, Expression)>,
    pub(super) variables: Vec<(String, Expression)>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<(String, Expression)>,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) made_message: Option<Expression>,
    pub(super) reason: String,
}

impl Policies {
    /// Compiles stored policies with stored bindings. A binding without its policy does nothing.
    #[must_use]
    pub fn compile(policies: &[Value], bindings: &[Value]) -> Self {
        let mut by_policy: BTreeMap<&str, Vec<Binding>> = BTreeMap::new();
        for binding in bindings {
            by_policy.entry(text(&binding["spec"], "policyName")).or_default().push(Binding::of(binding));
        }
        let compiled = policies.iter().filter_map(|policy| {
            let bindings = by_policy.remove(text(&policy["metadata"], "name"))?;
            Some(CompiledPolicy::of(policy, bindings))
        });
        Self(compiled.collect())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl CompiledPolicy {
    fn of(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let params = some(spec, "paramKind");
        let mut program = Err(String::new());
        let mut wrong = Vec::new();
        let compiled = Program::of(spec, Mode::Stored, &mut |path, error, source| {
            wrong.push(format!("spec.{path}: {}", error.render(source)))
        });
        if wrong.is_empty() {
            program = Ok(compiled);
        } else if let Err(why) = &mut program {
            *why = wrong.join("; ");
        }
        Self {
            name: text(&policy["metadata"], "name").to_owned(),
            matches: Match::of(&spec["matchConstraints"]),
            params: params.map(|kind| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned())),
            ignores_failures: text(spec, "failurePolicy") == "Ignore",
            program,
            bindings,
        }
    }
}

impl Binding {
    fn of(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let does = |action: &str| list(spec, "validationActions").iter().any(|one| one == action);
        Self {
            name: text(&binding["metadata"], "name").to_owned(),
            matches: Match::of(&spec["matchResources"]),
            param: spec["paramRef"].clone(),
            denies: does("Deny"),
            warns: does("Warn"),
            audits: does("Audit"),
        }
    }
}

/// Names that every expression knows, in this order; `params` follows where there are any, then `variables`, and `authorizer` last.
const NAMES: [&str; 4] = ["object", "oldObject", "request", "namespaceObject"];

impl Program {
    /// A variable and those that it needs, each after those that it needs itself. A variable can only use those before it.
    pub(super) fn needed(&self, name: &str) -> Vec<&(String, Expression)> {
        let mut wanted = BTreeSet::from([name]);
        let mut needed = Vec::new();
        for variable in self.variables.iter().rev() {
            if wanted.remove(variable.0.as_str()) {
                wanted.extend(variable.1.fields_of("variables"));
                needed.push(variable);
            }
        }
        needed.reverse();
        needed
    }

    /// Compiles the expressions of a policy or a webhook; `wrong` gets each error with its path and its source. Conditions of
    /// a new policy may not use its variables.
    pub(super) fn of(spec: &Value, mode: Mode, wrong: &mut dyn FnMut(String, CompileError, &str)) -> Self {
        let mut names: Vec<(&'static str, Shape)> = NAMES.iter().map(|name| (*name, Shape::any())).collect();
        names.push(("params", Shape::any()));
        let known = if some(spec, "paramKind").is_some() { names.len() } else { names.len() - 1 };
        let mut variables: Vec<(String, Expression)> = Vec::new();
        let mut compile =
            |path: String, source: &str, wanted: Wanted, variables: Option<&[(String, Expression)]>| {
                let fields =
                    variables.into_iter().flatten().map(|(name, _)| (name.as_str().into(), Shape::any()));
                let mut names = names[..known].to_vec();
                // An empty name keeps the place, and no expression can say it.
                names.push((if variables.is_some() { "variables" } else { "" }, Shape::object(fields)));
                // An expression that makes a message has no authorizer.
                if wanted != Wanted::Text {
                    names.push(("authorizer", Shape::authorizer()));
                    names.push(("authorizer.requestResource", Shape::resource_check()));
                }
                match compile_expression(source, &names, wanted) {
                    Ok(expression) => Some(expression),
                    Err(error) => {
                        wrong(path, error, source);
                        None
                    }
                }
            };
        for (at, variable) in list(spec, "variables").iter().enumerate() {
            let path = format!("variables[{at}].expression");
            let made = compile(path, text(variable, "expression"), Wanted::Any, Some(&variables));
            variables.extend(made.map(|made| (text(variable, "name").to_owned(), made)));
        }
        let mut conditions = Vec::new();
        for (at, condition) in list(spec, "matchConditions").iter().enumerate() {
            let path = format!("matchConditions[{at}].expression");
            let usable = (mode == Mode::Stored).then_some(variables.as_slice());
            let made = compile(path, text(condition, "expression"), Wanted::Bool, usable);
            conditions.extend(made.map(|made| (text(condition, "name").to_owned(), made)));
        }
        let mut validations = Vec::new();
        for (at, said) in list(spec, "validations").iter().enumerate() {
            let path = |field: &str| format!("validations[{at}].{field}");
            let expression =
                compile(path("expression"), text(said, "expression"), Wanted::Bool, Some(&variables));
            let source = text(said, "messageExpression");
            let made_message = (!source.is_empty())
                .then(|| compile(path("messageExpression"), source, Wanted::Text, Some(&variables)))
                .flatten();
            validations.extend(expression.map(|expression| Validation {
                expression,
                made_message,
                message: text(said, "message").trim().to_owned(),
                reason: text(said, "reason").to_owned(),
            }));
        }
        let mut annotations = Vec::new();
        for (at, said) in list(spec, "auditAnnotations").iter().enumerate() {
            let path = format!("auditAnnotations[{at}].valueExpression");
            let made = compile(path, text(said, "valueExpression"), Wanted::TextOrNull, Some(&variables));
            annotations.extend(made.map(|made| (text(said, "key").to_owned(), made)));
        }
        Self { conditions, variables, validations, annotations }
    }
}
