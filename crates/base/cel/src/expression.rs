//! Expressions over named values: those of admission policies.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::fmt;

use lazaret_model::Text;

use crate::{
    authorization::Authorizer,
    check::{Env, Mode, check_with, types::Type},
    datum::{Datum, Lazy},
    error::{CompileError, EvalError, Issue},
    eval::{Context, Given, Machine, NoDevice, value::Value},
    limits::EXPRESSION_LENGTH_MAX,
    plan::{Plan, plan},
    rule::Shape,
    syntax::{ast::Kind, parse},
};

/// The type that an expression must result in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// True or false.
    Bool,
    /// Text.
    Text,
    /// Text or nothing.
    TextOrNull,
    /// Anything.
    Any,
}

/// A compiled expression.
#[derive(Clone)]
pub struct Expression(Arc<Inner>);

struct Inner {
    source: Text,
    plan: Plan,
    /// Names, and fields that are selected from them.
    selected: Vec<(Text, Text)>,
}

/// Compiles an expression over these names.
///
/// # Errors
/// When it is too long, not CEL, ill-typed, or of another type than wanted.
pub fn compile_expression(
    source: &str,
    names: &[(&'static str, Shape)],
    wanted: Wanted,
) -> Result<Expression, CompileError> {
    let whole = |message: String| CompileError::of(Issue::new(message, 0..source.len(), source));
    if source.len() > EXPRESSION_LENGTH_MAX {
        return Err(whole(alloc::format!("it may have at most {EXPRESSION_LENGTH_MAX} bytes")));
    }
    let ast = parse(source).map_err(CompileError::of)?;
    let names: Vec<(&'static str, Type)> =
        names.iter().map(|(name, shape)| (*name, shape.0.clone())).collect();
    let checked = check_with(&ast, Env::new(Mode::New), &names, source)?;
    let found = checked.of(ast.root);
    let fits: (&[Type], &str) = match wanted {
        Wanted::Any => (&[], ""),
        Wanted::Bool => (&[Type::Bool], "bool"),
        Wanted::Text => (&[Type::String], "string"),
        Wanted::TextOrNull => (&[Type::String, Type::Null], "string or null"),
    };
    if wanted != Wanted::Any && !matches!(found, Type::Dyn | Type::Any) && !fits.0.contains(found) {
        return Err(whole(alloc::format!("must evaluate to {}", fits.1)));
    }
    let plan = plan(&ast, &checked, source)?;
    let selected = ast.ids().filter_map(|id| {
        let Kind::Select { operand, field, .. } = ast.kind(id) else { return None };
        let Kind::Ident(name) = ast.kind(*operand) else { return None };
        Some((name.strip_prefix('.').unwrap_or(name).into(), (*field).into()))
    });
    Ok(Expression(Arc::new(Inner { source: source.into(), plan, selected: selected.collect() })))
}

impl Expression {
    /// The source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// The fields that it selects from a name, as far as that can be read off; one may be named twice.
    pub fn fields_of(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.selected.iter().filter(move |(from, _)| &**from == name).map(|(_, field)| &**field)
    }

    /// The result with these values, in the order of the names that it was compiled with; and the cost.
    pub fn evaluate(&self, values: &[Datum]) -> (Result<Datum, EvalError>, u64) {
        self.run(values, Given::NOTHING)
    }

    /// The same for an expression that may ask `authorizer`, and for entries of [`Datum::lazy`].
    pub fn evaluate_with(
        &self,
        values: &[Datum],
        authorizer: &dyn Authorizer,
        lazy: &dyn Lazy,
    ) -> (Result<Datum, EvalError>, u64) {
        self.run(values, &Given { variables: &[], authorizer: Some(authorizer), lazy: Some(lazy) })
    }

    fn run(&self, values: &[Datum], given: &Given<'_>) -> (Result<Datum, EvalError>, u64) {
        let variables: Vec<Value<'_>> = values.iter().map(|value| value.0.clone()).collect();
        let device = NoDevice::default();
        let given = Given { variables: &variables, ..*given };
        let context = Context { device: &device, given: &given };
        let mut machine = Machine::new(&self.0.plan, &[], context);
        let result = machine.run().map(|value| Datum(value.to_static().unwrap_or(Value::Null)));
        (result, machine.cost())
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.0.source).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> [(&'static str, Shape); 2] {
        [("object", Shape::any()), ("variables", Shape::object([("limit".into(), Shape::any())]))]
    }

    fn values(replicas: i64) -> [Datum; 2] {
        let metadata = Datum::map([("namespace".into(), Datum::text("default"))]);
        let spec = Datum::map([("replicas".into(), Datum::int(replicas))]);
        [
            Datum::map([("metadata".into(), metadata), ("spec".into(), spec)]),
            Datum::map([("limit".into(), Datum::int(5))]),
        ]
    }

    #[test]
    fn an_expression_speaks_of_named_values() {
        for (source, wanted, shown) in [
            ("object.spec.replicas <= variables.limit", Wanted::Bool, "true"),
            ("object.metadata.namespace == 'default' && !has(object.spec.paused)", Wanted::Bool, "true"),
            ("'at most ' + string(variables.limit)", Wanted::Text, "at most 5"),
            ("object.spec.replicas", Wanted::Any, "3"),
            ("object.metadata.namespace", Wanted::Text, "default"),
            ("null", Wanted::TextOrNull, "null_type"),
        ] {
            let expression = compile_expression(source, &names(), wanted).unwrap();
            let (result, cost) = expression.evaluate(&values(3));
            assert_eq!(result.unwrap().0.shown(), shown, "{source}");
            assert!(cost < 100 && expression.source() == source);
        }
    }

    #[test]
    fn what_is_wrong_is_said_at_once_or_when_it_is_met() {
        for (source, wanted, words) in [
            ("authorizer.path('/x')", Wanted::Bool, "undeclared reference to 'authorizer'"),
            ("variables.other == 1", Wanted::Bool, "undefined field 'other'"),
            ("1 + 1", Wanted::Bool, "must evaluate to bool"),
            ("1", Wanted::TextOrNull, "must evaluate to string or null"),
            ("object.", Wanted::Any, "1:"),
        ] {
            let error = compile_expression(source, &names(), wanted).unwrap_err();
            assert!(error.render(source).contains(words), "{source}: {error}");
        }
        let expression = compile_expression("object.spec.nothing == 1", &names(), Wanted::Bool).unwrap();
        let error = expression.evaluate(&values(1)).0.unwrap_err();
        assert!(alloc::format!("{error}").contains("no such key"));
    }
}
