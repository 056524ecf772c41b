//! Objects from files and standard input.

use std::{io::Read, path::Path, sync::Arc};

use anyhow::{Context, Result};
use lazaret_api::Objects;
use lazaret_fleet::{Fleet, Gates, Input};

use crate::{args::Files, output};

/// Everything in `files`. Kinds that have nothing to do with devices are passed over with a note.
pub(crate) fn load(files: &Files) -> Result<Objects> {
    let (piped, paths): (Vec<_>, Vec<_>) =
        files.paths.iter().cloned().partition(|path| path == Path::new("-"));
    let mut objects = if paths.is_empty() { Objects::default() } else { lazaret_api::load(&paths)? };
    if !piped.is_empty() {
        let mut text = String::new();
        let limit = lazaret_api::FILE_BYTES_MAX;
        std::io::stdin()
            .lock()
            .take(limit.saturating_add(1))
            .read_to_string(&mut text)
            .context("read standard input")?;
        anyhow::ensure!(text.len() as u64 <= limit, "standard input is larger than {limit} bytes");
        merge(&mut objects, lazaret_api::load_text("standard input", &text)?);
    }
    if !objects.skipped.is_empty() {
        let kinds: Vec<String> =
            objects.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        output::note(&format!("passed over: {}", kinds.join(", ")));
    }
    objects.repeated.iter().for_each(|text| output::note(text));
    Ok(objects)
}

fn merge(into: &mut Objects, from: Objects) {
    into.slices.extend(from.slices);
    into.classes.extend(from.classes);
    into.claims.extend(from.claims);
    into.templates.extend(from.templates);
    into.rules.extend(from.rules);
    into.patches.extend(from.patches);
    into.pods.extend(from.pods);
    into.nodes.extend(from.nodes);
    into.repeated.extend(from.repeated);
    for (kind, count) in from.skipped {
        *into.skipped.entry(kind).or_default() += count;
    }
}

/// A fleet of these objects, as far as these gates let them count.
pub(crate) fn fleet(objects: Objects, gates: Gates) -> Fleet {
    let mut fleet = Fleet::with_gates(gates);
    let nodes = objects.nodes.into_iter().map(|object| Input::Node(Arc::new(object)));
    let classes = objects.classes.into_iter().map(|object| Input::Class(Arc::new(object)));
    let slices = objects.slices.into_iter().map(|object| Input::Slice(Arc::new(object)));
    let patches = objects.patches.into_iter().map(|object| Input::Patch(Arc::new(object)));
    let rules = objects.rules.into_iter().map(|object| Input::Rule(Arc::new(object)));
    let claims = objects.claims.into_iter().map(|object| Input::Claim(Arc::new(object)));
    let pods = objects.pods.into_iter().map(|object| Input::Pod(Arc::new(object)));
    nodes
        .chain(classes)
        .chain(slices)
        .chain(patches)
        .chain(rules)
        .chain(claims)
        .chain(pods)
        .for_each(|input| fleet.apply(input));
    fleet
}
