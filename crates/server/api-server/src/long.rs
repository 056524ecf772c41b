//! Requests that take long to compute are answered elsewhere: the threads that serve connections are for what is done at once.

use bytes::Bytes;

use crate::{ApiError, call::Call, negotiate::Form, request::Verb, respond::Answer, verbs};

/// A request that reads and writes this number of bytes takes about a millisecond of computing, at some hundred instructions for each.
const LONG_BYTES_MIN: usize = 32 << 10;

/// Whether a request may take long: by its body, and by the object that it changes.
pub(crate) fn is_long(call: &Call<'_>, verb: Verb, body: &[u8]) -> bool {
    let changes = matches!(verb, Verb::Update | Verb::Patch | Verb::Delete);
    let stored =
        || call.store().get(call.key(&call.target.name).as_bytes()).map_or(0, |item| item.value.len());
    // Most objects are shown as they are stored.
    let converts = || verb == Verb::Get && (!call.kind.is_builtin() || call.form != Form::Json);
    body.len() >= LONG_BYTES_MIN || (changes || converts()) && body.len() + stored() >= LONG_BYTES_MIN
}

/// Answers a long request on a thread of its own. The client may go away; the request is completed all the same.
#[allow(clippy::disallowed_methods, reason = "the task ends by itself, and its place is kept until then")]
pub(crate) async fn dispatch(call: Call<'_>, verb: Verb, body: Bytes) -> Result<Answer, ApiError> {
    let place = call.server.long_requests().place().await.map_err(ApiError::internal)?;
    let (server, user) = (call.server.clone(), call.user.clone());
    let Call { kind, served, target, query, form, manager, content_type, held, .. } = call;
    held.keep_place(place);
    let runtime = tokio::runtime::Handle::current();
    let answered = tokio::task::spawn_blocking(move || {
        let (server, user) = (&server, &user);
        let call =
            Call { server, user, verb, kind, served, target, query, form, manager, content_type, held };
        let answer = runtime.block_on(verbs::dispatch(&call, verb, body));
        call.held.give_place_back();
        answer
    });
    answered.await.map_err(ApiError::internal)?
}
