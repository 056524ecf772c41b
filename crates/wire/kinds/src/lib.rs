//! The rules of an API server for each kind of object: the versions in which it is served, its defaults, the fields that the server
//! sets itself, validation, the fields that may change, and the columns of its table.
//!
//! **Invariant.** Pure functions over JSON objects. No I/O and no clock: the time, the user and other inputs of a rule come in a
//! [`Context`]. Objects are in the one form that is stored (the hub); other versions are converted at the edge. A rule never panics on the
//! input of a client, and every refusal names the field.

mod addresses;
pub mod admission;
mod apps;
pub mod audit;
mod autoscaling;
pub mod certificates;
mod check;
mod classic;
mod context;
mod controllers;
mod core;
mod crd;
mod custom;
mod features;
mod gate;
mod kind;
mod lease;
pub mod limit_range;
mod limits;
mod names;
mod networking;
mod own;
mod path;
mod pod_group;
pub mod pod_security;
mod policy;
mod rbac;
mod registry;
mod resize;
mod resource;
mod resource_names;
pub mod review;
mod rules;
pub mod runtime_class;
#[cfg(test)]
mod testing;

use lazaret_fields::value;

pub use self::core::{
    PoolError, ServicePool, ServiceRefusal, allocate_service, check_stated_priority, service_holdings,
};
pub use check::selects;
pub use classic::{convert_patched_pods, convert_pods};
pub use context::{Access, Context, FieldRequirement, User};
pub use controllers::{controller_name, controller_user_name};
pub use custom::{custom_kinds, stored_kind};
pub use features::{Features, Part, Release};
pub use kind::{Column, Heading, Kind, Name, RuleSet, Scope, Served, Shape, Subresource, Verbs, age_of};
pub use lazaret_api::{Described, REPAIR_NAMESPACE};
pub use lazaret_crd::{CLEANUP_FINALIZER, JsonPath, removal_progress, settled};
pub use lazaret_fields::{Errors, FieldError, FieldProblem};
pub use names::{check_label_name, check_label_value, check_name};
pub use own::{OWN_GROUP, PolicyPlan, SCHEMA_ANNOTATION, described_object, own_definitions};
pub use registry::{all, find, find_kind};
pub use resize::{ResizeRefusal, check_resize};
pub use rules::{Ceiling, Rules, ScalePaths, SpecPart};
