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
    output::{Cell, Format, Structured, Table, Tint, line, structured},
    view::{Cluster, DeviceRow, Filter, State, nearest, rows},
};

/// Changes that come together are told together.
const SETTLE: Duration = Duration::from_millis(200);
const HEADER: [&str; 6] = ["NAME", "NODE", "MODEL", "STATE", "TAINTS", "HOLDER"];
const HEADER_WIDE: [&str; 8] = ["NAME", "NODE", "MODEL", "STATE", "TAINTS", "HOLDER", "REASON", "SLICE"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceList<'a> {
    api_version: &'static str,
    kind: &'static str,
    items: &'a [DeviceRow],
}

pub(super) async fn run(session: &mut Session<'_>, args: List) -> Result<Verdict, Error> {
    let Loaded { mut cluster, reads } = load(session, Need { partial: true, ..Need::default() }).await?;
    let mut filter = select::filter(session, &cluster, &args.filter, &args.devices).await?;
    filter.tainted = args.tainted;
    filter.namespace = session.connection.namespace.clone();
    let found = rows(&mut cluster, &filter);
    if found.is_empty() && !args.watch {
        return nothing(session, &mut cluster, &filter, &args);
    }
    let widths = print(session, &found, args.output)?;
    if args.watch {
        watch(session, cluster, filter, &reads, &args, &widths, found).await?;
    }
    Ok(Verdict::Yes)
}

fn print(session: &mut Session<'_>, rows: &[DeviceRow], format: Format) -> Result<Vec<usize>, Error> {
    let list = DeviceList { api_version: "lazaret.dev/v1alpha1", kind: "DeviceList", items: rows };
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
            let text = table.render(session.console.colours());
            session.console.print(&text)?;
            return Ok(table.widths());
        }
    }
    Ok(Vec::new())
}

fn cells(row: &DeviceRow, wide: bool) -> Vec<Cell> {
    let or_none = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "<none>".to_owned()));
    let taints: Vec<String> =
        row.taints.iter().map(|taint| format!("{} ({})", taint.taint(), taint.by())).collect();
    let taints = if taints.is_empty() { None } else { Some(taints.join(", ")) };
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
        let reasons: Vec<&str> = row.taints.iter().filter_map(|taint| taint.reason.as_deref()).collect();
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

/// `namespace/claim (pod, …)`; a narrow table shows the first and says how many more there are.
fn holder(row: &DeviceRow, wide: bool) -> Option<String> {
    let shown = if wide { row.holders.len() } else { 1 };
    let texts: Vec<String> = row
        .holders
        .iter()
        .take(shown)
        .map(|holder| {
            let pods: Vec<String> =
                holder.pods.iter().take(if wide { 256 } else { 1 }).map(ToString::to_string).collect();
            let more = holder.pods.len().saturating_sub(pods.len());
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let pods = if pods.is_empty() { String::new() } else { format!(" ({}{more})", pods.join(", ")) };
            format!("{}/{}{pods}", holder.namespace, holder.claim)
        })
        .collect();
    let more = row.holders.len().saturating_sub(shown);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!texts.is_empty()).then(|| format!("{}{more}", texts.join(", ")))
}

/// Says why the list is empty, with what might have been meant.
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
        return Ok(Verdict::Yes);
    }
    let mut note = format!("No devices found; without this selection there are {}.", all.len());
    let mut near = |wanted: Option<&String>, what: &str, names: Vec<String>| {
        let Some(wanted) = wanted.filter(|wanted| !names.contains(wanted)) else { return };
        let found = nearest(wanted, names.iter().map(String::as_str));
        let found = if found.is_empty() { names.iter().map(String::as_str).take(3).collect() } else { found };
        note.push_str(&format!("\nNo device has the {what} {wanted}; there is {}.", found.join(", ")));
    };
    let unique = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names
    };
    near(filter.driver.as_ref(), "driver", unique(all.iter().map(|row| row.driver.to_string()).collect()));
    let nodes = all.iter().filter_map(|row| row.node.as_ref()).map(ToString::to_string).collect();
    near(args.filter.node.as_ref(), "node", unique(nodes));
    for word in &args.devices {
        let names: Vec<String> = all.iter().map(|row| row.name.clone()).collect();
        let found = nearest(word, names.iter().map(String::as_str));
        if !found.is_empty() {
            note.push_str(&format!("\nIs one of these meant?\n  {}", found.join("\n  ")));
        }
    }
    session.console.note(&note);
    Ok(Verdict::Yes)
}

/// Tells of each device whose row became another, until somebody ends it.
async fn watch(
    session: &mut Session<'_>,
    mut cluster: Cluster,
    filter: Filter,
    reads: &[Read],
    args: &List,
    widths: &[usize],
    found: Vec<DeviceRow>,
) -> Result<(), Error> {
    let wide = args.output == Format::Wide;
    let key = |row: &DeviceRow| cells(row, wide);
    let mut shown: BTreeMap<String, Vec<Cell>> =
        found.iter().map(|row| (row.name.clone(), key(row))).collect();
    let mut follow = Follow::start(&session.api, reads);
    loop {
        follow.next().await?.tell(&mut cluster);
        // The first change opens a short window; what comes within it is told with it.
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
                tell(session, row, &cells, args.output, widths)?;
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
    widths: &[usize],
) -> Result<(), Error> {
    match format {
        Format::Json => structured(session.console, row, Structured::Json),
        Format::Yaml => {
            session.console.print("---\n")?;
            structured(session.console, row, Structured::Yaml)
        }
        Format::Name => session.console.line(&row.name),
        Format::Table | Format::Wide => {
            let text = line(cells, widths, session.console.colours());
            session.console.print(&text)
        }
    }
}
