//! Where an import reads its blobs: a directory, or a tar file in which places are looked up.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::{
    Digest, Limits,
    error::{Context, ImageError, Result, invalid},
    tar::{self, Kind},
};

/// Files in an archive of images: each layer, manifest and configuration is one.
const FILES_MAX: usize = 10_000;
/// Links from one name to another, in archives that Docker wrote.
const LINKS_MAX: usize = 8;

/// Files by name.
#[derive(Debug)]
pub(crate) enum Archive {
    Directory(PathBuf),
    Tar { file: File, places: BTreeMap<String, Place> },
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    Content { offset: u64, size: u64 },
    Link(String),
}

impl Archive {
    /// Looks a tar file through. Nothing when it has no file with one of the `marks`: then it is something else.
    pub(crate) fn scan(file: File, marks: &[&str]) -> Result<(File, Option<BTreeMap<String, Place>>)> {
        let mut places = BTreeMap::new();
        let mut is_marked = false;
        let mut reader = tar::Reader::new(io::BufReader::new(At { file: &file, position: 0, end: u64::MAX }));
        while let Some(entry) = reader.next()? {
            let Ok(path) = std::str::from_utf8(&entry.path) else { continue };
            let path = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/').to_owned();
            is_marked |= marks.contains(&path.as_str());
            if places.len() >= FILES_MAX {
                // An archive of images has few files, and its marks are at the start or it is small.
                if is_marked {
                    return Err(ImageError::TooLarge {
                        what: "the number of files in the archive".into(),
                        limit: FILES_MAX as u64,
                    });
                }
                continue;
            }
            let place = match entry.kind {
                Kind::File => Place::Content { offset: entry.offset, size: entry.size },
                Kind::SymbolicLink | Kind::HardLink => Place::Link(link_target(&path, &entry)),
                Kind::Character | Kind::Block | Kind::Directory | Kind::Fifo => continue,
            };
            places.insert(path, place);
        }
        drop(reader);
        Ok((file, is_marked.then_some(places)))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Self::Directory(root) => root.join(path).is_file(),
            Self::Tar { places, .. } => places.contains_key(path),
        }
    }

    /// The content of a file.
    pub(crate) fn open(&self, path: &str) -> Result<Box<dyn Read + Send + '_>> {
        let missing = || invalid(format!("{path} is missing in the archive"));
        match self {
            Self::Directory(root) => {
                let is_inside =
                    Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
                if !is_inside {
                    return Err(invalid(format!("{path:?} is no path in the archive")));
                }
                let file = root.join(path);
                Ok(Box::new(File::open(&file).context(|| format!("open {}", file.display()))?))
            }
            Self::Tar { file, places } => {
                let mut path = path.to_owned();
                for _ in 0..LINKS_MAX {
                    match places.get(&path).ok_or_else(missing)? {
                        Place::Content { offset, size } => {
                            let end = offset.checked_add(*size).ok_or_else(missing)?;
                            return Ok(Box::new(At { file, position: *offset, end }));
                        }
                        Place::Link(target) => path.clone_from(target),
                    }
                }
                Err(missing())
            }
        }
    }

    /// A small file.
    pub(crate) fn document(&self, path: &str, limits: &Limits) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let limit = limits.document_bytes_max;
        self.open(path)?.take(limit + 1).read_to_end(&mut bytes).context(|| format!("read {path}"))?;
        if bytes.len() as u64 > limit {
            return Err(ImageError::TooLarge { what: format!("{path} in the archive"), limit });
        }
        Ok(bytes)
    }

    /// A small blob, checked.
    pub(crate) fn blob(&self, digest: &Digest, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = self.document(&blob_path(digest), limits)?;
        crate::layer::check(&blob_path(digest), digest, &Digest::of(&bytes))?;
        Ok(bytes)
    }
}

pub(crate) fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Docker links layers that several images share: `../ID/layer.tar`.
fn link_target(path: &str, entry: &tar::Entry) -> String {
    let target = String::from_utf8_lossy(&entry.link).into_owned();
    if entry.kind == Kind::HardLink {
        return target;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Reads a part of a file, wherever others read.
struct At<'a> {
    file: &'a File,
    position: u64,
    end: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
