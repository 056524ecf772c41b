//! Webhooks: who is called about a request, and what follows from the answers.

mod call;
pub(super) mod client;
mod connection;
pub(crate) mod limits;
mod resolve;
mod response;
#[cfg(test)]
mod tests;
mod trust;

use std::{collections::BTreeSet, sync::Arc};

use lazaret_json::Value;
use lazaret_kinds::admission::{Attributes, Matched, Operation, Webhook};
use lazaret_patch::json_patch;
use tokio::task::JoinSet;

use super::attributes::{self, Subject};
use crate::{ApiError, Server, call::Call};

use self::{
    call::{CallError, CallOptions, Caller, WebhookType},
    client::Hook,
};

/// A webhook that is to be called, and its review.
#[derive(Debug)]
pub(super) struct PendingCall {
    hook: Arc<Hook>,
    /// The version of the resource in the review.
    version: String,
    review: Value,
}

/// The outcome of mutating webhooks.
#[derive(Debug, Default)]
pub(crate) struct Mutated {
    /// As it is now, if it was changed.
    pub(crate) object: Value,
    pub(crate) changed: bool,
    pub(crate) warnings: Vec<String>,
}

/// The webhooks that are to be called about a request.
pub(super) fn due(
    call: &Call<'_>,
    hooks: &[Arc<Hook>],
    attributes: &Attributes<'_>,
    name: &str,
) -> Result<Vec<PendingCall>, ApiError> {
    let mut due = Vec::new();
    for hook in hooks {
        due.extend(due_one(call, hook, attributes, name)?);
    }
    Ok(due)
}

fn due_one(
    call: &Call<'_>,
    hook: &Arc<Hook>,
    attributes: &Attributes<'_>,
    name: &str,
) -> Result<Option<PendingCall>, ApiError> {
    match hook.webhook.matches(attributes, call) {
        Matched::No => Ok(None),
        Matched::InVersion(version) => {
            let review = Webhook::review(attributes, &version);
            Ok(Some(PendingCall { hook: hook.clone(), version, review }))
        }
        Matched::Failed(why) => Err(ApiError::forbidden(&call.kind, name, &why)),
    }
}

/// Calls all at once. The first refusal in their order counts.
pub(super) async fn validate(
    call: &Call<'_>,
    due: Vec<PendingCall>,
    dry_run: bool,
    mut warnings: Vec<String>,
) -> Result<Vec<String>, ApiError> {
    let waiting = begin(call, due.iter().map(|due| &due.hook))?;
    let mut calls = JoinSet::new();
    for (at, due) in due.into_iter().enumerate() {
        let (server, deadline) = (call.server.clone(), call.held.deadline());
        let options = CallOptions { stage: WebhookType::Validating, dry_run, deadline };
        calls.spawn(async move { (at, ask(&server, &due, &options).await) });
    }
    let mut answers = Vec::new();
    while let Some(answer) = calls.join_next().await {
        answers.push(answer.map_err(ApiError::internal)?);
    }
    drop(waiting);
    answers.sort_by_key(|(at, _)| *at);
    let mut refusal = None;
    for (_, answer) in answers {
        match answer {
            Ok(answer) => warnings.extend(answer.warnings),
            Err(error) => {
                warnings.extend(error.warnings.clone());
                refusal = refusal.or(Some(error));
            }
        }
    }
    match refusal {
        Some(error) => Err(error.with_warnings(warnings)),
        None => Ok(warnings),
    }
}

/// Calls one after the other, each with what those before made of the object; those that say so once more when others changed the object after
/// them.
pub(super) async fn mutate(
    call: &Call<'_>,
    hooks: &[Arc<Hook>],
    subject: Subject<'_>,
    again: &(impl Fn(&mut Value) -> Result<(), ApiError> + Sync),
) -> Result<Mutated, ApiError> {
    let mut round = Reinvocations::default();
    let mut done = Mutated { object: subject.new.clone(), ..Mutated::default() };
    for (at, hook) in hooks.iter().enumerate() {
        step(call, hook, at, subject, &mut done, &mut round).await?;
    }
    if !done.changed {
        return Ok(done);
    }
    let before = done.object.clone();
    again(&mut done.object).map_err(|error| error.with_warnings(done.warnings.clone()))?;
    if done.object != before {
        round.call_again();
    }
    let to_call = std::mem::take(&mut round.again);
    let before = done.object.clone();
    for at in to_call {
        step(call, &hooks[at], at, subject, &mut done, &mut round).await?;
    }
    if done.object != before {
        again(&mut done.object).map_err(|error| error.with_warnings(done.warnings.clone()))?;
    }
    Ok(done)
}

/// Which webhooks are called once more.
#[derive(Debug, Default)]
struct Reinvocations {
    /// Called, and would be called again if others changed the object.
    called: BTreeSet<usize>,
    again: BTreeSet<usize>,
}

impl Reinvocations {
    fn call_again(&mut self) {
        self.again.append(&mut self.called);
    }
}

async fn step(
    call: &Call<'_>,
    hook: &Arc<Hook>,
    at: usize,
    subject: Subject<'_>,
    done: &mut Mutated,
    round: &mut Reinvocations,
) -> Result<(), ApiError> {
    let now = Subject { new: &done.object, ..subject };
    let Some(due) = attributes::with(call, now, |request| due_one(call, hook, request, subject.name))
        .map_err(|error| error.with_warnings(done.warnings.clone()))?
    else {
        return Ok(());
    };
    let dry_run = subject.delete.map_or(call.query.dry_run(), |delete| delete.dry_run);
    let options = CallOptions { stage: WebhookType::Mutating, dry_run, deadline: call.held.deadline() };
    let waiting = begin(call, std::iter::once(hook))?;
    let answer = ask(call.server, &due, &options).await;
    drop(waiting);
    let answer = answer.map_err(|error| {
        let mut warnings = done.warnings.clone();
        warnings.extend(error.warnings.clone());
        error.with_warnings(warnings)
    })?;
    done.warnings.extend(answer.warnings);
    if let Some(patch) = answer.patch {
        let changed = patched(call, &due, &patch, &done.object, subject)
            .map_err(|error| error.with_warnings(done.warnings.clone()))?;
        if changed != done.object {
            round.call_again();
            (done.object, done.changed) = (changed, true);
        }
    }
    if hook.webhook.reinvoked {
        round.called.insert(at);
    }
    Ok(())
}

fn patched(
    call: &Call<'_>,
    due: &PendingCall,
    patch: &Value,
    before: &Value,
    subject: Subject<'_>,
) -> Result<Value, ApiError> {
    if due.review["object"].is_null() {
        return Err(ApiError::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            due.hook.webhook.name
        )));
    }
    let patched = json_patch(due.review["object"].clone(), patch).map_err(ApiError::internal)?;
    attributes::taken(call, &due.version, patched, before, subject.old)
        .map_err(|error| ApiError::internal(error.message))
}

/// A request begins to wait: its resources of the server are released, so that it costs others nothing.
fn begin<'a>(
    call: &Call<'_>,
    hooks: impl Iterator<Item = &'a Arc<Hook>>,
) -> Result<limits::Waiting, ApiError> {
    let names = hooks.map(|hook| hook.id()).collect();
    let waiting = call.server.webhook_limits().wait(&call.user.name, names).ok_or_else(|| {
        ApiError::too_many_requests("Too many requests, please try again later.", limits::RETRY_AFTER_SECONDS)
    })?;
    call.held.release();
    Ok(waiting)
}

/// Calls one webhook; a failure that is ignored is an answer that changes nothing.
async fn ask(
    server: &Server,
    due: &PendingCall,
    options: &CallOptions,
) -> Result<call::WebhookAnswer, ApiError> {
    let (webhook, operation) = (&due.hook.webhook, operation(&due.review));
    let caller = Caller { stored: server.stored(), limits: server.webhook_limits(), hook: &due.hook };
    let started = crate::clock::instant();
    let answer = caller.call(&due.review, options).await;
    let took = started.elapsed();
    let metrics = server.metrics().webhooks();
    let observed = metrics.of(&webhook.name, options.stage.name(), operation);
    match answer {
        Ok(answer) => {
            observed.answered(took, false, 200);
            Ok(answer)
        }
        Err(CallError::Failed { why, code }) => {
            let rejected = !webhook.ignores_failures;
            observed.answered(took, rejected, code);
            let why = format!("failed calling webhook {:?}: {why}", webhook.name);
            if rejected {
                observed.rejected("calling_webhook_error", code);
                return Err(ApiError::internal(why));
            }
            observed.failed_open();
            if let Some(since_last) = due.hook.log.due(0) {
                tracing::warn!(
                    webhook = webhook.name,
                    configuration = webhook.configuration,
                    error = why,
                    since_last,
                    "a webhook failed, and its failures are ignored"
                );
            }
            Ok(call::WebhookAnswer::default())
        }
        Err(CallError::Rejected(error)) => {
            observed.answered(took, true, error.code);
            observed.rejected("no_error", error.code);
            Err(*error)
        }
        Err(CallError::Internal(error)) => {
            observed.answered(took, true, 0);
            observed.rejected("apiserver_internal_error", 0);
            Err(*error)
        }
    }
}

fn operation(review: &Value) -> &'static str {
    let said = review["operation"].as_str();
    let known = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
    known.map(Operation::as_str).into_iter().find(|known| said == Some(known)).unwrap_or_default()
}
