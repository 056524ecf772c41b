//! `kubectl device approve`: shows what a rule does and approves it as it was seen.

use lazaret_api::{Object, approval_to_text};
use lazaret_eviction::impact_together;
use lazaret_model::{
    APPROVAL, APPROVED_BY, Approval, Approvers, DeviceTaintRule, DisruptionGuard, Impact, RuleRequest,
    WRITTEN_BY,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Session,
    load::{Need, load},
    plan,
    write::REASON_BYTES_MAX,
};
use crate::{
    Error, Verdict,
    api::{DISRUPTION_GUARDS, DryRun, Resource, Scope, TAINT_POLICIES},
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
    /// The kind that was approved: `DeviceTaintRule` or `DeviceTaintPolicy`.
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

pub(super) async fn run(session: &mut Session<'_>, args: ApproveArgs) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    let reason = args.reason.as_deref().unwrap_or_default().trim();
    if reason.len() > REASON_BYTES_MAX {
        return Err(Error::usage(format!("--reason must have at most {REASON_BYTES_MAX} bytes")));
    }
    let (resource, object) = find(session, &args.rule).await?;
    let rule = match lazaret_api::decode_json(&object.to_string()) {
        Ok(Object::Rule(rule)) => rule,
        Ok(_) | Err(_) => {
            return Err(Error::usage(format!("{} {} cannot be understood", resource.kind, args.rule)));
        }
    };
    let need = Need { pods: true, budgets: true, classes: true, ..Need::default() };
    let cluster = load(session, need).await?.cluster;
    let others = others_of_request(&cluster, &rule);
    let together = [&rule].into_iter().chain(&others);
    let seen = impact_together(&cluster.fleet, together.clone()).max(declared(&rule));
    if output == Plain::Table {
        let selectors: Vec<_> = together.filter_map(|rule| rule.selector.clone()).collect();
        let plan = view::plan(&cluster, session.now(), &selectors, &rule.taint);
        let text = plan::text(&plan, session.now(), &*session.console, false);
        session.console.print(&text)?;
    }
    let mut refusal = None;
    if dry_run != DryRun::Client {
        let patch = patch(&object, &rule, seen, reason);
        let approved = session.api.patch(&resource, &args.rule, &patch, dry_run).await?;
        refusal = own_approval(session, &approved).await?;
        for other in &others {
            let object = json!({"metadata": {"uid": &*other.uid}});
            let patch = self::patch(&object, other, seen, reason);
            session.api.patch(&resource, &other.name, &patch, dry_run).await?;
        }
    }
    let Impact { pods, namespaces, devices } = seen;
    match output.structured() {
        Some(form) => {
            let result = ApproveResult {
                api_version: RESULT_VERSION,
                kind: "ApproveResult",
                of: resource.kind,
                rule: args.rule,
                pods,
                namespaces,
                devices,
                dry_run: dry_run != DryRun::None,
                refusal: refusal.clone(),
            };
            structured(session.console, &result, form)?;
        }
        None => {
            let (kind, suffix) = (resource.kind, dry_run.suffix());
            let with = match others.len() {
                0 => String::new(),
                1 => " with 1 other of the same request".to_owned(),
                more => format!(" with {more} others of the same request"),
            };
            session.console.print(&match &refusal {
                None => format!("\n{kind} {}{with} approved for {seen}{suffix}\n", args.rule),
                Some(why) => format!("\n{kind} {}{with} is not approved: {why}\n", args.rule),
            })?;
        }
    }
    Ok(if refusal.is_none() { Verdict::Yes } else { Verdict::No })
}

/// Why an approval does not count that the author of the spec gave: some guard wants that of another user.
async fn own_approval(session: &Session<'_>, approved: &Value) -> Result<Option<String>, Error> {
    let annotation = |name: &str| approved["metadata"]["annotations"][name].as_str();
    let (Some(author), Some(approver)) = (annotation(WRITTEN_BY), annotation(APPROVED_BY)) else {
        return Ok(None);
    };
    if author != approver {
        return Ok(None);
    }
    let mut wanting: Vec<String> = Vec::new();
    let wants =
        |guard: &DisruptionGuard| guard.approvers == Approvers::Different && guard.confirm_above.is_some();
    let scope = Scope::default();
    let read =
        session.api.list(&DISRUPTION_GUARDS, &scope, |item| match lazaret_api::read_guard(item.json()) {
            Ok(guard) if wants(&guard) => wanting.push(guard.name.to_string()),
            Ok(_) => {}
            // It stops everything until it can be read.
            Err(_) => wanting.push("that cannot be read".to_owned()),
        });
    match read.await {
        // The kind is not installed: there are no guards.
        Ok(_) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    wanting.sort();
    let Some(guard) = wanting.first() else { return Ok(None) };
    Ok(Some(format!(
        "{author} wrote it, and DisruptionGuard {guard} wants approval by another user: ask one to run this command"
    )))
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

/// The rule of this name, or else the policy.
async fn find(session: &mut Session<'_>, name: &str) -> Result<(Resource, Value), Error> {
    let rules = session.served().await?.rules()?;
    match session.api.get(&rules, "", name).await {
        Ok(object) => Ok((rules, object)),
        Err(missing @ Error::NotFound { .. }) => match session.api.get(&TAINT_POLICIES, "", name).await {
            Ok(object) => Ok((TAINT_POLICIES, object)),
            Err(Error::NotFound { .. }) => Err(missing),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// The approval, on the precondition that the rule is still the one that was seen.
fn patch(object: &Value, rule: &DeviceTaintRule, seen: Impact, reason: &str) -> Value {
    let request = request_of(rule).map(|request| request.id.clone());
    let subject = request.as_ref().and_then(|_| rule.subject());
    let (uid, generation) = (rule.uid.clone(), rule.generation);
    let approval = Approval { uid, generation, seen, by: None, request, subject };
    let metadata = &object["metadata"];
    let mut patch = json!({"metadata": {
        "uid": metadata["uid"],
        "annotations": {APPROVAL: approval_to_text(&approval, reason)},
    }});
    // Another rule of a request is known by its generation, which the approval names.
    if let Some(version) = metadata.get("resourceVersion") {
        patch["metadata"]["resourceVersion"] = version.clone();
    }
    patch
}
