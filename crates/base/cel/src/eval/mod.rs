//! Running a plan on a device.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "functions are for some types of values and refuse all others, also those that are yet to come"
)]

mod arithmetic;
mod attribute;
mod authorization;
pub(crate) mod authorizer_check;
pub(crate) mod compare;
mod context;
mod convert;
mod cost;
mod fold;
mod functions;
mod kubernetes;
mod length;
mod lists;
mod machine;
mod outcome;
mod patterns;
pub(crate) mod quick;
mod resolve;
mod texts;
pub(crate) mod time;
pub(crate) mod value;

pub(crate) use attribute::attribute;
pub(crate) use context::{Context, Given, NoDevice, id_of};
pub(crate) use cost::{CHECK_PRICE, LIST_PRICE, REQUIREMENT_PRICE, REQUIREMENTS_PER_CHAR, price};
pub(crate) use functions::call;
pub(crate) use machine::Machine;
