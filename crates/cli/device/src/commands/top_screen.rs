//! The screen of `kubectl device top`: counts, the heat map, drains, incidents. Fits 80 columns and 24 lines.

use lazaret_model::Timestamp;
use lazaret_print::is_unseen;

use crate::view::{Condition, Top, age, incident_wait};

/// Lines for drains and for incidents, at most each.
const ROWS_MAX: usize = 4;
const BAR_CELLS: usize = 16;
const NAME_CHARS_MAX: usize = 22;

/// The state of the screen besides the fleet itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// The first line of the map that is seen.
    pub(crate) scroll: usize,
    /// The filter, and whether somebody is typing it.
    pub(crate) filter: String,
    pub(crate) is_typing: bool,
    /// Only devices with a taint.
    pub(crate) tainted: bool,
    /// Whether colours are wanted.
    pub(crate) colours: bool,
}

/// How a piece of text looks, by the codes of terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Bold,
    Dim,
    Colour(u8),
}

/// A line of the screen, piece by piece.
type Line = Vec<(String, Style)>;

const GREEN: Style = Style::Colour(32);
const RED: Style = Style::Colour(31);
const MAGENTA: Style = Style::Colour(35);
const GREY: Style = Style::Colour(90);

/// A sign and a colour: either alone tells conditions apart.
fn sign(condition: Condition) -> (char, Style) {
    match condition {
        Condition::Free => ('□', GREY),
        Condition::InUse => ('■', GREEN),
        Condition::Suspect => ('?', Style::Colour(33)),
        Condition::NoSchedule => ('/', Style::Colour(91)),
        Condition::Draining => ('▼', RED),
        Condition::Repairing => ('+', MAGENTA),
        Condition::Probation => ('○', Style::Colour(36)),
        Condition::Gone => ('x', Style::Colour(37)),
    }
}

/// The screen, line by line, each no wider than `width`.
pub(crate) fn lines(top: &Top, look: &Look, now: Timestamp, width: usize, height: usize) -> Vec<String> {
    let below: Vec<Line> = [drain_lines(top, width), incident_lines(top, now), vec![keys(look)]].concat();
    let mut screen = head(top, look);
    let room = height.saturating_sub(screen.len() + below.len()).max(1);
    let mut map = cells(top, width);
    let last = map.len().saturating_sub(room);
    let seen = map.split_off(look.scroll.min(last));
    let mut shown: Vec<Line> = seen.into_iter().take(room).collect();
    shown.resize(room, Line::new());
    screen.extend(shown);
    screen.extend(below);
    screen.truncate(height);
    screen.iter().map(|line| text(line, width, look.colours)).collect()
}

/// The screen as text, without colours: for tests, and for whoever has no terminal.
#[must_use]
pub fn screen(top: &Top, now: Timestamp, width: usize, height: usize) -> String {
    let lines = lines(top, &Look::default(), now, width, height);
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A line as the terminal takes it. In place of what it would obey, or not show, stands a question mark: a cell is a character.
fn text(line: &Line, width: usize, colours: bool) -> String {
    let mut out = String::new();
    let mut left = width;
    for (piece, style) in line {
        let piece: String = piece.chars().map(|c| if is_unseen(c) { '?' } else { c }).take(left).collect();
        left -= piece.chars().count();
        match (style, colours) {
            (Style::Plain, _) | (_, false) => out.push_str(&piece),
            (Style::Bold, true) => out.push_str(&format!("\x1b[1m{piece}\x1b[0m")),
            (Style::Dim, true) => out.push_str(&format!("\x1b[2m{piece}\x1b[0m")),
            (Style::Colour(code), true) => out.push_str(&format!("\x1b[{code}m{piece}\x1b[0m")),
        }
    }
    out
}

fn plain(text: impl Into<String>) -> (String, Style) {
    (text.into(), Style::Plain)
}

fn head(top: &Top, look: &Look) -> Vec<Line> {
    let all: usize = top.counts.values().sum();
    let nodes = top.groups.len();
    let mut title = vec![
        (all.to_string(), Style::Bold),
        plain(format!(" device{} on {nodes} node{}", plural(all), plural(nodes))),
    ];
    if !look.filter.is_empty() || look.tainted {
        title.push(plain(format!(
            "   filter: {}{}",
            if look.tainted { "tainted " } else { "" },
            look.filter
        )));
    }
    let mut legend = Line::new();
    for condition in Condition::ALL {
        let number = top.counts.get(&condition).copied().unwrap_or_default();
        // Counts of zero are left out, except for the two that people look for.
        if number == 0 && !matches!(condition, Condition::Free | Condition::InUse) {
            continue;
        }
        let (sign, style) = sign(condition);
        legend.push((format!("{sign} "), style));
        legend.push((number.to_string(), Style::Bold));
        legend.push(plain(format!(" {}   ", condition.word())));
    }
    vec![title, legend, Line::new()]
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

/// A node a block; blocks stand in columns, and a node with more devices than fit goes on in the next block.
fn cells(top: &Top, width: usize) -> Vec<Line> {
    let names = top.groups.iter().map(|group| group.name.chars().count());
    let label = names.max().unwrap_or(0).min(NAME_CHARS_MAX) + 1;
    let widest = top.groups.iter().map(|group| group.devices.len()).max().unwrap_or(1).max(1);
    let room = width.saturating_sub(label).clamp(1, widest);
    let across = (width / (label + room + 2)).max(1);
    let mut blocks: Vec<Line> = Vec::new();
    for group in &top.groups {
        for (at, part) in group.devices.chunks(room).enumerate() {
            let name = if at == 0 { shortened(&group.name, label - 1) } else { String::new() };
            let mut block = vec![plain(format!("{name:<label$}"))];
            for (_, condition) in part {
                let (sign, style) = sign(*condition);
                block.push((sign.to_string(), style));
            }
            block.push(plain(" ".repeat(room - part.len() + 2)));
            blocks.push(block);
        }
    }
    blocks.chunks(across).map(<[Line]>::concat).collect()
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn drain_lines(top: &Top, width: usize) -> Vec<Line> {
    if top.drains.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![vec![(format!("Drains ({})", top.drains.len()), Style::Bold)]];
    let name_width = width.saturating_sub(BAR_CELLS + 30).clamp(12, 44);
    for drain in top.drains.iter().take(ROWS_MAX) {
        let evicted = usize::try_from(drain.evicted).unwrap_or(usize::MAX);
        let all = evicted.saturating_add(drain.left);
        let part = evicted.saturating_mul(BAR_CELLS).checked_div(all).unwrap_or(0);
        let done = if drain.drained { BAR_CELLS } else { part.min(BAR_CELLS) };
        let style = if drain.drained { GREEN } else { RED };
        lines.push(vec![
            plain(format!("{:<name_width$} ", shortened(&drain.rule, name_width))),
            ("█".repeat(done), style),
            ("░".repeat(BAR_CELLS - done), GREY),
            plain(format!(" {} evicted, {} left", drain.evicted, drain.left)),
            plain(if drain.reason.is_empty() { String::new() } else { format!("  {}", drain.reason) }),
        ]);
    }
    lines
}

fn incident_lines(top: &Top, now: Timestamp) -> Vec<Line> {
    if top.incidents.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![vec![(format!("Incidents ({})", top.incidents.len()), Style::Bold)]];
    for incident in top.incidents.iter().take(ROWS_MAX) {
        let since = incident.opened.map_or_else(String::new, |opened| age(opened, now));
        let waits =
            incident_wait(incident, None).map_or_else(String::new, |wait| format!(", {}", wait.line()));
        lines.push(vec![
            plain(format!("{since:>5} {} ", incident.device)),
            (incident.stage.clone(), MAGENTA),
            plain(waits),
        ]);
    }
    lines
}

fn keys(look: &Look) -> Line {
    if look.is_typing {
        return vec![plain(format!("/{}_", look.filter))];
    }
    vec![("q quit   / filter   t tainted   ↑↓ scroll".to_owned(), Style::Dim)]
}
