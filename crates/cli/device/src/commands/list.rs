//! `kubectl device list`.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{
    Session,
    follow::Follow,
    load::{Loaded, Need, Read, load},
    select,
};
use crate::{
    Error, Verdict,
    args::List,
    output::{Cell, Format, Layout, RESULT_VERSION, Structured, Table, Tint, layout, structured},
    view::{Cluster, DeviceRow, Filter, State, TaintRow, device_ids, resolve, rows},
};

/// Changes within this time are printed together.
const SETTLE: Duration = Duration::from_millis(200);
const HEADER: [&str; 6] = ["NAME", "NODE", "MODEL", "STATE", "TAINTS", "HOLDER"];
/// Columns that a narrow terminal leaves out, and those that it shortens.
const OPTIONAL: [&str; 2] = ["MODEL", "NODE"];
const ELASTIC: [&str; 2] = ["TAINTS", "HOLDER"];
const HEADER_WIDE: [&str; 8] = ["NAME", "NODE", "MODEL", "STATE", "TAINTS", "HOLDER", "REASON", "SLICE"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceList<'a> {
    api_version: &'static str,
    kind: &'static str,
    items: &'a [DeviceRow],
}

pub(super) async fn run(session: &mut Session<'_>, args: List) -> Result<Verdict, Error> {
    let Loaded { mut cluster, reads } =
        load(session, Need { partial: true, nodes: true, ..Need::default() }).await?;
    let mut filter = select::filter(session, &cluster, &args.filter, &args.devices).await?;
    filter.tainted = args.tainted;
    filter.namespace = session.connection.namespace.clone();
    let known = device_ids(&mut cluster);
    // A name must mean a device, as for every command; only who watches may wait for one.
    for reference in filter.references.iter().filter(|_| !args.watch) {
        resolve(reference, &known, true).map_err(Error::Usage)?;
    }
    let found = rows(&mut cluster, &filter);
    if found.is_empty() && !args.watch {
        return nothing(session, &mut cluster, &filter, &args);
    }
    let layout = print(session, &found, args.output)?;
    if args.watch {
        watch(session, cluster, filter, &reads, &args, &layout, found).await?;
    }
    Ok(Verdict::Yes)
}

fn print(session: &mut Session<'_>, rows: &[DeviceRow], format: Format) -> Result<Layout, Error> {
    let list = DeviceList { api_version: RESULT_VERSION, kind: "DeviceList", items: rows };
    match format {
        Format::Json => structured(session.console, &list, Structured::Json)?,
        Format::Yaml => structured(session.console, &list, Structured::Yaml)?,
        Format::Name => {
            let names: String = rows.iter().map(|row| format!("{}\n", row.name)).collect();
            session.console.print(&names)?;
        }
        Format::Table | Format::Wide => {
            let wide = format == Format::Wide;
            let mut table = Table::new(if wide { &HEADER_WIDE } else { &HEADER });
            rows.iter().for_each(|row| table.row(cells(row, wide)));
            let width = session.console.width().filter(|_| !wide);
            let layout = layout(&table, width, &OPTIONAL, &ELASTIC);
            let text = table.render_as(&layout, session.console.colours());
            session.console.print(&text)?;
            return Ok(layout);
        }
    }
    Ok(Layout::default())
}

fn cells(row: &DeviceRow, wide: bool) -> Vec<Cell> {
    let or_none = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "<none>".to_owned()));
    let taints = if wide { every_taint(&row.taints) } else { strongest_taint(&row.taints) };
    let hidden = matches!(row.state, State::Unknown | State::UnknownTainted);
    let mut cells = vec![
        Cell::from(row.name.clone()),
        or_none(row.node.as_ref().map(ToString::to_string)),
        or_none(row.model.clone()),
        Cell::tinted(row.state.word(), tint(row.state)),
        or_none(taints),
        or_none(holder(row, wide).or_else(|| hidden.then(|| "<unknown>".to_owned()))),
    ];
    if wide {
        let awaited = row.awaiting_unprepare.iter().map(|awaited| awaited.message.as_str());
        let tainted = row.taints.iter().filter_map(|taint| taint.reason.as_deref());
        let reasons: Vec<&str> = awaited.chain(tainted).collect();
        cells.push(or_none(Some(reasons.join("; ")).filter(|text| !text.is_empty())));
        cells.push(or_none(row.slice.as_ref().map(ToString::to_string)));
    }
    cells
}

fn tint(state: State) -> Tint {
    match state {
        State::Free | State::InUse => Tint::Good,
        State::Tainted | State::InUseTainted | State::Unknown | State::UnknownTainted => Tint::Careful,
        State::Gone => Tint::Bad,
    }
}

/// Each taint with the object that carries it.
fn every_taint(taints: &[TaintRow]) -> Option<String> {
    let texts: Vec<String> =
        taints.iter().map(|taint| format!("{} ({}{})", taint.taint(), taint.by(), effect(taint))).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The taint that weighs most, with whether a driver, a rule or a patch sets it, and how many more there are.
fn strongest_taint(taints: &[TaintRow]) -> Option<String> {
    let weight =
        |taint: &TaintRow| ["NoExecute", "NoSchedule"].iter().position(|effect| *effect == taint.effect);
    let first =
        taints.iter().min_by_key(|taint| (taint.no_effect.is_some(), weight(taint).unwrap_or(usize::MAX)))?;
    let by = first.by();
    let by = by.split(' ').next().unwrap_or_default();
    Some(format!("{} ({by}{}){}", first.taint(), effect(first), and_more(taints.len() - 1)))
}

fn effect(taint: &TaintRow) -> &'static str {
    if taint.no_effect.is_some() { ", no effect" } else { "" }
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
}

/// A wide table has each claim with its pods; a narrow one the first pod, or the claim where no pod has it, and how many more there are.
fn holder(row: &DeviceRow, wide: bool) -> Option<String> {
    if wide {
        let texts: Vec<String> = row
            .holders
            .iter()
            .map(|holder| {
                let shown: Vec<String> =
                    holder.pods.iter().take(PODS_SHOWN_MAX).map(ToString::to_string).collect();
                let more = and_more(holder.pods.len().saturating_sub(shown.len()));
                let pods =
                    if shown.is_empty() { String::new() } else { format!(" ({}{more})", shown.join(", ")) };
                format!("{}/{}{pods}", holder.namespace, holder.claim)
            })
            .collect();
        return (!texts.is_empty()).then(|| texts.join(", "));
    }
    let first = row.holders.first()?;
    if let Some(awaited) = &row.awaiting_unprepare {
        return Some(format!("{} (waiting for node {} to unprepare)", awaited.claim, awaited.node));
    }
    let named = match first.pods.first() {
        Some(pod) => format!("{}/{pod}", first.namespace),
        None => format!("{}/{} (claim)", first.namespace, first.claim),
    };
    let holders: usize = row.holders.iter().map(|holder| holder.pods.len().max(1)).sum();
    Some(format!("{named}{}", and_more(holders - 1)))
}

/// How many pods of a claim a line spells out.
const PODS_SHOWN_MAX: usize = 256;

/// Says why the list is empty, with the nearest names. That a selection means no device is the answer no.
fn nothing(
    session: &mut Session<'_>,
    cluster: &mut Cluster,
    filter: &Filter,
    args: &List,
) -> Result<Verdict, Error> {
    match args.output {
        Format::Json | Format::Yaml => {
            print(session, &[], args.output)?;
        }
        Format::Table | Format::Wide | Format::Name => {}
    }
    let all = rows(cluster, &Filter::default());
    if all.is_empty() {
        session.console.note("No devices found: no driver has published any.");
        let selects = filter.selects();
        return Ok(if selects { Verdict::No } else { Verdict::Yes });
    }
    session.console.note(&format!(
        "No devices found; without this selection there are {}.{}",
        all.len(),
        select::missing(&all, &args.filter)
    ));
    Ok(Verdict::No)
}

/// Tells of each device whose row became another, until somebody ends it.
async fn watch(
    session: &mut Session<'_>,
    mut cluster: Cluster,
    filter: Filter,
    reads: &[Read],
    args: &List,
    layout: &Layout,
    found: Vec<DeviceRow>,
) -> Result<(), Error> {
    let wide = args.output == Format::Wide;
    let key = |row: &DeviceRow| cells(row, wide);
    let mut shown: BTreeMap<String, Vec<Cell>> =
        found.iter().map(|row| (row.name.clone(), key(row))).collect();
    let mut follow = Follow::start(&session.api, reads);
    loop {
        follow.next().await?.tell(&mut cluster);
        // The first change opens a short window; changes within it are printed together.
        let window = tokio::time::sleep(SETTLE);
        tokio::pin!(window);
        loop {
            tokio::select! {
                news = follow.next() => news?.tell(&mut cluster),
                () = &mut window => break,
            }
        }
        let now: BTreeMap<String, DeviceRow> =
            rows(&mut cluster, &filter).into_iter().map(|row| (row.name.clone(), row)).collect();
        for (name, row) in &now {
            let cells = key(row);
            if shown.get(name) != Some(&cells) {
                tell(session, row, &cells, args.output, layout)?;
                shown.insert(name.clone(), cells);
            }
        }
        let gone: Vec<String> = shown.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
        for name in gone {
            shown.remove(&name);
            session.console.note(&format!("{name} is no longer in the list"));
        }
    }
}

fn tell(
    session: &mut Session<'_>,
    row: &DeviceRow,
    cells: &[Cell],
    format: Format,
    layout: &Layout,
) -> Result<(), Error> {
    match format {
        Format::Json => structured(session.console, row, Structured::Json),
        Format::Yaml => {
            session.console.print("---\n")?;
            structured(session.console, row, Structured::Yaml)
        }
        Format::Name => session.console.line(&row.name),
        Format::Table | Format::Wide => {
            let text = layout.line(cells, session.console.colours());
            session.console.print(&text)
        }
    }
}
