//! Which devices a rule, a patch or a preview means. The one place that decides it, for everyone.

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

use lazaret_invariant::invariant;
use lazaret_model::{AttrNames, DeviceClass, DeviceId, DeviceSelector, PoolId, Text};

use crate::{
    DeviceRef, Presence, SliceState,
    apart::Apart,
    bits::DeviceBits,
    body::SliceBody,
    cel::{self, Bound, COST_MAX, CompileError, EvalError, Look, Outcome},
};

/// A class, with its selectors bound to the names of a snapshot.
#[derive(Clone, Debug)]
pub struct ClassState {
    /// The class.
    pub class: Arc<DeviceClass>,
    /// Its selectors, in order: ready to run, or why not.
    pub selectors: Vec<Result<Bound, ClassSelectorError>>,
}

/// Why a selector of a class cannot be run.
#[derive(Clone, Debug)]
pub enum ClassSelectorError {
    /// Not valid CEL.
    Compile(CompileError),
    /// A selector of a kind that this version does not know.
    UnknownKind,
}

impl fmt::Display for ClassSelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(error) => error.fmt(f),
            Self::UnknownKind => f.write_str("a selector of an unknown kind"),
        }
    }
}

impl ClassState {
    pub(crate) fn new(class: Arc<DeviceClass>, names: &AttrNames) -> Self {
        let selectors = class.selectors.iter().map(|selector| match selector {
            None => Err(ClassSelectorError::UnknownKind),
            Some(text) => compile(text, names).map_err(ClassSelectorError::Compile),
        });
        Self { selectors: selectors.collect(), class: class.clone() }
    }

    pub(crate) fn rebound(&self, names: &AttrNames) -> Self {
        let selectors = self.selectors.iter().map(|s| match s {
            Ok(bound) => Ok(bound.program().bind(names)),
            Err(error) => Err(error.clone()),
        });
        Self { class: self.class.clone(), selectors: selectors.collect() }
    }
}

/// Why a rule or a patch does not do, or not fully do, what it says. It is skipped alone: other rules, and the
/// devices themselves, are not affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// One of its expressions is not valid CEL: it selects nothing.
    BadExpression {
        /// Which expression.
        selector: usize,
        /// The error in it.
        message: Text,
    },
    /// Its class does not exist: it selects nothing until that appears.
    ClassMissing {
        /// The class.
        class: Text,
    },
    /// A selector of its class cannot be run: it selects nothing.
    BadClass {
        /// The class.
        class: Text,
        /// Which selector of the class.
        selector: usize,
        /// The error in it.
        message: Text,
    },
    /// An expression failed on some devices, which are not selected; others are.
    FailedOnDevices {
        /// How many devices.
        devices: usize,
        /// One of them.
        example: DeviceId,
        /// The error on such a device.
        message: Text,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadExpression { selector, message } => write!(f, "selector #{selector}: {message}"),
            Self::ClassMissing { class } => write!(f, "device class {class} does not exist"),
            Self::BadClass { class, selector, message } => {
                write!(f, "device class {class}: selector #{selector}: {message}")
            }
            Self::FailedOnDevices { devices, example, message } => {
                let noun = if *devices == 1 { "device" } else { "devices" };
                write!(f, "{devices} {noun} could not be checked, among them {example}: {message}")
            }
        }
    }
}

/// A selector that can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    selector: Option<DeviceSelector>,
    expressions: Vec<Bound>,
    class: Option<Arc<ClassState>>,
    problem: Option<Problem>,
    /// The columns that its expressions and those of its class read; `None` where that may be any.
    looks: Option<Vec<Look>>,
}

pub(crate) enum Verdict {
    No,
    Yes,
    Failed(FailedCheck),
}

/// Which expression failed on a device, and how.
pub(crate) struct FailedCheck {
    pub(crate) class: Option<Text>,
    pub(crate) selector: usize,
    pub(crate) error: EvalError,
}

impl fmt::Display for FailedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(class) = &self.class {
            write!(f, "device class {class}: ")?;
        }
        write!(f, "selector #{}: {}", self.selector, self.error)
    }
}

impl Compiled {
    /// Prepares a selector; `class` is its class, if that exists.
    pub(crate) fn new(
        selector: Option<&DeviceSelector>,
        class: Option<&Arc<ClassState>>,
        names: &AttrNames,
    ) -> Self {
        let mut problem = None;
        let mut expressions = Vec::new();
        for (at, text) in selector.iter().flat_map(|s| &s.cel).enumerate() {
            match compile(text, names) {
                Ok(bound) => expressions.push(bound),
                Err(error) => {
                    problem =
                        problem.or(Some(Problem::BadExpression { selector: at, message: text_of(&error) }));
                }
            }
        }
        let wanted = selector.and_then(|s| s.class.as_ref());
        let problem = problem.or_else(|| class_problem(wanted?, class));
        let class = wanted.and(class).cloned();
        let looks = looks_of(&expressions, class.as_deref());
        Self { selector: selector.cloned(), expressions, class, problem, looks }
    }

    pub(crate) fn selector(&self) -> Option<&DeviceSelector> {
        self.selector.as_ref()
    }

    /// Why it can never match as things are.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    pub(crate) fn by_attributes(&self) -> bool {
        self.selector.as_ref().is_some_and(|s| !s.by_names_only())
    }

    /// Whether it means this device. `device` is `None` where attributes are not known: then only names can match.
    pub(crate) fn matches(&self, pool: &PoolId, name: &Text, device: Option<DeviceRef<'_>>) -> Verdict {
        let Some(selector) = &self.selector else { return Verdict::No };
        if self.problem.is_some()
            || !may_be_in(selector, pool)
            || selector.device.as_ref().is_some_and(|d| d != name)
        {
            return Verdict::No;
        }
        if selector.by_names_only() {
            return Verdict::Yes;
        }
        device.map_or(Verdict::No, |device| self.ask(device))
    }

    /// Whether its expressions, and those of its class, all hold for a device. All of them together may cost as much as one.
    #[inline]
    fn ask(&self, device: DeviceRef<'_>) -> Verdict {
        let mut spent = 0;
        if let Some(class) = &self.class {
            for (at, bound) in class.selectors.iter().enumerate() {
                let Ok(bound) =
                    invariant!(bound, "a class with a selector that does not compile is not asked")
                else {
                    continue;
                };
                match self::ask(bound, device, Some(&class.class.name), at, &mut spent) {
                    Verdict::Yes => {}
                    other @ (Verdict::No | Verdict::Failed(_)) => return other,
                }
            }
        }
        for (at, bound) in self.expressions.iter().enumerate() {
            match self::ask(bound, device, None, at, &mut spent) {
                Verdict::Yes => {}
                other @ (Verdict::No | Verdict::Failed(_)) => return other,
            }
        }
        Verdict::Yes
    }

    /// Which devices of a slice it means, and on which it failed.
    pub(crate) fn hits(&self, slice: &SliceState, names: &AttrNames) -> Hits {
        let Some(selector) = &self.selector else { return Hits::default() };
        if self.problem.is_some() || !may_be_in(selector, slice.pool()) {
            return Hits::default();
        }
        if selector.by_names_only() && selector.device.is_none() {
            return Hits { matched: slice.body.all(), failed: DeviceBits::EMPTY };
        }
        let known = slice.head.presence != Presence::Unknown;
        let mut hits = Hits::default();
        // Neighbours are mostly alike in what is asked, however much they differ in the rest.
        let apart = self.looks.as_deref().map(|looks| Apart::new(&slice.body, looks));
        let alike = |one: usize, other: usize| apart.as_ref().is_some_and(|apart| apart.agree(one, other));
        let mut before: Option<usize> = None;
        for (at, name) in slice.body.names.iter().enumerate() {
            if selector.device.as_ref().is_some_and(|device| device != name) {
                continue;
            }
            if let Some(before) = before.filter(|before| alike(*before, at)) {
                hits.matched.set(at, hits.matched.has(before));
                hits.failed.set(at, hits.failed.has(before));
                continue;
            }
            before = Some(at);
            let verdict = match (selector.by_names_only(), known) {
                (true, _) => Verdict::Yes,
                (false, true) => self.ask(slice.device(names, at)),
                (false, false) => Verdict::No,
            };
            match verdict {
                Verdict::No => {}
                Verdict::Yes => hits.matched.set(at, true),
                Verdict::Failed(_) => hits.failed.set(at, true),
            }
            if at == 0 && selector.device.is_none() && apart.as_ref().is_some_and(Apart::is_nothing) {
                return hits.of_all(&slice.body);
            }
        }
        hits
    }

    /// The same, for an [`AttrNames`] that has grown.
    pub(crate) fn rebind(&mut self, class: Option<&Arc<ClassState>>, names: &AttrNames) {
        for bound in &mut self.expressions {
            *bound = bound.program().bind(names);
        }
        if self.class.is_some() {
            self.class = class.cloned();
        }
        self.looks = looks_of(&self.expressions, self.class.as_deref());
    }

    /// The same selector after its class came, went or changed.
    pub(crate) fn with_class(&self, class: Option<&Arc<ClassState>>, names: &AttrNames) -> Self {
        Self::new(self.selector.as_ref(), class, names)
    }
}

/// The devices of a slice that a selector means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) matched: DeviceBits,
    pub(crate) failed: DeviceBits,
}

impl Hits {
    /// The result for the first device, for all of a slice.
    fn of_all(self, body: &SliceBody) -> Self {
        let spread = |bits: DeviceBits| if bits.has(0) { body.all() } else { DeviceBits::EMPTY };
        Self { matched: spread(self.matched), failed: spread(self.failed) }
    }
}

fn looks_of(expressions: &[Bound], class: Option<&ClassState>) -> Option<Vec<Look>> {
    let class = class.into_iter().flat_map(|class| &class.selectors).filter_map(|bound| bound.as_ref().ok());
    let mut looks = Vec::new();
    for bound in class.chain(expressions) {
        looks.extend(bound.looks_at()?);
    }
    Some(looks)
}

#[inline]
fn ask(
    bound: &Bound,
    device: DeviceRef<'_>,
    class: Option<&Text>,
    selector: usize,
    spent: &mut u64,
) -> Verdict {
    let failed = |error| Verdict::Failed(FailedCheck { class: class.cloned(), selector, error });
    let (outcome, cost) = bound.matches_counted(&device);
    *spent += cost;
    match outcome {
        Outcome::Error(error) => failed(error),
        Outcome::Match | Outcome::NoMatch if *spent > COST_MAX => failed(EvalError::budget()),
        Outcome::Match => Verdict::Yes,
        Outcome::NoMatch => Verdict::No,
    }
}

fn may_be_in(selector: &DeviceSelector, pool: &PoolId) -> bool {
    selector.driver.as_ref().is_none_or(|d| *d == pool.driver)
        && selector.pool.as_ref().is_none_or(|p| *p == pool.pool)
}

fn class_problem(wanted: &Text, class: Option<&Arc<ClassState>>) -> Option<Problem> {
    let Some(state) = class else { return Some(Problem::ClassMissing { class: wanted.clone() }) };
    let bad = |(selector, s): (usize, &Result<Bound, ClassSelectorError>)| {
        let message = text_of(s.as_ref().err()?);
        Some(Problem::BadClass { class: wanted.clone(), selector, message })
    };
    state.selectors.iter().enumerate().find_map(bad)
}

fn compile(text: &str, names: &AttrNames) -> Result<Bound, CompileError> {
    Ok(cel::compile(text, &cel::Env::stored())?.bind(names))
}

pub(crate) fn text_of(value: &impl fmt::Display) -> Text {
    alloc::format!("{value}").into()
}
