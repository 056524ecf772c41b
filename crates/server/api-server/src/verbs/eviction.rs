//! The eviction subresource of pods.

use lazaret_json::{Value, json};
use lazaret_storage::Item;

use super::{
    budget::{self, Charge},
    delete::{DeleteOptions, remove},
    finish::{Change, change},
    pods::{as_main, set_condition},
};
use crate::{
    ApiError, admission,
    call::Call,
    input::{check_message_type, read_message},
    negotiate, object,
    respond::Answer,
};

/// How often an eviction of a pending pod is tried again when the pod changes meanwhile.
const ATTEMPTS_MAX: usize = 32;

pub(super) async fn evict(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let mut eviction =
        read_message(negotiate::body(call.content_type.as_deref())?, body, "policy/v1.Eviction")?;
    check_message_type(&eviction, &["policy/v1", "policy/v1beta1"], "Eviction")?;
    let (_, pod) = read(call)?;
    let warnings = admission::create_subresource(call, &mut eviction, &pod).await?;
    if object::meta(&eviction, "name") != call.target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = DeleteOptions::from_value(call, &eviction["deleteOptions"])?;
    for _ in 0..ATTEMPTS_MAX {
        let (item, pod) = read(call)?;
        // DEVIATION(eviction-preconditions): no budget is taken from for an eviction that cannot be.
        options.check_eviction(&pod, item.modified)?;
        let permit = permit(call, &pod, options.dry_run).await?;
        let pinned = match permit {
            EvictionPermit::AnyVersion => options.clone(),
            EvictionPermit::WhilePending | EvictionPermit::WhileUnready { .. } => {
                options.clone().pinned_to(item.modified)
            }
        };
        match (mark_and_remove(call, &eviction, pinned).await, permit) {
            (Ok(()), _) => return Ok(success().warn(warnings)),
            (Err(error), EvictionPermit::WhilePending) if error.code == 409 && !options.names_a_version() => {
            }
            (Err(error), EvictionPermit::WhileUnready { budget })
                if error.code == 409 && !options.names_a_version() =>
            {
                return Err(budget::behind(&budget));
            }
            (Err(error), _) => return Err(error),
        }
    }
    Err(ApiError::conflict(&call.kind, &call.target.name, "the pod changes all the time; try again"))
}

fn read(call: &Call<'_>) -> Result<(std::sync::Arc<Item>, Value), ApiError> {
    let name = &call.target.name;
    let item =
        call.store().get(call.key(name).as_bytes()).ok_or_else(|| ApiError::not_found(&call.kind, name))?;
    let pod = call.server.object_cache().get(&item);
    Ok((item, pod))
}

/// For which versions of the pod an eviction is permitted.
enum EvictionPermit {
    AnyVersion,
    /// No budget covers a pending pod, which may become ready at any time.
    WhilePending,
    /// The budget does not count pods that are not ready.
    WhileUnready {
        budget: String,
    },
}

async fn permit(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<EvictionPermit, ApiError> {
    match pod["status"]["phase"].as_str() {
        _ if object::is_deleting(pod) => Ok(EvictionPermit::AnyVersion),
        Some("Succeeded" | "Failed") => Ok(EvictionPermit::AnyVersion),
        Some("Pending") => Ok(EvictionPermit::WhilePending),
        _ => Ok(match budget::take(call, pod, dry_run).await? {
            Charge::NotNeeded | Charge::Taken => EvictionPermit::AnyVersion,
            Charge::NotReady { budget } => EvictionPermit::WhileUnready { budget },
        }),
    }
}

/// Says on the pod why it goes, so that its controller can tell an eviction from a failure, and deletes it. A dry run writes nothing.
async fn mark_and_remove(
    call: &Call<'_>,
    eviction: &Value,
    mut options: DeleteOptions,
) -> Result<(), ApiError> {
    let name = &call.target.name;
    // A dry run may be asked for in the body as well, where a plain change does not look.
    if !options.dry_run {
        let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"});
        let marked = change(&as_main(call), name, |old, modified| {
            admission::check_subresource(call, eviction, old)?;
            options.check_eviction(old, modified)?;
            let mut object = old.clone();
            set_condition(&mut object, target.clone());
            Ok(Change { object, owners_known: false, expected: None })
        })
        .await?;
        options = options.met_at(marked.item.modified);
    }
    remove(call, name, &options).await?;
    Ok(())
}

fn success() -> Answer {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Answer::value(201, &status)
}
