//! `kubectl device plan`.

use std::path::{Path, PathBuf};

use lazaret_api::FILE_BYTES_MAX;
use lazaret_eviction::waits_in;
use lazaret_model::Timestamp;
use serde_json::json;

use super::{
    Session,
    load::{Need, load},
    select::meant,
};
use crate::{
    Console, Error, Verdict,
    output::{Cell, Table, Tabular, Tint, count, layout, structured},
    taint_args,
    view::{Cluster, Plan, PlanPod, TaintSpec, diff, plan, planned_rule, rule_name},
};

/// The pace that a server with Lazaret's fields gives a taint that names none.
const EVICTIONS_PER_SECOND_DEFAULT: i64 = 10;

pub(super) async fn run(session: &mut Session<'_>, args: taint_args::Plan) -> Result<Verdict, Error> {
    let need = Need { pods: true, budgets: true, outlook: true, ..Need::default() };
    let mut cluster = load(session, need).await?.cluster;
    let now = session.now();
    let plans = match &args.filename {
        Some(path) => of_file(&cluster, now, path)?,
        None => of_words(session, &mut cluster, &args).await?,
    };
    if args.diff {
        return compare(session, &args, &plans);
    }
    match args.output.structured() {
        Some(form) => match plans.as_slice() {
            [one] => structured(session.console, one, form)?,
            many => structured(session.console, &many, form)?,
        },
        None => {
            for plan in &plans {
                let text = text(plan, now, &*session.console, args.output == Tabular::Wide);
                session.console.print(&text)?;
            }
        }
    }
    remember(session, &args, &plans);
    Ok(Verdict::Yes)
}

async fn of_words(
    session: &mut Session<'_>,
    cluster: &mut Cluster,
    args: &taint_args::Plan,
) -> Result<Vec<Plan>, Error> {
    let meant = meant(session, cluster, &args.selected()).await?;
    let (now, pace) = (session.now(), default_pace(session).await?);
    let mut plans = Vec::new();
    for spec in &meant.specs {
        let TaintSpec::Set { key, value, effect } = spec else {
            return Err(Error::usage("removing a taint evicts no pod: there is nothing to plan"));
        };
        let taint = lazaret_model::Taint {
            key: key.as_str().into(),
            value: value.as_str().into(),
            effect: effect.clone(),
            evictions_per_second: pace,
            ..lazaret_model::Taint::default()
        };
        let mut plan = plan(cluster, now, &meant.targets, &taint);
        let planned = meant
            .targets
            .iter()
            .map(|target| planned_rule(target, rule_name(target, key, Some(effect)), &taint, now));
        plan.foretell(cluster, now, &planned.collect::<Vec<_>>());
        plans.push(plan);
    }
    Ok(plans)
}

/// The pace of a rule that names none, where the server fills one in.
pub(super) async fn default_pace(session: &mut Session<'_>) -> Result<Option<i64>, Error> {
    Ok(session.served().await?.has_pace().then_some(EVICTIONS_PER_SECOND_DEFAULT))
}

/// Plans for rules as they are written in a file.
fn of_file(cluster: &Cluster, now: Timestamp, path: &Path) -> Result<Vec<Plan>, Error> {
    let name = path.display().to_string();
    let size = std::fs::metadata(path).map_err(|error| Error::usage(format!("{name}: {error}")))?.len();
    if size > FILE_BYTES_MAX {
        return Err(Error::usage(format!("{name} has more than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Error::usage(format!("{name}: {error}")))?;
    let objects = lazaret_api::load_text(&name, &text).map_err(|error| Error::usage(error.to_string()))?;
    if objects.rules.is_empty() {
        return Err(Error::usage(format!("{name} has neither a DeviceTaintRule nor a DeviceTaintPolicy")));
    }
    let plan_of = |rule: lazaret_model::DeviceTaintRule| {
        let targets: Vec<_> = rule.selector.iter().cloned().collect();
        let mut plan = plan(cluster, now, &targets, &rule.taint);
        let planned =
            targets.iter().map(|target| planned_rule(target, rule.name.to_string(), &rule.taint, now));
        plan.foretell(cluster, now, &planned.collect::<Vec<_>>());
        plan
    };
    Ok(objects.rules.into_iter().map(plan_of).collect())
}

/// Columns that a narrow terminal leaves out, and those that it shortens.
const OPTIONAL: [&str; 3] = ["PRIORITY", "NODE", "OWNER"];
const ELASTIC: [&str; 2] = ["POD", "BUDGET"];

/// A plan for people.
pub(super) fn text(plan: &Plan, now: Timestamp, console: &Console, wide: bool) -> String {
    let (colours, width) = (console.colours(), console.width().filter(|_| !wide));
    let used = plan.pods.len() + plan.tolerating.len();
    let leaving = if plan.evicts() { plan.pods.len() } else { 0 };
    let mut text = format!(
        "{} on {}: {} in {}, {} of {} would be evicted\n",
        plan.taint,
        count(plan.devices.len(), "device"),
        count(plan.claims.len(), "claim"),
        count(plan.namespaces.len(), "namespace"),
        leaving,
        count(used, "pod"),
    );
    if let Some(why) = &plan.no_effect {
        text.push_str(&format!("a rule with this taint would have no effect: {why}\n"));
    }
    if let Some(problem) = &plan.problem {
        text.push_str(&format!("the plan is incomplete: {problem}\n"));
    }
    let mut devices = Table::new(&["DEVICE", "NODE", "STATE"]);
    for device in plan.devices.iter().take(DEVICES_SHOWN_MAX) {
        let node = device.node.clone().unwrap_or_else(|| "<none>".into());
        devices.row([device.name.clone(), node, device.state.clone()]);
    }
    text.push('\n');
    text.push_str(&devices.render(colours));
    if let more @ 1.. = plan.devices.len().saturating_sub(DEVICES_SHOWN_MAX) {
        text.push_str(&format!("and {more} more devices\n"));
    }
    if used > 0 {
        text.push('\n');
        let pods = pods(plan, now, wide);
        text.push_str(&pods.render_as(&layout(&pods, width, &OPTIONAL, &ELASTIC), colours));
    }
    text.push_str(&outlook(plan));
    for ((namespace, budget), (leaving, allowed)) in plan.overdrawn() {
        if plan.evicts() && !plan.holds.iter().any(|hold| hold.contains("Budget: ")) {
            text.push_str(&format!(
                "\n{} of {namespace} would be evicted although disruption budget {budget} allows {allowed}: eviction by taint ignores budgets\n",
                count(leaving, "pod")
            ));
        }
    }
    text
}

/// Reasons that block evictions, nodes for the replacements, and the duration.
fn outlook(plan: &Plan) -> String {
    let mut text = String::new();
    for wait in plan.holds.iter().flat_map(|hold| waits_in(hold)) {
        text.push_str(&format!("\nat first {}\n", wait.line()));
    }
    let roomless: Vec<&PlanPod> = plan.pods.iter().filter(|pod| pod.no_room.is_some()).collect();
    if let Some((first, why)) = roomless.first().and_then(|pod| Some((pod, pod.no_room.as_ref()?))) {
        let others = match roomless.len() {
            1 => String::new(),
            more => format!(", nor for {} more", more - 1),
        };
        text.push_str(&format!("\n{why}{others}\n"));
        debug_assert!(why.contains(&first.name));
    }
    match (plan.estimated_seconds, plan.stuck.is_empty()) {
        (Some(seconds), _) => {
            let time = lazaret_model::human_duration(seconds);
            text.push_str(&format!("\nestimated duration: {time} until the last pod is gone\n"));
        }
        (None, false) => {
            let stuck: Vec<String> =
                plan.stuck.iter().map(|(why, pods)| format!("{pods} by {why}")).collect();
            let all: usize = plan.stuck.values().sum();
            text.push_str(&format!(
                "\nestimated duration: unknown, {} would be kept: {}\n",
                count(all, "pod"),
                stuck.join(", ")
            ));
        }
        (None, true) => {}
    }
    text
}

/// More devices are a number: a plan is read by a person.
const DEVICES_SHOWN_MAX: usize = 20;

fn pods(plan: &Plan, now: Timestamp, wide: bool) -> Table {
    let columns = [
        "NAMESPACE",
        "POD",
        "NODE",
        "OWNER",
        "PRIORITY",
        "TOLERATES",
        "EVICTED",
        "BUDGET",
        "BLOCKED",
        "ROOM",
        "POSITION",
    ];
    // The order is that of a rule that says how pods leave: of interest to whoever asks for more.
    let shown = if wide { columns.len() } else { columns.len() - 3 };
    let mut table = Table::new(&columns[..shown]);
    let staying = plan.tolerating.iter().map(|pod| (pod, false));
    for (pod, leaves) in plan.pods.iter().map(|pod| (pod, plan.evicts())).chain(staying) {
        let or_none = |text: Option<&String>| text.cloned().unwrap_or_else(|| "<none>".into());
        let budgets: Vec<String> = pod
            .budgets
            .iter()
            .map(|budget| format!("{} ({} allowed)", budget.name, budget.disruptions_allowed))
            .collect();
        let mut cells = vec![
            pod.namespace.clone().into(),
            pod.name.clone().into(),
            or_none(pod.node.as_ref()).into(),
            or_none(pod.owner.as_ref()).into(),
            pod.priority.to_string().into(),
            patience(pod).into(),
            if leaves { Cell::tinted(&when(pod, now), Tint::Careful) } else { Cell::from("never") },
            if budgets.is_empty() { "<none>".into() } else { budgets.join(", ").into() },
            or_none(pod.held.as_ref()).into(),
            or_none(pod.replacement_node.as_ref()).into(),
            pod.position.map_or_else(|| "<none>".to_owned(), |position| position.to_string()).into(),
        ];
        cells.truncate(shown);
        table.row(cells);
    }
    table
}

fn patience(pod: &PlanPod) -> String {
    match pod.toleration_seconds {
        None => "forever".into(),
        Some(0) => "no".into(),
        Some(seconds) => format!("{seconds}s"),
    }
}

fn when(pod: &PlanPod, now: Timestamp) -> String {
    if let Some(seconds) = pod.evicted_after_seconds {
        return if seconds == 0 { "at once".into() } else { format!("in {seconds}s") };
    }
    if let Some(why) = &pod.held {
        return format!("blocked: {why}");
    }
    let deadline = pod.deadline.as_ref().and_then(|time| lazaret_api::parse_time(time).ok());
    match deadline.map(|deadline| deadline.as_secs() - now.as_secs()) {
        Some(seconds @ 1..) => format!("in {seconds}s"),
        Some(_) | None => "at once".into(),
    }
}

/// Where plans are kept: in the user's cache, if there is one.
pub(super) fn folder() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(base.join("lazaret/plans"))
}

/// One file for each set of words and each cluster.
fn kept_at(session: &Session<'_>, args: &taint_args::Plan) -> Option<PathBuf> {
    let connection = &session.connection;
    let cluster =
        (std::env::var_os("KUBECONFIG"), &connection.kubeconfig, &connection.context, &connection.cluster);
    let words = format!("{:?} {:?} {} {:?} {cluster:?}", args.words, args.filter, args.all, args.filename);
    Some(session.plans.as_ref()?.join(format!("{:08x}.json", crate::view::fingerprint(&words))))
}

fn compare(session: &mut Session<'_>, args: &taint_args::Plan, plans: &[Plan]) -> Result<Verdict, Error> {
    let old = kept_at(session, args).and_then(|path| std::fs::read_to_string(path).ok());
    let old: Option<Vec<Plan>> = old.and_then(|text| serde_json::from_str(&text).ok());
    remember(session, args, plans);
    let Some(old) = old else {
        session
            .console
            .note("no earlier plan of the same words to compare with; this one is kept for the next time");
        return Ok(Verdict::Yes);
    };
    let lines: Vec<String> = old.iter().zip(plans).flat_map(|(old, new)| diff(old, new)).collect();
    match args.output.structured() {
        Some(form) => structured(session.console, &json!({"changes": lines}), form)?,
        None if lines.is_empty() => session.console.line("nothing changed since the last plan")?,
        None => session.console.line(&lines.join("\n"))?,
    }
    Ok(if lines.is_empty() { Verdict::Yes } else { Verdict::No })
}

/// Keeps plans for `--diff`: a convenience, so that it fails is only noted.
fn remember(session: &mut Session<'_>, args: &taint_args::Plan, plans: &[Plan]) {
    let Some(path) = kept_at(session, args) else { return };
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written =
        folder.and_then(|()| std::fs::write(&path, serde_json::to_string(plans).unwrap_or_default()));
    if let Err(error) = written {
        session.console.note(&format!("note: the plan was not kept for --diff: {}: {error}", path.display()));
    }
}
