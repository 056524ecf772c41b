//! Rules about objects: expressions over `self`, and `oldSelf` where there is a state before.

use alloc::{string::String, sync::Arc};
use core::fmt;

use lazaret_model::Text;

use crate::{
    check::{
        Env, Mode, Ref, check_with,
        types::{Step, Type},
    },
    datum::Datum,
    error::{CompileError, EvalError, Issue},
    eval::{Context, Given, Machine, NoDevice, value::Value},
    limits::EXPRESSION_LENGTH_MAX,
    plan::{Plan, plan},
    syntax::parse,
};

/// Where `oldSelf` stands among the variables.
const OLD: u32 = 1;

/// The static type of a value, as a schema gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape(pub(crate) Type);

/// The variables of a rule.
#[derive(Clone, Debug)]
pub struct Variables {
    /// The shape of `self`.
    pub this: Shape,
    /// Whether `oldSelf` may be absent, and is then an optional that is empty.
    pub optional_old: bool,
}

/// A compiled rule, or the expression of its message.
#[derive(Clone)]
pub struct Rule(Arc<Inner>);

struct Inner {
    expression: Text,
    plan: Plan,
    optional_old: bool,
    uses_old: bool,
}

/// Compiles an expression that says whether a value is good.
///
/// # Errors
/// When it is too long, not CEL, ill-typed, or of another type than bool.
pub fn compile_rule(expression: &str, variables: &Variables) -> Result<Rule, CompileError> {
    build(expression, variables, &Type::Bool)
}

/// Compiles an expression that says what is wrong with a value.
///
/// # Errors
/// As [`compile_rule`]; the result must be a string.
pub fn compile_message(expression: &str, variables: &Variables) -> Result<Rule, CompileError> {
    build(expression, variables, &Type::String)
}

fn build(expression: &str, variables: &Variables, wanted: &Type) -> Result<Rule, CompileError> {
    let whole = |message: String| CompileError::of(Issue::new(message, 0..expression.len(), expression));
    if expression.len() > EXPRESSION_LENGTH_MAX {
        return Err(whole(alloc::format!("it may have at most {EXPRESSION_LENGTH_MAX} bytes")));
    }
    let this = variables.this.0.clone();
    let old = if variables.optional_old { Type::optional(this.clone()) } else { this.clone() };
    let ast = parse(expression).map_err(CompileError::of)?;
    let checked = check_with(&ast, Env::new(Mode::New), &[("self", this), ("oldSelf", old)], expression)?;
    let result = checked.of(ast.root);
    if result != wanted {
        return Err(whole(alloc::format!("must evaluate to {wanted}, not {result}")));
    }
    let uses_old = checked.refs.iter().any(|reference| matches!(reference, Ref::Variable(OLD)));
    let plan = plan(&ast, &checked, expression)?;
    let optional_old = variables.optional_old;
    Ok(Rule(Arc::new(Inner { expression: expression.into(), plan, optional_old, uses_old })))
}

impl Rule {
    /// The source.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.0.expression
    }

    /// Whether it compares with the state before.
    #[must_use]
    pub fn uses_old(&self) -> bool {
        self.0.uses_old
    }

    /// Whether it can be asked without a state before.
    #[must_use]
    pub fn needs_no_old(&self) -> bool {
        !self.0.uses_old || self.0.optional_old
    }

    /// Whether the value is good, and what it cost to find out.
    pub fn holds(&self, this: &Datum, old: Option<&Datum>) -> (Result<bool, EvalError>, u64) {
        self.run(this, old, |machine| machine.run_condition())
    }

    /// The message, and what it cost to make.
    pub fn message(&self, this: &Datum, old: Option<&Datum>) -> (Result<String, EvalError>, u64) {
        self.run(this, old, |machine| machine.run().map(|value| value.shown()))
    }

    fn run<T>(
        &self,
        this: &Datum,
        old: Option<&Datum>,
        evaluate: impl FnOnce(&mut Machine<'_>) -> Result<T, EvalError>,
    ) -> (Result<T, EvalError>, u64) {
        let before = match (self.0.optional_old, old) {
            (true, old) => Value::Optional(old.map(|old| Arc::new(old.0.clone()))),
            (false, old) => old.map_or(Value::Null, |old| old.0.clone()),
        };
        let (variables, device) = ([this.0.clone(), before], NoDevice::default());
        let given = Given { variables: &variables, ..*Given::NOTHING };
        let context = Context { device: &device, given: &given };
        let mut machine = Machine::new(&self.0.plan, &[], context);
        let result = evaluate(&mut machine);
        (result, machine.cost())
    }
}

impl Shape {
    /// Anything.
    #[must_use]
    pub fn any() -> Self {
        Self(Type::Dyn)
    }

    /// True or false.
    #[must_use]
    pub fn bool() -> Self {
        Self(Type::Bool)
    }

    /// A whole number.
    #[must_use]
    pub fn int() -> Self {
        Self(Type::Int)
    }

    /// A number.
    #[must_use]
    pub fn double() -> Self {
        Self(Type::Double)
    }

    /// Text.
    #[must_use]
    pub fn text() -> Self {
        Self(Type::String)
    }

    /// A point in time.
    #[must_use]
    pub fn timestamp() -> Self {
        Self(Type::Timestamp)
    }

    /// A length of time.
    #[must_use]
    pub fn duration() -> Self {
        Self(Type::Duration)
    }

    /// A list of such values.
    #[must_use]
    pub fn list(element: Self) -> Self {
        Self(Type::list(element.0))
    }

    /// Such values by any names.
    #[must_use]
    pub fn map(value: Self) -> Self {
        Self(Type::map(Type::String, value.0))
    }

    /// `authorizer`.
    #[must_use]
    pub fn authorizer() -> Self {
        Self(Type::Authorization(Step::Authorizer))
    }

    /// A check of verbs on objects, not yet decided.
    #[must_use]
    pub fn resource_check() -> Self {
        Self(Type::Authorization(Step::ResourceCheck))
    }

    /// An object with these fields and no others.
    pub fn object(fields: impl IntoIterator<Item = (Text, Self)>) -> Self {
        Self(Type::Object(Arc::new(fields.into_iter().map(|(name, shape)| (name, shape.0)).collect())))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.0.expression).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(optional_old: bool) -> Variables {
        let names = Shape::list(Shape::text());
        let labels = Shape::map(Shape::text());
        let this = Shape::object([
            ("min".into(), Shape::int()),
            ("max".into(), Shape::int()),
            ("names".into(), names),
            ("labels".into(), labels),
            ("since".into(), Shape::timestamp()),
        ]);
        Variables { this, optional_old }
    }

    fn object(min: i64, max: i64, names: &[&str]) -> Datum {
        Datum::map([
            ("min".into(), Datum::int(min)),
            ("max".into(), Datum::int(max)),
            ("names".into(), Datum::list(names.iter().map(|name| Datum::text(name)))),
            ("labels".into(), Datum::map([("app".into(), Datum::text("x"))])),
            ("since".into(), Datum::timestamp("2024-01-02T03:04:05Z").unwrap()),
        ])
    }

    #[track_caller]
    fn holds(expression: &str, this: &Datum, old: Option<&Datum>) -> bool {
        let rule = compile_rule(expression, &variables(false)).unwrap();
        let (result, cost) = rule.holds(this, old);
        assert!(cost > 0);
        result.unwrap()
    }

    #[test]
    fn a_rule_speaks_of_the_object() {
        let good = object(1, 3, &["a", "b"]);
        for expression in [
            "self.min <= self.max",
            "self.names.all(name, name.size() == 1)",
            "size(self.names) == 2 && self.names[1] == 'b'",
            "self.labels['app'] == 'x' && self.labels.app.startsWith('x')",
            "has(self.labels.app) && !has(self.labels.other)",
            "'app' in self.labels && self.labels.all(key, key.matches('^[a-z]+$'))",
            "self.since < timestamp('2025-01-01T00:00:00Z') && self.since.getFullYear() == 2024",
            "self.names.exists_one(n, n == 'a') ? self.max == 3 : false",
            "self == self",
        ] {
            assert!(holds(expression, &good, None), "{expression}");
        }
        assert!(!holds("self.min <= self.max", &object(4, 3, &[]), None));
    }

    #[test]
    fn a_rule_may_compare_with_what_was() {
        let rule = compile_rule("self.max >= oldSelf.max", &variables(false)).unwrap();
        assert!(rule.uses_old() && !rule.needs_no_old());
        let (one, two) = (object(0, 1, &[]), object(0, 2, &[]));
        assert_eq!(rule.holds(&two, Some(&one)).0, Ok(true));
        assert_eq!(rule.holds(&one, Some(&two)).0, Ok(false));
        let optional = compile_rule("oldSelf.orValue(self).max <= self.max", &variables(true)).unwrap();
        assert!(optional.uses_old() && optional.needs_no_old());
        assert_eq!(optional.holds(&one, None).0, Ok(true));
        assert_eq!(optional.holds(&one, Some(&two)).0, Ok(false));
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_said_when_it_is_compiled() {
        for (expression, words) in [
            ("self.mim > 1", "undefined field 'mim'"),
            ("self.min", "must evaluate to bool, not int"),
            ("self.min == 'a'", "no matching overload"),
            ("device.driver == 'a'", "undeclared reference to 'device'"),
            ("self.min >", "1:"),
        ] {
            let error = compile_rule(expression, &variables(false)).unwrap_err();
            assert!(error.render(expression).contains(words), "{expression}: {error}");
        }
    }

    #[test]
    fn a_message_is_made_of_the_object() {
        let rule = compile_message("'max is ' + string(self.max)", &variables(false)).unwrap();
        assert_eq!(rule.message(&object(0, 7, &[]), None).0.unwrap(), "max is 7");
        assert!(compile_message("self.max", &variables(false)).is_err());
    }

    #[test]
    fn a_rule_that_costs_too_much_is_stopped() {
        let many = alloc::vec!["a"; 1_000];
        let rule = compile_rule(
            "self.names.all(x, self.names.all(y, self.names.all(z, x == z)))",
            &variables(false),
        );
        let (result, _) = rule.unwrap().holds(&object(0, 0, &many), None);
        assert!(result.is_err());
    }
}
