//! `x-kubernetes-validations`: rules of a definition, written in CEL, that its objects must keep.

use std::collections::BTreeMap;

use lazaret_cel::{Datum, Rule, Variables, compile_message, compile_rule};
use lazaret_fields::{
    Errors, FieldProblem,
    value::{entries, has, is_true, list, some, text},
};
use lazaret_json::Value;
use lazaret_schema::DEPTH_MAX;

use crate::{
    cel_values::{datum, shape},
    lists::OldItems,
    structural::Structural,
};

const KEYWORD: &str = "x-kubernetes-validations";
/// Bound on the cost of all rules together for one object.
///
/// DEVIATION(crd-rule-estimates): the definition itself is not refused for what its rules might cost.
const COST_MAX: u64 = 10_000_000;
const MESSAGE_BYTES_MAX: usize = 2_048;
const MADE_MESSAGE_BYTES_MAX: usize = 5_120;
const REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The rules of a schema and of what is below it, where there are any.
#[derive(Debug)]
pub(crate) struct RuleTree {
    schema: Value,
    is_object: bool,
    rules: Vec<ValidationRule>,
    fields: BTreeMap<String, RuleTree>,
    each: Option<Box<RuleTree>>,
    items: Option<Box<RuleTree>>,
}

#[derive(Debug)]
struct ValidationRule {
    rule: Rule,
    message: String,
    made_message: Option<Rule>,
    reason: String,
    /// Names below, for what is wrong further down.
    at: Vec<String>,
}

impl RuleTree {
    /// Reads and compiles the rules of a schema. A rule that does not compile is skipped: it was refused when the definition was written.
    pub(crate) fn read(schema: &Value, is_object: bool) -> Option<Self> {
        let variables = |optional_old| Variables { this: shape(schema, is_object), optional_old };
        let validation = |said: &Value| {
            let variables = variables(is_true(said, "optionalOldSelf"));
            Some(ValidationRule {
                rule: compile_rule(text(said, "rule"), &variables).ok()?,
                message: text(said, "message").to_owned(),
                made_message: compile_message(text(said, "messageExpression"), &variables).ok(),
                reason: text(said, "reason").to_owned(),
                at: field_path(text(said, "fieldPath")).unwrap_or_default(),
            })
        };
        let inner =
            |schema: &Value| schema.is_object().then(|| Self::read(schema, false)).flatten().map(Box::new);
        let tree = Self {
            rules: list(schema, KEYWORD).iter().filter_map(validation).collect(),
            fields: entries(schema, "properties")
                .filter_map(|(name, schema)| Some((name.to_string(), Self::read(schema, false)?)))
                .collect(),
            each: inner(&schema["additionalProperties"]),
            items: inner(&schema["items"]),
            is_object,
            schema: schema.clone(),
        };
        let empty =
            tree.rules.is_empty() && tree.fields.is_empty() && tree.each.is_none() && tree.items.is_none();
        (!empty).then_some(tree)
    }

    /// Which rules an object that is well formed does not keep.
    pub(crate) fn check(&self, schema: &Structural, value: &Value, old: Option<&Value>, errors: &mut Errors) {
        RuleEvaluator { errors, left: COST_MAX }.value(self, schema, (value, old), &mut String::new(), 0);
    }
}

struct RuleEvaluator<'a> {
    errors: &'a mut Errors,
    left: u64,
}

/// A value, and its old value where it can be found.
type ValueAndOld<'v> = (&'v Value, Option<&'v Value>);

impl RuleEvaluator<'_> {
    /// `None` when all that rules may cost is spent.
    fn value(
        &mut self,
        tree: &RuleTree,
        schema: &Structural,
        (value, old): ValueAndOld<'_>,
        path: &mut String,
        depth: usize,
    ) -> Option<()> {
        if depth > DEPTH_MAX || value.is_null() {
            return Some(());
        }
        self.rules(tree, (value, old), path)?;
        let length = path.len();
        for (name, value) in value.as_object().into_iter().flatten() {
            let Some(tree) = tree.fields.get(name.as_str()).or(tree.each.as_deref()) else { continue };
            let Some(schema) = schema.child(name) else { continue };
            push(path, name);
            self.value(tree, schema, (value, old.and_then(|old| old.get(name))), path, depth + 1)?;
            path.truncate(length);
        }
        let (Some(tree), Some(inner)) = (&tree.items, &schema.items) else { return Some(()) };
        let earlier = OldItems::of(schema, old);
        for (at, item) in value.as_array().into_iter().flatten().enumerate() {
            path.push_str(&format!("[{at}]"));
            self.value(tree, inner, (item, earlier.get(schema, item)), path, depth + 1)?;
            path.truncate(length);
        }
        Some(())
    }

    fn rules(&mut self, tree: &RuleTree, (value, old): ValueAndOld<'_>, path: &str) -> Option<()> {
        if tree.rules.is_empty() {
            return Some(());
        }
        let this = datum(&tree.schema, value, tree.is_object);
        let before = old.map(|old| datum(&tree.schema, old, tree.is_object));
        for validation in &tree.rules {
            // A rule that was added later must not prevent changes elsewhere in the object.
            let stays = !validation.rule.uses_old() && old == Some(value);
            if stays || before.is_none() && !validation.rule.needs_no_old() {
                continue;
            }
            let (held, cost) = validation.rule.holds(&this, before.as_ref());
            let kind = text(&tree.schema, "type");
            match held {
                Ok(true) => {}
                Ok(false) => {
                    let message = self.message(validation, &this, before.as_ref());
                    self.refuse(validation, path, kind, message);
                }
                Err(error) => {
                    let why = format!("{error}: evaluating rule: {}", validation.rule.expression().trim());
                    self.errors.invalid(shown(path), kind, why);
                }
            }
            self.left = self.left.saturating_sub(cost);
            if self.left == 0 {
                let why = "validation failed due to running out of cost budget, no further validation rules will be run";
                self.errors.invalid(shown(path), kind, why);
                return None;
            }
        }
        Some(())
    }

    fn message(&mut self, validation: &ValidationRule, this: &Datum, before: Option<&Datum>) -> String {
        if let Some(rule) = &validation.made_message {
            let (made, cost) = rule.message(this, before);
            self.left = self.left.saturating_sub(cost);
            let good = |made: &String| {
                !made.trim().is_empty() && !made.contains('\n') && made.len() <= MADE_MESSAGE_BYTES_MAX
            };
            if let Some(made) = made.ok().filter(good) {
                return made.trim().to_owned();
            }
        }
        match validation.message.trim() {
            "" => format!("failed rule: {}", validation.rule.expression().trim()),
            said => said.to_owned(),
        }
    }

    fn refuse(&mut self, validation: &ValidationRule, path: &str, kind: &str, message: String) {
        let mut path = path.to_owned();
        validation.at.iter().for_each(|name| push(&mut path, name));
        let path = shown(&path);
        match validation.reason.as_str() {
            "FieldValueRequired" => self.errors.required(path, &message),
            "FieldValueForbidden" => self.errors.forbidden(path, message),
            "FieldValueDuplicate" => self.errors.push(path, FieldProblem::Duplicate(kind.into())),
            _ => self.errors.invalid(path, kind, message),
        }
    }
}

fn push(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// The object itself has no path; Kubernetes then writes `<nil>`.
fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

/// The names in `.spec.size` or `.spec['a.b']`; `None` for what is neither.
fn field_path(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']")?
        } else {
            let plain = rest.strip_prefix('.')?;
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        };
        if name.is_empty() {
            return None;
        }
        names.push(name.to_owned());
        rest = after;
    }
    Some(names)
}

/// The errors in the rules of a new schema. `comparable`: the old value of a field can be found.
pub(crate) fn check_rules(
    schema: &Value,
    is_object: bool,
    comparable: bool,
    path: &str,
    errors: &mut Errors,
) {
    for (at, said) in list(schema, KEYWORD).iter().enumerate() {
        check_rule(schema, is_object, comparable, said, &format!("{path}.{KEYWORD}[{at}]"), errors);
    }
    for (name, inner) in entries(schema, "properties") {
        check_rules(inner, false, comparable, &format!("{path}.properties[{name}]"), errors);
    }
    let each = &schema["additionalProperties"];
    if each.is_object() {
        check_rules(each, false, comparable, &format!("{path}.additionalProperties"), errors);
    }
    if schema["items"].is_object() {
        let comparable = comparable && text(schema, "x-kubernetes-list-type") == "map";
        check_rules(&schema["items"], false, comparable, &format!("{path}.items"), errors);
    }
}

fn check_rule(
    schema: &Value,
    is_object: bool,
    comparable: bool,
    said: &Value,
    path: &str,
    errors: &mut Errors,
) {
    let variables =
        Variables { this: shape(schema, is_object), optional_old: is_true(said, "optionalOldSelf") };
    let expression = text(said, "rule");
    if expression.trim().is_empty() {
        errors.required(format!("{path}.rule"), "rule is not specified");
        return;
    }
    match compile_rule(expression, &variables) {
        Err(error) => {
            errors.invalid(format!("{path}.rule"), expression, format!("compilation failed: {error}"))
        }
        Ok(rule) if rule.uses_old() && !comparable => {
            let why = "oldSelf cannot be used on the uncorrelatable portion of the schema within items";
            errors.invalid(format!("{path}.rule"), expression, why);
        }
        Ok(rule) if variables.optional_old && !rule.uses_old() => {
            let why = "option optionalOldSelf may only be set when oldSelf is used in rule";
            errors.invalid(format!("{path}.optionalOldSelf"), true, why);
        }
        Ok(_) => {}
    }
    let made = text(said, "messageExpression");
    if has(said, "messageExpression")
        && let Err(error) = compile_message(made, &variables)
    {
        errors.invalid(format!("{path}.messageExpression"), made, format!("compilation failed: {error}"));
    }
    let message = text(said, "message");
    if message.len() > MESSAGE_BYTES_MAX {
        errors.push(format!("{path}.message"), FieldProblem::TooLong(MESSAGE_BYTES_MAX));
    }
    if message.contains('\n') {
        errors.invalid(format!("{path}.message"), message, "must not contain line breaks");
    }
    if message.is_empty() && expression.contains('\n') && made.is_empty() {
        errors.required(format!("{path}.message"), "must be specified if rule contains line breaks");
    }
    let reason = text(said, "reason");
    if !reason.is_empty() && !REASONS.contains(&reason) {
        let known = REASONS.iter().map(|known| (*known).to_owned()).collect();
        errors.push(format!("{path}.reason"), FieldProblem::NotSupported(reason.into(), known));
    }
    if some(said, "fieldPath").is_some() && !leads_somewhere(schema, text(said, "fieldPath")) {
        let why = "must be a path to a field below, as in .spec.size";
        errors.invalid(format!("{path}.fieldPath"), text(said, "fieldPath"), why);
    }
}

fn leads_somewhere(schema: &Value, path: &str) -> bool {
    let Some(names) = field_path(path).filter(|names| !names.is_empty()) else { return false };
    let mut at = schema;
    for name in &names {
        let property = &at["properties"][name.as_str()];
        at = if property.is_object() { property } else { &at["additionalProperties"] };
    }
    at.is_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    fn schema() -> Value {
        json!({"type": "object", "x-kubernetes-validations": [
            {"rule": "self.metadata.name.startsWith('w-')", "message": "names begin with w-"},
        ], "properties": {"spec": {"type": "object", "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min) + ' is more than max'", "fieldPath": ".min"},
            {"rule": "!has(self.kind) || self.kind == oldSelf.kind", "message": "kind stays", "reason": "FieldValueForbidden"},
            {"rule": "!has(self.x__dash__on) || self.x__dash__on"},
        ], "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "kind": {"type": "string"}, "x-on": {"type": "boolean"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
                "type": "object", "x-kubernetes-validations": [{"rule": "self.port == oldSelf.port", "message": "ports stay"}],
                "properties": {"name": {"type": "string"}, "port": {"x-kubernetes-int-or-string": true}}}},
            "limits": {"type": "object", "additionalProperties": {"type": "number", "x-kubernetes-validations": [{"rule": "self >= 0.0"}]}},
        }}}})
    }

    fn wrong(value: &Value, old: Option<&Value>) -> Vec<String> {
        let (schema, mut errors) = (schema(), Errors::new());
        RuleTree::read(&schema, true).unwrap().check(&Structural::read(&schema), value, old, &mut errors);
        errors.list().iter().map(ToString::to_string).collect()
    }

    fn object(spec: Value) -> Value {
        json!({"metadata": {"name": "w-1"}, "spec": spec})
    }

    #[test]
    fn objects_are_held_to_the_rules() {
        let good = json!({"min": 1, "max": 2, "kind": "a", "x-on": true, "limits": {"a": 1}});
        assert_eq!(wrong(&object(good), None), [""; 0]);
        for (value, expected) in [
            (
                json!({"metadata": {"name": "x"}}),
                vec![r#"<nil>: Invalid value: "object": names begin with w-"#],
            ),
            (
                object(json!({"min": 3, "max": 2})),
                vec![r#"spec.min: Invalid value: "object": min 3 is more than max"#],
            ),
            (
                object(json!({"min": 1, "max": 2, "x-on": false})),
                vec![
                    r#"spec: Invalid value: "object": failed rule: !has(self.x__dash__on) || self.x__dash__on"#,
                ],
            ),
            (
                object(json!({"min": 1, "max": 2, "limits": {"a": -0.5, "b": 1}})),
                vec![r#"spec.limits.a: Invalid value: "number": failed rule: self >= 0.0"#],
            ),
        ] {
            assert_eq!(wrong(&value, None), expected, "{value}");
        }
        let missing = wrong(&object(json!({"min": 1})), None);
        assert!(
            missing[0].contains("no such key: max") && missing[0].contains("evaluating rule"),
            "{missing:?}"
        );
    }

    #[test]
    fn a_change_is_held_to_the_rules_about_changes() {
        let spec = |kind: &str, port: Value| json!({"min": 1, "max": 2, "kind": kind, "ports": [{"name": "a", "port": port}, {"name": kind, "port": 1}]});
        let old = object(spec("x", json!(80)));
        assert_eq!(wrong(&old, Some(&old)), [""; 0]);
        assert_eq!(wrong(&object(spec("y", json!(80))), Some(&old)), ["spec: Forbidden: kind stays"]);
        assert_eq!(
            wrong(&object(spec("x", json!("http"))), Some(&old)),
            [r#"spec.ports[0]: Invalid value: "object": ports stay"#]
        );
    }

    #[test]
    fn what_was_wrong_before_the_rule_came_may_stay_so() {
        let old = json!({"metadata": {"name": "x"}, "spec": {"min": 3, "max": 2}});
        let mut new = old.clone();
        new["status"] = json!({});
        assert_eq!(wrong(&new, Some(&old)), [r#"<nil>: Invalid value: "object": names begin with w-"#]);
        assert_eq!(wrong(&old, Some(&old)), [""; 0]);
    }

    #[test]
    fn rules_that_cannot_work_are_refused_with_the_definition() {
        let check = |schema: Value| {
            let mut errors = Errors::new();
            check_rules(&schema, true, true, "s", &mut errors);
            errors.list().iter().map(|error| format!("{} {}", error.path, error.reason())).collect::<Vec<_>>()
        };
        assert_eq!(check(schema()), [""; 0]);
        let with = |rule: Value| json!({"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [rule]});
        let at = "s.x-kubernetes-validations[0]";
        for (rule, expected) in [
            (json!({"rule": ""}), format!("{at}.rule FieldValueRequired")),
            (json!({"rule": "self.b > 1"}), format!("{at}.rule FieldValueInvalid")),
            (json!({"rule": "self.a"}), format!("{at}.rule FieldValueInvalid")),
            (
                json!({"rule": "self.a > 1", "messageExpression": "self.a"}),
                format!("{at}.messageExpression FieldValueInvalid"),
            ),
            (json!({"rule": "self.a > 1", "reason": "Bad"}), format!("{at}.reason FieldValueNotSupported")),
            (json!({"rule": "self.a > 1", "fieldPath": ".b"}), format!("{at}.fieldPath FieldValueInvalid")),
            (json!({"rule": "self.a > 1", "message": "a\nb"}), format!("{at}.message FieldValueInvalid")),
            (
                json!({"rule": "self.a > 1", "optionalOldSelf": true}),
                format!("{at}.optionalOldSelf FieldValueInvalid"),
            ),
        ] {
            assert_eq!(check(with(rule.clone())), [expected], "{rule}");
        }
        let list = json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}});
        assert_eq!(check(list), ["s.items.x-kubernetes-validations[0].rule FieldValueInvalid"]);
    }
}
