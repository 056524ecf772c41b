//! `kubectl device pause`, `resume` and `guard`: what keeps evictions from beginning.

use lazaret_model::{Impact, TaintHold, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Session,
    write::{check_reason, whoami},
};
use crate::{
    Error, Verdict,
    api::{DISRUPTION_GUARDS, DryRun, Scope},
    args::WriteArgs,
    guard_args::{GuardArgs, GuardCommand, PauseArgs, ResumeArgs},
    output::{Plain, RESULT_VERSION, Table, structured},
    view::{REASON_ANNOTATION, SET_BY_ANNOTATION},
};

/// Since when a breaker that was tripped is not.
const RESET_ANNOTATION: &str = "lazaret.dev/breaker-reset";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GuardResult {
    api_version: &'static str,
    kind: &'static str,
    guard: String,
    /// Whether anything was written.
    changed: bool,
    dry_run: bool,
}

/// A guard as the server has it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct GuardRow {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_out_of_service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_service: Option<String>,
    tripped: bool,
    /// Whether one of its windows is open: nothing if it has none, or if its status does not say so yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_open: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<String>,
    has_windows: bool,
    /// The taints of drivers and patches that evict no pod, each with the command that approves it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held: Vec<HeldRow>,
}

/// A taint that waits for approval.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct HeldRow {
    taint: String,
    since: String,
    pods: u64,
    namespaces: u64,
    devices: u64,
    reason: String,
    message: String,
    approve: String,
}

impl HeldRow {
    fn of(hold: &TaintHold) -> Self {
        let Impact { pods, namespaces, devices } = hold.impact;
        Self {
            taint: hold.taint.to_string(),
            since: lazaret_api::format_time(hold.since),
            pods,
            namespaces,
            devices,
            reason: hold.reason.to_string(),
            message: hold.message.to_string(),
            approve: hold.taint.approve_command().to_string(),
        }
    }
}

pub(super) async fn pause(session: &mut Session<'_>, args: PauseArgs) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    let reason = checked(&args.reason)?;
    let until = args.span.map(|span| lazaret_api::format_time(after(session.now(), span.0)));
    let paused = json!({"reason": reason, "until": until});
    let annotations = annotations(session, &reason).await;
    let name = &args.guard;
    let exists = match session.api.get(&DISRUPTION_GUARDS, "", name).await {
        Ok(_) => true,
        Err(Error::NotFound { .. }) => false,
        Err(error) => return Err(error),
    };
    if dry_run != DryRun::Client {
        if exists {
            let patch = json!({"metadata": {"annotations": annotations}, "spec": {"paused": paused}});
            session.api.patch(&DISRUPTION_GUARDS, name, &patch, dry_run).await?;
        } else {
            let mut guard = json!({
                "apiVersion": DISRUPTION_GUARDS.api_version(), "kind": DISRUPTION_GUARDS.kind,
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"paused": {"reason": reason}},
            });
            if let Some(until) = &until {
                guard["spec"]["paused"]["until"] = until.as_str().into();
            }
            session.api.create(&DISRUPTION_GUARDS, "", &guard, dry_run).await?;
        }
    }
    let ends =
        until.map_or_else(|| "until `kubectl device resume`".to_owned(), |until| format!("until {until}"));
    let line = format!("guard {name} paused {ends}: no eviction begins{}", dry_run.suffix());
    finish(session, "PauseResult", name, true, dry_run, output, &line)
}

pub(super) async fn resume(session: &mut Session<'_>, args: ResumeArgs) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    let name = &args.guard;
    let guard = session.api.get(&DISRUPTION_GUARDS, "", name).await?;
    let spec = guard["spec"].as_object().cloned().unwrap_or_default();
    let changed = spec.contains_key("paused");
    if changed && dry_run != DryRun::Client {
        let uid = guard["metadata"]["uid"].as_str().unwrap_or_default();
        if spec.keys().any(|field| field != "paused" && field != "deviceSelector") {
            let patch = json!({"metadata": {"uid": uid}, "spec": {"paused": null}});
            session.api.patch(&DISRUPTION_GUARDS, name, &patch, dry_run).await?;
        } else {
            // A guard that says nothing else has done its work.
            session.api.delete(&DISRUPTION_GUARDS, name, uid, dry_run).await?;
        }
    }
    let already = if changed { "resumed" } else { "was not paused" };
    let line = format!("guard {name} {already}{}", dry_run.suffix());
    finish(session, "ResumeResult", name, changed, dry_run, output, &line)
}

pub(super) async fn guard(session: &mut Session<'_>, args: GuardArgs) -> Result<Verdict, Error> {
    match args.command {
        GuardCommand::List { output } => {
            let rows = rows(session).await?;
            match output.structured() {
                Some(form) => structured(session.console, &json!({"items": rows}), form)?,
                None => {
                    let text = table(&rows).render(session.console.colours());
                    session.console.print(&(text + &held_lines(&rows)))?;
                }
            }
            Ok(Verdict::Yes)
        }
        GuardCommand::Reset { guard, reason, output } => {
            let reason = checked(&reason)?;
            let mut annotations = annotations(session, &reason).await;
            annotations[RESET_ANNOTATION] = lazaret_api::format_time_precise(session.now()).into();
            let patch = json!({"metadata": {"annotations": annotations}});
            session.api.patch(&DISRUPTION_GUARDS, &guard, &patch, DryRun::None).await?;
            let line = format!("breaker of guard {guard} reset");
            finish(session, "GuardResetResult", &guard, true, DryRun::None, output, &line)
        }
    }
}

async fn rows(session: &Session<'_>) -> Result<Vec<GuardRow>, Error> {
    let (mut rows, everywhere) = (Vec::new(), Scope::default());
    let read = session.api.list(&DISRUPTION_GUARDS, &everywhere, |item| {
        rows.extend(serde_json::from_str::<Value>(item.json()).ok().map(|guard| row(&guard)));
    });
    read.await?;
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

fn row(guard: &Value) -> GuardRow {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Some(other.to_string())
        }
    };
    let (spec, status) = (&guard["spec"], &guard["status"]["breaker"]);
    let window = &guard["status"]["window"];
    let counted = status["total"].as_u64().is_some();
    // One that cannot be read lists none.
    let known = lazaret_api::read_guard(&guard.to_string()).map(|guard| guard.held).unwrap_or_default();
    GuardRow {
        name: text(&guard["metadata"]["name"]).unwrap_or_default(),
        paused: text(&spec["paused"]["reason"]),
        until: text(&spec["paused"]["until"]),
        max_out_of_service: text(&spec["breaker"]["maxOutOfService"]),
        of: text(&spec["breaker"]["of"]),
        out_of_service: counted.then(|| format!("{} of {}", status["outOfService"], status["total"])),
        tripped: status["tripped"].as_bool().unwrap_or(false),
        window_open: window["open"].as_bool(),
        opens_at: text(&window["opensAt"]),
        has_windows: spec["windows"].as_array().is_some_and(|windows| !windows.is_empty()),
        held: known.iter().filter(|hold| hold.is_held()).map(HeldRow::of).collect(),
    }
}

/// A line for each taint that waits for approval, below the table.
fn held_lines(rows: &[GuardRow]) -> String {
    let held = rows.iter().flat_map(|row| row.held.iter().map(move |held| (row, held)));
    held.map(|(row, held)| format!("guard {} holds {} since {}\n", row.name, held.message, held.since))
        .collect()
}

fn table(rows: &[GuardRow]) -> Table {
    let mut table = Table::new(&["NAME", "PAUSED", "UNTIL", "MAX", "OF", "OUT", "TRIPPED", "WINDOW", "HELD"]);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "<none>".into());
    for row in rows {
        table.row([
            row.name.clone(),
            or_none(&row.paused),
            or_none(&row.until),
            or_none(&row.max_out_of_service),
            or_none(&row.of),
            or_none(&row.out_of_service),
            row.tripped.to_string(),
            window_cell(row),
            row.held.len().to_string(),
        ]);
    }
    table
}

fn window_cell(row: &GuardRow) -> String {
    match (row.has_windows, row.window_open, &row.opens_at) {
        (false, ..) => "<none>".into(),
        (true, Some(true), _) => "open".into(),
        (true, Some(false), Some(at)) => format!("opens {at}"),
        (true, ..) => "<unknown>".into(),
    }
}

fn checked(reason: &str) -> Result<String, Error> {
    let reason = reason.trim();
    check_reason(reason)?;
    Ok(reason.to_owned())
}

/// Annotations with the user and the reason.
async fn annotations(session: &Session<'_>, reason: &str) -> Value {
    let mut annotations = json!({REASON_ANNOTATION: reason});
    if let Some(user) = whoami(session).await {
        annotations[SET_BY_ANNOTATION] = user.into();
    }
    annotations
}

fn after(now: Timestamp, millis: i64) -> Timestamp {
    // The server keeps whole seconds: no shorter than was asked for.
    Timestamp::from_secs(now.plus_millis(millis.saturating_add(999)).as_secs())
}

fn finish(
    session: &mut Session<'_>,
    kind: &'static str,
    guard: &str,
    changed: bool,
    dry_run: DryRun,
    output: Plain,
    line: &str,
) -> Result<Verdict, Error> {
    let dry_run = dry_run != DryRun::None;
    let result = GuardResult { api_version: RESULT_VERSION, kind, guard: guard.to_owned(), changed, dry_run };
    match output.structured() {
        Some(form) => structured(session.console, &result, form)?,
        None => session.console.line(line)?,
    }
    Ok(Verdict::Yes)
}
