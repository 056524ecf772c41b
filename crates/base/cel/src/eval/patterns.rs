//! Regular expressions that are known only while an expression runs.

use alloc::{borrow::ToOwned as _, string::String};

use regex::Regex;

use super::{
    outcome::Outcome,
    texts::{failed, pattern_call},
    value::Value,
};
use crate::{check::decls::Func, error::EvalError, ext::regexes, limits::COST_MAX};

/// The last such pattern, and what all of them took.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    last: Option<(String, Regex)>,
    units: u64,
}

impl Patterns {
    /// The units of work of all of them.
    pub(super) const fn units(&self) -> u64 {
        self.units
    }

    /// The compiled pattern.
    fn compiled(&mut self, pattern: &str) -> Result<&Regex, EvalError> {
        let is_last = self.last.as_ref().is_some_and(|(known, _)| known == pattern);
        if !is_last {
            // DEVIATION(computed-patterns): Kubernetes charges for the length of the pattern.
            self.units = self.units.saturating_add(regexes::compile_units(pattern));
            if self.units > COST_MAX {
                return Err(EvalError::budget());
            }
            let regex = regexes::compile(pattern).map_err(failed)?;
            self.last = Some((pattern.to_owned(), regex));
        }
        self.last.as_ref().map(|(_, regex)| regex).ok_or_else(EvalError::budget)
    }

    /// `matches`, `find` or `findAll`; `None` if the arguments are not for that.
    pub(super) fn call<'v>(&mut self, func: Func, args: &[Value<'v>]) -> Option<Outcome<'v>> {
        let (Func::Matches | Func::Find | Func::FindAll, [Value::Text(text), Value::Text(pattern), ..]) =
            (func, args)
        else {
            return None;
        };
        Some(self.compiled(pattern).and_then(|regex| pattern_call(func, regex, text, args)))
    }
}
