//! Rows about guards that are not understood, and about taints that guards hold.

use lazaret_fleet::Fleet;
use lazaret_model::TaintHold;

use super::check::{Check, State, check};

const SECTION: &str = "guards";
/// Guards that get a row of their own at most.
const ROWS_MAX: usize = 20;
const HINT: &str = "correct its spec.deviceSelector: until then no eviction, replacement or quarantine begins on the devices that it may be about";

/// Rows about guards. Those that cannot be read have rows of their own.
pub(super) fn guards(fleet: &Fleet, guards: &[String], checks: &mut Vec<Check>) {
    understood(fleet, guards, checks);
    held(guards, checks);
}

/// A row for each taint of a driver or a patch that waits for approval.
fn held(guards: &[String], checks: &mut Vec<Check>) {
    let read = guards.iter().filter_map(|json| lazaret_api::read_guard(json).ok());
    let mut held: Vec<TaintHold> = read.flat_map(|guard| guard.held).filter(TaintHold::is_held).collect();
    held.sort_by(|one, other| one.taint.cmp(&other.taint));
    held.dedup_by(|one, other| one.taint == other.taint);
    let more = held.len().saturating_sub(ROWS_MAX);
    for hold in held.iter().take(ROWS_MAX) {
        let name = format!("{} evicts no pod before it is approved", hold.taint);
        let since = lazaret_api::format_time(hold.since);
        let detail = format!("since {since}: {}", hold.message);
        checks.push(check(SECTION, &name, State::Warning, detail, &hold.taint.approve_command()));
    }
    if more > 0 {
        let name = format!("{more} more taints wait for approval");
        checks.push(check(SECTION, &name, State::Warning, String::new(), "kubectl device guard list"));
    }
}

/// A row for each guard that is not understood; one that says so where all are.
fn understood(fleet: &Fleet, guards: &[String], checks: &mut Vec<Check>) {
    let read = guards.iter().filter_map(|json| lazaret_api::read_guard(json).ok());
    let mut unclear: Vec<(String, String)> = read
        .filter_map(|guard| {
            let reach = fleet.guard_reach(&guard);
            Some((guard.name.to_string(), reach.problem()?.to_string()))
        })
        .collect();
    if guards.is_empty() {
        return;
    }
    if unclear.is_empty() {
        checks.push(check(SECTION, "every DisruptionGuard is understood", State::Ok, String::new(), ""));
        return;
    }
    unclear.sort();
    let more = unclear.len().saturating_sub(ROWS_MAX);
    for (name, problem) in unclear.into_iter().take(ROWS_MAX) {
        let name = format!("DisruptionGuard {name} is not understood");
        checks.push(check(SECTION, &name, State::Failed, problem, HINT));
    }
    if more > 0 {
        let name = format!("{more} more DisruptionGuards are not understood");
        checks.push(check(SECTION, &name, State::Failed, String::new(), HINT));
    }
}
