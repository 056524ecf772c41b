//! `kubectl device fail` and `recover`: for simulated drivers.

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
    args::{Fail, Recover},
    output::{Plain, RESULT_VERSION, structured},
    view::{Cluster, Reference, device_ids, fail_patch, failures, is_off, is_simulated, resolve_one, row},
};

/// What a driver was made to report.
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
    let (node, device, object) = find(session, &args.device).await?;
    let failure = Some((args.effect.as_str(), args.reason.as_deref()));
    let report = DeviceReport {
        api_version: RESULT_VERSION,
        kind: "DeviceReport",
        node: &node,
        device: &device,
        reported: "failing",
        effect: Some(&args.effect),
        reason: args.reason.as_deref(),
        changed: change(session, &node, &object, &device, failure).await?,
    };
    if let Some(gate) = session.gates().await.stops_taints() {
        let text =
            format!("{} on this server: it drops the taint, and the device stays in service", is_off(gate));
        session.console.note(&text);
    }
    tell(session, &report, args.output)
}

pub(super) async fn recover(session: &mut Session<'_>, args: Recover) -> Result<Verdict, Error> {
    let (node, device, object) = find(session, &args.device).await?;
    let report = DeviceReport {
        api_version: RESULT_VERSION,
        kind: "DeviceReport",
        node: &node,
        device: &device,
        reported: "healthy",
        effect: None,
        reason: None,
        changed: change(session, &node, &object, &device, None).await?,
    };
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

/// The node of a device, the device's name there, and the node as it was read.
async fn find(session: &mut Session<'_>, written: &str) -> Result<(String, String, Value), Error> {
    let reference = Reference::parse(written).map_err(Error::Usage)?;
    let mut cluster = load(session, Need { partial: true, ..Need::default() }).await?.cluster;
    let known = device_ids(&mut cluster);
    let (node, device) = match resolve_one(&reference, &known) {
        Ok(id) => (node_of(&cluster, id), id.device.to_string()),
        // A device that is no longer published may still be named in the annotation, and recover there.
        Err(text) => match written.split('/').collect::<Vec<_>>().as_slice() {
            [node, device] | [_, node, device] => {
                let object = session.api.get(&NODES, "", node).await;
                match object {
                    Ok(object) if failures(&object).is_ok_and(|failures| failures.contains_key(*device)) => {
                        return Ok(((*node).to_owned(), (*device).to_owned(), object));
                    }
                    Ok(_) | Err(Error::NotFound { .. }) => return Err(Error::Usage(text)),
                    Err(error) => return Err(error),
                }
            }
            _ => return Err(Error::Usage(text)),
        },
    };
    let object = session.api.get(&NODES, "", &node).await?;
    if !is_simulated(&object) {
        return Err(Error::usage(format!(
            "Node {node} is not simulated: its driver reports what it sees, not what it is told. `kubectl device taint` and `drain` work on every device"
        )));
    }
    Ok((node, device, object))
}

fn node_of(cluster: &Cluster, id: &DeviceId) -> String {
    let node = row(cluster, id).and_then(|row| row.node);
    // The pool of a simulated node has the node's name, also when the device is held and no longer published.
    node.map_or_else(|| id.pool.to_string(), |node| node.to_string())
}

async fn change(
    session: &Session<'_>,
    node: &str,
    object: &Value,
    device: &str,
    failure: Option<(&str, Option<&str>)>,
) -> Result<bool, Error> {
    let patch =
        fail_patch(object, device, failure).map_err(|text| Error::usage(format!("Node {node}: {text}")))?;
    if let Some(patch) = &patch {
        session.api.patch(&NODES, node, patch, DryRun::None).await?;
    }
    Ok(patch.is_some())
}
