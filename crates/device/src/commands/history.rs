//! `kubectl device history`.

use serde_json::json;

use super::{
    Session,
    describe::events,
    load::{Need, load},
};
use crate::{
    Error, Verdict,
    args::HistoryArgs,
    output::{Table, structured},
    view::{Kept, Reference, age, device_ids, history, resolve_one},
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
    let entries = history(&cluster, &events, device.as_ref());
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
            };
            table.row([
                when.map_or_else(|| "<unknown>".to_owned(), |then| age(then, now)),
                entry.text.clone(),
                or_none(&entry.by),
                or_none(&entry.reason),
                kept.to_owned(),
            ]);
        }
        let text = table.render(session.console.colours());
        session.console.print(&text)?;
    }
    session.console.note(
        "Events are kept for an hour, unless the server was set up otherwise; what was removed earlier is in the server's audit log alone.",
    );
    Ok(Verdict::Yes)
}
