//! Where the files of a server are, and the keys that they are encrypted with.

use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use lazaret_store::{EncryptionKeys, Options};

/// A key file is a few lines; what is longer is no key file.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;
/// Other users must not read the keys, nor anyone but the owner write them. A group may read: it is how secrets are
/// mounted.
const KEY_FILE_MODE_FORBIDDEN: u32 = 0o027;

/// `--data-dir` and `--encryption-key-file`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Where the store, certificates and the kubeconfig are kept [default: lazaret in the user's data directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Encrypt the store with the first key of this file, read it with all of them; see `lazaret store new-key`
    #[arg(long, value_name = "PATH")]
    pub(crate) encryption_key_file: Option<PathBuf>,
}

impl Place {
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        if let Some(folder) = &self.data_dir {
            return Ok(folder.clone());
        }
        let base = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share"));
        let base =
            base.or_else(home).context("find the user's data directory: set HOME or give --data-dir")?;
        Ok(base.join("lazaret"))
    }

    /// The store's own directory.
    pub(crate) fn store(&self) -> Result<PathBuf> {
        Ok(self.folder()?.join("store"))
    }

    /// Options of a store with the keys of the key file.
    pub(crate) fn options(&self) -> Result<Options> {
        let encryption = match &self.encryption_key_file {
            Some(path) => {
                let name = path.display().to_string();
                let text = read_keys(path)?;
                EncryptionKeys::parse(&text, &name).with_context(|| format!("read keys from {name}"))?
            }
            None => EncryptionKeys::default(),
        };
        Ok(Options { encryption, ..Options::default() })
    }
}

/// The text of a key file that other users cannot read.
pub(crate) fn read_keys(path: &Path) -> Result<String> {
    let doing = || format!("read keys from {}", path.display());
    let file = fs::File::open(path).with_context(doing)?;
    let mode = file.metadata().with_context(doing)?.permissions().mode();
    if mode & KEY_FILE_MODE_FORBIDDEN != 0 {
        bail!("{} is open to others (mode {:04o}): chmod 600 {0}", path.display(), mode & 0o7777);
    }
    let mut text = String::new();
    let read = file.take(KEY_FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(doing)?;
    if read as u64 > KEY_FILE_BYTES_MAX {
        bail!("{} is longer than {KEY_FILE_BYTES_MAX} bytes: it is no key file", path.display());
    }
    Ok(text)
}
