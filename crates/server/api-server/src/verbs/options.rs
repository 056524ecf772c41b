//! The options of requests, and which of them go together.

use lazaret_kinds::{Errors, FieldProblem};

use crate::{ApiError, call::Call, negotiate::Media, query::Query, request::Verb};

/// The longest name of a field manager.
const MANAGER_BYTES_MAX: usize = 128;

/// How a list's revision is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The newest, or whatever is there: the same thing here, for reads never wait.
    Newest,
    /// Not older than this.
    NotOlderThan(u64),
    /// Just this one.
    Exactly(u64),
}

/// The first events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initial {
    /// The existing objects.
    All,
    /// After the revision.
    None,
}

/// Holds the options of a request against what its verb knows.
pub(super) fn check(call: &Call<'_>, verb: Verb) -> Result<(), ApiError> {
    let query = &call.query;
    let mut errors = Errors::new();
    let kind = match verb {
        Verb::Get => return Ok(()),
        Verb::List | Verb::DeleteCollection => {
            check_list(query, &mut errors);
            "ListOptions"
        }
        Verb::Watch => {
            check_watch(query, &mut errors);
            "ListOptions"
        }
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        Verb::Delete => "DeleteOptions",
    };
    if verb.writes() {
        check_write(query, verb, &mut errors);
    }
    finished(kind, &errors)
}

/// Holds the options of a patch against the form it has.
pub(super) fn check_patch(call: &Call<'_>, media: Media) -> Result<(), ApiError> {
    let mut errors = Errors::new();
    match media {
        Media::ApplyPatch if call.query.get("fieldManager").is_none() => {
            errors.push("fieldManager", FieldProblem::Required("is required for apply patch".into()));
        }
        Media::ApplyPatch => {}
        Media::JsonPatch | Media::MergePatch | Media::StrategicMergePatch if call.query.has("force") => {
            errors.forbidden("force", "may not be specified for non-apply patch");
        }
        Media::JsonPatch | Media::MergePatch | Media::StrategicMergePatch => {}
        Media::Json | Media::Yaml | Media::Protobuf => return Err(ApiError::internal("not a patch")),
    }
    finished("PatchOptions", &errors)
}

pub(super) fn finished(kind: &str, errors: &Errors) -> Result<(), ApiError> {
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid_options(kind, errors)) }
}

fn check_write(query: &Query, verb: Verb, errors: &mut Errors) {
    if let Some(other) = query.get("dryRun").filter(|value| *value != "All") {
        errors.push("dryRun", FieldProblem::NotSupported(other.into(), vec!["All".into()]));
    }
    if matches!(verb, Verb::Delete | Verb::DeleteCollection) {
        return;
    }
    if let Some(manager) = query.get("fieldManager") {
        if manager.len() > MANAGER_BYTES_MAX {
            errors.push("fieldManager", FieldProblem::TooLong(MANAGER_BYTES_MAX));
        }
        if manager.chars().any(char::is_control) {
            errors.invalid("fieldManager", manager, "must consist of printable characters");
        }
    }
    if let Some(other) =
        query.get("fieldValidation").filter(|value| !matches!(*value, "Ignore" | "Strict" | "Warn"))
    {
        let known = ["", "Ignore", "Strict", "Warn"].map(str::to_owned).to_vec();
        errors.push("fieldValidation", FieldProblem::NotSupported(other.into(), known));
    }
}

const MATCH: &str = "resourceVersionMatch";

fn check_list(query: &Query, errors: &mut Errors) {
    if let Some(matching) = query.get(MATCH) {
        if query.get("resourceVersion").is_none() {
            errors.forbidden(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if query.get("continue").is_some() {
            errors.forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided");
        }
        match matching {
            "Exact" if query.get("resourceVersion") == Some("0") => {
                errors.forbidden(
                    MATCH,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
            "Exact" | "NotOlderThan" => {}
            other => {
                let known = ["Exact", "NotOlderThan", ""].map(str::to_owned).to_vec();
                errors.push(MATCH, FieldProblem::NotSupported(other.into(), known));
            }
        }
    }
    if query.has("sendInitialEvents") {
        errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
}

fn check_watch(query: &Query, errors: &mut Errors) {
    let asked = query.has("sendInitialEvents");
    let matching = query.get(MATCH);
    if query.get("continue").is_some() {
        errors.forbidden("continue", "continue is forbidden for watch");
    }
    if asked && matching != Some("NotOlderThan") {
        errors.forbidden(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if let Some(matching) = matching {
        if !asked {
            errors.forbidden(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if matching != "NotOlderThan" {
            errors.push(MATCH, FieldProblem::NotSupported(matching.into(), vec!["NotOlderThan".into()]));
        }
    }
}

// DEVIATION(client-errors): what is the client's mistake is said to be.
/// `resourceVersion` as a number; absent and `0` ask for nothing in particular.
pub(super) fn revision(query: &Query) -> Result<Option<u64>, ApiError> {
    query
        .get("resourceVersion")
        .map(|text| {
            text.parse().map_err(|_| {
                ApiError::bad_request(format!("invalid resource version {text:?}: it must be a whole number"))
            })
        })
        .transpose()
}

/// The freshness that a list requests. Its options go together.
pub(super) fn freshness(query: &Query) -> Result<Freshness, ApiError> {
    let revision = revision(query)?.filter(|revision| *revision > 0);
    let limited = query.number("limit")?.is_some_and(|limit| limit > 0);
    match (query.get(MATCH), query.get("continue"), revision) {
        (_, _, None) => Ok(Freshness::Newest),
        (_, Some(_), Some(_)) => {
            Err(ApiError::bad_request("specifying resource version is not allowed when using continue"))
        }
        (Some("Exact"), None, Some(revision)) => Ok(Freshness::Exactly(revision)),
        (None, None, Some(revision)) if limited => Ok(Freshness::Exactly(revision)),
        (_, None, Some(revision)) => Ok(Freshness::NotOlderThan(revision)),
    }
}

/// The first events of a watch. Its options go together.
pub(super) fn initial(query: &Query, revision: Option<u64>) -> Initial {
    let all = if query.has("sendInitialEvents") {
        query.flag("sendInitialEvents")
    } else {
        revision.is_none_or(|revision| revision == 0)
    };
    if all { Initial::All } else { Initial::None }
}

/// A get at a future revision is refused: there is no telling when it will come.
pub(super) fn no_future_revision(call: &Call<'_>) -> Result<(), ApiError> {
    let current = call.store().revision();
    match revision(&call.query)? {
        Some(wanted) if wanted > current => Err(ApiError::revision_ahead(wanted, current)),
        Some(_) | None => Ok(()),
    }
}
