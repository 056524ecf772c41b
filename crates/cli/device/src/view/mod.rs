//! Answers about a cluster that was read: pure functions of its objects and of what time it is.

mod audit;
mod change;
mod check;
mod check_guards;
mod check_identity;
mod check_unread;
mod classic;
mod cluster;
mod components;
mod describe;
mod device;
mod drain;
mod forecast;
mod gates;
mod history;
mod incident_waits;
mod incidents;
mod installation;
mod near;
mod nodes;
mod pace;
mod places;
mod plan;
mod plan_diff;
mod record;
mod recording;
mod reference;
mod replacement;
mod rule;
mod taint_spec;
mod time;
mod top;
mod unprepare;
mod unread;
mod webhook;
mod why;

pub use audit::{AuditRecord, audit_entries, condition_entries, is_recorded};
pub use change::{Change, Intent, changes, describe_selector, exact, selector_of, set};
pub use check::{Check, Facts, Permission, State as CheckState, checks};
pub use check_unread::unread_checks;
pub use classic::ClassicWhy;
pub use cluster::{Budget, Cluster, Hidden, Manager, Meta, NodeFacts, PodFacts};
pub use describe::{Attribute, Capacity, Description, describe};
pub use device::{DeviceRow, Filter, Holder, Name, State, TaintRow, device_ids, fails_on_command, row, rows};
pub use drain::{
    Drain, DrainEvent, Manner, Order, PodSeen, Replacement, Stage, Waiting, drain_taint, planned_drain,
    pods_seen, waits_of_drain,
};
pub use forecast::{Forecast, Planned, forecast, rooms};
pub use gates::{GateFacts, consequence, is_off};
pub use history::{Entry, EventFacts, Involved, Kept, REMOVED_REASON, SET_REASON, What, history};
pub use incident_waits::incident_checks;
pub use incidents::{IncidentRow, describe_incident, incident_line, incident_row, incident_wait};
pub use installation::{Installation, installation};
pub use near::nearest;
pub use nodes::{Obeys, fail_patch, failures, is_simulated};
pub use pace::Pace;
pub use places::{PLACES_MAX, Place, places};
pub use plan::{Plan, PlanBudget, PlanDevice, PlanPod, plan, planned_rule};
pub use plan_diff::diff;
pub use record::{cloud_event, in_order, incident_entries};
pub use recording::Recording;
pub use reference::{Reference, resolve, resolve_one};
pub use replacement::{PolicyFacts, ReplacementWhy, replacements};
pub use rule::{
    DRAIN_KEY, MANAGED_BY, MANAGED_BY_LABEL, REASON_ANNOTATION, RuleDraft, SET_BY_ANNOTATION, fingerprint,
    request, rule_name,
};
pub use taint_spec::{TaintSpec, parse_evicting_taint, parse_taint};
pub use time::{age, ago};
pub use top::{Condition, DrainRow, Top, TopGroup};
pub use unprepare::{AwaitRow, release_patch};
pub use unread::Unread;
pub use webhook::Webhook;
pub use why::{
    BlockedWhy, EvictionWhy, IncidentWhy, NodeWhy, RequestRow, TaintWhy, Why, why_evicted, why_pending,
    why_replaced, with_incidents, with_replacements, with_taint_policies,
};
