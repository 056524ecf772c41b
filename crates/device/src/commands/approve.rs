//! `kubectl device approve`: shows what a rule does and approves it as it was seen.

use lazaret_api::{Object, approval_to_text};
use lazaret_eviction::impact;
use lazaret_model::{APPROVAL, Approval, DeviceTaintRule, Impact};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Session,
    load::{Need, load},
    plan,
};
use crate::{
    Error, Verdict,
    api::{DryRun, Resource, TAINT_POLICIES},
    guard_args::ApproveArgs,
    output::{Plain, RESULT_VERSION, structured},
    view,
};

/// As that of guards.
const REASON_BYTES_MAX: usize = 1_024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApproveResult {
    api_version: &'static str,
    kind: &'static str,
    /// What was approved: `DeviceTaintRule` or `DeviceTaintPolicy`.
    of: &'static str,
    rule: String,
    pods: u64,
    namespaces: u64,
    devices: u64,
    dry_run: bool,
}

pub(super) async fn run(session: &mut Session<'_>, args: ApproveArgs) -> Result<Verdict, Error> {
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
    let seen = impact(&cluster.fleet, &rule);
    if args.output == Plain::Table {
        let selectors: Vec<_> = rule.selector.iter().cloned().collect();
        let plan = view::plan(&cluster, session.now(), &selectors, &rule.taint);
        let text = plan::text(&plan, session.now(), &*session.console, false);
        session.console.print(&text)?;
    }
    if args.dry_run != DryRun::Client {
        let patch = patch(&object, &rule, seen, reason);
        session.api.patch(&resource, &args.rule, &patch, args.dry_run).await?;
    }
    let Impact { pods, namespaces, devices } = seen;
    match args.output.structured() {
        Some(form) => {
            let result = ApproveResult {
                api_version: RESULT_VERSION,
                kind: "ApproveResult",
                of: resource.kind,
                rule: args.rule,
                pods,
                namespaces,
                devices,
                dry_run: args.dry_run != DryRun::None,
            };
            structured(session.console, &result, form)?;
        }
        None => {
            let (kind, suffix) = (resource.kind, args.dry_run.suffix());
            session.console.print(&format!("\n{kind} {} approved for {seen}{suffix}\n", args.rule))?;
        }
    }
    Ok(Verdict::Yes)
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
    let approval = Approval { uid: rule.uid.clone(), generation: rule.generation, seen, by: None };
    let metadata = &object["metadata"];
    json!({"metadata": {
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "annotations": {APPROVAL: approval_to_text(&approval, reason)},
    }})
}
