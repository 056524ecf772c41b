//! Every function: CEL's standard library, its extensions and those of Kubernetes, as device expressions see them.

use super::{
    decls::{
        AuthorizerStep, Cost, Func, Function, FunctionCost, INCLUDES, IpTest, Overload, T, TimeField, UrlPart,
    },
    types::Step,
};

const fn function_of(name: &'static str, func: Func, overloads: &'static [Overload]) -> Function {
    Function { name, func, cost: FunctionCost::Overload, overloads }
}

const fn global(args: &'static [T], result: T) -> Overload {
    Overload { member: false, args, result, cost: Cost::One }
}

const fn member(args: &'static [T], result: T) -> Overload {
    Overload { member: true, args, result, cost: Cost::One }
}

impl Overload {
    const fn costs(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }
}

impl Function {
    const fn costs(self, cost: FunctionCost) -> Self {
        Self { cost, ..self }
    }
}

const LIST_A: T = T::List(&T::A);
const LIST_INT: T = T::List(&T::Int);
const LIST_UINT: T = T::List(&T::Uint);
const LIST_DOUBLE: T = T::List(&T::Double);
const LIST_BOOL: T = T::List(&T::Bool);
const LIST_DURATION: T = T::List(&T::Duration);
const LIST_TIMESTAMP: T = T::List(&T::Timestamp);
const LIST_STRING: T = T::List(&T::String);
const LIST_BYTES: T = T::List(&T::Bytes);
const MAP_AB: T = T::Map(&T::A, &T::B);
const OPT_A: T = T::Opt(&T::A);
const OPT_B: T = T::Opt(&T::B);

/// Operators first: they are looked up most.
static FUNCTIONS: [&[Function]; 9] =
    [OPERATORS, STANDARD, TIMES, OPTIONALS, STRINGS, LISTS, ADDRESSES, MEASURES, AUTHORIZATION];

/// The function of this name. A leading dot is only emphasis: there is one container.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    let name = name.strip_prefix('.').unwrap_or(name);
    FUNCTIONS.iter().flat_map(|group| group.iter()).find(|function| function.name == name)
}

const COMPARE: &[Overload] = &[
    global(&[T::Bool, T::Bool], T::Bool),
    global(&[T::Int, T::Int], T::Bool),
    global(&[T::Int, T::Double], T::Bool),
    global(&[T::Int, T::Uint], T::Bool),
    global(&[T::Uint, T::Uint], T::Bool),
    global(&[T::Uint, T::Double], T::Bool),
    global(&[T::Uint, T::Int], T::Bool),
    global(&[T::Double, T::Double], T::Bool),
    global(&[T::Double, T::Int], T::Bool),
    global(&[T::Double, T::Uint], T::Bool),
    global(&[T::String, T::String], T::Bool).costs(Cost::Compare),
    global(&[T::Bytes, T::Bytes], T::Bool).costs(Cost::Compare),
    global(&[T::Timestamp, T::Timestamp], T::Bool),
    global(&[T::Duration, T::Duration], T::Bool),
];

const OPERATORS: &[Function] = &[
    function_of("_&&_", Func::And, &[global(&[T::Bool, T::Bool], T::Bool).costs(Cost::Logic)]),
    function_of("_||_", Func::Or, &[global(&[T::Bool, T::Bool], T::Bool).costs(Cost::Logic)]),
    function_of("_==_", Func::Equals, &[global(&[T::A, T::A], T::Bool).costs(Cost::Compare)])
        .costs(FunctionCost::Equals),
    function_of(
        "_[_]",
        Func::Index,
        &[
            global(&[LIST_A, T::Int], T::A).costs(Cost::IndexList),
            global(&[MAP_AB, T::A], T::B).costs(Cost::IndexMap),
            global(&[T::Opt(&LIST_A), T::Int], OPT_A),
            global(&[T::Opt(&MAP_AB), T::A], OPT_B),
        ],
    ),
    function_of(
        "@in",
        Func::In,
        &[global(&[T::A, LIST_A], T::Bool).costs(Cost::InList), global(&[T::A, MAP_AB], T::Bool)],
    ),
    function_of("!_", Func::Not, &[global(&[T::Bool], T::Bool)]),
    function_of("_!=_", Func::NotEquals, &[global(&[T::A, T::A], T::Bool).costs(Cost::Compare)]),
    function_of("_>_", Func::Greater, COMPARE),
    function_of("_>=_", Func::GreaterEquals, COMPARE),
    function_of("_<_", Func::Less, COMPARE),
    function_of("_<=_", Func::LessEquals, COMPARE),
    function_of("_?_:_", Func::Conditional, &[global(&[T::Bool, T::A, T::A], T::A).costs(Cost::Conditional)]),
    function_of("@not_strictly_false", Func::NotStrictlyFalse, &[global(&[T::Bool], T::Bool)]),
    function_of(
        "_+_",
        Func::Add,
        &[
            global(&[T::Bytes, T::Bytes], T::Bytes).costs(Cost::AddText),
            global(&[T::Double, T::Double], T::Double),
            global(&[T::Duration, T::Duration], T::Duration),
            global(&[T::Duration, T::Timestamp], T::Timestamp),
            global(&[T::Timestamp, T::Duration], T::Timestamp),
            global(&[T::Int, T::Int], T::Int),
            global(&[LIST_A, LIST_A], LIST_A).costs(Cost::AddList),
            global(&[T::String, T::String], T::String).costs(Cost::AddText),
            global(&[T::Uint, T::Uint], T::Uint),
        ],
    ),
    function_of(
        "_-_",
        Func::Subtract,
        &[
            global(&[T::Double, T::Double], T::Double),
            global(&[T::Duration, T::Duration], T::Duration),
            global(&[T::Int, T::Int], T::Int),
            global(&[T::Timestamp, T::Duration], T::Timestamp),
            global(&[T::Timestamp, T::Timestamp], T::Duration),
            global(&[T::Uint, T::Uint], T::Uint),
        ],
    ),
    function_of("_*_", Func::Multiply, ARITHMETIC),
    function_of("_/_", Func::Divide, ARITHMETIC),
    function_of(
        "_%_",
        Func::Modulo,
        &[global(&[T::Int, T::Int], T::Int), global(&[T::Uint, T::Uint], T::Uint)],
    ),
    function_of("-_", Func::Negate, &[global(&[T::Double], T::Double), global(&[T::Int], T::Int)]),
    function_of(
        "_[?_]",
        Func::OptIndex,
        &[
            global(&[LIST_A, T::Int], OPT_A),
            global(&[T::Opt(&LIST_A), T::Int], OPT_A),
            global(&[MAP_AB, T::A], OPT_B),
            global(&[T::Opt(&MAP_AB), T::A], OPT_B),
        ],
    ),
    function_of("_?._", Func::OptSelect, &[global(&[T::Dyn, T::String], OPT_A)]),
];

const ARITHMETIC: &[Overload] = &[
    global(&[T::Double, T::Double], T::Double),
    global(&[T::Int, T::Int], T::Int),
    global(&[T::Uint, T::Uint], T::Uint),
];

const STANDARD: &[Function] = &[
    function_of(
        "size",
        Func::Size,
        &[
            global(&[T::Bytes], T::Int),
            member(&[T::Bytes], T::Int),
            global(&[LIST_A], T::Int),
            member(&[LIST_A], T::Int),
            global(&[MAP_AB], T::Int),
            member(&[MAP_AB], T::Int),
            global(&[T::String], T::Int),
            member(&[T::String], T::Int),
        ],
    ),
    function_of(
        "contains",
        Func::Contains,
        &[member(&[T::String, T::String], T::Bool).costs(Cost::Contains)],
    ),
    function_of(
        "startsWith",
        Func::StartsWith,
        &[member(&[T::String, T::String], T::Bool).costs(Cost::Prefix)],
    ),
    function_of("endsWith", Func::EndsWith, &[member(&[T::String, T::String], T::Bool).costs(Cost::Prefix)]),
    function_of(
        "matches",
        Func::Matches,
        &[
            global(&[T::String, T::String], T::Bool).costs(Cost::Matches),
            member(&[T::String, T::String], T::Bool).costs(Cost::Matches),
        ],
    ),
    function_of("type", Func::ToType, &[global(&[T::A], T::TypeOf(&T::A))]),
    function_of("dyn", Func::ToDyn, &[global(&[T::A], T::Dyn)]),
    function_of("bool", Func::ToBool, &[global(&[T::Bool], T::Bool), global(&[T::String], T::Bool)]),
    function_of(
        "bytes",
        Func::ToBytes,
        &[global(&[T::Bytes], T::Bytes), global(&[T::String], T::Bytes).costs(Cost::ToBytes)],
    ),
    function_of(
        "double",
        Func::ToDouble,
        &[
            global(&[T::Double], T::Double),
            global(&[T::Int], T::Double),
            global(&[T::String], T::Double),
            global(&[T::Uint], T::Double),
        ],
    ),
    function_of(
        "int",
        Func::ToInt,
        &[
            global(&[T::Int], T::Int),
            global(&[T::Double], T::Int),
            global(&[T::Duration], T::Int),
            global(&[T::String], T::Int),
            global(&[T::Timestamp], T::Int),
            global(&[T::Uint], T::Int),
        ],
    ),
    function_of(
        "uint",
        Func::ToUint,
        &[
            global(&[T::Uint], T::Uint),
            global(&[T::Double], T::Uint),
            global(&[T::Int], T::Uint),
            global(&[T::String], T::Uint),
        ],
    ),
    function_of(
        "string",
        Func::ToText,
        &[
            global(&[T::String], T::String),
            global(&[T::Bool], T::String),
            global(&[T::Bytes], T::String).costs(Cost::ToText),
            global(&[T::Double], T::String),
            global(&[T::Duration], T::String),
            global(&[T::Int], T::String),
            global(&[T::Timestamp], T::String),
            global(&[T::Uint], T::String),
            global(&[T::Ip], T::String),
            global(&[T::Cidr], T::String),
        ],
    ),
];

const TIMESTAMP_FIELD: &[Overload] =
    &[member(&[T::Timestamp], T::Int), member(&[T::Timestamp, T::String], T::Int)];

const TIME_FIELD: &[Overload] = &[
    member(&[T::Timestamp], T::Int),
    member(&[T::Timestamp, T::String], T::Int),
    member(&[T::Duration], T::Int),
];

const fn timestamp_field(name: &'static str, field: TimeField) -> Function {
    function_of(name, Func::Time(field), TIMESTAMP_FIELD)
}

const fn time_field(name: &'static str, field: TimeField) -> Function {
    function_of(name, Func::Time(field), TIME_FIELD)
}

const TIMES: &[Function] = &[
    function_of(
        "duration",
        Func::ToDuration,
        &[global(&[T::Duration], T::Duration), global(&[T::String], T::Duration)],
    ),
    function_of(
        "timestamp",
        Func::ToTimestamp,
        &[
            global(&[T::Timestamp], T::Timestamp),
            global(&[T::Int], T::Timestamp),
            global(&[T::String], T::Timestamp),
        ],
    ),
    timestamp_field("getFullYear", TimeField::FullYear),
    timestamp_field("getMonth", TimeField::Month),
    timestamp_field("getDate", TimeField::Date),
    timestamp_field("getDayOfMonth", TimeField::DayOfMonth),
    timestamp_field("getDayOfWeek", TimeField::DayOfWeek),
    timestamp_field("getDayOfYear", TimeField::DayOfYear),
    time_field("getHours", TimeField::Hours),
    time_field("getMinutes", TimeField::Minutes),
    time_field("getSeconds", TimeField::Seconds),
    time_field("getMilliseconds", TimeField::Milliseconds),
];

const OPTIONALS: &[Function] = &[
    function_of("orValue", Func::OrValue, &[member(&[OPT_A, T::A], T::A)]),
    function_of("or", Func::Or2, &[member(&[OPT_A, OPT_A], OPT_A)]),
    function_of("hasValue", Func::HasValue, &[member(&[OPT_A], T::Bool)]),
    function_of("value", Func::Value, &[member(&[OPT_A], T::A)]),
    function_of("optional.of", Func::OptionalOf, &[global(&[T::A], OPT_A)]),
    function_of("optional.ofNonZeroValue", Func::OptionalOfNonZero, &[global(&[T::A], OPT_A)]),
    function_of("optional.none", Func::OptionalNone, &[global(&[], OPT_A)]),
    function_of("optional.unwrap", Func::Unwrap, &[global(&[T::List(&OPT_A)], LIST_A)]),
    function_of("unwrapOpt", Func::Unwrap, &[member(&[T::List(&OPT_A)], LIST_A)]),
    function_of(
        "cel.@mapInsert",
        Func::MapInsert,
        &[global(&[MAP_AB, T::A, T::B], MAP_AB), global(&[MAP_AB, MAP_AB], MAP_AB)],
    ),
];

const STRINGS: &[Function] = &[
    function_of("charAt", Func::CharAt, &[member(&[T::String, T::Int], T::String)]),
    function_of("indexOf", Func::IndexOf, INDEX_OF).costs(FunctionCost::Traverse),
    function_of("lastIndexOf", Func::LastIndexOf, INDEX_OF).costs(FunctionCost::Traverse),
    function_of("lowerAscii", Func::LowerAscii, &[member(&[T::String], T::String)]).costs(FunctionCost::Scan),
    function_of("upperAscii", Func::UpperAscii, &[member(&[T::String], T::String)]).costs(FunctionCost::Scan),
    function_of(
        "replace",
        Func::Replace,
        &[
            member(&[T::String, T::String, T::String], T::String),
            member(&[T::String, T::String, T::String, T::Int], T::String),
        ],
    )
    .costs(FunctionCost::Replace),
    function_of(
        "split",
        Func::Split,
        &[member(&[T::String, T::String], LIST_STRING), member(&[T::String, T::String, T::Int], LIST_STRING)],
    )
    .costs(FunctionCost::Split),
    function_of(
        "substring",
        Func::Substring,
        &[member(&[T::String, T::Int], T::String), member(&[T::String, T::Int, T::Int], T::String)],
    )
    .costs(FunctionCost::Scan),
    function_of("trim", Func::Trim, &[member(&[T::String], T::String)]).costs(FunctionCost::Scan),
    function_of(
        "join",
        Func::Join,
        &[member(&[LIST_STRING], T::String), member(&[LIST_STRING, T::String], T::String)],
    )
    .costs(FunctionCost::Join),
    function_of("strings.quote", Func::Quote, &[global(&[T::String], T::String).costs(Cost::Quote)]),
    function_of(
        "format",
        Func::Format,
        &[member(&[T::String, T::List(&T::Dyn)], T::String).costs(Cost::Format)],
    ),
    function_of("find", Func::Find, &[member(&[T::String, T::String], T::String)]).costs(FunctionCost::Find),
    function_of(
        "findAll",
        Func::FindAll,
        &[member(&[T::String, T::String], LIST_STRING), member(&[T::String, T::String, T::Int], LIST_STRING)],
    )
    .costs(FunctionCost::Find),
    function_of("url", Func::Url, &[global(&[T::String], T::Url)]).costs(FunctionCost::Url),
    function_of("isURL", Func::IsUrl, &[global(&[T::String], T::Bool)]),
    url_part("getScheme", UrlPart::Scheme),
    url_part("getHost", UrlPart::Host),
    url_part("getHostname", UrlPart::Hostname),
    url_part("getPort", UrlPart::Port),
    url_part("getEscapedPath", UrlPart::EscapedPath),
    function_of(
        "getQuery",
        Func::UrlPart(UrlPart::Query),
        &[member(&[T::Url], T::Map(&T::String, &LIST_STRING))],
    )
    .costs(FunctionCost::One),
];

const URL_PART: &[Overload] = &[member(&[T::Url], T::String)];

const fn url_part(name: &'static str, part: UrlPart) -> Function {
    function_of(name, Func::UrlPart(part), URL_PART).costs(FunctionCost::One)
}

const INDEX_OF: &[Overload] = &[
    member(&[T::String, T::String], T::Int),
    member(&[T::String, T::String, T::Int], T::Int),
    member(&[LIST_A, T::A], T::Int),
];

const LISTS: &[Function] = &[
    function_of("sets.contains", Func::SetsContains, &[SETS_ONCE]),
    function_of(
        "sets.equivalent",
        Func::SetsEquivalent,
        &[global(&[LIST_A, LIST_A], T::Bool).costs(Cost::Sets { factor: 2 })],
    ),
    function_of("sets.intersects", Func::SetsIntersects, &[SETS_ONCE]),
    function_of("slice", Func::Slice, &[member(&[LIST_A, T::Int, T::Int], LIST_A).costs(Cost::Slice)]),
    function_of(
        "flatten",
        Func::Flatten,
        &[
            member(&[T::List(&LIST_A)], LIST_A).costs(Cost::Flatten),
            member(&[T::List(&T::Dyn), T::Int], T::List(&T::Dyn)).costs(Cost::Flatten),
        ],
    ),
    function_of("distinct", Func::Distinct, &[member(&[LIST_A], LIST_A).costs(Cost::Distinct)]),
    function_of("lists.range", Func::Range, &[global(&[T::Int], LIST_INT).costs(Cost::Range)]),
    function_of("reverse", Func::Reverse, &[member(&[LIST_A], LIST_A).costs(Cost::Reverse)]),
    function_of("first", Func::First, &[member(&[LIST_A], OPT_A)]),
    function_of("last", Func::Last, &[member(&[LIST_A], OPT_A)]),
    function_of(
        "sort",
        Func::Sort,
        &[
            member(&[LIST_INT], LIST_INT).costs(Cost::Sort { texts: false }),
            member(&[LIST_UINT], LIST_UINT).costs(Cost::Sort { texts: false }),
            member(&[LIST_DOUBLE], LIST_DOUBLE).costs(Cost::Sort { texts: false }),
            member(&[LIST_BOOL], LIST_BOOL).costs(Cost::Sort { texts: false }),
            member(&[LIST_DURATION], LIST_DURATION).costs(Cost::Sort { texts: false }),
            member(&[LIST_TIMESTAMP], LIST_TIMESTAMP).costs(Cost::Sort { texts: false }),
            member(&[LIST_STRING], LIST_STRING).costs(Cost::Sort { texts: true }),
            member(&[LIST_BYTES], LIST_BYTES).costs(Cost::Sort { texts: true }),
        ],
    ),
    function_of(
        "@sortByAssociatedKeys",
        Func::SortByKeys,
        &[
            member(&[LIST_A, LIST_INT], LIST_A).costs(Cost::SortBy { texts: false }),
            member(&[LIST_A, LIST_UINT], LIST_A).costs(Cost::SortBy { texts: false }),
            member(&[LIST_A, LIST_DOUBLE], LIST_A).costs(Cost::SortBy { texts: false }),
            member(&[LIST_A, LIST_BOOL], LIST_A).costs(Cost::SortBy { texts: false }),
            member(&[LIST_A, LIST_DURATION], LIST_A).costs(Cost::SortBy { texts: false }),
            member(&[LIST_A, LIST_TIMESTAMP], LIST_A).costs(Cost::SortBy { texts: false }),
            member(&[LIST_A, LIST_STRING], LIST_A).costs(Cost::SortBy { texts: true }),
            member(&[LIST_A, LIST_BYTES], LIST_A).costs(Cost::SortBy { texts: true }),
        ],
    ),
    function_of(
        "isSorted",
        Func::IsSorted,
        &[
            member(&[LIST_INT], T::Bool),
            member(&[LIST_UINT], T::Bool),
            member(&[LIST_DOUBLE], T::Bool),
            member(&[LIST_BOOL], T::Bool),
            member(&[LIST_DURATION], T::Bool),
            member(&[LIST_TIMESTAMP], T::Bool),
            member(&[LIST_STRING], T::Bool),
            member(&[LIST_BYTES], T::Bool),
        ],
    )
    .costs(FunctionCost::Traverse),
    function_of(
        "sum",
        Func::Sum,
        &[
            member(&[LIST_INT], T::Int),
            member(&[LIST_UINT], T::Uint),
            member(&[LIST_DOUBLE], T::Double),
            member(&[LIST_DURATION], T::Duration),
        ],
    )
    .costs(FunctionCost::Traverse),
    function_of("min", Func::Min, EXTREMES).costs(FunctionCost::Traverse),
    function_of("max", Func::Max, EXTREMES).costs(FunctionCost::Traverse),
    function_of(INCLUDES, Func::Includes, &[member(&[T::Dyn, T::Dyn], T::Bool)])
        .costs(FunctionCost::Traverse),
];

const SETS_ONCE: Overload = global(&[LIST_A, LIST_A], T::Bool).costs(Cost::Sets { factor: 1 });

const EXTREMES: &[Overload] = &[
    member(&[LIST_INT], T::Int),
    member(&[LIST_UINT], T::Uint),
    member(&[LIST_DOUBLE], T::Double),
    member(&[LIST_BOOL], T::Bool),
    member(&[LIST_DURATION], T::Duration),
    member(&[LIST_TIMESTAMP], T::Timestamp),
    member(&[LIST_STRING], T::String),
    member(&[LIST_BYTES], T::Bytes),
];

const IP_TEST: &[Overload] = &[member(&[T::Ip], T::Bool)];

const fn ip_test(name: &'static str, test: IpTest) -> Function {
    function_of(name, Func::IpTest(test), IP_TEST).costs(FunctionCost::One)
}

const ADDRESSES: &[Function] = &[
    function_of("ip", Func::Ip, &[global(&[T::String], T::Ip), member(&[T::Cidr], T::Ip)])
        .costs(FunctionCost::Ip),
    function_of("isIP", Func::IsIp, &[global(&[T::String], T::Bool)]).costs(FunctionCost::Parse),
    function_of("ip.isCanonical", Func::IpIsCanonical, &[global(&[T::String], T::Bool)])
        .costs(FunctionCost::Canonical),
    function_of("family", Func::IpTest(IpTest::Family), &[member(&[T::Ip], T::Int)]).costs(FunctionCost::One),
    ip_test("isUnspecified", IpTest::Unspecified),
    ip_test("isLoopback", IpTest::Loopback),
    ip_test("isLinkLocalMulticast", IpTest::LinkLocalMulticast),
    ip_test("isLinkLocalUnicast", IpTest::LinkLocalUnicast),
    ip_test("isGlobalUnicast", IpTest::GlobalUnicast),
    function_of("cidr", Func::Cidr, &[global(&[T::String], T::Cidr)]).costs(FunctionCost::Parse),
    function_of("isCIDR", Func::IsCidr, &[global(&[T::String], T::Bool)]).costs(FunctionCost::Parse),
    function_of(
        "containsIP",
        Func::ContainsIp,
        &[member(&[T::Cidr, T::String], T::Bool).costs(Cost::ParseToo), member(&[T::Cidr, T::Ip], T::Bool)],
    )
    .costs(FunctionCost::ContainsIp),
    function_of(
        "containsCIDR",
        Func::ContainsCidr,
        &[member(&[T::Cidr, T::String], T::Bool).costs(Cost::ParseToo), member(&[T::Cidr, T::Cidr], T::Bool)],
    )
    .costs(FunctionCost::ContainsCidr),
    function_of("masked", Func::Masked, &[member(&[T::Cidr], T::Cidr)]).costs(FunctionCost::One),
    function_of("prefixLength", Func::PrefixLength, &[member(&[T::Cidr], T::Int)]).costs(FunctionCost::One),
    function_of("format.named", Func::FormatNamed, &[global(&[T::String], T::Opt(&T::NamedFormat))])
        .costs(FunctionCost::One),
    function_of("validate", Func::Validate, &[member(&[T::NamedFormat, T::String], T::Opt(&LIST_STRING))])
        .costs(FunctionCost::Validate),
    named_format("format.byte", "byte"),
    named_format("format.date", "date"),
    named_format("format.datetime", "datetime"),
    named_format("format.dns1035Label", "dns1035Label"),
    named_format("format.dns1035LabelPrefix", "dns1035LabelPrefix"),
    named_format("format.dns1123Label", "dns1123Label"),
    named_format("format.dns1123LabelPrefix", "dns1123LabelPrefix"),
    named_format("format.dns1123Subdomain", "dns1123Subdomain"),
    named_format("format.dns1123SubdomainPrefix", "dns1123SubdomainPrefix"),
    named_format("format.labelValue", "labelValue"),
    named_format("format.qualifiedName", "qualifiedName"),
    named_format("format.uri", "uri"),
    named_format("format.uuid", "uuid"),
];

const NAMED_FORMAT: &[Overload] = &[global(&[], T::NamedFormat)];

const fn named_format(name: &'static str, format: &'static str) -> Function {
    function_of(name, Func::FormatOf(format), NAMED_FORMAT)
}

const MEASURES: &[Function] = &[
    function_of("quantity", Func::Quantity, &[global(&[T::String], T::Quantity)]).costs(FunctionCost::Parse),
    function_of("isQuantity", Func::IsQuantity, &[global(&[T::String], T::Bool)]).costs(FunctionCost::Parse),
    function_of("isGreaterThan", Func::IsGreaterThan, ORDER_TEST).costs(FunctionCost::One),
    function_of("isLessThan", Func::IsLessThan, ORDER_TEST).costs(FunctionCost::One),
    function_of(
        "compareTo",
        Func::CompareTo,
        &[member(&[T::Quantity, T::Quantity], T::Int), member(&[T::Semver, T::Semver], T::Int)],
    )
    .costs(FunctionCost::One),
    function_of("sign", Func::Sign, &[global(&[T::Quantity], T::Int)]).costs(FunctionCost::One),
    function_of("asInteger", Func::AsInteger, &[member(&[T::Quantity], T::Int)]).costs(FunctionCost::One),
    function_of("isInteger", Func::IsInteger, &[member(&[T::Quantity], T::Bool)]).costs(FunctionCost::One),
    function_of("asApproximateFloat", Func::AsFloat, &[member(&[T::Quantity], T::Double)])
        .costs(FunctionCost::One),
    function_of("add", Func::QuantityAdd, QUANTITY_SUM).costs(FunctionCost::One),
    function_of("sub", Func::QuantitySub, QUANTITY_SUM).costs(FunctionCost::One),
    function_of(
        "semver",
        Func::Semver,
        &[global(&[T::String], T::Semver), global(&[T::String, T::Bool], T::Semver)],
    )
    .costs(FunctionCost::Parse),
    function_of(
        "isSemver",
        Func::IsSemver,
        &[global(&[T::String], T::Bool), global(&[T::String, T::Bool], T::Bool)],
    )
    .costs(FunctionCost::Parse),
    function_of("major", Func::Major, &[member(&[T::Semver], T::Int)]).costs(FunctionCost::One),
    function_of("minor", Func::Minor, &[member(&[T::Semver], T::Int)]).costs(FunctionCost::One),
    function_of("patch", Func::Patch, &[member(&[T::Semver], T::Int)]).costs(FunctionCost::One),
];

const ORDER_TEST: &[Overload] =
    &[member(&[T::Quantity, T::Quantity], T::Bool), member(&[T::Semver, T::Semver], T::Bool)];

const QUANTITY_SUM: &[Overload] =
    &[member(&[T::Quantity, T::Quantity], T::Quantity), member(&[T::Quantity, T::Int], T::Quantity)];

const AUTHORIZER: T = T::Authorization(Step::Authorizer);
const PATH_CHECK: T = T::Authorization(Step::PathCheck);
const GROUP_CHECK: T = T::Authorization(Step::GroupCheck);
const RESOURCE_CHECK: T = T::Authorization(Step::ResourceCheck);
const DECISION: T = T::Authorization(Step::Decision);

const fn ask(name: &'static str, ask: AuthorizerStep, overloads: &'static [Overload]) -> Function {
    function_of(name, Func::Authorization(ask), overloads).costs(FunctionCost::One)
}

const NARROW: &[Overload] = &[member(&[RESOURCE_CHECK, T::String], RESOURCE_CHECK)];

const AUTHORIZATION: &[Function] = &[
    ask("path", AuthorizerStep::Path, &[member(&[AUTHORIZER, T::String], PATH_CHECK)]),
    ask("group", AuthorizerStep::Group, &[member(&[AUTHORIZER, T::String], GROUP_CHECK)]),
    ask(
        "serviceAccount",
        AuthorizerStep::ServiceAccount,
        &[member(&[AUTHORIZER, T::String, T::String], AUTHORIZER)],
    ),
    ask("resource", AuthorizerStep::Resource, &[member(&[GROUP_CHECK, T::String], RESOURCE_CHECK)]),
    ask("subresource", AuthorizerStep::Subresource, NARROW),
    ask("namespace", AuthorizerStep::Namespace, NARROW),
    ask("name", AuthorizerStep::Name, NARROW),
    ask("fieldSelector", AuthorizerStep::FieldSelector, NARROW).costs(FunctionCost::Selector),
    ask("labelSelector", AuthorizerStep::LabelSelector, NARROW).costs(FunctionCost::Selector),
    ask(
        "check",
        AuthorizerStep::Check,
        &[member(&[PATH_CHECK, T::String], DECISION), member(&[RESOURCE_CHECK, T::String], DECISION)],
    )
    .costs(FunctionCost::Check),
    ask("allowed", AuthorizerStep::Allowed, &[member(&[DECISION], T::Bool)]),
    ask("reason", AuthorizerStep::Reason, &[member(&[DECISION], T::String)]),
    ask("errored", AuthorizerStep::Errored, &[member(&[DECISION], T::Bool)]),
    ask("error", AuthorizerStep::Error, &[member(&[DECISION], T::String)]),
];
