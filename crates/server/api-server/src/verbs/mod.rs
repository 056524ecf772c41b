//! The verbs on objects, one file each.

mod budget;
mod create;
mod delete;
mod eviction;
mod finish;
mod identity;
mod list;
mod options;
mod patch;
mod pods;
mod replicas;
mod review;
mod scale;
mod services;
mod settle;
mod update;
mod watch;

use bytes::Bytes;
use lazaret_kinds::Verbs;

use crate::{ApiError, Server, call::Call, negotiate::Form, object, request::Verb, respond::Answer, table};

pub(crate) use finish::storage;
pub(crate) use settle::settle;

/// Sends a call where it is answered.
pub(crate) async fn dispatch(call: &Call<'_>, verb: Verb, body: Bytes) -> Result<Answer, ApiError> {
    match call.kind.verbs {
        Verbs::All => {}
        Verbs::OneByOne if verb != Verb::DeleteCollection => {}
        // A kind that is only created has no name and no subresources.
        Verbs::Create if !call.target.name.is_empty() => return Err(ApiError::no_such_path()),
        Verbs::Create if verb == Verb::Create => return review::create(call, &body),
        Verbs::Ending if verb != Verb::Create => {}
        Verbs::Create | Verbs::Ending | Verbs::OneByOne => return Err(ApiError::method_not_allowed()),
    }
    if verb == Verb::DeleteCollection && !call.whole_collection() {
        return Err(ApiError::method_not_allowed());
    }
    options::check(call, verb)?;
    let answer = answer(call, verb, body).await?;
    // A definition has consequences, and so has the end of an object whose definition waits for it.
    let defines = call.kind.is("apiextensions.k8s.io", "customresourcedefinitions");
    if verb.writes() && (defines || call.kind.verbs == Verbs::Ending) {
        settle_all(call.server).await?;
    }
    Ok(answer)
}

/// The client may go away; the work is completed all the same.
#[allow(
    clippy::disallowed_methods,
    reason = "the task ends by itself, and is waited for while somebody asks"
)]
async fn settle_all(server: &Server) -> Result<(), ApiError> {
    let server = server.clone();
    tokio::spawn(async move { settle(&server).await }).await.map_err(ApiError::internal)?
}

async fn answer(call: &Call<'_>, verb: Verb, body: Bytes) -> Result<Answer, ApiError> {
    if !call.target.subresource.is_empty() {
        let known = call.kind.subresource(&call.target.subresource).ok_or_else(ApiError::no_such_path)?;
        if !known.verbs.contains(&verb.name()) {
            return Err(ApiError::method_not_allowed());
        }
    }
    match (call.target.subresource.as_str(), verb) {
        ("" | "status" | "approval" | "ephemeralcontainers" | "resize", Verb::Get) => get(call),
        ("", Verb::List) => list::list(call).await,
        ("", Verb::Watch) => watch::watch(call).await,
        ("", Verb::Create) if call.target.name.is_empty() => create::create(call, &body).await,
        ("" | "status" | "approval" | "finalize" | "ephemeralcontainers" | "resize", Verb::Update) => {
            update::update(call, &body).await
        }
        ("" | "status" | "approval" | "ephemeralcontainers" | "resize", Verb::Patch) => {
            patch::patch(call, &body).await
        }
        ("", Verb::Delete) => delete::delete(call, &body).await,
        ("", Verb::DeleteCollection) => delete::delete_collection(call, &body).await,
        ("scale", Verb::Get | Verb::Update | Verb::Patch) => scale::scale(call, verb, &body).await,
        ("binding", Verb::Create) => pods::bind(call, &body).await,
        ("eviction", Verb::Create) => eviction::evict(call, &body).await,
        ("token", Verb::Create) => review::token(call, &body).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn get(call: &Call<'_>) -> Result<Answer, ApiError> {
    options::no_future_revision(call)?;
    let name = &call.target.name;
    let item =
        call.store().get(call.key(name).as_bytes()).ok_or_else(|| ApiError::not_found(&call.kind, name))?;
    Ok(match call.form {
        Form::Json | Form::AggregatedDiscovery => {
            Answer::json(200, object::present(&call.kind, &call.served, &item))
        }
        Form::Table => Answer::value(200, &table::of_one(call, &item)),
        Form::Metadata => Answer::value(200, &table::metadata_of(&object::decode_whole(&item.value))),
    })
}
