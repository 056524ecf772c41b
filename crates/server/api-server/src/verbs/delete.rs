//! Objects on their way out: at once, after a grace period, or when their finalizers are done.

use bytes::Bytes;
use lazaret_json::{Value, json};
use lazaret_kinds::{Errors, FieldProblem};
use lazaret_storage::{Op, TxnError};

use super::{finish::storage, list};
use crate::{
    ApiError,
    admission::{self, DeleteAttributes, Refused, commit},
    call::{Call, Write},
    clock,
    input::read_message,
    negotiate, object,
    request::Target,
    respond::Answer,
};

/// A delete gives up after this number of conflicts.
const RETRIES_MAX: usize = 32;
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const UNREADABLE_ONLY: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    grace: Option<i64>,
    policy: Option<Policy>,
    uid: Option<String>,
    revision: Option<String>,
    /// Only if the stored form cannot be read.
    unreadable_only: bool,
    pub(super) dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Background,
    Foreground,
    Orphan,
}

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

impl DeleteOptions {
    pub(super) fn read(call: &Call<'_>, body: &[u8]) -> Result<Self, ApiError> {
        let mut options = if body.is_empty() {
            json!({})
        } else {
            read_message(negotiate::body(call.content_type.as_deref())?, body, "meta/v1.DeleteOptions")?
        };
        let kind = options["kind"].as_str().unwrap_or_default();
        if !kind.is_empty() && kind != "DeleteOptions" {
            return Err(ApiError::bad_request(format!(
                "the body of a delete must be DeleteOptions, not {kind}"
            )));
        }
        if options["gracePeriodSeconds"].is_null()
            && let Some(seconds) = call.query.number("gracePeriodSeconds")?
        {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if options["orphanDependents"].is_null() && call.query.has("orphanDependents") {
            options["orphanDependents"] = call.query.flag("orphanDependents").into();
        }
        if options[UNREADABLE_ONLY].is_null() && call.query.has(UNREADABLE_ONLY) {
            options[UNREADABLE_ONLY] = call.query.flag(UNREADABLE_ONLY).into();
        }
        if let Some(policy) =
            call.query.get("propagationPolicy").filter(|_| options["propagationPolicy"].is_null())
        {
            options["propagationPolicy"] = policy.into();
        }
        Self::from_value(call, &options)
    }

    pub(super) fn from_value(call: &Call<'_>, options: &Value) -> Result<Self, ApiError> {
        let refused = |problem: FieldProblem| {
            let mut errors = Errors::new();
            errors.push("propagationPolicy", problem);
            Err(ApiError::invalid_options("DeleteOptions", &errors))
        };
        let orphan = options["orphanDependents"].as_bool();
        let policy = match options["propagationPolicy"].as_str() {
            None | Some("") => orphan.map(|orphan| if orphan { Policy::Orphan } else { Policy::Background }),
            Some(said) if orphan.is_some() => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                return refused(FieldProblem::Invalid(said.into(), why.into()));
            }
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some("Orphan") => Some(Policy::Orphan),
            Some(other) => {
                let known = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned).to_vec();
                return refused(FieldProblem::NotSupported(other.into(), known));
            }
        };
        let unreadable_only = options[UNREADABLE_ONLY] == true;
        if unreadable_only {
            refuse_beside_unreadable(options)?;
        }
        let dry_run =
            options["dryRun"].as_array().is_some_and(|list| list.iter().any(|entry| entry == "All"));
        let preconditions = &options["preconditions"];
        Ok(Self {
            grace: options["gracePeriodSeconds"].as_i64(),
            policy,
            uid: preconditions["uid"].as_str().map(str::to_owned),
            revision: preconditions["resourceVersion"].as_str().map(str::to_owned),
            unreadable_only,
            dry_run: dry_run || call.query.dry_run(),
        })
    }
}

/// An object that cannot be read can neither be marked nor compared with anything.
fn refuse_beside_unreadable(options: &Value) -> Result<(), ApiError> {
    let mut errors = Errors::new();
    for field in ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"] {
        if !options[field].is_null() {
            let why = format!("cannot be set together with .{field}");
            errors.push(UNREADABLE_ONLY, FieldProblem::Invalid(true.into(), why));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("DeleteOptions", &errors)) }
}

impl DeleteOptions {
    /// The attributes for policies and webhooks.
    fn attributes(&self) -> DeleteAttributes {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if let Some(seconds) = self.grace {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(policy) = self.policy {
            options["propagationPolicy"] = policy.name().into();
        }
        if let Some(uid) = &self.uid {
            options["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(revision) = &self.revision {
            options["preconditions"]["resourceVersion"] = revision.as_str().into();
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        DeleteAttributes { options, dry_run: self.dry_run }
    }

    /// The preconditions of an eviction.
    pub(super) fn check_eviction(&self, pod: &Value, revision: u64) -> Result<(), ApiError> {
        let (name, uid) = (object::meta(pod, "name"), object::meta(pod, "uid"));
        let refused = |why: String| Err(ApiError::conflict_of("Pod", name, &why));
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| !wanted.is_empty() && *wanted != uid) {
            return refused(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            ));
        }
        let revision = revision.to_string();
        let other = self.revision.as_deref().filter(|wanted| !wanted.is_empty() && *wanted != revision);
        if let Some(wanted) = other {
            return refused(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
            ));
        }
        Ok(())
    }

    /// Whether the client said which version of the object it means.
    pub(super) fn names_a_version(&self) -> bool {
        self.revision.is_some()
    }

    /// The same for this version of the object alone, unless the client named one.
    pub(super) fn pinned_to(self, revision: u64) -> Self {
        Self { revision: self.revision.or_else(|| Some(revision.to_string())), ..self }
    }

    /// The same for the object as the eviction itself has changed it.
    pub(super) fn met_at(self, revision: u64) -> Self {
        Self { revision: self.revision.map(|_| revision.to_string()), ..self }
    }
}

pub(super) async fn delete(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let options = DeleteOptions::read(call, body)?;
    let removed = remove(call, &call.target.name, &options).await?;
    let answer = if !removed.gone || call.kind.returns_deleted(&call.served.version) {
        let object = object::in_version(&call.kind, &call.served, &removed.object);
        Answer::json(200, object::typed(&call.kind, &call.served.version, &object))
    } else {
        let mut details = json!({"name": call.target.name, "kind": call.kind.plural, "uid": removed.uid});
        if !call.kind.group.is_empty() {
            details["group"] = (*call.kind.group).into();
        }
        Answer::value(
            200,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}),
        )
    };
    Ok(answer.warn(removed.warnings))
}

pub(super) async fn delete_collection(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let options = DeleteOptions::read(call, body)?;
    if options.unreadable_only {
        let mut errors = Errors::new();
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        errors.push(UNREADABLE_ONLY, FieldProblem::Invalid(true.into(), why.into()));
        return Err(ApiError::invalid_options("DeleteOptions", &errors));
    }
    let page = list::read(call).await?;
    let (mut deleted, mut warnings) = (Vec::new(), Vec::new());
    for item in &page.items {
        let stored = call.server.object_cache().get(item);
        let (namespace, name) =
            (object::meta(&stored, "namespace").to_owned(), object::meta(&stored, "name").to_owned());
        let one = call.on(Target { namespace, name: name.clone(), ..call.target.clone() });
        match remove(&one, &name, &options).await {
            Ok(removed) => {
                warnings.extend(removed.warnings);
                let object = object::decode_whole(&removed.object);
                deleted.push(object::versioned(&call.kind, &call.served, object));
            }
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error.after_warnings(&warnings)),
        }
    }
    let list = json!({
        "kind": call.kind.list_kind, "apiVersion": call.kind.api_version(&call.served.version),
        "metadata": {"resourceVersion": call.store().revision().to_string()}, "items": deleted,
    });
    Ok(Answer::value(200, &list).warn(warnings))
}

/// An object that was deleted, or marked for it.
pub(super) struct Removed {
    /// The stored form, as it was last.
    object: Bytes,
    uid: String,
    /// Not just marked.
    gone: bool,
    /// Warnings for the client.
    warnings: Vec<String>,
}

/// Deletes one object, or marks it for deletion.
pub(super) async fn remove(
    call: &Call<'_>,
    name: &str,
    options: &DeleteOptions,
) -> Result<Removed, ApiError> {
    for _ in 0..RETRIES_MAX {
        let item = call
            .store()
            .get(call.key(name).as_bytes())
            .ok_or_else(|| ApiError::not_found(&call.kind, name))?;
        if options.unreadable_only {
            // The object was decoded when the store was opened.
            let why = "unsafe deletion is not allowed because the object is decodable from storage";
            return Err(ApiError::conflict(&call.kind, name, why));
        }
        let old = call.server.object_cache().get(&item);
        check_preconditions(call, name, &old, item.modified, options)?;
        let attributes = || options.attributes();
        let warnings = admission::may_delete(call, name, &old, attributes).await?;
        let (marked, gone) = outcome(call, &old, options);
        let removed =
            |object: Bytes| Removed { object, uid: object::meta(&old, "uid").to_owned(), gone, warnings };
        if options.dry_run || (!gone && marked == old) {
            return Ok(removed(object::text(&marked)?));
        }
        let key = call.key(name);
        let op = if gone {
            Op::delete(key.as_str(), item.modified)
        } else {
            Op::update(key.as_str(), item.modified, object::encode(&marked)?)
        };
        let write = Write { name, old: Some(&old), new: (!gone).then_some(&marked) };
        match commit(call, write, vec![op], true).await {
            Ok(committed) => {
                let revision = committed.revision;
                let kept = committed.events.into_iter().flatten().find_map(|event| event.new.clone());
                let Some(kept) = kept else {
                    call.server.object_cache().forget(&item);
                    return Ok(removed(last_seen(call, &old, &item.value, marked, revision)?));
                };
                call.server.object_cache().put(&kept, marked);
                return Ok(removed(kept.value.clone()));
            }
            Err(Refused::Store(TxnError::Conflict { .. })) => {}
            Err(Refused::Store(error)) => return Err(storage(&error)),
            Err(Refused::Request(error)) => return Err(error),
        }
    }
    Err(ApiError::conflict(&call.kind, name, "too many writers at once; try again"))
}

/// An object that is gone, as its delete shows it.
fn last_seen(
    call: &Call<'_>,
    old: &Value,
    stored: &[u8],
    mut marked: Value,
    revision: u64,
) -> Result<Bytes, ApiError> {
    if !call.kind.rules.shows_deletion() || object::is_deleting(old) {
        return Ok(object::restamped(stored, revision));
    }
    object::meta_mut(&mut marked).insert("resourceVersion", revision.to_string().into());
    Ok(object::text(&marked)?)
}

fn check_preconditions(
    call: &Call<'_>,
    name: &str,
    old: &Value,
    modified: u64,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let uid = object::meta(old, "uid");
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(ApiError::conflict(&call.kind, name, &why));
    }
    if let Some(wanted) = options.revision.as_deref().filter(|wanted| *wanted != modified.to_string()) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {modified}"
        );
        return Err(ApiError::conflict(&call.kind, name, &why));
    }
    Ok(())
}

/// The object as it will be, and whether it will be gone.
fn outcome(call: &Call<'_>, old: &Value, options: &DeleteOptions) -> (Value, bool) {
    let (rules, mut new) = (&call.kind.rules, old.clone());
    if !object::is_deleting(old) {
        call.with_context(|context| rules.begin_delete(&mut new, context));
    }
    let mut finalizers = object::finalizers(&new);
    let default = if rules.orphans_by_default() { Policy::Orphan } else { Policy::Background };
    let kept = finalizers.iter().any(|name| name == FOREGROUND || name == ORPHAN);
    match options.policy {
        None if kept => {}
        policy => {
            finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
            match policy.unwrap_or(default) {
                Policy::Foreground => finalizers.push(FOREGROUND.into()),
                Policy::Orphan => finalizers.push(ORPHAN.into()),
                Policy::Background => {}
            }
        }
    }
    set_finalizers(&mut new, &finalizers);
    // A second delete may only shorten the grace period.
    let asked = rules.grace_seconds(old, options.grace);
    let grace = if object::is_deleting(old) { asked.min(super::finish::grace(old)) } else { asked };
    let gone = finalizers.is_empty() && grace == 0 && !rules.is_held(&new);
    if !gone || rules.shows_deletion() {
        mark(&mut new, old, grace);
    }
    (new, gone)
}

/// When an object that is on its way out was first deleted, in seconds.
fn leaving_since(old: &Value) -> Option<i64> {
    let until: jiff::Timestamp = object::meta(old, "deletionTimestamp").parse().ok()?;
    Some(until.as_second().saturating_sub(super::finish::grace(old)))
}

fn mark(new: &mut Value, old: &Value, grace: i64) {
    let shortened = object::is_deleting(old) && grace < super::finish::grace(old);
    if object::is_deleting(old) && !shortened {
        return;
    }
    // A shorter grace counts from the first deletion.
    let since = leaving_since(old).unwrap_or_else(|| clock::now().as_second());
    let at = jiff::Timestamp::from_second(since.saturating_add(grace)).unwrap_or(jiff::Timestamp::MAX);
    let metadata = object::meta_mut(new);
    metadata.insert("deletionTimestamp", at.to_string().into());
    metadata.insert("deletionGracePeriodSeconds", grace.into());
    if let Some(generation) =
        metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation > 0)
    {
        metadata.insert("generation", (generation + 1).into());
    }
}

fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = object::meta_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers", finalizers.to_vec().into());
    }
}
