//! Policies and webhooks are asked about a request.

use lazaret_json::Value;

use super::{
    attributes::{self, Subject},
    policies,
    webhooks::{self, Mutated},
};
use crate::{ApiError, call::Call};

/// Lets mutating webhooks change the object of a request. A changed object goes through `again`: its defaults, and the built-in plugins.
pub(crate) async fn mutate(
    call: &Call<'_>,
    subject: Subject<'_>,
    again: impl Fn(&mut Value) -> Result<(), ApiError> + Sync,
) -> Result<Mutated, ApiError> {
    let rules = call.server.admission_rules();
    if rules.mutating.is_empty() || !rules.may_apply_to(call.user) {
        return Ok(Mutated::default());
    }
    Box::pin(webhooks::mutate(call, &rules.mutating, subject, &again)).await
}

/// Asks policies, then all validating webhooks at once, whether a request that is otherwise good may be carried out. Says what to warn of.
pub(crate) async fn validate(call: &Call<'_>, subject: Subject<'_>) -> Result<Vec<String>, ApiError> {
    let rules = call.server.admission_rules();
    if !rules.may_apply_to(call.user) {
        return Ok(Vec::new());
    }
    let (warnings, due) = attributes::with(call, subject, |attributes| {
        let warnings = policies::ask(call, &rules.policies, attributes, subject.name)?;
        Ok::<_, ApiError>((warnings, webhooks::due(call, &rules.validating, attributes, subject.name)?))
    })?;
    if due.is_empty() {
        return Ok(warnings);
    }
    let dry_run = subject.delete.map_or(call.query.dry_run(), |delete| delete.dry_run);
    Box::pin(webhooks::validate(call, due, dry_run, warnings)).await
}
