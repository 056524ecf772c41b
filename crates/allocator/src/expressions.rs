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

/// Beyond this many expressions or chains of them, everything is forgotten and learnt anew.
const EXPRESSIONS_MAX: usize = 4_096;

/// Beyond this many remembered answers, the answers are forgotten.
const ANSWERS_MAX: usize = 1 << 20;

/// A chain of selectors that must all match: a class's, then a request's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Chain(u32);

/// The result of a chain of selectors for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Match,
    /// The selector at this place says no.
    NoMatch(u16),
    /// The selector at this place cannot be compiled, or failed.
    Error(u16),
}

/// Which compiler an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    Selector,
    Derived,
}

struct Expression {
    /// `None`: a selector without an expression.
    program: Result<Program, String>,
    bound: Option<Bound>,
}

/// Every expression met so far.
#[derive(Default)]
pub(crate) struct Expressions {
    /// Keeps the names alive that programs are bound to.
    snapshot: Option<Arc<Snapshot>>,
    ids: HashMap<(Use, Text), u32, FxBuildHasher>,
    expressions: Vec<Expression>,
    chain_ids: HashMap<Box<[u32]>, Chain, FxBuildHasher>,
    chains: Vec<Box<[u32]>>,
    answers: HashMap<(Chain, ShapeId), Verdict, FxBuildHasher>,
    scratch: Vec<u32>,
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
        if self.expressions.len() > EXPRESSIONS_MAX || self.chains.len() > EXPRESSIONS_MAX {
            *self = Self::default();
        }
        let known = self.snapshot.as_ref();
        if known.is_some_and(|known| Arc::ptr_eq(known, snapshot)) {
            return;
        }
        let known = known.map(|known| known.names());
        if !known.is_some_and(|known| core::ptr::eq(known, snapshot.names())) {
            // Names are only added while a fleet lives, and then answers stay right. Otherwise it is another fleet.
            if !known.is_some_and(|known| is_prefix(known, snapshot.names())) {
                *self = Self::default();
            }
            for expression in &mut self.expressions {
                expression.bound =
                    expression.program.as_ref().ok().map(|program| program.bind(snapshot.names()));
            }
        }
        self.snapshot = Some(snapshot.clone());
    }

    /// The chain of these selectors. `None` among them is a selector without an expression.
    pub(crate) fn chain<'a>(&mut self, selectors: impl Iterator<Item = Option<&'a Text>>) -> Chain {
        let mut ids = core::mem::take(&mut self.scratch);
        ids.clear();
        ids.extend(selectors.map(|selector| match selector {
            Some(expression) => self.id(Use::Selector, expression),
            None => u32::MAX,
        }));
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
        chain
    }

    fn id(&mut self, usage: Use, expression: &Text) -> u32 {
        // A lookup by reference would need a borrowed key type; texts are cheap to clone.
        let key = (usage, expression.clone());
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let program = match usage {
            Use::Selector => lazaret_cel::compile(expression, &Env::stored()),
            Use::Derived => lazaret_cel::compile_derived(expression, &Env::stored()),
        }
        .map_err(|error| error.to_string());
        let bound =
            self.snapshot.as_ref().and_then(|snapshot| Some(program.as_ref().ok()?.bind(snapshot.names())));
        let id = u32::try_from(self.expressions.len()).unwrap_or(u32::MAX);
        self.expressions.push(Expression { program, bound });
        self.ids.insert(key, id);
        id
    }

    /// The result of a chain for a device, from the cache if it is there.
    pub(crate) fn verdict(&mut self, chain: Chain, device: DeviceRef<'_>) -> Verdict {
        let key = (chain, device.shape());
        if let Some(&verdict) = self.answers.get(&key) {
            return verdict;
        }
        let verdict = self.evaluate(chain, device);
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.clear();
        }
        self.answers.insert(key, verdict);
        verdict
    }

    fn evaluate(&self, chain: Chain, device: DeviceRef<'_>) -> Verdict {
        for (&id, at) in self.chains[chain.0 as usize].iter().zip(0..) {
            let bound = self.expressions.get(id as usize).and_then(|expression| expression.bound.as_ref());
            match bound.map(|bound| bound.matches(&device)) {
                Some(Outcome::Match) => {}
                Some(Outcome::NoMatch) => return Verdict::NoMatch(at),
                Some(Outcome::Error(_)) | None => return Verdict::Error(at),
            }
        }
        Verdict::Match
    }

    /// Why the selector at this place of a chain gave an error on a device.
    pub(crate) fn trouble(&self, chain: Chain, at: u16, device: DeviceRef<'_>) -> SelectorFailure {
        let id = self.chains[chain.0 as usize][usize::from(at)];
        // A selector without an expression.
        let Some(expression) = self.expressions.get(id as usize) else { return SelectorFailure::Unsupported };
        match (&expression.program, &expression.bound) {
            (Err(message), _) => SelectorFailure::Compile(message.clone()),
            (Ok(_), None) => SelectorFailure::Unsupported,
            (Ok(_), Some(bound)) => match bound.matches(&device) {
                Outcome::Error(error) => SelectorFailure::Evaluate(error.to_string()),
                Outcome::Match | Outcome::NoMatch => SelectorFailure::Unsupported,
            },
        }
    }

    /// The value of a derived attribute for a device.
    pub(crate) fn derive(&mut self, expression: &Text, device: DeviceRef<'_>) -> Result<AttrValue, String> {
        let id = self.id(Use::Derived, expression);
        let expression = &self.expressions[id as usize];
        match (&expression.program, &expression.bound) {
            (Err(message), _) => Err(message.clone()),
            (Ok(_), None) => Err(String::new()),
            (Ok(_), Some(bound)) => bound.derive(&device).map_err(|error| error.to_string()),
        }
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
