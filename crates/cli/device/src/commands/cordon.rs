//! `kubectl device cordon` and `uncordon`: keep new pods away from devices, and let them back.

use lazaret_model::{Effect, Impact};
use serde::Serialize;

use super::{
    Session,
    load::{Need, load},
    select,
    write::{whoami, write},
};
use crate::{
    Error, Verdict,
    api::DryRun,
    args::WriteArgs,
    output::{Plain, RESULT_VERSION, structured},
    taint_args::{Cordon, Uncordon},
    view::{
        self, Change, Cluster, DRAIN_KEY, Intent, TaintSpec, changes, drain_taint, exact, row, rule_name,
        selector_of,
    },
};

/// The rules that were written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CordonResult {
    api_version: &'static str,
    kind: &'static str,
    dry_run: bool,
    items: Vec<Item>,
    /// Taints of others that still keep pods away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    still_tainted: Vec<StillTainted>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    /// `driver/pool/device`, with `*` for what a rule leaves open.
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Whether anything was written.
    changed: bool,
}

#[derive(Serialize)]
struct StillTainted {
    device: String,
    taint: String,
    /// `driver`, `rule NAME`, `patch NAME`.
    by: String,
}

pub(super) async fn cordon(session: &mut Session<'_>, args: Cordon) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    let rules = session.rules_in_force().await?;
    let mut cluster = load(session, Need::default()).await?.cluster;
    let devices = select::devices(session, &mut cluster, &args.chosen).await?;
    let (set_by, now) = (whoami(session).await, session.now());
    let targets: Vec<_> = devices.iter().map(selector_of).collect();
    let declared = Impact { devices: devices.len() as u64, ..Impact::default() };
    let intent = Intent {
        reason: args.reason.clone(),
        request: view::request(&targets, false, declared, set_by.as_deref(), now),
        set_by,
        overwrite: true,
        ..Intent::default()
    };
    let mut result = CordonResult::new("CordonResult", dry_run != DryRun::None);
    for device in &devices {
        let selector = selector_of(device);
        let name = rule_name(&selector, DRAIN_KEY, None);
        // A device that is being drained is cordoned, and more: it stays as it is.
        let change = if drains(&cluster, &name) {
            Change::Unchanged { name: name.clone() }
        } else {
            let taint = drain_taint(Effect::NoSchedule, None);
            view::set(&cluster, &selector, name.clone(), taint, &intent).map_err(Error::Usage)?
        };
        let changed = !matches!(change, Change::Unchanged { .. });
        write(session, &rules, &change, dry_run).await?;
        let already = if changed { "" } else { "already " };
        let line = format!("{device} {already}cordoned (rule {name}){}", dry_run.suffix());
        say(session, output, &line)?;
        result.items.push(Item { device: device.to_string(), rule: Some(name), changed });
    }
    result.print(session, output)
}

/// Whether a rule of ours already makes pods leave.
fn drains(cluster: &Cluster, name: &str) -> bool {
    let ours = cluster.rules.get(name).is_some_and(view::Meta::is_ours);
    ours && cluster.everything().rule(name).is_some_and(|view| view.rule.taint.effect == Effect::NoExecute)
}

pub(super) async fn uncordon(session: &mut Session<'_>, args: Uncordon) -> Result<Verdict, Error> {
    let WriteArgs { dry_run, output } = args.write;
    let rules = session.served().await?.rules()?;
    let mut cluster = load(session, Need::default()).await?.cluster;
    let targets = select::targets(session, &mut cluster, &args.chosen).await?;
    let spec = TaintSpec::Remove { key: DRAIN_KEY.to_owned(), value: None, effect: None };
    let intent = Intent { absent_ok: true, ..Intent::default() };
    let changes = changes(&cluster, &targets, &[spec], &intent).map_err(Error::Usage)?;
    let mut result = CordonResult::new("UncordonResult", dry_run != DryRun::None);
    let suffix = dry_run.suffix();
    for change in &changes {
        write(session, &rules, change, dry_run).await?;
        let (device, line) = match change {
            Change::Delete { name, devices, .. } => {
                (devices.clone(), format!("{devices} uncordoned (rule {name} deleted){suffix}"))
            }
            Change::Absent { devices } => (devices.clone(), format!("{devices} already uncordoned{suffix}")),
            // A removal makes no rule.
            Change::Create(_) | Change::Update { .. } | Change::Unchanged { .. } => continue,
        };
        say(session, output, &line)?;
        let rule = change.rule().map(str::to_owned);
        result.items.push(Item { device, changed: rule.is_some(), rule });
    }
    let removed: Vec<&str> = changes.iter().filter_map(Change::rule).collect();
    for row in targets.iter().filter_map(exact).filter_map(|id| row(&cluster, &id)) {
        let others =
            row.taints.iter().filter(|taint| taint.acts() && !removed.contains(&taint.origin_name.as_str()));
        for taint in others {
            session.console.note(&format!(
                "{} is still tainted {} by {}",
                row.name,
                taint.taint(),
                taint.by()
            ));
            result.still_tainted.push(StillTainted {
                device: row.name.clone(),
                taint: taint.taint(),
                by: taint.by(),
            });
        }
    }
    result.print(session, output)
}

fn say(session: &mut Session<'_>, output: Plain, line: &str) -> Result<(), Error> {
    match output.structured() {
        None => session.console.line(line),
        Some(_) => Ok(()),
    }
}

impl CordonResult {
    fn new(kind: &'static str, dry_run: bool) -> Self {
        Self { api_version: RESULT_VERSION, kind, dry_run, items: Vec::new(), still_tainted: Vec::new() }
    }

    fn print(&self, session: &mut Session<'_>, output: Plain) -> Result<Verdict, Error> {
        if let Some(form) = output.structured() {
            structured(session.console, self, form)?;
        }
        Ok(Verdict::Yes)
    }
}
