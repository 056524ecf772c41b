//! Loops over lists and maps.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use super::{
    lists::insert_entry,
    machine::{Local, Machine},
    outcome::Outcome,
    value::{Key, List, Map, Value},
};
use crate::{
    error::EvalError,
    plan::{Body, Fold, OpId},
};

/// The list or map that a loop iterates.
enum Range<'v> {
    List(List<'v>),
    Map(Arc<BTreeMap<Key<'v>, Value<'v>>>),
}

/// The result of a guard.
type Guarded = Result<bool, EvalError>;

impl<'v> Machine<'v> {
    #[inline(never)]
    pub(super) fn fold(&mut self, fold: &'v Fold) -> Outcome<'v> {
        let range = match self.eval(fold.range)? {
            Value::List(list) => Range::List(list),
            Value::Map(map) => Range::Map(self.context.entries(&map)),
            other if fold.iter2.is_some() => {
                return Err(EvalError::new(alloc::format!(
                    "unsupported comprehension range type: {}",
                    other.type_name()
                )));
            }
            other => {
                return Err(EvalError::new(alloc::format!(
                    "got '{}', expected iterable type",
                    other.type_name()
                )));
            }
        };
        match &fold.body {
            Body::Any { accu, init, condition, step, result } => {
                self.locals[*accu as usize] = Local::Pending(*init);
                self.each(fold, &range, |machine| machine.turn(*accu, *condition, *step))?;
                self.eval(*result)
            }
            Body::Collect { guard, element, price } => self.collect(fold, &range, *guard, *element, *price),
            Body::Insert { guard, key, value } => self.insert(fold, &range, *guard, *key, *value),
        }
    }

    /// Runs `body` for each entry until it says to stop.
    fn each(
        &mut self,
        fold: &Fold,
        range: &Range<'v>,
        mut body: impl FnMut(&mut Self) -> Result<bool, EvalError>,
    ) -> Result<(), EvalError> {
        let (iter, iter2) = (fold.iter as usize, fold.iter2.map(|at| at as usize));
        match range {
            Range::List(list) => {
                for (at, value) in list.iter().enumerate() {
                    let first = match iter2 {
                        Some(second) => {
                            self.locals[second] = Local::Known(value);
                            Value::Int(i64::try_from(at).unwrap_or(i64::MAX))
                        }
                        None => value,
                    };
                    self.locals[iter] = Local::Known(first);
                    if !body(self)? {
                        return Ok(());
                    }
                }
            }
            Range::Map(entries) => {
                for (key, value) in entries.iter() {
                    self.locals[iter] = Local::Known(key.to_value());
                    if let Some(second) = iter2 {
                        self.locals[second] = Local::Known(value.clone());
                    }
                    if !body(self)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, accu: u32, condition: OpId, step: OpId) -> Result<bool, EvalError> {
        match self.truth(condition) {
            Ok(Some(false)) => return Ok(false),
            Err(error) if error.is_cost_exceeded() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        self.locals[accu as usize] = match self.eval(step) {
            Ok(value) => Local::Known(value),
            Err(error) if error.is_cost_exceeded() => return Err(error),
            Err(error) => Local::Failed(error),
        };
        Ok(true)
    }

    /// Whether an entry counts. Only running out of budget stops the loop; other failures are its result.
    fn guard(&mut self, guard: Option<OpId>) -> Result<Guarded, EvalError> {
        let Some(guard) = guard else { return Ok(Ok(true)) };
        match self.eval(guard) {
            Ok(Value::Bool(value)) => Ok(Ok(value)),
            Ok(_) => Ok(Err(EvalError::no_such_overload())),
            Err(error) if error.is_cost_exceeded() => Err(error),
            Err(error) => Ok(Err(error)),
        }
    }

    fn collect(
        &mut self,
        fold: &Fold,
        range: &Range<'v>,
        guard: Option<OpId>,
        element: OpId,
        price: u64,
    ) -> Outcome<'v> {
        let mut made: Result<Vec<Value<'v>>, EvalError> = Ok(Vec::new());
        self.each(fold, range, |machine| {
            match machine.guard(guard)? {
                Ok(true) => {
                    let value = machine.eval(element);
                    machine.spend(price)?;
                    match (&mut made, value) {
                        (_, Err(error)) if error.is_cost_exceeded() => return Err(error),
                        (Ok(values), Ok(value)) => values.push(value),
                        (Ok(_), Err(error)) => made = Err(error),
                        (Err(_), _) => {}
                    }
                }
                Ok(false) => {}
                Err(error) => made = Err(error),
            }
            Ok(true)
        })?;
        self.spend(1)?;
        made.map(Value::list)
    }

    fn insert(
        &mut self,
        fold: &Fold,
        range: &Range<'v>,
        guard: Option<OpId>,
        key: Option<OpId>,
        value: OpId,
    ) -> Outcome<'v> {
        let mut made: Result<BTreeMap<Key<'v>, Value<'v>>, EvalError> = Ok(BTreeMap::new());
        self.each(fold, range, |machine| {
            match machine.guard(guard)? {
                Ok(true) => {
                    machine.spend(1)?;
                    let failed = match &mut made {
                        Ok(entries) => machine.insert_one(entries, key, value),
                        // An entry for a map that failed is not even computed; a whole map is.
                        Err(_) if key.is_some() => Ok(()),
                        Err(_) => {
                            let more = machine.eval(value).map(|_| ());
                            machine.spend(1)?;
                            more
                        }
                    };
                    match failed {
                        Err(error) if error.is_cost_exceeded() => return Err(error),
                        Err(error) if made.is_ok() => made = Err(error),
                        Ok(()) | Err(_) => {}
                    }
                }
                Ok(false) => {}
                Err(error) => made = Err(error),
            }
            Ok(true)
        })?;
        self.spend(1)?;
        made.map(|entries| Value::Map(Map::Made(Arc::new(entries))))
    }

    fn insert_one(
        &mut self,
        entries: &mut BTreeMap<Key<'v>, Value<'v>>,
        key: Option<OpId>,
        value: OpId,
    ) -> Result<(), EvalError> {
        let key = key.map(|key| self.eval(key)).transpose()?;
        let value = self.eval(value);
        self.spend(1)?;
        match (key, value?) {
            (Some(key), value) => insert_entry(entries, &key, value),
            (None, Value::Map(more)) => {
                let more = self.context.entries(&more);
                more.iter().try_for_each(|(key, value)| insert_entry(entries, &key.to_value(), value.clone()))
            }
            (None, _) => Err(EvalError::no_such_overload()),
        }
    }
}
