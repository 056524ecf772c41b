//! `kubectl device approve --driver DRIVER --taint TAINT`: approves evictions because of a taint that a driver publishes.

use lazaret_api::with_taint_approval;
use lazaret_model::{
    Author, Impact, TAINT_APPROVALS, TAINT_APPROVALS_MAX, TaintApproval, TaintHold, TaintedBy, Timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::approvers::{Found, wanting};
use crate::{
    Console, Error, Verdict,
    api::{Api, DISRUPTION_GUARDS, DryRun},
    args::WriteArgs,
    output::{RESULT_VERSION, structured},
    view::parse_evicting_taint,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApproveTaintResult<'a> {
    api_version: &'static str,
    kind: &'static str,
    of: &'static str,
    driver: &'a str,
    taint: &'a str,
    /// The guards that have the approval.
    guards: Vec<String>,
    pods: u64,
    namespaces: u64,
    devices: u64,
    dry_run: bool,
    /// Why the approval does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
}

pub(super) async fn run(
    api: &Api,
    console: &mut Console,
    (driver, taint): (&str, &str),
    said: (&str, Timestamp),
    write: WriteArgs,
) -> Result<Verdict, Error> {
    let (key, value) = parse_evicting_taint(taint).map_err(Error::usage)?;
    let wanted =
        TaintedBy::Driver { driver: driver.into(), key: key.as_str().into(), value: value.as_str().into() };
    let guards = wanting(api).await?.guards;
    let holding = guards.iter().filter_map(|found| Some((found, hold_of(found, &wanted)?)));
    let holding: Vec<(&Found, &TaintHold)> = holding.collect();
    let Some(seen) = holding.iter().map(|(_, hold)| hold.impact).reduce(Impact::max) else {
        return Err(Error::usage(not_held(&wanted, &guards)));
    };
    let WriteArgs { dry_run, output } = write;
    let mut refusal = None;
    if dry_run != DryRun::Client {
        for (found, hold) in &holding {
            let name = &found.guard.name;
            let patch = patch(found, hold, said);
            let written = api.patch(&DISRUPTION_GUARDS, name, &patch, dry_run).await?;
            refusal = refusal.or_else(|| refused(found, &wanted, &written));
        }
    }
    let Impact { pods, namespaces, devices } = seen;
    match output.structured() {
        Some(form) => {
            let result = ApproveTaintResult {
                api_version: RESULT_VERSION,
                kind: "ApproveResult",
                of: "DriverTaint",
                driver,
                taint,
                guards: holding.iter().map(|(found, _)| found.guard.name.to_string()).collect(),
                pods,
                namespaces,
                devices,
                dry_run: dry_run != DryRun::None,
                refusal: refusal.clone(),
            };
            structured(console, &result, form)?;
        }
        None => {
            let suffix = dry_run.suffix();
            console.print(&match &refusal {
                None => format!("{wanted} approved for {seen}{suffix}\n"),
                Some(why) => format!("{wanted} is not approved: {why}\n"),
            })?;
        }
    }
    Ok(if refusal.is_none() { Verdict::Yes } else { Verdict::No })
}

fn hold_of<'a>(found: &'a Found, taint: &TaintedBy) -> Option<&'a TaintHold> {
    found.guard.held.iter().find(|hold| hold.taint == *taint)
}

/// No guard lists the taint: which ones they do.
fn not_held(taint: &TaintedBy, guards: &[Found]) -> String {
    let held = guards.iter().flat_map(|found| &found.guard.held).filter(|hold| hold.is_held());
    let mut commands: Vec<String> = held.map(|hold| hold.taint.approve_command().to_string()).collect();
    commands.sort();
    commands.dedup();
    commands.truncate(TaintHold::LISTED_MAX);
    if commands.is_empty() {
        return format!("no DisruptionGuard holds {taint}, nor any other taint of a driver or patch");
    }
    format!("no DisruptionGuard holds {taint}; what is held is approved by\n  {}", commands.join("\n  "))
}

/// The approval of what the guard saw, on the precondition that the guard is still the one that was read. Approvals of taints that the guard does not
/// list any more are left out.
fn patch(found: &Found, hold: &TaintHold, said: (&str, Timestamp)) -> Value {
    let metadata = &found.object["metadata"];
    let before = metadata["annotations"][TAINT_APPROVALS].as_str().unwrap_or_default();
    let approval =
        TaintApproval { taint: hold.taint.clone(), since: hold.since, seen: hold.impact, by: None };
    let is_needed = |known: &TaintApproval| {
        found.guard.held.iter().any(|hold| hold.taint == known.taint && hold.since == known.since)
    };
    let text = with_taint_approval(before, &approval, said, is_needed);
    let mut patch = json!({"metadata": {"uid": metadata["uid"], "annotations": {TAINT_APPROVALS: text}}});
    if let Some(version) = metadata.get("resourceVersion") {
        patch["metadata"]["resourceVersion"] = version.clone();
    }
    patch
}

/// Why the approval does not count that was written, by the name that the server gave it.
fn refused(found: &Found, taint: &TaintedBy, written: &Value) -> Option<String> {
    let guard = lazaret_api::read_guard(&written.to_string()).ok()?;
    let approval = guard.approvals.iter().find(|approval| approval.taint == *taint);
    let Some(approval) = approval else {
        return Some(format!(
            "DisruptionGuard {} has {TAINT_APPROVALS_MAX} approvals, and there is no room for another",
            found.guard.name
        ));
    };
    let refusal = guard.approvers.refusal(Author::Driver, approval.by.as_deref())?;
    Some(format!("{}: ask one to run this command", refusal.words(&guard.name)))
}
