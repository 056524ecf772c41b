//! The moving picture at the top of README.md: a recording that `kubectl device record` could have made, drawn from the same conditions that
//! `kubectl device top` and the dashboard show. `UPDATE_PICTURE=1` writes it anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use lazaret_device::view::{Cluster, Condition, Filter, Top, rows};
use serde_json::Value;

const CELL: usize = 26;
const STEP: usize = 31;
/// The last frame stays for this part of the whole, in percent, before it begins anew.
const REST_PERCENT: f64 = 12.0;

/// The known objects at one instant.
#[derive(Default)]
struct World {
    cluster: Cluster,
    rules: BTreeMap<String, Value>,
    incidents: BTreeMap<String, Value>,
}

impl World {
    fn take(&mut self, object: &Value, is_gone: bool) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let kept = match object["kind"].as_str().unwrap() {
            "DeviceTaintRule" => Some(&mut self.rules),
            "DeviceIncident" => Some(&mut self.incidents),
            _ => None,
        };
        if let Some(kept) = kept {
            if is_gone {
                kept.remove(&name)
            } else {
                kept.insert(name, object.clone())
            };
        }
        if object["kind"] != "DeviceIncident" {
            if is_gone {
                self.cluster.gone(&object.to_string())
            } else {
                self.cluster.set(&object.to_string())
            }
        }
    }

    fn top(&mut self) -> Top {
        assert!(self.cluster.unreadable.is_empty(), "{:?}", self.cluster.unreadable);
        Top::new(&rows(&mut self.cluster, &Filter::default()), self.rules.values(), self.incidents.values())
    }
}

/// A frame: when it begins, in percent of the whole, and the condition of each device by node and number.
struct Film {
    seconds: f64,
    frames: Vec<(f64, Top)>,
}

fn millis(value: &Value) -> f64 {
    let time = lazaret_api::parse_time(value.as_str().unwrap()).unwrap();
    i32::try_from(time.as_millis() - START_MILLIS).unwrap().into()
}

/// 2026-11-16T00:00:00Z: differences fit a number that is exact.
const START_MILLIS: i64 = 1_794_787_200_000;

fn film(recording: &Value) -> Film {
    let mut world = World::default();
    for object in recording["objects"].as_array().unwrap() {
        world.take(object, false);
    }
    let (start, end) = (millis(&recording["start"]), millis(&recording["end"]));
    let mut frames = vec![(0.0, world.top())];
    for event in recording["events"].as_array().unwrap() {
        world.take(&event["object"], event["type"] == "DELETED");
        let at = (millis(&event["at"]) - start) / (end - start) * (100.0 - REST_PERCENT);
        let top = world.top();
        if top.groups != frames.last().unwrap().1.groups {
            frames.push((at, top));
        }
    }
    Film { seconds: (end - start) / 1_000.0 * 100.0 / (100.0 - REST_PERCENT), frames }
}

fn class(condition: Condition) -> &'static str {
    match condition {
        Condition::Free => "free",
        Condition::InUse => "inuse",
        Condition::Suspect => "suspect",
        Condition::NoSchedule => "noschedule",
        Condition::Draining => "draining",
        Condition::Repairing => "repairing",
        Condition::Probation => "probation",
        Condition::Gone => "gone",
    }
}

/// When a thing is seen, as keyframes; nothing where it is seen all the time.
fn keyframes(css: &mut String, name: &str, film: &Film, seen: impl Fn(&Top) -> bool) -> bool {
    let mut last = None;
    let mut steps = String::new();
    for (at, top) in &film.frames {
        let now = seen(top);
        if last != Some(now) {
            let _ = write!(steps, "{at:.2}%{{opacity:{}}}", u8::from(now));
            last = Some(now);
        }
    }
    let always = film.frames.iter().all(|(_, top)| seen(top));
    if !always {
        let _ = writeln!(
            css,
            "@keyframes {name}{{{steps}}}.{name}{{animation:{name} {:.1}s step-end infinite}}",
            film.seconds
        );
    }
    !always
}

const STYLE: &str = "svg{font:500 13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#5d666e}.bg{fill:#fff;stroke:#e4e3df}.t{fill:#1d2226;font-weight:600}.mark{fill:none;stroke:#fff;stroke-width:2.4;stroke-linecap:round;stroke-linejoin:round}.free{fill:#f1f6f2;stroke:#9fb3a6;stroke-width:2}.inuse{fill:#4f8a74}.suspect{fill:#e3b23c}.noschedule{fill:#cf7a2b}.draining{fill:#c8435a}.repairing{fill:#7d62c4}.probation{fill:#2e93a8}.gone{fill:none;stroke:#6b7280;stroke-width:2;stroke-dasharray:4 3}
@media(prefers-color-scheme:dark){svg{fill:#9aa5ad}.bg{fill:#1b2024;stroke:#2c343a}.t{fill:#e6eaec}.mark{stroke:#14181b}.free{fill:#1d2521;stroke:#55645c}.inuse{fill:#5fa389}.suspect{fill:#e0b54d}.noschedule{fill:#d98a45}.draining{fill:#dd6377}.repairing{fill:#9c86da}.probation{fill:#4fb0c4}}
@media(prefers-reduced-motion:reduce){*{animation-play-state:paused!important}}
";

/// The shape inside a cell.
fn mark(condition: Condition) -> &'static str {
    match condition {
        Condition::Free | Condition::InUse | Condition::Gone => "",
        Condition::Suspect => "M13 13h.1",
        Condition::NoSchedule => "M8 18L18 8",
        Condition::Draining => "M13 7v11M8.500 14l4.500 4.500 4.500-4.500",
        Condition::Repairing => "M13 8v10M8 13h10",
        Condition::Probation => "M13 8a5 5 0 1 1-.1 0",
    }
}

fn cell(body: &mut String, css: &mut String, film: &Film, place: (usize, usize), x: usize, y: usize) {
    let of = |top: &Top| {
        top.groups.get(place.0).and_then(|group| group.devices.get(place.1)).map(|device| device.1)
    };
    let seen: BTreeSet<Condition> = film.frames.iter().filter_map(|(_, top)| of(top)).collect();
    for condition in seen {
        let name = format!("c{}-{}-{}", place.0, place.1, class(condition));
        let moves = keyframes(css, &name, film, |top| of(top) == Some(condition));
        let moving = if moves { format!(" class=\"{name}\"") } else { String::new() };
        let _ = write!(
            body,
            "<g{moving} transform=\"translate({x} {y})\"><rect class=\"{}\" width=\"{CELL}\" height=\"{CELL}\" rx=\"6\"/>",
            class(condition)
        );
        if !mark(condition).is_empty() {
            let _ = write!(body, "<path class=\"mark\" d=\"{}\"/>", mark(condition));
        }
        body.push_str("</g>\n");
    }
}

fn picture(film: &Film) -> String {
    let first = &film.frames[0].1;
    let devices: usize = first.groups.iter().map(|group| group.devices.len()).sum();
    let widest = first.groups.iter().map(|group| group.devices.len()).max().unwrap();
    let (width, height) = (48 + 2 * (widest * STEP + 34), 168 + first.groups.len().div_ceil(2) * 72);
    let (mut css, mut body) = (STYLE.to_owned(), String::new());
    let _ = writeln!(
        body,
        "<rect class=\"bg\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"14\"/><text class=\"t\" x=\"28\" y=\"40\" font-size=\"20\">{devices} devices on {} nodes</text>",
        width - 1,
        height - 1,
        first.groups.len()
    );
    for (at, group) in first.groups.iter().enumerate() {
        let (x, y) = (28 + at % 2 * (widest * STEP + 34), 72 + at / 2 * 72);
        let _ = writeln!(body, "<text x=\"{x}\" y=\"{y}\">{}</text>", group.name);
        for device in 0..group.devices.len() {
            cell(&mut body, &mut css, film, (at, device), x + device * STEP, y + 10);
        }
    }
    legend(&mut body, &mut css, film, height - 74);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"Devices of a cluster while some are drained, repaired and brought back\">\n<style>{css}</style>\n{body}</svg>\n"
    )
}

/// How many devices are in each condition, as it changes.
fn legend(body: &mut String, css: &mut String, film: &Film, y: usize) {
    let shown: BTreeSet<Condition> =
        film.frames.iter().flat_map(|(_, top)| top.counts.keys().copied()).collect();
    for (at, condition) in shown.into_iter().enumerate() {
        let (x, y) = (28 + at % 4 * 136, y + at / 4 * 32);
        let _ = write!(
            body,
            "<g transform=\"translate({x} {y}) scale(.6)\"><rect class=\"{}\" width=\"{CELL}\" height=\"{CELL}\" rx=\"6\"/><path class=\"mark\" d=\"{}\"/></g>",
            class(condition),
            mark(condition)
        );
        let number = |top: &Top| top.counts.get(&condition).copied().unwrap_or_default();
        let numbers: BTreeSet<usize> = film.frames.iter().map(|(_, top)| number(top)).collect();
        for value in numbers {
            let name = format!("n{}-{value}", class(condition));
            let moves = keyframes(css, &name, film, |top| number(top) == value);
            let moving = if moves { format!("class=\"{name} t\"") } else { "class=\"t\"".to_owned() };
            let _ = write!(
                body,
                "<text {moving} x=\"{}\" y=\"{}\" text-anchor=\"end\">{value}</text>",
                x + 40,
                y + 13
            );
        }
        let _ = writeln!(body, "<text x=\"{}\" y=\"{}\">{}</text>", x + 46, y + 13, condition.word());
    }
}

#[test]
fn the_picture_of_the_readme_is_what_the_recording_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let recording: Value =
        serde_json::from_str(&fs::read_to_string(root.join("examples/incident.json")).unwrap()).unwrap();
    let film = film(&recording);
    let seen: BTreeSet<Condition> =
        film.frames.iter().flat_map(|(_, top)| top.counts.keys().copied()).collect();
    assert!(seen.contains(&Condition::Draining) && seen.contains(&Condition::Probation), "{seen:?}");
    let drawn = picture(&film);
    let path = root.join("docs/dashboard.svg");
    if std::env::var_os("UPDATE_PICTURE").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == drawn,
        "docs/dashboard.svg is another: UPDATE_PICTURE=1 writes it anew"
    );
}
