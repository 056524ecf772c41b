//! Images from files: OCI layouts, archives of `docker save`, and plain root file systems.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use serde::Deserialize;

use crate::{
    Digest, Image, ImageConfig, Limits, Reference,
    archive::{Archive, blob_path},
    compression::decompress,
    document::{self, Configuration, Descriptor, Document},
    error::{Context, Result, invalid},
    layer::{self, Expected},
    layout::LayerDirectory,
    store::{Record, Store},
};

const LAYOUT: &str = "oci-layout";
const INDEX: &str = "index.json";
const DOCKER_MANIFEST: &str = "manifest.json";
/// Indexes in an index.
const NESTING_MAX: usize = 4;
/// Images in one archive.
const IMAGES_MAX: usize = 1_000;
/// Where containerd and Docker write the name of an image.
const NAME_ANNOTATIONS: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

/// Takes in what is at a path: a directory or a file.
pub(crate) fn import_path(
    store: &Store,
    limits: &Limits,
    path: &Path,
    name: Option<&str>,
) -> Result<Vec<Image>> {
    let _lock = store.lock_shared()?;
    let metadata = fs::metadata(path).context(|| format!("open {}", path.display()))?;
    if !metadata.is_dir() {
        let file = File::open(path).context(|| format!("open {}", path.display()))?;
        return import_file(store, limits, file, name);
    }
    if path.join(LAYOUT).is_file() {
        return import_archive(store, limits, &Archive::Directory(path.to_owned()), name);
    }
    let tar = store.ingest_path();
    let written = LayerDirectory(path).write_tar(&tar).and_then(|()| {
        let file = File::open(&tar).context(|| format!("open {}", tar.display()))?;
        import_root_file_system(store, limits, &file, name)
    });
    store.remove_tree(&tar)?;
    written
}

/// Takes in an archive that is read once.
pub(crate) fn import_reader(
    store: &Store,
    limits: &Limits,
    reader: impl Read,
    name: Option<&str>,
) -> Result<Vec<Image>> {
    let _lock = store.lock_shared()?;
    let copy = store.ingest_path();
    let imported = layer::spool(reader, &copy, limits.unpacked_bytes_max).and_then(|()| {
        let file = File::open(&copy).context(|| format!("open {}", copy.display()))?;
        import_file(store, limits, file, name)
    });
    store.remove_tree(&copy)?;
    imported
}

fn import_file(store: &Store, limits: &Limits, mut file: File, name: Option<&str>) -> Result<Vec<Image>> {
    if !is_compressed(&file)? {
        return import_tar(store, limits, file, name);
    }
    let plain = store.ingest_path();
    let imported = decompress(&mut file)
        .context(|| "decompress the archive".into())
        .and_then(|reader| layer::spool(reader, &plain, limits.unpacked_bytes_max))
        .and_then(|()| {
            let file = File::open(&plain).context(|| format!("open {}", plain.display()))?;
            import_tar(store, limits, file, name)
        });
    store.remove_tree(&plain)?;
    imported
}

/// A tar file has the name of its first entry where others have their marks.
fn is_compressed(file: &File) -> Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut start = [0; 4];
    let read = file.read_at(&mut start, 0).context(|| "read the archive".into())?;
    Ok(crate::compression::is_compressed(&start[..read]))
}

fn import_tar(store: &Store, limits: &Limits, file: File, name: Option<&str>) -> Result<Vec<Image>> {
    let (file, places) = Archive::scan(file, &[LAYOUT, DOCKER_MANIFEST])?;
    match places {
        Some(places) => import_archive(store, limits, &Archive::Tar { file, places }, name),
        None => import_root_file_system(store, limits, &file, name),
    }
}

/// One image of an archive.
struct FoundImage {
    name: Option<String>,
    manifest: Option<Digest>,
    config: Vec<u8>,
    layers: Vec<(String, Option<Digest>)>,
}

fn import_archive(
    store: &Store,
    limits: &Limits,
    archive: &Archive,
    name: Option<&str>,
) -> Result<Vec<Image>> {
    let found = if archive.has(LAYOUT) { find_oci(archive, limits)? } else { find_docker(archive, limits)? };
    if found.is_empty() {
        return Err(invalid("the archive has no image for this machine"));
    }
    if name.is_some() && found.iter().any(|image| image.config != found[0].config) {
        return Err(invalid(format!("the archive has {} images, and one name is given", found.len())));
    }
    let mut images = Vec::new();
    for image in &found {
        let name = name
            .or(image.name.as_deref())
            .ok_or_else(|| invalid("the archive does not say the name of its image: give one"))?;
        images.push(add(store, limits, archive, image, &Reference::parse(name)?)?);
        if images.len() > 1 && images[0] == images[images.len() - 1] {
            images.pop();
        }
    }
    Ok(images)
}

fn find_oci(archive: &Archive, limits: &Limits) -> Result<Vec<FoundImage>> {
    let Document::Index(descriptors) = Document::parse(&archive.document(INDEX, limits)?)? else {
        return Err(invalid("index.json is no index"));
    };
    // Several entries without a name are one image for several machines.
    let is_named = |descriptor: &Descriptor| name_of(descriptor).is_some();
    let roots: Vec<&Descriptor> = if descriptors.iter().any(is_named) {
        descriptors.iter().filter(|descriptor| is_named(descriptor)).collect()
    } else {
        vec![document::choose(&descriptors)?]
    };
    if roots.len() > IMAGES_MAX {
        return Err(invalid(format!("the archive has more than {IMAGES_MAX} images")));
    }
    roots.into_iter().map(|root| find_manifest(archive, limits, root)).collect()
}

fn name_of(descriptor: &Descriptor) -> Option<String> {
    let annotated = NAME_ANNOTATIONS.iter().filter_map(|key| descriptor.annotations.get(*key));
    // The second is often a tag alone, which names nothing.
    annotated.into_iter().find(|name| name.contains(['/', ':'])).cloned()
}

fn find_manifest(archive: &Archive, limits: &Limits, root: &Descriptor) -> Result<FoundImage> {
    let mut descriptor = root.clone();
    for _ in 0..NESTING_MAX {
        let digest = descriptor.digest()?;
        match Document::parse(&archive.blob(&digest, limits)?)? {
            Document::Index(manifests) => descriptor = document::choose(&manifests)?.clone(),
            Document::Manifest(manifest) => {
                let layers = manifest
                    .layers
                    .iter()
                    .map(|layer| layer.digest().map(|digest| (blob_path(&digest), Some(digest))))
                    .collect::<Result<_>>()?;
                return Ok(FoundImage {
                    name: name_of(root),
                    manifest: Some(digest),
                    config: archive.blob(&manifest.config.digest()?, limits)?,
                    layers,
                });
            }
        }
    }
    Err(invalid("the archive has indexes in indexes without end"))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

fn find_docker(archive: &Archive, limits: &Limits) -> Result<Vec<FoundImage>> {
    let manifest = archive.document(DOCKER_MANIFEST, limits)?;
    let images: Vec<DockerImage> = serde_json::from_slice(&manifest)
        .map_err(|error| invalid(format!("{DOCKER_MANIFEST} is not valid: {error}")))?;
    let mut found = Vec::new();
    for image in images {
        let config = archive.document(&image.config, limits)?;
        let names = image.repo_tags.unwrap_or_default();
        let names = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        for name in names {
            if found.len() >= IMAGES_MAX {
                return Err(invalid(format!("the archive has more than {IMAGES_MAX} images")));
            }
            let layers = image.layers.iter().map(|path| (path.clone(), None)).collect();
            found.push(FoundImage { name, manifest: None, config: config.clone(), layers });
        }
    }
    Ok(found)
}

fn add(
    store: &Store,
    limits: &Limits,
    archive: &Archive,
    found: &FoundImage,
    name: &Reference,
) -> Result<Image> {
    let diff_ids = check_layers(&found.config, found.layers.len(), limits)?;
    let chain = document::chain(&diff_ids);
    for (at, (path, blob)) in found.layers.iter().enumerate() {
        let expected =
            Expected { blob: blob.clone(), diff_id: diff_ids[at].clone(), chain: chain[at].clone() };
        let lower: Vec<Digest> = chain[..at].iter().rev().cloned().collect();
        layer::add(store, limits, &expected, &lower, archive.open(path)?)?;
    }
    commit(store, name, &found.config, found.manifest.as_ref(), None, &chain)
}

/// The layers that a configuration names, if there are as many as the manifest has.
pub(crate) fn check_layers(config: &[u8], layers: usize, limits: &Limits) -> Result<Vec<Digest>> {
    let diff_ids = Configuration::parse(config)?.diff_ids()?;
    if diff_ids.len() != layers {
        return Err(invalid(format!(
            "the manifest has {layers} layers, and the configuration of the image {}",
            diff_ids.len()
        )));
    }
    if layers > limits.layers_max {
        return Err(crate::ImageError::TooLarge {
            what: "the number of layers".into(),
            limit: limits.layers_max as u64,
        });
    }
    Ok(diff_ids)
}

/// Gives an image its name, when everything that it needs is in place.
pub(crate) fn commit(
    store: &Store,
    name: &Reference,
    config: &[u8],
    manifest: Option<&Digest>,
    repo_digest: Option<String>,
    chain: &[Digest],
) -> Result<Image> {
    let id = Digest::of(config);
    let record = Record {
        id: id.to_string(),
        manifest: manifest.map(Digest::to_string),
        repo_digest,
        layers: chain.iter().rev().map(Digest::to_string).collect(),
    };
    store.write_blob(&id, config)?;
    store.sync()?;
    store.touch(&record.id)?;
    store.change_index(|index| {
        index.names.insert(name.to_string(), record.clone());
        Ok(())
    })?;
    store.image(&name.to_string(), &record)
}

/// A tar file as the only layer of an image that asks for nothing.
fn import_root_file_system(
    store: &Store,
    limits: &Limits,
    file: &File,
    name: Option<&str>,
) -> Result<Vec<Image>> {
    let name = name.ok_or_else(|| invalid("a root file system has no name: give one"))?;
    let name = Reference::parse(name)?;
    let digest = layer::diff_id(file, limits)?;
    let config = ImageConfig { env: vec![DEFAULT_PATH.to_owned()], ..ImageConfig::default() };
    let config = serde_json::to_vec(&Configuration::new(config, vec![digest.to_string()]))
        .map_err(|error| invalid(error.to_string()))?;
    let expected = Expected { blob: None, diff_id: digest.clone(), chain: digest.clone() };
    let mut again = file;
    std::io::Seek::rewind(&mut again).context(|| "read the archive".into())?;
    layer::add(store, limits, &expected, &[], again)?;
    Ok(vec![commit(store, &name, &config, None, None, &[digest])?])
}

/// Where programs are, in images that do not say.
pub(crate) const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
