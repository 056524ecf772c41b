//! Incidents of devices that somebody drains by hand: they are shown, and their timelines say who drains and why.

use lazaret_model::DeviceId;
use serde_json::Value;

use super::{
    Session,
    incidents::{Act, all_incidents, say_to},
    write::REASON_BYTES_MAX,
};
use crate::{
    Error,
    view::{incident_line, incident_row},
};

/// Open incidents of these devices; none where incidents are not served or may not be read.
pub(super) async fn open_incidents(session: &Session<'_>, devices: &[DeviceId]) -> Result<Vec<Value>, Error> {
    let mut all = all_incidents(session).await?;
    all.retain(|one| {
        let row = incident_row(one);
        row.is_open() && devices.iter().any(|device| device.to_string() == row.device)
    });
    Ok(all)
}

/// One line for each.
pub(super) fn lines(incidents: &[Value]) -> Vec<String> {
    incidents.iter().map(|one| incident_line(&incident_row(one))).collect()
}

/// Acknowledges incidents that are not acknowledged yet, with the reason of the drain. A user without permission to write incidents can still drain.
pub(super) async fn acknowledge(
    session: &mut Session<'_>,
    incidents: &[Value],
    reason: &str,
) -> Result<Vec<String>, Error> {
    let mut said = Vec::new();
    for incident in incidents {
        let row = incident_row(incident);
        if !row.acknowledged_by.is_empty() {
            continue;
        }
        let mut words = format!("drained: {reason}");
        words.truncate(
            (0..=words.len().min(REASON_BYTES_MAX))
                .rev()
                .find(|end| words.is_char_boundary(*end))
                .unwrap_or(0),
        );
        match say_to(session, incident, Act::Acknowledge, Some(&words), crate::api::DryRun::None).await {
            Ok(_) => said.push(format!("incident {} of {} acknowledged", row.name, row.device)),
            Err(error) => {
                session.console.note(&format!("incident {} was not acknowledged: {error}", row.name))
            }
        }
    }
    Ok(said)
}
