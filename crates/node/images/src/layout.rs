//! Writes images: OCI layouts as tar files, for tests, for releases, and from directories.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Digest, ImageConfig,
    document::{
        Configuration, Descriptor, Manifest, OCI_CONFIG, OCI_INDEX, OCI_LAYER, OCI_MANIFEST, Platform,
    },
    error::{Context, Result, invalid},
    import::DEFAULT_PATH,
    merged::DEPTH_MAX,
    tar::{Entry, Kind},
    tar_write::Writer,
};

/// A file of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory {
        /// Its permissions.
        mode: u32,
    },
    /// A file.
    File {
        /// Its permissions.
        mode: u32,
        /// Its content.
        content: Vec<u8>,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: String,
    },
    /// Hides what lower layers have under this name.
    Whiteout,
}

/// An image that is made here. Files belong to root, and nothing in it depends on the time.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    name: String,
    config: ImageConfig,
    layers: Vec<Vec<(String, Node)>>,
}

/// Programs of busybox that images of tests use.
const APPLETS: &[&str] = &[
    "[",
    "ash",
    "awk",
    "base64",
    "basename",
    "cat",
    "chmod",
    "chown",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "free",
    "getopt",
    "grep",
    "head",
    "hostname",
    "httpd",
    "id",
    "ifconfig",
    "ip",
    "kill",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mknod",
    "mktemp",
    "mount",
    "mv",
    "nc",
    "netstat",
    "nproc",
    "nslookup",
    "ping",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "stty",
    "sync",
    "tail",
    "tar",
    "tee",
    "telnet",
    "test",
    "time",
    "timeout",
    "top",
    "touch",
    "tr",
    "true",
    "tty",
    "umount",
    "uname",
    "uniq",
    "vi",
    "wc",
    "wget",
    "which",
    "whoami",
    "xargs",
    "yes",
];

impl Layout {
    /// An image without layers.
    pub fn new(name: &str, config: ImageConfig) -> Self {
        Self { name: name.to_owned(), config, layers: Vec::new() }
    }

    /// An image of busybox, from a static program: `sh` and its friends, users `root` and `nobody`, a writable `/tmp`.
    pub fn busybox(name: &str, program: &Path) -> io::Result<Self> {
        let mut files =
            vec![("bin/busybox".to_owned(), Node::File { mode: 0o755, content: fs::read(program)? })];
        for applet in APPLETS {
            files.push((format!("bin/{applet}"), Node::Link { target: "busybox".to_owned() }));
        }
        for directory in ["bin", "dev", "etc", "home", "proc", "root", "run", "sys", "usr", "usr/bin", "var"]
        {
            let mode = if directory == "root" { 0o700 } else { 0o755 };
            files.push((directory.to_owned(), Node::Directory { mode }));
        }
        files.push(("tmp".to_owned(), Node::Directory { mode: 0o1777 }));
        for (path, content) in [
            ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"),
            ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
        ] {
            files.push((path.to_owned(), Node::File { mode: 0o644, content: content.as_bytes().to_vec() }));
        }
        let config = ImageConfig {
            command: vec!["sh".to_owned()],
            env: vec![DEFAULT_PATH.to_owned()],
            ..ImageConfig::default()
        };
        Ok(Self::new(name, config).layer(files))
    }

    /// One layer more, on top of those before.
    #[must_use]
    pub fn layer(mut self, files: impl IntoIterator<Item = (String, Node)>) -> Self {
        self.layers.push(files.into_iter().collect());
        self
    }

    /// Writes an OCI layout as a tar file.
    pub fn write_tar(&self, target: impl Write) -> io::Result<()> {
        let mut files = BTreeMap::new();
        let mut layers = Vec::new();
        let mut diff_ids = Vec::new();
        for layer in &self.layers {
            let content = layer_tar(layer)?;
            let descriptor = blob(&mut files, OCI_LAYER, content);
            diff_ids.push(descriptor.digest.clone());
            layers.push(descriptor);
        }
        let config = Configuration::new(self.config.clone(), diff_ids);
        let config = blob(&mut files, OCI_CONFIG, json(&config)?);
        let manifest = Manifest { schema_version: 2, media_type: OCI_MANIFEST.to_owned(), config, layers };
        let mut manifest = blob(&mut files, OCI_MANIFEST, json(&manifest)?);
        manifest.platform = Some(Platform::own());
        manifest.annotations.insert("io.containerd.image.name".to_owned(), self.name.clone());
        let tag = self.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        manifest.annotations.insert("org.opencontainers.image.ref.name".to_owned(), tag.to_owned());
        let index =
            serde_json::json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [manifest] });
        files.insert("index.json".to_owned(), json(&index)?);
        files.insert("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
        let mut writer = Writer::new(target);
        for directory in ["blobs", "blobs/sha256"] {
            writer.add(&entry(directory.into(), Kind::Directory, 0o755, 0), io::empty())?;
        }
        for (path, content) in files {
            writer.add(
                &entry(path.into_bytes(), Kind::File, 0o644, content.len() as u64),
                content.as_slice(),
            )?;
        }
        writer.finish().map(drop)
    }
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

fn blob(files: &mut BTreeMap<String, Vec<u8>>, media_type: &str, content: Vec<u8>) -> Descriptor {
    let digest = Digest::of(&content);
    let descriptor = Descriptor {
        media_type: media_type.to_owned(),
        digest: digest.to_string(),
        size: content.len() as u64,
        platform: None,
        annotations: BTreeMap::new(),
        urls: Vec::new(),
    };
    files.insert(crate::archive::blob_path(&digest), content);
    descriptor
}

fn entry(path: Vec<u8>, kind: Kind, mode: u32, size: u64) -> Entry {
    Entry {
        path,
        link: Vec::new(),
        kind,
        mode,
        uid: 0,
        gid: 0,
        modified: 0,
        size,
        device: (0, 0),
        attributes: BTreeMap::new(),
        offset: 0,
    }
}

/// The archive of a layer, sorted by path.
fn layer_tar(files: &[(String, Node)]) -> io::Result<Vec<u8>> {
    let mut sorted: Vec<&(String, Node)> = files.iter().collect();
    sorted.sort_by(|left, right| left.0.cmp(&right.0));
    let mut writer = Writer::new(Vec::new());
    for (path, node) in sorted {
        let path = path.clone();
        match node {
            Node::Directory { mode } => {
                writer.add(&entry(path.into(), Kind::Directory, *mode, 0), io::empty())?
            }
            Node::File { mode, content } => {
                writer
                    .add(&entry(path.into(), Kind::File, *mode, content.len() as u64), content.as_slice())?;
            }
            Node::Link { target } => {
                let mut link = entry(path.into(), Kind::SymbolicLink, 0o777, 0);
                link.link = target.clone().into_bytes();
                writer.add(&link, io::empty())?;
            }
            Node::Whiteout => {
                let (folder, name) =
                    path.rsplit_once('/').map_or(("", path.as_str()), |(folder, name)| (folder, name));
                let separator = if folder.is_empty() { "" } else { "/" };
                let hidden = format!("{folder}{separator}.wh.{name}");
                writer.add(&entry(hidden.into(), Kind::File, 0o644, 0), io::empty())?;
            }
        }
    }
    writer.finish()
}

/// A directory that becomes a layer.
pub(crate) struct LayerDirectory<'a>(pub(crate) &'a Path);

impl LayerDirectory<'_> {
    /// Writes everything in it as a tar file. Links are kept as links, sockets left out.
    pub(crate) fn write_tar(&self, target: &Path) -> Result<()> {
        let file = File::create_new(target).context(|| format!("write {}", target.display()))?;
        let mut writer = Writer::new(BufWriter::new(file));
        let mut left = vec![(PathBuf::new(), 0)];
        while let Some((path, depth)) = left.pop() {
            let full = self.0.join(&path);
            let what = || format!("read {}", full.display());
            let metadata = fs::symlink_metadata(&full).context(what)?;
            if depth > DEPTH_MAX {
                return Err(invalid(format!("{} is too deep", full.display())));
            }
            if metadata.is_dir() {
                let mut names: Vec<PathBuf> = fs::read_dir(&full)
                    .and_then(|entries| entries.map(|entry| Ok(path.join(entry?.file_name()))).collect())
                    .context(what)?;
                // The last is taken first.
                names.sort_by(|left, right| right.cmp(left));
                left.extend(names.into_iter().map(|name| (name, depth + 1)));
            }
            add_path(&mut writer, &path, &full, &metadata).context(what)?;
        }
        writer.finish().context(|| format!("write {}", target.display())).map(drop)
    }
}

fn add_path(
    writer: &mut Writer<impl Write>,
    path: &Path,
    full: &Path,
    metadata: &fs::Metadata,
) -> io::Result<()> {
    let kind = metadata.file_type();
    let kind = if kind.is_dir() {
        Kind::Directory
    } else if kind.is_symlink() {
        Kind::SymbolicLink
    } else if kind.is_file() {
        Kind::File
    } else if kind.is_fifo() {
        Kind::Fifo
    } else if kind.is_char_device() {
        Kind::Character
    } else if kind.is_block_device() {
        Kind::Block
    } else {
        return Ok(());
    };
    let mut name = b"./".to_vec();
    name.extend(path.as_os_str().as_bytes());
    let size = if kind == Kind::File { metadata.size() } else { 0 };
    let mut head = entry(name, kind, metadata.mode() & 0o7777, size);
    (head.uid, head.gid, head.modified) = (metadata.uid(), metadata.gid(), metadata.mtime());
    let device = metadata.rdev();
    head.device = (rustix::fs::major(device), rustix::fs::minor(device));
    match kind {
        Kind::SymbolicLink => {
            head.link = fs::read_link(full)?.into_os_string().into_vec();
            writer.add(&head, io::empty())
        }
        Kind::File => {
            let file = File::open(full)?;
            head.attributes = capabilities(&file);
            writer.add(&head, file)
        }
        Kind::HardLink | Kind::Character | Kind::Block | Kind::Directory | Kind::Fifo => {
            writer.add(&head, io::empty())
        }
    }
}

/// The capabilities of a program, which a layer keeps.
fn capabilities(file: &File) -> BTreeMap<String, Vec<u8>> {
    const NAME: &str = "security.capability";
    let mut value = [0_u8; 64];
    match rustix::fs::fgetxattr(file, NAME, &mut value[..]) {
        Ok(length) => BTreeMap::from([(NAME.to_owned(), value[..length].to_vec())]),
        Err(_) => BTreeMap::new(),
    }
}
