//! From the text of a file to the JSON of single objects.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    decode::Header,
    field::{FieldError, Path, without_position},
    wire::Nullable,
};

/// Lists within lists are followed this far.
const LIST_DEPTH_MAX: usize = 8;
/// As deep as serde_json goes, and no object of the API comes near it.
const YAML_DEPTH_MAX: usize = 100;
/// More than a file of 64 MiB can hold of what it spells out.
const YAML_NODES_MAX: usize = 32 << 20;
/// Bound on the events held by anchors and repeated by aliases: enough for shared parts, too few for a bomb.
const YAML_REPLAYED_EVENTS_MAX: usize = 1 << 17;

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
}

impl Syntax {
    /// By the name's ending, or else by the first character.
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        match ending.as_str() {
            "json" => Self::Json,
            "yaml" | "yml" => Self::Yaml,
            _ if text.trim_start().starts_with(['{', '[']) => Self::Json,
            _ => Self::Yaml,
        }
    }
}

/// Where in a file an object stands. Both count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) document: usize,
    /// Within a list.
    pub(crate) item: Option<usize>,
}

/// Takes an object in JSON with what its header says, or what is wrong with the document.
pub(crate) type Visit<'a> = dyn FnMut(Place, Result<(Header, &str), FieldError>) + 'a;

/// Hands every object of a text to `visit`, with what its header says; lists are taken apart.
pub(crate) fn for_each_object(text: &str, syntax: Syntax, visit: &mut Visit<'_>) {
    match syntax {
        Syntax::Json => {
            for (at, json) in
                serde_json::Deserializer::from_str(text).into_iter::<Box<RawValue>>().enumerate()
            {
                let place = Place { document: at + 1, item: None };
                match json {
                    Ok(json) => take_apart(place, json.get(), &Header::default(), 0, visit),
                    Err(error) => visit(place, Err(Path::ROOT.error(format!("is not JSON: {error}")))),
                }
            }
        }
        Syntax::Yaml => {
            for (at, document) in
                yaml_documents(text).enumerate().filter(|(_, document)| !document.is_blank())
            {
                let place = Place { document: at + 1, item: None };
                match document.to_json() {
                    Ok(json) => take_apart(place, &json, &Header::default(), 0, visit),
                    Err(error) => visit(place, Err(error)),
                }
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct List {
    items: Nullable<Vec<Box<RawValue>>>,
}

fn take_apart(place: Place, json: &str, parent: &Header, depth: usize, visit: &mut Visit<'_>) {
    let found = if json.starts_with('[') {
        serde_json::from_str(json).map(|items| (Header::default(), Some(items))).map_err(not_a_list)
    } else {
        Header::read(json).and_then(|header| {
            let list = header.kind.0.ends_with("List");
            let items = list.then(|| serde_json::from_str::<List>(json).map(|list| list.items.0)).transpose();
            Ok((header, items.map_err(not_a_list)?))
        })
    };
    match found {
        Err(error) => visit(place, Err(error)),
        Ok((_, Some(_))) if depth == LIST_DEPTH_MAX => {
            visit(place, Err(Path::ROOT.error("has lists too deep")))
        }
        Ok((list, Some(items))) => {
            let list = element_header(list);
            let items: Vec<Box<RawValue>> = items;
            for (at, item) in items.iter().enumerate() {
                take_apart(Place { item: Some(at + 1), ..place }, item.get(), &list, depth + 1, visit);
            }
        }
        Ok((mut header, None)) => {
            header.inherit(parent);
            visit(place, Ok((header, json)));
        }
    }
}

fn not_a_list(error: serde_json::Error) -> FieldError {
    Path::ROOT.error(format!("is not a list: {}", without_position(&error)))
}

/// The type of the items of a typed list, which do not carry it themselves. The items of a plain `List` do.
fn element_header(mut list: Header) -> Header {
    let kind = list.kind.0.strip_suffix("List").unwrap_or_default().to_owned();
    list.kind.0 = kind;
    list
}

impl Header {
    fn inherit(&mut self, list: &Self) {
        if self.kind.0.is_empty() && self.api_version.0.is_empty() && !list.kind.0.is_empty() {
            self.kind.0.clone_from(&list.kind.0);
            self.api_version.0.clone_from(&list.api_version.0);
        }
    }
}

struct YamlDocument<'a> {
    text: &'a str,
    lines_before: u64,
}

/// Splits where kubectl does: at lines that start with three hyphens.
fn yaml_documents(text: &str) -> impl Iterator<Item = YamlDocument<'_>> {
    let mut rest = Some(text);
    let mut lines_before = 0;
    let mut first = true;
    std::iter::from_fn(move || {
        loop {
            let text = rest?;
            let (document, after) = match separator(text) {
                Some((end, next)) => (&text[..end], Some(&text[next..])),
                None => (text, None),
            };
            let document = YamlDocument { text: document, lines_before };
            lines_before += text[..text.len() - after.map_or(0, str::len)].matches('\n').count() as u64;
            rest = after;
            // Nothing but comments before the first separator is no document.
            if std::mem::take(&mut first) && after.is_some() && document.is_blank() {
                continue;
            }
            return Some(document);
        }
    })
}

/// Where the next separator stands, and where its line ends.
fn separator(text: &str) -> Option<(usize, usize)> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if line.trim_end() == "---" || line.starts_with("--- #") {
            return Some((start, end));
        }
        start = end;
    }
    None
}

impl YamlDocument<'_> {
    fn is_blank(&self) -> bool {
        self.text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    }

    fn to_json(&self) -> Result<String, FieldError> {
        let value: serde_json::Value = serde_saphyr::from_str_with_options(self.text, yaml_options())
            .map_err(|error| Path::ROOT.error(self.explain(&error)))?;
        serde_json::to_string(&value).map_err(|error| Path::ROOT.error(error.to_string()))
    }

    /// With the line in the file, where saphyr counts in the document.
    fn explain(&self, error: &serde_saphyr::Error) -> String {
        let words = serde_saphyr::UserMessageFormatter;
        let options = serde_saphyr::render_options! {
            formatter: &words,
            line_offset: self.lines_before,
            snippets: serde_saphyr::SnippetMode::Off,
        };
        format!("is not YAML: {}", error.without_snippet().render_with_options(options).trim_end())
    }
}

fn yaml_options() -> serde_saphyr::Options {
    let mut options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: YAML_NODES_MAX,
            max_nodes: YAML_NODES_MAX,
            max_depth: YAML_DEPTH_MAX,
            max_recorded_anchor_events: YAML_REPLAYED_EVENTS_MAX,
        },
        with_snippet: false,
    };
    options.alias_limits.max_total_replayed_events = YAML_REPLAYED_EVENTS_MAX;
    options
}
