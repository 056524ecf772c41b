//! A layer on its way from a blob to a directory.

use std::{
    fs::{self, DirBuilder},
    io::{self, Read},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use crate::{
    Digest, ImageError, Limits,
    compression::{Bounded, decompress},
    digest::HashingReader,
    error::{Context, Result, invalid},
    store::{LayerFacts, Store},
    unpack::unpack,
};

/// The expected digests of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The digest of the blob as it travels; `None` when it is not known.
    pub(crate) blob: Option<Digest>,
    /// The digest of the archive in it.
    pub(crate) diff_id: Digest,
    /// The name of the layer with all below it.
    pub(crate) chain: Digest,
}

/// Unpacks a blob to its place, above `lower`, names of chains with the topmost first. Nothing is done when it is there.
pub(crate) fn add(
    store: &Store,
    limits: &Limits,
    expected: &Expected,
    lower: &[Digest],
    blob: impl Read,
) -> Result<()> {
    let place = store.layer(&expected.chain);
    if store.layer_facts(&expected.chain)?.is_some() {
        return Ok(());
    }
    let draft = store.ingest_path();
    let unpacked = unpack_checked(&draft, store, limits, expected, lower, blob);
    let renamed = unpacked.and_then(|()| match fs::rename(&draft, &place) {
        // Another task was faster, with the same content.
        Err(_) if store.layer_facts(&expected.chain)?.is_some() => store.remove_tree(&draft),
        other => other.context(|| format!("rename {} to {}", draft.display(), place.display())),
    });
    if renamed.is_err() {
        // The next start removes what cannot be removed now.
        let _ = store.remove_tree(&draft);
    }
    renamed
}

fn unpack_checked(
    draft: &Path,
    store: &Store,
    limits: &Limits,
    expected: &Expected,
    lower: &[Digest],
    blob: impl Read,
) -> Result<()> {
    let root = draft.join("root");
    let mut builder = DirBuilder::new();
    builder.mode(0o700).create(draft).context(|| format!("make {}", draft.display()))?;
    // The mode of `/` in a container when the layer does not set it.
    builder.mode(0o755).create(&root).context(|| format!("make {}", root.display()))?;
    let lower: Vec<PathBuf> = lower.iter().map(|chain| store.layer_root(chain)).collect();
    let lower: Vec<&Path> = lower.iter().map(PathBuf::as_path).collect();

    let mut blob = HashingReader::new(blob);
    let compressed = blob.count();
    let read = || "read the layer".to_owned();
    let (unpacked, diff_id) = {
        let plain = decompress(&mut blob).context(read)?;
        let mut plain = HashingReader::new(Bounded::new(plain, compressed, *limits));
        let unpacked = unpack(&mut plain, &root, &lower, limits)?;
        (unpacked, plain.finish().context(read)?)
    };
    let blob = blob.finish().context(read)?;
    if let Some(wanted) = &expected.blob {
        check("the layer", wanted, &blob)?;
    }
    check("the unpacked layer", &expected.diff_id, &diff_id)?;
    let facts = LayerFacts { diff_id: diff_id.to_string(), bytes: unpacked.bytes, entries: unpacked.entries };
    if unpacked.skipped > 0 {
        tracing::warn!(layer = %expected.chain, devices = unpacked.skipped, "devices of the layer were left out: only root can make them");
    }
    let facts = serde_json::to_vec(&facts).map_err(|error| invalid(error.to_string()))?;
    fs::write(draft.join("layer.json"), facts).context(|| format!("write {}", draft.display()))
}

pub(crate) fn check(what: &str, expected: &Digest, actual: &Digest) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    Err(ImageError::Digest { what: what.into(), expected: expected.to_string(), actual: actual.to_string() })
}

/// The digest of the archive in a blob.
pub(crate) fn diff_id(blob: impl Read, limits: &Limits) -> Result<Digest> {
    let blob = HashingReader::new(blob);
    let compressed = blob.count();
    let what = || "read the layer".to_owned();
    let plain = decompress(blob).context(what)?;
    HashingReader::new(Bounded::new(plain, compressed, *limits)).finish().context(what)
}

/// Copies a stream to a file, up to a limit.
pub(crate) fn spool(mut source: impl Read, target: &Path, bytes_max: u64) -> Result<()> {
    let what = || format!("write {}", target.display());
    let mut file = fs::File::create_new(target).context(what)?;
    let copied = io::copy(&mut (&mut source).take(bytes_max + 1), &mut file).context(what)?;
    if copied > bytes_max {
        return Err(ImageError::TooLarge { what: "the archive".into(), limit: bytes_max });
    }
    Ok(())
}
