//! `kubectl device approve`: shows what a rule or a patch does and approves it as it was seen.

use lazaret_api::{Object, approval_to_text};
use lazaret_eviction::{impact_of_patch, impact_together};
use lazaret_model::{
    APPROVAL, APPROVED_BY, Approval, Author, DeviceTaintRule, Impact, ResourceSlicePatch, RuleRequest,
    Timestamp, WRITTEN_BY,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Session, approve_taint,
    approvers::wanting,
    load::{Need, load},
    plan,
    write::REASON_BYTES_MAX,
};
use crate::{
    Error, Verdict,
    api::{DryRun, Resource, TAINT_POLICIES},
    args::WriteArgs,
    guard_args::ApproveArgs,
    output::{Plain, RESULT_VERSION, structured},
    view,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApproveResult {
    api_version: &'static str,
    kind: &'static str,
    /// The kind that was approved: `DeviceTaintRule`, `DeviceTaintPolicy` or `ResourceSlicePatch`.
    of: &'static str,
    rule: String,
    pods: u64,
    namespaces: u64,
    devices: u64,
    dry_run: bool,
    /// Why the approval does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
}

/// The approved object, with how much was seen of it.
struct Seen {
    resource: Resource,
    name: String,
    impact: Impact,
    /// Other rules of the same request.
    others: usize,
    refusal: Option<String>,
}

pub(super) async fn run(session: &mut Session<'_>, args: ApproveArgs) -> Result<Verdict, Error> {
    let reason = args.reason.as_deref().unwrap_or_default().trim();
    if reason.len() > REASON_BYTES_MAX {
        return Err(Error::usage(format!("--reason must have at most {REASON_BYTES_MAX} bytes")));
    }
    let said = (reason, session.now());
    if let (Some(driver), Some(taint)) = (&args.driver, &args.taint) {
        let (api, console) = (&session.api, &mut *session.console);
        return approve_taint::run(api, console, (driver, taint), said, args.write).await;
    }
    let name = args.rule.unwrap_or_default();
    let (resource, object) = find(session, &name).await?;
    let seen = match lazaret_api::decode_json(&object.to_string()) {
        Ok(Object::Rule(rule)) => approve_rule(session, resource, &object, &rule, said, &args.write).await?,
        Ok(Object::Patch(patch)) => {
            approve_patch(session, resource, &object, &patch, said, &args.write).await?
        }
        Ok(_) | Err(_) => {
            return Err(Error::usage(format!("{} {name} cannot be understood", resource.kind)));
        }
    };
    report(session, &seen, &args.write)?;
    Ok(if seen.refusal.is_none() { Verdict::Yes } else { Verdict::No })
}

async fn approve_rule(
    session: &mut Session<'_>,
    resource: Resource,
    object: &Value,
    rule: &DeviceTaintRule,
    said: (&str, Timestamp),
    write: &WriteArgs,
) -> Result<Seen, Error> {
    let need = Need { pods: true, budgets: true, classes: true, ..Need::default() };
    let cluster = load(session, need).await?.cluster;
    let others = others_of_request(&cluster, rule);
    let together = [rule].into_iter().chain(&others);
    let impact = impact_together(&cluster.fleet, together.clone()).max(declared(rule));
    if write.output == Plain::Table {
        let selectors: Vec<_> = together.filter_map(|rule| rule.selector.clone()).collect();
        let plan = view::plan(&cluster, session.now(), &selectors, &rule.taint);
        let text = plan::text(&plan, session.now(), &*session.console, false);
        session.console.print(&text)?;
    }
    let mut refusal = None;
    if write.dry_run != DryRun::Client {
        let patch = patch(object, &approval(rule, impact), said);
        let approved = session.api.patch(&resource, &rule.name, &patch, write.dry_run).await?;
        refusal = refusal_of(session, &approved).await?;
        for other in &others {
            let object = json!({"metadata": {"uid": &*other.uid}});
            let patch = self::patch(&object, &approval(other, impact), said);
            session.api.patch(&resource, &other.name, &patch, write.dry_run).await?;
        }
    }
    Ok(Seen { resource, name: rule.name.to_string(), impact, others: others.len(), refusal })
}

async fn approve_patch(
    session: &mut Session<'_>,
    resource: Resource,
    object: &Value,
    subject: &ResourceSlicePatch,
    said: (&str, Timestamp),
    write: &WriteArgs,
) -> Result<Seen, Error> {
    let need = Need { pods: true, classes: true, ..Need::default() };
    let cluster = load(session, need).await?.cluster;
    let impact = impact_of_patch(&cluster.fleet, &subject.name);
    let mut refusal = None;
    if write.dry_run != DryRun::Client {
        let (uid, generation) = (subject.uid.clone(), subject.generation);
        let approval = Approval { uid, generation, seen: impact, ..Approval::default() };
        let patch = patch(object, &approval, said);
        let approved = session.api.patch(&resource, &subject.name, &patch, write.dry_run).await?;
        refusal = refusal_of(session, &approved).await?;
    }
    Ok(Seen { resource, name: subject.name.to_string(), impact, others: 0, refusal })
}

/// Says what was approved, or why the approval does not count.
fn report(session: &mut Session<'_>, seen: &Seen, write: &WriteArgs) -> Result<(), Error> {
    let Seen { resource, name, impact, others, refusal } = seen;
    let Impact { pods, namespaces, devices } = *impact;
    if let Some(form) = write.output.structured() {
        let result = ApproveResult {
            api_version: RESULT_VERSION,
            kind: "ApproveResult",
            of: resource.kind,
            rule: name.clone(),
            pods,
            namespaces,
            devices,
            dry_run: write.dry_run != DryRun::None,
            refusal: refusal.clone(),
        };
        return structured(session.console, &result, form);
    }
    let (kind, suffix) = (resource.kind, write.dry_run.suffix());
    let with = match others {
        0 => String::new(),
        1 => " with 1 other of the same request".to_owned(),
        more => format!(" with {more} others of the same request"),
    };
    session.console.print(&match refusal {
        None => format!("\n{kind} {name}{with} approved for {impact}{suffix}\n"),
        Some(why) => format!("\n{kind} {name}{with} is not approved: {why}\n"),
    })
}

/// Why an approval does not count: some guard wants that of another user.
async fn refusal_of(session: &Session<'_>, approved: &Value) -> Result<Option<String>, Error> {
    let annotation = |name: &str| approved["metadata"]["annotations"][name].as_str();
    let wanting = wanting(&session.api).await?;
    Ok(wanting.refusal(Author::User(annotation(WRITTEN_BY)), annotation(APPROVED_BY)))
}

/// The other rules that were made by the same request.
fn others_of_request(cluster: &view::Cluster, rule: &DeviceTaintRule) -> Vec<DeviceTaintRule> {
    let Some(id) = request_of(rule).map(|request| &request.id) else { return Vec::new() };
    let of_request = |other: &&DeviceTaintRule| {
        other.uid != rule.uid && request_of(other).is_some_and(|request| request.id == *id)
    };
    cluster.everything().rules().map(|view| &**view.rule).filter(of_request).cloned().collect()
}

fn request_of(rule: &DeviceTaintRule) -> Option<&RuleRequest> {
    rule.review.as_ref()?.request.as_ref()
}

/// The impact that the client of a request declared.
fn declared(rule: &DeviceTaintRule) -> Impact {
    request_of(rule).map_or_else(Impact::default, |request| request.declared)
}

/// The rule of this name, or else the policy, or else the patch.
async fn find(session: &mut Session<'_>, name: &str) -> Result<(Resource, Value), Error> {
    let served = session.served().await?;
    let patches = served.patches;
    let rules = served.rules()?;
    let mut missing = None;
    for resource in [Some(rules), Some(TAINT_POLICIES), patches].into_iter().flatten() {
        match session.api.get(&resource, "", name).await {
            Ok(object) => return Ok((resource, object)),
            Err(error @ Error::NotFound { .. }) => missing = missing.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Err(missing.unwrap_or_else(|| Error::usage(format!("no object {name} to approve"))))
}

/// The approval of a rule that was seen to reach this much.
fn approval(rule: &DeviceTaintRule, seen: Impact) -> Approval {
    let request = request_of(rule).map(|request| request.id.clone());
    let subject = request.as_ref().and_then(|_| rule.subject());
    Approval { uid: rule.uid.clone(), generation: rule.generation, seen, by: None, request, subject }
}

/// The approval, on the precondition that the object is still the one that was seen.
fn patch(object: &Value, approval: &Approval, (reason, at): (&str, Timestamp)) -> Value {
    let metadata = &object["metadata"];
    let mut patch = json!({"metadata": {
        "uid": metadata["uid"],
        "annotations": {APPROVAL: approval_to_text(approval, reason, at)},
    }});
    // Another rule of a request is known by its generation, which the approval names.
    if let Some(version) = metadata.get("resourceVersion") {
        patch["metadata"]["resourceVersion"] = version.clone();
    }
    patch
}
