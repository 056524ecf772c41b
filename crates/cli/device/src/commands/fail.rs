//! `kubectl device fail` and `recover`: for drivers that fail on command.

use std::time::Duration;

use lazaret_model::{DeviceId, validate_label_value};
use serde::Serialize;
use serde_json::Value;

use super::{
    Session,
    load::{Need, load},
};
use crate::{
    Error, Verdict,
    api::{DryRun, NODES},
    health_args::{Fail, Recover},
    output::{Plain, RESULT_VERSION, structured},
    span::Span,
    view::{
        Cluster, Obeys, Reference, device_ids, fail_patch, fails_on_command, failures, is_off, is_simulated,
        resolve_one, row,
    },
};

/// Between two looks whether a driver has reported what it was told.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A device, and who makes it fail.
struct Found {
    id: DeviceId,
    node: String,
    object: Value,
    obeys: Obeys,
}

/// The report that a driver was made to publish.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceReport<'a> {
    api_version: &'static str,
    kind: &'static str,
    node: &'a str,
    device: &'a str,
    reported: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Whether it was something else before.
    changed: bool,
}

pub(super) async fn fail(session: &mut Session<'_>, args: Fail) -> Result<Verdict, Error> {
    if let Some(reason) = &args.reason {
        // The driver makes it the value of its taint, and ignores what cannot be one.
        validate_label_value(reason).map_err(|error| {
            Error::usage(format!("--reason {reason:?} becomes the value of the taint, and cannot: {error}"))
        })?;
    }
    let found = find(session, &args.device).await?;
    let failure = Some((args.effect.as_str(), args.reason.as_deref()));
    let report = DeviceReport {
        api_version: RESULT_VERSION,
        kind: "DeviceReport",
        node: &found.node,
        device: &found.id.device,
        reported: "failing",
        effect: Some(&args.effect),
        reason: args.reason.as_deref(),
        changed: change(session, &found, failure).await?,
    };
    if let Some(gate) = session.gates().await.stops_taints() {
        let text =
            format!("{} on this server: it drops the taint, and the device stays in service", is_off(gate));
        session.console.note(&text);
    } else {
        await_report(session, &found, failure, args.timeout).await?;
    }
    tell(session, &report, args.output)
}

pub(super) async fn recover(session: &mut Session<'_>, args: Recover) -> Result<Verdict, Error> {
    let found = find(session, &args.device).await?;
    let report = DeviceReport {
        api_version: RESULT_VERSION,
        kind: "DeviceReport",
        node: &found.node,
        device: &found.id.device,
        reported: "healthy",
        effect: None,
        reason: None,
        changed: change(session, &found, None).await?,
    };
    await_report(session, &found, None, args.timeout).await?;
    tell(session, &report, args.output)
}

fn tell(session: &mut Session<'_>, report: &DeviceReport<'_>, output: Plain) -> Result<Verdict, Error> {
    let already = if report.changed { "" } else { "already " };
    match output.structured() {
        Some(form) => structured(session.console, report, form)?,
        None => session
            .console
            .line(&format!("{}/{} {already}reported {}", report.node, report.device, report.reported))?,
    }
    Ok(Verdict::Yes)
}

/// The device that is meant.
async fn find(session: &mut Session<'_>, written: &str) -> Result<Found, Error> {
    let reference = Reference::parse(written).map_err(Error::Usage)?;
    let mut cluster = load(session, Need { partial: true, ..Need::default() }).await?.cluster;
    let known = device_ids(&mut cluster);
    let id = match resolve_one(&reference, &known) {
        Ok(id) => id,
        Err(text) => return find_unpublished(session, written, text).await,
    };
    let node = node_of(&cluster, id);
    let object = session.api.get(&NODES, "", &node).await?;
    let obeys = if fails_on_command(&cluster, id) {
        Obeys::Driver
    } else if is_simulated(&object) {
        Obeys::SimulatedNode
    } else {
        return Err(Error::usage(format!(
            "Node {node} is not simulated: its driver reports the health that it observes, and takes no orders. `kubectl device taint` and `drain` work on every device"
        )));
    };
    Ok(Found { id: id.clone(), node, object, obeys })
}

/// A device that is no longer published may still be named in an annotation, and recover there.
async fn find_unpublished(session: &Session<'_>, written: &str, text: String) -> Result<Found, Error> {
    let parts: Vec<&str> = written.split('/').collect();
    let (driver, node, device) = match *parts.as_slice() {
        [node, device] => ("", node, device),
        [driver, node, device] => (driver, node, device),
        _ => return Err(Error::Usage(text)),
    };
    let object = match session.api.get(&NODES, "", node).await {
        Ok(object) => object,
        Err(Error::NotFound { .. }) => return Err(Error::Usage(text)),
        Err(error) => return Err(error),
    };
    for obeys in [Obeys::SimulatedNode, Obeys::Driver] {
        if failures(obeys, &object).is_ok_and(|failures| failures.contains_key(&obeys.key(driver, device))) {
            let id = DeviceId { driver: driver.into(), pool: node.into(), device: device.into() };
            return Ok(Found { id, node: node.to_owned(), object, obeys });
        }
    }
    Err(Error::Usage(text))
}

fn node_of(cluster: &Cluster, id: &DeviceId) -> String {
    let node = row(cluster, id).and_then(|row| row.node);
    // The pool of a simulated node has the node's name, also when the device is held and no longer published.
    node.map_or_else(|| id.pool.to_string(), |node| node.to_string())
}

async fn change(
    session: &Session<'_>,
    found: &Found,
    failure: Option<(&str, Option<&str>)>,
) -> Result<bool, Error> {
    let Found { id, node, object, obeys } = found;
    let patch = fail_patch(*obeys, object, &obeys.key(&id.driver, &id.device), failure)
        .map_err(|text| Error::usage(format!("Node {node}: {text}")))?;
    if let Some(patch) = &patch {
        session.api.patch(&NODES, node, patch, DryRun::None).await?;
    }
    Ok(patch.is_some())
}

/// Waits until the driver has reported what it was told. One that is not there reports nothing, though its slices may
/// still be: then nothing happened, and that is an error.
async fn await_report(
    session: &mut Session<'_>,
    found: &Found,
    failure: Option<(&str, Option<&str>)>,
    timeout: Span,
) -> Result<(), Error> {
    if found.obeys == Obeys::SimulatedNode {
        return Ok(());
    }
    let key = format!("{}/unhealthy", found.id.driver);
    let waited = tokio::time::sleep(Duration::from_millis(timeout.0.unsigned_abs()));
    tokio::pin!(waited);
    while !waited.is_elapsed() {
        let cluster = load(session, Need { partial: true, ..Need::default() }).await?.cluster;
        let taints = row(&cluster, &found.id).map(|row| row.taints).unwrap_or_default();
        let mut own = taints.iter().filter(|taint| taint.key == key && taint.origin == "ResourceSlice");
        let is_reported = match failure {
            Some((effect, reason)) => {
                own.any(|taint| taint.effect == effect && taint.value == reason.unwrap_or_default())
            }
            None => own.next().is_none(),
        };
        if is_reported {
            return Ok(());
        }
        tokio::select! {
            () = &mut waited => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    Err(Error::usage(format!(
        "Node {} is annotated, and {} has not reported it: nothing happened to {}. Is the driver running there?",
        found.node, found.id.driver, found.id.device
    )))
}
