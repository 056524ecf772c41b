//! `kubectl device top`: the fleet in a terminal, as it changes.

use std::{collections::BTreeMap, io::IsTerminal as _, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Session,
    follow::{Follow, News},
    load::{Loaded, Need, Read, load},
    select,
    terminal::{EndSignals, Key, Terminal},
    top_screen::{Look, lines, screen},
};
use crate::{
    Error, Verdict,
    api::{INCIDENTS, Item, Resource, Scope},
    live_args::TopArgs,
    output::{RESULT_VERSION, Tabular, structured},
    view::{Cluster, Condition, DrainRow, Filter, Top, rows},
};

/// Changes that come together are drawn together; no more than ten frames a second.
const SETTLE: Duration = Duration::from_millis(100);
/// Times are shown relative, and a window may have another size.
const REDRAW: Duration = Duration::from_secs(1);
/// As far as a page goes.
const PAGE_LINES: usize = 10;
/// A filter that is longer is a mistake.
const FILTER_CHARS_MAX: usize = 120;
/// Where there is no terminal: as wide as most, as long as it takes.
const PLAIN_WIDTH: usize = 100;
/// Lines besides the map.
const PLAIN_REST: usize = 16;

/// Everything that is drawn, kept up to date.
struct Seen {
    cluster: Cluster,
    rules: BTreeMap<String, Value>,
    incidents: BTreeMap<String, Value>,
    rules_kind: Option<Resource>,
}

#[derive(Deserialize)]
struct OfKind<'a> {
    kind: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    api_version: &'static str,
    kind: &'static str,
    devices: usize,
    conditions: BTreeMap<&'static str, usize>,
    drains: &'a [DrainRow],
    incidents: Vec<BTreeMap<&'static str, &'a str>>,
}

pub(super) async fn run(session: &mut Session<'_>, args: TopArgs) -> Result<Verdict, Error> {
    let need = Need { partial: true, nodes: true, ..Need::default() };
    let Loaded { cluster, mut reads } = load(session, need).await?;
    let mut filter = select::filter(session, &cluster, &args.filter, &[]).await?;
    filter.tainted = args.tainted;
    let rules_kind = session.served().await?.rules;
    let mut seen = Seen { cluster, rules: BTreeMap::new(), incidents: BTreeMap::new(), rules_kind };
    seen.read_more(session, &mut reads).await?;
    let on_terminal = session.console.width().is_some() && std::io::stdin().is_terminal();
    match args.output {
        Some(output) => print(session, &seen.top(&filter, ""), output),
        None if !on_terminal => print(session, &seen.top(&filter, ""), Tabular::Table),
        None => live(session, seen, filter, &reads).await,
    }
}

fn print(session: &mut Session<'_>, top: &Top, output: Tabular) -> Result<Verdict, Error> {
    let Some(form) = output.structured() else {
        let devices: usize = top.groups.iter().map(|group| 1 + group.devices.len() / PLAIN_WIDTH).sum();
        let text = screen(top, session.now(), PLAIN_WIDTH, devices + PLAIN_REST);
        // The line of keys is of no use here, nor is room that nothing fills.
        let mut lines: Vec<&str> = text.lines().collect();
        lines.pop();
        lines.dedup_by(|one, other| one.is_empty() && other.is_empty());
        session.console.line(lines.join("\n").trim_end())?;
        return Ok(Verdict::Yes);
    };
    let count = |condition: &Condition| top.counts.get(condition).copied().unwrap_or_default();
    let summary = Summary {
        api_version: RESULT_VERSION,
        kind: "FleetSummary",
        devices: top.counts.values().sum(),
        conditions: Condition::ALL.iter().map(|condition| (condition.word(), count(condition))).collect(),
        drains: &top.drains,
        incidents: top
            .incidents
            .iter()
            .map(|one| {
                BTreeMap::from([
                    ("name", one.name.as_str()),
                    ("device", one.device.as_str()),
                    ("stage", one.stage.as_str()),
                ])
            })
            .collect(),
    };
    structured(session.console, &summary, form)?;
    Ok(Verdict::Yes)
}

impl Seen {
    /// Rules as they are, with their status, and incidents where there are any.
    async fn read_more(&mut self, session: &Session<'_>, reads: &mut Vec<Read>) -> Result<(), Error> {
        if let Some(resource) = self.rules_kind {
            let rules = &mut self.rules;
            session.api.list(&resource, &Scope::default(), |item| keep(rules, &item)).await?;
        }
        let (incidents, scope) = (&mut self.incidents, Scope::default());
        match session.api.list(&INCIDENTS, &scope, |item| keep(incidents, &item)).await {
            Ok(version) => reads.push(Read { resource: INCIDENTS, scope, version }),
            // Lazaret alone has incidents, and not everybody may see them.
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn take(&mut self, news: News) {
        let is = |item: &Item, kind: &str| {
            serde_json::from_str::<OfKind<'_>>(item.json()).is_ok_and(|object| object.kind == kind)
        };
        match &news {
            News::Set(item) if is(item, INCIDENTS.kind) => return keep(&mut self.incidents, item),
            News::Gone(item) if is(item, INCIDENTS.kind) => return drop_one(&mut self.incidents, item),
            News::Listed(resource, items) if *resource == INCIDENTS => {
                self.incidents.clear();
                items.iter().for_each(|item| keep(&mut self.incidents, item));
                return;
            }
            News::Set(item) if is(item, "DeviceTaintRule") => keep(&mut self.rules, item),
            News::Gone(item) if is(item, "DeviceTaintRule") => drop_one(&mut self.rules, item),
            News::Listed(resource, items) if Some(*resource) == self.rules_kind => {
                self.rules.clear();
                items.iter().for_each(|item| keep(&mut self.rules, item));
            }
            News::Set(_) | News::Gone(_) | News::Listed(..) => {}
        }
        news.tell(&mut self.cluster);
    }

    fn top(&mut self, filter: &Filter, words: &str) -> Top {
        let mut found = rows(&mut self.cluster, filter);
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        found.retain(|row| {
            let text = format!(
                "{} {} {}",
                row.name,
                row.node.as_ref().map_or(String::new(), ToString::to_string),
                row.state.word()
            );
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        });
        Top::new(&found, self.rules.values(), self.incidents.values())
    }
}

fn keep(objects: &mut BTreeMap<String, Value>, item: &Item) {
    let object: Value = serde_json::from_str(item.json()).unwrap_or_default();
    objects.insert(object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object);
}

fn drop_one(objects: &mut BTreeMap<String, Value>, item: &Item) {
    let object: Value = serde_json::from_str(item.json()).unwrap_or_default();
    objects.remove(object["metadata"]["name"].as_str().unwrap_or_default());
}

async fn live(
    session: &mut Session<'_>,
    mut seen: Seen,
    mut filter: Filter,
    reads: &[Read],
) -> Result<Verdict, Error> {
    let mut look = Look { colours: session.console.colours(), tainted: filter.tainted, ..Look::default() };
    // Listened for before the terminal is changed: a signal in between would leave it so.
    let mut end_signals = EndSignals::listen()?;
    let mut terminal = Terminal::open()?;
    let mut keys = terminal.keys();
    let mut follow = Follow::start(&session.api, reads);
    loop {
        let top = seen.top(&filter, &look.filter);
        let (width, height) = Terminal::size();
        terminal.draw((width, height), lines(&top, &look, session.now(), width, height))?;
        tokio::select! {
            news = follow.next() => {
                seen.take(news?);
                let window = tokio::time::sleep(SETTLE);
                tokio::pin!(window);
                loop {
                    tokio::select! {
                        news = follow.next() => seen.take(news?),
                        () = &mut window => break,
                    }
                }
            }
            key = keys.recv() => match key {
                Some(key) if !ends(&mut look, key) => filter.tainted = look.tainted,
                Some(_) | None => return Ok(Verdict::Yes),
            },
            () = end_signals.recv() => return Ok(Verdict::Yes),
            () = tokio::time::sleep(REDRAW) => {}
        }
    }
}

/// Whether a key ends it; all others change what is looked at.
fn ends(look: &mut Look, key: Key) -> bool {
    if look.is_typing {
        typed(look, key);
        return key == Key::Quit;
    }
    match key {
        Key::Quit | Key::Letter('q') => return true,
        Key::Escape if look.filter.is_empty() => return true,
        Key::Escape => look.filter.clear(),
        Key::Letter('/') => look.is_typing = true,
        Key::Letter('t') => look.tainted = !look.tainted,
        Key::Up | Key::Letter('k') => look.scroll = look.scroll.saturating_sub(1),
        Key::Down | Key::Letter('j') => look.scroll = look.scroll.saturating_add(1),
        Key::PageUp => look.scroll = look.scroll.saturating_sub(PAGE_LINES),
        Key::PageDown => look.scroll = look.scroll.saturating_add(PAGE_LINES),
        Key::Letter(_) | Key::Enter | Key::Backspace => {}
    }
    false
}

fn typed(look: &mut Look, key: Key) {
    match key {
        Key::Enter => look.is_typing = false,
        Key::Escape => {
            look.is_typing = false;
            look.filter.clear();
        }
        Key::Backspace => {
            look.filter.pop();
        }
        Key::Letter(letter) if look.filter.chars().count() < FILTER_CHARS_MAX => look.filter.push(letter),
        Key::Letter(_) | Key::Quit | Key::Up | Key::Down | Key::PageUp | Key::PageDown => {}
    }
}
