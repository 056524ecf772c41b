//! Compiled expressions, and what they answer for a device.

use alloc::{string::String, sync::Arc};
use core::fmt;

use lazaret_model::{AttrId, AttrNames, AttrValue, Text};

use crate::{
    check::{Env, Mode, Purpose, check},
    device::Device,
    error::{CompileError, EvalError, Issue},
    estimate::{CostRange, estimate},
    eval::{Context, Machine, attribute, id_of, quick, value::Side},
    limits::{COST_MAX, EXPRESSION_LENGTH_MAX},
    plan::{Plan, plan},
    reads::Reads,
    syntax::{ast::Literal, parse},
};

/// Compiles an expression that says whether a device is wanted.
///
/// # Errors
/// When it is too long, not CEL, ill-typed, of another type than bool, or too expensive.
pub fn compile(expr: &str, env: &Env) -> Result<Program, CompileError> {
    build(expr, *env, Purpose::Selector)
}

/// The units of work that the regular expressions of a source take to compile at most, beside what its length says. One of them is what a
/// unit of cost takes.
#[must_use]
pub fn pattern_units(expr: &str) -> u64 {
    let names = ["matches", "find"];
    if expr.len() > EXPRESSION_LENGTH_MAX || !names.iter().any(|name| expr.contains(name)) {
        return 0;
    }
    // A text that cannot be parsed is not compiled.
    let Ok(ast) = parse(expr) else { return 0 };
    let texts = ast.ids().filter_map(|id| match ast.literal(id) {
        Some(Literal::String(text)) => Some(text),
        Some(_) | None => None,
    });
    // A pattern that is put together of several has the characters of one and the repetitions of another.
    texts.map(|text| crate::ext::regexes::compile_units(text)).fold(0, u64::saturating_add)
}

/// Compiles an expression that computes an attribute of a device.
///
/// # Errors
/// As [`compile`]; the result must be a bool, int, string or version, or a list of them.
pub fn compile_derived(expr: &str, env: &Env) -> Result<Program, CompileError> {
    build(expr, *env, Purpose::Derived)
}

/// A compiled expression.
#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    expression: Text,
    cost: CostRange,
    plan: Plan,
}

/// Something of a device that an expression looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// This attribute.
    Attribute(AttrId),
    /// This capacity.
    Capacity(AttrId),
    /// Whether it can be shared.
    Sharing,
}

/// A program with its names looked up in a table. Cheap to clone.
#[derive(Clone)]
pub struct Bound {
    program: Program,
    ids: Arc<[AttrId]>,
}

/// The result of a selector for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is wanted.
    Match,
    /// It is not.
    NoMatch,
    /// Nothing can be said. Allocation stops.
    Error(EvalError),
}

fn build(expr: &str, env: Env, purpose: Purpose) -> Result<Program, CompileError> {
    let whole = |message: String| CompileError::of(Issue::new(message, 0..expr.len(), expr));
    if expr.len() > EXPRESSION_LENGTH_MAX {
        return Err(whole(alloc::format!(
            "expression is {} bytes long; it may have at most {EXPRESSION_LENGTH_MAX}",
            expr.len()
        )));
    }
    let ast = parse(expr).map_err(CompileError::of)?;
    let checked = check(&ast, env, expr)?;
    if let Some(why) = purpose.refuses(checked.of(ast.root), env) {
        return Err(whole(why));
    }
    let cost = estimate(&ast, &checked, env);
    if env.mode() == Mode::New && cost.max > COST_MAX {
        return Err(whole(alloc::format!(
            "too complex: it may cost {} of at most {COST_MAX}; compare less, or bound what it goes through",
            cost.max
        )));
    }
    let plan = plan(&ast, &checked, expr)?;
    Ok(Program(Arc::new(Inner { expression: expr.into(), cost, plan })))
}

impl Program {
    /// The source.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.0.expression
    }

    /// The cost range, as Kubernetes estimates it.
    #[must_use]
    pub fn estimated_cost(&self) -> CostRange {
        self.0.cost
    }

    /// The fields of a device that it reads.
    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.0.plan.reads
    }

    /// Looks up its names. A name that is not in the table is on no device.
    #[must_use]
    pub fn bind(&self, names: &AttrNames) -> Bound {
        let ids =
            self.0.plan.slots.iter().map(|slot| id_of(names, &slot.name.domain, &slot.name.id)).collect();
        Bound { program: self.clone(), ids }
    }
}

impl Bound {
    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Whether a device is wanted.
    #[inline]
    pub fn matches<D: Device + ?Sized>(&self, device: &D) -> Outcome {
        if !device.has_unsupported_value()
            && let Some(holds) = quick::condition(&self.program.0.plan, &self.ids, device)
        {
            return if holds { Outcome::Match } else { Outcome::NoMatch };
        }
        self.matches_with_cost(device).0
    }

    /// The same, and what it cost, with the patterns that were compiled for it. A comparison with constants that needs no machine counts as nothing.
    #[inline]
    pub fn matches_counted<D: Device + ?Sized>(&self, device: &D) -> (Outcome, u64) {
        if !device.has_unsupported_value()
            && let Some(holds) = quick::condition(&self.program.0.plan, &self.ids, device)
        {
            return (if holds { Outcome::Match } else { Outcome::NoMatch }, 0);
        }
        let (result, cost) =
            self.run(&device, |machine| (machine.run_condition(), machine.cost() + machine.pattern_units()));
        (outcome(result), cost)
    }

    /// The fields of a device that it reads, apart from the driver: devices of one driver that agree on them get the same
    /// answer. `None` where it may read any field.
    pub fn looks_at(&self) -> Option<impl Iterator<Item = Look>> {
        let Plan { slots, reads, .. } = &self.program.0.plan;
        let named = slots.iter().zip(&*self.ids).map(|(slot, id)| match slot.side {
            Side::Attributes => Look::Attribute(*id),
            Side::Capacity => Look::Capacity(*id),
        });
        let sharing = reads.allow_multiple.then_some(Look::Sharing);
        (!reads.whole_attributes && !reads.whole_capacity).then(|| named.chain(sharing))
    }

    /// Whether a device is wanted, and what it cost to find out.
    pub fn matches_with_cost<D: Device + ?Sized>(&self, device: &D) -> (Outcome, u64) {
        let (result, cost) = self.run(&device, |machine| (machine.run_condition(), machine.cost()));
        (outcome(result), cost)
    }

    /// The attribute that it computes for a device.
    ///
    /// # Errors
    /// When the evaluation fails, or makes something that is no attribute.
    pub fn derive<D: Device + ?Sized>(&self, device: &D) -> Result<AttrValue, EvalError> {
        self.derive_with_cost(device).0
    }

    /// The same, and what it cost.
    pub fn derive_with_cost<D: Device + ?Sized>(&self, device: &D) -> (Result<AttrValue, EvalError>, u64) {
        self.run(&device, |machine| {
            let made = machine.run().and_then(|value| attribute(&value));
            (made, machine.cost() + machine.pattern_units())
        })
    }

    fn run<T>(
        &self,
        device: &dyn Device,
        evaluate: impl FnOnce(&mut Machine<'_>) -> (Result<T, EvalError>, u64),
    ) -> (Result<T, EvalError>, u64) {
        if device.has_unsupported_value() {
            return (Err(EvalError::new("the device has an attribute with an unsupported value")), 0);
        }
        evaluate(&mut Machine::new(&self.program.0.plan, &self.ids, Context::of(device)))
    }
}

fn outcome(result: Result<bool, EvalError>) -> Outcome {
    match result {
        Ok(true) => Outcome::Match,
        Ok(false) => Outcome::NoMatch,
        Err(error) => Outcome::Error(error),
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.0.expression).finish()
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bound").field(&self.program.0.expression).finish()
    }
}
