//! Writes to classic claims, for the scheduler, the claim controller and drivers alike.

use lazaret_api::{classic_finalizers_patch, classic_status_patch, read_classic_claim};
use lazaret_classic::{ChangeClaim, Step};

use crate::{CLASSIC_CLAIMS, Call, Client, Outcome, PatchKind, Reply};

/// Does the steps in order. A step that fails after another was done leaves the outcome unknown: the claim is looked at again.
pub async fn change_classic_claim(client: &Client, change: &ChangeClaim) -> Reply {
    let (namespace, name) = (&*change.claim.namespace, &*change.claim.name);
    let mut version = change.version.clone();
    for (at, step) in change.steps.iter().enumerate() {
        let (subresource, body) = match step {
            Step::SetFinalizers(finalizers) => {
                ("", classic_finalizers_patch(&change.uid, &version, finalizers))
            }
            Step::SetStatus(status) => ("status", classic_status_patch(&change.uid, &version, status)),
        };
        let call = Call::patch(&CLASSIC_CLAIMS, namespace, name, subresource, PatchKind::Json, body);
        match client.send(call).await {
            Ok(written) => version = read_classic_claim(&written).map_or(version, |claim| claim.version),
            Err(error) => {
                let reply = Reply::from(&error);
                return if at == 0 { reply } else { Reply { outcome: Outcome::Unknown, ..reply } };
            }
        }
    }
    Outcome::Done.into()
}
