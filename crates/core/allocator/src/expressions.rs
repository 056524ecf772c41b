//! Selectors: each expression compiled once, each answer remembered for all devices of the same shape.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use hashbrown::HashMap;
use lazaret_cel::{Bound, Env, Outcome, Program};
use lazaret_fleet::{DeviceRef, ShapeId, Snapshot};
use lazaret_model::{AttrNames, AttrValue, Text};
use rustc_hash::FxBuildHasher;

use crate::meter::{
    ASK_UNITS, COMPILE_BYTE_UNITS, COMPILE_UNITS, LOOKUP_BYTES_PER_UNIT, LOOKUP_UNITS, Meter, units,
};

/// Beyond this many remembered answers, the answers are forgotten.
const ANSWERS_MAX: usize = 1 << 20;

/// The same of remembered values of derived attributes, which are larger.
const DERIVED_MAX: usize = 1 << 14;

/// A chain of selectors that must all match: a class's, then a request's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Chain(pub(crate) u32);

/// The result of a chain of selectors for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Match,
    /// The selector at this place says no.
    NoMatch(u16),
    /// The selector at this place cannot be compiled, or failed.
    Error(u16),
    /// Those before this place match; there are no units left to ask the others.
    NotAsked(u16),
}

/// Which compiler an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Selector,
    Derived,
}

pub(crate) struct Expression {
    /// `None`: a selector without an expression.
    program: Result<Program, String>,
    bound: Option<Bound>,
    /// The search that used it last.
    pub(crate) used: u64,
}

/// Every expression met so far.
#[derive(Default)]
pub(crate) struct Expressions {
    /// Keeps the names alive that programs are bound to.
    snapshot: Option<Arc<Snapshot>>,
    /// How many searches there were.
    searches: u64,
    /// How many expressions or chains stayed when others were last forgotten.
    pub(crate) kept: usize,
    pub(crate) ids: HashMap<(Use, Text), u32, FxBuildHasher>,
    pub(crate) expressions: Vec<Expression>,
    pub(crate) chain_ids: HashMap<Box<[u32]>, Chain, FxBuildHasher>,
    pub(crate) chains: Vec<Box<[u32]>>,
    pub(crate) answers: HashMap<(Chain, ShapeId), Verdict, FxBuildHasher>,
    /// Derived values, by expression.
    pub(crate) derived: HashMap<(u32, ShapeId), Result<AttrValue, String>, FxBuildHasher>,
    scratch: Vec<u32>,
    pub(crate) meter: Meter,
}

impl core::fmt::Debug for Expressions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (expressions, answers) = (self.expressions.len(), self.answers.len());
        f.debug_struct("Expressions").field("expressions", &expressions).field("answers", &answers).finish()
    }
}

impl Expressions {
    /// Gets ready for the devices of a snapshot.
    pub(crate) fn observe(&mut self, snapshot: &Arc<Snapshot>) {
        self.make_room();
        self.searches += 1;
        let known = self.snapshot.as_ref();
        if known.is_some_and(|known| Arc::ptr_eq(known, snapshot)) {
            return;
        }
        let known = known.map(|known| known.names());
        if !known.is_some_and(|known| core::ptr::eq(known, snapshot.names())) {
            // Names are only added while a fleet lives, and then answers stay right. Otherwise it is another fleet.
            if !known.is_some_and(|known| is_prefix(known, snapshot.names())) {
                self.forget();
            }
            for expression in &mut self.expressions {
                expression.bound =
                    expression.program.as_ref().ok().map(|program| program.bind(snapshot.names()));
            }
        }
        self.snapshot = Some(snapshot.clone());
    }

    pub(crate) fn forget(&mut self) {
        *self = Self { meter: self.meter.clone(), searches: self.searches, ..Self::default() };
    }

    /// The chain of these selectors; `None` when there are no units left to compile one. `None` among them is a selector without an
    /// expression.
    pub(crate) fn chain<'a>(&mut self, selectors: impl Iterator<Item = Option<&'a Text>>) -> Option<Chain> {
        let mut ids = core::mem::take(&mut self.scratch);
        ids.clear();
        for selector in selectors {
            if self.meter.is_empty() {
                self.scratch = ids;
                return None;
            }
            ids.push(selector.map_or(u32::MAX, |expression| self.id(Use::Selector, expression)));
        }
        let chain = match self.chain_ids.get(&*ids) {
            Some(&chain) => chain,
            None => {
                let chain = Chain(u32::try_from(self.chains.len()).unwrap_or(u32::MAX));
                self.chains.push(ids.as_slice().into());
                self.chain_ids.insert(ids.as_slice().into(), chain);
                chain
            }
        };
        self.scratch = ids;
        Some(chain)
    }

    fn id(&mut self, usage: Use, expression: &Text) -> u32 {
        // A lookup by reference would need a borrowed key type; texts are cheap to clone.
        let key = (usage, expression.clone());
        if let Some(&id) = self.ids.get(&key) {
            self.meter.spend(LOOKUP_UNITS + units(expression.len()) / LOOKUP_BYTES_PER_UNIT);
            self.expressions[id as usize].used = self.searches;
            return id;
        }
        let program = match usage {
            Use::Selector => lazaret_cel::compile(expression, &Env::stored()),
            Use::Derived => lazaret_cel::compile_derived(expression, &Env::stored()),
        }
        .map_err(|error| error.to_string());
        let patterns = lazaret_cel::pattern_units(expression);
        self.meter
            .spend(patterns.saturating_add(COMPILE_UNITS + COMPILE_BYTE_UNITS * units(expression.len())));
        self.meter.learn();
        let bound =
            self.snapshot.as_ref().and_then(|snapshot| Some(program.as_ref().ok()?.bind(snapshot.names())));
        let id = u32::try_from(self.expressions.len()).unwrap_or(u32::MAX);
        self.expressions.push(Expression { program, bound, used: self.searches });
        self.ids.insert(key, id);
        id
    }

    /// The result of a chain for a device, from the cache if it is there.
    pub(crate) fn verdict(&mut self, chain: Chain, device: DeviceRef<'_>) -> Verdict {
        let key = (chain, device.shape());
        let from = match self.answers.get(&key) {
            Some(&Verdict::NotAsked(at)) => at,
            Some(&verdict) => return verdict,
            None => 0,
        };
        let verdict = self.evaluate(chain, from, device);
        if verdict == Verdict::NotAsked(from) {
            return verdict;
        }
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.clear();
        }
        self.answers.insert(key, verdict);
        verdict
    }

    /// Asks the selectors of a chain, from this place on.
    fn evaluate(&self, chain: Chain, from: u16, device: DeviceRef<'_>) -> Verdict {
        let rest = self.chains[chain.0 as usize].iter().zip(0..).skip(usize::from(from));
        for (&id, at) in rest {
            if self.meter.is_empty() {
                return Verdict::NotAsked(at);
            }
            let bound = self.expressions.get(id as usize).and_then(|expression| expression.bound.as_ref());
            match bound.map(|bound| self.counted(bound.matches_counted(&device))) {
                Some(Outcome::Match) => {}
                Some(Outcome::NoMatch) => return Verdict::NoMatch(at),
                Some(Outcome::Error(_)) | None => return Verdict::Error(at),
            }
        }
        Verdict::Match
    }

    /// Something that was computed, paid for.
    fn counted<T>(&self, (value, cost): (T, u64)) -> T {
        self.meter.spend(cost.saturating_add(ASK_UNITS));
        self.meter.learn();
        value
    }

    /// Why the selector at this place of a chain gave an error on a device.
    pub(crate) fn trouble(&self, chain: Chain, at: u16, device: DeviceRef<'_>) -> SelectorFailure {
        let id = self.chains[chain.0 as usize][usize::from(at)];
        // A selector without an expression.
        let Some(expression) = self.expressions.get(id as usize) else { return SelectorFailure::Unsupported };
        match (&expression.program, &expression.bound) {
            (Err(message), _) => SelectorFailure::Compile(message.clone()),
            (Ok(_), None) => SelectorFailure::Unsupported,
            (Ok(_), Some(bound)) => match self.counted(bound.matches_counted(&device)) {
                Outcome::Error(error) => SelectorFailure::Evaluate(error.to_string()),
                Outcome::Match | Outcome::NoMatch => SelectorFailure::Unsupported,
            },
        }
    }

    /// The value of a derived attribute for a device; `None` when there are no units left to compute it.
    pub(crate) fn derive(
        &mut self,
        expression: &Text,
        device: DeviceRef<'_>,
    ) -> Option<Result<AttrValue, String>> {
        let id = self.id(Use::Derived, expression);
        let key = (id, device.shape());
        if let Some(known) = self.derived.get(&key) {
            return Some(known.clone());
        }
        if self.meter.is_empty() {
            return None;
        }
        let expression = &self.expressions[id as usize];
        let value = match (&expression.program, &expression.bound) {
            (Err(message), _) => Err(message.clone()),
            (Ok(_), None) => Err(String::new()),
            (Ok(_), Some(bound)) => {
                self.counted(bound.derive_with_cost(&device)).map_err(|error| error.to_string())
            }
        };
        if self.derived.len() >= DERIVED_MAX {
            self.derived.clear();
        }
        self.derived.insert(key, value.clone());
        Some(value)
    }
}

/// The error of a selector.
pub(crate) enum SelectorFailure {
    /// It has no expression.
    Unsupported,
    Compile(String),
    Evaluate(String),
}

fn is_prefix(known: &AttrNames, names: &AttrNames) -> bool {
    known.len() <= names.len()
        && (0..known.len()).all(|at| {
            let id = lazaret_model::AttrId(u32::try_from(at).unwrap_or(u32::MAX));
            known.resolve(id) == names.resolve(id)
        })
}
