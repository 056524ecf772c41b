//! Declarations of functions: their overloads, and the cost of each.

use alloc::vec::Vec;

use super::types::{Step, Type};

/// A type in a declaration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum T {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    Quantity,
    Semver,
    Url,
    NamedFormat,
    Ip,
    Cidr,
    Authorization(Step),
    /// The overload's first type parameter.
    A,
    /// Its second.
    B,
    List(&'static T),
    Map(&'static T, &'static T),
    Opt(&'static T),
    TypeOf(&'static T),
}

impl T {
    /// The type, its parameters numbered from `first`.
    pub(crate) fn instantiate(self, first: u32) -> Type {
        match self {
            Self::Dyn => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::String => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::Quantity => Type::Quantity,
            Self::Semver => Type::Semver,
            Self::Url => Type::Url,
            Self::NamedFormat => Type::NamedFormat,
            Self::Ip => Type::Ip,
            Self::Cidr => Type::Cidr,
            Self::Authorization(step) => Type::Authorization(step),
            Self::A => Type::Param(first),
            Self::B => Type::Param(first + 1),
            Self::List(element) => Type::list(element.instantiate(first)),
            Self::Map(key, value) => Type::map(key.instantiate(first), value.instantiate(first)),
            Self::Opt(value) => Type::optional(value.instantiate(first)),
            Self::TypeOf(of) => Type::meta(of.instantiate(first)),
        }
    }

    fn is_generic(self) -> bool {
        match self {
            Self::A | Self::B => true,
            Self::List(inner) | Self::Opt(inner) | Self::TypeOf(inner) => inner.is_generic(),
            Self::Map(key, value) => key.is_generic() || value.is_generic(),
            Self::Dyn | Self::Bool | Self::Int | Self::Uint | Self::Double | Self::String | Self::Bytes => {
                false
            }
            Self::Duration | Self::Timestamp | Self::Quantity | Self::Semver | Self::Url => false,
            Self::NamedFormat | Self::Ip | Self::Cidr | Self::Authorization(_) => false,
        }
    }
}

/// One way to call a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overload {
    pub(crate) member: bool,
    pub(crate) args: &'static [T],
    pub(crate) result: T,
    pub(crate) cost: Cost,
}

impl Overload {
    /// How many type parameters it may need.
    pub(crate) fn is_generic(&self) -> bool {
        self.result.is_generic() || self.args.iter().any(|arg| arg.is_generic())
    }

    /// Argument types and result, parameters numbered from `first`.
    pub(crate) fn instantiate(&self, first: u32) -> (Vec<Type>, Type) {
        (self.args.iter().map(|arg| arg.instantiate(first)).collect(), self.result.instantiate(first))
    }
}

/// The cost of a call of an overload where its function has none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    One,
    /// The length of the argument.
    Prefix,
    /// The length of the only argument; also the size of what it becomes.
    ToBytes,
    ToText,
    Quote,
    /// The length of the target.
    Format,
    InList,
    Matches,
    Contains,
    /// One, and the length of a string argument where the function says so.
    ParseToo,
    /// The length of both.
    AddText,
    AddList,
    /// The length of the shorter.
    Compare,
    IndexList,
    IndexMap,
    Logic,
    Conditional,
    Slice,
    Range,
    Reverse,
    Flatten,
    Distinct,
    Sort {
        texts: bool,
    },
    SortBy {
        texts: bool,
    },
    Sets {
        factor: u8,
    },
}

impl Cost {
    /// Lists and sets have prices of their own, which outrank those of functions.
    pub(crate) fn is_of_lists(self) -> bool {
        match self {
            Self::Slice | Self::Range | Self::Reverse | Self::Flatten | Self::Distinct => true,
            Self::Sort { .. } | Self::SortBy { .. } | Self::Sets { .. } => true,
            Self::One | Self::Prefix | Self::ToBytes | Self::ToText | Self::Quote | Self::Format => false,
            Self::InList
            | Self::Matches
            | Self::Contains
            | Self::ParseToo
            | Self::AddText
            | Self::AddList => false,
            Self::Compare | Self::IndexList | Self::IndexMap | Self::Logic | Self::Conditional => false,
        }
    }
}

/// The cost of every call of a function, whatever the overload. It outranks [`Cost`], lists and sets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionCost {
    /// As the overload says.
    Overload,
    /// One unit.
    One,
    /// Every element of the target once.
    Traverse,
    /// The length of the argument, which is also the size of the result.
    Url,
    /// The length of the target, which is also the size of the result.
    Scan,
    Replace,
    Split,
    Join,
    Find,
    /// The length of the argument.
    Parse,
    Ip,
    Canonical,
    ContainsIp,
    ContainsCidr,
    Validate,
    Equals,
    /// An authorizer is asked.
    Check,
    /// A selector is read.
    Selector,
}

/// A function by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) func: Func,
    pub(crate) cost: FunctionCost,
    pub(crate) overloads: &'static [Overload],
}

/// The operation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Func {
    Conditional,
    And,
    Or,
    Not,
    NotStrictlyFalse,
    Equals,
    NotEquals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Negate,
    Index,
    OptIndex,
    OptSelect,
    In,
    Size,
    ToType,
    ToBool,
    ToBytes,
    ToDouble,
    ToDuration,
    ToDyn,
    ToInt,
    ToText,
    ToTimestamp,
    ToUint,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    Time(TimeField),
    OptionalOf,
    OptionalOfNonZero,
    OptionalNone,
    Unwrap,
    HasValue,
    Value,
    Or2,
    OrValue,
    CharAt,
    IndexOf,
    LastIndexOf,
    LowerAscii,
    UpperAscii,
    Replace,
    Split,
    Substring,
    Trim,
    Join,
    Quote,
    Format,
    SetsContains,
    SetsEquivalent,
    SetsIntersects,
    Slice,
    Flatten,
    Distinct,
    Range,
    Reverse,
    Sort,
    SortByKeys,
    First,
    Last,
    MapInsert,
    IsSorted,
    Sum,
    Min,
    Max,
    Includes,
    Find,
    FindAll,
    Url,
    IsUrl,
    UrlPart(UrlPart),
    Ip,
    IsIp,
    IpIsCanonical,
    IpTest(IpTest),
    Cidr,
    IsCidr,
    ContainsIp,
    ContainsCidr,
    Masked,
    PrefixLength,
    FormatNamed,
    FormatOf(&'static str),
    Validate,
    Quantity,
    IsQuantity,
    Sign,
    AsInteger,
    IsInteger,
    AsFloat,
    QuantityAdd,
    QuantitySub,
    IsGreaterThan,
    IsLessThan,
    CompareTo,
    Semver,
    IsSemver,
    Major,
    Minor,
    Patch,
    Authorization(AuthorizerStep),
}

/// A step from `authorizer` to what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthorizerStep {
    Path,
    Group,
    ServiceAccount,
    Resource,
    Subresource,
    Namespace,
    Name,
    FieldSelector,
    LabelSelector,
    Check,
    Allowed,
    Reason,
    Errored,
    Error,
}

/// A part of a timestamp or duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeField {
    FullYear,
    Month,
    /// From 1.
    Date,
    /// From 0.
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

/// A part of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlPart {
    Scheme,
    Host,
    Hostname,
    Port,
    EscapedPath,
    Query,
}

/// A question about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpTest {
    Family,
    Unspecified,
    Loopback,
    LinkLocalMulticast,
    LinkLocalUnicast,
    GlobalUnicast,
}

impl Func {
    /// Folded when its only argument is a constant.
    pub(crate) fn is_conversion(self) -> bool {
        matches!(
            self,
            Self::ToBool
                | Self::ToBytes
                | Self::ToDouble
                | Self::ToDuration
                | Self::ToDyn
                | Self::ToInt
                | Self::ToText
                | Self::ToTimestamp
                | Self::ToType
                | Self::ToUint
        )
    }
}

/// Declared only where list attributes are.
pub(crate) const INCLUDES: &str = "includes";
