//! Guards, as an approval needs them: which want that of another user.

use lazaret_model::{Author, DisruptionGuard};

use crate::{
    Error,
    api::{Api, DISRUPTION_GUARDS, Scope},
};

/// The guards that want approval, and a name for each that cannot be read: it stops everything until it can be.
pub(super) struct Wanting {
    pub(super) guards: Vec<Found>,
    unread: Vec<String>,
}

/// A guard, and the object that it was read from.
pub(super) struct Found {
    pub(super) guard: DisruptionGuard,
    pub(super) object: serde_json::Value,
}

pub(super) async fn wanting(api: &Api) -> Result<Wanting, Error> {
    let (mut guards, mut unread): (Vec<Found>, Vec<String>) = (Vec::new(), Vec::new());
    let scope = Scope::default();
    let read = api.list(&DISRUPTION_GUARDS, &scope, |item| {
        match (lazaret_api::read_guard(item.json()), serde_json::from_str(item.json())) {
            (Ok(guard), Ok(object)) if guard.confirm_above.is_some() => {
                guards.push(Found { guard, object });
            }
            (Ok(_), Ok(_)) => {}
            (Ok(_), Err(_)) | (Err(_), _) => unread.push("that cannot be read".to_owned()),
        }
    });
    match read.await {
        // The kind is not installed: there are no guards.
        Ok(_) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    guards.sort_by(|one, other| one.guard.name.cmp(&other.guard.name));
    Ok(Wanting { guards, unread })
}

impl Wanting {
    /// Why an approval does not count for some guard, if it does not.
    pub(super) fn refusal(&self, author: Author<'_>, by: Option<&str>) -> Option<String> {
        let refused = self.guards.iter().find_map(|found| {
            let refusal = found.guard.approvers.refusal(author, by)?;
            Some(refusal.words(&found.guard.name))
        });
        let unread = || {
            let name = self.unread.first()?;
            let refusal = lazaret_model::Approvers::Different.refusal(author, by)?;
            Some(refusal.words(name))
        };
        refused.or_else(unread).map(|words| format!("{words}: ask one to run this command"))
    }
}
