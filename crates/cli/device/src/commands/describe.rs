//! `kubectl device describe`.

use super::{
    Session,
    load::{Need, load},
};
use crate::{
    Error, Verdict,
    api::{EVENTS, Item, Scope},
    args::Describe,
    output::structured,
    view::{EventFacts, Reference, describe, device_ids, resolve_one},
};

pub(super) async fn run(session: &mut Session<'_>, args: Describe) -> Result<Verdict, Error> {
    let mut cluster =
        load(session, Need { pods: true, nodes: true, partial: true, ..Need::default() }).await?.cluster;
    let reference = Reference::parse(&args.device).map_err(Error::Usage)?;
    let known = device_ids(&mut cluster);
    let id = resolve_one(&reference, &known).map_err(Error::Usage)?;
    let events = events(session).await?;
    let now = session.now();
    let Some(description) = describe(&cluster, id, &events, now) else {
        return Err(Error::NotFound { what: id.to_string() });
    };
    match args.output.structured() {
        Some(form) => structured(session.console, &description, form)?,
        None => session.console.print(&description.text(now))?,
    }
    Ok(Verdict::Yes)
}

/// Events about taints, of all namespaces; none where the user may not read them.
pub(super) async fn events(session: &mut Session<'_>) -> Result<Vec<EventFacts>, Error> {
    let mut events = Vec::new();
    let visit = |item: Item| {
        let event = serde_json::from_str::<EventFacts>(item.json()).ok();
        events.extend(event.filter(|event| event.matters() || event.tells_of_replacement()));
    };
    match session.api.list(&EVENTS, &Scope::default(), visit).await {
        Ok(_) => Ok(events),
        Err(Error::Forbidden { .. }) => {
            session
                .console
                .note("events may not be read with this user: history shows only what is there now");
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}
