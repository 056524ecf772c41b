//! Functions of Kubernetes' own types: quantities, versions, URLs, addresses, named formats.

use alloc::sync::Arc;
use core::cmp::Ordering;

use lazaret_model::{Quantity, Version};

use super::{
    outcome::{Outcome, unfit},
    texts::failed,
    value::{Key, Map, Shared, Str, Value},
};
use crate::{
    check::decls::{Func, IpTest, UrlPart},
    error::EvalError,
    ext::{named_format::NamedFormat, net, url},
};

pub(crate) fn quantities<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    let made = |quantity: Quantity| Ok(Value::Quantity(Shared::Arc(Arc::new(quantity))));
    match (func, args) {
        (Func::Quantity, [Value::Text(text)]) => match Quantity::parse(text) {
            Ok(quantity) => made(quantity),
            Err(error) => Err(EvalError::new(alloc::format!("{error}"))),
        },
        (Func::IsQuantity, [Value::Text(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        (Func::Sign, [Value::Quantity(quantity)]) => Ok(Value::Int(quantity.sign().into())),
        (Func::AsInteger, [Value::Quantity(quantity)]) => quantity
            .as_i64_if_held_so()
            .map(Value::Int)
            .ok_or_else(|| EvalError::new("cannot convert value to integer")),
        (Func::IsInteger, [Value::Quantity(quantity)]) => {
            Ok(Value::Bool(quantity.as_i64_if_held_so().is_some()))
        }
        (Func::AsFloat, [Value::Quantity(quantity)]) => Ok(Value::Double(quantity.approximate_f64())),
        (Func::QuantityAdd, [Value::Quantity(a), Value::Quantity(b)]) => made(a.add(b)),
        (Func::QuantityAdd, [Value::Quantity(a), Value::Int(b)]) => made(a.add(&Quantity::from_i64(*b))),
        (Func::QuantitySub, [Value::Quantity(a), Value::Quantity(b)]) => made(a.sub(b)),
        (Func::QuantitySub, [Value::Quantity(a), Value::Int(b)]) => made(a.sub(&Quantity::from_i64(*b))),
        _ => unfit(args),
    }
}

pub(crate) fn versions<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    let number = |number: u64| Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    match (func, args) {
        (Func::Semver | Func::IsSemver, [Value::Text(text), rest @ ..]) => {
            let normalize = match rest {
                [] => false,
                [Value::Bool(normalize)] => *normalize,
                _ => return unfit(args),
            };
            let parsed = if normalize { Version::parse_normalized(text) } else { Version::parse(text) };
            match parsed {
                _ if func == Func::IsSemver => Ok(Value::Bool(parsed.is_ok())),
                Ok(version) => Ok(Value::Semver(Shared::Arc(Arc::new(version)))),
                Err(error) => Err(EvalError::new(alloc::format!("{error}"))),
            }
        }
        (Func::Major, [Value::Semver(version)]) => number(version.major()),
        (Func::Minor, [Value::Semver(version)]) => number(version.minor()),
        (Func::Patch, [Value::Semver(version)]) => number(version.patch()),
        _ => unfit(args),
    }
}

/// Comparisons that quantities and versions have in common.
pub(crate) fn ordered<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    let order = match args {
        [Value::Quantity(a), Value::Quantity(b)] => (**a).cmp(b),
        [Value::Semver(a), Value::Semver(b)] => (**a).cmp(b),
        _ => return unfit(args),
    };
    Ok(match func {
        Func::IsGreaterThan => Value::Bool(order == Ordering::Greater),
        Func::IsLessThan => Value::Bool(order == Ordering::Less),
        _ => Value::Int(order as i64),
    })
}

pub(crate) fn addresses<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match (func, args) {
        (Func::Url, [Value::Text(text)]) => match url::parse(text) {
            Ok(url) => Ok(Value::Url(Arc::new(url))),
            Err(error) => {
                Err(EvalError::new(alloc::format!("URL parse error during conversion from string: {error}")))
            }
        },
        (Func::IsUrl, [Value::Text(text)]) => Ok(Value::Bool(url::validate(text).is_ok())),
        (Func::UrlPart(part), [Value::Url(url)]) => Ok(url_part(part, url)),
        (Func::Ip, [Value::Text(text)]) => net::parse_ip(text).map(Value::Ip).map_err(failed),
        (Func::Ip, [Value::Cidr(cidr)]) => Ok(Value::Ip(cidr.ip())),
        (Func::IsIp, [Value::Text(text)]) => Ok(Value::Bool(net::parse_ip(text).is_ok())),
        (Func::IpIsCanonical, [Value::Text(text)]) => {
            net::is_canonical(text).map(Value::Bool).map_err(failed)
        }
        (Func::IpTest(test), [Value::Ip(ip)]) => Ok(match test {
            IpTest::Family => Value::Int(net::family(*ip)),
            IpTest::Unspecified => Value::Bool(ip.is_unspecified()),
            IpTest::Loopback => Value::Bool(ip.is_loopback()),
            IpTest::LinkLocalMulticast => Value::Bool(net::is_link_local_multicast(*ip)),
            IpTest::LinkLocalUnicast => Value::Bool(net::is_link_local_unicast(*ip)),
            IpTest::GlobalUnicast => Value::Bool(net::is_global_unicast(*ip)),
        }),
        (Func::Cidr, [Value::Text(text)]) => net::parse_cidr(text).map(Value::Cidr).map_err(failed),
        (Func::IsCidr, [Value::Text(text)]) => Ok(Value::Bool(net::parse_cidr(text).is_ok())),
        (Func::ContainsIp, [Value::Cidr(cidr), Value::Ip(ip)]) => Ok(Value::Bool(cidr.contains_ip(*ip))),
        (Func::ContainsIp, [Value::Cidr(cidr), Value::Text(text)]) => {
            net::parse_ip(text).map(|ip| Value::Bool(cidr.contains_ip(ip))).map_err(failed)
        }
        (Func::ContainsCidr, [Value::Cidr(cidr), Value::Cidr(other)]) => {
            Ok(Value::Bool(cidr.contains_cidr(*other)))
        }
        (Func::ContainsCidr, [Value::Cidr(cidr), Value::Text(text)]) => {
            net::parse_cidr(text).map(|other| Value::Bool(cidr.contains_cidr(other))).map_err(failed)
        }
        (Func::Masked, [Value::Cidr(cidr)]) => Ok(Value::Cidr(cidr.masked())),
        (Func::PrefixLength, [Value::Cidr(cidr)]) => Ok(Value::Int(cidr.prefix_length())),
        _ => unfit(args),
    }
}

fn url_part<'v>(part: UrlPart, url: &url::Url) -> Value<'v> {
    match part {
        UrlPart::Scheme => Value::text(url.scheme()),
        UrlPart::Host => Value::text(url.host()),
        UrlPart::Hostname => Value::text(url.hostname()),
        UrlPart::Port => Value::text(url.port()),
        UrlPart::EscapedPath => Value::text(url.escaped_path()),
        UrlPart::Query => {
            let entry = |(key, values): (alloc::string::String, alloc::vec::Vec<alloc::string::String>)| {
                (Key::Text(Str::Shared(key.into())), Value::texts(values.iter().map(|value| &**value)))
            };
            Value::Map(Map::Made(Arc::new(url.query().into_iter().map(entry).collect())))
        }
    }
}

pub(crate) fn formats<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    let named = |name: &str| NamedFormat::by_name(name).map(Value::Format);
    match (func, args) {
        (Func::FormatNamed, [Value::Text(name)]) => Ok(Value::Optional(named(name).map(Arc::new))),
        (Func::FormatOf(name), []) => named(name).ok_or_else(EvalError::no_such_overload),
        (Func::Validate, [Value::Format(format), Value::Text(text)]) => {
            let problems = format.validate(text);
            if problems.is_empty() {
                return Ok(Value::Optional(None));
            }
            Ok(Value::some(Value::texts(problems.iter().map(|problem| &**problem))))
        }
        _ => unfit(args),
    }
}
