//! Expressions in objects: whether they compile, and at what cost.

use lazaret_cel::{
    COST_MAX, CompileError, EXPRESSION_LENGTH_MAX, Env, Mode, Program, compile, compile_derived,
};
use lazaret_json::Value;

use super::{
    common::SELECTORS_MAX,
    compile_budget::{CompileBudget, compile_units},
};
use crate::{
    Context, Errors, FieldProblem,
    check::each,
    path::Path,
    value::{some, text},
};

// DEVIATION(compile-budget): Kubernetes compiles whatever an object has.
const TOO_MUCH_WORK: &str = "too complex, compiling the expressions up to this one takes more than 100,000,000 units of work: shorten them and their regular expressions, or use fewer";

/// Selectors of devices. Those that are `stored` already were valid then, and are not looked at again.
pub(super) fn selectors(
    errors: &mut Errors,
    path: &Path<'_>,
    items: &[Value],
    stored: bool,
    (context, budget): (&Context<'_>, &CompileBudget),
) {
    each(errors, path, items, SELECTORS_MAX, |errors, path, item| {
        let Some(cel) = some(item, "cel") else {
            errors.required(path.field("cel"), "");
            return;
        };
        if !stored {
            let path = path.field("cel");
            check(errors, &path.field("expression"), text(cel, "expression"), (context, budget), compile);
        }
    });
}

/// An expression that computes an attribute. Returns what it may cost.
pub(super) fn derived(
    errors: &mut Errors,
    path: &Path<'_>,
    expression: &str,
    (context, budget): (&Context<'_>, &CompileBudget),
) -> u64 {
    check(errors, path, expression, (context, budget), compile_derived)
}

fn check(
    errors: &mut Errors,
    path: &Path<'_>,
    expression: &str,
    (context, budget): (&Context<'_>, &CompileBudget),
    compile: fn(&str, &Env) -> Result<Program, CompileError>,
) -> u64 {
    if expression.len() > EXPRESSION_LENGTH_MAX {
        errors.push(path, FieldProblem::TooLong(EXPRESSION_LENGTH_MAX));
        return 0;
    }
    if budget.is_over() {
        return 0;
    }
    let units = compile_units(expression);
    if !budget.take(units) {
        errors.forbidden(path, TOO_MUCH_WORK);
        return 0;
    }
    match compile(expression, &env(Mode::New, context)) {
        Ok(program) => program.estimated_cost().max,
        Err(error) => {
            // It is compiled once more, to learn what it would cost.
            budget.take(units);
            // Too dear is the only complaint about new expressions that stored ones are spared.
            let cost = compile(expression, &env(Mode::Stored, context)).map_or(0, |p| p.estimated_cost().max);
            if cost > COST_MAX {
                errors.forbidden(path, "too complex, exceeds cost limit");
            } else {
                errors.invalid(path, expression, error.to_string());
            }
            cost
        }
    }
}

fn env(mode: Mode, context: &Context<'_>) -> Env {
    Env::new(mode)
        .with_list_attributes(context.features.is_on("DRAListTypeAttributes"))
        .with_consumable_capacity(context.features.is_on("DRAConsumableCapacity"))
}
