//! `kubectl device incidents`, and what people say to incidents: `report`, `acknowledge`, `repaired`, `abandon`.

use std::collections::BTreeMap;

use lazaret_model::{validate_dns_label, validate_driver_name, validate_label_name, validate_pool_name};
use serde_json::{Value, json};

use super::{
    Session,
    follow::{Follow, News},
    load::{Need, Read, load},
    write::{check_reason, whoami},
};
use crate::{
    Error, Verdict,
    api::{DryRun, HEALTH_POLICIES, INCIDENTS, Item, SIGNALS, Scope},
    args::WriteArgs,
    health_args::{ActArgs, IncidentsArgs, ReportArgs},
    output::{Format, Structured, Table, layout, structured},
    view::{IncidentRow, Reference, age, describe_incident, device_ids, incident_row, resolve_one},
};

/// As the schema of a signal has it.
const VALUE_BYTES_MAX: usize = 253;

pub(super) async fn run(session: &mut Session<'_>, args: IncidentsArgs) -> Result<Verdict, Error> {
    let (all, version) = list(session).await?;
    if let Some(word) = &args.incident {
        let found = pick(&all, word)?;
        match form(args.output) {
            Some(form) => structured(session.console, &all[found], form)?,
            None if args.output == Format::Name => {
                session.console.line(&name_line(&incident_row(&all[found])))?
            }
            None => {
                let text = describe_incident(&all[found], session.now());
                session.console.print(&text)?;
            }
        }
        return Ok(Verdict::Yes);
    }
    let shown: Vec<&Value> = all.iter().filter(|one| args.all || incident_row(one).is_open()).collect();
    match form(args.output) {
        Some(_) if args.watch => {
            for one in &shown {
                tell(session, one, args.output)?;
            }
        }
        Some(form) => {
            let value = json!({"apiVersion": "v1", "kind": "List", "items": shown});
            structured(session.console, &value, form)?;
        }
        None if args.output == Format::Name => {
            for one in &shown {
                session.console.line(&name_line(&incident_row(one)))?;
            }
        }
        None => table(session, &shown, &args)?,
    }
    if args.watch {
        watch(session, &all, version, &args).await?;
    }
    Ok(Verdict::Yes)
}

fn form(output: Format) -> Option<Structured> {
    match output {
        Format::Json => Some(Structured::Json),
        Format::Yaml => Some(Structured::Yaml),
        Format::Table | Format::Wide | Format::Name => None,
    }
}

fn name_line(row: &IncidentRow) -> String {
    format!("deviceincident.lazaret.dev/{}", row.name)
}

pub(super) async fn list(session: &Session<'_>) -> Result<(Vec<Value>, String), Error> {
    let mut all = Vec::new();
    let visit = |item: Item| all.push(serde_json::from_str(item.json()).unwrap_or_default());
    let version = session.api.list(&INCIDENTS, &Scope::default(), visit).await?;
    Ok((all, version))
}

/// All incidents; none where they are not served or may not be read.
pub(super) async fn all_incidents(session: &Session<'_>) -> Result<Vec<Value>, Error> {
    none_if_hidden(list(session).await.map(|(all, _)| all))
}

/// Objects that are not served, or that this user may not read, are not shown. Any other failure is no answer.
pub(super) fn none_if_hidden<T: Default>(read: Result<T, Error>) -> Result<T, Error> {
    match read {
        Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Ok(T::default()),
        read => read,
    }
}

/// The incident that a word means; of a device the open one, or else the newest.
fn pick(all: &[Value], word: &str) -> Result<usize, Error> {
    let rows: Vec<IncidentRow> = all.iter().map(incident_row).collect();
    if let Some(at) = rows.iter().position(|row| row.name == word) {
        return Ok(at);
    }
    let meant: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].is_meant(word)).collect();
    let devices: std::collections::BTreeSet<&str> =
        meant.iter().map(|at| rows[*at].device.as_str()).collect();
    if devices.len() > 1 {
        let devices: Vec<&str> = devices.into_iter().collect();
        return Err(Error::usage(format!("{word} means several devices: {}", devices.join(", "))));
    }
    let best = meant.into_iter().max_by_key(|at| (rows[*at].is_open(), rows[*at].opened));
    best.ok_or_else(|| {
        Error::usage(format!(
            "there is no incident of {word}: `kubectl device incidents --all` shows all of them"
        ))
    })
}

const COLUMNS: [&str; 7] = ["NAME", "DEVICE", "STAGE", "RULE", "WAITS FOR", "EVICTED", "AGE"];

fn cells(session: &Session<'_>, row: &IncidentRow) -> [String; 7] {
    let stage = if row.is_enforced || !row.is_open() {
        row.stage.clone()
    } else {
        format!("{} (observed)", row.stage)
    };
    [
        row.name.clone(),
        row.device.clone(),
        stage,
        row.because.clone(),
        if row.waits_for.is_empty() { "<none>".to_owned() } else { row.waits_for.clone() },
        row.pods_evicted.to_string(),
        row.opened.map_or_else(|| "<unknown>".to_owned(), |at| age(at, session.now())),
    ]
}

fn table(session: &mut Session<'_>, shown: &[&Value], args: &IncidentsArgs) -> Result<(), Error> {
    if shown.is_empty() {
        let more = if args.all { "" } else { "; --all shows those that are over" };
        session.console.note(&format!("No open incidents{more}."));
        if !args.watch {
            return Ok(());
        }
    }
    let mut table = Table::new(&COLUMNS);
    for one in shown {
        let cells = cells(session, &incident_row(one));
        table.row(cells);
    }
    let width = session.console.width().filter(|_| args.output != Format::Wide);
    let layout = layout(&table, width, &["EVICTED", "RULE"], &["WAITS FOR", "DEVICE"]);
    let text = table.render_as(&layout, session.console.colours());
    session.console.print(&text)
}

fn tell(session: &mut Session<'_>, incident: &Value, output: Format) -> Result<(), Error> {
    match output {
        Format::Json => structured(session.console, incident, Structured::Json),
        Format::Yaml => {
            session.console.print("---\n")?;
            structured(session.console, incident, Structured::Yaml)
        }
        Format::Name => session.console.line(&name_line(&incident_row(incident))),
        Format::Table | Format::Wide => {
            let cells = cells(session, &incident_row(incident));
            session.console.line(&cells.join("   "))
        }
    }
}

/// Tells of each incident whose line became another, until somebody ends it.
async fn watch(
    session: &mut Session<'_>,
    all: &[Value],
    version: String,
    args: &IncidentsArgs,
) -> Result<(), Error> {
    let key = |one: &Value| IncidentRow { opened: None, ..incident_row(one) };
    let mut shown: BTreeMap<String, IncidentRow> =
        all.iter().map(|one| (key(one).name.clone(), key(one))).collect();
    let read = Read { resource: INCIDENTS, scope: Scope::default(), version };
    let mut follow = Follow::start(&session.api, &[read]);
    loop {
        let items = match follow.next().await? {
            News::Set(item) => vec![item],
            News::Listed(_, items) => items,
            News::Gone(item) => {
                let gone: Value = serde_json::from_str(item.json()).unwrap_or_default();
                let name = incident_row(&gone).name;
                shown.remove(&name);
                session.console.note(&format!("incident {name} was deleted"));
                continue;
            }
        };
        for item in items {
            let one: Value = serde_json::from_str(item.json()).unwrap_or_default();
            let row = key(&one);
            if shown.get(&row.name) != Some(&row) {
                shown.insert(row.name.clone(), row);
                tell(session, &one, args.output)?;
            }
        }
    }
}

pub(super) async fn report(session: &mut Session<'_>, args: ReportArgs) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    let (key, value) = args.signal.split_once('=').unwrap_or((&args.signal, ""));
    let wrong = |field: &str, text: &str, why: &str| {
        let example = "write the signal as KEY or KEY=VALUE, gpu.example.com/xid=79 for instance";
        Error::usage(format!("{field} {text:?} of the signal: {why}; {example}"))
    };
    validate_label_name(key).map_err(|error| wrong("key", key, &error.to_string()))?;
    if value.len() > VALUE_BYTES_MAX || value.contains(char::is_control) {
        let why = format!("it has at most {VALUE_BYTES_MAX} bytes and no control characters");
        return Err(wrong("value", value, &why));
    }
    check_reason(&args.reason)?;
    let mut cluster = load(session, Need { partial: true, ..Need::default() }).await?.cluster;
    let known = device_ids(&mut cluster);
    let reference = Reference::parse(&args.device).map_err(Error::Usage)?;
    let id = match resolve_one(&reference, &known) {
        Ok(id) => id.clone(),
        // A device that is not published any more may be reported, if it is named in full.
        Err(text) => reference.device_id().ok_or(Error::Usage(text))?,
    };
    for (part, text, checked) in [
        ("driver", &id.driver, validate_driver_name(&id.driver)),
        ("pool", &id.pool, validate_pool_name(&id.pool)),
        ("device", &id.device, validate_dns_label(&id.device)),
    ] {
        checked.map_err(|error| Error::usage(format!("{part} {text:?}: {error}")))?;
    }
    let by = whoami(session).await.unwrap_or_default();
    let stem: String = id.device.chars().take(40).collect();
    let signal = json!({
        "apiVersion": SIGNALS.api_version(), "kind": SIGNALS.kind,
        "metadata": {"generateName": format!("{stem}-")},
        "spec": {
            "device": {"driver": &*id.driver, "pool": &*id.pool, "device": &*id.device},
            "key": key, "value": value, "source": "Person", "message": args.reason, "by": by,
        },
    });
    let made = match dry_run {
        DryRun::Client => signal,
        DryRun::None | DryRun::Server => session.api.create(&SIGNALS, "", &signal, dry_run).await?,
    };
    match output.structured() {
        Some(form) => structured(session.console, &made, form)?,
        None => session.console.line(&format!("{id} reported: {}{}", args.signal, dry_run.suffix()))?,
    }
    Ok(Verdict::Yes)
}

/// An action of a person on an incident.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Acknowledge,
    Repaired,
    Abandon,
}

impl Act {
    fn field(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledged",
            Self::Repaired => "repaired",
            Self::Abandon => "abandoned",
        }
    }

    /// Why an incident does not take it, where its policy is there.
    fn refusal(self, row: &IncidentRow) -> Option<&'static str> {
        let stage = row.stage.as_str();
        match self {
            Self::Acknowledge => None,
            Self::Repaired if matches!(stage, "Repairing" | "Abandoned" | "Probation") => None,
            Self::Repaired if row.held.is_some() => None,
            Self::Repaired => Some(
                "only a device that is Repairing, Abandoned, in Probation or held by a guard can be said to be repaired",
            ),
            Self::Abandon if stage == "Cleared" => Some("it is over"),
            Self::Abandon => None,
        }
    }
}

pub(super) async fn act(session: &mut Session<'_>, args: ActArgs, act: Act) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    if let Some(reason) = &args.reason {
        check_reason(reason)?;
    } else if matches!(act, Act::Abandon) {
        return Err(Error::usage(
            "a device that is abandoned stays out of service: add --reason, which is kept",
        ));
    }
    let (all, _) = list(session).await?;
    let incident = &all[pick(&all, &args.incident)?];
    let row = incident_row(incident);
    let refusal = match act.refusal(&row) {
        // Without its policy an incident is ended by a person, in every stage.
        Some(_) if row.is_open() && policy_is_gone(session, &row.policy).await? => None,
        refusal => refusal,
    };
    if let Some(why) = refusal {
        return Err(Error::usage(format!("incident {} of {} is {}: {why}", row.name, row.device, row.stage)));
    }
    let changed = say_to(session, incident, act, args.reason.as_deref(), dry_run).await?;
    match output.structured() {
        Some(form) => structured(session.console, &changed, form)?,
        None => {
            let suffix = dry_run.suffix();
            let line = format!("incident {} of {} {}{suffix}", row.name, row.device, act.field());
            session.console.line(&line)?;
        }
    }
    Ok(Verdict::Yes)
}

/// Whether the policy of an incident is not there any more. Where policies may not be read it is taken to be there.
async fn policy_is_gone(session: &Session<'_>, name: &str) -> Result<bool, Error> {
    match session.api.get(&HEALTH_POLICIES, "", name).await {
        Ok(_) | Err(Error::Forbidden { .. }) => Ok(false),
        Err(Error::NotFound { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes what a person says into an incident, with who and when.
pub(super) async fn say_to(
    session: &Session<'_>,
    incident: &Value,
    act: Act,
    reason: Option<&str>,
    dry_run: DryRun,
) -> Result<Value, Error> {
    let mut said = json!({"at": lazaret_api::format_time_precise(session.now())});
    if let Some(by) = whoami(session).await {
        said["by"] = by.into();
    }
    if let Some(reason) = reason {
        said["reason"] = reason.into();
    }
    let patch = json!({
        "metadata": {"uid": incident["metadata"]["uid"]},
        "spec": {act.field(): said},
    });
    match dry_run {
        DryRun::Client => Ok(incident.clone()),
        DryRun::None | DryRun::Server => {
            let name = incident_row(incident).name;
            session.api.patch(&INCIDENTS, &name, &patch, dry_run).await
        }
    }
}
