//! Static types, and when one may stand for another.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::fmt;

use lazaret_model::Text;

/// The static type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Wrong already; said once, then silent.
    Error,
    /// Anything.
    Dyn,
    /// Anything, but not a range to fold over: an attribute where lists are not enabled.
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Optional(Arc<Type>),
    /// The type of a type.
    Meta(Arc<Type>),
    /// Not known yet.
    Param(u32),
    Device,
    Quantity,
    Semver,
    Url,
    NamedFormat,
    Ip,
    Cidr,
    /// An object with these fields and no others.
    Object(Arc<BTreeMap<Text, Type>>),
    /// A step from `authorizer` to a decision.
    Authorization(Step),
}

/// How far a check of an authorizer is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Authorizer,
    PathCheck,
    GroupCheck,
    ResourceCheck,
    Decision,
}

impl Step {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Authorizer => "kubernetes.authorization.Authorizer",
            Self::PathCheck => "kubernetes.authorization.PathCheck",
            Self::GroupCheck => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            Self::Decision => "kubernetes.authorization.Decision",
        }
    }
}

impl Type {
    pub(crate) fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub(crate) fn meta(of: Self) -> Self {
        Self::Meta(Arc::new(of))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    fn is_dyn_or_error(&self) -> bool {
        self.is_dyn() || *self == Self::Error
    }

    /// The types it is made of.
    pub(crate) fn parameters(&self) -> [Option<&Self>; 2] {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Meta(inner) => [Some(inner), None],
            Self::Map(entry) => [Some(&entry.0), Some(&entry.1)],
            Self::Error | Self::Dyn | Self::Any | Self::Null | Self::Bool | Self::Int | Self::Uint => {
                [None, None]
            }
            Self::Double | Self::String | Self::Bytes | Self::Duration | Self::Timestamp => [None, None],
            Self::Param(_) | Self::Device | Self::Quantity | Self::Semver | Self::Url => [None, None],
            Self::NamedFormat | Self::Ip | Self::Cidr | Self::Object(_) | Self::Authorization(_) => {
                [None, None]
            }
        }
    }

    /// The same with other types in it.
    fn with_parameters(&self, of: impl Fn(&Self) -> Self) -> Self {
        match self {
            Self::List(element) => Self::list(of(element)),
            Self::Map(entry) => Self::map(of(&entry.0), of(&entry.1)),
            Self::Optional(value) => Self::optional(of(value)),
            Self::Meta(inner) => Self::meta(of(inner)),
            Self::Error | Self::Dyn | Self::Any | Self::Null | Self::Bool | Self::Int | Self::Uint => {
                self.clone()
            }
            Self::Double | Self::String | Self::Bytes | Self::Duration | Self::Timestamp => self.clone(),
            Self::Param(_) | Self::Device | Self::Quantity | Self::Semver | Self::Url => self.clone(),
            Self::NamedFormat | Self::Ip | Self::Cidr | Self::Object(_) | Self::Authorization(_) => {
                self.clone()
            }
        }
    }

    /// Null may stand where one of these is wanted.
    fn is_nullable(&self) -> bool {
        match self {
            Self::Null | Self::Any | Self::Dyn | Self::Param(_) | Self::Duration | Self::Timestamp => true,
            Self::Optional(_) | Self::Ip | Self::Cidr | Self::Object(_) | Self::Authorization(_) => true,
            Self::Device | Self::Quantity | Self::Semver | Self::Url | Self::NamedFormat => true,
            Self::Error | Self::Bool | Self::Int | Self::Uint | Self::Double | Self::String | Self::Bytes => {
                false
            }
            Self::List(_) | Self::Map(_) | Self::Meta(_) => false,
        }
    }

    /// The value's type and true, for an optional.
    pub(crate) fn unwrap_optional(&self) -> (&Self, bool) {
        if let Self::Optional(inner) = self { (inner, true) } else { (self, false) }
    }

    /// Whether its size is 1 by nature.
    pub(crate) fn is_scalar(&self) -> bool {
        if let Self::Optional(inner) = self {
            return inner.is_scalar();
        }
        matches!(self, Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint)
    }

    fn name(&self, declared: bool) -> &'static str {
        match self {
            Self::Error => "!error!",
            Self::Dyn => "dyn",
            Self::Any => "any",
            Self::Null if declared => "null_type",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration if declared => "google.protobuf.Duration",
            Self::Duration => "duration",
            Self::Timestamp if declared => "google.protobuf.Timestamp",
            Self::Timestamp => "timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Meta(_) => "type",
            Self::Param(_) => "dyn",
            Self::Device => "kubernetes.DRADevice",
            Self::Quantity => "kubernetes.Quantity",
            Self::Semver => "kubernetes.Semver",
            Self::Url => "kubernetes.URL",
            Self::NamedFormat => "kubernetes.NamedFormat",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Object(_) => "object",
            Self::Authorization(step) => step.name(),
        }
    }
}

/// As messages of the checker name it; `{:#}` as declarations do.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name(f.alternate()))?;
        if let Self::Meta(of) = self
            && **of == Self::Dyn
        {
            return Ok(());
        }
        let mut open = false;
        for parameter in self.parameters().into_iter().flatten() {
            f.write_str(if open { ", " } else { "(" })?;
            fmt::Display::fmt(parameter, f)?;
            open = true;
        }
        f.write_str(if open { ")" } else { "" })
    }
}

/// The types found for type parameters. A failed attempt leaves no trace.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    known: Vec<Option<Type>>,
    undo: Vec<(u32, Option<Type>)>,
}

impl Mapping {
    /// The first of `count` new parameters.
    pub(crate) fn fresh(&mut self, count: u32) -> u32 {
        let first = self.known.len();
        self.known.resize(first + count as usize, None);
        u32::try_from(first).unwrap_or(u32::MAX)
    }

    /// Whether each of `from` may stand for its counterpart in `to`.
    pub(crate) fn assignable_all<'t>(&mut self, pairs: impl Iterator<Item = (&'t Type, &'t Type)>) -> bool {
        self.undo.clear();
        for (from, to) in pairs {
            if !self.assign(from, to) {
                while let Some((param, was)) = self.undo.pop() {
                    self.known[param as usize] = was;
                }
                return false;
            }
        }
        true
    }

    /// Whether `from` may stand for `to`.
    pub(crate) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.assignable_all(core::iter::once((from, to)))
    }

    /// `t` with parameters replaced by what is known of them; by dyn, where nothing is, if `finish`.
    pub(crate) fn substitute(&self, t: &Type, finish: bool) -> Type {
        let Type::Param(param) = t else { return t.with_parameters(|inner| self.substitute(inner, finish)) };
        match &self.known[*param as usize] {
            Some(known) => self.substitute(known, finish),
            None if finish => Type::Dyn,
            None => t.clone(),
        }
    }

    fn set(&mut self, param: u32, to: Type) {
        let was = self.known[param as usize].replace(to);
        self.undo.push((param, was));
    }

    fn assign(&mut self, t1: &Type, t2: &Type) -> bool {
        if let Type::Param(param) = t2 {
            match self.stands_for(t1, *param) {
                Fit::Yes => return true,
                Fit::Known => return false,
                Fit::No => {}
            }
        }
        if let Type::Param(param) = t1 {
            return matches!(self.stands_for(t2, *param), Fit::Yes);
        }
        if t1.is_dyn_or_error() || t2.is_dyn_or_error() {
            return true;
        }
        if *t1 == Type::Null {
            return t2.is_nullable();
        }
        if *t2 == Type::Null {
            return t1.is_nullable();
        }
        match (t1, t2) {
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assign(a, b),
            (Type::Map(a), Type::Map(b)) => self.assign(&a.0, &b.0) && self.assign(&a.1, &b.1),
            _ => t1 == t2,
        }
    }

    fn stands_for(&mut self, t1: &Type, param: u32) -> Fit {
        if *t1 == Type::Param(param) {
            return Fit::Yes;
        }
        if let Some(known) = self.known[param as usize].clone() {
            if *t1 == known {
                return Fit::Yes;
            }
            if !self.assign(t1, &known) {
                return Fit::Known;
            }
            let wider = most_general(t1, &known);
            if self.is_free_of(wider, param) {
                let wider = wider.clone();
                self.set(param, wider);
            }
            return Fit::Yes;
        }
        if self.is_free_of(t1, param) {
            self.set(param, t1.clone());
            return Fit::Yes;
        }
        Fit::No
    }

    /// Whether `within` does not speak of `param`, not even by what its own parameters stand for.
    fn is_free_of(&self, within: &Type, param: u32) -> bool {
        let Type::Param(other) = within else {
            return within.parameters().into_iter().flatten().all(|inner| self.is_free_of(inner, param));
        };
        *other != param
            && self.known[*other as usize].as_ref().is_none_or(|known| self.is_free_of(known, param))
    }
}

enum Fit {
    Yes,
    /// The parameter is something else already.
    Known,
    No,
}

/// The wider of two types that go together.
pub(crate) fn most_general<'t>(t1: &'t Type, t2: &'t Type) -> &'t Type {
    if is_equal_or_wider(t1, t2) { t1 } else { t2 }
}

fn is_equal_or_wider(t1: &Type, t2: &Type) -> bool {
    if t1.is_dyn() || matches!(t1, Type::Param(_)) {
        return true;
    }
    if t2.is_dyn() || matches!(t2, Type::Param(_)) {
        return false;
    }
    match (t1, t2) {
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_equal_or_wider(a, b),
        (Type::Map(a), Type::Map(b)) => is_equal_or_wider(&a.0, &b.0) && is_equal_or_wider(&a.1, &b.1),
        (Type::Meta(_), Type::Meta(_)) => true,
        _ => t1 == t2,
    }
}
