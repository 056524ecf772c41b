//! The forms that objects have on the wire, and how they become [`lazaret_model`].
//!
//! Knows `resource.k8s.io` in the versions v1, v1beta2, v1beta1 and v1alpha3, the parts of pods and nodes that matter
//! to devices, JSON and YAML. Fills in the API's defaults. Objects that an API server would refuse for their form
//! are refused here, with the path of the field; what an API server of a newer version may have stored (an effect,
//! an operator, an allocation mode) is handed on, because the cores have an answer to it.
//!
//! **Invariant.** Every error names its field, and every file, document and object it came from. Nothing is guessed
//! and nothing of what is read is trusted: sizes, depth and aliases are bounded. No I/O but reading the files that
//! it is given; no clock, so an absent `timeAdded` stays absent. Never decides anything about devices or pods.

mod allocation;
mod classic;
mod convert;
mod decode;
mod document;
mod field;
mod guard;
mod health;
mod known;
mod last_published;
mod load;
mod mark;
mod outline;
mod replacement;
mod review;
mod taint_hold;
mod time;
mod unprepare;
#[doc(hidden)]
pub mod wire;
mod zones;

pub use allocation::allocation_to_json;
pub use classic::{
    CLASSIC_GROUP, classic_finalizers_patch, classic_spec_to_json, classic_status_patch,
    classic_status_to_json, read_classic_claim, read_classic_class, read_classic_pod,
    read_classic_pod_claims, reference_to_json,
};
pub use convert::{ClaimTemplate, PodTemplate};
pub use decode::{Object, decode_as, decode_json};
pub use field::FieldError;
pub use guard::{guard_that_stops_everything, read_guard};
pub use health::{
    Described, HealthPolicy, HealthStep, REPAIR_NAMESPACE, ServiceAccount, Validation, account_refusal, done,
    incident_status_to_json, incident_to_json, read_health_policy, read_incident, read_signal,
    tallies_to_json,
};
pub use known::{WhatIsKnown, kept_in_words, what_is_known, what_is_known_of};
pub use last_published::{LAST_PUBLISHED, last_published_to_text};
pub use load::{FILE_BYTES_MAX, LoadError, LoadErrors, Objects, load, load_text};
pub use mark::{EVICTION_GROUP, EVICTION_MARK, EVICTION_SAY, REPLACEMENT_MARK, eviction_mark_to_text};
pub use outline::PodOutline;
pub use replacement::read_replacement_spec;
pub use review::{approval_to_text, rule_request_to_text};
pub use taint_hold::{sign_taint_approvals, with_taint_approval};
pub use time::{format_time, format_time_precise, parse_time};
pub use unprepare::{
    awaiting_to_text, read_awaiting, read_classic_node_report, read_node_report, read_unprepared,
    unprepared_to_text,
};
pub use zones::{is_zone, window};
