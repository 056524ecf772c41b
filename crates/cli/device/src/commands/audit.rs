//! Reads the record of a Lazaret control plane.

use lazaret_model::DeviceId;
use serde_json::Value;

use super::Session;
use crate::{
    Error,
    api::{DISRUPTION_GUARDS, RULES, Resource, Scope, TAINT_POLICIES},
    view::{AuditRecord, Entry, condition_entries},
};

const PATH: &str = "/lazaret/audit";
/// Pages that are read: more than any record has.
const PAGES_MAX: usize = 1_000;

/// All that this user may read of the record; `None` where none is kept, or none of it may be read.
pub(super) async fn read(session: &mut Session<'_>) -> Result<Option<Vec<AuditRecord>>, Error> {
    let (mut records, mut path) = (Vec::new(), PATH.to_owned());
    for _ in 0..PAGES_MAX {
        let page = match session.api.get_path(&path, "read the record").await {
            Ok(page) => page,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(Error::Refused { code: 403, .. }) => {
                session
                    .console
                    .note("the record may not be read with this user: history shows only what is there now");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let items = page["items"].as_array().into_iter().flatten();
        // Records of a newer server that this command cannot decode are left out.
        records.extend(items.filter_map(|item| serde_json::from_value::<AuditRecord>(item.clone()).ok()));
        match page["metadata"]["continue"].as_str() {
            Some(after) => path = format!("{PATH}?after={after}"),
            None => {
                note_withheld(session, &page);
                break;
            }
        }
    }
    Ok(Some(records))
}

fn note_withheld(session: &mut Session<'_>, page: &Value) {
    let withheld = page["withheld"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let withheld: Vec<&str> = withheld.collect();
    if !withheld.is_empty() {
        let note = format!("records of {} are left out: this user may not list them", withheld.join(", "));
        session.console.note(&note);
    }
}

/// The conditions of guards and rules, as far as they may be read.
pub(super) async fn conditions(session: &Session<'_>, device: Option<&DeviceId>) -> Vec<Entry> {
    let (guards, mut rules) = (all(session, &DISRUPTION_GUARDS).await, all(session, &RULES).await);
    rules.extend(all(session, &TAINT_POLICIES).await);
    condition_entries(&guards, &rules, device)
}

async fn all(session: &Session<'_>, resource: &Resource) -> Vec<Value> {
    let (mut objects, everywhere) = (Vec::new(), Scope::default());
    let read = session.api.list(resource, &everywhere, |item| {
        objects.extend(serde_json::from_str::<Value>(item.json()).ok());
    });
    // Where the kind is not served, or may not be read, nothing is said of it.
    let _ = read.await;
    for object in &mut objects {
        object["kind"] = resource.kind.into();
    }
    objects
}
