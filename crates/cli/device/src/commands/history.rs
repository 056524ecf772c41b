//! `kubectl device history`.

use lazaret_model::DeviceId;
use serde_json::json;

use super::{
    Session, audit,
    describe::events,
    incidents::all_incidents as incidents,
    load::{Need, load},
};
use crate::{
    Error, Verdict,
    args::{Export, HistoryArgs},
    output::{Table, Tabular, layout, structured},
    view::{
        Entry, Kept, Reference, age, audit_entries, cloud_event, device_ids, history, in_order,
        incident_entries, is_recorded, resolve_one,
    },
};

pub(super) async fn run(session: &mut Session<'_>, args: HistoryArgs) -> Result<Verdict, Error> {
    let mut cluster = load(session, Need::default()).await?.cluster;
    let known = device_ids(&mut cluster);
    let device = match &args.device {
        Some(written) => {
            let reference = Reference::parse(written).map_err(Error::Usage)?;
            match resolve_one(&reference, &known) {
                Ok(id) => Some(id.clone()),
                // A device that is no more may still have a history, if it is named in full.
                Err(text) => Some(reference.device_id().ok_or(Error::Usage(text))?),
            }
        }
        None => None,
    };
    let events = events(session).await?;
    let mut entries = history(&cluster, &events, device.as_ref());
    entries.extend(incident_entries(&incidents(session).await?, device.as_ref()));
    let has_record = add_record(session, &mut entries, device.as_ref()).await?;
    let entries = in_order(entries);
    if let Some(gone) = device.as_ref().filter(|device| entries.is_empty() && !known.contains(device)) {
        return Err(Error::usage(format!(
            "there is no device {gone}, and nothing is known of an earlier one: `kubectl device list -o name` shows all {}",
            known.len()
        )));
    }
    if let Some(export) = args.export {
        for entry in &entries {
            let line = match export {
                Export::Jsonl => json!(entry),
                Export::Cloudevents => cloud_event(entry),
            };
            session.console.line(&line.to_string())?;
        }
        return Ok(Verdict::Yes);
    }
    if let Some(form) = args.output.structured() {
        structured(session.console, &json!({"entries": entries}), form)?;
        return Ok(Verdict::Yes);
    }
    if !entries.is_empty() {
        let now = session.now();
        let mut table = Table::new(&["AGE", "WHAT", "BY", "REASON", "KEPT"]);
        for entry in &entries {
            let when = entry.time.as_ref().and_then(|time| lazaret_api::parse_time(time).ok());
            let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "<none>".into());
            let kept = match entry.kept {
                Kept::WithTheTaint => "with the taint",
                Kept::WithTheEvent => "with the event",
                Kept::WithTheIncident => "with the incident",
                Kept::WithTheObject => "with the object",
                Kept::InTheRecord => "in the record",
            };
            table.row([
                when.map_or_else(|| "<unknown>".to_owned(), |then| age(then, now)),
                if entry.no_effect.is_some() {
                    format!("{} (no effect)", entry.text)
                } else {
                    entry.text.clone()
                },
                or_none(&entry.by),
                or_none(&entry.reason),
                kept.to_owned(),
            ]);
        }
        let width = session.console.width().filter(|_| args.output != Tabular::Wide);
        let layout = layout(&table, width, &["KEPT", "BY"], &["WHAT", "REASON"]);
        let text = table.render_as(&layout, session.console.colours());
        session.console.print(&text)?;
    }
    if !has_record {
        let note =
            "The server keeps events for an hour by default; its audit log knows what happened before.";
        session.console.note(note);
    }
    Ok(Verdict::Yes)
}

/// Adds what the record tells, or else what guards and rules say of themselves; whether there is a record.
async fn add_record(
    session: &mut Session<'_>,
    entries: &mut Vec<Entry>,
    device: Option<&DeviceId>,
) -> Result<bool, Error> {
    let Some(records) = audit::read(session).await? else {
        entries.extend(audit::conditions(session, device).await);
        return Ok(false);
    };
    entries.retain(|entry| !is_recorded(entry, &records));
    let more = audit_entries(&records, entries, device);
    entries.extend(more);
    Ok(true)
}
