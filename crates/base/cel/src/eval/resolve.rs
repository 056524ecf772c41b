//! Chains of selections and indexes.

use alloc::sync::Arc;

use super::{
    machine::Machine,
    outcome::Outcome,
    value::{Map, Value},
};
use crate::{
    error::EvalError,
    plan::{Attr, Base, Step},
};

/// The result of a step.
enum Found<'v> {
    Value(Value<'v>),
    /// Nothing, where that is no error.
    Nothing,
}

impl<'v> Machine<'v> {
    /// A chain. It costs one besides its steps, unless it is a choice.
    #[inline(never)]
    pub(super) fn attr(&mut self, attr: &'v Attr) -> Outcome<'v> {
        let found = self.resolve(attr);
        if !matches!(attr.base, Base::Choice(..)) {
            self.spend(1)?;
        }
        found
    }

    /// A chain whose last step is a test. That makes up for the one that the chain costs.
    #[inline(never)]
    pub(super) fn has(&mut self, attr: &'v Attr) -> Outcome<'v> {
        let found = self.resolve(attr);
        if matches!(attr.base, Base::Choice(..)) {
            self.give_back(1);
        }
        match found? {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            value => Ok(value),
        }
    }

    fn resolve(&mut self, attr: &'v Attr) -> Outcome<'v> {
        let base = match &attr.base {
            Base::Device => Value::Map(Map::Device),
            Base::Variable(at) => self.context.variable(*at),
            Base::Local(local) => self.local(*local)?,
            Base::Op(op) => self.eval(*op)?,
            Base::Choice(condition, branches) => {
                return match self.eval(*condition)? {
                    Value::Bool(true) => self.resolve(&branches.0),
                    Value::Bool(false) => self.resolve(&branches.1),
                    _ => Err(EvalError::no_such_overload()),
                };
            }
        };
        if attr.path.is_empty() {
            return Ok(base);
        }
        let (mut value, mut optional) = match base {
            Value::Optional(None) => return Ok(base),
            Value::Optional(Some(value)) => ((*value).clone(), true),
            value => (value, false),
        };
        for step in &attr.path {
            optional |= is_optional(step);
            value = match self.step(&value, step, optional)? {
                Found::Value(value) => value,
                Found::Nothing => return Ok(Value::Optional(None)),
            };
        }
        Ok(if optional { Value::Optional(Some(Arc::new(value))) } else { value })
    }

    fn step(&mut self, value: &Value<'v>, step: &'v Step, optional: bool) -> Result<Found<'v>, EvalError> {
        let key = match step {
            Step::Key(key, _) => key.borrowed(),
            Step::Test(key) => {
                self.spend(1)?;
                let present = self.lookup(value, &key.borrowed(), true)?.is_some();
                return Ok(match (optional, present) {
                    (true, false) => Found::Nothing,
                    _ => Found::Value(Value::Bool(present)),
                });
            }
            Step::Attr(attr, _) => self.key(|machine| machine.resolve(attr), optional)?,
            Step::Op(op, _) => self.key(|machine| machine.eval(*op), optional)?,
        };
        match self.lookup(value, &key, optional) {
            Ok(Some(found)) => {
                self.spend(1)?;
                Ok(Found::Value(found))
            }
            Ok(None) => Ok(Found::Nothing),
            Err(error) => {
                self.spend(u64::from(!optional))?;
                Err(error)
            }
        }
    }

    /// An index that has to be computed. A failure costs what the step would have.
    fn key(&mut self, key: impl FnOnce(&mut Self) -> Outcome<'v>, optional: bool) -> Outcome<'v> {
        let key = key(self);
        if key.as_ref().is_err_and(|error| !error.is_cost_exceeded()) {
            self.spend(u64::from(!optional))?;
        }
        key
    }

    /// The entry of a map or element of a list; `None` where absence is no error.
    fn lookup(
        &self,
        value: &Value<'v>,
        key: &Value<'v>,
        absence_is_fine: bool,
    ) -> Result<Option<Value<'v>>, EvalError> {
        let absent =
            |error: fn(&Value<'v>) -> EvalError| if absence_is_fine { Ok(None) } else { Err(error(key)) };
        match value {
            Value::Map(Map::Lazy) => {
                let found = if let Value::Text(name) = key { self.context.lazy(name) } else { None };
                match found {
                    Some(found) => found.map(Some),
                    None => absent(|key| EvalError::no_such_key(key.shown())),
                }
            }
            Value::Map(map) => match self.context.find(map, key) {
                Some(found) => Ok(Some(found)),
                None => absent(|key| EvalError::no_such_key(key.shown())),
            },
            Value::List(list) => match list.get(index(key)?.unwrap_or(usize::MAX)) {
                Some(found) => Ok(Some(found)),
                None => absent(|key| EvalError::new(alloc::format!("index out of bounds: {}", key.shown()))),
            },
            _ => absent(|key| EvalError::no_such_key(key.shown())),
        }
    }
}

fn is_optional(step: &Step) -> bool {
    match step {
        Step::Key(_, optional) | Step::Attr(_, optional) | Step::Op(_, optional) => *optional,
        Step::Test(_) => false,
    }
}

/// A list index; `None` for a number that no list has.
fn index(key: &Value<'_>) -> Result<Option<usize>, EvalError> {
    match key {
        Value::Int(at) => Ok(usize::try_from(*at).ok()),
        Value::Uint(at) => Ok(usize::try_from(*at).ok()),
        Value::Double(at) if libm::trunc(*at) == *at => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates; whole already"
            )]
            let whole = *at as usize;
            Ok((*at >= 0.0).then_some(whole))
        }
        _ => Err(EvalError::new(alloc::format!("unsupported index type '{}' in list", key.type_name()))),
    }
}
